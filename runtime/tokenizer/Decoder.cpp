#include "runtime/tokenizer/Decoder.h"

#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/ByteLevel.h"
#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/TextPattern.h"
#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {
namespace {

using Texts = std::vector<std::string>;

std::string joined(const Texts &texts) {
  std::string all;
  for (const std::string &text : texts)
    all += text;
  return all;
}

void replaceAll(std::string &text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

class BytesOfLetters : public Decoder {
public:
  void run(Texts &texts, RegexMemory &) const override {
    std::string all, bytes;
    for (const std::string &text : texts) {
      bytes.clear();
      bool letters = true;
      for (size_t at = 0; at < text.size() && letters;) {
        std::optional<uint8_t> byte = fromByteLevel(nextCharacter(text, at));
        letters = byte.has_value();
        bytes += static_cast<char>(byte.value_or(0));
      }
      all += letters ? bytes : text; // an added token is a text already
    }
    texts.assign(1, repaired(all));
  }
};

class Fuse : public Decoder {
public:
  void run(Texts &texts, RegexMemory &) const override { texts.assign(1, joined(texts)); }
};

/// Runs of "<0x..>" become the characters that they are, or as many U+FFFD.
class ByteFallback : public Decoder {
public:
  void run(Texts &texts, RegexMemory &) const override {
    Texts out;
    std::string bytes;
    auto flush = [&] {
      if (isUtf8(bytes))
        bytes.empty() ? void() : out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), "\xef\xbf\xbd");
      bytes.clear();
    };
    for (std::string &text : texts) {
      if (std::optional<uint8_t> byte = byteOf(text)) {
        bytes += static_cast<char>(*byte);
        continue;
      }
      flush();
      out.push_back(std::move(text));
    }
    flush();
    texts = std::move(out);
  }
};

class Spaces : public Decoder {
public:
  Spaces(std::string_view replacement, bool prefixed) : replacement(replacement), prefixed(prefixed) {}
  void run(Texts &texts, RegexMemory &) const override {
    for (size_t i = 0; i < texts.size(); ++i)
      replaceAll(texts[i], replacement, i == 0 && prefixed ? "" : " ");
  }

private:
  std::string replacement;
  bool prefixed;
};

class Replace : public Decoder {
public:
  Replace(TextPattern pattern, std::string_view content) : pattern(std::move(pattern)), content(content) {}
  void run(Texts &texts, RegexMemory &memory) const override {
    for (std::string &text : texts) {
      std::string out;
      size_t kept = 0;
      Status status = pattern.each(text, memory, [&](size_t begin, size_t end) {
        out.append(text, kept, begin - kept).append(content);
        kept = end;
        return true;
      });
      out.append(text, kept);
      if (status)
        text = std::move(out);
    }
  }

private:
  TextPattern pattern;
  std::string content;
};

/// Takes up to so many of a character from the beginning and from the end of each text.
class Strip : public Decoder {
public:
  Strip(std::string_view character, uint64_t start, uint64_t stop) : character(character), start(start), stop(stop) {}
  void run(Texts &texts, RegexMemory &) const override {
    for (std::string &text : texts) {
      std::string_view rest = text;
      for (uint64_t i = 0; i < start && rest.starts_with(character); ++i)
        rest.remove_prefix(character.size());
      for (uint64_t i = 0; i < stop && rest.ends_with(character); ++i)
        rest.remove_suffix(character.size());
      text = std::string(rest);
    }
  }

private:
  std::string character;
  uint64_t start, stop;
};

class WordPieces : public Decoder {
public:
  WordPieces(std::string_view prefix, bool cleanup) : prefix(prefix), cleanup(cleanup) {}
  void run(Texts &texts, RegexMemory &) const override {
    for (size_t i = 0; i < texts.size(); ++i) {
      std::string &text = texts[i];
      if (i > 0)
        text = text.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
      if (!cleanup)
        continue;
      constexpr std::pair<std::string_view, std::string_view> kTidy[] = {
          {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
          {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
      for (auto [what, by] : kTidy)
        replaceAll(text, what, by);
    }
  }

private:
  std::string prefix;
  bool cleanup;
};

/// CLIP's: a mark at the end of words becomes a space.
class WordEnds : public Decoder {
public:
  explicit WordEnds(std::string_view suffix) : suffix(suffix) {}
  void run(Texts &texts, RegexMemory &) const override {
    for (size_t i = 0; i < texts.size(); ++i)
      replaceAll(texts[i], suffix, i + 1 == texts.size() ? "" : " ");
  }

private:
  std::string suffix;
};

Result<DecoderPtr> readMetaspace(const Fields &fields) {
  MT_TRY(fields.only({"replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  MT_ASSIGN(std::string_view replacement, fields.text("replacement"));
  if (replacement.empty())
    return fields.fail("\"replacement\" is empty");
  MT_ASSIGN(bool prefix, fields.flag("add_prefix_space", true));
  std::string_view scheme = prefix ? "always" : "never";
  if (fields.find("prepend_scheme")) {
    MT_ASSIGN(scheme, fields.text("prepend_scheme"));
  }
  return DecoderPtr(std::make_unique<Spaces>(replacement, scheme != "never"));
}

Result<DecoderPtr> readReplace(const Fields &fields) {
  MT_TRY(fields.only({"pattern", "content"}));
  MT_ASSIGN(TextPattern pattern, TextPattern::read(fields));
  MT_ASSIGN(std::string_view content, fields.text("content"));
  return DecoderPtr(std::make_unique<Replace>(std::move(pattern), content));
}

Result<DecoderPtr> readStrip(const Fields &fields) {
  MT_TRY(fields.only({"content", "start", "stop"}));
  MT_ASSIGN(std::string_view character, fields.text("content"));
  if (character.empty())
    return fields.fail("\"content\" is empty");
  MT_ASSIGN(uint64_t start, fields.number("start"));
  MT_ASSIGN(uint64_t stop, fields.number("stop"));
  return DecoderPtr(std::make_unique<Strip>(character, start, stop));
}

Result<DecoderPtr> readWordPieces(const Fields &fields) {
  MT_TRY(fields.only({"prefix", "cleanup"}));
  MT_ASSIGN(std::string_view prefix, fields.text("prefix"));
  MT_ASSIGN(bool cleanup, fields.flag("cleanup", true));
  return DecoderPtr(std::make_unique<WordPieces>(prefix, cleanup));
}

Result<DecoderPtr> readWordEnds(const Fields &fields) {
  MT_TRY(fields.only({"suffix"}));
  MT_ASSIGN(std::string_view suffix, fields.text("suffix"));
  if (suffix.empty())
    return fields.fail("\"suffix\" is empty");
  return DecoderPtr(std::make_unique<WordEnds>(suffix));
}

Result<DecoderPtr> readByteLevel(const Fields &fields) {
  MT_TRY(fields.only({"add_prefix_space", "trim_offsets", "use_regex"}));
  return DecoderPtr(std::make_unique<BytesOfLetters>());
}

template <typename Kind> Result<DecoderPtr> readPlain(const Fields &fields) {
  MT_TRY(fields.only({}));
  return DecoderPtr(std::make_unique<Kind>());
}

} // namespace

Status readDecoders(const Fields &fields, std::vector<DecoderPtr> &all) {
  MT_ASSIGN(std::string_view type, fields.text("type"));
  if (type == "Sequence") {
    MT_TRY(fields.only({"decoders"}));
    MT_ASSIGN(std::vector<Fields> parts, fields.objects("decoders"));
    for (const Fields &part : parts)
      MT_TRY(readDecoders(part, all));
    return Status();
  }
  static const std::pair<std::string_view, Result<DecoderPtr> (*)(const Fields &)> kKinds[] = {
      {"ByteLevel", readByteLevel},  {"Metaspace", readMetaspace},
      {"WordPiece", readWordPieces}, {"Replace", readReplace},
      {"Strip", readStrip},          {"BPEDecoder", readWordEnds},
      {"Fuse", readPlain<Fuse>},     {"ByteFallback", readPlain<ByteFallback>}};
  for (auto [name, read] : kKinds)
    if (type == name) {
      MT_ASSIGN(DecoderPtr decoder, read(fields));
      all.push_back(std::move(decoder));
      return Status();
    }
  return fields.fail("the decoder {} is not supported", type);
}

} // namespace mt::tokenizer
