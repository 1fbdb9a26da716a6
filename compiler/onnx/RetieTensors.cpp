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

// Whether element [i, j] of the table is element [j, i] of the matrix.
bool isTransposed(const TensorSource &table, const TensorSource &matrix) {
  int64_t rows = table.dims[0], columns = table.dims[1];
  std::vector<int64_t> here = samplesOf(table.elements), there;
  for (int64_t at : here)
    there.push_back(at % columns * rows + at / columns);
  Result<std::vector<double>> a = readElements(table, here), b = readElements(matrix, there);
  return a.ok() && b.ok() && *a == *b && std::set<double>(a->begin(), a->end()).size() > a->size() / 8;
}

// Whether two tensors that stand for one parameter of the original module hold the same numbers.
bool isRepeated(const TensorSource &first, const TensorSource &second) {
  if (first.dims != second.dims || first.type != second.type)
    return false;
  std::vector<int64_t> places = samplesOf(first.elements);
  Result<std::vector<double>> a = readElements(first, places), b = readElements(second, places);
  return a.ok() && b.ok() && *a == *b;
}

void retieCopies(const std::vector<Candidate> &candidates, std::vector<std::string> &notes) {
  std::map<std::string, const Candidate *> firsts; // by the parameter's name in the original module
  for (const Candidate &candidate : candidates) {
    if (candidate.origin.kind != Origin::Kind::parameter || candidate.argument.use_empty())
      continue;
    auto [first, isNew] = firsts.try_emplace(candidate.origin.name, &candidate);
    if (isNew || !isRepeated(first->second->source, candidate.source))
      continue;
    Value copy = candidate.argument;
    copy.replaceAllUsesWith(first->second->argument);
    notes.push_back(fmt::format("initializers '{}' and '{}' are copies of one parameter, '{}': they are trained as one tensor",
                                first->second->source.name, candidate.source.name, candidate.origin.name));
  }
}

bool mayBeTransposed(const TensorSource &table, const TensorSource &matrix) {
  return matrix.dims.size() == 2 && matrix.type == table.type && matrix.dims[0] == table.dims[1] &&
         matrix.dims[1] == table.dims[0] && table.elements >= kSmallest;
}

} // namespace

std::vector<std::string> retieTensors(func::FuncOp function, const std::vector<Candidate> &candidates) {
  std::vector<std::string> notes;
  retieCopies(candidates, notes);
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  for (const Candidate &table : candidates) {
    if (table.source.dims.size() != 2 || !isFloat(table.source.type) || !isTable(table))
      continue;
    for (const Candidate &matrix : candidates) {
      Value copy = matrix.argument;
      if (&matrix == &table || isTable(matrix) || copy.use_empty() || !mayBeTransposed(table.source, matrix.source) ||
          !isTransposed(table.source, matrix.source))
        continue;
      Value turned = nn::TransposeOp::create(builder, copy.getLoc(), table.argument, ArrayRef<int64_t>{1, 0});
      copy.replaceAllUsesWith(turned);
      notes.push_back(fmt::format("initializer '{}' is a transposed copy of '{}': they are trained as one tensor, '{}'",
                                  matrix.source.name, table.source.name, table.source.name));
    }
  }
  return notes;
}

} // namespace mt::onnx
