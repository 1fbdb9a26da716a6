#include "runtime/train/EncodeDocuments.h"

#include "runtime/base/Log.h"
#include "runtime/base/Threads.h"

#include <simdjson.h>

#include <atomic>

namespace mt::train {
namespace {

constexpr uint64_t kBlockBytes = 4 << 20; ///< of text, for each thread
constexpr size_t kBlockDocuments = 1 << 16;

class Encoding {
public:
  Encoding(const TextDocuments &documents, const tokenizer::Tokenizer &tokenizer, uint64_t threads)
      : documents(documents), tokenizer(tokenizer), threads(threads) {}

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
      if (tokens[i - begin].capacity() > kBlockBytes) // a long document's memory does not stay
        std::vector<uint32_t>().swap(tokens[i - begin]);
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
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<Status> failures;

  void work() {
    for (size_t i = next++; i < end; i = next++)
      failures[i - begin] = encode(i, tokens[i - begin]);
  }

  Status encode(size_t document, std::vector<uint32_t> &ids) {
    ids.clear();
    MT_ASSIGN(std::string_view text, documents.read(document));
    if (!simdjson::validate_utf8(text.data(), text.size()))
      ++broken;
    MT_TRY(tokenizer.encode(text, false, ids).within(documents.where(document)));
    if (tokenizer.special().end)
      ids.push_back(*tokenizer.special().end);
    return Status();
  }
};

} // namespace

Status encodeDocuments(const TextDocuments &documents, const tokenizer::Tokenizer &tokenizer, uint64_t threads,
                       const PutTokens &put) {
  Encoding encoding(documents, tokenizer, threads > 0 ? threads : coreCount());
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
