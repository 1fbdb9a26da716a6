#include "compiler/onnx/ExportMetadata.h"

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
    if (colon == std::string::npos || quote == std::string::npos)
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

// The FX values an FX node mentions: every %name.
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
  for (const auto &node : graph.node()) {
    std::set<std::string> lost;
    for (const std::string &name : mentioned(metadata(node, kFxNode)))
      if (auto at = placeholders.find(name); at != placeholders.end() && !origins.contains(at->second.name))
        lost.insert(name);
    for (const std::string &input : node.input())
      if (renamed.contains(input))
        candidates[input].insert(lost.begin(), lost.end());
  }
  for (const auto &[tensor, names] : candidates)
    if (names.size() == 1)
      origins[tensor] = placeholders[*names.begin()];
  return origins;
}

} // namespace mt::onnx
