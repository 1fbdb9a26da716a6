// Imports the model with a short sequence and looks which entries of stored tables positions take.
#include "compiler/pipeline/DefaultSequence.h"

#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/OpenModel.h"
#include "passes/nn/IndexExpression.h"

using namespace mlir;

namespace mt::pipeline {
namespace {
/// Short, so that no table or mask that a model brings is too short for it, and a length that nothing else has.
constexpr int64_t kProbe = 19;

/// The part of a table that positions take.
struct Lookup {
  Value table;
  int64_t entries = 0; ///< for how many positions the table suffices
};

/// Where indices are positions: a coordinate that has the length of the sequence, plus where the first one begins.
std::optional<Lookup> lookupAt(Value table, int64_t axis, Value indices) {
  ArrayRef<int64_t> shape = nn::shapeOf(indices);
  passes::IndexEvaluator evaluator(shape);
  passes::ExpressionRef index = evaluator.element(indices, evaluator.indicesFor(indices));
  if (index->kind != passes::Expression::affine || index->number.constant < 0)
    return std::nullopt;
  int64_t positions = 0;
  for (auto [coefficient, extent] : llvm::zip(index->number.coefficients, shape)) {
    if (coefficient == 0)
      continue;
    if (coefficient != 1 || extent != kProbe || positions++)
      return std::nullopt;
  }
  return positions == 1 ? std::optional(Lookup{table, nn::shapeOf(table)[axis] - index->number.constant}) : std::nullopt;
}

/// Positions that are known are a slice of the table.
std::optional<Lookup> sliceOf(nn::SliceOp slice) {
  std::optional<Lookup> lookup;
  for (auto [size, start, stride, entries] :
       llvm::zip(slice.getSizes(), slice.getStarts(), slice.getStrides(), nn::shapeOf(slice.getOperand())))
    if (size == kProbe && stride == 1 && entries != kProbe)
      lookup = Lookup{slice.getOperand(), std::min(entries - start, lookup ? lookup->entries : entries)};
  return lookup;
}

std::optional<Lookup> lookupOf(Operation *op) {
  if (auto embedding = dyn_cast<nn::EmbeddingOp>(op))
    return lookupAt(embedding.getTable(), 0, embedding.getIds());
  if (auto gather = dyn_cast<nn::GatherOp>(op))
    return lookupAt(gather.getData(), gather.getAxis(), gather.getIndices());
  if (auto slice = dyn_cast<nn::SliceOp>(op))
    return sliceOf(slice);
  return std::nullopt;
}

/// The argument that a table is, through casts; null if it is computed.
BlockArgument storedTable(Value table) {
  while (auto cast = table.getDefiningOp<nn::CastOp>())
    table = cast.getOperand();
  return dyn_cast<BlockArgument>(table);
}
} // namespace

std::optional<int64_t> defaultSequence(MLIRContext &context, const Options &options) {
  for (const auto &[name, size] : options.dims)
    if (size == kProbe)
      return std::nullopt; // the length would be no sign of a sequence
  Messages ignored;
  Collector collector(context, ignored);
  onnx::Problems problems;
  onnx::ImportOptions import{options.batch, kProbe, options.dims, options.batchDims, options.train, options.freeze};
  auto imported = importModel(context, options.model, /*packed=*/false, import, problems);
  if (import.batch = options.microBatch.value_or(options.batch); failed(imported) && import.batch != options.batch)
    imported = importModel(context, options.model, /*packed=*/false, import, problems); // a graph may fix it
  if (failed(imported) || imported->sequence != kProbe || imported->fixesSequence)
    return std::nullopt;
  auto main = imported->module->lookupSymbol<func::FuncOp>(nn::kMainName);
  std::optional<int64_t> fewest;
  bool learned = false;
  main.walk([&](Operation *op) {
    std::optional<Lookup> lookup = lookupOf(op);
    BlockArgument table = lookup ? storedTable(lookup->table) : BlockArgument();
    if (!table || lookup->entries < 1)
      return;
    fewest = std::min(fewest.value_or(lookup->entries), lookup->entries);
    learned |= bool(main.getArgAttr(table.getArgNumber(), nn::kTrainableAttr));
  });
  if (learned)
    return fewest;
  return std::min(fewest.value_or(onnx::kDefaultSequence), onnx::kDefaultSequence);
}

} // namespace mt::pipeline
