// Documents of text: each file is one, and of .jsonl the "text" of each line, or its "prompt" and "completion", which
// make it a sample. Knows no tokens: EncodeDocuments.h.
#ifndef MT_RUNTIME_TRAIN_TEXTDOCUMENTS_H
#define MT_RUNTIME_TRAIN_TEXTDOCUMENTS_H

#include "runtime/base/MappedFile.h"

#include <optional>
#include <vector>

namespace mt::train {

/// A part of a document whose tokens are its own: none lies across two of them.
struct TextPiece {
  std::string_view text;
  bool counts = true; ///< as targets: a prompt's do not
};

class TextDocuments {
public:
  /// Errors: a file cannot be read, or holds tokens or arrays by its name.
  static Result<TextDocuments> open(const std::vector<std::string> &files);

  /// Whether each document is a sample for itself, no part of a stream: the first line has a "prompt".
  bool areSamples() const { return samples; }

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
  bool samples = false;
};

} // namespace mt::train
#endif
