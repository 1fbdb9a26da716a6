// Loop and Scan, unrolled: every iteration is imported as if the file had its nodes. How many there are must follow
// from shapes and constants, and all of them together have a bound. What an iteration computes with - the counter,
// carried numbers - is known where it is known before.
#include "compiler/onnx/GraphImporter.h"

using namespace mlir;

namespace mt::onnx {
namespace {

/// Nodes that loops of a model may become.
constexpr int64_t kUnrolled = 20'000;

NodeValue knownValue(HostTensor tensor) {
  NodeValue value;
  value.known = std::move(tensor);
  return value;
}

/// The single number that a value holds, where that is known.
std::optional<int64_t> numberOf(const NodeValue &value) {
  if (!value.known || value.known->elements() != 1)
    return std::nullopt;
  return value.known->intAt(0);
}

int64_t nodesOf(const ::onnx::GraphProto &graph) {
  int64_t count = graph.node_size();
  for (const auto &node : graph.node())
    for (const auto &attribute : node.attribute())
      count += attribute.has_g() ? nodesOf(attribute.g()) : 0;
  return count;
}

std::optional<std::vector<Walk>> walksOf(const NodeAttributes &attributes, const std::string &what, size_t count) {
  Dims axes = attributes.integers(what + "_axes").value_or(Dims(count, 0));
  Dims directions = attributes.integers(what + "_directions").value_or(Dims(count, 0));
  if (axes.size() != count || directions.size() != count)
    return std::nullopt;
  std::vector<Walk> walks;
  for (size_t i = 0; i < count; ++i)
    walks.push_back({axes[i], directions[i] != 0});
  return walks;
}

/// The parts of all iterations along a new axis.
Value stacked(NodeContext &node, Walk walk) {
  SmallVector<Value> parts;
  for (size_t i = 0; i < node.inputCount(); ++i) {
    Value part = node.input(i);
    if (!part)
      return {};
    SmallVector<int64_t> shape(nn::shapeOf(part));
    int64_t rank = static_cast<int64_t>(shape.size()) + 1, axis = walk.axis < 0 ? walk.axis + rank : walk.axis;
    if (axis < 0 || axis >= rank) {
      (void)node.fail("its axis {} is out of range for rank {}", walk.axis, rank);
      return {};
    }
    shape.insert(shape.begin() + axis, 1);
    parts.push_back(node.reshape(part, shape));
    walk.axis = axis;
  }
  if (walk.backwards)
    std::reverse(parts.begin(), parts.end());
  return node.concat(parts, walk.axis);
}

} // namespace

/// What both loops need: the node, its body, and what the iterations gave.
struct GraphImporter::Unrolled {
  const ::onnx::NodeProto &node;
  const NodeAttributes &attributes;
  const std::vector<NodeValue *> &inputs;
  Scope &scope;
  const Frame &frame;
  const ::onnx::GraphProto *body = nullptr;
  std::vector<NodeValue> carried = {};
  std::vector<std::vector<NodeValue>> parts = {}; ///< of outputs that are stacked, by iteration
};

// Reports what is wrong with a loop, whose results are then not there.
void GraphImporter::refuse(Unrolled &loop, const std::string &why) {
  problems.push_back(fmt::format("{}: {}", nodeText(loop.node), why));
  giveUp(loop.node, loop.scope);
}

bool GraphImporter::findBody(Unrolled &loop, size_t inputs, size_t outputs) {
  const auto *attribute = loop.attributes.find("body");
  if (!attribute || !attribute->has_g())
    return refuse(loop, "its body is missing"), false;
  loop.body = &attribute->g();
  bool fits = loop.body->input_size() == static_cast<int>(inputs) &&
              loop.body->output_size() >= static_cast<int>(outputs) &&
              loop.node.output_size() <= loop.body->output_size();
  if (!fits)
    refuse(loop, fmt::format("its body has {} inputs and {} outputs, which do not fit the node's {} and {}",
                             loop.body->input_size(), loop.body->output_size(), loop.node.input_size(),
                             loop.node.output_size()));
  return fits;
}

// Whether so many more iterations may be imported; reports a problem where they are too many.
bool GraphImporter::mayUnroll(Unrolled &loop, int64_t iterations) {
  int64_t each = 1 + nodesOf(*loop.body);
  if (iterations <= (kUnrolled - unrolledNodes) / each)
    return true;
  refuse(
      loop,
      fmt::format("loops are unrolled, and with this one the model's make more than {} nodes, of which its body has {} "
                  "in each iteration: make what it runs over shorter (--seq, --dim), or export the model with one "
                  "operator in its place (LSTM, GRU, Attention)",
                  kUnrolled, each - 1));
  return false;
}

// One more iteration; none, with a problem, where that are too many or something in it is not supported.
std::optional<std::vector<NodeValue>> GraphImporter::importIteration(Unrolled &loop, std::vector<NodeValue> inputs) {
  if (!mayUnroll(loop, 1))
    return std::nullopt;
  ++unrolledNodes, ++loopsAround;
  size_t before = problems.size();
  std::vector<NodeValue> results = importBody(*loop.body, std::move(inputs), loop.scope, loop.frame);
  --loopsAround;
  if (problems.size() == before && llvm::none_of(results, [](const NodeValue &value) { return value.poisoned; }))
    return results;
  giveUp(loop.node, loop.scope);
  return std::nullopt;
}

void GraphImporter::finishLoop(Unrolled &loop, const std::vector<Walk> &walks) {
  std::vector<NodeValue> results = std::move(loop.carried);
  for (size_t i = 0; i < loop.parts.size() && results.size() < static_cast<size_t>(loop.node.output_size()); ++i) {
    NodeValue whole;
    if (!loop.node.output(static_cast<int>(results.size())).empty()) {
      if (loop.parts[i].empty())
        return refuse(loop, "it has no iteration, and so nothing tells the shape of what it stacks");
      std::vector<NodeValue *> parts;
      for (NodeValue &part : loop.parts[i])
        parts.push_back(&part);
      NodeContext context(builder, locationOf(nodeName(loop.node)), loop.node, loop.attributes, 1, parts, file,
                          problems);
      whole.value = stacked(context, walks[i]);
      if (!whole.value)
        return giveUp(loop.node, loop.scope);
    }
    results.push_back(std::move(whole));
  }
  results.resize(static_cast<size_t>(loop.node.output_size()));
  store(loop.node, loop.scope, std::move(results));
}

void GraphImporter::importLoop(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                               const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame) {
  Unrolled loop{node, attributes, inputs, scope, frame};
  if (inputs.size() < 2)
    return refuse(loop, "it lacks a trip count and a condition");
  size_t carried = inputs.size() - 2;
  if (!findBody(loop, inputs.size(), carried + 1))
    return;
  std::optional<int64_t> most = inputs[0] ? numberOf(*inputs[0]) : std::nullopt;
  if (inputs[0] && !most)
    return refuse(
        loop,
        "its trip count depends on the model's data: export the model so that it follows from shapes or constants");
  for (size_t i = 2; i < inputs.size(); ++i)
    loop.carried.push_back(inputs[i] ? *inputs[i] : NodeValue());
  loop.parts.resize(static_cast<size_t>(loop.body->output_size()) - carried - 1);
  NodeValue condition = inputs[1] ? *inputs[1] : knownValue(HostTensor::splatInteger(DType::boolean, {}, 1));
  for (int64_t i = 0; !most || i < *most; ++i) {
    std::optional<int64_t> goesOn = numberOf(condition);
    if (!goesOn)
      return refuse(
          loop,
          fmt::format("whether it goes on after {} iterations depends on the model's data: export the model so that "
                      "its condition follows from shapes or constants",
                      i));
    if (!*goesOn)
      break;
    std::vector<NodeValue> given{knownValue(HostTensor::integerScalar(i)), condition};
    given.insert(given.end(), loop.carried.begin(), loop.carried.end());
    auto results = importIteration(loop, std::move(given));
    if (!results)
      return;
    condition = (*results)[0];
    for (size_t k = 0; k < carried; ++k)
      loop.carried[k] = (*results)[k + 1];
    for (size_t k = 0; k < loop.parts.size(); ++k)
      loop.parts[k].push_back((*results)[carried + 1 + k]);
  }
  finishLoop(loop, std::vector<Walk>(loop.parts.size()));
}

// The inputs of a Scan that it walks along, cut into what each iteration sees.
std::optional<std::vector<std::vector<NodeValue>>> GraphImporter::cutForScan(Unrolled &loop, size_t first,
                                                                             const std::vector<Walk> &walks) {
  NodeContext context(builder, locationOf(nodeName(loop.node)), loop.node, loop.attributes, 1, loop.inputs, file,
                      problems);
  std::vector<std::vector<NodeValue>> cut;
  for (size_t i = 0; i < walks.size(); ++i) {
    Value whole = context.input(first + i);
    int64_t rank = whole ? static_cast<int64_t>(nn::shapeOf(whole).size()) : 0,
            axis = walks[i].axis < 0 ? walks[i].axis + rank : walks[i].axis;
    if (whole && (axis < 0 || axis >= rank))
      (void)context.fail("its axis {} is out of range for input {} of rank {}", walks[i].axis, first + i, rank);
    if (context.failed())
      return giveUp(loop.node, loop.scope), std::nullopt;
    SmallVector<int64_t> shape(nn::shapeOf(whole));
    int64_t length = shape[static_cast<size_t>(axis)];
    shape.erase(shape.begin() + axis);
    if (i > 0 && length != static_cast<int64_t>(cut.size()))
      return refuse(loop, fmt::format("its inputs have {} and {} parts along their axes", cut.size(), length)),
             std::nullopt;
    if (!mayUnroll(loop, length))
      return std::nullopt;
    cut.resize(static_cast<size_t>(length));
    for (int64_t t = 0; t < length; ++t) {
      NodeValue part;
      part.make = [this, &node = loop.node, &attributes = loop.attributes, whole, axis, shape,
                   at = walks[i].backwards ? length - 1 - t : t]() {
        NodeContext slicing(builder, locationOf(nodeName(node)), node, attributes, 1, {}, file, problems);
        return slicing.reshape(slicing.slice(whole, axis, at, 1), shape);
      };
      cut[static_cast<size_t>(t)].push_back(std::move(part));
    }
  }
  return cut;
}

void GraphImporter::importScan(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                               const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame) {
  Unrolled loop{node, attributes, inputs, scope, frame};
  int64_t walked = attributes.integer("num_scan_inputs", 0);
  if (walked < 1 || walked > static_cast<int64_t>(inputs.size()) || llvm::is_contained(inputs, nullptr))
    return refuse(loop,
                  fmt::format("it walks along {} of its {} inputs: at least one, and all of them present, are needed",
                              walked, inputs.size()));
  size_t carried = inputs.size() - static_cast<size_t>(walked);
  if (!findBody(loop, inputs.size(), carried))
    return;
  loop.parts.resize(static_cast<size_t>(loop.body->output_size()) - carried);
  auto in = walksOf(attributes, "scan_input", static_cast<size_t>(walked)),
       out = walksOf(attributes, "scan_output", loop.parts.size());
  if (!in || !out)
    return refuse(loop, "its axes and directions are not as many as what it walks along and what it stacks");
  auto cut = cutForScan(loop, carried, *in);
  if (!cut)
    return;
  for (size_t i = 0; i < carried; ++i)
    loop.carried.push_back(*inputs[i]);
  for (std::vector<NodeValue> &slices : *cut) {
    std::vector<NodeValue> given = loop.carried;
    given.insert(given.end(), slices.begin(), slices.end());
    auto results = importIteration(loop, std::move(given));
    if (!results)
      return;
    for (size_t k = 0; k < carried; ++k)
      loop.carried[k] = (*results)[k];
    for (size_t k = 0; k < loop.parts.size(); ++k)
      loop.parts[k].push_back((*results)[carried + k]);
  }
  finishLoop(loop, *out);
}

} // namespace mt::onnx
