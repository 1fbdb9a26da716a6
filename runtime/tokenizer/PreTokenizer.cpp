#include "runtime/tokenizer/PreTokenizer.h"

#include "runtime/tokenizer/ByteLevel.h"
#include "runtime/tokenizer/Splits.h"
#include "runtime/tokenizer/TextPattern.h"
#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {
namespace {

bool splitBy(const TextPattern &pattern, TextPiece piece, Splits &splits, Scratch &scratch) {
  bool on = true;
  Status status = pattern.each(piece.text, scratch.regex, [&](size_t begin, size_t end) {
    on = splits.match(begin, end);
    return on;
  });
  if (!status)
    return scratch.fails(std::move(status));
  return on && splits.finish();
}

class Split : public PreTokenizer {
public:
  Split(TextPattern pattern, SplitBehaviour behaviour, bool invert)
      : pattern(std::move(pattern)), behaviour(behaviour), invert(invert) {}
  bool run(TextPiece piece, Scratch &scratch, const Sink &sink) const override {
    Splits splits(piece, behaviour, invert, sink);
    return splitBy(pattern, piece, splits, scratch);
  }

private:
  TextPattern pattern;
  SplitBehaviour behaviour;
  bool invert;
};

/// Every character of a class is an occurrence.
class SplitCharacters : public PreTokenizer {
public:
  using Class = bool (*)(char32_t);
  SplitCharacters(Class isIn, SplitBehaviour behaviour) : isIn(isIn), behaviour(behaviour) {}
  bool run(TextPiece piece, Scratch &, const Sink &sink) const override {
    Splits splits(piece, behaviour, false, sink);
    for (size_t at = 0; at < piece.text.size();) {
      size_t begin = at;
      if (isIn(nextCharacter(piece.text, at)) && !splits.match(begin, at))
        return false;
    }
    return splits.finish();
  }

private:
  Class isIn;
  SplitBehaviour behaviour;
};

/// Runs of word characters, and of others that are no space.
class Whitespace : public PreTokenizer {
public:
  bool run(TextPiece piece, Scratch &, const Sink &sink) const override {
    enum Kind { space, word, other };
    size_t begin = 0;
    Kind before = space;
    auto put = [&](size_t end) {
      return before == space || sink({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    for (size_t at = 0; at < piece.text.size();) {
      size_t place = at;
      char32_t c = nextCharacter(piece.text, at);
      Kind kind = isWordPart(c) ? word : isSpace(c) ? space : other;
      if (kind != before) {
        if (!put(place))
          return false;
        begin = place;
        before = kind;
      }
    }
    return put(piece.text.size());
  }
};

class ByteLevelWords : public PreTokenizer {
public:
  bool prefixSpace = true;
  std::optional<TextPattern> words;
  size_t buffer = 0; ///< and the next

  bool run(TextPiece piece, Scratch &scratch, const Sink &sink) const override {
    if (prefixSpace && !piece.text.empty() && !piece.text.starts_with(' ')) {
      scratch.buffers[buffer] = ' ';
      scratch.buffers[buffer] += piece.text;
      piece.text = scratch.buffers[buffer];
    }
    auto mapped = [&](TextPiece word) {
      toByteLevel(word.text, scratch.buffers[buffer + 1]);
      return sink({scratch.buffers[buffer + 1], word.first});
    };
    if (!words)
      return mapped(piece);
    const Sink next(mapped);
    Splits splits(piece, SplitBehaviour::isolated, false, next);
    return splitBy(*words, piece, splits, scratch);
  }
};

class Metaspace : public PreTokenizer {
public:
  enum class Scheme { first, never, always };
  std::string replacement;
  Scheme scheme = Scheme::always;
  bool split = true;
  size_t buffer = 0;

  bool run(TextPiece piece, Scratch &scratch, const Sink &sink) const override {
    std::string &text = scratch.buffers[buffer];
    text.clear();
    bool starts = piece.text.starts_with(' ') || piece.text.starts_with(replacement);
    if (!starts && !piece.text.empty() && (scheme == Scheme::always || (scheme == Scheme::first && piece.first)))
      text = replacement;
    for (size_t at = 0; at < piece.text.size();) {
      size_t space = std::min(piece.text.find(' ', at), piece.text.size());
      text += piece.text.substr(at, space - at);
      if (space < piece.text.size())
        text += replacement;
      at = space + 1;
    }
    piece.text = text;
    if (!split)
      return sink(piece);
    Splits splits(piece, SplitBehaviour::withNext, false, sink);
    for (size_t at = 0; (at = text.find(replacement, at)) != std::string::npos; at += replacement.size())
      if (!splits.match(at, at + replacement.size()))
        return false;
    return splits.finish();
  }
};

Status readSplit(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({"pattern", "behavior", "invert"}));
  MT_ASSIGN(TextPattern pattern, TextPattern::read(fields));
  MT_ASSIGN(SplitBehaviour behaviour, readBehaviour(fields));
  MT_ASSIGN(bool invert, fields.flag("invert", false));
  all.push_back(std::make_unique<Split>(std::move(pattern), behaviour, invert));
  return Status();
}

Status readWhitespace(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({}));
  all.push_back(std::make_unique<Whitespace>());
  return Status();
}

Status readWhitespaceSplit(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({}));
  all.push_back(std::make_unique<SplitCharacters>(isSpace, SplitBehaviour::removed));
  return Status();
}

Status readBert(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({}));
  all.push_back(std::make_unique<SplitCharacters>(isSpace, SplitBehaviour::removed));
  all.push_back(std::make_unique<SplitCharacters>(isPunctuation, SplitBehaviour::isolated));
  return Status();
}

Status readDigits(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({"individual_digits"}));
  MT_ASSIGN(bool each, fields.flag("individual_digits"));
  all.push_back(
      std::make_unique<SplitCharacters>(isNumeric, each ? SplitBehaviour::isolated : SplitBehaviour::contiguous));
  return Status();
}

Status readPunctuation(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &) {
  MT_TRY(fields.only({"behavior"}));
  MT_ASSIGN(SplitBehaviour behaviour, readBehaviour(fields, SplitBehaviour::isolated));
  all.push_back(std::make_unique<SplitCharacters>(isPunctuation, behaviour));
  return Status();
}

Status readByteLevel(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &buffers) {
  MT_TRY(fields.only({"add_prefix_space", "trim_offsets", "use_regex"}));
  auto words = std::make_unique<ByteLevelWords>();
  MT_ASSIGN(words->prefixSpace, fields.flag("add_prefix_space"));
  MT_ASSIGN(bool split, fields.flag("use_regex", true));
  if (split) {
    MT_ASSIGN(words->words, TextPattern::regex(kByteLevelWords));
  }
  words->buffer = buffers;
  buffers += 2;
  all.push_back(std::move(words));
  return Status();
}

Status readMetaspace(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &buffers) {
  MT_TRY(fields.only({"replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  auto words = std::make_unique<Metaspace>();
  MT_ASSIGN(std::string_view replacement, fields.text("replacement"));
  if (replacement.empty() || lengthOf(replacement[0]) != replacement.size())
    return fields.fail("\"replacement\" must be one character");
  words->replacement = replacement;
  MT_ASSIGN(bool prefix, fields.flag("add_prefix_space", true));
  std::string_view scheme = prefix ? "always" : "never";
  if (fields.find("prepend_scheme")) {
    MT_ASSIGN(scheme, fields.text("prepend_scheme"));
  }
  if (scheme != "always" && scheme != "never" && scheme != "first")
    return fields.fail("\"prepend_scheme\" {} is not supported", scheme);
  if (!prefix && scheme != "never")
    return fields.fail("\"add_prefix_space\" false and \"prepend_scheme\" {} contradict each other", scheme);
  words->scheme = scheme == "always"  ? Metaspace::Scheme::always
                  : scheme == "first" ? Metaspace::Scheme::first
                                      : Metaspace::Scheme::never;
  MT_ASSIGN(words->split, fields.flag("split", true));
  words->buffer = buffers++;
  all.push_back(std::move(words));
  return Status();
}

} // namespace

Status readPreTokenizers(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &buffers) {
  MT_ASSIGN(std::string_view type, fields.text("type"));
  if (type == "Sequence") {
    MT_TRY(fields.only({"pretokenizers"}));
    MT_ASSIGN(std::vector<Fields> parts, fields.objects("pretokenizers"));
    for (const Fields &part : parts)
      MT_TRY(readPreTokenizers(part, all, buffers));
    return Status();
  }
  static const std::pair<std::string_view, Status (*)(const Fields &, std::vector<PreTokenizerPtr> &, size_t &)>
      kKinds[] = {{"Split", readSplit},
                  {"ByteLevel", readByteLevel},
                  {"Metaspace", readMetaspace},
                  {"Whitespace", readWhitespace},
                  {"WhitespaceSplit", readWhitespaceSplit},
                  {"BertPreTokenizer", readBert},
                  {"Digits", readDigits},
                  {"Punctuation", readPunctuation}};
  for (auto [name, read] : kKinds)
    if (type == name)
      return read(fields, all, buffers);
  return fields.fail("the pre-tokenizer {} is not supported", type);
}

} // namespace mt::tokenizer
