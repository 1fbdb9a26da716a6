#include "runtime/train/TextDocuments.h"

#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include <filesystem>

namespace mt::train {
namespace {

namespace dom = simdjson::dom;

/// Keeps its buffers from line to line. What it parsed lives until it parses again.
dom::parser &threadsParser() {
  thread_local dom::parser parser;
  return parser;
}

Result<dom::object> objectOf(std::string_view line) {
  dom::object object;
  if (auto error = threadsParser().parse(line.data(), line.size()).get(object)) {
    Result<nlohmann::json> parsed = parseJson(line); // says where
    return fail("not a JSON object on one line: {}", !parsed               ? parsed.status().message()
                                                     : parsed->is_object() ? simdjson::error_message(error)
                                                                           : "it is something else");
  }
  return object;
}

Result<std::string_view> textOf(const dom::object &object, std::string_view key, std::string_view hint = "") {
  dom::element value;
  std::string_view text;
  if (object.at_key(key).get(value))
    return fail("no \"{}\"{}", key, hint);
  if (value.get(text))
    return fail("\"{}\" must be a text", key);
  return text;
}

Result<std::vector<TextPiece>> piecesOf(std::string_view line, bool isSample) {
  MT_ASSIGN(const dom::object object, objectOf(line));
  if (!isSample) {
    MT_ASSIGN(std::string_view text,
              textOf(object, "text", ", nor a \"prompt\" and a \"completion\" on the first line"));
    return std::vector<TextPiece>{{text, true}};
  }
  MT_ASSIGN(std::string_view prompt, textOf(object, "prompt", ", which the first line has"));
  MT_ASSIGN(std::string_view completion, textOf(object, "completion"));
  return std::vector<TextPiece>{{prompt, false}, {completion, true}};
}

} // namespace

Result<TextDocuments> TextDocuments::open(const std::vector<std::string> &paths) {
  TextDocuments all;
  for (const std::string &path : paths) {
    std::string extension = std::filesystem::path(path).extension().string();
    if (extension == ".bin" || extension == ".npz")
      return fail("{}: {}, and no text: a tokenizer reads text files and .jsonl with \"text\"", path,
                  extension == ".bin" ? "tokens" : "arrays");
    MT_ASSIGN(MappedFile file, MappedFile::open(path));
    size_t number = all.files.size();
    all.files.push_back(std::move(file));
    if (extension == ".jsonl")
      all.indexLines(number);
    else
      all.documents.push_back({number, 0, all.files[number].size(), 0});
  }
  if (!all.documents.empty() && all.documents.front().line > 0)
    if (Result<dom::object> first = objectOf(all.raw(all.documents.front())))
      all.samples = !first->at_key("prompt").error();
  return all;
}

void TextDocuments::indexLines(size_t file) {
  std::string_view text(reinterpret_cast<const char *>(files[file].bytes().data()), files[file].size());
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (text.substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos)
      documents.push_back({file, at, end - at, number});
    at = end + 1;
  }
}

std::string_view TextDocuments::raw(const Document &document) const {
  return {reinterpret_cast<const char *>(files[document.file].bytes().data()) + document.begin, document.length};
}

Result<std::vector<TextPiece>> TextDocuments::read(size_t number) const {
  const Document &document = documents[number];
  if (document.line == 0)
    return std::vector<TextPiece>{{raw(document), true}};
  Result<std::vector<TextPiece>> pieces = piecesOf(raw(document), samples);
  return pieces.ok() ? pieces : pieces.status().within(where(number));
}

std::string TextDocuments::where(size_t number) const {
  const Document &document = documents[number];
  const std::string &path = files[document.file].path();
  return document.line == 0 ? path : fmt::format("{}:{}", path, document.line);
}

} // namespace mt::train
