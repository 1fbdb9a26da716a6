// A GPU for programs that open one: the simulated driver, and kernels/cuda run on the host, each call held to its
// operands. MT_SIMT_SEED chooses the order of threads; MT_SIMT_RECORD names a file that says at the end what was
// launched how often.
#include "kernels/cuda/Library.h"
#include "tests/device/SimulatedDriver.h"
#include "tests/simt/Simt.h"

#include <cstdlib>
#include <fstream>

namespace mt::device {
namespace {

/// Written by the program's end.
struct Record {
  ~Record() {
    const char *path = std::getenv("MT_SIMT_RECORD");
    if (!path)
      return;
    std::ofstream file(path, std::ios::app);
    for (const auto &[symbol, count] : simt::launches())
      file << count << ' ' << symbol << '\n';
  }
};

std::vector<simt::Range> rangesOf(const kernels::Signature &call, const kernels::cuda::Launch &launch) {
  std::vector<simt::Range> ranges{{launch.fault, sizeof *launch.fault, true, true, "the word for faults"}};
  for (size_t i = 0; i < call.operands.size(); ++i)
    if (launch.operands[i])
      ranges.push_back({launch.operands[i], call.operands[i].bytes(), call.operands[i].effect != kernels::Effect::read,
                        false, fmt::format("operand {}", i)});
  return ranges;
}

Result<kernels::cuda::Run> prepare(const kernels::Signature &call) {
  static auto &library = *new Result(kernels::cuda::Library::open());
  MT_ASSIGN(kernels::cuda::Run run, kernels::cuda::prepare(call, **library));
  return kernels::cuda::Run([run = std::move(run), call](const kernels::cuda::Launch &launch) {
    const simt::Scope scope(rangesOf(call, launch));
    return run(launch).within(call.kernel);
  });
}

} // namespace

Result<std::unique_ptr<Driver>> openDriver(int) {
  static Record record;
  static auto &simulation = *new tests::Simulation;
  simulation.prepare = prepare;
  if (const char *seed = std::getenv("MT_SIMT_SEED"))
    simt::setSeed(std::strtoull(seed, nullptr, 10));
  std::unique_ptr<Driver> driver = tests::simulatedDriver(simulation);
  MT_TRY(driver->bind());
  return driver;
}

std::string cudaVersion() { return "none"; }

} // namespace mt::device
