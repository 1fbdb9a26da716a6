// What a step of a plan takes of pools of 2 to 128 threads, simulated from the measured times of each loop's chunks on one:
// `pool_bench [--tries N] PLAN.bin ...`. Chunks go to threads as they become free, in their order, as the pool deals them out; waking a
// thread takes kWake. Memory that threads share is not simulated: it is of work that fits caches, as products' blocks do.
#include "kernels/SignatureText.h"
#include "runtime/plan/PlanFile.h"
#include "tests/bench/PreparedCall.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <queue>

namespace mt {
namespace {

using kernels::Signature;

constexpr std::array<int, 7> kThreads = {2, 4, 8, 16, 32, 64, 128};
constexpr double kWake = 5e-6; ///< seconds until a sleeping thread has begun
constexpr int kTries = 3; ///< unless --tries says another number

/// A call's loops on one thread: seconds of each of their chunks, and of what is between the loops. Of several runs the
/// least of each, since what else the machine does interrupts one chunk or another.
struct Measured {
  std::vector<std::vector<double>> loops;
  double between = 0;

  double seconds() const {
    double sum = between;
    for (const std::vector<double> &loop : loops)
      sum = std::accumulate(loop.begin(), loop.end(), sum);
    return sum;
  }
  void keepLeast(const Measured &other) {
    between = std::min(between, other.between);
    for (size_t loop = 0; loop < loops.size(); ++loop)
      std::ranges::transform(loops[loop], other.loops[loop], loops[loop].begin(),
                             [](double a, double b) { return std::min(a, b); });
  }
};

/// As a pool of so many threads would run it, on `pool`, of one.
std::optional<Measured> measure(const bench::PreparedCall &prepared, kernels::cpu::ThreadPool &pool, int threads) {
  Measured one;
  pool.record(&one.loops, threads);
  const auto begin = std::chrono::steady_clock::now();
  if (!(*prepared.run)({.operands = prepared.addresses, .accumulate = 0, .pool = pool}).ok())
    return std::nullopt;
  one.between = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() - one.seconds();
  return one;
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
  double seconds = measured.between;
  for (const std::vector<double> &loop : measured.loops)
    seconds += secondsOf(loop, threads);
  return seconds;
}

/// By the threads of a pool, all of them in turns: a machine that is slower for a while is so for each.
std::map<int, Measured> measure(const Signature &call, int tries) {
  std::map<int, Measured> all;
  bench::PreparedCall prepared(call);
  kernels::cpu::ThreadPool pool(1);
  if (prepared.run)
    prepared.lendScratch(pool);
  for (int i = 0; i < tries; ++i)
    for (const int threads : kThreads) {
      std::optional<Measured> one = prepared.run ? measure(prepared, pool, threads) : std::nullopt;
      if (const auto [known, isNew] = all.try_emplace(threads, one.value_or(Measured())); !isNew && one)
        known->second.keepLeast(*one);
    }
  return all;
}

bool isProduct(const Signature &call) {
  return call.kernel.starts_with("matmul") || call.kernel.starts_with("linear_cross") || call.kernel.starts_with("expert");
}

Status simulate(const std::string &path, int tries) {
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
    std::map<int, Measured> measured; ///< by the threads of a pool

    double one() const { return runs * measured.begin()->second.seconds(); }
    double of(int threads) const { return runs * secondsOf(measured.at(threads), threads); }
  };
  std::vector<Row> rows;
  for (const auto &[text, call] : calls)
    rows.push_back({text, call.second, isProduct(call.first), measure(call.first, tries)});
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
      for (const std::vector<double> &loop : row.measured.begin()->second.loops)
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
  int tries = mt::kTries, first = 1;
  if (argc > 3 && std::string_view(argv[1]) == "--tries")
    tries = std::max(1, std::atoi(argv[2])), first = 3;
  for (int i = first; i < argc; ++i)
    if (const mt::Status status = mt::simulate(argv[i], tries); !status.ok()) {
      fmt::print(stderr, "error: {}\n", status.message());
      return 1;
    }
  return argc > first ? 0 : 2;
}
