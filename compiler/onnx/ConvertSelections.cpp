// What a mask of the model's data selects: NonZero gives places whose number only the data know, and no tensor here has
// such a size. It becomes an entry for each place, whether selected or not, and so does all that is computed from it row
// by row (SelectedRows.h), until it is put somewhere or summed, where those that are not selected are left out.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/MergeExperts.h"
#include "compiler/onnx/SelectedRows.h"

#include <limits>

using namespace mlir;

namespace mt::onnx {
namespace {

/// A mask of leading dimensions, which broadcasts to all of `data`.
Value alignedMask(NodeContext &node, Value mask, Value data) {
  SmallVector<int64_t> aligned(nn::shapeOf(mask));
  aligned.resize(nn::shapeOf(data).size(), 1);
  return node.reshape(mask, aligned);
}

/// data with entries of `from` put where the mask holds, one after another. Where the mask has rows of places, and
/// `from` fewer entries than places and as many for each row, rows take their own: all of them or none, or the index is
/// out of range, so that the result is that of the order over the whole batch. `ragged`: rows may have given more or
/// fewer entries.
Value putSelected(NodeContext &node, Value data, const Selection &places, Value from, bool ragged) {
  ArrayRef<int64_t> shape = nn::shapeOf(data), masked = nn::shapeOf(places.whole);
  const int64_t entries = nn::shapeOf(from)[0], entry = productOf(shape.drop_front(masked.size()));
  const int64_t numbers = productOf(nn::shapeOf(places.mask));
  const bool repeats = places.run > 0 && entries % places.run == 0;
  const int64_t run = repeats ? places.run : 1, count = repeats ? numbers : numbers * places.run;
  if (entries == 0 || count == 0)
    return (void)node.fail("it puts {} entries where a mask of {} places holds", entries, count * run), Value();
  const bool byRow = !ragged && masked.size() > 1 && count % masked[0] == 0 && count > masked[0] &&
                     entries / run < count && entries % (masked[0] * run) == 0;
  const int64_t rows = byRow ? masked[0] : 1, own = entries / rows / run;
  Value held = node.reshape(repeats ? places.mask : places.whole, {rows, count / rows});
  Value before = node.emit<nn::CumsumOp>(
      {node.cast(held, node.builder.getI64Type())},
      {node.intAttr("axis", 1), node.boolAttr("exclusive", true), node.boolAttr("reverse", false)});
  if (!before)
    return {};
  Value number = before;
  if (byRow) {
    Value all = node.reduce(node.cast(held, node.builder.getI64Type()), "sum", {1}, true);
    number = node.emit<nn::SelectOp>({node.compare(all, node.scalar(all, static_cast<double>(own)), "eq"), before,
                                      node.scalar(before, static_cast<double>(own))});
  }
  number = node.emit<nn::SelectOp>({held, number, node.scalar(before, 0)});
  Value taken = node.emit<nn::GatherNdOp>(
      {node.reshape(from, {rows, own, run * entry}), node.reshape(number, {rows, count / rows, 1})},
      {node.intAttr("batchDims", 1)});
  return node.emit<nn::SelectOp>({alignedMask(node, places.whole, data), node.reshape(taken, shape), data});
}

LogicalResult give(NodeContext &node, Selection selection) {
  NodeValue value;
  value.selection = std::move(selection);
  node.result(0, std::move(value));
  return success();
}

/// Rows of updates, which go to the data's leading dimensions as coordinates of the mask point to them: laid there as a
/// whole, and chosen by the mask. Where several places share one of the data the last that is selected wins.
Value putAsItLies(NodeContext &node, Value data, const Selection &places, const Pointed &pointed, Value updates,
                  bool adds) {
  ArrayRef<int64_t> shape = nn::shapeOf(data), masked = nn::shapeOf(places.whole);
  ArrayRef<int64_t> each = shape.drop_front(places.columns.size());
  // The mask's dimensions that no column follows first, the others in the data's order.
  SmallVector<int64_t> permutation, maskPermutation, wide, target;
  int64_t layers = 1;
  for (size_t dim : pointed.others) {
    permutation.push_back(static_cast<int64_t>(dim));
    layers *= masked[dim];
  }
  for (size_t dim : pointed.dims)
    permutation.push_back(static_cast<int64_t>(dim));
  maskPermutation = permutation;
  wide.assign(masked.begin(), masked.end());
  for (int64_t size : each) {
    permutation.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(size);
  }
  target.push_back(layers);
  llvm::append_range(target, shape);
  SmallVector<int64_t> maskTarget = target;
  std::fill(maskTarget.begin() + 1 + static_cast<ptrdiff_t>(places.columns.size()), maskTarget.end(), 1);
  SmallVector<int64_t> rows{productOf(masked)};
  llvm::append_range(rows, each);
  int64_t views = 0;
  auto viewed = [&](Value before, Value after) {
    views += before != after;
    return after;
  };
  Value there = viewed(updates, node.broadcast(updates, rows));
  there = viewed(there, node.reshape(there, wide));
  there = viewed(there, node.transpose(there, permutation));
  Value mask = node.transpose(places.whole, maskPermutation);
  if (!there || !mask)
    return {};
  there = viewed(there, node.reshape(there, target));
  mask = node.reshape(mask, maskTarget);
  Value result = data;
  if (adds) {
    Value counted = node.emit<nn::SelectOp>({mask, there, node.scalar(there, 0)});
    result = node.add(data, node.reduce(counted, "sum", {0}, false));
  }
  ArrayRef<int64_t> maskShape = ArrayRef<int64_t>(maskTarget).drop_front();
  for (int64_t layer = 0; layer < layers && result && !adds; ++layer)
    result = node.emit<nn::SelectOp>({node.reshape(node.slice(mask, 0, layer, 1), maskShape),
                                      node.reshape(node.slice(there, 0, layer, 1), shape), result});
  if (layers == 1 && !adds)
    views += nn::shapeOf(there) != shape; // the layer's dimension goes
  const bool isCompared = pointed.others.size() == 1 && places.whole == places.mask;
  if (result)
    notePut(result, places, views, layers, isCompared ? static_cast<int64_t>(pointed.others[0]) : -1);
  return result;
}

/// All the runs of a tensor, or of rows, in order, joined again: of each row that of its own run.
LogicalResult joinRuns(NodeContext &node) {
  const auto count = node.inputCount();
  Value joined;
  for (size_t i = count; i-- > 0;) {
    const Selection *rows = selectionAt(node, i, Selection::rows);
    Value value = rows ? node.input(i) : Value();
    auto compare = rows ? rows->mask.getDefiningOp<nn::CompareOp>() : nn::CompareOp();
    const Selection *first = selectionAt(node, 0, Selection::rows);
    auto firstCompare = first ? first->mask.getDefiningOp<nn::CompareOp>() : nn::CompareOp();
    if (!value || !compare || !firstCompare || rows->parts != count || rows->part != i || rows->run != first->run ||
        compare.getLhs() != firstCompare.getLhs() || (joined && joined.getType() != value.getType()) ||
        node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(value).size())) != static_cast<int64_t>(rows->dim))
      return failure();
    if (!joined)
      joined = node.broadcast(node.scalar(value, 0), nn::shapeOf(value));
    if (rows->of && i + 1 == count && nn::isReal(value)) { // the lengths add up to less: no numbers, not others
      Selection behind = *rows;
      behind.mask = node.compare(compare.getLhs(), node.scalar(compare.getLhs(), static_cast<double>(count)), "eq");
      Value none = node.scalar(value, std::numeric_limits<double>::quiet_NaN());
      joined = node.emit<nn::SelectOp>({maskAlong(node, behind, rows->dim, nn::shapeOf(value)), none, joined});
    }
    joined = node.emit<nn::SelectOp>({maskAlong(node, *rows, rows->dim, nn::shapeOf(value)), value, joined});
    if (joined && !rows->of)
      notePut(joined, *rows);
  }
  const Selection &run = *selectionAt(node, 0, Selection::rows);
  NodeValue result;
  result.value = joined;
  if (run.of) {
    result.selection = *run.of;
    result.selection->dim = run.dim;
    result.selection->run = run.run;
    result.selection->columns.clear();
  }
  if (!joined)
    return failure();
  node.result(0, std::move(result));
  return success();
}

/// Whether rows are the coordinates of the places as NonZero gives them, turned: [count, rank].
bool areTuples(NodeContext &node, size_t index) {
  const Selection *rows = selectionAt(node, index, Selection::rows);
  if (!rows || rows->dim != 0 || rows->columns.size() != nn::shapeOf(rows->whole).size() ||
      nn::shapeOf(node.input(index)).size() != 2)
    return false;
  for (size_t c = 0; c < rows->columns.size(); ++c)
    for (size_t d = 0; d < rows->columns.size(); ++d)
      if (rows->columns[c][d] != (c == d))
        return false;
  return true;
}

/// ScatterND and ScatterElements of rows: those that do not count add nothing, or go behind the data's end.
LogicalResult scatterRows(NodeContext &node, const Selection &indices, const Selection &updates) {
  const bool tuples = node.node.op_type() == "ScatterND";
  const std::string kind = node.attributes.text("reduction", "none");
  Value data = node.input(0), places = node.input(1), values = node.input(2);
  if (!data || !places || !values)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(data)), at(nn::shapeOf(places));
  const bool fits = !at.empty() && !shape.empty() && indices.dim == updates.dim && sameRows(indices, updates) &&
                    (!tuples || (at.back() >= 1 && at.back() <= static_cast<int64_t>(shape.size()) &&
                                 indices.dim + 1 < at.size()));
  auto axis = tuples ? std::optional<int64_t>(0) : node.axis("axis", 0, static_cast<int64_t>(shape.size()));
  if (!fits || !axis)
    return node.fail("the mask, what it selects and where that goes do not fit each other");
  const auto along = static_cast<size_t>(*axis);
  constexpr int64_t kLayers = 16; // choices one after another; with more, numbers are put one by one
  const bool whole = tuples ? at.size() == 2 && at.back() == static_cast<int64_t>(indices.columns.size())
                            : along == 0 && indices.columns.size() == 1 &&
                                  ArrayRef<int64_t>(at).drop_front() == ArrayRef<int64_t>(shape).drop_front();
  if (whole && indices.dim == 0 && (kind == "none" || kind == "add"))
    if (auto pointed = pointedAt(indices, ArrayRef<int64_t>(shape).take_front(indices.columns.size()))) {
      int64_t layers = 1;
      for (size_t dim : pointed->others)
        layers *= nn::shapeOf(indices.whole)[dim];
      if (kind == "add" || layers <= kLayers)
        return node.result(putAsItLies(node, data, indices, *pointed, values, kind == "add"));
    }
  SmallVector<int64_t> full = at; // what updates have where they were left to broadcast
  if (tuples) {
    full.pop_back();
    llvm::append_range(full, ArrayRef<int64_t>(shape).drop_front(static_cast<size_t>(at.back())));
  }
  std::vector<NodeValue> others(3);
  others[0].value = data;
  others[1].value = places;
  others[2].value = node.broadcast(values, full);
  if (kind == "add") {
    others[2].value = countedOr(node, updates, updates.dim, others[2].value, 0);
  } else {
    // Of tuples the first number; all count from the front, as the data's end moves.
    Type integer = node.builder.getI64Type();
    const HostTensor sizes = HostTensor::integers(
        tuples ? Dims(shape.begin(), shape.begin() + at.back()) : Dims{shape[along]});
    Dims none(static_cast<size_t>(sizes.elements()), 0);
    none[0] = shape[along];
    Value front = node.emit<nn::ModOp>({node.cast(places, integer), node.constant(sizes)});
    others[1].value = node.emit<nn::SelectOp>(
        {maskAlong(node, indices, indices.dim, at), front, node.constant(HostTensor::integers(none))});
    others[0].value = node.concat({data, node.slice(data, *axis, 0, 1)}, *axis);
  }
  Value result = converted(node, node.node.op_type(), {&others[0], &others[1], &others[2]}, node.attributes);
  return node.result(kind == "add" ? result : node.slice(result, *axis, 0, shape[along]));
}

/// masked_scatter, x[mask] = value.
LogicalResult scatterSelected(NodeContext &node, const Selection &places, const Selection &entries) {
  Value data = node.input(0);
  if (!data)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(data), masked = nn::shapeOf(places.whole), from = nn::shapeOf(entries.from);
  bool fits = masked.size() <= shape.size() && masked == shape.take_front(masked.size()) &&
              getElementTypeOrSelf(data.getType()) == getElementTypeOrSelf(entries.from.getType());
  if (entries.kind == Selection::one) { // x[mask] = value
    size_t kept = masked.size();
    for (int64_t run = places.run; kept > 0 && run > 1; run /= masked[--kept])
      if (masked[kept - 1] == 0 || run % masked[kept - 1] != 0)
        break;
    ArrayRef<int64_t> each = fits ? shape.drop_front(kept) : shape;
    while (!from.empty() && from.front() == 1)
      from = from.drop_front();
    for (size_t d = 1; d <= from.size(); ++d)
      fits &= d <= each.size() && (from[from.size() - d] == 1 || from[from.size() - d] == each[each.size() - d]);
    if (fits)
      return node.result(
          node.emit<nn::SelectOp>({alignedMask(node, places.whole, data), node.reshape(entries.from, from), data}));
  }
  if (!fits || !sameRows(places, entries) || from.empty() || from.drop_front() != shape.drop_front(masked.size()))
    return node.fail("the mask, what it selects and where that goes do not fit each other");
  return node.result(putSelected(node, data, places, entries.from, entries.of != nullptr));
}

} // namespace

LogicalResult selectPlaces(NodeContext &node) {
  Value mask = node.input(0);
  if (mask && !getElementTypeOrSelf(mask.getType()).isInteger(1)) {
    auto cast = mask.getDefiningOp<nn::CastOp>(); // of a mask it is that mask
    mask = cast && getElementTypeOrSelf(cast.getOperand()).isInteger(1) ? cast.getOperand()
                                                                        : node.compare(mask, node.scalar(mask, 0), "ne");
  }
  if (!mask)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(mask));
  SmallVector<Value> coordinates;
  for (size_t d = 0; d < shape.size(); ++d)
    coordinates.push_back(node.reshape(
        node.iota(shape, node.builder.getI64Type(), static_cast<int64_t>(d), 0, 1), {1, productOf(shape)}));
  if (coordinates.empty() || productOf(shape) == 0)
    return node.fail("its input has no elements, or no dimensions");
  NodeValue places;
  places.value = node.concat(coordinates, 0);
  places.selection = selectionBy(mask);
  places.selection->dim = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    places.selection->columns.emplace_back(shape.size(), 0);
    places.selection->columns.back()[d] = 1;
  }
  if (!places.value)
    return failure();
  node.result(0, std::move(places));
  return success();
}

LogicalResult repeatByData(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Selection repeated;
  repeated.kind = Selection::one;
  repeated.from = value;
  return give(node, repeated);
}

// Runs of rows along the first dimension, as of rows that are sorted by their expert: each an entry for every row, that
// counts where the row is of this run. Of what is itself rows those that do not count are in no run.
LogicalResult splitByData(NodeContext &node) {
  constexpr int64_t kMost = 4096;
  Value value = node.input(0), sizes = node.input(1);
  if (!value || !sizes)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value), lengths = nn::shapeOf(sizes);
  if (shape.empty() || lengths.size() != 1 || lengths[0] > kMost ||
      node.axis("axis", 0, static_cast<int64_t>(shape.size())) != 0)
    return node.fail("the sizes of its parts depend on the model's data; such are supported along the first dimension, "
                     "of at most {} parts",
                     kMost);
  Type integer = node.builder.getI64Type();
  Value ends =
      node.emit<nn::CumsumOp>({node.cast(sizes, integer)}, {node.intAttr("axis", 0), node.boolAttr("exclusive", false),
                                                            node.boolAttr("reverse", false)});
  const Selection *rows = selectionAt(node, 0, Selection::rows);
  Value numbers = rows ? numbersOf(node, *rows, integer) : node.iota({shape[0]}, integer, 0, 0, 1);
  Value passed = node.compare(node.reshape(numbers, {shape[0], 1}), node.reshape(ends, {1, lengths[0]}), "ge");
  Value run = node.reduce(node.cast(passed, integer), "sum", {1}, false); // the number of the run that a row is in
  if (rows)
    run = node.emit<nn::SelectOp>(
        {maskAlong(node, *rows, 0, {shape[0]}), run, node.scalar(run, static_cast<double>(lengths[0]) + 1)});
  if (!run)
    return failure();
  NodeValue sequence;
  sequence.isSequence = true;
  const bool outputs = node.node.op_type() == "Split";
  if (outputs && static_cast<int64_t>(node.outputCount()) != lengths[0])
    return node.fail("it has {} outputs, but {} sizes of parts", node.outputCount(), lengths[0]);
  for (int64_t i = 0; i < lengths[0]; ++i) {
    NodeValue part;
    part.value = value;
    part.selection = selectionBy(node.compare(run, node.scalar(run, static_cast<double>(i)), "eq"));
    part.selection->part = static_cast<size_t>(i);
    part.selection->parts = static_cast<size_t>(lengths[0]);
    if (rows)
      part.selection->of = std::make_shared<Selection>(*rows);
    if (outputs)
      node.result(static_cast<size_t>(i), std::move(part));
    else
      sequence.sequence.push_back(std::move(part));
  }
  if (!outputs)
    node.result(0, std::move(sequence));
  return success();
}

static LogicalResult throughRows(NodeContext &node) {
  if (succeeded(convertRows(node)))
    return success();
  if (node.failed())
    return failure();
  return node.fail(
      "it takes what NonZero selects, or SplitToSequence by counts of data, the number of which depends on "
      "the model's data; only constants are supported, and what is computed row by row for the places that "
      "a mask selects, summed, or put back there");
}

LogicalResult convertSelection(NodeContext &node) {
  const std::string op = domainOf(node.node).empty() ? node.node.op_type() : "";
  auto at = [&](size_t index, Selection::Kind kind) { return selectionAt(node, index, kind); };
  auto isOne = [&](size_t index) { return at(index, Selection::one); };
  for (size_t i = 0; i < node.inputCount(); ++i) // their order is another one
    if (at(i, Selection::rows) && at(i, Selection::rows)->tiles != 1)
      return throughRows(node);
  if (op == "SequenceAt" || op == "SequenceLength") // of parts that are rows
    return Converters::table().find("", op)(node);
  const bool keeps = op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Identity";
  if (keeps && isOne(0))
    return give(node, *isOne(0));
  const Selection *count = at(2, Selection::sizes);
  const Selection *rows = at(0, Selection::rows);
  if ((op == "SplitToSequence" || op == "Split") && rows && rows->dim == 0 && rows->run == 1 && node.has(1) &&
      !node.known(1) && !at(1, Selection::rows))
    return splitByData(node);
  if (op == "Slice" && (!rows || (rows->dim == 0 && count && rows->mask != count->mask)) && count &&
      count->otherwise.elements() == 1 && isNumber(node, 1, 0) && isNumber(node, 3, 0) && isNumber(node, 4, 1)) {
    Selection entries = *count;
    Value from = node.input(0);
    if (rows && from) {
      from = movedToFront(node, *rows, from);
      entries.of = std::make_shared<Selection>(*rows);
    }
    entries.run = timesCount(*count, 0);
    entries.kind = Selection::entries;
    entries.from = from;
    return from ? give(node, entries) : failure();
  }
  const Selection *places = at(1, Selection::rows), *updates = at(2, Selection::rows);
  const Selection *entries = at(2, Selection::entries) ? at(2, Selection::entries) : isOne(2);
  if (op == "ScatterND" && entries && areTuples(node, 1) &&
      node.attributes.text("reduction", "none") == "none")
    return scatterSelected(node, *places, *entries);
  if ((op == "ScatterND" || op == "ScatterElements") && places && updates && !at(0, Selection::rows))
    return scatterRows(node, *places, *updates);
  if (op == "Concat" && at(0, Selection::rows) && succeeded(joinRuns(node)))
    return success();
  if (isOne(0) || isOne(1) || isOne(2))
    return node.fail(
        "it takes a tensor whose shape depends on the model's data; shapes must follow from shapes and constants");
  return throughRows(node);
}

} // namespace mt::onnx
