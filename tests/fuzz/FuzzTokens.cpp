// Corpora of tokens and of text, in two files that follow one another.
#include "tests/fuzz/Corpora.h"
#include "tests/fuzz/MemoryFile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile first, second;
  mt::fuzz::Bytes bytes(data, size);
  mt::plan::Plan plan = mt::fuzz::chosenPlan(bytes);
  bool text = bytes.choice(2) == 1;
  std::string one = first.of(bytes.sized());
  std::vector<std::string> files{one, second.of(bytes.rest())};
  mt::fuzz::readAll(text ? mt::train::openText(files, plan) : mt::train::openTokens(files, plan), plan);
  return 0;
}
