// Text and numbers inside pages of HTML: what others wrote stays text wherever we put it. No page and no style is made
// here; used by the page of a plan and the report of a run.
#ifndef MT_RUNTIME_BASE_HTML_H
#define MT_RUNTIME_BASE_HTML_H

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace mt {

/// Text as it may stand between tags and in quoted attributes. Control characters but tabs and ends of lines, which
/// HTML has no place for, become U+FFFD; what is not UTF-8 is the caller's matter.
std::string escapeHtml(std::string_view text);

/// JSON that can stand in a script element: no text in it can end the element, or begin a comment.
std::string scriptJson(const nlohmann::ordered_json &json);

} // namespace mt
#endif
