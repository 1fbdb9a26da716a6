// Unigram models of a tokenizer.json: the likeliest pieces; characters that are none become one unknown token together,
// or their bytes.
#include "runtime/tokenizer/Cuts.h"
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/Viterbi.h"

#include <array>
#include <limits>

namespace mt::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10; // below the least score, as in SentencePiece
constexpr size_t kStretch = 1 << 20;   // bytes of text that are looked at together

class Unigram : public Model {
public:
  static Result<ModelPtr> read(const Fields &fields) {
    auto model = std::make_unique<Unigram>();
    MT_TRY(fields.only({"unk_id", "vocab", "byte_fallback"}));
    MT_TRY(model->readPieces(fields));
    MT_ASSIGN(model->byteFallback, fields.flag("byte_fallback", false));
    if (fields.find("unk_id")) {
      MT_ASSIGN(uint64_t id, fields.number("unk_id"));
      if (id >= model->viterbi.scores.size())
        return fields.fail("\"unk_id\" is {}, and there are {} tokens", id, model->viterbi.scores.size());
      model->unknownId = static_cast<uint32_t>(id);
      model->viterbi.unknownId = *model->unknownId;
    }
    for (size_t byte = 0; byte < model->bytes.size(); ++byte)
      model->bytes[byte] = model->tokens.find(byteToken(static_cast<uint8_t>(byte)));
    model->cuts.learn(model->tokens);
    return ModelPtr(std::move(model));
  }

  Status encode(std::string_view word, Scratch &scratch, std::vector<uint32_t> &ids) const override {
    if (word.size() >= UINT32_MAX)
      return fail("{} bytes of text in one piece are too many", word.size());
    viterbi.run(word, 0, scratch);
    std::optional<size_t> unknownFrom;
    bool lost = false;
    auto flush = [&](size_t end) {
      if (unknownFrom)
        lost |= !putUnknown(word.substr(*unknownFrom, end - *unknownFrom), ids);
      unknownFrom.reset();
    };
    viterbi.each(word, scratch, [&](size_t begin, size_t, uint32_t id) {
      if (id == viterbi.unknownId) {
        unknownFrom = unknownFrom.value_or(begin);
        return;
      }
      flush(begin);
      ids.push_back(id);
    });
    flush(word.size());
    if (lost)
      return fail("\"{}\" has what is no token, and the file names no \"unk_id\"", word.substr(0, 64));
    return Status();
  }

  /// Long texts alone are cut: sums of scores that begin anew may decide otherwise between ways that are equally good.
  size_t apart(std::string_view text) const override {
    size_t bytes = text.size() <= kStretch ? text.size() : 0;
    while (bytes < kStretch && bytes < text.size())
      bytes += cuts.first(text.substr(bytes), tokens);
    return bytes;
  }
  std::optional<uint32_t> unknown() const override { return unknownId; }

private:
  Viterbi viterbi;
  Cuts cuts;
  std::array<std::optional<uint32_t>, 256> bytes;
  std::optional<uint32_t> unknownId;
  bool byteFallback = false;

  Status readPieces(const Fields &fields) {
    MT_ASSIGN(JsonValue value, fields.need("vocab"));
    simdjson::dom::array list;
    if (value.get(list))
      return fields.fail("\"vocab\" must be a list, and is {}", kindOf(value));
    double least = std::numeric_limits<double>::infinity();
    uint32_t id = 0;
    for (JsonValue entry : list) {
      simdjson::dom::array pair;
      std::string_view token;
      double score = 0;
      if (entry.get(pair) || pair.size() != 2 || pair.at(0).get(token) || pair.at(1).get(score))
        return fields.fail("\"vocab\", entry {} must be a list of a token and its score", id);
      if (std::optional<uint32_t> before = tokens.find(token))
        return fields.fail("\"vocab\": \"{}\" is there twice, as {} and {}", token, *before, id);
      MT_TRY(tokens.add(token, id).within(fields.where()));
      if (!token.empty())
        viterbi.pieces.add(token, id);
      viterbi.scores.push_back(score);
      least = std::min(least, score);
      ++id;
    }
    if (id == 0)
      return fields.fail("\"vocab\" is empty");
    viterbi.unknownScore = least - kUnknownPenalty;
    viterbi.unknownId = UINT32_MAX; // until the file names one
    return Status();
  }

  /// What several characters that are no pieces become together.
  bool putUnknown(std::string_view text, std::vector<uint32_t> &ids) const {
    if (std::optional<uint32_t> whole = tokens.find(text)) {
      ids.push_back(*whole);
      return true;
    }
    bool haveAll = byteFallback;
    for (char byte : text)
      haveAll = haveAll && bytes[static_cast<uint8_t>(byte)];
    if (!haveAll && !unknownId)
      return false;
    if (!haveAll)
      ids.push_back(*unknownId);
    for (size_t i = 0; haveAll && i < text.size(); ++i)
      ids.push_back(*bytes[static_cast<uint8_t>(text[i])]);
    return true;
  }
};

} // namespace

Result<ModelPtr> readUnigram(const Fields &fields) { return Unigram::read(fields); }

} // namespace mt::tokenizer
