// Documents of text: each file is one, and of .jsonl the "text" of each line, or its "prompt" and "completion" or
// "messages", which make it a sample. Knows no tokens: EncodeDocuments.h.
#ifndef MT_RUNTIME_TRAIN_TEXTDOCUMENTS_H
#define MT_RUNTIME_TRAIN_TEXTDOCUMENTS_H

#include "runtime/base/MappedFile.h"
#include "runtime/train/ChatTemplate.h"

#include <optional>
#include <vector>

namespace mt::train {

/// A part of a document.
struct TextPiece {
  std::string_view text;
  bool counts = true; ///< as targets: a prompt's do not
};

/// The ending of a file's name in small letters, which says what data it holds; ".jsonl" of .ndjson too.
std::string endingOf(const std::string &path);
/// Errors: a file that is to be text is an archive. Warns where its first line is one of .jsonl, if `warns`.
Status checkText(const MappedFile &file, bool warns);

class TextDocuments {
public:
  /// `tokenizer` is where the template of chats is. Errors: a file cannot be read, or holds tokens or arrays by its
  /// name; there are chats, and no template.
  static Result<TextDocuments> open(const std::vector<std::string> &files, const std::string &tokenizer);

  /// Whether each document is a sample for itself, no part of a stream: the first line has a "prompt", or "messages".
  bool areSamples() const { return kind != Kind::text; }
  /// Whether they are conversations: a document's pieces are then one text, of which tokens may lie across two of them,
  /// and which has all of its special tokens itself. Else each piece's tokens are its own.
  bool areChats() const { return kind == Kind::chat; }

  size_t count() const { return documents.size(); }
  /// Bytes of a document as it stands in its file.
  uint64_t bytes(size_t document) const { return documents[document].length; }
  /// The file that a document is in: its number among those given.
  size_t file(size_t document) const { return documents[document].file; }
  /// The text, bytes that are not UTF-8 included; valid until the same thread reads another. Errors name file and line.
  Result<std::vector<TextPiece>> read(size_t document) const;
  /// "a.txt", or "a.jsonl:12".
  std::string where(size_t document) const;

private:
  struct Document {
    size_t file;
    size_t begin, length;
    int64_t line; ///< counted from 1; 0: the whole file
  };
  void indexLines(size_t file);
  Result<std::string_view> raw(const Document &document) const;
  /// A .jsonl stays mapped; a text file is when it is read, so that a folder may have any number of them.
  struct Source {
    std::string path;
    std::optional<MappedFile> lines;
  };
  std::vector<Source> files;
  std::vector<Document> documents;
  enum class Kind : uint8_t { text, prompt, chat };
  Kind kind = Kind::text;
  std::optional<ChatTemplate> chat;
};

} // namespace mt::train
#endif
