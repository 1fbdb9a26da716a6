#include "runtime/jinja/Printing.h"

#include "runtime/jinja/Characters.h"
#include "runtime/jinja/Numbers.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

void quoteText(std::string_view text, std::string &to) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  to += quote;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    char32_t c = nextCodePoint(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\')
      (to += '\\') += static_cast<char>(c);
    else if (c == '\n' || c == '\r' || c == '\t')
      to += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (isPrintable(c))
      to += text.substr(begin, at - begin);
    else if (c < 0x100)
      to += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    else
      to += c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                        : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
  to += quote;
}

Status printItems(Heap &heap, const std::vector<Value> &items, std::string &to) {
  for (size_t i = 0; i < items.size(); ++i) {
    to += i > 0 ? ", " : "";
    MT_TRY(printQuoted(heap, items[i], to));
  }
  return {};
}

Status printSequence(Heap &heap, const Sequence &sequence, std::string &to) {
  using Kind = Sequence::Kind;
  if (sequence.kind == Kind::Iterator)
    return fail("an iterator, such as the filter map gives, cannot be printed; use the filter list or join");
  if (sequence.kind == Kind::Range) {
    to += fmt::format("range({}, {}", sequence.start, sequence.stop);
    to += sequence.step != 1 ? fmt::format(", {})", sequence.step) : ")";
    return {};
  }
  const bool round = sequence.kind == Kind::Tuple;
  to += sequence.kind == Kind::Keys     ? "dict_keys("
        : sequence.kind == Kind::Values ? "dict_values("
        : sequence.kind == Kind::Items  ? "dict_items("
                                        : "";
  to += round ? "(" : "[";
  MT_TRY(printItems(heap, sequence.items, to));
  to += round ? sequence.items.size() == 1 ? ",)" : ")" : "]";
  to += round || sequence.kind == Kind::List ? "" : ")";
  return {};
}

Status printDictionary(Heap &heap, const Dictionary &dictionary, std::string &to) {
  to += '{';
  for (size_t i = 0; i < dictionary.entries.size(); ++i) {
    to += i > 0 ? ", " : "";
    MT_TRY(printQuoted(heap, dictionary.entries[i].first, to));
    to += ": ";
    MT_TRY(printQuoted(heap, dictionary.entries[i].second, to));
  }
  to += '}';
  return {};
}

class JsonPrinter {
public:
  JsonPrinter(Heap &heap, const JsonStyle &style, std::string &to) : heap(heap), style(style), to(to) {}

  Status write(const Value &value, int level) {
    heap.spend(1);
    MT_TRY(heap.checked());
    MT_TRY(heap.fits(to.size()));
    switch (value.kind) {
    case Value::Kind::Text:
      writeText(value.text);
      return {};
    case Value::Kind::Dictionary:
      return writeObject(*value.dictionary, level);
    case Value::Kind::Sequence:
      if (value.sequence->kind == Sequence::Kind::List || value.sequence->kind == Sequence::Kind::Tuple)
        return writeArray(value.sequence->items, level);
      break;
    default:
      if (std::optional<std::string> word = wordOf(value)) {
        to += *word;
        return {};
      }
    }
    return fail("{} cannot be written as JSON", nameOf(value));
  }

private:
  Heap &heap;
  const JsonStyle &style;
  std::string &to;

  static std::optional<std::string> wordOf(const Value &value) {
    if (value.is(Value::Kind::None))
      return "null";
    if (value.is(Value::Kind::Boolean))
      return value.integer != 0 ? "true" : "false";
    if (value.is(Value::Kind::Integer))
      return std::to_string(value.integer);
    if (!value.is(Value::Kind::Real))
      return std::nullopt;
    std::string word = writtenFloat(value.real);
    return word == "nan" ? "NaN" : word == "inf" ? "Infinity" : word == "-inf" ? "-Infinity" : word;
  }

  void writeText(std::string_view text) {
    heap.spendText(text.size());
    to += '"';
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      char32_t c = nextCodePoint(text, at);
      if (!writeEscape(c))
        to += text.substr(begin, at - begin);
    }
    to += '"';
  }

  bool writeEscape(char32_t c) {
    static constexpr std::u32string_view kPlain = U"\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    if (size_t which = kPlain.find(c); which != std::u32string_view::npos)
      (to += '\\') += kLetters[which];
    else if (c < 0x20 || (style.ascii && c >= 0x7f && c < 0x10000))
      to += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    else if (style.ascii && c >= 0x10000)
      to += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (static_cast<uint32_t>(c) >> 10),
                        0xdc00 + (static_cast<uint32_t>(c) & 0x3ff));
    else
      return false;
    return true;
  }

  void breakLine(int level) {
    if (!style.indent)
      return;
    to += '\n';
    for (int i = 0; i < level; ++i)
      to += *style.indent;
  }

  Status writeArray(const std::vector<Value> &items, int level) {
    if (items.empty()) {
      to += "[]";
      return {};
    }
    to += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      to += i > 0 ? style.between : "";
      breakLine(level + 1);
      MT_TRY(write(items[i], level + 1));
    }
    breakLine(level);
    to += ']';
    return {};
  }

  Status writeObject(const Dictionary &dictionary, int level) {
    if (dictionary.entries.empty()) {
      to += "{}";
      return {};
    }
    std::vector<std::pair<Value, Value>> entries = dictionary.entries;
    if (style.sorted)
      MT_TRY(sort(entries));
    to += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      to += i > 0 ? style.between : "";
      breakLine(level + 1);
      MT_TRY(writeKey(entries[i].first));
      to += style.afterKey;
      MT_TRY(write(entries[i].second, level + 1));
    }
    breakLine(level);
    to += '}';
    return {};
  }

  Status writeKey(const Value &key) {
    std::optional<std::string> word = wordOf(key);
    if (!word && !key.is(Value::Kind::Text))
      return fail("JSON has no keys that are {}", nameOf(key));
    writeText(word ? std::string_view(*word) : key.text);
    return {};
  }

  static Status sort(std::vector<std::pair<Value, Value>> &entries) {
    for (const auto &[key, value] : entries)
      if (key.is(Value::Kind::Text) != entries[0].first.is(Value::Kind::Text) ||
          (!key.is(Value::Kind::Text) && !key.number()))
        return fail("keys of different kinds cannot be sorted");
    std::ranges::stable_sort(entries, [](const auto &a, const auto &b) {
      return a.first.is(Value::Kind::Text) ? a.first.text < b.first.text : a.first.asReal() < b.first.asReal();
    });
    return {};
  }
};

} // namespace

Status printQuoted(Heap &heap, const Value &value, std::string &to) {
  heap.spend(1);
  MT_TRY(heap.checked());
  MT_TRY(heap.fits(to.size()));
  switch (value.kind) {
  case Value::Kind::Text:
    heap.spendText(value.text.size());
    to += value.markup ? "Markup(" : "";
    quoteText(value.text, to);
    to += value.markup ? ")" : "";
    return {};
  case Value::Kind::Undefined:
    to += "Undefined";
    return {};
  default:
    return print(heap, value, to);
  }
}

Status print(Heap &heap, const Value &value, std::string &to) {
  switch (value.kind) {
  case Value::Kind::Missing:
  case Value::Kind::Undefined:
    return {};
  case Value::Kind::None:
    to += "None";
    return {};
  case Value::Kind::Boolean:
    to += value.integer != 0 ? "True" : "False";
    return {};
  case Value::Kind::Integer:
    to += std::to_string(value.integer);
    return {};
  case Value::Kind::Real:
    to += writtenFloat(value.real);
    return {};
  case Value::Kind::Text:
    heap.spendText(value.text.size());
    to += value.text;
    return heap.fits(to.size());
  case Value::Kind::Sequence:
    return printSequence(heap, *value.sequence, to);
  case Value::Kind::Dictionary:
    return printDictionary(heap, *value.dictionary, to);
  case Value::Kind::Object:
    if (std::optional<std::string> written = value.object->written()) {
      to += *written;
      return {};
    }
    break;
  }
  return fail("{} cannot be printed", nameOf(value));
}

Result<std::string_view> printed(Heap &heap, const Value &value) {
  if (value.is(Value::Kind::Text))
    return value.text;
  std::string made;
  MT_TRY(print(heap, value, made));
  MT_ASSIGN(Value text, heap.text(std::move(made)));
  return text.text;
}

Status printJson(Heap &heap, const Value &value, const JsonStyle &style, std::string &to) {
  return JsonPrinter(heap, style, to).write(value, 0);
}

} // namespace mt::jinja
