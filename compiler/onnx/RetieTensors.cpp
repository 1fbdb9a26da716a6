#include "compiler/onnx/RetieTensors.h"

#include "compiler/nn/Nn.h"

#include <fmt/format.h>

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

// Whether element [i, j] of the table is element [j, i] of the matrix at places spread over both.
bool isTransposed(const TensorSource &table, const TensorSource &matrix) {
  int64_t rows = table.dims[0], columns = table.dims[1];
  std::vector<int64_t> here, there;
  int64_t count = std::min(kSamples, table.elements);
  for (int64_t n = 0; n < count; ++n) {
    // Multiples of the golden ratio spread evenly; all elements where there are few.
    auto at = count == table.elements ? n : static_cast<int64_t>(uint64_t(n) * 0x9E3779B97F4A7C15ULL % uint64_t(table.elements));
    here.push_back(at);
    there.push_back(at % columns * rows + at / columns);
  }
  Result<std::vector<double>> a = readElements(table, here), b = readElements(matrix, there);
  return a.ok() && b.ok() && *a == *b && std::set<double>(a->begin(), a->end()).size() > a->size() / 8;
}

bool mayBeTransposed(const TensorSource &table, const TensorSource &matrix) {
  return matrix.dims.size() == 2 && matrix.type == table.type && matrix.dims[0] == table.dims[1] &&
         matrix.dims[1] == table.dims[0] && table.elements >= kSmallest;
}

} // namespace

std::vector<std::string> retieTensors(func::FuncOp function, const std::vector<Candidate> &candidates) {
  std::vector<std::string> notes;
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
