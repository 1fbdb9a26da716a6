#include "runtime/base/Html.h"

#include <nlohmann/json.hpp>

namespace mt {

namespace {

/// What stands for a character; empty: itself.
std::string_view standIn(char c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  case '\t':
  case '\n':
    return "";
  default:
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? "\uFFFD" : "";
  }
}

} // namespace

std::string escapeHtml(std::string_view text) {
  std::string result;
  for (char c : text)
    if (const std::string_view other = standIn(c); other.empty())
      result += c;
    else
      result += other;
  return result;
}

std::string scriptJson(const nlohmann::ordered_json &json) {
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), result;
  for (char c : text)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

} // namespace mt
