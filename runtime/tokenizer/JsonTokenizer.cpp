#include "runtime/tokenizer/JsonTokenizer.h"

#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/AddedTokens.h"
#include "runtime/tokenizer/Alignment.h"
#include "runtime/tokenizer/Decoder.h"
#include "runtime/tokenizer/PostProcessor.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/ScratchPool.h"
#include "runtime/tokenizer/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mt::tokenizer {
namespace {

constexpr size_t kMostSteps = 64;  ///< of a kind, one after the other
constexpr size_t kShortPiece = 32; ///< bytes

class JsonTokenizer : public Tokenizer {
public:
  Status read(const Fields &fields) {
    MT_TRY(fields.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                        "post_processor", "decoder", "model"}));
    if (fields.find("version")) {
      MT_ASSIGN(std::string_view version, fields.text("version"));
      if (version != "1.0")
        return fail("\"version\" {} is not supported: 1.0 is", version);
    }
    MT_ASSIGN(Fields modelFields, part(fields, "model"));
    MT_ASSIGN(model, readModel(modelFields));
    if (fields.find("normalizer")) {
      MT_ASSIGN(Fields own, part(fields, "normalizer"));
      MT_TRY(readNormalizers(own, normalizers));
    }
    if (fields.find("pre_tokenizer")) {
      MT_ASSIGN(Fields own, part(fields, "pre_tokenizer"));
      MT_TRY(readPreTokenizers(own, preTokenizers, buffers));
    }
    if (fields.find("post_processor")) {
      MT_ASSIGN(Fields own, part(fields, "post_processor"));
      MT_TRY(readPostProcessor(own, surroundings));
    }
    if (fields.find("decoder")) {
      MT_ASSIGN(Fields own, part(fields, "decoder"));
      MT_TRY(readDecoders(own, decoders));
      joinsWithSpaces = false;
    }
    if (size_t most = std::max({normalizers.size(), preTokenizers.size(), decoders.size()}); most > kMostSteps)
      return fail("{} normalizers, pre-tokenizers or decoders are too many: {} are supported", most, kMostSteps);
    MT_TRY(added.read(fields, *model, normalizers));
    specialTokens.unknown = model->unknown();
    for (const std::vector<uint32_t> &ids : {surroundings.before, surroundings.after})
      for (uint32_t id : ids)
        if (id >= vocabularySize())
          return fail("the post-processor puts token {} beside texts, and there are {} tokens", id, vocabularySize());
    if (!surroundings.before.empty())
      specialTokens.begin = surroundings.before.front();
    if (!surroundings.after.empty())
      specialTokens.end = surroundings.after.back();
    return Status();
  }

  /// What a tokenizer_config.json names: "eos_token": "</s>", or an object with "content".
  Status readNames(const Fields &fields) {
    constexpr std::pair<std::string_view, std::optional<uint32_t> SpecialTokens::*> kNames[] = {
        {"bos_token", &SpecialTokens::begin},
        {"eos_token", &SpecialTokens::end},
        {"pad_token", &SpecialTokens::padding},
        {"unk_token", &SpecialTokens::unknown}};
    for (auto [name, token] : kNames) {
      std::optional<JsonValue> value = fields.find(name);
      std::string_view content;
      if (value && value->get(content)) {
        MT_ASSIGN(Fields object, fields.object(name));
        MT_ASSIGN(content, object.text("content"));
      }
      if (value && !(specialTokens.*token = find(content)) &&
          (token == &SpecialTokens::begin || token == &SpecialTokens::end))
        return fail("\"{}\" is '{}', which is no token of the tokenizer: correct it, or take it away", name, content);
    }
    return Status();
  }

  Status encode(std::string_view text, bool addSpecial, std::vector<uint32_t> &ids) const override {
    std::string good;
    if (!simdjson::validate_utf8(text.data(), text.size())) {
      good = repaired(text);
      text = good;
    }
    if (addSpecial)
      ids.insert(ids.end(), surroundings.before.begin(), surroundings.before.end());
    std::unique_ptr<Scratch> scratch = pool.take(buffers);
    auto raw = [&](size_t begin, size_t end) {
      return encodeRaw({text.substr(begin, end - begin), begin == 0}, *scratch, ids);
    };
    auto found = [&](uint32_t id, size_t) {
      ids.push_back(id);
      return true;
    };
    added.each(text, false, raw, found);
    Status status = std::move(scratch->failure);
    pool.giveBack(std::move(scratch));
    if (addSpecial)
      ids.insert(ids.end(), surroundings.after.begin(), surroundings.after.end());
    return status;
  }

  Status encodeLocating(std::string_view text, std::span<const size_t> places, std::vector<uint32_t> &ids,
                        std::vector<size_t> &tokens) const override {
    if (!simdjson::validate_utf8(text.data(), text.size()))
      return fail("places in a text are found where it is UTF-8");
    std::unique_ptr<Scratch> scratch = pool.take(buffers);
    Status problem;
    size_t done = 0; // of the text
    auto raw = [&](size_t begin, size_t end) {
      const size_t first = ids.size();
      const TextPiece piece{text.substr(begin, end - begin), begin == 0};
      if (!encodeRaw(piece, *scratch, ids))
        return false;
      done = end;
      std::vector<size_t> within;
      while (!places.empty() && places.front() < end) {
        within.push_back(places.front() - begin);
        places = places.subspan(1);
      }
      if (!within.empty())
        problem = locate(piece.text, within, first, ids, *scratch, tokens);
      return problem.ok();
    };
    auto found = [&](uint32_t id, size_t end) {
      for (; !places.empty() && places.front() < end; places = places.subspan(1))
        tokens.push_back(ids.size());
      ids.push_back(id);
      done = end;
      return true;
    };
    added.each(text, false, raw, found);
    tokens.insert(tokens.end(), places.size(), ids.size());
    Status status = std::move(scratch->failure);
    pool.giveBack(std::move(scratch));
    return status ? problem : status;
  }

  std::string decode(std::span<const uint32_t> ids, bool skipSpecial) const override {
    std::vector<std::string> texts;
    for (uint32_t id : ids) {
      const AddedTokens::Token *own = added.token(id);
      const std::string *text = own ? &own->form : model->vocabulary().token(id);
      if (text && !(skipSpecial && added.isSpecial(*text)))
        texts.push_back(*text);
    }
    std::unique_ptr<Scratch> scratch = pool.take(buffers);
    for (const DecoderPtr &decoder : decoders)
      decoder->run(texts, scratch->regex);
    pool.giveBack(std::move(scratch));
    std::string all;
    for (size_t i = 0; i < texts.size(); ++i) {
      all += i > 0 && joinsWithSpaces ? " " : "";
      all += texts[i];
    }
    return all;
  }

  uint32_t vocabularySize() const override { return std::max(model->vocabulary().end(), added.end()); }
  std::optional<uint32_t> find(std::string_view token) const override {
    std::optional<uint32_t> id = added.find(token);
    return id ? id : model->vocabulary().find(token);
  }

private:
  std::vector<NormalizerPtr> normalizers;
  std::vector<PreTokenizerPtr> preTokenizers;
  ModelPtr model;
  std::vector<DecoderPtr> decoders;
  Surroundings surroundings;
  AddedTokens added;
  size_t buffers = 0;
  bool joinsWithSpaces = true;
  mutable ScratchPool pool;

  static Result<Fields> part(const Fields &fields, std::string_view name) {
    MT_ASSIGN(JsonValue value, fields.need(name));
    return Fields::of(value, fmt::format("\"{}\"", name));
  }

  /// The numbers of the tokens that have these places of a piece, whose own are those from `first` on.
  Status locate(std::string_view piece, std::span<const size_t> places, size_t first, std::span<const uint32_t> ids,
                Scratch &scratch, std::vector<size_t> &tokens) const {
    auto normalized = [&](std::string_view text) -> Result<std::string> {
      bool whole = true;
      MT_ASSIGN(const std::string_view normal, normalize(normalizers, text, scratch, whole));
      return std::string(normal);
    };
    MT_ASSIGN(const std::string normal, normalized(piece));
    std::vector<std::string_view> forms;
    for (uint32_t id : ids.subspan(first)) {
      const AddedTokens::Token *own = added.token(id);
      const std::string *form = own ? &own->form : model->vocabulary().token(id);
      forms.push_back(form ? std::string_view(*form) : std::string_view());
    }
    MT_ASSIGN(const std::vector<size_t> ends, alignTokens(normal, forms));
    for (size_t place : places) {
      size_t at = place;
      if (normal != piece) {
        MT_ASSIGN(const std::string before, normalized(piece.substr(0, place)));
        at = static_cast<size_t>(std::ranges::mismatch(before, normal).in1 - before.begin());
      }
      tokens.push_back(first + static_cast<size_t>(std::ranges::upper_bound(ends, at) - ends.begin()));
    }
    return Status();
  }

  /// A text between tokens found as it is.
  bool encodeRaw(TextPiece piece, Scratch &scratch, std::vector<uint32_t> &ids) const {
    bool whole = true;
    Result<std::string_view> normal = normalize(normalizers, piece.text, scratch, whole);
    if (!normal)
      return scratch.fails(normal.status());
    auto text = [&](size_t begin, size_t end) {
      TextPiece part{normal->substr(begin, end - begin), piece.first && whole && begin == 0};
      return encodePiece(preTokenizers, part, scratch, ids);
    };
    auto found = [&](uint32_t id, size_t) {
      ids.push_back(id);
      return true;
    };
    return added.each(*normal, true, text, found);
  }

  /// A piece that those pre-tokenizers have still to cut. Short ones are remembered at every step: most words then skip
  /// all that would follow.
  bool encodePiece(std::span<const PreTokenizerPtr> steps, TextPiece piece, Scratch &scratch,
                   std::vector<uint32_t> &ids) const {
    if (piece.text.empty())
      return true;
    if (steps.empty())
      return encodeWords(piece.text, scratch, ids);
    auto next = [&](TextPiece part) { return encodePiece(steps.subspan(1), part, scratch, ids); };
    if (piece.text.size() > kShortPiece)
      return steps.front()->run(piece, scratch, next);
    const uint64_t state = 2 * steps.size() + (piece.first ? 1 : 0);
    const uint64_t hash = hashOf(piece.text) ^ (state * 0x9e3779b97f4a7c15);
    if (std::optional<std::span<const uint32_t>> known = scratch.words.find(piece.text, hash)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return true;
    }
    size_t begin = ids.size();
    if (!steps.front()->run(piece, scratch, next))
      return false;
    scratch.words.put(piece.text, hash, std::span(ids).subspan(begin));
    return true;
  }

  bool encodeWords(std::string_view text, Scratch &scratch, std::vector<uint32_t> &ids) const {
    while (!text.empty()) {
      std::string_view word = text.substr(0, model->apart(text));
      if (!encodeWord(word, scratch, ids))
        return false;
      text.remove_prefix(word.size());
    }
    return true;
  }

  bool encodeWord(std::string_view word, Scratch &scratch, std::vector<uint32_t> &ids) const {
    if (word.size() > WordCache::kLongestWord) {
      Status status = model->encode(word, scratch, ids);
      return status || scratch.fails(std::move(status));
    }
    uint64_t hash = hashOf(word);
    if (std::optional<std::span<const uint32_t>> known = scratch.words.find(word, hash)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return true;
    }
    size_t begin = ids.size();
    if (Status status = model->encode(word, scratch, ids); !status)
      return scratch.fails(std::move(status));
    scratch.words.put(word, hash, std::span(ids).subspan(begin));
    return true;
  }
};

/// A JSON file's object, for as long as the parser lives.
Result<Fields> openObject(const std::string &path, simdjson::dom::parser &parser) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.size());
  JsonValue value;
  auto error = text.empty() ? simdjson::EMPTY : parser.allocate(file.size(), kDeepestJson);
  if (!error)
    error = parser.parse(text.data(), text.size()).get(value);
  if (error) {
    Result<nlohmann::json> parsed = parseJson(text); // says where
    return fail("{}: not JSON: {}", path, parsed ? simdjson::error_message(error) : parsed.status().message());
  }
  Result<Fields> fields = Fields::of(value, "the file");
  return fields.ok() ? std::move(fields) : fields.status().within(path);
}

} // namespace

Result<std::unique_ptr<Tokenizer>> openJsonTokenizer(const std::string &path, const std::string &configuration) {
  simdjson::dom::parser parser;
  auto tokenizer = std::make_unique<JsonTokenizer>();
  MT_ASSIGN(Fields fields, openObject(path, parser));
  MT_TRY(tokenizer->read(fields).within(path));
  if (!configuration.empty()) {
    MT_ASSIGN(Fields names, openObject(configuration, parser));
    MT_TRY(tokenizer->readNames(names).within(configuration));
  }
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

} // namespace mt::tokenizer
