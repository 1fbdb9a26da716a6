// mt-append-loss: the loss, its labels and the step's scalars, appended to a model that ends in predictions.
#include "passes/Passes.h"
#include "passes/Settings.h"
#include "passes/nn/BatchFlow.h"
#include "passes/nn/LossLabels.h"
#include "passes/nn/Match.h"

#include "kernels/Catalogue.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_APPENDLOSS
#include "passes/Passes.h.inc"
using namespace nn;
using passes::scaledBy;

namespace {
/// logits = cap * tanh(scale * product / cap), cap 0: no cap; what is left when scale and cap are peeled off.
struct Head {
  MatmulOp product;
  double scale = 1, cap = 0;
};

Value throughReshape(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// Whether a row of `product` is a row of `logits`: a view between them may cut rows up, a splat repeat them.
bool sameRows(Value product, Value logits) {
  return shapeOf(product).back() == shapeOf(logits).back() &&
         cast<ShapedType>(product.getType()).getNumElements() == cast<ShapedType>(logits.getType()).getNumElements();
}

Head findHead(Value logits) {
  Head head;
  Value value = throughReshape(logits);
  if (auto outer = scaledBy(value))
    if (auto tanh = throughReshape(outer->first).getDefiningOp<TanhOp>())
      if (auto inner = scaledBy(throughReshape(tanh.getOperand())); inner && std::abs(inner->second * outer->second - 1) < 1e-5) {
        head.cap = outer->second;
        value = throughReshape(inner->first);
      }
  while (auto scaled = scaledBy(value)) {
    head.scale *= scaled->second;
    value = throughReshape(scaled->first);
  }
  head.product = value.getDefiningOp<MatmulOp>();
  if (head.product && (head.product.getTransposeLhs() || shapeOf(head.product.getRhs()).size() != 2 ||
                       !sameRows(head.product.getResult(), logits)))
    head.product = nullptr;
  return head;
}

struct AppendLoss : impl::AppendLossBase<AppendLoss> {
  using AppendLossBase::AppendLossBase;

  func::FuncOp main;
  OpBuilder builder{static_cast<MLIRContext *>(nullptr)};
  std::string chosen; ///< the kind of loss
  BlockArgument labels; ///< of the loss, if it has such

  Value addArgument(Type type, StringRef attribute) {
    unsigned index = main.getNumArguments();
    DictionaryAttr attributes = builder.getDictionaryAttr(builder.getNamedAttr(attribute, builder.getUnitAttr()));
    if (failed(main.insertArgument(index, type, attributes, main.getLoc())))
      return nullptr;
    return main.getArgument(index);
  }

  /// The step's scalars; random numbers may have brought them.
  Value scalars() {
    for (BlockArgument argument : main.getArguments())
      if (main.getArgAttr(argument.getArgNumber(), kScalarsAttr))
        return argument;
    return addArgument(tensorOf({kernels::Scalars::kCount}, builder.getF64Type()), kScalarsAttr);
  }

  /// Rows of the batch: of every input that has dimensions.
  int64_t batch() {
    for (BlockArgument argument : main.getArguments())
      if (main.getArgAttr(argument.getArgNumber(), kInputAttr) && !shapeOf(argument).empty())
        return shapeOf(argument)[0];
    return 1;
  }

  /// Whether the model has the batch of an input elsewhere than its data.
  bool movesBatch() {
    return llvm::any_of(main.getOps<TransposeOp>(), [](TransposeOp op) { return op->hasAttr(kMovesBatchAttr); });
  }

  /// Where the batch is in an output, whose first dimensions have `shape`; none after an error. Where rows see each
  /// other, and cannot be followed, dimension 0 has them, first of all that it may hold.
  std::optional<Rows> batchOf(Value output, ArrayRef<int64_t> shape) {
    std::optional<Rows> found = passes::rowsIn(output, main);
    const int64_t rows = batch();
    const bool isOfClasses = found && found->dim >= std::ssize(shape), isLost = !found && movesBatch();
    if (rows < 1) // what has no elements is refused later
      return Rows{Rows::each, 0, 1, 1, ""};
    if (found && !isOfClasses && found->outer * rows * found->inner == shape[found->dim])
      return found;
    if (!isOfClasses && !isLost && shape[0] % rows == 0) {
      if (shape[0] != rows && rows > 1)
        main.emitWarning() << "rows of the batch see each other, and cannot be followed to the output "
                           << output.getType() << ": its dimension 0 is taken for " << rows << " rows of "
                           << shape[0] / rows << ", as labels are";
      return Rows{Rows::each, 0, 1, shape[0] / rows, ""};
    }
    InFlightDiagnostic error = main.emitError() << "--loss " << chosen << ": ";
    if (isOfClasses)
      error << "the batch is dimension " << found->dim << " of the output " << output.getType()
            << ", where classes are";
    else if (isLost)
      error << "the batch, which is not dimension 0 of the inputs, cannot be followed to the output";
    else
      error << "dimension 0 of the output, " << shape[0] << ", is no multiple of the batch of " << rows;
    error
        << ": labels could not be given row by row; choose another output with --loss output:NAME, or export the loss";
    return std::nullopt;
  }

  /// Labels for every element of `shape`, the first dimensions of `output`, as an argument whose dimension 0 is the
  /// batch as it is of inputs: a model may have merged it with others, or have it elsewhere. They are given back under
  /// `shape`; null after an error.
  Value addLabels(Value output, ArrayRef<int64_t> shape, Type element) {
    std::optional<Rows> at = batchOf(output, shape);
    if (!at)
      return nullptr;
    if (batch() == 1) { // any dimension of one may be it, and any order is the same
      SmallVector<int64_t> own(shape);
      if (auto one = llvm::find(own, 1); one != own.end())
        own.erase(one);
      own.insert(own.begin(), 1);
      labels = cast<BlockArgument>(addArgument(tensorOf(own, element), kLabelsAttr));
      return reshapeTo(builder, labels, shape);
    }
    const int64_t size = shape[at->dim], rows = size / at->outer / at->inner;
    SmallVector<int64_t> split(shape.take_front(at->dim)); // as the output has them, its batch by itself
    if (at->outer > 1)
      split.push_back(at->outer);
    const size_t place = split.size();
    split.push_back(rows);
    if (at->inner > 1)
      split.push_back(at->inner);
    llvm::append_range(split, shape.drop_front(at->dim + 1));
    SmallVector<int64_t> own = {rows}, order; // as data have them
    for (auto [d, extent] : llvm::enumerate(split)) {
      order.push_back(d < place ? d + 1 : d == place ? 0 : d);
      if (d != place)
        own.push_back(extent);
    }
    labels = cast<BlockArgument>(addArgument(tensorOf(own, element), kLabelsAttr));
    Value value = labels;
    if (place != 0)
      value = TransposeOp::create(builder, labels.getLoc(), value, order);
    return reshapeTo(builder, value, shape);
  }

  /// Index of the result to train on; -1 after an error.
  int64_t chooseOutput(func::ReturnOp exit) {
    if (exit.getNumOperands() == 0)
      return main.emitError("the model has no output to train on"), -1;
    for (auto [i, value] : llvm::enumerate(exit.getOperands())) {
      auto name = main.getResultAttrOfType<StringAttr>(i, kOutputAttr);
      if (name && name.getValue() == "logits")
        return i;
    }
    return 0;
  }

  bool hasIntegerInput() {
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (main.getArgAttr(i, kInputAttr) && isa<IntegerType>(getElementTypeOrSelf(main.getArgument(i).getType())))
        return true;
    return false;
  }

  /// Rows of the tables that `ids` indexes, through views and casts: what its values must stay below. 0: no table.
  static int64_t tableRows(Value ids) {
    int64_t rows = 0;
    auto bound = [&](int64_t count) { rows = rows == 0 ? count : std::min(rows, count); };
    for (Operation *user : ids.getUsers()) {
      if (auto embedding = dyn_cast<EmbeddingOp>(user); embedding && embedding.getIds() == ids)
        bound(shapeOf(embedding.getTable())[0]);
      else if (auto gather = dyn_cast<GatherOp>(user); gather && gather.getIndices() == ids)
        bound(shapeOf(gather.getData())[gather.getAxis()]);
      else if (isa<ReshapeOp, CastOp, SliceOp>(user))
        if (int64_t inner = tableRows(user->getResult(0)))
          bound(inner);
    }
    return rows;
  }
  void setVocabulary(Value argument, int64_t count) {
    main.setArgAttr(cast<BlockArgument>(argument).getArgNumber(), kVocabularyAttr, builder.getI64IntegerAttr(count));
  }
  void boundInputs() {
    for (BlockArgument argument : main.getArguments())
      if (main.getArgAttr(argument.getArgNumber(), kInputAttr) && isa<IntegerType>(getElementTypeOrSelf(argument.getType())))
        if (int64_t rows = tableRows(argument))
          setVocabulary(argument, rows);
  }

  /// Of several sequences, an encoder's and a decoder's, that of the step is the one that has labels.
  void stateSequence() {
    ArrayRef<int64_t> own = shapeOf(labels);
    for (BlockArgument argument : main.getArguments())
      if (auto type = cast<RankedTensorType>(argument.getType()); main.getArgAttr(argument.getArgNumber(), kInputAttr))
        if (own.size() == 2 && type.getRank() == 2 && type.getElementType().isInteger() && type.getShape()[1] == own[1])
          passes::stateSetting(getOperation(), &plan::Settings::sequence, own[1]);
  }

  /// An attribute of a cross-entropy; none where it changes nothing.
  FloatAttr share(double value) { return value > 0 ? builder.getF64FloatAttr(value) : FloatAttr(); }

  Value crossEntropy(Value logits) {
    ArrayRef<int64_t> shape = shapeOf(logits);
    int64_t rows = 1;
    for (int64_t size : shape.drop_back())
      rows *= size;
    Value targets = addLabels(logits, shape.drop_back(), builder.getI64Type());
    if (!targets)
      return nullptr;
    setVocabulary(labels, shape.back());
    stateSequence();
    targets = reshapeTo(builder, throughReshape(targets), {rows});
    if (Head head = findHead(logits); head.product) {
      Value hidden = head.product.getLhs();
      hidden = reshapeTo(builder, hidden, {rows, shapeOf(hidden).back()});
      return LinearCrossEntropyOp::create(builder, head.product.getLoc(), hidden, head.product.getRhs(),
                                          head.product.getBias(), targets, scalars(), !head.product.getTransposeRhs(),
                                          APFloat(head.scale), APFloat(head.cap), 0, share(labelSmoothing),
                                          share(zLoss));
    }
    return CrossEntropyOp::create(builder, logits.getLoc(), reshapeTo(builder, logits, {rows, shape.back()}), targets,
                                  scalars(), share(labelSmoothing), share(zLoss));
  }

  Value squaredError(Value prediction) {
    Value targets = addLabels(prediction, shapeOf(prediction), getElementTypeOrSelf(prediction.getType()));
    if (!targets)
      return nullptr;
    return SquaredErrorOp::create(builder, prediction.getLoc(), prediction, targets, scalars());
  }

  Value build(Value output) {
    size_t rank = shapeOf(output).size();
    std::string kind = loss;
    if (kind.empty() && rank == 3 && hasIntegerInput())
      kind = "causal-lm";
    chosen = kind;
    if (!nn::isReal(output))
      return main.emitError() << "the model's output is " << output.getType() << ", which no loss applies to", nullptr;
    if (kind == "causal-lm" && rank == 3)
      return crossEntropy(output);
    if (kind == "cross-entropy" && rank >= 2)
      return crossEntropy(output);
    if (kind == "mse" && rank >= 1)
      return squaredError(output);
    InFlightDiagnostic error = main.emitError();
    if (kind.empty())
      error << "cannot tell the loss of an output " << output.getType();
    else
      error << "--loss " << kind << " does not fit an output " << output.getType();
    error << "; give --loss causal-lm (logits [batch, sequence, vocabulary]), cross-entropy (logits [batch, .., "
             "classes]), mse (predictions of any shape) or output:NAME (an output that is the loss)";
    return nullptr;
  }

  /// output:NAME - the named output is the loss already.
  Value namedOutput(func::ReturnOp exit, StringRef name) {
    for (auto [i, value] : llvm::enumerate(exit.getOperands())) {
      auto attribute = main.getResultAttrOfType<StringAttr>(i, kOutputAttr);
      if (!attribute || attribute.getValue() != name)
        continue;
      if (cast<ShapedType>(value.getType()).getNumElements() != 1)
        return main.emitError() << "--loss output:" << name << " names " << value.getType() << ", not a scalar", nullptr;
      Value scalar = reshapeTo(builder, value, {});
      return scalar;
    }
    InFlightDiagnostic error = main.emitError() << "--loss output:" << name << ": the model has no such output; it has";
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto attribute = main.getResultAttrOfType<StringAttr>(i, kOutputAttr))
        error << " " << attribute.getValue();
    return nullptr;
  }

  /// What only a cross-entropy that is appended here can have.
  LogicalResult checkShares() {
    if ((labelSmoothing == 0 && zLoss == 0) || chosen == "causal-lm" || chosen == "cross-entropy")
      return success();
    const StringRef what = chosen == "mse" ? " has no classes" : " is the model's own";
    return main.emitError() << (labelSmoothing > 0 ? "--label-smoothing" : "--z-loss")
                            << " is of the losses causal-lm and cross-entropy, and --loss " << chosen << what
                            << ": leave it out";
  }

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main || main.isExternal())
      return signalPassFailure();
    auto exit = cast<func::ReturnOp>(main.front().getTerminator());
    builder = OpBuilder(exit);
    int64_t output = chooseOutput(exit);
    if (output < 0)
      return signalPassFailure();
    boundInputs();
    chosen = loss;
    StringRef name(loss);
    Value value = name.consume_front("output:") ? namedOutput(exit, name) : build(exit.getOperand(output));
    if (!value || failed(checkShares()))
      return signalPassFailure();
    if (labelSmoothing > 0)
      passes::stateSetting(getOperation(), &plan::Settings::labelSmoothing, labelSmoothing);
    if (zLoss > 0)
      passes::stateSetting(getOperation(), &plan::Settings::zLoss, zLoss);
    getOperation()->setAttr(kLossAttr, builder.getStringAttr(chosen));
    SmallVector<Value> others(exit.getOperands());
    others.erase(others.begin() + output); // the head product may be part of the loss now
    exit->setOperands(value);
    main.setType(FunctionType::get(&getContext(), main.getArgumentTypes(), value.getType()));
    main.setAllResultAttrs(ArrayRef<Attribute>{builder.getDictionaryAttr({})});
    eraseUnused(others);
    if (failed(checkInputs()))
      return signalPassFailure();
    if (StringRef(loss).starts_with("output:"))
      passes::describeLossLabels(main);
    else if (failed(mergeLabels()))
      return signalPassFailure();
    warnOfUntrained();
  }

  /// Data are rows: an input that is one number has none, and one without elements is nothing.
  LogicalResult checkInputs() {
    for (BlockArgument argument : main.getArguments()) {
      auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kInputAttr);
      auto type = cast<RankedTensorType>(argument.getType());
      if (name && type.getRank() == 0)
        return main.emitError() << "input '" << name.getValue() << "' is a single number, and data have a value for each row of the batch: "
                                << "export the model with that number as a constant, or with a dimension for the batch";
      if (!name && main.getArgAttr(argument.getArgNumber(), kLabelsAttr) && type.getNumElements() == 0)
        return main.emitError() << "the model's output has no elements: there is no loss of it";
      if (name && type.getNumElements() == 0)
        return main.emitError() << "input '" << name.getValue() << "' of type " << type << " has no elements: export the model without it, "
                                << "or with a dynamic dimension that --dim gives a size";
    }
    return success();
  }

  /// An input of the model's that is called labels and the labels of the loss are one thing: data name them alike.
  LogicalResult mergeLabels() {
    BlockArgument own, other;
    for (BlockArgument argument : main.getArguments()) {
      auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kInputAttr);
      if (main.getArgAttr(argument.getArgNumber(), kLabelsAttr))
        own = argument;
      else if (name && name.getValue() == "labels")
        other = argument;
    }
    if (!own || !other)
      return success();
    if (other.use_empty()) // only the model's own loss used it
      return main.eraseArgument(other.getArgNumber());
    if (other.getType() != own.getType())
      return main.emitError() << "the model has an input 'labels' of type " << other.getType() << ", which it uses besides its loss, and --loss "
                              << chosen << " has labels of type " << own.getType()
                              << ": data could name only one of them; rename the model's input, or train on its own loss with --loss output:NAME";
    own.replaceAllUsesWith(other);
    main.setArgAttr(other.getArgNumber(), kLabelsAttr, builder.getUnitAttr());
    if (Attribute vocabulary = main.getArgAttr(own.getArgNumber(), kVocabularyAttr))
      main.setArgAttr(other.getArgNumber(), kVocabularyAttr, vocabulary);
    main.setArgAttr(other.getArgNumber(), kIgnoredAttr, builder.getI64IntegerAttr(-100));
    return main.eraseArgument(own.getArgNumber());
  }

  /// Says which parameters the loss does not reach: nothing updates them.
  void warnOfUntrained() {
    constexpr size_t kNamed = 3;
    SmallVector<StringRef> names;
    for (BlockArgument argument : main.getArguments())
      if (argument.use_empty() && main.getArgAttr(argument.getArgNumber(), kTrainableAttr))
        names.push_back(main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kParameterAttr).getValue());
    if (names.empty())
      return;
    InFlightDiagnostic warning = main.emitWarning("no part in the loss, so neither trained nor changed: parameter");
    warning << (names.size() > 1 ? "s " : " ");
    for (auto [i, name] : llvm::enumerate(ArrayRef<StringRef>(names).take_front(kNamed)))
      warning << (i ? ", '" : "'") << name << "'";
    if (names.size() > kNamed)
      warning << " and " << names.size() - kNamed << " more";
  }

  /// Says so of outputs of the model among what it erases.
  void eraseUnused(ArrayRef<Value> outputs) {
    llvm::SmallDenseSet<Operation *> ends;
    for (Value output : outputs)
      if (Operation *end = output.getDefiningOp())
        ends.insert(end);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op)) {
        if (ends.contains(&op))
          op.emitRemark("this output of the model takes no part in the loss and is not computed");
        op.erase();
      }
  }
};
} // namespace
} // namespace mt
