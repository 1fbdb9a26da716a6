#include "compiler/onnx/ExportMetadata.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

namespace mt::onnx {
namespace {

constexpr const char *kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char *kFxNode = "pkg.torch.onnx.fx_node";
constexpr const char *kNameScopes = "pkg.torch.onnx.name_scopes";

template <typename Message> std::string metadata(const Message &message, const char *key) {
  for (const auto &pair : message.metadata_props())
    if (pair.key() == key)
      return pair.value();
  return "";
}

// Lines "p_model_weight: PARAMETER target='model.weight'", and BUFFER and the like: FX placeholder -> origin.
std::map<std::string, Origin> parseSignature(const std::string &text) {
  std::map<std::string, Origin> origins;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t colon = line.find(": ");
    size_t quote = line.find("target='");
    if (colon == std::string::npos || quote == std::string::npos || !isUtf8(line))
      continue;
    size_t begin = quote + 8;
    size_t end = line.find('\'', begin);
    std::string kind = line.substr(colon + 2, line.find(' ', colon + 2) - colon - 2);
    Origin origin;
    origin.kind = kind == "PARAMETER" ? Origin::Kind::parameter : Origin::Kind::buffer;
    origin.name = line.substr(begin, end == std::string::npos ? end : end - begin);
    origins[line.substr(0, colon)] = origin;
  }
  return origins;
}

bool isNameLetter(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; }

std::string nameAt(const std::string &text, size_t at) {
  size_t end = at;
  while (end < text.size() && isNameLetter(text[end]))
    ++end;
  return text.substr(at, end - at);
}

// The FX values that a text mentions, in its order: every %name.
std::vector<std::string> valuesIn(const std::string &text) {
  std::vector<std::string> names;
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
    names.push_back(nameAt(text, at + 1));
  return names;
}

// Those of an FX node, itself among them.
std::set<std::string> mentioned(const std::string &text) {
  const std::vector<std::string> names = valuesIn(text);
  return {names.begin(), names.end()};
}

/// Whether a value has the name of a call that takes no tensors, or only their shapes ("eye", "full_like_2"); or of a
/// detach.
bool isOfNumbers(const std::string &name) {
  static const std::set<std::string> calls = {"arange",       "bartlett_window", "blackman_window",
                                              "detach",       "empty",           "eye",
                                              "full",         "full_like",       "hamming_window",
                                              "hann_window",  "kaiser_window",   "lift_fresh_copy",
                                              "linspace",     "logspace",        "new_full",
                                              "new_ones",     "new_zeros",       "ones",
                                              "ones_like",    "scalar_tensor",   "scalar_tensor_default",
                                              "tril_indices", "triu_indices",    "zeros",
                                              "zeros_like"};
  return calls.contains(stemOf(name));
}

// Whether a node's FX node takes nothing that its operands are not, `tensor` aside; or what else it takes are other
// values of the graph and what a call of numbers made, which `tensor` is then.
bool hasNoOriginal(const ::onnx::NodeProto &node, const std::string &tensor, const std::set<std::string> &values) {
  std::string text = metadata(node, kFxNode);
  size_t arguments = text.find("args = ");
  if (arguments == std::string::npos)
    return false;
  std::set<std::string> names = mentioned(text.substr(arguments));
  for (const std::string &input : node.input())
    if (input != tensor)
      names.erase(input);
  if (names.empty())
    return true;
  std::erase_if(names, [&](const std::string &name) { return values.contains(name); });
  return !names.empty() && std::ranges::all_of(names, isOfNumbers);
}

// The module that a node was traced in: of "['', 'model', 'model.embed', 'embedding']" the last but one; later calls of
// one module have "@1" and so on behind it.
std::optional<std::string> moduleOf(const ::onnx::NodeProto &node) {
  std::string text = metadata(node, kNameScopes);
  std::vector<std::string> scopes;
  for (size_t begin = text.find('\''); begin != std::string::npos; begin = text.find('\'', begin)) {
    size_t end = text.find('\'', begin + 1);
    if (end == std::string::npos)
      break;
    scopes.push_back(text.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  if (scopes.size() < 2)
    return std::nullopt;
  const std::string &module = scopes[scopes.size() - 2];
  return module.substr(0, module.find('@'));
}

// "model.embed.weight" as module and the name in it.
std::pair<std::string, std::string> splitName(const std::string &name) {
  size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::pair(std::string(), name) : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

// Whether a node takes a renamed initializer as the transpose of its original. Vectors have one layout; the matrix of a
// linear layer is [out, in], and products take [in, out]. Empty: not known.
std::optional<bool> takesTransposed(const ::onnx::NodeProto &node, const ::onnx::TensorProto &tensor) {
  if (tensor.dims_size() == 1)
    return false;
  bool product = node.op_type() == "MatMul" || node.op_type() == "Gemm";
  bool linear = metadata(node, kFxNode).find("target=torch.ops.aten.linear") != std::string::npos ||
                metadata(node, kFxNode).find("target=aten.linear") != std::string::npos;
  if (tensor.dims_size() != 2 || !product || !linear || node.input_size() < 2 || node.input(1) != tensor.name())
    return std::nullopt;
  for (const auto &attribute : node.attribute())
    if (attribute.name() == "transB" && attribute.i() != 0)
      return false;
  return true;
}

// Parameters of the signature that no initializer and no node speaks of, by module.
std::map<std::string, std::set<std::string>> lostNames(const ::onnx::GraphProto &graph,
                                                       const std::map<std::string, Origin> &origins) {
  std::set<std::string> carried, mentions;
  for (const auto &[tensor, origin] : origins)
    carried.insert(origin.name);
  for (const auto &node : graph.node())
    mentions.merge(mentioned(metadata(node, kFxNode)));
  std::map<std::string, std::set<std::string>> lost;
  for (const auto &[placeholder, origin] : signatureOf(graph))
    if (origin.kind == Origin::Kind::parameter && !carried.contains(origin.name) && !mentions.contains(placeholder)) {
      auto [module, name] = splitName(origin.name);
      lost[module].insert(name);
    }
  return lost;
}

} // namespace

// Argument `index` of the call of `function` that a node was, as it is written there; empty where it was none.
static std::string argumentOf(const ::onnx::NodeProto &node, const std::string &function, int index) {
  const std::string text = metadata(node, kFxNode), before = "](args = (";
  size_t call = text.find("aten." + function), at = call == std::string::npos ? call : text.find(before, call);
  if (at == std::string::npos)
    return "";
  int depth = 0, argument = 0;
  size_t begin = at += before.size();
  for (; at < text.size(); ++at) {
    const char letter = text[at];
    if (depth == 0 && (letter == ',' || letter == ')')) {
      if (argument++ == index)
        return text.substr(begin, at - begin);
      if (letter == ')')
        return "";
      begin = at + (at + 1 < text.size() && text[at + 1] == ' ' ? 2 : 1);
    }
    depth += letter == '(' || letter == '[' ? 1 : letter == ')' || letter == ']' ? -1 : 0;
  }
  return "";
}
template <typename T> static std::optional<T> numberIn(const std::string &text) {
  T number = {};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

VariableNames::VariableNames(const ::onnx::ModelProto &model) : byPyTorch(model.producer_name() == "pytorch") {
  byOlderExporter = std::ranges::any_of(model.graph().node(), // named by the path of their module
                                        [](const auto &node) { return node.name().starts_with("/"); });
}

/// "_v_31", "model.Constant_3", "const_0", "17": what exporters and optimizers name themselves.
static bool isMadeName(const std::string &name) {
  if (name.starts_with("onnx::") || name.starts_with("/") || name.starts_with("ortshared_"))
    return true;
  auto isNumber = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view whole = name, last = whole.substr(whole.find_last_of('.') + 1);
  for (std::string_view start : {"_v_", "const_", "Constant_"})
    if (last.starts_with(start) && isNumber(last.substr(start.size())))
      return true;
  return isNumber(whole);
}

bool VariableNames::contains(const std::string &initializer) const {
  if (initializer.find("ReadVariableOp") != std::string::npos)
    return true;
  // torch.export names its values by a word and a number: of its files only a module's variable, with a dot, is told.
  return byPyTorch && !isMadeName(initializer) && (byOlderExporter || initializer.find('.') != std::string::npos);
}

std::optional<int64_t> paddingOf(const ::onnx::NodeProto &node) {
  std::optional<int64_t> padding = numberIn<int64_t>(argumentOf(node, "embedding", 2));
  return padding && *padding >= 0 ? padding : std::nullopt;
}

bool isScaledByFrequency(const ::onnx::NodeProto &node) { return argumentOf(node, "embedding", 3) == "True"; }

double labelSmoothingOf(const ::onnx::NodeProto &node) {
  double share = numberIn<double>(argumentOf(node, "cross_entropy_loss", 5)).value_or(0);
  return share > 0 && share <= 1 ? share : 0;
}

/// Whether the node is of a call of PyTorch's operator, or of one whose name begins so.
static bool isOf(const ::onnx::NodeProto &node, const std::string &function) {
  return metadata(node, kFxNode).find("target=torch.ops.aten." + function) != std::string::npos;
}

std::optional<bool> countsSelf(const ::onnx::NodeProto &node) {
  if (node.output_size() != 1 || fxCallOf(node).name != node.output(0) ||
      argumentOf(node, "scatter_reduce", 4) != "mean")
    return std::nullopt;
  return metadata(node, kFxNode).find("include_self: False") == std::string::npos;
}

bool isDetach(const ::onnx::NodeProto &node) { return isOf(node, "detach"); }
bool isSinc(const ::onnx::NodeProto &node) { return isOf(node, "sinc"); }
bool isOfFirst(const ::onnx::NodeProto &node) { return isOf(node, "max.dim") || isOf(node, "min.dim"); }

std::optional<bool> isFlatAtBounds(const ::onnx::NodeProto &node) {
  if (isOf(node, "hardtanh") || isOf(node, "relu6"))
    return true;
  return isOf(node, "clamp") ? std::optional(false) : std::nullopt;
}

// Its decomposition fills the bound: maximum(%log, %new_full).
bool isBoundOfCrossEntropy(const ::onnx::NodeProto &node) {
  const FxCall call = fxCallOf(node);
  return call.function.starts_with("maximum") && call.arguments.size() == 2 && call.arguments[0].starts_with("log") &&
         call.arguments[1].starts_with("new_full");
}

std::string stemOf(const std::string &name) {
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && end > 0 && name[end] == '_' ? name.substr(0, end) : name;
}

FxCall fxCallOf(const ::onnx::NodeProto &node) {
  const std::string text = metadata(node, kFxNode), target = "target=torch.ops.aten.";
  FxCall call;
  if (text.starts_with('%'))
    call.name = nameAt(text, 1);
  if (const size_t at = text.find(target); at != std::string::npos)
    call.function = text.substr(at + target.size(), text.find(']', at) - at - target.size());
  if (const size_t at = text.find("args = "); at != std::string::npos)
    call.arguments = valuesIn(text.substr(at));
  return call;
}

std::map<std::string, Origin> signatureOf(const ::onnx::GraphProto &graph) {
  return parseSignature(metadata(graph, kSignature));
}

std::map<std::string, Origin> originsOf(const ::onnx::GraphProto &graph) {
  std::map<std::string, Origin> placeholders = signatureOf(graph);
  std::map<std::string, Origin> byTarget, origins;
  for (const auto &[placeholder, origin] : placeholders)
    byTarget[origin.name] = origin;
  std::map<std::string, const ::onnx::TensorProto *> renamed;
  for (const auto &tensor : graph.initializer()) {
    auto own = byTarget.find(tensor.name());
    auto placeholder = placeholders.find(tensor.name());
    if (own != byTarget.end() || placeholder != placeholders.end()) {
      origins[tensor.name()] = own != byTarget.end() ? own->second : placeholder->second;
      origins[tensor.name()].transposed = false;
    } else {
      renamed[tensor.name()] = &tensor;
    }
  }
  std::map<std::string, std::set<std::string>> candidates; // initializer -> placeholders its users mention
  std::map<std::string, bool> made;                        // initializer -> none of its users takes an original of it
  std::map<std::string, std::set<std::optional<bool>>> layouts; // initializer -> as what its users take it
  std::set<std::string> values;                                 // of nodes
  for (const auto &node : graph.node())
    values.insert(node.output().begin(), node.output().end());
  for (const auto &node : graph.node()) {
    std::set<std::string> lost;
    for (const std::string &name : mentioned(metadata(node, kFxNode)))
      if (auto at = placeholders.find(name); at != placeholders.end() && !origins.contains(at->second.name))
        lost.insert(name);
    for (const std::string &input : node.input())
      if (renamed.contains(input)) {
        candidates[input].insert(lost.begin(), lost.end());
        made.try_emplace(input, !placeholders.empty()).first->second &= hasNoOriginal(node, input, values);
        layouts[input].insert(takesTransposed(node, *renamed[input]));
      }
  }
  for (const auto &[tensor, names] : candidates)
    if (names.size() == 1) {
      origins[tensor] = placeholders[*names.begin()];
      if (layouts[tensor].size() == 1)
        origins[tensor].transposed = *layouts[tensor].begin();
    } else if (made[tensor])
      origins[tensor].kind = Origin::Kind::constant;
  return origins;
}

std::map<std::string, std::vector<Alias>> moduleNamesOf(const ::onnx::GraphProto &graph,
                                                        const std::map<std::string, Origin> &origins) {
  std::map<std::string, std::vector<Alias>> names;
  for (const auto &[tensor, origin] : origins)
    if (!origin.name.empty() && origin.name != tensor && origin.transposed)
      names[tensor].push_back({Alias::Kind::module, origin.name, *origin.transposed});
  std::map<std::string, std::set<std::string>> lost = lostNames(graph, origins), foreign; // by module
  for (const auto &node : graph.node()) {
    std::optional<std::string> module = moduleOf(node);
    if (!module || !lost.contains(*module))
      continue;
    for (const std::string &input : node.input())
      if (auto at = origins.find(input); at != origins.end() && at->second.transposed &&
                                         at->second.kind == Origin::Kind::parameter && splitName(at->second.name).first != *module)
        foreign[*module].insert(input);
  }
  for (const auto &[module, tensors] : foreign)
    for (const std::string &name : lost[module]) {
      std::set<std::string> fitting = tensors;
      if (tensors.size() > 1 || lost[module].size() > 1)
        std::erase_if(fitting, [&](const std::string &tensor) { return splitName(origins.at(tensor).name).second != name; });
      if (fitting.size() == 1)
        names[*fitting.begin()].push_back({Alias::Kind::module, module.empty() ? name : module + "." + name,
                                           *origins.at(*fitting.begin()).transposed});
    }
  return names;
}

std::map<std::string, std::set<std::string>> mergedInto(const ::onnx::GraphProto &graph) {
  const std::map<std::string, Origin> placeholders = signatureOf(graph);
  std::set<std::string> carried;
  for (const auto &tensor : graph.initializer())
    carried.insert(tensor.name());
  std::map<std::string, std::string> placeholderOf; // by parameter
  for (const auto &[placeholder, origin] : placeholders)
    if (origin.kind == Origin::Kind::parameter)
      placeholderOf[origin.name] = placeholder;
  std::map<std::string, std::set<std::string>> merged;
  for (const auto &node : graph.node()) {
    const std::set<std::string> names = mentioned(metadata(node, kFxNode));
    std::vector<std::string> lost, instead;
    for (const std::string &name : names)
      if (auto at = placeholders.find(name);
          at != placeholders.end() && placeholderOf.contains(at->second.name) && !carried.contains(at->second.name))
        lost.push_back(at->second.name);
    for (const std::string &input : node.input())
      if (auto at = placeholderOf.find(input);
          at != placeholderOf.end() && carried.contains(input) && !names.contains(at->second))
        instead.push_back(input);
    for (const std::string &one : instead)
      for (const std::string &other : lost)
        if ((instead.size() == 1 && lost.size() == 1) || splitName(one).second == splitName(other).second)
          merged[one].insert(other);
  }
  return merged;
}

Folded foldedBy(const ::onnx::GraphProto &graph) {
  std::set<std::string> mentions, carried, computed, originals, single;
  std::map<std::string, Origin> placeholders = signatureOf(graph);
  for (const auto &[placeholder, origin] : placeholders)
    originals.insert(origin.name);
  for (const auto &tensor : graph.initializer()) {
    carried.insert(tensor.name());
    bool real = tensor.data_type() == ::onnx::TensorProto::FLOAT || tensor.data_type() == ::onnx::TensorProto::FLOAT16 ||
                tensor.data_type() == ::onnx::TensorProto::BFLOAT16 || tensor.data_type() == ::onnx::TensorProto::DOUBLE;
    if (real && !originals.contains(tensor.name()))
      computed.insert(tensor.name());
    if (std::ranges::all_of(tensor.dims(), [](int64_t size) { return size == 1; }))
      single.insert(tensor.name());
  }
  Folded folded;
  for (const auto &node : graph.node()) {
    std::set<std::string> names = mentioned(metadata(node, kFxNode));
    for (const std::string &input : node.input())
      if (names.contains(input) && computed.erase(input)) {
        (isOfNumbers(input) ? folded.made : folded.values).push_back(input);
        if (!isOfNumbers(input) && single.contains(input))
          folded.numbers.push_back(input);
      }
    mentions.merge(names);
  }
  for (const auto &[placeholder, origin] : placeholders)
    if (!folded.values.empty() && origin.kind == Origin::Kind::parameter) {
      folded.isTold = true;
      if (!carried.contains(origin.name) && !mentions.contains(placeholder))
        folded.parameters.push_back(origin.name);
    }
  return folded;
}

} // namespace mt::onnx
