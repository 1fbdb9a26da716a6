#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace mt::kernels::test {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5}, kFreshByte{0xff}; // fresh bytes are NaN as f32 and f64

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <typename S> void put(std::byte *to, double value) {
  S stored = static_cast<S>(value);
  std::memcpy(to, &stored, sizeof(S));
}
template <typename S> double get(const std::byte *from) {
  S stored;
  std::memcpy(&stored, from, sizeof(S));
  return static_cast<double>(stored);
}

void encode(DType type, double value, std::byte *to) {
  switch (type) {
  case DType::f32:
    return put<float>(to, value);
  case DType::f64:
    return put<double>(to, value);
  case DType::i64:
    return put<int64_t>(to, value);
  case DType::i32:
    return put<int32_t>(to, value);
  case DType::i16:
    return put<int16_t>(to, value);
  case DType::i8:
    return put<int8_t>(to, value);
  case DType::bf16: {
    uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    uint16_t rounded = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    std::memcpy(to, &rounded, 2);
    return;
  }
  case DType::f16: {
    _Float16 half = static_cast<_Float16>(value);
    std::memcpy(to, &half, 2);
    return;
  }
  case DType::u8:
  case DType::boolean:
    return put<uint8_t>(to, value);
  }
}

double decode(DType type, const std::byte *from) {
  switch (type) {
  case DType::f32:
    return get<float>(from);
  case DType::f64:
    return get<double>(from);
  case DType::i64:
    return get<int64_t>(from);
  case DType::i32:
    return get<int32_t>(from);
  case DType::i16:
    return get<int16_t>(from);
  case DType::i8:
    return get<int8_t>(from);
  case DType::bf16: {
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  case DType::f16: {
    _Float16 half;
    std::memcpy(&half, from, 2);
    return static_cast<double>(half);
  }
  case DType::u8:
  case DType::boolean:
    break;
  }
  return get<uint8_t>(from);
}

int64_t count(const Dims &dims) { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }

/// Bytes of an operand between two guards.
struct Memory {
  std::vector<std::byte> bytes;
  size_t size = 0;
  explicit Memory(size_t size) : bytes(size + 3 * kGuard, kGuardByte), size(size) {}
  std::byte *data() {
    auto address = reinterpret_cast<uintptr_t>(bytes.data()) + kGuard;
    return reinterpret_cast<std::byte *>((address + kGuard - 1) / kGuard * kGuard);
  }
  bool intact() {
    for (std::byte *at = bytes.data(); at < bytes.data() + bytes.size(); ++at)
      if ((at < data() || at >= data() + size) && *at != kGuardByte)
        return false;
    return true;
  }
};

void fill(Memory &memory, DType type, const Values &values) {
  for (size_t i = 0; i < values.size(); ++i)
    encode(type, values[i], memory.data() + i * byteSize(type));
}

Values values(Memory &memory, DType type) {
  Values out(memory.size / byteSize(type));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = decode(type, memory.data() + i * byteSize(type));
  return out;
}

void expectClose(const Values &got, const Values &expected, double tolerance, const std::string &what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  int wrong = 0;
  for (size_t i = 0; i < got.size() && wrong < 4; ++i) {
    bool same = std::isnan(expected[i]) ? std::isnan(got[i])
                : std::isinf(expected[i])
                    ? got[i] == expected[i]
                    : std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]));
    if (!same)
      ++wrong, ADD_FAILURE() << what << " at " << i << ": " << got[i] << ", expected " << expected[i];
  }
}

void expectSame(const Values &got, const Values &expected, const std::string &what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  EXPECT_TRUE(got.empty() || std::memcmp(got.data(), expected.data(), got.size() * sizeof(double)) == 0) << what;
}

void expectAccumulation(const Call &call, const std::vector<Values> &expected, double tolerance) {
  uint64_t mask = find(call.kernel)->accumulates;
  std::vector<Values> start, sums = expected;
  for (size_t i = 0; i < expected.size(); ++i) {
    start.push_back(Values(expected[i].size(), 2));
    for (double &value : sums[i])
      value += mask >> i & 1 ? 2 : 0;
  }
  DType type = call.outputs[0].type;
  if (mask == 0 || (type != DType::f32 && type != DType::f64 && type != DType::i64))
    return;
  Outcome outcome = run(call, 2, mask, 0, start);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  for (size_t i = 0; i < expected.size(); ++i)
    expectClose(outcome.outputs[i], sums[i], 2 * tolerance + 3e-7,
                fmt::format("{} accumulated, result {}", call.kernel, i));
}

/// Whether a vendor's library computes it, which may choose an algorithm by what is asked for: results are then as near
/// as `tolerance`, and not the same.
bool isLibrarys(const Call &call) {
  constexpr std::string_view kProducts[] = {"matmul", "convolution", "linear_cross_entropy"};
  return kBackend == Backend::cuda &&
         std::ranges::any_of(kProducts, [&](std::string_view name) { return call.kernel.starts_with(name); });
}

/// Without one of several results the others must not change.
void expectUnused(const Call &call, const Outcome &all, double tolerance) {
  for (size_t missing = 0; call.outputs.size() > 1 && missing < call.outputs.size(); ++missing) {
    Outcome outcome = run(call, 2, 0, uint64_t{1} << missing);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (const std::string what = fmt::format("{} without result {}", call.kernel, missing);
          i != missing && isLibrarys(call))
        expectClose(outcome.outputs[i], all.outputs[i], tolerance, what);
      else if (i != missing)
        expectSame(outcome.outputs[i], all.outputs[i], what);
  }
}

} // namespace

Tensor random(Dims dims, uint64_t seed, double scale, DType type) {
  Tensor made{type, dims, Values(static_cast<size_t>(count(dims)))};
  std::byte stored[8];
  for (size_t i = 0; i < made.values.size(); ++i) {
    double unit = static_cast<double>(mix(seed * 0x9e3779b97f4a7c15u + i + 1) >> 11) * 0x1p-53;
    const double value = (2 * unit - 1) * scale;
    encode(type, type == DType::boolean ? value > 0 : value, stored);
    made.values[i] = decode(type, stored);
  }
  return made;
}

Tensor integers(Dims dims, int64_t low, int64_t high, uint64_t seed, DType type) {
  Tensor made{type, dims, Values(static_cast<size_t>(count(dims)))};
  for (size_t i = 0; i < made.values.size(); ++i)
    made.values[i] = static_cast<double>(
        low + static_cast<int64_t>(mix(seed * 0x9e3779b97f4a7c15u + i + 1) % static_cast<uint64_t>(high - low)));
  return made;
}

Tensor tensor(DType type, Dims dims, Values values) { return {type, std::move(dims), std::move(values)}; }
Tensor absent() { return {.type = DType::f32, .dims = {}, .values = {}, .present = false}; }

Tensor scalars(std::map<int, double> values) {
  Tensor made{DType::f64, {Scalars::kCount}, Values(Scalars::kCount)};
  for (auto [place, value] : values)
    made.values[static_cast<size_t>(place)] = value;
  return made;
}

Signature Call::signature(uint64_t unused) const {
  Signature made{kernel, attributes, {}};
  for (const Tensor &input : inputs)
    made.operands.push_back({input.type, input.dims, Effect::read, input.present});
  for (size_t i = 0; i < outputs.size(); ++i)
    made.operands.push_back({outputs[i].type, outputs[i].dims, outputs[i].effect, (unused >> i & 1) == 0});
  if (uint64_t bytes = workspaceBytes(made, kBackend))
    made.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  return made;
}

Outcome run(const Call &call, int threads, uint64_t accumulate, uint64_t unused, const std::vector<Values> &start) {
  return runWith([&](const Signature &signature) { return prepareCall(signature, threads); }, call, accumulate, unused,
                 start);
}

Outcome runWith(const std::function<Result<Execute>(const Signature &)> &prepare, const Call &call, uint64_t accumulate,
                uint64_t unused, const std::vector<Values> &start) {
  Signature signature = call.signature(unused);
  Result<Execute> prepared = prepare(signature);
  if (!prepared)
    return {prepared.status(), {}};
  std::vector<Memory> memories;
  std::vector<void *> addresses;
  for (const OperandType &operand : signature.operands)
    memories.emplace_back(operand.bytes());
  for (size_t i = 0; i < signature.operands.size(); ++i)
    addresses.push_back(signature.operands[i].present ? memories[i].data() : nullptr);
  size_t reads = call.inputs.size();
  for (size_t i = 0; i < reads; ++i)
    fill(memories[i], call.inputs[i].type, call.inputs[i].values);
  for (size_t i = reads; i < memories.size(); ++i)
    std::fill(memories[i].data(), memories[i].data() + memories[i].size, kFreshByte);
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (signature.operands[reads + i].present)
      fill(memories[reads + i], call.outputs[i].type, i < start.size() ? start[i] : call.outputs[i].initial);
  Outcome outcome{(*prepared)(addresses, accumulate << reads), {}};
  for (size_t i = 0; i < call.outputs.size(); ++i)
    outcome.outputs.push_back(values(memories[reads + i], call.outputs[i].type));
  for (Memory &memory : memories)
    outcome.guardsIntact = outcome.guardsIntact && memory.intact();
  return outcome;
}

void expectResults(const Call &call, const std::vector<Values> &expected, double tolerance) {
  SCOPED_TRACE(call.kernel);
  Outcome outcome = run(call, 1);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(outcome.guardsIntact) << "wrote outside an operand";
  ASSERT_EQ(outcome.outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    expectClose(outcome.outputs[i], expected[i], tolerance, fmt::format("{}, result {}", call.kernel, i));
  for (int threads : {2, 4}) {
    Outcome other = run(call, threads);
    for (size_t i = 0; i < expected.size(); ++i)
      expectSame(other.outputs[i], outcome.outputs[i], fmt::format("{} on {} threads", call.kernel, threads));
  }
  if (call.outputs[0].effect == Effect::update)
    return;
  expectAccumulation(call, expected, tolerance);
  expectUnused(call, outcome, tolerance);
}

namespace {

Call widened(Call call) {
  for (Tensor &input : call.inputs)
    input.type = input.type == DType::bf16 ? DType::f32 : input.type;
  for (Output &output : call.outputs)
    output.type = output.type == DType::bf16 ? DType::f32 : output.type;
  return call;
}

void expectRounded(const Call &call, const Outcome &outcome, const std::vector<Values> &wide, double ulps,
                   double tolerance) {
  for (size_t i = 0; i < wide.size(); ++i) {
    double unit =
        call.outputs[i].type == DType::bf16 ? 0x1p-8 : 0x1p-23; // at least of an ulp of a value, at most twice
    int wrong = 0;
    for (size_t j = 0; j < wide[i].size() && wrong < 4; ++j) {
      double got = outcome.outputs[i][j], want = wide[i][j];
      bool same = std::isnan(want) ? std::isnan(got)
                                   : got == want || std::abs(got - want) <= ulps * unit * std::abs(want) + tolerance;
      if (!same)
        ++wrong,
            ADD_FAILURE() << call.kernel << ", result " << i << " at " << j << ": " << got << ", expected " << want;
    }
  }
}

} // namespace

void expectNarrow(const Call &call, double ulps, double tolerance) {
  SCOPED_TRACE(call.kernel);
  uint64_t unused = 0, mask = find(call.kernel)->accumulates;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    unused |= call.outputs[i].type == DType::u8 ? uint64_t{1} << i : 0; // stands for a result that is absent
  ASSERT_EQ(check(call.signature(unused)), "");
  Outcome wide = run(widened(call), 2, 0, unused), one = run(call, 1, 0, unused);
  ASSERT_TRUE(wide.status.ok()) << wide.status.message();
  ASSERT_TRUE(one.status.ok()) << one.status.message();
  EXPECT_TRUE(one.guardsIntact) << "wrote outside an operand";
  expectRounded(call, one, wide.outputs, ulps, tolerance);
  for (int threads : {2, 9}) {
    Outcome other = run(call, threads, 0, unused);
    for (size_t i = 0; i < wide.outputs.size(); ++i)
      expectSame(other.outputs[i], one.outputs[i], fmt::format("{} on {} threads", call.kernel, threads));
  }
  std::vector<Values> start;
  for (size_t i = 0; i < wide.outputs.size(); ++i) {
    start.push_back(Values(wide.outputs[i].size(), 0.5));
    for (double &value : wide.outputs[i])
      value += mask >> i & 1 ? 0.5 : 0;
  }
  if (mask != 0 && call.outputs[0].effect != Effect::update)
    expectRounded(call, run(call, 2, mask, unused, start), wide.outputs, 1.01 * ulps, tolerance + 1e-6);
}

std::string runError(const Call &call) {
  Outcome outcome = run(call);
  EXPECT_FALSE(outcome.status.ok()) << call.kernel << " should have failed";
  return outcome.status.message();
}

Values numericGradient(const std::function<double(const Values &)> &loss, Values at, double step) {
  Values gradient(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    double center = at[i];
    at[i] = center + step;
    double above = loss(at);
    at[i] = center - step;
    double below = loss(at);
    at[i] = center;
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

double inner(const Values &a, const Values &b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

} // namespace mt::kernels::test
