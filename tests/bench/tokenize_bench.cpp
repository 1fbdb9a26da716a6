// tokenize_bench TOKENIZER FILE [--lines]: a text encoded by one thread, three times: seconds, megabytes a second,
// bytes a token. The first time fills the table of words. The file is one document; with --lines each of its lines is.
#include "runtime/base/MappedFile.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

namespace {

mt::Status measure(const char *tokenizerPath, const char *path, bool lines) {
  MT_ASSIGN(std::unique_ptr<mt::tokenizer::Tokenizer> tokenizer, mt::tokenizer::openTokenizer(tokenizerPath));
  MT_ASSIGN(mt::MappedFile file, mt::MappedFile::open(path));
  const std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.size());
  std::vector<uint32_t> ids;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    size_t tokens = 0;
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = lines ? std::min(text.find('\n', at), text.size() - 1) + 1 : text.size();
      ids.clear();
      MT_TRY(tokenizer->encode(text.substr(at, end - at), false, ids));
      tokens += ids.size();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto bytes = static_cast<double>(text.size());
    fmt::print("{:.2f} s, {:.1f} MB/s, {:.2f} bytes a token\n", seconds, bytes / seconds / 1e6,
               bytes / static_cast<double>(std::max<size_t>(tokens, 1)));
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  const bool lines = argc == 4 && std::string_view(argv[3]) == "--lines";
  const mt::Status status = argc == 3 || lines ? measure(argv[1], argv[2], lines)
                                               : mt::fail("usage: tokenize_bench TOKENIZER FILE [--lines]");
  if (!status.ok())
    fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
