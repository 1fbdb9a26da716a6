// Byte-pair encoding as the package tokenizers has it: characters, then pairs joined by rank. What has no token falls
// back to bytes or to the unknown token.
#include "runtime/tokenizer/Cuts.h"
#include "runtime/tokenizer/Merging.h"
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/Unicode.h"

#include <array>

namespace mt::tokenizer {
namespace {

class Bpe : public Model {
public:
  static Result<ModelPtr> read(const Fields &fields) {
    auto bpe = std::make_unique<Bpe>();
    MT_TRY(bpe->readOptions(fields));
    MT_TRY(readVocabulary(fields, bpe->tokens));
    MT_TRY(bpe->readMerges(fields));
    MT_TRY(bpe->prepare(fields));
    return ModelPtr(std::move(bpe));
  }

  Status encode(std::string_view word, Scratch &scratch, std::vector<uint32_t> &ids) const override {
    if (ignoreMerges)
      if (std::optional<uint32_t> whole = tokens.find(word)) {
        ids.push_back(*whole);
        return Status();
      }
    if (word.size() >= UINT32_MAX)
      return fail("{} bytes of text in one piece are too many", word.size());
    size_t begin = ids.size();
    putCharacters(word, ids);
    mergePairs(pairs, scratch, ids, begin);
    return Status();
  }

  size_t apart(std::string_view text) const override { return mayCut ? cuts.first(text, tokens) : text.size(); }
  std::optional<uint32_t> unknown() const override { return unknownId; }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kDirect = 0x400; ///< characters below are looked up in an array

  PairTable pairs;
  Cuts cuts;
  std::array<uint32_t, kDirect> direct = {};
  std::array<uint32_t, 256> bytes = {};
  std::optional<uint32_t> unknownId;
  std::string prefix, suffix; ///< of all characters but the first; of the last
  bool fuseUnknown = false, byteFallback = false, ignoreMerges = false, mayCut = false;

  Status readOptions(const Fields &fields) {
    MT_TRY(fields.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                        "byte_fallback", "ignore_merges", "vocab", "merges"}));
    if (std::optional<JsonValue> dropout = fields.find("dropout")) {
      double share = 0;
      if (dropout->get(share) || share != 0)
        return fields.fail("\"dropout\" is not supported: tokens would be drawn at random");
    }
    MT_ASSIGN(fuseUnknown, fields.flag("fuse_unk", false));
    MT_ASSIGN(byteFallback, fields.flag("byte_fallback", false));
    MT_ASSIGN(ignoreMerges, fields.flag("ignore_merges", false));
    if (fields.find("continuing_subword_prefix")) {
      MT_ASSIGN(prefix, fields.text("continuing_subword_prefix"));
    }
    if (fields.find("end_of_word_suffix")) {
      MT_ASSIGN(suffix, fields.text("end_of_word_suffix"));
    }
    return Status();
  }

  /// "a b", or a list of both.
  static Result<std::pair<std::string_view, std::string_view>> mergeOf(JsonValue value, const std::string &what) {
    simdjson::dom::array list;
    std::string_view left, right, text;
    if (!value.get(list)) {
      if (list.size() != 2 || list.at(0).get(left) || list.at(1).get(right))
        return fail("{} must be a list of two texts", what);
      return std::pair(left, right);
    }
    size_t space = value.get(text) ? std::string_view::npos : text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return fail("{} must be two tokens with a space between them", what);
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }

  Status readMerges(const Fields &fields) {
    MT_ASSIGN(JsonValue value, fields.need("merges"));
    simdjson::dom::array list;
    if (value.get(list))
      return fields.fail("\"merges\" must be a list, and is {}", kindOf(value));
    size_t count = static_cast<size_t>(std::distance(list.begin(), list.end()));
    if (count > Vocabulary::kMostIds)
      return fields.fail("{} merges are too many: {} are supported", count, Vocabulary::kMostIds);
    pairs = PairTable(count);
    uint32_t rank = 0, number = 0;
    std::string joined;
    for (JsonValue entry : list) {
      std::string what = fmt::format("{}: \"merges\", entry {}", fields.where(), number++);
      std::string_view text;
      if (!entry.get(text) && text.starts_with("#version"))
        continue;
      MT_ASSIGN(auto pair, mergeOf(entry, what));
      auto [left, right] = pair;
      if (!right.starts_with(prefix))
        return fail("{}: \"{}\" does not begin with \"{}\"", what, right, prefix);
      joined = left;
      joined += right.substr(prefix.size());
      std::optional<uint32_t> ids[] = {tokens.find(left), tokens.find(right), tokens.find(joined)};
      for (int i = 0; i < 3; ++i)
        if (!ids[i])
          return fail("{}: \"{}\" is not in the vocabulary", what, i == 0 ? left : i == 1 ? right : joined);
      pairs.put({*ids[0], *ids[1], rank++, *ids[2]});
    }
    return Status();
  }

  Status prepare(const Fields &fields) {
    if (fields.find("unk_token")) {
      MT_ASSIGN(std::string_view name, fields.text("unk_token"));
      unknownId = tokens.find(name);
      if (!unknownId && !name.empty())
        return fields.fail("\"unk_token\" {} is not in the vocabulary", name);
    }
    for (size_t byte = 0; byte < bytes.size(); ++byte)
      bytes[byte] = tokens.find(byteToken(static_cast<uint8_t>(byte))).value_or(kNone);
    std::string character;
    for (char32_t c = 0; c < kDirect; ++c) {
      character.clear();
      appendCharacter(character, c);
      direct[c] = tokens.find(character).value_or(kNone);
    }
    mayCut = prefix.empty() && suffix.empty() && !ignoreMerges;
    if (mayCut)
      cuts.learn(tokens);
    return Status();
  }

  uint32_t tokenOf(std::string_view word, size_t begin, size_t end) const {
    if ((prefix.empty() || begin == 0) && (suffix.empty() || end < word.size())) {
      size_t at = begin;
      char32_t c = nextCharacter(word, at);
      return c < kDirect ? direct[c] : tokens.find(word.substr(begin, end - begin)).value_or(kNone);
    }
    std::string name;
    if (begin > 0)
      name = prefix;
    name += word.substr(begin, end - begin);
    if (end == word.size())
      name += suffix;
    return tokens.find(name).value_or(kNone);
  }

  bool putBytes(std::string_view character, std::vector<uint32_t> &ids) const {
    for (char byte : character)
      if (bytes[static_cast<uint8_t>(byte)] == kNone)
        return false;
    for (char byte : character)
      ids.push_back(bytes[static_cast<uint8_t>(byte)]);
    return true;
  }

  /// As the package has it: an unknown token waits for what follows, and bytes go before one that waits.
  void putCharacters(std::string_view word, std::vector<uint32_t> &ids) const {
    bool waits = false;
    for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      end = begin + lengthOf(word[begin]);
      if (uint32_t id = tokenOf(word, begin, end); id != kNone) {
        if (std::exchange(waits, false))
          ids.push_back(*unknownId);
        ids.push_back(id);
        continue;
      }
      if ((byteFallback && putBytes(word.substr(begin, end - begin), ids)) || !unknownId)
        continue;
      if (waits && !fuseUnknown)
        ids.push_back(*unknownId);
      waits = true;
    }
    if (waits)
      ids.push_back(*unknownId);
  }
};

} // namespace

Result<ModelPtr> readBpe(const Fields &fields) { return Bpe::read(fields); }

} // namespace mt::tokenizer
