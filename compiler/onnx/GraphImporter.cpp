#include "compiler/onnx/GraphImporter.h"

#include "compiler/onnx/Converters.h"
#include "compiler/onnx/MergeExperts.h"

#include <filesystem>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int kCallDepth = 32;
constexpr int64_t kCalledNodes = 500000; ///< that functions may become

std::map<std::string, int64_t>
opsetsOf(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &imports) {
  std::map<std::string, int64_t> opsets;
  for (const auto &set : imports)
    opsets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  return opsets;
}

/// Whether a value's size depends on data, or that of a part of it.
bool isSelected(const NodeValue *value) {
  return value &&
         (value->selection || llvm::any_of(value->sequence, [](const NodeValue &part) { return isSelected(&part); }));
}

std::vector<std::string> outputNames(const ::onnx::GraphProto &graph) {
  std::vector<std::string> names;
  for (const auto &output : graph.output())
    names.push_back(output.name());
  return names;
}

} // namespace

NodeValue *GraphImporter::Scope::find(const std::string &name) {
  for (Scope *scope = this; scope; scope = scope->outer)
    if (auto at = scope->values.find(name); at != scope->values.end())
      return &at->second;
  return nullptr;
}

GraphImporter::GraphImporter(OpBuilder &builder, func::FuncOp function, const ModelFile &file, Problems &problems)
    : builder(builder), function(function), file(file), problems(problems), origins(originsOf(file.model.graph())),
      moduleNames(moduleNamesOf(file.model.graph(), origins)), detaches(lostDetaches(file.model.graph(), origins)),
      variableNames(file.model) {
  for (const auto &local : file.model.functions())
    functions[{local.domain() == "ai.onnx" ? "" : local.domain(), local.name()}] = &local;
}

std::vector<Value> GraphImporter::run(const BoundInputs &inputs) {
  const ::onnx::GraphProto &graph = file.model.graph();
  Scope scope;
  scope.isGraph = true;
  Block &body = function.getBody().front();
  for (size_t i = 0; i < inputs.inputs.size(); ++i)
    scope.values[inputs.inputs[i].name].value =
        asModelHas(inputs.inputs[i], body.getArgument(static_cast<unsigned>(i)));
  importInitializers(graph, scope);
  noteDescriptions(inputs);
  Frame frame;
  frame.opsets = opsetsOf(file.model.opset_import());
  importNodes(graph.node(), outputNames(graph), scope, frame);
  std::vector<Value> outputs;
  for (const auto &output : graph.output()) {
    NodeValue *found = scope.find(output.name());
    if (!found)
      problems.push_back(fmt::format("graph output '{}' is defined by no node: the file is damaged or was cut; export "
                                     "it again", output.name()));
    else if (found->selection)
      problems.push_back(fmt::format("graph output '{}' {} depends on the model's data", output.name(),
                                     found->selection->kind == Selection::one
                                         ? "has a shape that"
                                         : "holds what NonZero selects, the number of which"));
    else if (found->isSequence)
      problems.push_back(fmt::format("graph output '{}' is a sequence, not a tensor", output.name()));
    if (found && !found->value && found->known)
      found->value = makeConstant(builder, locationOf(output.name()), *found->known);
    if (found && !found->value && found->make && !found->poisoned)
      found->value = found->make();
    outputs.push_back(found ? found->value : Value());
    if (!outputs.back() && problems.empty())
      problems.push_back(fmt::format("graph output '{}' is not computed by the nodes that should: the file is damaged; "
                                     "export it again", output.name()));
  }
  return outputs;
}

/// An input whose data have rows first, with the batch where the model has it.
Value GraphImporter::asModelHas(const BoundInput &input, Value data) {
  if (input.batchDim == 0)
    return data;
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < std::ssize(input.dims); ++d)
    order.push_back(static_cast<int64_t>(input.dataDim(d)));
  auto moved = nn::TransposeOp::create(builder, locationOf(input.name), data, order);
  moved->setAttr(nn::kMovesBatchAttr, builder.getUnitAttr());
  return moved;
}

void GraphImporter::noteDescriptions(const BoundInputs &inputs) {
  const ::onnx::GraphProto &graph = file.model.graph();
  for (const auto &value : graph.value_info())
    described[value.name()] = &value;
  for (const auto &output : graph.output())
    described[output.name()] = &output;
  for (const auto &input : graph.input())
    for (const BoundInput &bound : inputs.inputs)
      for (int d = 0; bound.name == input.name() && d < input.type().tensor_type().shape().dim_size(); ++d)
        if (const auto &dim = input.type().tensor_type().shape().dim(d); !symbolOf(dim).empty())
          symbols[symbolOf(dim)] = bound.dims[bound.dataDim(d)];
}

Location GraphImporter::locationOf(const std::string &name) {
  StringRef fileName = builder.getStringAttr(std::filesystem::path(file.path).filename().string()).getValue();
  return NameLoc::get(builder.getStringAttr(name), FileLineColLoc::get(builder.getContext(), fileName, 0, 0));
}

//===-- nodes ---------------------------------------------------------------------------------------------------===//

void GraphImporter::importNodes(const NodeList &nodes, const std::vector<std::string> &outputs, Scope &scope,
                                const Frame &frame) {
  auto outside = [&](const std::string &name) { return scope.find(name) || scope.isAbsent(name); };
  for (const auto *node : orderNodes(nodes, outputs, outside, problems))
    importNode(*node, scope, frame);
}

const ::onnx::FunctionProto *GraphImporter::functionOf(const ::onnx::NodeProto &node) const {
  auto at = functions.find({domainOf(node), node.op_type()});
  return at == functions.end() ? nullptr : at->second;
}

// A value of the type that the exporter noted, if it did: so that what is behind a node that cannot be converted is
// looked at too, and all problems of a model are told at once.
NodeValue GraphImporter::guessOf(const std::string &name) {
  NodeValue guess;
  guess.poisoned = true;
  auto at = described.find(name);
  if (at == described.end() || !at->second->type().has_tensor_type() || !at->second->type().tensor_type().has_shape())
    return guess;
  const auto &noted = at->second->type().tensor_type();
  std::optional<DType> type = elementType(noted.elem_type());
  Dims dims;
  for (const auto &dim : noted.shape().dim()) {
    auto symbol = symbols.find(symbolOf(dim));
    if (!isFixed(dim) && symbol == symbols.end())
      return guess;
    dims.push_back(isFixed(dim) ? dim.dim_value() : symbol->second);
  }
  if (!type || !elementCount(dims))
    return guess;
  guess.value = makeConstant(builder, locationOf(name), HostTensor(*type, dims));
  guess.isGuess = true;
  guess.poisoned = false;
  return guess;
}

void GraphImporter::giveUp(const ::onnx::NodeProto &node, Scope &scope) {
  for (const std::string &name : node.output())
    if (!name.empty()) {
      scope.values[name].poisoned = true;
      if (scope.isGraph)
        scope.values[name] = guessOf(name);
    }
}

void GraphImporter::store(const ::onnx::NodeProto &node, Scope &scope, std::vector<NodeValue> results) {
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty() && !scope.values.contains(node.output(i)))
      scope.values[node.output(i)] = std::move(results[static_cast<size_t>(i)]);
}

void GraphImporter::importNode(const ::onnx::NodeProto &node, Scope &scope, const Frame &frame) {
  unrolledNodes += loopsAround > 0;
  const NodeAttributes &attributes = keptAttributes.emplace_back(node, frame.call);
  std::vector<NodeValue *> inputs;
  bool poisoned = false;
  for (const std::string &name : node.input()) {
    bool leftOut = name.empty() || scope.isAbsent(name);
    NodeValue *value = leftOut ? nullptr : scope.find(name);
    poisoned = poisoned || (!leftOut && (!value || value->poisoned));
    inputs.push_back(value);
  }
  bool inlined = domainOf(node).empty() && inlines(node.op_type());
  const auto *called = functionOf(node);
  if (!inlined && !called && !Converters::table().find(domainOf(node), node.op_type())) {
    problems.push_back(fmt::format("{}: {}", nodeText(node),
                                   domainOf(node) == "com.microsoft.nchwc"
                                       ? "ONNX Runtime saved this model for the processor that it ran on: save it with "
                                         "ORT_ENABLE_EXTENDED or less, or compile the model that it was made from"
                                       : "this operator is not supported; docs/operators.md lists those that are"));
    poisoned = true;
  }
  if (inlined && llvm::any_of(inputs, isSelected)) {
    problems.push_back(fmt::format("{}: it takes what NonZero selects, the number of which depends on the model's data",
                                   nodeText(node)));
    poisoned = true;
  }
  if (poisoned)
    return giveUp(node, scope);
  if (inlined)
    return inlineGraphs(node, attributes, inputs, scope, frame);
  if (called && !Converters::table().find(domainOf(node), node.op_type()))
    return importCall(node, *called, attributes, inputs, scope, frame);
  convert(node, attributes, inputs, scope, frame);
}

void GraphImporter::noteStatistics(const NodeContext &context) {
  const std::vector<size_t> &statistics = context.statistics();
  for (size_t input : statistics)
    for (Candidate &candidate : stored) {
      if (candidate.argument != context.given(input).value)
        continue;
      candidate.isStatistic = true;
      for (size_t other = 0; other < context.inputCount(); ++other)
        candidate.isMerged |= context.has(other) && !llvm::is_contained(statistics, other) &&
                              context.given(other).value == candidate.argument;
    }
  for (size_t input : context.running())
    for (Candidate &candidate : stored)
      if (candidate.argument == context.given(input).value && std::exchange(candidate.isRunning, true))
        problems.push_back(
            fmt::format("node '{}' ({}): running statistics '{}' are another node's too: export the model with "
                        "its own for each",
                        context.node.name(), context.node.op_type(), candidate.source.name));
}

void GraphImporter::inlineGraphs(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                                 const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame) {
  const std::string &op = node.op_type();
  auto import = op == "If"     ? &GraphImporter::importCondition
                : op == "Loop" ? &GraphImporter::importLoop
                : op == "Scan" ? &GraphImporter::importScan
                               : &GraphImporter::importMap;
  (this->*import)(node, attributes, inputs, scope, frame);
}

// What the module detaches before this node, where the exporter left the detach out.
void GraphImporter::detachInputs(const ::onnx::NodeProto &node, std::vector<NodeValue *> &inputs,
                                 std::deque<NodeValue> &changed) {
  auto lost = detaches.places.find(&node);
  if (lost == detaches.places.end())
    return;
  bool all = true;
  for (const LostDetaches::Place &place : lost->second) {
    NodeValue *input = place.input < inputs.size() ? inputs[place.input] : nullptr;
    if (input && !input->value && input->make)
      input->value = input->make();
    if (!input || !input->value || !nn::isReal(input->value)) {
      all = all && input && !input->value && input->known; // a constant
      continue;
    }
    NodeValue value = *input;
    value.value = nn::DetachOp::create(builder, locationOf(nodeName(node)), value.value);
    changed.push_back(std::move(value));
    inputs[place.input] = &changed.back();
  }
  if (all)
    detached.insert(&node);
}

std::vector<std::string> GraphImporter::leftOutDetaches() const {
  std::set<std::string> names(detaches.unplaced.begin(), detaches.unplaced.end());
  for (const auto &[node, places] : detaches.places)
    if (!detached.contains(node))
      for (const LostDetaches::Place &place : places)
        names.insert(place.name);
  return {names.begin(), names.end()};
}

void GraphImporter::convert(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                            std::vector<NodeValue *> inputs, Scope &scope, const Frame &frame) {
  std::string domain = domainOf(node);
  const auto *tensor = attributes.find("value");
  if (domain.empty() && node.op_type() == "Constant" && tensor && tensor->has_t() && node.output_size() == 1)
    return store(node, scope, {valueOf(tensor->t(), node.output(0), true)});
  // Small known tensors are computed with; positions too, but they stay operations as well.
  EvaluatedNode evaluated{node.op_type(), &attributes, {}, static_cast<size_t>(node.output_size())};
  bool known = domain.empty(), symbolic = false;
  for (NodeValue *input : inputs) {
    known = known && (!input || input->known);
    symbolic = symbolic || (input && input->symbolic);
    evaluated.inputs.push_back(input && input->known ? &*input->known : nullptr);
  }
  bool selects = llvm::any_of(inputs, isSelected);
  std::optional<std::vector<HostTensor>> values = known && !selects ? evaluateShapes(evaluated) : std::nullopt;
  if (values && !symbolic) {
    std::vector<NodeValue> results(static_cast<size_t>(node.output_size()));
    for (size_t i = 0; i < results.size() && i < values->size(); ++i)
      results[i].known = std::move((*values)[i]);
    return store(node, scope, std::move(results));
  }
  auto opset = frame.opsets.find(domain);
  std::deque<NodeValue> changed;
  detachInputs(node, inputs, changed);
  if (frame.taken && domain.empty())
    guardInputs(node, frame.taken, inputs, changed);
  NodeContext context(builder, locationOf(nodeName(node)), node, attributes,
                      opset == frame.opsets.end() ? 1 : opset->second, inputs, file, problems);
  Block &body = function.getBody().front();
  Operation *last = body.empty() ? nullptr : &body.back();
  if (failed(selects ? convertSelection(context) : Converters::table().find(domain, node.op_type())(context))) {
    if (!context.failed())
      (void)context.fail("its inputs or attributes have a form that is not supported");
    return giveUp(node, scope);
  }
  if (frame.taken && !context.running().empty()) {
    (void)context.fail(
        "moves running statistics in a branch that the data choose: export the model in evaluation form");
    return giveUp(node, scope);
  }
  noteStatistics(context);
  std::vector<NodeValue> results = context.takeResults();
  bool guessed = llvm::any_of(inputs, [](const NodeValue *input) { return input && input->isGuess; });
  for (NodeValue &result : results) {
    result.isGuess = guessed;
    Operation *made = result.value ? result.value.getDefiningOp() : nullptr;
    Operation *at = last ? last->getNextNode() : body.empty() ? nullptr : &body.front();
    while (at && at != made) // what was there before is no value of rows alone
      at = at->getNextNode();
    if (at && result.selection && result.selection->kind == Selection::rows)
      noteRows(result.value, *result.selection, notedMasks);
  }
  for (size_t i = 0; values && i < results.size() && i < values->size(); ++i)
    if (!results[i].known) {
      results[i].known = std::move((*values)[i]);
      results[i].symbolic = true;
    }
  store(node, scope, std::move(results));
}

//===-- functions ------------------------------------------------------------------------------------------------===//

void GraphImporter::importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &called,
                               const NodeAttributes &attributes, const std::vector<NodeValue *> &inputs, Scope &scope,
                               const Frame &caller) {
  const int depth = caller.depth + 1;
  if (depth > kCallDepth) {
    problems.push_back(fmt::format("{}: functions call each other more than {} levels deep", nodeText(node), kCallDepth));
    return giveUp(node, scope);
  }
  calledNodes += called.node_size();
  if (calledNodes > kCalledNodes) {
    if (calledNodes - called.node_size() <= kCalledNodes)
      problems.push_back(
          fmt::format("{}: functions that call each other become more than {} nodes: export the model with functions "
                      "inlined, or fewer of its layers",
                      nodeText(node), kCalledNodes));
    return giveUp(node, scope);
  }
  NodeAttributes &call = keptAttributes.emplace_back(attributes);
  for (const auto &attribute : called.attribute_proto())
    call.addDefault(attribute);
  Scope body;
  for (int i = 0; i < called.input_size(); ++i)
    if (static_cast<size_t>(i) < inputs.size() && inputs[static_cast<size_t>(i)])
      body.values[called.input(i)] = *inputs[static_cast<size_t>(i)];
    else
      body.absent.insert(called.input(i));
  Frame frame{&call, opsetsOf(called.opset_import()), depth, caller.taken};
  if (!frame.opsets.contains(""))
    frame.opsets[""] = file.opset();
  importNodes(called.node(), {called.output().begin(), called.output().end()}, body, frame);
  std::vector<NodeValue> results(static_cast<size_t>(node.output_size()));
  for (int i = 0; i < node.output_size(); ++i) {
    NodeValue *result = i < called.output_size() ? body.find(called.output(i)) : nullptr;
    results[static_cast<size_t>(i)] = result ? *result : NodeValue();
    results[static_cast<size_t>(i)].poisoned = !result || result->poisoned;
  }
  store(node, scope, std::move(results));
}

// A value as part of a sequence, whose parts are all there.
NodeValue GraphImporter::partOf(NodeValue value) {
  if (!value.value && value.known)
    value.value = makeConstant(builder, builder.getUnknownLoc(), *value.known);
  if (!value.value && value.make)
    value.value = value.make();
  value.poisoned = value.poisoned || !value.value;
  return value;
}

// The body of SequenceMap, once for each entry of its first input.
void GraphImporter::importMap(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                              const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame) {
  const auto *body = attributes.find("body");
  bool fits = body && body->has_g() && static_cast<size_t>(body->g().input_size()) == inputs.size() &&
              body->g().output_size() == node.output_size() && !inputs.empty() && inputs[0] && inputs[0]->isSequence;
  for (const NodeValue *input : inputs)
    fits = fits && input && (!input->isSequence || input->sequence.size() == inputs[0]->sequence.size());
  if (!fits) {
    problems.push_back(
        fmt::format("{}: its body does not fit its inputs, of which the first must be a sequence and others "
                    "sequences as long",
                    nodeText(node)));
    return giveUp(node, scope);
  }
  std::vector<NodeValue> results(static_cast<size_t>(node.output_size()));
  for (NodeValue &result : results)
    result.isSequence = true;
  for (size_t i = 0; i < inputs[0]->sequence.size(); ++i) {
    std::vector<NodeValue> parts;
    for (const NodeValue *input : inputs)
      parts.push_back(input->isSequence ? input->sequence[i] : *input);
    std::vector<NodeValue> made = importBody(body->g(), std::move(parts), scope, frame);
    for (size_t k = 0; k < results.size(); ++k) {
      NodeValue part = partOf(std::move(made[k]));
      results[k].poisoned |= part.poisoned;
      results[k].sequence.push_back(std::move(part));
    }
  }
  store(node, scope, std::move(results));
}

// What a subgraph gives for these inputs; it sees the values around it too.
std::vector<NodeValue> GraphImporter::importBody(const ::onnx::GraphProto &body, std::vector<NodeValue> inputs,
                                                 Scope &scope, const Frame &frame) {
  Scope inner;
  inner.outer = &scope;
  for (size_t i = 0; i < inputs.size(); ++i)
    inner.values[body.input(static_cast<int>(i)).name()] = std::move(inputs[i]);
  importInitializers(body, inner);
  importNodes(body.node(), outputNames(body), inner, frame);
  std::vector<NodeValue> results;
  for (const auto &output : body.output()) {
    NodeValue *result = inner.find(output.name());
    results.push_back(result ? *result : NodeValue());
    results.back().poisoned = !result || result->poisoned;
  }
  return results;
}

} // namespace mt::onnx
