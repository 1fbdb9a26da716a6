// Files of tokenizers: the first byte says which kind; what opens encodes a text and decodes it.
#include "runtime/tokenizer/JsonTokenizer.h"
#include "runtime/tokenizer/SentencePiece.h"
#include "runtime/tokenizer/Vocabulary.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFile.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile memory;
  if (size == 0)
    return 0;
  const std::string &path = memory.of(std::span(data + 1, size - 1));
  auto opened = data[0] % 2 == 0 ? mt::tokenizer::openJsonTokenizer(path, "") : mt::tokenizer::openSentencePiece(path);
  if (!opened)
    return 0;
  const mt::tokenizer::Tokenizer &tokenizer = **opened;
  for (std::string_view text :
       {"", "ab  abc<s>x \xe2\x96\x81 e\xcc\x81\n\n12 caf\xc3\xa9 \xf0\x9f\x98\x80!", "\xff\xe2\x82 bad"}) {
    std::vector<uint32_t> ids;
    if (!tokenizer.encode(text, true, ids))
      continue;
    for (uint32_t id : ids)
      if (id >= mt::tokenizer::Vocabulary::kMostIds)
        std::abort();
    tokenizer.decode(ids, false);
  }
  return 0;
}
