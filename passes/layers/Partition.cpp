// The partition algorithm of Partition.h: cuts, atoms, periods.
#include "passes/layers/Partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace mt::passes {
namespace {

/// Live ranges of main-path values: a value is carried over every position in [producer, lastUse).
struct Liveness {
  std::vector<int32_t> lastUse;
  std::vector<std::vector<int32_t>> users;

  explicit Liveness(const PartitionGraph &graph) : lastUse(graph.values.size(), -1), users(graph.values.size()) {
    for (int32_t op = 0; op < static_cast<int32_t>(graph.ops.size()); ++op)
      for (int32_t value : graph.ops[op].operands) {
        lastUse[value] = op;
        users[value].push_back(op);
      }
  }
};

/// For each position (after op i) how many values are carried, and the sum of their indices: one value is then known.
struct Carried {
  std::vector<int32_t> count;
  std::vector<int64_t> bytes, indexSum;

  Carried(const PartitionGraph &graph, const Liveness &live, const std::set<int32_t> &shared)
      : count(graph.ops.size() + 1, 0), bytes(graph.ops.size() + 1, 0), indexSum(graph.ops.size() + 1, 0) {
    for (int32_t v = 0; v < static_cast<int32_t>(graph.values.size()); ++v) {
      int32_t from = graph.values[v].producer, to = live.lastUse[v];
      if (to <= from || shared.contains(v))
        continue;
      count[from] += 1, count[to] -= 1;
      bytes[from] += graph.values[v].bytes, bytes[to] -= graph.values[v].bytes;
      indexSum[from] += v, indexSum[to] -= v;
    }
    for (size_t i = 1; i < count.size(); ++i)
      count[i] += count[i - 1], bytes[i] += bytes[i - 1], indexSum[i] += indexSum[i - 1];
  }
};

bool usesParameter(const PartitionOp &op) { return op.parameterBytes > 0; }
bool hasParameter(const PartitionGraph &graph, int32_t begin, int32_t end) {
  return std::any_of(graph.ops.begin() + begin, graph.ops.begin() + end, usesParameter);
}
bool hasMatrix(const PartitionGraph &graph, LayerRange range) {
  return std::any_of(graph.ops.begin() + range.begin, graph.ops.begin() + range.end,
                     [](auto &op) { return op.readsMatrix; });
}
int32_t parameterOps(const PartitionGraph &graph, int32_t begin, int32_t end) {
  return std::count_if(graph.ops.begin() + begin, graph.ops.begin() + end, usesParameter);
}
int64_t parameterBytes(const PartitionGraph &graph, LayerRange range) {
  return std::accumulate(graph.ops.begin() + range.begin, graph.ops.begin() + range.end, int64_t(0),
                         [](int64_t sum, const PartitionOp &op) { return sum + op.parameterBytes; });
}

/// No value is carried where all that live are shared: behind an encoder, say.
std::vector<int32_t> cutsOf(const Carried &carried, int32_t begin, int32_t end) {
  std::vector<int32_t> cuts;
  for (int32_t i = begin; i + 1 < end; ++i)
    if (carried.count[i] <= 1)
      cuts.push_back(i + 1);
  return cuts;
}

bool onlyViews(const PartitionGraph &graph, int32_t begin, int32_t end) {
  return std::all_of(graph.ops.begin() + begin, graph.ops.begin() + end, [](auto &op) { return op.isView; });
}

/// Atoms from cuts: stretches without a parameter join the one before them (or the one after, at the start). Views
/// before the last stretch join that: they belong to the head, and the last block stays equal to the others.
std::vector<LayerRange> atomsOf(const PartitionGraph &graph, std::vector<int32_t> cuts) {
  while (cuts.size() > 1 && onlyViews(graph, cuts[cuts.size() - 2], cuts.back()))
    cuts.pop_back();
  std::vector<LayerRange> atoms;
  int32_t begin = 0, size = graph.ops.size();
  for (size_t i = 0; i <= cuts.size(); ++i) {
    int32_t end = i < cuts.size() ? cuts[i] : size;
    if (!atoms.empty() && (!hasParameter(graph, begin, end) || !hasParameter(graph, atoms.back().begin, atoms.back().end)))
      atoms.back().end = end;
    else
      atoms.push_back({begin, end});
    begin = end;
  }
  return atoms;
}

/// The value whose sharing opens the most new cuts in [begin, end) with uses in at least three of the stretches that
/// they make: what encoder output and position bias look like, and a residual does not.
std::optional<int32_t> findShared(const PartitionGraph &graph, const Liveness &live, const std::set<int32_t> &shared,
                                  int32_t begin, int32_t end) {
  std::optional<int32_t> best;
  size_t most = 1;
  for (int32_t v = 0; v < static_cast<int32_t>(graph.values.size()); ++v) {
    if (shared.contains(v) || live.users[v].size() < 3 || live.lastUse[v] < begin || graph.values[v].producer >= end)
      continue;
    std::set<int32_t> with = shared;
    with.insert(v);
    Carried carried(graph, live, with);
    std::vector<int32_t> cuts;
    for (int32_t cut : cutsOf(carried, begin, end))
      if (cut > graph.values[v].producer + 1 && cut <= live.lastUse[v])
        cuts.push_back(cut);
    std::set<int64_t> stretches;
    for (int32_t user : live.users[v])
      stretches.insert(std::upper_bound(cuts.begin(), cuts.end(), user) - cuts.begin());
    if (stretches.size() >= 3 && cuts.size() > most)
      most = cuts.size(), best = v;
  }
  return best;
}

template <typename T> T median(std::vector<T> sizes) {
  std::nth_element(sizes.begin(), sizes.begin() + sizes.size() / 2, sizes.end());
  return sizes[sizes.size() / 2];
}

/// How many operations with parameters an atom usually has, at least four.
int32_t usualParameters(const PartitionGraph &graph, const std::vector<LayerRange> &atoms) {
  std::vector<int32_t> sizes;
  for (LayerRange atom : atoms)
    sizes.push_back(parameterOps(graph, atom.begin, atom.end));
  return atoms.size() < 3 ? 4 : std::max(4, median(sizes));
}
int64_t usualParameterBytes(const PartitionGraph &graph, const std::vector<LayerRange> &atoms) {
  std::vector<int64_t> sizes;
  for (LayerRange atom : atoms)
    sizes.push_back(parameterBytes(graph, atom));
  return atoms.size() < 3 ? 0 : median(sizes);
}

/// Values to share: asked only of stretches that hold far more parameters than the usual one.
std::set<int32_t> sharedValues(const PartitionGraph &graph, const Liveness &live) {
  std::set<int32_t> shared;
  for (int round = 0; round < 8; ++round) {
    std::vector<LayerRange> atoms = atomsOf(graph, cutsOf(Carried(graph, live, shared), 0, graph.ops.size()));
    int32_t most = 2 * usualParameters(graph, atoms);
    std::optional<int32_t> found;
    for (size_t i = 0; i < atoms.size() && !found; ++i)
      if (parameterOps(graph, atoms[i].begin, atoms[i].end) > most)
        found = findShared(graph, live, shared, atoms[i].begin, atoms[i].end);
    if (!found)
      break;
    shared.insert(*found);
  }
  return shared;
}

/// Cuts [begin, end) where the fewest bytes are carried: local minima that leave a parameter on both sides.
void splitNarrow(const PartitionGraph &graph, const Carried &carried, LayerRange atom, std::vector<LayerRange> &atoms) {
  int64_t before = INT64_MAX;
  int32_t begin = atom.begin;
  for (int32_t i = begin; i + 1 < atom.end; ++i) {
    bool minimum = carried.bytes[i] <= before && (i + 2 >= atom.end || carried.bytes[i] < carried.bytes[i + 1]);
    before = carried.bytes[i];
    if (minimum && hasParameter(graph, begin, i + 1) && hasParameter(graph, i + 1, atom.end)) {
      atoms.push_back({begin, i + 1});
      begin = i + 1;
    }
  }
  atoms.push_back({begin, atom.end});
}

/// Splits atoms that hold far more parameters than the usual one: what skip connections span. A block beside whose
/// products small ones stand has more of them and hardly more bytes: it stays whole.
std::vector<LayerRange> splitWide(const PartitionGraph &graph, const Carried &carried, const std::vector<LayerRange> &atoms) {
  int32_t most = atoms.size() < 3 ? 3 : 2 * usualParameters(graph, atoms);
  int64_t mostBytes = 2 * usualParameterBytes(graph, atoms);
  std::vector<LayerRange> split;
  for (LayerRange atom : atoms)
    if (parameterOps(graph, atom.begin, atom.end) > most && parameterBytes(graph, atom) > mostBytes)
      splitNarrow(graph, carried, atom, split);
    else
      split.push_back(atom);
  return split;
}

/// `c`: carried, `s`: shared, else by its place in the atom.
std::string operandText(const PartitionGraph &graph, int32_t value, LayerRange atom, const std::set<int32_t> &shared) {
  int32_t producer = graph.values[value].producer;
  return producer >= atom.begin ? std::to_string(producer - atom.begin) : shared.contains(value) ? "s" : "c";
}

/// Text that is equal for atoms of equal structure: operations, their types (`typed`), and how operands are connected.
std::string structureOf(const PartitionGraph &graph, LayerRange atom, const std::set<int32_t> &shared,
                        bool typed = true) {
  std::string text;
  for (int32_t i = atom.begin; i < atom.end; ++i) {
    const PartitionOp &op = graph.ops[i];
    text.append(op.name).append(1, ':').append(typed ? op.types : "").append(1, '(');
    for (int32_t value : op.operands)
      text.append(operandText(graph, value, atom, shared)).append(1, ',');
    for (const std::string &other : op.others)
      text.append(typed ? other : "").append(1, ',');
    text += ')';
  }
  return text;
}

/// Text that is equal for atoms of one kind: which operations read weights, of which types, and which of them shared
/// values.
std::string kindOf(const PartitionGraph &graph, LayerRange atom, const std::set<int32_t> &shared) {
  std::string text;
  for (int32_t i = atom.begin; i < atom.end; ++i) {
    const PartitionOp &op = graph.ops[i];
    if (!usesParameter(op))
      continue;
    text.append(op.name).append(1, '(');
    for (int32_t value : op.operands)
      text.append(operandText(graph, value, atom, shared) == "s" ? "s," : "v,");
    for (const std::string &weight : op.weights)
      text.append(weight).append(1, ',');
    text += ')';
  }
  return text;
}

/// Numbers that are equal where texts are.
std::vector<int32_t> numbered(const std::vector<std::string> &texts) {
  std::map<std::string, int32_t> known;
  std::vector<int32_t> numbers;
  for (const std::string &text : texts)
    numbers.push_back(known.emplace(text, known.size()).first->second);
  return numbers;
}

/// The layers of a sequence of atoms.
struct Layers {
  const PartitionGraph &graph;
  const std::vector<LayerRange> &atoms;
  std::vector<int32_t> kinds, structures, weights; ///< of atoms; weights: operations, none without a matrix
  std::vector<LayerRange> layers;

  /// `typed`: kinds tell types of weights apart; else they are structures without types.
  Layers(const PartitionGraph &graph, const std::vector<LayerRange> &atoms, const std::set<int32_t> &shared, bool typed)
      : graph(graph), atoms(atoms) {
    std::vector<std::string> kindTexts, structureTexts;
    for (LayerRange atom : atoms) {
      kindTexts.push_back(typed ? kindOf(graph, atom, shared) : structureOf(graph, atom, shared, false));
      structureTexts.push_back(structureOf(graph, atom, shared));
      weights.push_back(hasMatrix(graph, atom) ? atom.end - atom.begin : 0);
    }
    kinds = numbered(kindTexts), structures = numbered(structureTexts);
  }

  /// Around the best repetition of atoms [begin, end). False if nothing in them repeats.
  bool split(int32_t begin, int32_t end) {
    Repetition found = findRepetition(kinds, begin, end, weights);
    if (found.count == 0)
      return false;
    int32_t size = sizeOfLayer(found), from = phaseOf(found, begin, size), stop = from + found.period * found.count;
    splitOrJoin(begin, from);
    for (int32_t i = from; i < stop; i += size)
      layers.push_back({atoms[i].begin, atoms[i + size - 1].end});
    splitOrJoin(stop, end);
    return true;
  }

  /// Where the repetition may as well begin, as it is the latest place: where the fewest structures result.
  int32_t phaseOf(const Repetition &found, int32_t begin, int32_t size) const {
    int32_t best = found.begin;
    size_t fewest = SIZE_MAX;
    for (int32_t from = found.begin; from >= begin; --from) {
      if (from < found.begin && kinds[from] != kinds[from + found.period])
        break;
      std::set<std::vector<int32_t>> seen;
      for (int32_t i = from; i < from + found.period * found.count; i += size)
        seen.emplace(structures.begin() + i, structures.begin() + i + size);
      if (seen.size() < fewest)
        fewest = seen.size(), best = from;
    }
    return best;
  }
  void splitOrJoin(int32_t begin, int32_t end) {
    if (begin < end && !split(begin, end))
      join(begin, end);
  }

  /// How many atoms of a period are a layer: the shortest distance at which a kind with a matrix recurs in it, if the
  /// period consists of such stretches and every kind has one place in them; one, if it does not and holds far more
  /// than its largest atom; else all of them.
  int32_t sizeOfLayer(const Repetition &found) const {
    int32_t shortest = found.period;
    std::map<int32_t, int32_t> last;
    for (int32_t i = 0; i < found.period; ++i)
      if (int32_t atom = found.begin + i; hasMatrix(graph, atoms[atom])) {
        auto [before, first] = last.try_emplace(kinds[atom], i);
        shortest = first ? shortest : std::min(shortest, i - std::exchange(before->second, i));
      }
    bool fits = found.period % shortest == 0;
    for (auto [kind, place] : last)
      for (int32_t i = 0; i < found.period; ++i)
        fits &= kinds[found.begin + i] != kind || i % shortest == place % shortest;
    if (fits)
      return shortest;
    int64_t all = 0, largest = 0;
    for (int32_t i = found.begin; i < found.begin + found.period; ++i) {
      int64_t bytes = parameterBytes(graph, atoms[i]);
      all += bytes, largest = std::max(largest, bytes);
    }
    return all > 4 * largest ? 1 : found.period;
  }

  /// One layer, or several where it would have more parameters than an atom usually has.
  void join(int32_t begin, int32_t end) {
    int32_t usual = usualParameters(graph, atoms);
    LayerRange layer = atoms[begin];
    for (int32_t i = begin + 1; i < end; ++i)
      if (parameterOps(graph, layer.begin, atoms[i].end) <= usual)
        layer.end = atoms[i].end;
      else
        layers.push_back(std::exchange(layer, atoms[i]));
    layers.push_back(layer);
  }
};
} // namespace

Repetition findRepetition(const std::vector<int32_t> &symbols, int32_t begin, int32_t end,
                          const std::vector<int32_t> &weights) {
  Repetition best;
  int64_t covered = 0;
  std::vector<int64_t> prefix(symbols.size() + 1, 0);
  for (size_t i = 0; i < symbols.size(); ++i)
    prefix[i + 1] = prefix[i] + weights[i];
  for (int32_t period = 1; 2 * period <= end - begin; ++period)
    for (int32_t i = begin, matches = 0; i + period <= end; ++i) {
      bool match = i + period < end && symbols[i] == symbols[i + period];
      matches = match ? matches + 1 : 0;
      bool ends = match && (i + period + 1 >= end || symbols[i + 1] != symbols[i + 1 + period]);
      if (!ends || matches < period)
        continue;
      int32_t stop = i + period + 1, count = (matches + period) / period, from = stop - count * period;
      if (prefix[stop] - prefix[from] > covered) {
        covered = prefix[stop] - prefix[from];
        best = {from, period, count};
      }
    }
  return best;
}

std::vector<LayerRange> partition(const PartitionGraph &graph) {
  if (graph.ops.empty())
    return {};
  Liveness live(graph);
  std::set<int32_t> shared = sharedValues(graph, live);
  Carried carried(graph, live, shared);
  std::vector<LayerRange> atoms = splitWide(graph, carried, atomsOf(graph, cutsOf(carried, 0, graph.ops.size())));
  for (bool typed : {true, false})
    if (Layers result(graph, atoms, shared, typed); result.split(0, atoms.size()))
      return result.layers;
  return atoms;
}

} // namespace mt::passes
