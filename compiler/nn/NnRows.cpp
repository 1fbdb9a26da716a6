// Where each operation leaves the rows of a batch (Rows.h): elementwise operations by their trait, the others by
// RowsOpInterface. What is not said here mixes rows.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
using Operands = OperandRows &;

int64_t rankOf(Value value) { return static_cast<int64_t>(shapeOf(value).size()); }
int64_t productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

constexpr const char *kBetween = "combines rows with one another";
constexpr const char *kOverRows = "works along the rows";
constexpr const char *kByPlace = "treats rows by their place in the batch";
constexpr const char *kNotLinear = "is not linear in a sum over rows";

/// Operands broadcast against each other: the rows of all in one place of the result.
Rows broadcastRows(Operation *op, Operands operands) {
  Rows result;
  int64_t rank = rankOf(op->getResult(0));
  for (auto [value, rows] : llvm::zip(op->getOperands(), operands)) {
    if (!rows.isEach())
      continue;
    Rows aligned = rows.moved(rows.dim + rank - rankOf(value));
    if (result.isEach() && !(result == aligned))
      return Rows::mixing(kBetween);
    if (shapeOf(value)[rows.dim] != shapeOf(op->getResult(0))[aligned.dim])
      return Rows::mixing(kBetween); // a single row against many places
    result = aligned;
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].isNone() && !operands.meets(i, result.moved(result.dim + rankOf(op->getOperand(i)) - rank)))
      return Rows::mixing(kByPlace);
  return result;
}

/// Operands from `first` on are terms of one sum over rows, or its alternatives.
Rows addedRows(Operands operands, size_t first) {
  for (size_t i = first; i < operands.size(); ++i)
    if (operands[i].isNone() && !operands.adds(i))
      return Rows::mixing("adds a whole number to a sum over rows");
  return Rows::sum();
}

/// Sums over rows under elementwise operations: what is linear in them stays a sum.
Rows linearRows(Operation *op, Operands operands) {
  auto isTotal = [&](size_t i) { return operands[i].kind == Rows::total; };
  bool real = isReal(op->getResult(0));
  if (isa<AddOp, SubOp>(op))
    return addedRows(operands, 0);
  if (isa<SelectOp>(op) && !isTotal(0))
    return addedRows(operands, 1);
  bool linear = isa<NegOp, CopyOp>(op) || (isa<CastOp>(op) && real) || (isa<MulOp>(op) && isTotal(0) != isTotal(1)) ||
                (isa<DivOp>(op) && real && !isTotal(1)); // whole numbers are cut off
  return linear ? Rows::sum() : Rows::mixing(kNotLinear);
}

Rows elementwiseRows(Operation *op, Operands operands) {
  bool total = llvm::any_of(operands, [](const Rows &rows) { return rows.kind == Rows::total; });
  bool each = llvm::any_of(operands, [](const Rows &rows) { return rows.isEach(); });
  if (total && each)
    return Rows::mixing("combines rows with a sum over rows");
  return total ? linearRows(op, operands) : broadcastRows(op, operands);
}

/// Whether all operands are without rows but `allowed` ones.
bool onlyRowsIn(const OperandRows &operands, ArrayRef<size_t> allowed) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].isNone() && !llvm::is_contained(allowed, i))
      return false;
  return true;
}

/// For operations that compute along the last dimension of their first operand.
Rows alongLast(Value operand, Operands operands) {
  if (!operands[0].isEach() || !onlyRowsIn(operands, {0}))
    return Rows::mixing(operands[0].kind == Rows::total ? kNotLinear : kBetween);
  return operands[0].dim == rankOf(operand) - 1 ? Rows::mixing(kOverRows) : operands[0];
}

/// Reshapes, which keep the row-major order: the rows lie in the dimension that holds them whole.
Rows reshapedRows(ArrayRef<int64_t> from, ArrayRef<int64_t> to, Rows rows) {
  int64_t before = productOf(from.take_front(rows.dim)) * rows.outer, after = productOf(from.drop_front(rows.dim + 1)) * rows.inner;
  if (productOf(from) == 0)
    return Rows::mixing("has no elements");
  for (int64_t dim = 0, front = 1; dim < static_cast<int64_t>(to.size()); front *= to[dim++])
    if (int64_t back = productOf(to.drop_front(dim + 1)); before % front == 0 && after % back == 0)
      return {Rows::each, dim, before / front, after / back, ""};
  return Rows::mixing("takes the batch apart");
}
} // namespace

//===-- any operation -------------------------------------------------------------------------------------------===//

bool OperandRows::meets(size_t i, const Rows &at) {
  if (at.dim < 0 || shapeOf(op->getOperand(i))[at.dim] == 1)
    return true;
  places[i] = at;
  return isSameAlong(op->getOperand(i), at);
}

bool OperandRows::adds(size_t i) {
  std::optional<double> value = splatValue(op->getOperand(i));
  if (value && *value == 0)
    return true;
  terms[i] = true;
  return isReal(op->getOperand(i));
}

Rows mt::nn::rowsOfResults(Operation *op, OperandRows &operands) {
  if (llvm::all_of(operands, [](const Rows &rows) { return rows.isNone(); }))
    return {};
  for (const Rows &rows : operands)
    if (rows.kind == Rows::mixed)
      return rows;
  if (op->hasTrait<Elementwise>())
    return elementwiseRows(op, operands);
  if (auto known = dyn_cast<RowsOpInterface>(op))
    return known.rowsOfResults(operands);
  return Rows::mixing("is not known to keep rows apart");
}

/// Of lookups, whose results lie like indices where these are, and else like what is looked into.
static std::optional<Followed> followedByLookup(Operation *op, const Rows &at) {
  int64_t dim = at.dim;
  if (auto gather = dyn_cast<EmbeddingOp>(op))
    return dim < rankOf(gather.getIds()) ? std::optional(Followed{{1, at}}) : std::nullopt;
  if (auto gather = dyn_cast<GatherOp>(op)) {
    int64_t axis = gather.getAxis(), picked = rankOf(gather.getIndices());
    if (dim >= axis && dim < axis + picked)
      return Followed{{1, at.moved(dim - axis)}};
    return Followed{{0, at.moved(dim < axis ? dim : dim - picked + 1)}};
  }
  if (auto gather = dyn_cast<GatherElementsOp>(op)) {
    if (dim == static_cast<int64_t>(gather.getAxis()))
      return Followed{{1, at}};
    return Followed{{0, at}, {1, at}};
  }
  if (auto gather = dyn_cast<GatherNdOp>(op)) {
    int64_t batched = gather.getBatchDims(), outer = rankOf(gather.getIndices()) - 1;
    if (dim < batched)
      return Followed{{0, at}, {1, at}};
    if (dim < outer)
      return Followed{{1, at}};
    return Followed{{0, at.moved(batched + shapeOf(gather.getIndices()).back() + dim - outer)}};
  }
  return std::nullopt;
}

static std::optional<Followed> followedByProduct(MatmulOp product, const Rows &at) {
  int64_t last = rankOf(product.getResult()) - 1, lhs = rankOf(product.getLhs());
  if (at.dim == last)
    return std::nullopt;
  if (at.dim == last - 1)
    return Followed{{0, at.moved(product.getTransposeLhs() ? lhs - 1 : lhs - 2)}};
  Followed followed{{0, at}};
  if (rankOf(product.getRhs()) > 2)
    followed.emplace_back(1, at);
  return followed;
}

/// Of operations that do not touch dimension `at.dim` of their first operand.
static std::optional<Followed> followedBeside(Operation *op, const Rows &at) {
  if (auto sum = dyn_cast<CumsumOp>(op); sum && static_cast<int64_t>(sum.getAxis()) != at.dim)
    return Followed{{0, at}};
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    int64_t dim = at.dim;
    for (int64_t axis : reduce.getKeepDims() ? ArrayRef<int64_t>() : reduce.getAxes())
      dim += axis <= dim;
    return Followed{{0, at.moved(dim)}};
  }
  if (auto pad = dyn_cast<PadOp>(op);
      pad && pad.getLow()[at.dim] == 0 && pad.getHigh()[at.dim] == 0 && pad.getInterior()[at.dim] == 0)
    return Followed{{0, at}};
  if (isa<LayerNormOp, RmsNormOp, SoftmaxOp, LogSoftmaxOp>(op) && at.dim != rankOf(op->getOperand(0)) - 1)
    return Followed{{0, at}};
  if (isa<AttentionOp, RotaryOp>(op) && at.dim == 0) {
    Followed followed;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (rankOf(operand) > 1) // vectors are of positions and heads
        followed.emplace_back(i, at);
    return followed;
  }
  if (auto slice = dyn_cast<SliceOp>(op))
    if ((at.outer == 1 && at.inner == 1) || shapeOf(slice.getOperand())[at.dim] == slice.getSizes()[at.dim])
      return Followed{{0, at}};
  return std::nullopt;
}

std::optional<Followed> mt::nn::followedAlong(Operation *op, const Rows &at) {
  if (auto iota = dyn_cast<IotaOp>(op))
    return static_cast<int64_t>(iota.getDimension()) == at.dim ? std::nullopt : std::optional(Followed());
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return Followed{{0, at.moved(transpose.getPermutation()[at.dim])}};
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    Rows before = reshapedRows(shapeOf(reshape.getResult()), shapeOf(reshape.getOperand()), at);
    return before.isEach() ? std::optional(Followed{{0, before}}) : std::nullopt;
  }
  if (auto product = dyn_cast<MatmulOp>(op))
    return followedByProduct(product, at);
  if (auto followed = followedByLookup(op, at))
    return followed;
  if (auto followed = followedBeside(op, at))
    return followed;
  auto concat = dyn_cast<ConcatOp>(op);
  if (concat ? static_cast<int64_t>(concat.getAxis()) == at.dim : !isa<BroadcastOp>(op) && !op->hasTrait<Elementwise>())
    return std::nullopt;
  Followed followed;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (int64_t dim = at.dim - rankOf(op->getResult(0)) + rankOf(operand); dim >= 0)
      followed.emplace_back(i, at.moved(dim));
  return followed;
}

/// Whether numbers that are known are.
static bool repeatsAlong(DenseElementsAttr values, const Rows &at) {
  ArrayRef<int64_t> shape = values.getType().getShape();
  int64_t inner = productOf(shape.drop_front(at.dim + 1)) * at.inner, rows = shape[at.dim] / (at.outer * at.inner);
  auto raw = values.getValues<Attribute>();
  for (int64_t i = 0; i < values.getNumElements(); ++i)
    if (i / inner % rows > 0 && raw[i] != raw[i - inner])
      return false;
  return true;
}

/// `steps` bound the operations looked at: graphs may share operands so that there are no end of ways through them.
static bool isSameAlong(Value value, const Rows &at, int64_t &steps) {
  int64_t size = shapeOf(value)[at.dim];
  if (--steps < 0 || size % (at.outer * at.inner) != 0)
    return size == 1 && steps >= 0;
  if (size == at.outer * at.inner || splatValue(value))
    return true;
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return repeatsAlong(cast<DenseElementsAttr>(constant.getValue()), at);
  Operation *op = value.getDefiningOp();
  std::optional<Followed> followed = op ? followedAlong(op, at) : std::nullopt;
  return followed && llvm::all_of(*followed, [&](const auto &of) {
           return isSameAlong(op->getOperand(of.first), of.second, steps);
         });
}

bool mt::nn::isSameAlong(Value value, const Rows &at) {
  int64_t steps = 10000;
  return ::isSameAlong(value, at, steps);
}

//===-- structure -----------------------------------------------------------------------------------------------===//

Rows ReshapeOp::rowsOfResults(Operands operands) {
  return operands[0].isEach() ? reshapedRows(shapeOf(getOperand()), shapeOf(getResult()), operands[0]) : operands[0];
}

Rows TransposeOp::rowsOfResults(Operands operands) {
  if (!operands[0].isEach())
    return operands[0];
  auto at = llvm::find(getPermutation(), operands[0].dim);
  return operands[0].moved(at - getPermutation().begin());
}

Rows BroadcastOp::rowsOfResults(Operands operands) {
  return operands[0].isEach() ? broadcastRows(*this, operands) : operands[0];
}

Rows SliceOp::rowsOfResults(Operands operands) {
  int64_t dim = operands[0].dim;
  bool whole = !operands[0].isEach() ||
               (getStarts()[dim] == 0 && getStrides()[dim] == 1 && getSizes()[dim] == shapeOf(getOperand())[dim]);
  return whole ? operands[0] : Rows::mixing("takes some of the rows, or changes their order");
}

Rows PadOp::rowsOfResults(Operands operands) {
  int64_t dim = operands[0].dim;
  if (!operands[0].isEach())
    return Rows::mixing(kNotLinear);
  bool whole = getLow()[dim] == 0 && getHigh()[dim] == 0 && getInterior()[dim] == 0;
  return whole ? operands[0] : Rows::mixing("adds rows");
}

Rows ConcatOp::rowsOfResults(Operands operands) {
  Rows result;
  for (const Rows &rows : operands)
    if (!rows.isNone()) {
      if (!result.isNone() && !(rows == result))
        return Rows::mixing(kBetween);
      result = rows;
    }
  if (!result.isEach())
    return addedRows(operands, 0);
  if (result.dim == static_cast<int64_t>(getAxis()))
    return Rows::mixing("joins along the rows");
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].isNone() && !operands.meets(i, result))
      return Rows::mixing(kByPlace);
  return result;
}

Rows ReduceOp::rowsOfResults(Operands operands) {
  bool additive = getKind() == "sum" || (getKind() == "mean" && isReal(getOperand()));
  if (!operands[0].isEach())
    return additive ? operands[0] : Rows::mixing(kNotLinear);
  int64_t gone = 0;
  for (int64_t axis : getAxes()) {
    if (axis == operands[0].dim)
      return additive ? Rows::sum() : Rows::mixing("takes an extreme, a product or a rounded mean over rows");
    gone += axis < operands[0].dim && !getKeepDims();
  }
  return operands[0].moved(operands[0].dim - gone);
}

Rows CumsumOp::rowsOfResults(Operands operands) {
  if (!operands[0].isEach())
    return Rows::mixing(kNotLinear);
  return operands[0].dim == static_cast<int64_t>(getAxis()) ? Rows::mixing(kOverRows) : operands[0];
}

/// Rows that were looked up: their bytes, and what belongs to them of scales and zeros.
Rows DequantizeOp::rowsOfResults(Operands operands) {
  const Rows &rows = operands[0];
  if (!rows.isEach() || rows.dim != 0 || shapeOf(getValues())[0] != shapeOf(getResult())[0])
    return Rows::mixing(kBetween);
  for (size_t i = 1; i < operands.size(); ++i) {
    ArrayRef<int64_t> shape = shapeOf(getOperation()->getOperand(i));
    bool ofRows = shape.size() > 1 || (shape.size() == 1 && getAxis() == 0);
    bool fits = operands[i].isNone() ? !ofRows || operands.meets(i, rows)
                                     : ofRows && operands[i] == rows && shape[0] == shapeOf(getResult())[0];
    if (!fits)
      return Rows::mixing(kBetween);
  }
  return rows;
}

//===-- lookups -------------------------------------------------------------------------------------------------===//

/// Positions that are looked up differ from row to row, the table does not.
static Rows lookedUp(Operands operands, int64_t shift) {
  if (!operands[0].isNone() || !operands[1].isEach())
    return Rows::mixing(kBetween);
  return operands[1].moved(operands[1].dim + shift);
}

Rows EmbeddingOp::rowsOfResults(Operands operands) { return lookedUp(operands, 0); }

Rows GatherOp::rowsOfResults(Operands operands) {
  int64_t axis = getAxis();
  if (!operands[0].isEach() || !operands[1].isNone())
    return lookedUp(operands, axis);
  if (operands[0].dim == axis)
    return Rows::mixing("picks some of the rows");
  return operands[0].moved(operands[0].dim < axis ? operands[0].dim : operands[0].dim - 1 + rankOf(getIndices()));
}

Rows GatherNdOp::rowsOfResults(Operands operands) {
  int64_t last = rankOf(getIndices()) - 1, batched = getBatchDims();
  const Rows &data = operands[0], &indices = operands[1];
  if (indices.isEach() && indices.dim == last)
    return Rows::mixing(kOverRows);
  if (data.isNone())
    return indices.dim >= batched || operands.meets(0, indices) ? lookedUp(operands, 0) : Rows::mixing(kByPlace);
  if (data.isEach() && data.dim < batched && (data == indices || (indices.isNone() && operands.meets(1, data))))
    return data;
  int64_t indexed = batched + shapeOf(getIndices())[static_cast<size_t>(last)];
  if (data.isEach() && data.dim >= indexed && indices.isNone())
    return data.moved(last + data.dim - indexed);
  return Rows::mixing("picks some of the rows");
}

Rows GatherElementsOp::rowsOfResults(Operands operands) {
  const Rows &data = operands[0], &indices = operands[1];
  auto axis = static_cast<int64_t>(getAxis());
  if (data.isEach() && data.dim != axis && (data == indices || (indices.isNone() && operands.meets(1, data))))
    return data;
  if (data.isNone() && indices.isEach() && (indices.dim == axis || operands.meets(0, indices)))
    return indices;
  return Rows::mixing(kBetween);
}

/// Data and updates row by row, at the same dimension; places that are the same for all rows, or theirs.
static Rows scattered(Operation *op, Operands operands, int64_t dimOfUpdates, int64_t dimOfIndices) {
  const Rows &data = operands[0], &indices = operands[1], &updates = operands[2];
  Rows rows = data.isEach()                           ? data
              : updates.isEach()                      ? updates.moved(updates.dim - dimOfUpdates)
              : indices.isEach() && dimOfIndices >= 0 ? indices
                                                      : Rows();
  if (!rows.isEach())
    return Rows::mixing(kBetween);
  bool fits = (data.isNone() ? operands.meets(0, rows) : data == rows) &&
              (updates.isNone() ? operands.meets(2, rows.moved(rows.dim + dimOfUpdates))
                                : updates == rows.moved(rows.dim + dimOfUpdates)) &&
              (dimOfIndices < 0   ? indices.isNone()
               : indices.isNone() ? operands.meets(1, rows)
                                  : indices == rows);
  return fits ? rows : Rows::mixing(kBetween);
}

Rows ScatterOp::rowsOfResults(Operands operands) {
  int64_t axis = getAxis();
  int64_t dim = operands[0].isEach() ? operands[0].dim : operands[2].isEach() ? operands[2].dim : axis;
  if (dim == axis || !operands[1].isNone())
    return Rows::mixing("puts rows at computed places");
  return scattered(*this, operands, dim > axis ? rankOf(getIndices()) - 1 : 0, -1);
}

Rows ScatterElementsOp::rowsOfResults(Operands operands) {
  for (const Rows &rows : operands)
    if (rows.isEach() && rows.dim == static_cast<int64_t>(getAxis()))
      return Rows::mixing(kOverRows);
  return scattered(*this, operands, 0, 0);
}

Rows TopKOp::rowsOfResults(Operands operands) { return alongLast(getOperand(), operands); }

//===-- random numbers ------------------------------------------------------------------------------------------===//

/// Every part of a sum over rows meets the same mask: that is linear.
Rows DropoutOp::rowsOfResults(Operands operands) { return operands[0]; }

/// The numbers of rows say where these are by `outer`; another value has them where they are.
Rows RandomOp::rowsOfResults(Operands operands) {
  ArrayRef<int64_t> shape = shapeOf(getResult());
  if (!getRows() || !operands[0].isEach())
    return {};
  if (shapeOf(getRows()) == shape)
    return operands[0];
  int64_t rows = shapeOf(getRows())[0], outer = getOuter();
  return reshapedRows({outer, rows, productOf(shape) / (outer * rows)}, shape, Rows::at(1));
}

//===-- products ------------------------------------------------------------------------------------------------===//

Rows MatmulOp::rowsOfResults(Operands operands) {
  int64_t rank = rankOf(getResult()), left = rankOf(getLhs()), right = rankOf(getRhs());
  if ((getBias() && !operands[2].isNone()) || operands[0].kind == Rows::total || operands[1].kind == Rows::total)
    return Rows::mixing(kBetween);
  // Places of M and N in the operands; what is neither nor a batch dimension is summed over.
  int64_t m = left - (getTransposeLhs() ? 1 : 2), n = right - (getTransposeRhs() ? 2 : 1);
  auto place = [&](const Rows &rows, int64_t own, int64_t rankOfOperand, int64_t to) -> std::optional<int64_t> {
    if (rows.dim < rankOfOperand - 2)
      return rows.dim + rank - rankOfOperand;
    return rows.dim == own ? std::optional<int64_t>(to) : std::nullopt;
  };
  std::optional<Rows> result;
  for (auto [rows, own, operandRank, to] : {std::tuple(operands[0], m, left, rank - 2), std::tuple(operands[1], n, right, rank - 1)}) {
    if (!rows.isEach())
      continue;
    std::optional<int64_t> at = place(rows, own, operandRank, to);
    if (!at)
      return Rows::mixing("sums over the rows");
    if (result && !(*result == rows.moved(*at)))
      return Rows::mixing(kBetween);
    result = rows.moved(*at);
  }
  auto fair = [&](size_t i, int64_t operandRank, int64_t own, int64_t to) {
    int64_t at = result->dim >= rank - 2 ? (result->dim == to ? own : -1) : result->dim - rank + operandRank;
    return !operands[i].isNone() || operands.meets(i, result->moved(at));
  };
  bool biasFair = !getBias() || result->dim != rank - 1 || operands.meets(2, result->moved(0));
  return fair(0, left, m, rank - 2) && fair(1, right, n, rank - 1) && biasFair ? *result : Rows::mixing(kByPlace);
}

/// Rows of the left side stay rows, whatever expert each of them names.
Rows ExpertMatmulOp::rowsOfResults(Operands operands) {
  bool rows = operands[0].isEach() && operands[0].dim == 0 && operands[1].isNone();
  bool named = operands[2] == operands[0] || (operands[2].isNone() && operands.meets(2, operands[0]));
  return rows && named ? operands[0] : Rows::mixing(kBetween);
}

/// Images of a batch, all under one kernel.
static Rows imagesOf(Operands operands) {
  return operands[0].isEach() && operands[0].dim == 0 && onlyRowsIn(operands, {0}) ? operands[0]
                                                                                   : Rows::mixing(kBetween);
}
Rows ConvOp::rowsOfResults(Operands operands) { return imagesOf(operands); }
Rows ConvDataGradOp::rowsOfResults(Operands operands) { return imagesOf(operands); }
Rows PoolOp::rowsOfResults(Operands operands) {
  return operands[0].isEach() && operands[0].dim < 2 ? operands[0] : Rows::mixing(kBetween);
}

//===-- norms, softmax, attention -------------------------------------------------------------------------------===//

Rows LayerNormOp::rowsOfResults(Operands operands) { return alongLast(getOperand(), operands); }
Rows RmsNormOp::rowsOfResults(Operands operands) { return alongLast(getOperand(), operands); }
Rows SoftmaxOp::rowsOfResults(Operands operands) { return alongLast(getOperand(), operands); }
Rows LogSoftmaxOp::rowsOfResults(Operands operands) { return alongLast(getOperand(), operands); }

/// All operands at the same place, or without rows and the same for all of them. Vectors are of positions and heads.
static Rows together(Operation *op, Operands operands) {
  auto isVector = [&](size_t i) { return rankOf(op->getOperand(i)) < 2; };
  Rows result;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].isNone()) {
      if (!operands[i].isEach() || (result.isEach() && !(result == operands[i])) || isVector(i))
        return Rows::mixing(kBetween);
      result = operands[i];
    }
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].isNone() && !isVector(i) && !operands.meets(i, result))
      return Rows::mixing(kByPlace);
  return result;
}

/// Rows are dimension 1 of gates and states, 0 of initial states and lengths; weights have none.
Rows RecurrenceOp::rowsOfResults(Operands operands) {
  Rows result;
  auto dimOf = [&](Value operand) -> int64_t {
    return operand == getGates()                                                                     ? 1
           : operand == getInitialHidden() || operand == getInitialCell() || operand == getLengths() ? 0
                                                                                                     : -1;
  };
  for (auto [operand, rows] : llvm::zip(getOperands(), operands)) {
    if (rows.isNone())
      continue;
    if (!rows.isEach() || rows.dim != dimOf(operand) || (result.isEach() && !(result == rows.moved(1))))
      return Rows::mixing(rows.isEach() && operand == getGates() && rows.dim == 0 ? kOverRows : kBetween);
    result = rows.moved(1);
  }
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    if (operands[i].isNone() && dimOf(operand) >= 0 && !operands.meets(i, result.moved(dimOf(operand))))
      return Rows::mixing(kByPlace);
  return result;
}

/// Rows are the batch, dimension 0, or heads that share no keys (models that put the sequence first).
Rows AttentionOp::rowsOfResults(Operands operands) {
  bool heads = operands[0] == operands[1] && operands[0] == operands[2] && operands[0].isEach() && operands[0].dim == 2 &&
               shapeOf(getQuery())[2] == shapeOf(getKey())[2] && operands.size() == 3;
  if (heads)
    return operands[0];
  Rows result = together(*this, operands);
  return result.isEach() && result.dim != 0 ? Rows::mixing(kBetween) : result;
}

Rows RotaryOp::rowsOfResults(Operands operands) {
  if (operands[0].isEach() && operands[0].dim == 2 && onlyRowsIn(operands, {0}))
    return operands[0];
  Rows result = together(*this, operands);
  return result.isEach() && result.dim != 0 ? Rows::mixing(kBetween) : result;
}

//===-- losses --------------------------------------------------------------------------------------------------===//

/// Predictions and labels row by row.
static Rows lossOf(Operands operands, ArrayRef<size_t> rowwise) {
  if (!onlyRowsIn(operands, rowwise))
    return Rows::mixing(kBetween);
  Rows result;
  for (size_t i : rowwise)
    if (operands[i].isEach() && result.isNone())
      result = operands[i];
  for (size_t i : rowwise)
    if (!(operands[i] == result) && !(operands[i].isNone() && operands.meets(i, result)))
      return Rows::mixing(kBetween);
  return Rows::sum();
}

Rows CrossEntropyOp::rowsOfResults(Operands operands) {
  return operands[0].isEach() && operands[0].dim == 1 ? Rows::mixing(kOverRows) : lossOf(operands, {0, 1});
}
Rows LinearCrossEntropyOp::rowsOfResults(Operands operands) {
  size_t labels = getBias() ? 3 : 2;
  return operands[0].isEach() && operands[0].dim == 1 ? Rows::mixing(kOverRows) : lossOf(operands, {0, labels});
}
Rows SquaredErrorOp::rowsOfResults(Operands operands) { return lossOf(operands, {0, 1}); }
