// Corpora of .npz: the archive, its compressed members, the arrays' headers, and rows of them.
#include "tests/fuzz/Corpora.h"
#include "tests/fuzz/MemoryFile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile memory;
  mt::fuzz::Bytes bytes(data, size);
  mt::plan::Plan plan = mt::fuzz::chosenPlan(bytes);
  mt::fuzz::readAll(mt::train::openArrays(memory.of(bytes.rest()), plan), plan);
  return 0;
}
