// Chat templates: what parses renders a conversation, or says why not. Spans of generated text lie in the text, in
// order.
#include "runtime/base/Utf8.h"
#include "runtime/jinja/Template.h"
#include "tests/fuzz/Bytes.h"

#include <nlohmann/json.hpp>

#include <cstdlib>

namespace {

const nlohmann::ordered_json &variables() {
  static const auto all = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Größe? <b>"}, {"type": "image"}]},
      {"role": "assistant", "content": "<think>hm</think> 5", "tool_calls": [{"id": "call00001", "function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]},
      {"role": "tool", "content": "\n日本\t'\"", "name": "f"},
      {"role": "assistant", "content": null, "reasoning_content": "so"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d\ne", "parameters": {"type": "object", "properties": {"x": {"type": "array"}}}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7, "x": -2.5})");
  return all;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto read = mt::jinja::Template::parse(mt::fuzz::Bytes(data, size).text());
  if (!read)
    return 0;
  auto rendered = read->render(variables());
  if (!rendered)
    return 0;
  size_t end = 0;
  for (const mt::jinja::Span &span : rendered->generated) {
    if (span.begin < end || span.end < span.begin || span.end > rendered->text.size())
      std::abort();
    end = span.end;
  }
  if (!mt::isUtf8(rendered->text) || (!rendered->generated.empty() && !read->marksGeneration()))
    std::abort();
  return 0;
}
