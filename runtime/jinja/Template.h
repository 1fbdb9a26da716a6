// Chat templates: the Jinja that templates of Hugging Face tokenizers are written in, parsed once and rendered
// natively, as transformers renders them. Knows no tokenizers and no conversations: variables come as JSON. What is
// supported: docs/chat.md.
#ifndef MT_RUNTIME_JINJA_TEMPLATE_H
#define MT_RUNTIME_JINJA_TEMPLATE_H

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt::jinja {

struct Document;

/// Bytes of a text, from `begin` up to `end`.
struct Span {
  size_t begin = 0, end = 0;
  bool operator==(const Span &) const = default;
};

struct Rendered {
  std::string text;
  /// What blocks {% generation %} wrote into the text, in order; they do not overlap.
  std::vector<Span> generated;
};

class Template {
public:
  /// Reads a template. Errors name its line and what is wrong there, or not supported.
  static Result<Template> parse(std::string_view source);
  Template(Template &&) noexcept;
  Template &operator=(Template &&) noexcept;
  ~Template();

  /// The text for the fields of an object. Work, memory, depth and the text's size are bounded. Several threads may
  /// render at once. Errors name the line; what a template raises itself is the error as it stands. `moment` is what
  /// strftime_now tells, seconds since 1970 in UTC; none: the clock's, in local time.
  Result<Rendered> render(const nlohmann::ordered_json &variables, std::optional<int64_t> moment = std::nullopt) const;
  /// Whether it has blocks {% generation %}.
  bool marksGeneration() const;

private:
  explicit Template(std::unique_ptr<const Document> document);
  std::unique_ptr<const Document> document;
};

} // namespace mt::jinja
#endif
