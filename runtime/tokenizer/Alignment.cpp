#include "runtime/tokenizer/Alignment.h"

#include "runtime/tokenizer/ByteLevel.h"
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/Unicode.h"

#include <cctype>
#include <optional>

namespace mt::tokenizer {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81", kPart = "##"; ///< as SentencePiece and WordPiece write them

/// The bytes that a form stands for in GPT-2's alphabet; none where it has a character of no byte.
std::optional<std::string> bytesOf(std::string_view form) {
  std::string bytes;
  for (size_t at = 0; at < form.size();) {
    const std::optional<uint8_t> byte = fromByteLevel(nextCharacter(form, at));
    if (!byte)
      return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string spaced(std::string_view form) {
  std::string text;
  for (size_t at = 0; at < form.size();) {
    const bool isSpace = form.substr(at).starts_with(kSpace);
    text += isSpace ? ' ' : form[at];
    at += isSpace ? kSpace.size() : 1;
  }
  return text;
}

/// Where a token ends that begins at `text`; none where its form is nothing that the text begins with.
std::optional<size_t> formLength(std::string_view text, std::string_view form, bool isFirst) {
  if (text.starts_with(form))
    return form.size();
  if (const std::optional<std::string> bytes = bytesOf(form); bytes && text.starts_with(*bytes))
    return bytes->size();
  if (const std::optional<uint8_t> byte = byteOf(form); byte && !text.empty() && static_cast<uint8_t>(text[0]) == *byte)
    return 1;
  const std::string written = spaced(form);
  if (text.starts_with(written))
    return written.size();
  if (isFirst && written.starts_with(' ') &&
      text.starts_with(std::string_view(written).substr(1))) // put before the text
    return written.size() - 1;
  if (isFirst && form.starts_with(kSpace) && text.starts_with(form.substr(kSpace.size())))
    return form.size() - kSpace.size();
  return std::nullopt;
}

} // namespace

Result<std::vector<size_t>> alignTokens(std::string_view text, std::span<const std::string_view> forms) {
  std::vector<size_t> ends;
  size_t at = 0;
  for (std::string_view form : forms) {
    std::optional<size_t> length = formLength(text.substr(at), form, at == 0);
    if (!length) { // words without the spaces between them
      size_t next = at;
      while (next < text.size() && std::isspace(static_cast<unsigned char>(text[next])))
        ++next;
      const std::string_view word =
          form.starts_with(kPart) && form.size() > kPart.size() ? form.substr(kPart.size()) : form;
      if (!text.substr(next).starts_with(word))
        return fail(
            "token '{}' is not what the text goes on with at byte {}: which tokens are whose cannot be told with this "
            "tokenizer",
            form, at);
      length = next - at + word.size();
    }
    at += *length;
    ends.push_back(at);
  }
  return ends;
}

} // namespace mt::tokenizer
