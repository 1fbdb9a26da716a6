// load_bench PLAN: the initial weights of a plan, made or read by one thread, three times: seconds, and nanoseconds an
// element. The first time includes the memory's first touch, which a run does before.
#include "runtime/host/WeightLoader.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/PlanFile.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <chrono>
#include <vector>

namespace {

mt::Status measure(const char *file) {
  MT_ASSIGN(mt::plan::Plan plan, mt::plan::load(file));
  std::vector<std::byte *> bases;
  for (const mt::plan::Space &space : plan.spaces) {
    void *memory =
        mmap(nullptr, space.bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return mt::fail("no memory for space {}", space.name);
    bases.push_back(static_cast<std::byte *>(memory));
  }
  double elements = 0;
  for (const mt::plan::Parameter &parameter : plan.parameters)
    elements += mt::plan::elementsOf(parameter);
  auto place = [&](const mt::plan::Span &span) { return std::span(bases[span.space] + span.offset, span.bytes); };
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    MT_TRY(mt::host::loadWeights(plan, place, 1).status());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{:.2f} s, {:.2f} ns an element\n", seconds, seconds / elements * 1e9);
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  const mt::Status status = argc == 2 ? measure(argv[1]) : mt::fail("usage: load_bench PLAN");
  if (!status.ok())
    fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
