#include "runtime/train/EncodeDocuments.h"

#include "runtime/base/Log.h"
#include "runtime/base/Threads.h"
#include "runtime/tokenizer/Unicode.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>

namespace mt::train {
namespace {

constexpr uint64_t kBlockBytes = 4 << 20; ///< of text, for each thread
constexpr size_t kBlockDocuments = 1 << 16;

class Encoding {
public:
  Encoding(const TextDocuments &documents, const tokenizer::Tokenizer &tokenizer, uint64_t threads)
      : documents(documents), tokenizer(tokenizer), threads(threads) {}

  /// Finds what stands before a sample.
  Status prepare() {
    constexpr std::string_view kAny = "a";
    std::vector<uint32_t> with, alone;
    if (!documents.areSamples() || documents.areChats())
      return {};
    MT_TRY(tokenizer.encode(kAny, true, with));
    MT_TRY(tokenizer.encode(kAny, false, alone));
    before.assign(with.begin(), std::ranges::search(with, alone).begin());
    return {};
  }

  /// Encodes documents from `first` on; the result is the first behind them.
  size_t block(size_t first) {
    begin = first;
    end = first;
    for (uint64_t bytes = 0; end < documents.count() && bytes < kBlockBytes * threads && end - begin < kBlockDocuments;)
      bytes += documents.bytes(end++);
    tokens.resize(end - begin);
    failures.assign(end - begin, Status());
    next = begin;
    onThreads(std::min<uint64_t>(threads, end - begin), [this] { work(); });
    return end;
  }

  Status take(const PutTokens &put) {
    for (size_t i = begin; i < end; ++i) {
      MT_TRY(failures[i - begin]);
      MT_TRY(put(i, tokens[i - begin]));
      if (tokens[i - begin].tokens.capacity() > kBlockBytes) // a long document's memory does not stay
        tokens[i - begin] = {};
    }
    return Status();
  }

  std::atomic<size_t> broken = 0; ///< documents with bytes that are not UTF-8

private:
  const TextDocuments &documents;
  const tokenizer::Tokenizer &tokenizer;
  uint64_t threads;
  size_t begin = 0, end = 0;
  std::atomic<size_t> next = 0;
  std::vector<uint32_t> before; ///< a sample
  std::vector<EncodedDocument> tokens;
  std::vector<Status> failures;

  void work() {
    for (size_t i = next++; i < end; i = next++)
      failures[i - begin] = encode(i, tokens[i - begin]);
  }

  Status encode(size_t document, EncodedDocument &to) {
    return documents.areChats() ? encodeChat(document, to).within(documents.where(document))
                                : encodePieces(document, to);
  }

  /// A token counts that has a byte of a piece which does, as transformers' masks of the assistant's tokens have it.
  Status encodeChat(size_t document, EncodedDocument &to) {
    to.tokens.clear();
    MT_ASSIGN(const std::vector<TextPiece> pieces, documents.read(document));
    std::string text;
    std::vector<size_t> places, ends; // of pieces that count: first and last character
    for (const TextPiece &piece : pieces) {
      if (piece.counts) {
        places.push_back(text.size());
        places.push_back(text.size() + tokenizer::previousCharacter(piece.text, piece.text.size()));
      }
      text += piece.text;
    }
    MT_TRY(tokenizer.encodeLocating(text, places, to.tokens, ends));
    to.counts.assign(to.tokens.size(), false);
    for (size_t i = 0; i + 1 < ends.size(); i += 2)
      for (size_t token = ends[i]; token <= ends[i + 1] && token < to.tokens.size(); ++token)
        to.counts[token] = true;
    return Status();
  }

  Status encodePieces(size_t document, EncodedDocument &to) {
    to.tokens = before; // keeps its memory
    to.counts.assign(before.size(), false);
    MT_ASSIGN(const std::vector<TextPiece> pieces, documents.read(document));
    bool isBroken = false;
    for (const TextPiece &piece : pieces) {
      isBroken |= !simdjson::validate_utf8(piece.text.data(), piece.text.size());
      MT_TRY(tokenizer.encode(piece.text, false, to.tokens).within(documents.where(document)));
      to.counts.resize(to.tokens.size(), piece.counts);
    }
    broken += isBroken ? 1 : 0;
    if (tokenizer.special().end) {
      to.tokens.push_back(*tokenizer.special().end);
      to.counts.push_back(true);
    }
    return Status();
  }
};

} // namespace

Status encodeDocuments(const TextDocuments &documents, const tokenizer::Tokenizer &tokenizer, uint64_t threads,
                       const PutTokens &put) {
  Encoding encoding(documents, tokenizer, threads > 0 ? threads : coreCount());
  MT_TRY(encoding.prepare());
  for (size_t at = 0; at < documents.count();) {
    at = encoding.block(at);
    MT_TRY(encoding.take(put));
  }
  if (encoding.broken > 0)
    log().warn("{} of {} documents have bytes that are not UTF-8: they count as U+FFFD", encoding.broken.load(),
               documents.count());
  return Status();
}

} // namespace mt::train
