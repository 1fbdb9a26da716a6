// WordPiece, BERT's model: the longest token first, then the longest that goes on from there; and WordLevel: words that
// are tokens.
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {
namespace {

/// The field "unk_token"; it need not be in the vocabulary until it is needed.
struct Unknown {
  std::string name;
  std::optional<uint32_t> id;

  Status read(const Fields &fields, const Vocabulary &tokens) {
    MT_ASSIGN(name, fields.text("unk_token"));
    id = tokens.find(name);
    return Status();
  }
  Status put(std::string_view word, std::vector<uint32_t> &ids) const {
    if (!id)
      return fail("\"{}\" has no token, and neither has \"{}\", which unknown words become", word, name);
    ids.push_back(*id);
    return Status();
  }
};

class WordPiece : public Model {
public:
  static Result<ModelPtr> read(const Fields &fields) {
    auto model = std::make_unique<WordPiece>();
    MT_TRY(fields.only({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
    MT_TRY(readVocabulary(fields, model->tokens));
    MT_TRY(model->unknownToken.read(fields, model->tokens));
    MT_ASSIGN(model->prefix, fields.text("continuing_subword_prefix"));
    MT_ASSIGN(model->longest, fields.number("max_input_chars_per_word", 100));
    for (uint32_t id = 0; id < model->tokens.end(); ++id)
      if (const std::string *token = model->tokens.token(id))
        model->longestToken = std::max(model->longestToken, token->size());
    return ModelPtr(std::move(model));
  }

  Status encode(std::string_view word, Scratch &, std::vector<uint32_t> &ids) const override {
    size_t characters = 0;
    for (size_t at = 0; at < word.size() && characters <= longest; at += lengthOf(word[at]))
      ++characters;
    size_t begin = ids.size();
    if (characters <= longest && putPieces(word, ids))
      return Status();
    ids.resize(begin);
    return unknownToken.put(word, ids);
  }
  std::optional<uint32_t> unknown() const override { return unknownToken.id; }

private:
  std::string prefix;
  Unknown unknownToken;
  uint64_t longest = 100;  ///< characters of a word that is looked at
  size_t longestToken = 0; ///< bytes

  bool putPieces(std::string_view word, std::vector<uint32_t> &ids) const {
    std::string piece;
    for (size_t begin = 0; begin < word.size();) {
      size_t end = std::min(word.size(), begin + longestToken);
      while (end < word.size() && end > begin && (static_cast<uint8_t>(word[end]) & 0xc0) == 0x80)
        --end;
      std::optional<uint32_t> id;
      for (; end > begin; end = previousCharacter(word, end)) {
        piece = begin > 0 ? prefix : "";
        piece += word.substr(begin, end - begin);
        if ((id = tokens.find(piece)))
          break;
      }
      if (!id)
        return false;
      ids.push_back(*id);
      begin = end;
    }
    return true;
  }
};

class WordLevel : public Model {
public:
  static Result<ModelPtr> read(const Fields &fields) {
    auto model = std::make_unique<WordLevel>();
    MT_TRY(fields.only({"unk_token", "vocab"}));
    MT_TRY(readVocabulary(fields, model->tokens));
    MT_TRY(model->unknownToken.read(fields, model->tokens));
    return ModelPtr(std::move(model));
  }
  Status encode(std::string_view word, Scratch &, std::vector<uint32_t> &ids) const override {
    std::optional<uint32_t> id = tokens.find(word);
    if (!id)
      return unknownToken.put(word, ids);
    ids.push_back(*id);
    return Status();
  }
  std::optional<uint32_t> unknown() const override { return unknownToken.id; }

private:
  Unknown unknownToken;
};

} // namespace

Result<ModelPtr> readWordPiece(const Fields &fields) { return WordPiece::read(fields); }
Result<ModelPtr> readWordLevel(const Fields &fields) { return WordLevel::read(fields); }

} // namespace mt::tokenizer
