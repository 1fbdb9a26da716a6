// Metrics of a run, and the page that shows them: whatever they hold, it has the scripts that every page has and no
// other markup of theirs.
#include "runtime/train/RunReport.h"
#include "tests/fuzz/MemoryFile.h"

#include <cstdlib>

namespace {

int64_t countOf(std::string_view part, std::string_view page) {
  int64_t count = 0;
  for (size_t at = page.find(part); at != std::string_view::npos; at = page.find(part, at + 1))
    ++count;
  return count;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile memory;
  mt::Result<mt::train::RunHistory> history = mt::train::RunHistory::read(memory.of({data, size}));
  if (!history)
    return 0;
  const std::string page = mt::train::reportPage(*history);
  if (countOf("<script", page) != 2 || countOf("<title", page) != 1 || countOf("<main", page) != 1)
    std::abort();
  return 0;
}
