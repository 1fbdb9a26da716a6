// Corpora of .jsonl.
#include "tests/fuzz/Corpora.h"
#include "tests/fuzz/MemoryFile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile memory;
  mt::fuzz::Bytes bytes(data, size);
  mt::plan::Plan plan = mt::fuzz::chosenPlan(bytes);
  mt::fuzz::readAll(mt::train::openJsonLines(memory.of(bytes.rest()), plan), plan);
  return 0;
}
