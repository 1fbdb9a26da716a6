#include "compiler/onnx/ExportMetadata.h"

#include "runtime/base/Utf8.h"

#include <set>
#include <sstream>

namespace mt::onnx {
namespace {

constexpr const char *kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char *kFxNode = "pkg.torch.onnx.fx_node";

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

// The FX values an FX node mentions, itself among them: every %name.
std::set<std::string> mentioned(const std::string &text) {
  std::set<std::string> names;
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < text.size() && isNameLetter(text[end]))
      ++end;
    names.insert(text.substr(at + 1, end - at - 1));
  }
  return names;
}

// Whether a node's FX node takes nothing that its operands are not, `tensor` aside.
bool hasNoOriginal(const ::onnx::NodeProto &node, const std::string &tensor) {
  std::string text = metadata(node, kFxNode);
  size_t arguments = text.find("args = ");
  if (arguments == std::string::npos)
    return false;
  std::set<std::string> names = mentioned(text.substr(arguments));
  for (const std::string &input : node.input())
    if (input != tensor)
      names.erase(input);
  return names.empty();
}

} // namespace

std::map<std::string, Origin> originsOf(const ::onnx::GraphProto &graph) {
  std::map<std::string, Origin> placeholders = parseSignature(metadata(graph, kSignature));
  std::map<std::string, Origin> byTarget, origins;
  for (const auto &[placeholder, origin] : placeholders)
    byTarget[origin.name] = origin;
  std::set<std::string> renamed;
  for (const auto &tensor : graph.initializer()) {
    if (auto at = byTarget.find(tensor.name()); at != byTarget.end())
      origins[tensor.name()] = at->second;
    else
      renamed.insert(tensor.name());
  }
  std::map<std::string, std::set<std::string>> candidates; // initializer -> placeholders its users mention
  std::map<std::string, bool> made;                        // initializer -> none of its users takes an original of it
  for (const auto &node : graph.node()) {
    std::set<std::string> lost;
    for (const std::string &name : mentioned(metadata(node, kFxNode)))
      if (auto at = placeholders.find(name); at != placeholders.end() && !origins.contains(at->second.name))
        lost.insert(name);
    for (const std::string &input : node.input())
      if (renamed.contains(input)) {
        candidates[input].insert(lost.begin(), lost.end());
        made.try_emplace(input, !placeholders.empty()).first->second &= hasNoOriginal(node, input);
      }
  }
  for (const auto &[tensor, names] : candidates)
    if (names.size() == 1)
      origins[tensor] = placeholders[*names.begin()];
    else if (made[tensor])
      origins[tensor].kind = Origin::Kind::constant;
  return origins;
}

Folded foldedBy(const ::onnx::GraphProto &graph) {
  std::set<std::string> mentions, carried, computed, originals;
  std::map<std::string, Origin> placeholders = parseSignature(metadata(graph, kSignature));
  for (const auto &[placeholder, origin] : placeholders)
    originals.insert(origin.name);
  for (const auto &tensor : graph.initializer()) {
    carried.insert(tensor.name());
    bool real = tensor.data_type() == ::onnx::TensorProto::FLOAT || tensor.data_type() == ::onnx::TensorProto::FLOAT16 ||
                tensor.data_type() == ::onnx::TensorProto::BFLOAT16 || tensor.data_type() == ::onnx::TensorProto::DOUBLE;
    if (real && !originals.contains(tensor.name()))
      computed.insert(tensor.name());
  }
  Folded folded;
  for (const auto &node : graph.node()) {
    std::set<std::string> names = mentioned(metadata(node, kFxNode));
    for (const std::string &input : node.input())
      if (names.contains(input) && computed.erase(input))
        folded.values.push_back(input);
    mentions.merge(names);
  }
  for (const auto &[placeholder, origin] : placeholders)
    if (!folded.values.empty() && origin.kind == Origin::Kind::parameter && !carried.contains(origin.name) && !mentions.contains(placeholder))
      folded.parameters.push_back(origin.name);
  return folded;
}

} // namespace mt::onnx
