#include "compiler/onnx/RetieTensors.h"

#include "compiler/nn/Nn.h"

#include <fmt/format.h>

#include <map>
#include <set>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kSamples = 4096;
constexpr int64_t kSmallest = 1024; ///< smaller tensors may be equal by chance

bool isTable(const Candidate &candidate) {
  return llvm::any_of(candidate.argument.getUses(), [](OpOperand &use) {
    return isa<nn::EmbeddingOp, nn::GatherOp>(use.getOwner()) && use.getOperandNumber() == 0;
  });
}

// Places spread over a tensor: multiples of the golden ratio, all elements where there are few.
std::vector<int64_t> samplesOf(int64_t elements) {
  std::vector<int64_t> places;
  int64_t count = std::min(kSamples, elements);
  for (int64_t n = 0; n < count; ++n)
    places.push_back(count == elements ? n : static_cast<int64_t>(uint64_t(n) * 0x9E3779B97F4A7C15ULL % uint64_t(elements)));
  return places;
}

// Whether values differ too much among themselves to be equal to others by chance. Weights that once had 8 bits have few
// different ones.
bool areVaried(const std::vector<double> &values) {
  std::map<double, size_t> counts;
  for (double value : values)
    ++counts[value];
  auto rarer = [](auto &one, auto &other) { return one.second < other.second; };
  return counts.size() >= 32 && std::max_element(counts.begin(), counts.end(), rarer)->second < values.size() / 4;
}

// Whether element [i, j] of the table is element [j, i] of the matrix.
bool isTransposed(const TensorSource &table, const TensorSource &matrix) {
  int64_t rows = table.dims[0], columns = table.dims[1];
  std::vector<int64_t> here = samplesOf(table.elements), there;
  for (int64_t at : here)
    there.push_back(at % columns * rows + at / columns);
  Result<std::vector<double>> a = readElements(table, here), b = readElements(matrix, there);
  return a.ok() && b.ok() && *a == *b && areVaried(*a);
}

// Whether two tensors are one range of a file, and of values that a writer cannot have merged because they were equal by
// chance, such as gains of ones.
bool areTwins(const TensorSource &first, const TensorSource &second) {
  if (first.bytes.path.empty() || first.bytes.path != second.bytes.path || first.bytes.offset != second.bytes.offset ||
      first.dims != second.dims || first.type != second.type || first.elements < kSmallest)
    return false;
  Result<std::vector<double>> values = readElements(first, samplesOf(first.elements));
  return values.ok() && areVaried(*values);
}

// Whether two tensors that stand for one parameter of the original module hold the same numbers.
bool isRepeated(const TensorSource &first, const TensorSource &second) {
  if (first.dims != second.dims || first.type != second.type)
    return false;
  std::vector<int64_t> places = samplesOf(first.elements);
  Result<std::vector<double>> a = readElements(first, places), b = readElements(second, places);
  return a.ok() && b.ok() && *a == *b;
}

bool haveTurnedShapes(const TensorSource &table, const TensorSource &matrix) {
  return matrix.dims.size() == 2 && matrix.type == table.type && matrix.dims[0] == table.dims[1] &&
         matrix.dims[1] == table.dims[0];
}
bool mayBeTransposed(const TensorSource &table, const TensorSource &matrix) {
  return haveTurnedShapes(table, matrix) && table.elements >= kSmallest;
}

// A tensor in place of its copy; the names of the copy become names of the tensor.
void replace(Candidate &copy, Candidate &tensor, bool transposed) {
  Value original = tensor.argument, replaced = copy.argument;
  if (transposed) {
    OpBuilder builder = OpBuilder::atBlockBegin(tensor.argument.getOwner());
    original = nn::TransposeOp::create(builder, copy.argument.getLoc(), original, ArrayRef<int64_t>{1, 0});
  }
  replaced.replaceAllUsesWith(original);
  tensor.aliases.push_back({Alias::Kind::initializer, copy.source.name, transposed});
  for (Alias &alias : copy.aliases) {
    alias.transposed = alias.transposed != transposed;
    if (!llvm::is_contained(tensor.aliases, alias))
      tensor.aliases.push_back(alias);
  }
  copy.aliases.clear();
}

void retieCopies(std::vector<Candidate> &candidates, std::vector<std::string> &notes) {
  std::map<std::string, Candidate *> firsts; // by the parameter's name in the original module
  for (Candidate &candidate : candidates) {
    if (candidate.origin.kind != Origin::Kind::parameter || candidate.argument.use_empty())
      continue;
    auto [at, isNew] = firsts.try_emplace(candidate.origin.name, &candidate);
    Candidate &first = *at->second;
    bool turned = !isNew && mayBeTransposed(first.source, candidate.source) && isTransposed(first.source, candidate.source);
    if (isNew || (!turned && !isRepeated(first.source, candidate.source)))
      continue;
    replace(candidate, first, turned);
    notes.push_back(fmt::format("initializers '{}' and '{}' are copies of one parameter, '{}': they are trained as one tensor",
                                first.source.name, candidate.source.name, candidate.origin.name));
  }
}

void retieTwins(std::vector<Candidate> &candidates, std::vector<std::string> &notes) {
  std::map<std::pair<std::string, uint64_t>, Candidate *> firsts; // by file and offset
  for (Candidate &candidate : candidates) {
    const TensorSource &source = candidate.source;
    if (!isFloat(source.type) || source.bytes.path.empty() || candidate.argument.use_empty())
      continue;
    auto [at, isNew] = firsts.try_emplace({source.bytes.path, source.bytes.offset}, &candidate);
    Candidate &first = *at->second;
    if (isNew || !areTwins(first.source, source))
      continue;
    replace(candidate, first, false);
    notes.push_back(fmt::format("initializers '{}' and '{}' are the same bytes of {}: they are trained as one tensor",
                                first.source.name, source.name, source.bytes.path));
  }
}

bool isFolded(const Candidate &candidate) { return candidate.source.name.starts_with("onnx::MatMul_"); }

// Of a table that is looked up; and, where the exporter computed the transpose, of any parameter. The older one names
// what it computed of a linear layer's matrix by the product.
void retieTransposes(std::vector<Candidate> &candidates, const std::vector<std::string> &computed,
                     std::vector<std::string> &notes) {
  for (Candidate &table : candidates) {
    const bool isLookedUp = isTable(table), isParameter = table.origin.kind == Origin::Kind::parameter;
    if (table.source.dims.size() != 2 || !isFloat(table.source.type))
      continue;
    for (Candidate &matrix : candidates) {
      if (&matrix == &table || !haveTurnedShapes(table.source, matrix.source)) // of most pairs
        continue;
      const bool isComputed = llvm::is_contained(computed, matrix.source.name);
      const bool mayCopy = isComputed         ? isLookedUp || isParameter
                           : isFolded(matrix) ? !isFolded(table) && !table.argument.use_empty()
                                              : isLookedUp;
      if (isTable(matrix) || matrix.argument.use_empty() || !mayCopy ||
          !(isComputed || mayBeTransposed(table.source, matrix.source)) || !isTransposed(table.source, matrix.source))
        continue;
      replace(matrix, table, true);
      notes.push_back(fmt::format("initializer '{}' is a transposed copy of '{}': they are trained as one tensor, '{}'",
                                  matrix.source.name, table.source.name, table.source.name));
    }
  }
}

// A parameter that the exporter wrote down again as it was detached: it is that parameter's value at any time.
void retieDetached(std::vector<Candidate> &candidates) {
  for (Candidate &copy : candidates) {
    if (copy.origin.kind == Origin::Kind::parameter || stemOf(copy.source.name) != "detach" ||
        copy.argument.use_empty())
      continue;
    auto original = llvm::find_if(candidates, [&](const Candidate &one) {
      return one.origin.kind == Origin::Kind::parameter && isRepeated(one.source, copy.source);
    });
    if (original == candidates.end())
      continue;
    OpBuilder builder = OpBuilder::atBlockBegin(copy.argument.getOwner());
    copy.argument.replaceAllUsesWith(nn::DetachOp::create(builder, copy.argument.getLoc(), original->argument));
  }
}

// Where one name would be that of tensors that differ, the first has it.
void keepNamesApart(std::vector<Candidate> &candidates) {
  std::set<std::string> taken;
  for (const Candidate &candidate : candidates)
    taken.insert(candidate.source.name);
  for (Candidate &candidate : candidates)
    if (!candidate.argument.use_empty())
      llvm::erase_if(candidate.aliases, [&](const Alias &alias) {
        return alias.kind == Alias::Kind::module && !taken.insert(alias.name).second;
      });
}

} // namespace

std::vector<std::string> retieTensors(std::vector<Candidate> &candidates, const std::vector<std::string> &computed) {
  std::vector<std::string> notes;
  retieCopies(candidates, notes);
  retieTwins(candidates, notes);
  retieTransposes(candidates, computed, notes);
  retieDetached(candidates);
  keepNamesApart(candidates);
  return notes;
}

} // namespace mt::onnx
