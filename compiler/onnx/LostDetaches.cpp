#include "compiler/onnx/LostDetaches.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace mt::onnx {
namespace {

using Names = std::unordered_set<std::string>;

/// The number of "detach" (0), "detach_1" and so on, which a graph has as many of as it has nodes, at most.
std::optional<size_t> detachNumber(const std::string &name, size_t nodes) {
  constexpr size_t kFew = 1000;
  const std::string kind = "detach";
  size_t number = 0;
  if (stemOf(name) != kind)
    return std::nullopt;
  if (name != kind) {
    const char *end = name.data() + name.size();
    auto [at, error] = std::from_chars(name.data() + kind.size() + 1, end, number);
    if (error != std::errc() || at != end)
      return std::nullopt;
  }
  return number <= std::max(nodes, kFew) ? std::optional(number) : std::nullopt;
}

/// What a node of a call takes that no node of the same call makes.
struct Operand {
  const ::onnx::NodeProto *node;
  size_t input;
  std::string value;
};

/// A call of a function of PyTorch's, by the notes of the nodes that it became.
struct Call {
  std::string function;               ///< "sub.Tensor"
  std::vector<std::string> arguments; ///< values, in their order
  std::vector<const ::onnx::NodeProto *> nodes;
  std::vector<Operand> operands;
};

class Calls {
public:
  Calls(const ::onnx::GraphProto &graph, const std::map<std::string, Origin> &origins)
      : nodeCount(static_cast<size_t>(graph.node_size())) {
    readValues(graph, origins);
    for (const auto &node : graph.node())
      readNode(node);
    for (auto &[name, call] : calls)
      findOperands(call);
    for (const auto &[name, call] : calls)
      findMerged(call);
  }

  LostDetaches run() {
    std::set<size_t> placed, unplaced;
    for (const auto &[name, call] : calls)
      place(name, call, placed, unplaced);
    // Where some were left out, one that no call takes any more may have been of a call merged into its like.
    std::set<size_t> seen = placed;
    seen.insert(unplaced.begin(), unplaced.end());
    for (size_t number = 0; !seen.empty() && number <= *seen.rbegin(); ++number)
      if (unplaced.contains(number) || (!kept.contains(number) && !placed.contains(number)))
        result.unplaced.push_back(number == 0 ? "detach" : "detach_" + std::to_string(number));
    return std::move(result);
  }

private:
  void readValues(const ::onnx::GraphProto &graph, const std::map<std::string, Origin> &origins) {
    for (const auto *infos : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const auto &info : *infos)
        types[info.name()] = info.type().tensor_type().elem_type();
    for (const auto &input : graph.input()) {
      made.insert(input.name());
      see(input.name(), kept);
    }
    for (const auto &tensor : graph.initializer()) {
      auto origin = origins.find(tensor.name());
      made.insert(tensor.name());
      types[tensor.name()] = tensor.data_type();
      if (origin != origins.end() &&
          (origin->second.kind == Origin::Kind::parameter || origin->second.kind == Origin::Kind::buffer))
        tensorsOf[origin->second.name].push_back(tensor.name());
      else
        constants.insert(tensor.name());
    }
    for (const auto &[placeholder, origin] : signatureOf(graph))
      if (auto tensors = tensorsOf.find(origin.name); tensors != tensorsOf.end())
        placeholders[placeholder] = &tensors->second;
  }

  void readNode(const ::onnx::NodeProto &node) {
    const FxCall note = fxCallOf(node);
    for (const std::string &output : node.output()) {
      made.insert(output);
      producers[output] = note.name;
      if (node.op_type() == "Constant")
        constants.insert(output);
    }
    if (note.name.empty())
      return;
    see(note.name, kept);
    Call &call = calls[note.name];
    if (call.nodes.empty()) {
      call.function = note.function;
      call.arguments = note.arguments;
    }
    call.nodes.push_back(&node);
  }

  static void findOperands(Call &call) {
    Names own;
    for (const ::onnx::NodeProto *node : call.nodes) {
      for (int i = 0; i < node->input_size(); ++i)
        if (!node->input(i).empty() && !own.contains(node->input(i)))
          call.operands.push_back({node, static_cast<size_t>(i), node->input(i)});
      own.insert(node->output().begin(), node->output().end());
    }
  }

  std::optional<size_t> lostNumber(const std::string &argument) const {
    std::optional<size_t> number = detachNumber(argument, nodeCount);
    return number && !kept.contains(*number) ? number : std::nullopt;
  }

  /// The tensors that an argument may be; none where it was a call of which no node is left.
  std::vector<std::string> valuesOf(const std::string &argument) const {
    if (auto tensors = placeholders.find(argument); tensors != placeholders.end())
      return *tensors->second;
    if (made.contains(argument))
      return {argument};
    auto call = calls.find(argument);
    if (call == calls.end())
      return {};
    const auto &outputs = call->second.nodes.back()->output();
    return {outputs.begin(), outputs.end()};
  }

  bool mayBeReal(const std::string &value) const {
    auto type = types.find(value);
    if (type == types.end() || type->second == ::onnx::TensorProto::UNDEFINED)
      return true;
    return type->second == ::onnx::TensorProto::FLOAT || type->second == ::onnx::TensorProto::DOUBLE ||
           type->second == ::onnx::TensorProto::FLOAT16 || type->second == ::onnx::TensorProto::BFLOAT16;
  }
  bool isSize(const std::string &argument) const { return stemOf(argument).starts_with("sym_"); }

  /// What the notes say of a call's operands.
  struct Explained {
    Names known;                      ///< values that arguments are
    std::vector<std::string> unknown; ///< arguments of which no node is left, lost detaches aside
    std::vector<std::string> lost;    ///< detaches
    std::vector<Operand> rest;        ///< real operands that no known argument is
    bool isComplete = true;           ///< each known real argument is an operand
  };
  Explained explain(const Call &call) const {
    Explained found;
    Names taken;
    for (const Operand &operand : call.operands)
      taken.insert(operand.value);
    for (const std::string &argument : call.arguments) {
      const std::vector<std::string> values = valuesOf(argument);
      if (lostNumber(argument))
        found.lost.push_back(argument);
      else if (values.empty() && !isSize(argument))
        found.unknown.push_back(argument);
      else if (std::ranges::any_of(values, [&](const std::string &value) { return mayBeReal(value); }))
        found.isComplete &=
            std::ranges::any_of(values, [&](const std::string &value) { return taken.contains(value); });
      found.known.insert(values.begin(), values.end());
    }
    for (const Operand &operand : call.operands)
      if (!constants.contains(operand.value) && mayBeReal(operand.value) && !found.known.contains(operand.value))
        found.rest.push_back(operand);
    return found;
  }

  /// A call that another of the same operands was merged into, which may have detached less, and those before it: their
  /// values are taken under names that no note has, or that are not theirs.
  void findMerged(const Call &call) {
    const Explained found = explain(call);
    if (!found.lost.empty() && found.unknown.empty())
      return;
    const std::vector<Operand> &suspects = found.rest.empty() && !found.unknown.empty() ? call.operands : found.rest;
    for (const Operand &operand : suspects) {
      auto producer = producers.find(operand.value);
      if (producer == producers.end() || producer->second.empty() || constants.contains(operand.value) ||
          !mayBeReal(operand.value))
        continue;
      const bool isWhole = operand.value == producer->second;
      auto isLike = [&](const std::string &argument) { return stemOf(argument) == stemOf(producer->second); };
      if (!isWhole || found.unknown.empty() || std::ranges::any_of(found.unknown, isLike))
        markMerged(producer->second);
    }
  }
  void markMerged(const std::string &last) {
    std::vector<std::string> left = {last};
    while (!left.empty()) {
      const std::string name = left.back();
      left.pop_back();
      auto call = calls.find(name);
      if (call == calls.end() || !merged.insert(name).second)
        continue;
      for (const Operand &operand : call->second.operands)
        if (auto producer = producers.find(operand.value); producer != producers.end())
          left.push_back(producer->second);
    }
  }

  /// Which operands are the lost arguments: each the one in its place, or all that no other argument is.
  std::vector<Operand> lostOperands(const std::string &name, const Call &call, const Explained &found) const {
    if (merged.contains(name))
      return {};
    std::vector<Operand> placed = inOrder(call);
    if (placed.empty() && found.unknown.empty() && found.isComplete) {
      std::set<std::string> values;
      for (const Operand &operand : found.rest)
        values.insert(operand.value);
      if (values.size() == found.lost.size() || found.lost.size() == call.arguments.size())
        placed = found.rest;
    }
    return placed;
  }

  /// Of functions that become one node, which takes operands as they do.
  std::vector<Operand> inOrder(const Call &call) const {
    static const std::set<std::string> functions = {"add", "sub", "mul",     "div",     "pow",   "matmul",
                                                    "mm",  "bmm", "maximum", "minimum", "where", "cat"};
    if (call.nodes.size() != 1 || !functions.contains(call.function.substr(0, call.function.find('.'))) ||
        call.operands.size() != call.arguments.size())
      return {};
    std::vector<Operand> found;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const std::vector<std::string> values = valuesOf(call.arguments[i]);
      if (lostNumber(call.arguments[i]))
        found.push_back(call.operands[i]);
      else if (!values.empty() && std::ranges::find(values, call.operands[i].value) == values.end())
        return {};
    }
    return found;
  }

  void place(const std::string &name, const Call &call, std::set<size_t> &placed, std::set<size_t> &unplaced) {
    const Explained found = explain(call);
    if (found.lost.empty())
      return;
    const std::vector<Operand> operands = lostOperands(name, call, found);
    for (const Operand &operand : operands)
      result.places[operand.node].push_back({operand.input, found.lost.front()});
    for (const std::string &argument : found.lost)
      see(argument, operands.empty() ? unplaced : placed);
  }

  void see(const std::string &name, std::set<size_t> &numbers) const {
    if (std::optional<size_t> number = detachNumber(name, nodeCount))
      numbers.insert(*number);
  }

  const size_t nodeCount;
  std::unordered_map<std::string, int> types;             ///< of elements, of values
  std::unordered_map<std::string, std::string> producers; ///< of values: the call; "" of nodes without a note
  Names made, constants;                                  ///< values; those that no parameter is in
  std::unordered_map<std::string, std::vector<std::string>> tensorsOf; ///< initializers of tensors of the module
  std::unordered_map<std::string, const std::vector<std::string> *> placeholders;
  std::map<std::string, Call> calls;
  Names merged;
  std::set<size_t> kept; ///< numbers of detaches that are there
  LostDetaches result;
};

} // namespace

LostDetaches lostDetaches(const ::onnx::GraphProto &graph, const std::map<std::string, Origin> &origins) {
  return Calls(graph, origins).run();
}

} // namespace mt::onnx
