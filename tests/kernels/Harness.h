// How kernels are tested: a call with its inputs as doubles, and what must come out, also in doubles. One expectation
// covers values, any number of threads, accumulation, unused results and bytes around the operands.
#ifndef MT_TESTS_KERNELS_HARNESS_H
#define MT_TESTS_KERNELS_HARNESS_H

#include "kernels/Catalogue.h"
#include "runtime/base/Status.h"

#include <functional>

namespace mt::kernels::test {

using Values = std::vector<double>;

struct Tensor {
  DType type = DType::f32;
  Dims dims;
  Values values;
  bool present = true;
  int64_t elements() const { return static_cast<int64_t>(values.size()); }
};

/// Values in about [-scale, scale], as the type holds them; the same for the same seed.
Tensor random(Dims dims, uint64_t seed, double scale = 1, DType type = DType::f32);
/// Integers in [low, high).
Tensor integers(Dims dims, int64_t low, int64_t high, uint64_t seed, DType type = DType::i64);
Tensor tensor(DType type, Dims dims, Values values);
Tensor absent();
/// The step's scalars: everything zero but what is given.
Tensor scalars(std::map<int, double> values);

struct Output {
  DType type = DType::f32;
  Dims dims;
  Effect effect = Effect::write;
  Values initial = {}; ///< of an updated operand
};

struct Call {
  std::string kernel;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<Output> outputs;

  /// With the scratch operand that the catalogue asks for; results whose bit is set are absent.
  Signature signature(uint64_t unused = 0) const;
};

struct Outcome {
  Status status;
  std::vector<Values> outputs;
  bool guardsIntact = true;
};

/// Runs a call; outputs start as NaN bytes, or as `start` where given; bit i of `accumulate` and `unused` is result i.
Outcome run(const Call &call, int threads = 2, uint64_t accumulate = 0, uint64_t unused = 0,
            const std::vector<Values> &start = {});

/// A call made ready: runs with operands at these addresses of the host; bit i of `accumulate` is operand i.
using Execute = std::function<Status(std::span<void *const> operands, uint64_t accumulate)>;

/// The same where `prepare` says; scratch is as large as kBackend asks.
Outcome runWith(const std::function<Result<Execute>(const Signature &)> &prepare, const Call &call,
                uint64_t accumulate = 0, uint64_t unused = 0, const std::vector<Values> &start = {});

/// Where a test program runs its calls: CpuHarness.cpp or CudaHarness.cpp. Either is one implementation of the
/// contract.
extern const Backend kBackend;
Result<Execute> prepareCall(const Signature &call, int threads);

/// All that must hold for a call whose results are `expected`, within tolerance * max(1, |expected|).
void expectResults(const Call &call, const std::vector<Values> &expected, double tolerance = 1e-5);

/// A call with bf16 operands against the same call with all of them f32, which other tests hold against 64 bits: what
/// comes out is the f32 result rounded to each result's type, within `ulps` of that type and `tolerance`; on any number
/// of threads, accumulating too, and nowhere else.
void expectNarrow(const Call &call, double ulps = 1, double tolerance = 1e-6);

/// The message of a call that must fail when it runs.
std::string runError(const Call &call);

/// d(loss)/d(values) by central differences.
Values numericGradient(const std::function<double(const Values &)> &loss, Values at, double step = 1e-5);
/// sum of a * b.
double inner(const Values &a, const Values &b);

} // namespace mt::kernels::test
#endif
