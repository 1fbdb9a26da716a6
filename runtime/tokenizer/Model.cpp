#include "runtime/tokenizer/Model.h"

#include <charconv>

namespace mt::tokenizer {

Result<ModelPtr> readModel(const Fields &fields) {
  // Older files leave the type out; what else is there tells.
  std::string_view type = fields.find("merges")                     ? "BPE"
                          : fields.find("unk_id")                   ? "Unigram"
                          : fields.find("max_input_chars_per_word") ? "WordPiece"
                                                                    : "WordLevel";
  if (fields.find("type")) {
    MT_ASSIGN(type, fields.text("type"));
  }
  if (type == "BPE")
    return readBpe(fields);
  if (type == "Unigram")
    return readUnigram(fields);
  if (type == "WordPiece")
    return readWordPiece(fields);
  if (type == "WordLevel")
    return readWordLevel(fields);
  return fields.fail("the model {} is not supported", type);
}

Status readVocabulary(const Fields &fields, Vocabulary &tokens) {
  MT_ASSIGN(JsonValue value, fields.need("vocab"));
  simdjson::dom::object object;
  if (value.get(object))
    return fields.fail("\"vocab\" must be an object, and is {}", kindOf(value));
  for (auto [token, number] : object) {
    uint64_t id = 0;
    if (number.get(id))
      return fields.fail("\"vocab\": the id of \"{}\" must be a whole number of at least 0", token);
    MT_TRY(tokens.add(token, id).within(fields.where()));
  }
  return Status();
}

std::string byteToken(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> byteOf(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return std::nullopt;
  uint8_t byte = 0;
  auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? std::optional(byte) : std::nullopt;
}

} // namespace mt::tokenizer
