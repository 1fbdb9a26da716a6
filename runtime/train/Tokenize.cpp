#include "runtime/train/Tokenize.h"

#include "runtime/base/Sizes.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/CorpusForms.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/EncodeDocuments.h"
#include "runtime/train/TokenFolder.h"
#include "runtime/train/TokenHeader.h"

#include <chrono>
#include <unistd.h>

namespace mt::train {
namespace {

using Clock = std::chrono::steady_clock;

/// One line that updates, on a terminal.
class Progress {
public:
  explicit Progress(uint64_t bytes) : all(bytes) {}

  void add(uint64_t bytes, uint64_t tokens) {
    done += bytes;
    if (!terminal || Clock::now() - shown < std::chrono::milliseconds(200))
      return;
    shown = Clock::now();
    fmt::print("\r{} of {}, {} tokens, {} \x1b[K", formatSize(done), formatSize(all),
               formatCount(static_cast<double>(tokens)), rate());
    std::fflush(stdout);
  }
  void finish() const {
    if (terminal)
      fmt::print("\r\x1b[K");
  }
  std::string rate() const {
    double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    return formatBandwidth(static_cast<double>(done) / std::max(seconds, 1e-9));
  }

private:
  uint64_t all, done = 0;
  bool terminal = isatty(STDOUT_FILENO) == 1;
  Clock::time_point begun = Clock::now(), shown = begun;
};

} // namespace

Status tokenize(const TokenizeOptions &options) {
  MT_ASSIGN(std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::openTokenizer(options.tokenizer));
  MT_ASSIGN(std::vector<std::string> files, corpusFiles(options.corpus, "CORPUS"));
  MT_ASSIGN(TextDocuments documents, TextDocuments::open(files, options.tokenizer));
  if (documents.areSamples())
    return fail("{}: its lines are samples - prompts and completions, or chats -, which files of tokens cannot hold "
                "apart: train "
                "from it directly, with --data {} --tokenizer {}",
                options.corpus, options.corpus, options.tokenizer);
  uint64_t bytes = 0;
  for (size_t i = 0; i < documents.count(); ++i)
    bytes += documents.bytes(i);
  if (bytes == 0)
    return fail("{}: it holds no text", options.corpus);
  const int width = tokenWidth(tokenizer->vocabularySize());
  MT_ASSIGN(TokenFolder folder, TokenFolder::create(options.output, width, options.fileBytes));
  Progress progress(bytes);
  MT_TRY(encodeDocuments(documents, *tokenizer, static_cast<uint64_t>(options.threads),
                         [&](size_t document, const EncodedDocument &encoded) {
                           MT_TRY(folder.write(encoded.tokens));
                           progress.add(documents.bytes(document), folder.tokens());
                           return Status();
                         }));
  progress.finish();
  if (folder.tokens() == 0)
    return fail("{}: it holds no text", options.corpus);
  MT_ASSIGN(std::string digest, tokenizerFingerprint(options.tokenizer));
  MT_TRY(folder.commit({documents.count(), tokenizer->vocabularySize(), tokenizer->special().end, digest}));
  return writeOut(fmt::format("{}: {} tokens ({}) of {} documents, {} of text, in {} files; {}\n", options.output,
                              folder.tokens(), width == 2 ? "uint16" : "uint32", documents.count(), formatSize(bytes),
                              folder.files(), progress.rate()));
}

} // namespace mt::train
