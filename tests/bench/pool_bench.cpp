// What a step of a plan takes of pools of 2 to 128 threads, simulated from the measured times of each loop's chunks on one:
// `pool_bench PLAN.bin ...`. Chunks go to threads as they become free, in their order, as the pool deals them out; waking a
// thread takes kWake. Memory that threads share is not simulated: it is of work that fits caches, as products' blocks do.
#include "kernels/SignatureText.h"
#include "kernels/cpu/CpuKernels.h"
#include "kernels/cpu/Gemm.h"
#include "runtime/plan/PlanFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <queue>

namespace mt {
namespace {

using kernels::OperandType;
using kernels::Signature;

constexpr std::array<int, 7> kThreads = {2, 4, 8, 16, 32, 64, 128};
constexpr double kWake = 5e-6; ///< seconds until a sleeping thread has begun
constexpr int kTries = 3;

/// A call's loops, of the fastest of several runs on one thread.
struct Measured {
  std::vector<std::vector<double>> loops;
  double seconds = 0; ///< of all, with what is between the loops
};

/// A prepared call with operands of its own: floats small and not zero, integers zero, scalars as in a step.
struct Operands {
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;
  std::vector<void *> addresses;

  explicit Operands(const Signature &call) {
    for (const OperandType &operand : call.operands) {
      const size_t bytes = (operand.bytes() + 127) / 64 * 64;
      memory.emplace_back(static_cast<std::byte *>(std::aligned_alloc(64, bytes)), &std::free);
      std::memset(memory.back().get(), 0, bytes);
      addresses.push_back(operand.present ? memory.back().get() : nullptr);
      auto *floats = reinterpret_cast<float *>(memory.back().get());
      auto *halves = reinterpret_cast<uint16_t *>(memory.back().get());
      const int64_t elements = operand.present ? operand.elements() : 0;
      for (int64_t i = 0; i < elements; ++i)
        if (operand.type == kernels::DType::f32)
          floats[i] = static_cast<float>(i % 97 + 1) * 0.01f;
        else if (operand.type == kernels::DType::bf16)
          halves[i] = static_cast<uint16_t>(0x3c00 + i % 97);
      if (operand.dims == kernels::Dims{kernels::Scalars::kCount})
        std::fill_n(reinterpret_cast<double *>(memory.back().get()), int{kernels::Scalars::kCount}, 0.5);
    }
  }
};

/// As a pool of so many threads would run it.
Measured measure(Signature call, int threads) {
  std::erase_if(call.operands, [](const OperandType &operand) { return operand.effect == kernels::Effect::scratch; });
  if (const uint64_t bytes = kernels::workspaceBytes(call, kernels::Backend::cpu))
    call.operands.push_back({kernels::DType::u8, {static_cast<int64_t>(bytes)}, kernels::Effect::scratch, true});
  Result<kernels::cpu::Run> run = kernels::cpu::prepare(call);
  Measured best;
  if (!run)
    return best;
  Operands operands(call);
  kernels::cpu::ThreadPool pool(1);
  for (int i = 0; i < kTries; ++i) {
    Measured one;
    pool.record(&one.loops, threads);
    const auto begin = std::chrono::steady_clock::now();
    if (!(*run)({.operands = operands.addresses, .accumulate = 0, .pool = pool}).ok())
      return {};
    one.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i == 0 || one.seconds < best.seconds)
      best = std::move(one);
  }
  return best;
}

/// When a loop's last chunk ends: each goes to the thread that is free first.
double secondsOf(const std::vector<double> &chunks, int threads) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  const auto used = std::min<size_t>(static_cast<size_t>(threads), chunks.size());
  for (size_t i = 0; i < used; ++i)
    free.push(i == 0 ? 0 : kWake);
  double end = 0;
  for (const double seconds : chunks) {
    const double done = free.top() + seconds;
    free.pop();
    free.push(done);
    end = std::max(end, done);
  }
  return end;
}

double secondsOf(const Measured &measured, int threads) {
  double seconds = measured.seconds;
  for (const std::vector<double> &loop : measured.loops) {
    for (const double chunk : loop)
      seconds -= chunk;
    seconds += secondsOf(loop, threads);
  }
  return seconds;
}

/// Blocks on units for bf16 are cut for some sizes of pools, others are the same for all: which of them one of so many has.
size_t cutFor(int threads) { return kernels::cpu::hasBf16Units() ? kernels::cpu::GemmBlocks::poolFor(threads) : 0; }

/// A call as each of those sizes of pools would run it.
std::vector<Measured> measure(const Signature &call) {
  std::vector<Measured> all;
  for (const int threads : kThreads)
    if (cutFor(threads) == all.size())
      all.push_back(measure(call, threads));
  return all;
}

bool isProduct(const Signature &call) {
  return call.kernel.starts_with("matmul") || call.kernel.starts_with("linear_cross") || call.kernel.starts_with("expert");
}

Status simulate(const std::string &path) {
  MT_ASSIGN(const plan::Plan plan, plan::load(path));
  std::map<std::string, std::pair<Signature, double>> calls; // with how often a step runs them
  for (const plan::Command &command : plan.program(plan::ProgramKind::step)->commands)
    if (!command.isCopy && plan.streams[command.stream].kind == plan::StreamKind::compute)
      for (const plan::Call &call : plan.templates[command.templateIndex].calls)
        ++calls.try_emplace(kernels::printWork(call.signature), call.signature, 0).first->second.second;
  struct Row {
    std::string text;
    double runs;
    bool isProduct;
    std::vector<Measured> measured; ///< by cutFor()

    double one() const { return runs * measured.front().seconds; }
    double of(int threads) const { return runs * secondsOf(measured[cutFor(threads)], threads); }
  };
  std::vector<Row> rows;
  for (const auto &[text, call] : calls)
    rows.push_back({text, call.second, isProduct(call.first), measure(call.first)});
  std::ranges::sort(rows, std::greater(), &Row::one);
  fmt::print("{}: efficiency of pools, from chunks timed on one thread\n{:>9} {:>7}", path, "ms a step", "chunks");
  for (const int threads : kThreads)
    fmt::print("{:>6}", threads);
  fmt::print("  call\n");
  const auto line = [&](const std::string &what, double one, const std::string &chunks, const auto &secondsFor) {
    fmt::print("{:>9.2f} {:>7}", one * 1e3, chunks);
    for (const int threads : kThreads)
      fmt::print("{:>4.0f} %", 100 * one / (threads * secondsFor(threads)));
    fmt::print("  {}\n", what.substr(0, 120));
  };
  for (const bool productsOnly : {false, true}) {
    double all = 0;
    for (const Row &row : rows)
      all += productsOnly && !row.isProduct ? 0 : row.one();
    for (const Row &row : rows) {
      if (productsOnly || row.one() < 0.005 * all)
        continue;
      size_t chunks = 0;
      for (const std::vector<double> &loop : row.measured.front().loops)
        chunks = std::max(chunks, loop.size());
      line(row.text, row.one(), fmt::format("{}", chunks), [&](int threads) { return row.of(threads); });
    }
    line(productsOnly ? "all products" : "all calls", all, "", [&](int threads) {
      double seconds = 0;
      for (const Row &row : rows)
        seconds += productsOnly && !row.isProduct ? 0 : row.of(threads);
      return seconds;
    });
  }
  return {};
}

} // namespace
} // namespace mt

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (const mt::Status status = mt::simulate(argv[i]); !status.ok()) {
      fmt::print(stderr, "error: {}\n", status.message());
      return 1;
    }
  return argc > 1 ? 0 : 2;
}
