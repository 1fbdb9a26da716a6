#include "runtime/tokenizer/Normalizer.h"

#include "runtime/tokenizer/Base64.h"
#include "runtime/tokenizer/Charsmap.h"
#include "runtime/tokenizer/TextPattern.h"
#include "runtime/tokenizer/Unicode.h"

#include <functional>

namespace mt::tokenizer {
namespace {

class NormalFormOf : public Normalizer {
public:
  explicit NormalFormOf(NormalForm form) : form(form) {}
  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    appendNormal(form, text, to);
    return true;
  }

private:
  NormalForm form;
};

/// One character after the other; what nothing is put for at the head is a head that went.
class EachCharacter : public Normalizer {
public:
  using Change = void (*)(char32_t, std::string &);
  explicit EachCharacter(Change change) : change(change) {}
  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    bool whole = true;
    size_t before = to.size();
    for (size_t at = 0; at < text.size();) {
      bool first = at == 0;
      change(nextCharacter(text, at), to);
      whole &= !first || to.size() > before;
    }
    return whole;
  }

private:
  Change change;
};

void putUnmarked(char32_t c, std::string &to) {
  if (!isMark(c))
    appendCharacter(to, c);
}

void putLower(char32_t c, std::string &to) { appendLower(to, c); }

/// The rules of SentencePiece's nmt_*: controls go, rare spaces become spaces.
void putNmt(char32_t c, std::string &to) {
  bool goes = (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
  bool space = c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
               c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  if (!goes)
    appendCharacter(to, space ? ' ' : c);
}

class Bert : public Normalizer {
public:
  bool clean = true, chinese = true, accents = true, lower = true;

  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    std::string cleaned, decomposed;
    for (size_t at = 0; at < text.size();)
      put(nextCharacter(text, at), accents ? cleaned : to);
    if (accents) {
      appendNormal(NormalForm::nfd, cleaned, decomposed);
      for (size_t at = 0; at < decomposed.size();)
        if (char32_t c = nextCharacter(decomposed, at); !isNonspacingMark(c))
          lower ? appendLower(to, c) : appendCharacter(to, c);
    }
    return true;
  }

private:
  static bool isIdeograph(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  }
  void put(char32_t c, std::string &to) const {
    bool blank = c == '\t' || c == '\n' || c == '\r';
    if (clean && (c == 0 || c == 0xfffd || (!blank && isControl(c))))
      return;
    if (clean && (blank || isSpace(c)))
      c = ' ';
    bool apart = chinese && isIdeograph(c);
    if (apart)
      to += ' ';
    lower && !accents ? appendLower(to, c) : appendCharacter(to, c);
    if (apart)
      to += ' ';
  }
};

class Replace : public Normalizer {
public:
  Replace(TextPattern pattern, std::string_view content) : pattern(std::move(pattern)), content(content) {}
  Result<bool> run(std::string_view text, RegexMemory &memory, std::string &to) const override {
    size_t kept = 0;
    bool whole = true;
    MT_TRY(pattern.each(text, memory, [&](size_t begin, size_t end) {
      to += text.substr(kept, begin - kept);
      to += content;
      kept = end;
      if (begin == 0 && end > 0) // content takes the place of the last character that it replaces
        whole = !content.empty() && end == lengthOf(text[0]);
      return true;
    }));
    to += text.substr(kept);
    return whole;
  }

private:
  TextPattern pattern;
  std::string content;
};

class Prepend : public Normalizer {
public:
  explicit Prepend(std::string_view head) : head(head) {}
  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    if (!text.empty())
      to += head;
    to += text;
    return true;
  }

private:
  std::string head;
};

class StripSpace : public Normalizer {
public:
  StripSpace(bool left, bool right) : left(left), right(right) {}
  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    size_t begin = 0, end = text.size();
    for (size_t next = 0; left && next < text.size() && isSpace(nextCharacter(text, next));)
      begin = next;
    while (right && end > begin) {
      size_t last = previousCharacter(text, end), after = last;
      if (!isSpace(nextCharacter(text, after)))
        break;
      end = last;
    }
    to += text.substr(begin, end - begin);
    return begin == 0;
  }

private:
  bool left, right;
};

/// Grapheme by grapheme, as the package tokenizers reads SentencePiece's map: a short one that begins with an entry is
/// replaced as a whole, by the replacement of the shortest; else its characters are.
class Precompiled : public Normalizer {
public:
  explicit Precompiled(Charsmap map) : map(std::move(map)) {}
  Result<bool> run(std::string_view text, RegexMemory &, std::string &to) const override {
    constexpr size_t kShort = 6;
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = graphemeEnd(text, at);
      std::string_view grapheme = text.substr(at, end - at);
      if (auto found = grapheme.size() < kShort ? map.shortest(grapheme) : std::nullopt) {
        to += found->replacement;
        continue;
      }
      for (size_t i = 0, length = 0; i < grapheme.size(); i += length) {
        length = lengthOf(grapheme[i]);
        std::string_view character = grapheme.substr(i, length);
        auto found = map.shortest(character);
        to += found ? found->replacement : character;
      }
    }
    return true;
  }

private:
  Charsmap map;
};

Result<NormalizerPtr> readBert(const Fields &fields) {
  MT_TRY(fields.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  auto bert = std::make_unique<Bert>();
  MT_ASSIGN(bert->clean, fields.flag("clean_text"));
  MT_ASSIGN(bert->chinese, fields.flag("handle_chinese_chars"));
  MT_ASSIGN(bert->lower, fields.flag("lowercase"));
  MT_ASSIGN(bert->accents, fields.flag("strip_accents", bert->lower));
  return NormalizerPtr(std::move(bert));
}

Result<NormalizerPtr> readReplace(const Fields &fields) {
  MT_TRY(fields.only({"pattern", "content"}));
  MT_ASSIGN(TextPattern pattern, TextPattern::read(fields));
  MT_ASSIGN(std::string_view content, fields.text("content"));
  return NormalizerPtr(std::make_unique<Replace>(std::move(pattern), content));
}

Result<NormalizerPtr> readPrepend(const Fields &fields) {
  MT_TRY(fields.only({"prepend"}));
  MT_ASSIGN(std::string_view head, fields.text("prepend"));
  return NormalizerPtr(std::make_unique<Prepend>(head));
}

Result<NormalizerPtr> readStrip(const Fields &fields) {
  MT_TRY(fields.only({"strip_left", "strip_right"}));
  MT_ASSIGN(bool left, fields.flag("strip_left"));
  MT_ASSIGN(bool right, fields.flag("strip_right"));
  return NormalizerPtr(std::make_unique<StripSpace>(left, right));
}

Result<NormalizerPtr> readPrecompiled(const Fields &fields) {
  MT_TRY(fields.only({"precompiled_charsmap"}));
  MT_ASSIGN(std::string_view text, fields.text("precompiled_charsmap"));
  std::optional<std::string> bytes = fromBase64(text);
  if (!bytes)
    return fields.fail("\"precompiled_charsmap\" is no base64");
  Result<Charsmap> map = Charsmap::read(*bytes);
  if (!map)
    return map.status().within(fields.where());
  return NormalizerPtr(std::make_unique<Precompiled>(std::move(*map)));
}

template <NormalForm form> Result<NormalizerPtr> readForm(const Fields &fields) {
  MT_TRY(fields.only({}));
  return NormalizerPtr(std::make_unique<NormalFormOf>(form));
}

template <auto change> Result<NormalizerPtr> readEach(const Fields &fields) {
  MT_TRY(fields.only({}));
  return NormalizerPtr(std::make_unique<EachCharacter>(change));
}

} // namespace

Status readNormalizers(const Fields &fields, std::vector<NormalizerPtr> &all) {
  MT_ASSIGN(std::string_view type, fields.text("type"));
  if (type == "Sequence") {
    MT_TRY(fields.only({"normalizers"}));
    MT_ASSIGN(std::vector<Fields> parts, fields.objects("normalizers"));
    for (const Fields &part : parts)
      MT_TRY(readNormalizers(part, all));
    return Status();
  }
  static const std::vector<std::pair<std::string_view, Result<NormalizerPtr> (*)(const Fields &)>> kKinds = {
      {"NFC", readForm<NormalForm::nfc>},
      {"NFD", readForm<NormalForm::nfd>},
      {"NFKC", readForm<NormalForm::nfkc>},
      {"NFKD", readForm<NormalForm::nfkd>},
      {"Lowercase", readEach<putLower>},
      {"StripAccents", readEach<putUnmarked>},
      {"Nmt", readEach<putNmt>},
      {"BertNormalizer", readBert},
      {"Replace", readReplace},
      {"Prepend", readPrepend},
      {"Strip", readStrip},
      {"Precompiled", readPrecompiled}};
  for (auto [name, read] : kKinds)
    if (type == name) {
      MT_ASSIGN(NormalizerPtr normalizer, read(fields));
      all.push_back(std::move(normalizer));
      return Status();
    }
  return fields.fail("the normalizer {} is not supported", type);
}

Result<std::string_view> normalize(const std::vector<NormalizerPtr> &all, std::string_view text, Scratch &scratch,
                                   bool &whole) {
  for (const NormalizerPtr &normalizer : all) {
    scratch.other.clear();
    MT_ASSIGN(bool kept, normalizer->run(text, scratch.regex, scratch.other));
    whole &= kept;
    std::swap(scratch.normal, scratch.other);
    text = scratch.normal;
  }
  return text;
}

} // namespace mt::tokenizer
