// Which backend has code for which kernels and element types: kernels/Coverage.h against the backends' own tables.
#include "kernels/Coverage.h"
#include "kernels/cpu/CpuKernels.h"
#include "tests/kernels/Harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace mt::kernels::test {
namespace {

OperandType in(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::read, true}; }
OperandType out(Dims dims) { return {DType::f32, std::move(dims), Effect::write, true}; }
OperandType none(Effect effect = Effect::read) { return {DType::f32, {}, effect, false}; }
const OperandType kScalars = in({Scalars::kCount}, DType::f64), kTwo = in({2}, DType::i64);

using Ints = std::vector<int64_t>;

const Attributes kWindow = {{"strides", Ints{1}}, {"dilations", Ints{1}}, {"low", Ints{0}}, {"high", Ints{0}}};
const Attributes kPool = {{"kind", std::string("max")}, {"size", Ints{2}}, {"strides", Ints{1}},
                          {"dilations", Ints{1}},       {"low", Ints{0}},  {"high", Ints{0}}};

/// Calls of kernels whose operands are not all [2]; types other than f32 are fixed.
const Signature kShaped[] = {
    {"attention",
     {{"scale", 1.0}},
     {in({1, 2, 1, 2}), in({1, 2, 1, 2}), in({1, 2, 1, 2}), in({1, 1, 2, 2}), none(), none(), none(), none(), none(),
      in({1}), out({1, 2, 1, 2}), out({1, 1, 2})}},
    {"attention_grad",
     {{"scale", 1.0}},
     {in({1, 2, 1, 2}), in({1, 2, 1, 2}), in({1, 2, 1, 2}), in({1, 2, 1, 2}), in({1, 1, 2, 2}), none(), none(), none(),
      none(), none(), in({1}), in({1, 2, 1, 2}), in({1, 1, 2}), out({1, 2, 1, 2}), out({1, 2, 1, 2}), out({1, 2, 1, 2}),
      out({1, 1, 2, 2}), out({1})}},
    {"concat", {{"axis", int64_t{0}}}, {in({2}), in({2}), out({4})}},
    {"conv", kWindow, {in({1, 2, 3}), in({2, 2, 2}), in({2}), out({1, 2, 2})}},
    {"conv_data_grad", kWindow, {in({1, 2, 2}), in({2, 2, 2}), out({1, 2, 3})}},
    {"conv_weight_grad", kWindow, {in({1, 2, 2}), in({1, 2, 3}), out({2, 2, 2})}},
    {"expert_matmul", {}, {in({2, 3}), in({4, 3, 5}), kTwo, out({2, 5})}},
    {"expert_matmul_grad", {}, {in({2, 5}), in({2, 3}), kTwo, out({4, 3, 5})}},
    {"pool", kPool, {in({1, 2, 3}), out({1, 2, 2})}},
    {"pool_grad", kPool, {in({1, 2, 2}), in({1, 2, 3}), out({1, 2, 3})}},
    {"cross_entropy", {}, {in({2, 3}), kTwo, kScalars, out({})}},
    {"cross_entropy_grad", {}, {in({2, 3}), kTwo, kScalars, out({}), out({2, 3})}},
    {"dequantize", {{"bits", int64_t{8}}}, {in({2}, DType::u8), in({}), none(), out({2})}},
    {"dropout", {{"ratio", 0.5}}, {in({2}), none(), kScalars, in({}, DType::i64), out({2})}},
    {"elementwise", {{"expression", std::string("cast 0:f32, mul 1 1:f32 -> 2")}}, {in({2}), out({2})}},
    {"elementwise_sums",
     {{"expression", std::string("cast 0:f32, mul 1 1:f32 -> 1 2")},
      {"sums", int64_t{1}},
      {"kind", std::string("sum")},
      {"axes", std::vector<int64_t>{0}}},
     {in({2}), out({2}), out({})}},
    {"embedding", {}, {in({5, 3}), kTwo, out({2, 3})}},
    {"embedding_grad", {}, {kTwo, in({2, 3}), out({5, 3})}},
    {"gather", {{"axis", int64_t{0}}}, {in({5, 3}), kTwo, out({2, 3})}},
    {"gather_grad", {{"axis", int64_t{0}}}, {kTwo, in({2, 3}), out({5, 3})}},
    {"layer_norm", {{"epsilon", 1e-5}}, {in({2, 3}), in({3}), in({3}), out({2, 3}), out({2}), out({2})}},
    {"layer_norm_grad",
     {},
     {in({2, 3}), in({2, 3}), in({2}), in({2}), in({3}), in({2, 3}), out({2, 3}), out({3}), out({3})}},
    {"linear_cross_entropy", {}, {in({2, 3}), in({4, 3}), in({4}), kTwo, kScalars, out({})}},
    {"linear_cross_entropy_grad",
     {},
     {in({2, 3}), in({4, 3}), in({4}), kTwo, kScalars, out({}), out({2, 3}), out({4, 3}), out({4})}},
    {"matmul", {}, {in({2, 3}), in({3, 4}), in({4}), out({2, 4})}},
    {"matmul_add", {}, {in({2, 3}), in({3, 4}), in({2, 4}), in({4}), out({2, 4})}},
    {"matmul_gelu", {}, {in({2, 3}), in({3, 4}), in({4}), out({2, 4}), out({2, 4})}},
    {"matmul_gelu_grad", {}, {in({2, 3}), in({3, 4}), in({2, 4}), out({2, 4})}},
    {"matmul_sums", {{"transposeLhs", int64_t{1}}}, {in({3, 2}), in({3, 4}), out({2, 4}), out({4})}},
    {"random", {{"kind", std::string("normal")}}, {none(), kScalars, in({}, DType::i64), out({2})}},
    {"recurrence",
     {{"kind", std::string("lstm")}},
     {in({2, 2, 12}), in({12, 3}), in({12}), in({2, 3}), in({2, 3}), kTwo, in({9}), out({2, 2, 3}), out({2, 2, 3})}},
    {"recurrence_grad",
     {{"kind", std::string("lstm")}},
     {in({2, 2, 3}), in({2, 2, 3}), in({2, 2, 12}), in({2, 2, 12}), in({12, 3}), in({2, 2, 3}), in({2, 2, 3}), kTwo,
      in({9}), out({2, 2, 12}), out({2, 2, 12}), out({2, 3}), out({2, 3})}},
    {"reduce", {{"kind", std::string("sum")}, {"axes", Ints{0}}, {"keepDims", int64_t{0}}}, {in({2, 3}), out({3})}},
    {"rms_norm", {{"epsilon", 1e-5}}, {in({2, 3}), in({3}), out({2, 3}), out({2})}},
    {"rms_norm_grad", {}, {in({2, 3}), in({2, 3}), in({2}), in({3}), in({2, 3}), out({2, 3}), out({3})}},
    {"rotary", {}, {in({1, 2, 1, 4}), in({1, 2, 2}), in({1, 2, 2}), out({1, 2, 1, 4})}},
    {"squared_error", {}, {in({2}), in({2}), kScalars, out({})}},
    {"squared_error_grad", {}, {in({2}), in({2}), kScalars, out({}), out({2})}},
    {"running_statistic", {}, {in({2}), in({2}), kScalars, out({2})}},
    {"squared_norm", {}, {in({5}), out({1})}},
    {"squared_norm_parts", {{"chunk", int64_t{2}}}, {in({5}), out({3})}},
};

/// Whether no backend limits a kernel's types: it moves elements, or has types of its own.
bool isUnlimited(const Kernel &kernel) {
  static const std::set<std::string_view> others = {"all_gather", "all_to_all", "broadcast",        "constant",
                                                    "dequantize", "feed",       "gather_elements",  "gather_nd",
                                                    "iota",       "pad",        "pairwise_sum",     "report",
                                                    "slice",      "scatter",    "scatter_elements", "squared_norm_sum",
                                                    "step_norm",  "top_k",      "transpose",        "tree_sum"};
  return kernel.updates || others.contains(kernel.name);
}

/// A call with operands of [2]; attributes that must be given have their first choice, or 0.
Signature plain(const Kernel &kernel) {
  Signature call{std::string(kernel.name), {}, {}};
  for (int i = 0; i < kernel.reads + kernel.writes; ++i)
    call.operands.push_back(i < kernel.reads ? in({2}) : out({2}));
  for (const AttributeSpec &spec : kernel.attributes)
    if (spec.kind == AttributeSpec::choice)
      call.attributes[std::string(spec.name)] = std::string(spec.choices.substr(0, spec.choices.find('|')));
    else if (spec.required)
      call.attributes[std::string(spec.name)] = int64_t{0};
  return call;
}

Signature sampleOf(const Kernel &kernel) {
  for (const Signature &call : kShaped)
    if (call.kernel == kernel.name)
      return call;
  return plain(kernel);
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64, DType::i32, DType::boolean};

/// Visits every valid call with the sample's shapes in which all operands but two, that are not fixed, have one type.
void forEachTyping(const Signature &sample, const std::function<void(const Signature &)> &visit) {
  std::set<std::vector<DType>> seen;
  auto offer = [&](const Signature &call) {
    std::vector<DType> types;
    for (const OperandType &operand : call.operands)
      types.push_back(operand.type);
    if (seen.insert(types).second && check(call).empty())
      visit(call);
  };
  auto isFree = [&](size_t i) { return sample.operands[i].present && sample.operands[i].type == DType::f32; };
  for (DType most : kTypes) {
    Signature same = sample;
    for (size_t i = 0; i < same.operands.size(); ++i)
      if (isFree(i))
        same.operands[i].type = most;
    for (size_t i = 0; i < same.operands.size(); ++i)
      for (size_t j = i; j < same.operands.size(); ++j)
        for (DType one : kTypes)
          for (DType other : kTypes)
            if (isFree(i) && isFree(j)) {
              Signature call = same;
              call.operands[i].type = one;
              call.operands[j].type = other;
              offer(call);
            }
  }
}

std::string typesOf(const Signature &call) {
  std::string text = call.kernel;
  for (const OperandType &operand : call.operands)
    text += fmt::format(" {}", operand.present ? name(operand.type) : "-");
  return text;
}

/// What missingCode() admits prepares: its tables leave no type to be found missing when a plan is loaded.
TEST(Coverage, TheProcessorPreparesWhatItHasCodeFor) {
  for (const Kernel &kernel : all()) {
    if (isUnlimited(kernel))
      continue;
    size_t valid = 0;
    forEachTyping(sampleOf(kernel), [&](const Signature &call) {
      ++valid;
      Signature whole = call;
      if (uint64_t bytes = workspaceBytes(call, Backend::cpu))
        whole.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
      Result<cpu::Run> run = cpu::prepare(whole);
      std::string missing = missingCode(call, Backend::cpu);
      EXPECT_EQ(run.ok() ? "" : run.status().message(), missing) << typesOf(call);
    });
    EXPECT_GT(valid, 0U) << kernel.name << ": no call of it is valid: write one into kShaped";
  }
}

/// What is bound as accumulating in place of a sum has the sum's bits, those of zeros too.
TEST(Coverage, WhatAddsOnceHasTheBitsOfASum) {
  size_t checked = 0;
  for (const Kernel &kernel : all()) {
    if (!addsOnce(kernel.name, Backend::cpu))
      continue;
    ++checked;
    const Dims rows = {400, 70}, table = {50, 70};
    Attributes attributes;
    if (kernel.name == "gather_grad")
      attributes["axis"] = int64_t{0};
    const Call call{
        std::string(kernel.name), attributes, {integers({400}, 0, 40, 1), random(rows, 2, 3)}, {{DType::f32, table}}};
    Values start = random(table, 3, 3).values;
    for (size_t i = 0; i < start.size(); i += 3)
      start[i] = -0.0;
    const Outcome alone = run(call), added = run(call, 2, 1, 0, {start});
    ASSERT_TRUE(alone.status.ok() && added.status.ok());
    for (size_t i = 0; i < start.size(); ++i) {
      const float sum = static_cast<float>(start[i]) + static_cast<float>(alone.outputs[0][i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(static_cast<float>(added.outputs[0][i])), std::bit_cast<uint32_t>(sum))
          << kernel.name << " " << i;
    }
  }
  EXPECT_EQ(checked, 2U);
}

/// Kernels of which a backend refuses calls in f64 that the catalogue admits.
TEST(Coverage, WhoLacksF64) {
  for (auto [backend, also] : {std::pair(Backend::cpu, std::set<std::string>{}),
                               std::pair(Backend::cuda, std::set<std::string>{"elementwise", "matmul", "matmul_add", "matmul_gelu",
                                                                              "matmul_gelu_grad", "matmul_sums"})}) {
    std::set<std::string> found;
    for (const Kernel &kernel : all())
      if (hasCode(kernel.name, backend) && !isUnlimited(kernel))
        forEachTyping(sampleOf(kernel), [&](const Signature &call) {
          if (!missingCode(call, backend).empty())
            found.insert(call.kernel);
        });
    std::set<std::string> expected = {"attention",
                                      "attention_grad",
                                      "conv",
                                      "conv_data_grad",
                                      "conv_weight_grad",
                                      "cross_entropy",
                                      "cross_entropy_grad",
                                      "dropout",
                                      "embedding_grad",
                                      "expert_matmul",
                                      "expert_matmul_grad",
                                      "gather_grad",
                                      "layer_norm",
                                      "layer_norm_grad",
                                      "linear_cross_entropy",
                                      "linear_cross_entropy_grad",
                                      "log_softmax",
                                      "random",
                                      "pool",
                                      "pool_grad",
                                      "recurrence",
                                      "recurrence_grad",
                                      "rms_norm",
                                      "rms_norm_grad",
                                      "rotary",
                                      "softmax",
                                      "softmax_grad",
                                      "squared_error",
                                      "squared_error_grad",
                                      "squared_norm",
                                      "squared_norm_parts"};
    expected.merge(also);
    EXPECT_EQ(found, expected);
  }
}

TEST(Coverage, TypesThatABackendLacks) {
  auto with = [](const char *kernel, DType type, std::initializer_list<size_t> operands) {
    Signature call = sampleOf(*find(kernel));
    for (size_t i : operands)
      call.operands[i].type = type;
    return call;
  };
  Signature softmax = with("softmax", DType::f64, {0, 1});
  EXPECT_EQ(missingCode(softmax, Backend::cuda), "softmax: operand 0 is f64, and the GPU computes it in 32 bits: export the model in f32");
  EXPECT_EQ(missingCode(softmax, Backend::cpu), "softmax: operand 0 is f64, and the CPU computes it in 32 bits: export the model in f32");
  Signature gained = with("layer_norm", DType::f64, {1}); // the CPU reads gains of any type
  EXPECT_NE(missingCode(gained, Backend::cuda), "");
  EXPECT_EQ(missingCode(gained, Backend::cpu), "");
  Signature half = with("attention", DType::f16, {0, 1, 2, 3, 9, 10});
  EXPECT_EQ(missingCode(half, Backend::cuda), "");
  EXPECT_NE(missingCode(half, Backend::cpu), "");
  Signature wide = with("matmul", DType::f64, {0, 1, 2, 3});
  EXPECT_EQ(missingCode(wide, Backend::cuda), "");
  wide.operands[3].type = DType::f32;
  EXPECT_EQ(missingCode(wide, Backend::cuda), "matmul: the GPU has no product of f64 into f32 with such a bias: export the model in f32");
  EXPECT_NE(missingCode(with("matmul_gelu", DType::f64, {0, 1}), Backend::cuda), "") << "through its parts";
  EXPECT_NE(missingCode(with("embedding_grad", DType::f64, {1}), Backend::cpu), "");
  EXPECT_EQ(missingCode({"step_norm", {}, {}}, Backend::cuda), "step_norm: the GPU has no such kernel: compile for another --target");
}

TEST(Coverage, TheProcessorHasEveryKernel) {
  for (const Kernel &kernel : all()) {
    // Of training, and of the network: their code is the caller's.
    const bool byTheLoop =
        std::set<std::string_view>{"feed", "report", "all_to_all", "all_gather"}.contains(kernel.name);
    EXPECT_EQ(cpu::supports(kernel.name), !byTheLoop) << kernel.name;
    EXPECT_TRUE(hasCode(kernel.name, Backend::cpu)) << kernel.name;
  }
  EXPECT_FALSE(hasCode("frobnicate", Backend::cpu));
}

/// Read as text, so that a build without CUDA knows too: a family's table names each kernel that it has code for, or each
/// of its forms ("compare.eq").
TEST(Coverage, TheGpusSourcesNameEveryKernelOfTheirs) {
  std::string sources;
  for (const auto &entry : std::filesystem::directory_iterator(MT_SOURCE_DIR "/kernels/cuda"))
    if (entry.path().extension() == ".cpp") {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources += text.str();
    }
  auto names = [&](std::string_view kernel, char end) { return sources.find(fmt::format("\"{}{}", kernel, end)) != std::string::npos; };
  for (const Kernel &kernel : all())
    EXPECT_EQ(names(kernel.name, '"') || names(kernel.name, '.'), hasCode(kernel.name, Backend::cuda))
        << kernel.name << ": write its GPU code, or list it in kernels/Coverage.cpp, and mtc refuses it for a GPU";
}

} // namespace
} // namespace mt::kernels::test
