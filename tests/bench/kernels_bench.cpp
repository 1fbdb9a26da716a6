// Rates of the CPU kernels at the sizes of GPT-2 124M, batch 4, sequence 256, against oneDNN's own product and a plain
// copy: `kernels_bench --benchmark_filter=matmul`. MT_THREADS sets the number of threads (default: the machine's).
#include "kernels/Optimizers.h"
#include "tests/bench/PreparedCall.h"

#include <benchmark/benchmark.h>
#include <dnnl.h>
#include <omp.h>

#include <cstdlib>

namespace mt::kernels {
namespace {

using benchmark::State;

int threadCount() {
  const char *given = std::getenv("MT_THREADS");
  return given ? std::atoi(given) : static_cast<int>(std::thread::hardware_concurrency());
}

OperandType in(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::read, true}; }
OperandType out(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::write, true}; }
OperandType none() { return {DType::f32, {}, Effect::read, false}; }

/// Runs a call; reports its flops and the bytes it must move, per second.
void measure(State &state, const Signature &signature) {
  bench::PreparedCall prepared(signature);
  if (!prepared.run)
    return state.SkipWithError("no such call on the CPU, or no memory for it");
  cpu::ThreadPool pool(threadCount());
  prepared.lendScratch(pool);
  for (auto _ : state)
    if (Status status = (*prepared.run)(cpu::Launch{prepared.addresses, 0, pool}); !status.ok())
      return state.SkipWithError(status.message().c_str());
  double count = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops(prepared.call) * count * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(traffic(prepared.call) * count * 1e-9, benchmark::Counter::kIsRate);
}

struct Product {
  const char *name;
  bool transposeLhs, transposeRhs;
  int64_t m, n, k;
};

constexpr Product kProducts[] = {
    {"forward up", false, false, 1024, 3072, 768},   {"forward down", false, false, 1024, 768, 3072},
    {"forward qkv", false, false, 1024, 2304, 768},  {"backward up", false, true, 1024, 768, 3072},
    {"backward down", false, true, 1024, 3072, 768}, {"weight up", true, false, 768, 3072, 1024},
    {"weight down", true, false, 3072, 768, 1024},   {"head", false, true, 1024, 50257, 768},
    {"head hidden", false, false, 1024, 768, 50257}, {"head weight", true, false, 50257, 768, 1024},
    {"square", false, false, 256, 256, 256}};

void plainProduct(State &state, const Product &p) {
  omp_set_num_threads(threadCount());
  std::vector<float> a(static_cast<size_t>(p.m * p.k), 0.5f), b(static_cast<size_t>(p.k * p.n), 0.25f),
      c(static_cast<size_t>(p.m * p.n));
  for (auto _ : state)
    dnnl_sgemm(p.transposeLhs ? 'T' : 'N', p.transposeRhs ? 'T' : 'N', p.m, p.n, p.k, 1, a.data(),
               p.transposeLhs ? p.m : p.k, b.data(), p.transposeRhs ? p.k : p.n, 0, c.data(), p.n);
  double operations = 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k * state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
  omp_set_num_threads(1); // as the kernels want it on this thread
}

Signature product(const Product &p, DType type) {
  Dims lhs = p.transposeLhs ? Dims{p.k, p.m} : Dims{p.m, p.k}, rhs = p.transposeRhs ? Dims{p.n, p.k} : Dims{p.k, p.n};
  return {"matmul",
          {{"transposeLhs", int64_t{p.transposeLhs}}, {"transposeRhs", int64_t{p.transposeRhs}}},
          {in(lhs, type), in(rhs, type), none(), out({p.m, p.n}, p.transposeLhs ? DType::f32 : type)}};
}

void plainCopy(State &state) {
  std::vector<float> from(38597376, 1), to(38597376);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  double bytes = 2.0 * static_cast<double>(from.size() * sizeof(float)) * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
}

std::map<std::string, Signature> calls() {
  const Dims x = {1024, 768}, wide = {1024, 3072}, heads = {4, 256, 12, 64}, table = {50257, 768};
  const OperandType step = in({Scalars::kCount}, DType::f64), statistic = in({1024});
  const Attributes causal = {{"scale", 0.125}, {"minDistance", int64_t{0}}};
  const OptimizerSpec &adamw = *findOptimizer("adamw");
  const Attributes tanh = {{"form", std::string("tanh")}}, slope = {{"activation", std::string("gelu_tanh")}};
  const Attributes rows = {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}};
  const Dims longHeads = {1, 1024, 12, 64}, image = {8, 256, 56, 56}, channels = {1, 256, 1, 1};
  const std::vector<int64_t> ones = {1, 1};
  const Attributes windows = {{"kind", std::string("max")},
                              {"size", std::vector<int64_t>{3, 3}},
                              {"strides", std::vector<int64_t>{2, 2}},
                              {"dilations", ones},
                              {"low", ones},
                              {"high", ones}};
  constexpr DType bf16 = DType::bf16;
  const Dims grid = {8, 384, 14, 14}, taps = {384, 1, 7, 7};
  const std::vector<int64_t> threes = {3, 3};
  const Attributes depthwise = {
      {"groups", int64_t{384}}, {"strides", ones}, {"dilations", ones}, {"low", threes}, {"high", threes}};
  auto attention = [&](const Dims &d, DType type = DType::f32) {
    const OperandType x = in(d, type);
    return Signature{
        "attention",
        causal,
        {x, x, x, none(), none(), none(), none(), none(), none(), none(), out(d, type), out({d[0], d[2], d[1]})}};
  };
  auto attentionGrad = [&](const Dims &d, DType type = DType::f32) {
    OperandType absent{DType::f32, {}, Effect::write, false};
    const OperandType x = in(d, type), dx = out(d, type);
    return Signature{"attention_grad",
                     causal,
                     {x, x, x, x, none(), none(), none(), none(), none(), none(), none(), x, in({d[0], d[2], d[1]}), dx, dx, dx,
                      absent, absent}};
  };
  auto head = [&](DType type, int64_t chunk) {
    return Signature{"linear_cross_entropy_grad",
                     {{"chunk", chunk}},
                     {in(x, type), in(table, type), none(), in({1024}, DType::i64), step, out({}), out(x, type), out(table),
                      {DType::f32, {}, Effect::write, false}}};
  };
  std::map<std::string, Signature> all = {
      {"add", {"add", {}, {in(x), in(x), out(x)}}},
      {"gelu", {"gelu", tanh, {in(wide), out(wide)}}},
      {"gelu_grad", {"activation_grad", slope, {in(wide), in(wide), out(wide)}}},
      {"bias_grad", {"reduce", rows, {in(wide), out({3072})}}},
      {"layer_norm",
       {"layer_norm", {{"epsilon", 1e-5}}, {in(x), in({768}), in({768}), out(x), out({1024}), out({1024})}}},
      {"layer_norm_grad",
       {"layer_norm_grad", {}, {in(x), in(x), statistic, statistic, in({768}), in(x), out(x), out({768}), out({768})}}},
      {"softmax", {"softmax", {}, {in({12288, 256}), out({12288, 256})}}},
      {"attention_256", attention(heads)},
      {"attention_1024", attention(longHeads)},
      {"attention_grad_256", attentionGrad(heads)},
      {"attention_grad_1024", attentionGrad(longHeads)},
      {"attention_1024_bf16", attention(longHeads, DType::bf16)},
      {"attention_grad_1024_bf16", attentionGrad(longHeads, DType::bf16)},
      {"attention_windows_bf16", attention({512, 49, 3, 32}, DType::bf16)},
      {"attention_windows_grad_bf16", attentionGrad({512, 49, 3, 32}, DType::bf16)},
      {"embedding", {"embedding", {}, {in(table), in({1024}, DType::i64), out(x)}}},
      {"embedding_grad", {"embedding_grad", {}, {in({1024}, DType::i64), in(x), out(table)}}},
      {"cross_entropy_grad",
       {"cross_entropy_grad", {}, {in({512, 50257}), in({512}, DType::i64), step, out({}), out({512, 50257})}}},
      {"linear_cross_entropy_grad", head(DType::f32, 256)},
      {"linear_cross_entropy_grad_bf16", head(DType::bf16, 512)},
      {"transpose",
       {"transpose", {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}}, {in(heads), out({4, 12, 256, 64})}}},
      {"copy", {"copy", {}, {in(table), out(table)}}},
      {"channel_chain", // of a normalization by the batch's statistics, in bf16: its gradients come together
       {"elementwise",
        {{"expression",
          std::string("mul 0 1:f32, cast 4:bf16, cast 2:bf16, add 5 6:bf16, cast 3:bf16, add 7 8:bf16 -> 9")}},
        {in(image), in(channels), in(image), in(channels), out(image, DType::bf16)}}},
      {"max_pool", {"pool", windows, {in({8, 64, 112, 112}), out({8, 64, 56, 56})}}},
      {"max_pool_grad", {"pool_grad", windows, {in({8, 64, 56, 56}), in({8, 64, 112, 112}), out({8, 64, 112, 112})}}},
      {"depthwise", {"conv", depthwise, {in(grid, bf16), in(taps, bf16), none(), out(grid, bf16)}}},
      {"depthwise_data_grad", {"conv_data_grad", depthwise, {in(grid, bf16), in(taps, bf16), out(grid, bf16)}}},
      {"depthwise_weight_grad", {"conv_weight_grad", depthwise, {in(grid, bf16), in(grid, bf16), out(taps)}}},
      {"squared_norm", {"squared_norm", {}, {in(table), out({1}, DType::f64)}}},
      {"adamw", updateCall(adamw, false, table)},
      {"adamw_split", updateCall(adamw, true, table)},
      {"adamw_split_begins", updateCall(adamw, true, table, Speculation::begins)},
      {"sgd", updateCall(*findOptimizer("sgd"), false, table)}};
  struct Layer {
    int64_t channels, filters, side, window;
  };
  for (const Layer l : {Layer{64, 64, 56, 3},
                        {256, 256, 14, 3},
                        {512, 512, 7, 3},
                        {256, 64, 56, 1},
                        {256, 1024, 14, 1},
                        {512, 2048, 7, 1}})
    for (DType type : {DType::f32, bf16}) {
      const std::vector<int64_t> pad(2, l.window / 2), one = {1, 1};
      const Attributes how = {{"strides", one}, {"dilations", one}, {"low", pad}, {"high", pad}};
      const Dims given = {8, l.channels, l.side, l.side}, made = {8, l.filters, l.side, l.side},
                 kernel = {l.filters, l.channels, l.window, l.window};
      const auto named = [&](const char *what) {
        return std::string(what) + "/" + std::to_string(l.channels) + "x" + std::to_string(l.side) + "x" +
               std::to_string(l.side) + "_" + std::to_string(l.window) + (type == bf16 ? "_bf16" : "");
      };
      all.insert({named("conv"), {"conv", how, {in(given, type), in(kernel, type), none(), out(made, type)}}});
      all.insert(
          {named("conv_data_grad"), {"conv_data_grad", how, {in(made, type), in(kernel, type), out(given, type)}}});
      all.insert(
          {named("conv_weight_grad"), {"conv_weight_grad", how, {in(made, type), in(given, type), out(kernel)}}});
    }
  return all;
}

void registerAll() {
  for (const Product &p : kProducts) {
    const std::string name = std::string("matmul/") + p.name;
    benchmark::RegisterBenchmark(name.c_str(), measure, product(p, DType::f32))->UseRealTime();
    benchmark::RegisterBenchmark((name + " bf16").c_str(), measure, product(p, DType::bf16))->UseRealTime();
    benchmark::RegisterBenchmark((std::string("sgemm/") + p.name).c_str(), plainProduct, p)->UseRealTime();
  }
  benchmark::RegisterBenchmark("memcpy", plainCopy)->UseRealTime();
  for (const auto &[name, call] : calls())
    benchmark::RegisterBenchmark(name.c_str(), measure, call)->UseRealTime();
}

} // namespace
} // namespace mt::kernels

int main(int argc, char **argv) {
  mt::kernels::registerAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
