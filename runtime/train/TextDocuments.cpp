#include "runtime/train/TextDocuments.h"

#include "runtime/base/Json.h"
#include "runtime/base/Log.h"
#include "runtime/train/JsonLine.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace mt::train {
namespace {

namespace dom = simdjson::dom;

Result<std::string_view> textOf(const dom::object &object, std::string_view key, std::string_view hint = "") {
  dom::element value;
  std::string_view text;
  if (object.at_key(key).get(value))
    return fail("no \"{}\"{}", key, hint);
  if (value.get(text))
    return fail("\"{}\" must be a text", key);
  return text;
}

Result<std::vector<TextPiece>> textIn(std::string_view line) {
  MT_ASSIGN(const dom::object object, parseJsonLine(line));
  MT_ASSIGN(std::string_view text,
            textOf(object, "text", ", nor \"prompt\" and \"completion\" or \"messages\" on the first line"));
  return std::vector<TextPiece>{{text, true}};
}

Result<std::vector<TextPiece>> promptIn(std::string_view line) {
  MT_ASSIGN(const dom::object object, parseJsonLine(line));
  MT_ASSIGN(std::string_view prompt, textOf(object, "prompt", ", which the first line has"));
  MT_ASSIGN(std::string_view completion, textOf(object, "completion"));
  return std::vector<TextPiece>{{prompt, false}, {completion, true}};
}

/// The pieces view a text that stays until the same thread reads another.
Result<std::vector<TextPiece>> chatIn(std::string_view line, const ChatTemplate &chat) {
  Result<nlohmann::ordered_json> conversation = parseOrderedJson(line);
  if (!conversation || !conversation->is_object())
    return fail("not a JSON object{}", conversation ? "" : ": " + conversation.status().message());
  if (!conversation->contains("messages"))
    return fail("no \"messages\", which the first line has");
  thread_local ChatTemplate::Text current;
  MT_ASSIGN(current, chat.render(*conversation));
  std::vector<TextPiece> pieces;
  const std::string_view text = current.text;
  size_t done = 0;
  for (const jinja::Span &span : current.spoken) {
    if (span.begin > done)
      pieces.push_back({text.substr(done, span.begin - done), false});
    pieces.push_back({text.substr(span.begin, span.end - span.begin), true});
    done = span.end;
  }
  if (done < text.size())
    pieces.push_back({text.substr(done), false});
  return pieces;
}

/// The key of its first line's object that says what data those are, if there is one.
std::optional<std::string> keyOfLines(std::string_view text) {
  constexpr size_t kLongest = 1 << 20; // of lines that are looked at
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '{')
    return std::nullopt;
  const Result<dom::object> object =
      parseJsonLine(text.substr(begin, std::min(text.find('\n', begin), begin + kLongest) - begin));
  for (const char *key : {"messages", "prompt", "text", "tokens"})
    if (object && !object->at_key(key).error())
      return key;
  return std::nullopt;
}

} // namespace

std::string endingOf(const std::string &path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return ending == ".ndjson" ? ".jsonl" : ending;
}

Status checkText(const MappedFile &file, bool warns) {
  const std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.size());
  using namespace std::string_view_literals;
  for (auto [magic, what] : {std::pair("\x1f\x8b"sv, "packed by gzip: unpack it"),
                             std::pair("\x28\xb5\x2f\xfd"sv, "packed by zstd: unpack it"),
                             std::pair("PK\x03\x04"sv, "a zip archive: unpack it")})
    if (text.starts_with(magic))
      return fail("{}: no text, but {}", file.path(), what);
  if (text.starts_with("PAR1") && text.ends_with("PAR1"))
    return fail("{}: no text, but Parquet: tools/from_parquet.py makes .jsonl of it", file.path());
  if (std::optional<std::string> key = warns ? keyOfLines(text) : std::nullopt)
    log().warn("{}: its first line is an object of JSON with \"{}\", and all its bytes are taken as text: a name that "
               "ends in .jsonl takes what the lines say",
               file.path(), *key);
  return Status();
}

Result<TextDocuments> TextDocuments::open(const std::vector<std::string> &paths, const std::string &tokenizer) {
  TextDocuments all;
  for (const std::string &path : paths) {
    std::string extension = endingOf(path);
    if (extension == ".bin" || extension == ".npz")
      return fail("{}: {}, and no text: a tokenizer reads text files and .jsonl with \"text\"", path,
                  extension == ".bin" ? "tokens" : "arrays");
    MT_ASSIGN(MappedFile file, MappedFile::open(path));
    size_t number = all.files.size();
    all.files.push_back({path, std::nullopt});
    if (extension == ".jsonl") {
      all.files[number].lines = std::move(file);
      all.indexLines(number);
    } else {
      MT_TRY(checkText(file, all.documents.empty()));
      all.documents.push_back({number, 0, file.size(), 0});
    }
  }
  if (!all.documents.empty() && all.documents.front().line > 0)
    if (Result<dom::object> first = parseJsonLine(*all.raw(all.documents.front())))
      all.kind = !first->at_key("messages").error() ? Kind::chat
                 : !first->at_key("prompt").error() ? Kind::prompt
                                                    : Kind::text;
  if (all.areChats()) {
    MT_ASSIGN(all.chat, ChatTemplate::open(tokenizer));
  }
  return all;
}

void TextDocuments::indexLines(size_t file) {
  const std::span<const std::byte> bytes = files[file].lines->bytes();
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  for (const JsonLine &line : jsonLines(text))
    documents.push_back({file, line.begin, line.length, line.number});
}

Result<std::string_view> TextDocuments::raw(const Document &document) const {
  const Source &source = files[document.file];
  if (source.lines)
    return std::string_view(reinterpret_cast<const char *>(source.lines->bytes().data()) + document.begin,
                            document.length);
  thread_local std::optional<MappedFile> current; // until the thread reads another
  MT_ASSIGN(MappedFile file, MappedFile::open(source.path));
  if (file.size() != document.length)
    return fail("{}: it had {} bytes and has {}: leave it alone while it is read", source.path, document.length,
                file.size());
  current.emplace(std::move(file));
  return std::string_view(reinterpret_cast<const char *>(current->bytes().data()), document.length);
}

Result<std::vector<TextPiece>> TextDocuments::read(size_t number) const {
  const Document &document = documents[number];
  MT_ASSIGN(const std::string_view text, raw(document));
  if (document.line == 0)
    return std::vector<TextPiece>{{text, true}};
  Result<std::vector<TextPiece>> pieces = areChats()     ? chatIn(text, *chat)
                                          : areSamples() ? promptIn(text)
                                                         : textIn(text);
  return pieces.ok() ? pieces : pieces.status().within(where(number));
}

std::string TextDocuments::where(size_t number) const {
  const Document &document = documents[number];
  const std::string &path = files[document.file].path;
  return document.line == 0 ? path : fmt::format("{}:{}", path, document.line);
}

} // namespace mt::train
