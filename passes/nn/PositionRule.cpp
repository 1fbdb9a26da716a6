// Comparisons with distance (query - key) and with the key alone change their truth at a few places. Between those, the
// formula is constant: it is evaluated once for each cell of distances by keys that some query and key lie in.
#include "passes/nn/PositionRule.h"

#include <set>

using namespace mlir;

namespace mt::passes {
namespace {
constexpr size_t kMostWork = 1 << 20; ///< evaluations of a part of a formula in a cell

/// What a cell says, or a row of cells.
enum class Sight : uint8_t { nobody, seen, hidden, both };
Sight joined(Sight a, Sight b) { return a == Sight::nobody || a == b ? b : b == Sight::nobody ? a : Sight::both; }

class Cells {
public:
  Cells(const PositionRule &rule, ArrayRef<ExpressionRef> formulas, ScoreShape shape)
      : rule(rule), formulas(formulas), shape(shape), distances{1 - shape.keys}, keys{0} {}
  std::optional<PositionRule> find();

private:
  const PositionRule &rule;
  ArrayRef<ExpressionRef> formulas;
  ScoreShape shape;
  std::set<int64_t> distances, keys; ///< where cells begin
  DenseSet<const Expression *> visited;

  void cut(std::set<int64_t> &starts, int64_t at, int64_t end) {
    if (at > *starts.begin() && at < end)
      starts.insert(at);
  }
  void cutDistance(int64_t at) { cut(distances, at, shape.queries); }
  void cutKey(int64_t at) { cut(keys, at, shape.keys); }
  bool cutAt(const Affine &number);
  bool collect(const Expression &e);
  bool evaluate(const Expression &e, int64_t distance, int64_t key, DenseMap<const Expression *, bool> &known) const;
  bool sees(int64_t distance, int64_t key) const;
  Sight cell(size_t i, size_t j) const;
  std::optional<PositionRule> withPrefix(size_t prefixCells) const;

  SmallVector<int64_t> distanceStarts, keyStarts; ///< of cells, and the end of the last
  SmallVector<Sight> sights;                      ///< a row for each distance
  Sight at(size_t i, size_t j) const { return sights[i * (keyStarts.size() - 1) + j]; }
};

/// Cuts where a number that steps by one with the distance or with the key is zero, and after it.
bool Cells::cutAt(const Affine &number) {
  ArrayRef<int64_t> c = number.coefficients;
  auto isStep = [](int64_t x) { return x == 1 || x == -1; };
  if (c[kBatch] != 0 || c[kHead] != 0)
    return false;
  bool withKey = c[kQuery] == 0 && isStep(c[kKey]);
  bool withDistance = isStep(c[kQuery]) && (c[kKey] == -c[kQuery] || shape.keys == 1);
  if (!withKey && !withDistance)
    return number.isConstant();
  int64_t zero = -number.constant * (withKey ? c[kKey] : c[kQuery]);
  for (int64_t place : {zero, zero + 1})
    withKey ? cutKey(place) : cutDistance(place);
  return true;
}

bool Cells::collect(const Expression &e) {
  if (!visited.insert(&e).second)
    return true;
  switch (e.kind) {
  case Expression::affine:
    return e.number.isConstant();
  case Expression::compare:
    return !e.left && cutAt(e.number);
  case Expression::conjunction:
  case Expression::disjunction:
    return collect(*e.left) && collect(*e.right);
  case Expression::negation:
    return collect(*e.left);
  default:
    return false;
  }
}

bool Cells::evaluate(const Expression &e, int64_t distance, int64_t key,
                     DenseMap<const Expression *, bool> &known) const {
  if (auto found = known.find(&e); found != known.end())
    return found->second;
  auto part = [&](const ExpressionRef &inner) { return evaluate(*inner, distance, key, known); };
  bool value = false;
  if (e.kind == Expression::conjunction)
    value = part(e.left) && part(e.right);
  else if (e.kind == Expression::disjunction)
    value = part(e.left) || part(e.right);
  else if (e.kind == Expression::negation)
    value = !part(e.left);
  else {
    int64_t number =
        e.number.coefficients[kQuery] * (distance + key) + e.number.coefficients[kKey] * key + e.number.constant;
    value = e.kind == Expression::compare ? holds(e.predicate, number) : number != 0;
  }
  return known[&e] = value;
}

bool Cells::sees(int64_t distance, int64_t key) const {
  if (!((rule.low <= distance && distance <= rule.high) || key < rule.prefix))
    return false;
  DenseMap<const Expression *, bool> known;
  return llvm::all_of(formulas, [&](const ExpressionRef &e) { return evaluate(*e, distance, key, known); });
}

/// A query is the distance and the key together: some cells have none.
Sight Cells::cell(size_t i, size_t j) const {
  int64_t first = distanceStarts[i] + keyStarts[j], last = distanceStarts[i + 1] - 1 + keyStarts[j + 1] - 1;
  if (first >= shape.queries || last < 0)
    return Sight::nobody;
  return sees(distanceStarts[i], keyStarts[j]) ? Sight::seen : Sight::hidden;
}

/// The rule whose prefix is so many cells of keys.
std::optional<PositionRule> Cells::withPrefix(size_t prefixCells) const {
  PositionRule found;
  found.prefix = prefixCells == 0 ? 0 : keyStarts[prefixCells];
  bool any = false, ended = false, hiddenBefore = false;
  for (size_t i = 0; i + 1 < distanceStarts.size(); ++i) {
    Sight row = Sight::nobody;
    for (size_t j = 0; j + 1 < keyStarts.size(); ++j)
      if (j >= prefixCells)
        row = joined(row, at(i, j));
      else if (at(i, j) == Sight::hidden)
        return std::nullopt;
    if (row == Sight::both || (row == Sight::seen && ended))
      return std::nullopt;
    if (row == Sight::seen && !std::exchange(any, true) && hiddenBefore)
      found.low = distanceStarts[i];
    if (row == Sight::hidden && any && !std::exchange(ended, true))
      found.high = distanceStarts[i] - 1;
    hiddenBefore |= row == Sight::hidden;
  }
  bool emptyRow = prefixCells == 0 && (found.low > 0 || found.high < shape.queries - shape.keys);
  return any && !emptyRow ? std::optional(found) : std::nullopt;
}

std::optional<PositionRule> Cells::find() {
  for (const ExpressionRef &e : formulas)
    if (!collect(*e))
      return std::nullopt;
  cutDistance(rule.low);
  if (rule.high != INT64_MAX)
    cutDistance(rule.high + 1);
  cutKey(rule.prefix);
  if (distances.size() * keys.size() * (visited.size() + 1) > kMostWork)
    return std::nullopt;
  distanceStarts.assign(distances.begin(), distances.end());
  distanceStarts.push_back(shape.queries);
  keyStarts.assign(keys.begin(), keys.end());
  keyStarts.push_back(shape.keys);
  for (size_t i = 0; i + 1 < distanceStarts.size(); ++i)
    for (size_t j = 0; j + 1 < keyStarts.size(); ++j)
      sights.push_back(cell(i, j));
  for (size_t prefix = 0; prefix + 1 < keyStarts.size(); ++prefix)
    if (auto found = withPrefix(prefix))
      return found;
  return std::nullopt;
}
} // namespace

std::optional<PositionRule> conjunctionOf(const PositionRule &rule, ArrayRef<ExpressionRef> formulas,
                                          ScoreShape shape) {
  if (formulas.empty())
    return rule;
  if (shape.queries == 0 || shape.keys == 0)
    return std::nullopt;
  return Cells(rule, formulas, shape).find();
}

} // namespace mt::passes
