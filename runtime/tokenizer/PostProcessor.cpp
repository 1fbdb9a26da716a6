#include "runtime/tokenizer/PostProcessor.h"

#include "runtime/tokenizer/Vocabulary.h"

namespace mt::tokenizer {
namespace {

Result<uint32_t> idOf(JsonValue value, const std::string &what) {
  uint64_t id = 0;
  if (value.get(id) || id >= Vocabulary::kMostIds)
    return fail("{} must be an id below {}", what, Vocabulary::kMostIds);
  return static_cast<uint32_t>(id);
}

/// ["[SEP]", 102]
Result<uint32_t> readPair(const Fields &fields, std::string_view name) {
  MT_ASSIGN(JsonValue value, fields.need(name));
  simdjson::dom::array pair;
  JsonValue id;
  std::string what = fmt::format("{}: \"{}\"", fields.where(), name);
  if (value.get(pair) || pair.size() != 2 || pair.at(1).get(id))
    return fail("{} must be a list of a token and its id", what);
  return idOf(id, what);
}

void surround(Surroundings &all, std::span<const uint32_t> before, std::span<const uint32_t> after) {
  all.before.insert(all.before.begin(), before.begin(), before.end());
  all.after.insert(all.after.end(), after.begin(), after.end());
}

Status readBert(const Fields &fields, Surroundings &all) {
  MT_TRY(fields.only({"sep", "cls", "trim_offsets", "add_prefix_space"}));
  MT_ASSIGN(uint32_t first, readPair(fields, "cls"));
  MT_ASSIGN(uint32_t last, readPair(fields, "sep"));
  surround(all, std::span(&first, 1), std::span(&last, 1));
  return Status();
}

Status putSpecial(const Fields &fields, const Fields &piece, std::vector<uint32_t> &ids) {
  MT_ASSIGN(Fields names, fields.object("special_tokens"));
  MT_ASSIGN(std::string_view name, piece.text("id"));
  MT_ASSIGN(Fields token, names.object(name));
  MT_ASSIGN(JsonValue value, token.need("ids"));
  simdjson::dom::array list;
  if (value.get(list))
    return token.fail("\"ids\" must be a list, and is {}", kindOf(value));
  for (JsonValue entry : list) {
    MT_ASSIGN(uint32_t id, idOf(entry, fmt::format("{}: \"ids\"", token.where())));
    ids.push_back(id);
  }
  return Status();
}

Status readTemplate(const Fields &fields, Surroundings &all) {
  MT_TRY(fields.only({"single", "pair", "special_tokens"}));
  MT_ASSIGN(std::vector<Fields> pieces, fields.objects("single"));
  std::vector<uint32_t> before, after;
  bool sequence = false;
  for (const Fields &piece : pieces) {
    if (piece.find("SpecialToken")) {
      MT_ASSIGN(Fields special, piece.object("SpecialToken"));
      MT_TRY(putSpecial(fields, special, sequence ? after : before));
      continue;
    }
    MT_ASSIGN(Fields part, piece.object("Sequence"));
    MT_ASSIGN(std::string_view id, part.text("id"));
    if (id != "A" || std::exchange(sequence, true))
      return fields.fail("\"single\" must have the sequence A once");
  }
  if (!sequence)
    return fields.fail("\"single\" must have the sequence A once");
  surround(all, before, after);
  return Status();
}

} // namespace

Status readPostProcessor(const Fields &fields, Surroundings &all) {
  MT_ASSIGN(std::string_view type, fields.text("type"));
  if (type == "Sequence") {
    MT_TRY(fields.only({"processors"}));
    MT_ASSIGN(std::vector<Fields> parts, fields.objects("processors"));
    for (const Fields &part : parts)
      MT_TRY(readPostProcessor(part, all));
    return Status();
  }
  if (type == "ByteLevel") // changes places in the text alone
    return fields.only({"add_prefix_space", "trim_offsets", "use_regex"});
  if (type == "TemplateProcessing")
    return readTemplate(fields, all);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return readBert(fields, all);
  return fields.fail("the post-processor {} is not supported", type);
}

} // namespace mt::tokenizer
