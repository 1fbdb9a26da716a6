// Kernels at the sizes of real models, where other code runs than at small ones: the GPU's results against the CPU's.
// Attention in 16 bits and convolutions must be cuDNN's here, not the slower ways.
#include "runtime/base/Log.h"
#include "tests/kernels/CudaHarness.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

namespace mt::kernels::test {
namespace {

constexpr DType kNarrow = DType::bf16, kWide = DType::f32;

/// Stands for a result that is absent.
Output none() { return {DType::u8, {}}; }

TEST(CudaShapes, Norms) {
  for (DType type : {kNarrow, kWide}) {
    double tolerance = type == kNarrow ? 0x1p-7 : 1e-5;
    Tensor x = random({512, 4096}, 1, 3, type), gain = random({4096}, 2), bias = random({4096}, 3),
           gradient = random({512, 4096}, 4, 1, type), mean = random({512}, 5, 0.1), rstd = random({512}, 6);
    Output full{type, {512, 4096}}, row{kWide, {4096}}, statistic{kWide, {512}};
    Attributes epsilon = {{"epsilon", 1e-5}};
    expectAsOnCpu({"rms_norm", epsilon, {x, gain}, {full, statistic}}, tolerance);
    expectAsOnCpu({"layer_norm", epsilon, {x, gain, bias}, {full, statistic, statistic}}, tolerance);
    expectAsOnCpu({"rms_norm_grad", {}, {gradient, x, rstd, gain, absent()}, {full, row}}, tolerance);
    expectAsOnCpu({"layer_norm_grad", {}, {gradient, x, mean, rstd, gain, absent()}, {full, row, row}}, tolerance);
    expectAsOnCpu({"rms_norm_grad", {}, {gradient, x, rstd, gain, x}, {full, row}}, tolerance);
  }
}

TEST(CudaShapes, BetweenProducts) {
  for (DType type : {kNarrow, kWide}) {
    double tolerance = type == kNarrow ? 0x1p-7 : 1e-5;
    Dims dims = {512, 11008};
    Tensor gate = random(dims, 1, 4, type), up = random(dims, 2, 4, type), gradient = random(dims, 3, 1, type);
    Output full{type, dims};
    for (const char *name : {"silu", "gelu_tanh"}) {
      Attributes activation = {{"activation", std::string(name)}};
      expectAsOnCpu({"gated_product", activation, {gate, up}, {full}}, tolerance);
      expectAsOnCpu({"gated_product_grad", activation, {gate, up, gradient}, {full, full}}, tolerance);
      expectAsOnCpu({"activation_grad", activation, {gate, gradient}, {full}}, tolerance);
    }
    expectAsOnCpu({"add", {}, {gate, up}, {full}}, tolerance);
    Tensor heads = random({2, 1024, 32, 128}, 4, 1, type), angles = random({1, 1024, 64}, 5);
    expectAsOnCpu({"rotary", {}, {heads, angles, angles}, {{type, heads.dims}}}, tolerance);
    expectAsOnCpu({"reduce",
                   {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}},
                   {random({8192, 768}, 6, 1, type)},
                   {{kWide, {768}}}},
                  1e-5);
  }
}

TEST(CudaShapes, Products) {
  for (DType type : {kNarrow, kWide}) {
    Tensor x = random({512, 4096}, 1, 1, type), weight = random({11008, 4096}, 2, 1, type),
           gradient = random({512, 11008}, 3, 1, type);
    double tolerance = type == kNarrow ? 0x1p-8 : 1e-5;
    expectAsOnCpu({"matmul", {{"transposeRhs", int64_t{1}}}, {x, weight, absent()}, {{type, {512, 11008}}}}, tolerance);
    expectAsOnCpu({"matmul", {}, {gradient, weight, absent()}, {{type, {512, 4096}}}}, tolerance);
    expectAsOnCpu({"matmul", {{"transposeLhs", int64_t{1}}}, {gradient, x, absent()}, {{kWide, {11008, 4096}}}}, 1e-5);
  }
}

/// Of GPT-2 of 124 M: what feeds gelu, its gradient, and weights' gradients with those of their biases.
TEST(CudaShapes, FusedProducts) {
  for (DType type : {kNarrow, kWide}) {
    double tolerance = type == kNarrow ? 0x1p-7 : 1e-5;
    Tensor x = random({1024, 768}, 1, 1, type), weight = random({768, 3072}, 2, 0.1, type),
           bias = random({3072}, 3, 1, type), gradient = random({1024, 768}, 4, 1, type),
           up = random({3072, 768}, 5, 0.1, type), wide = random({1024, 3072}, 6, 2, type);
    Output full{type, {1024, 3072}};
    expectAsOnCpu({"matmul_add", {}, {x, weight, wide, bias}, {full}}, tolerance);
    expectAsOnCpu({"matmul_add", {{"transposeRhs", int64_t{1}}}, {gradient, up, wide, absent()}, {full}}, tolerance);
    expectAsOnCpu({"matmul_gelu", {}, {x, weight, bias}, {full, full}}, tolerance);
    expectAsOnCpu({"matmul_gelu", {}, {x, weight, absent()}, {full, none()}}, tolerance);
    expectAsOnCpu({"matmul_gelu_grad", {{"transposeRhs", int64_t{1}}}, {gradient, up, wide}, {full}}, tolerance);
    for (int64_t left : {0, 1})
      expectAsOnCpu({"matmul_sums",
                     {{"transposeLhs", int64_t{1}}, {"sumsOfLhs", left}},
                     {left ? wide : x, left ? x : wide},
                     {{kWide, left ? Dims{3072, 768} : Dims{768, 3072}}, {kWide, {3072}}}},
                    1e-5);
  }
}

TEST(CudaShapes, Head) {
  constexpr int64_t kRows = 256, kWidth = 2048, kClasses = 32000;
  Tensor labels = integers({kRows}, 0, kClasses, 3), step = scalars({{Scalars::kInverseValid, 1.0 / kRows}});
  for (DType type : {kNarrow, kWide}) {
    Tensor hidden = random({kRows, kWidth}, 1, 1, type), weight = random({kClasses, kWidth}, 2, 0.1, type);
    Attributes chunk = {{"chunk", int64_t{128}}};
    expectAsOnCpu({"linear_cross_entropy", chunk, {hidden, weight, absent(), labels, step}, {{kWide, {}}}}, 1e-5);
    expectAsOnCpu({"linear_cross_entropy_grad",
                   chunk,
                   {hidden, weight, absent(), labels, step},
                   {{kWide, {}}, {type, hidden.dims}, {kWide, weight.dims}, none()}},
                  type == kNarrow ? 0x1p-6 : 1e-5);
    Tensor ids = integers({4096}, 0, kClasses, 4), table = random({kClasses, 512}, 5, 1, type);
    for (size_t i = 0; i < ids.values.size(); i += 2)
      ids.values[i] = 7; // half a batch of padding
    expectAsOnCpu({"embedding", {}, {table, ids}, {{type, {4096, 512}}}}, 0);
    expectAsOnCpu({"embedding_grad", {}, {ids, random({4096, 512}, 6, 1, type)}, {{kWide, {kClasses, 512}}}}, 1e-5);
  }
}

/// Warnings logged while it lives.
class Warnings {
public:
  Warnings() : sink(std::make_shared<spdlog::sinks::ostream_sink_mt>(text)) {
    sink->set_level(spdlog::level::warn);
    log().sinks().push_back(sink);
  }
  ~Warnings() { std::erase(log().sinks(), spdlog::sink_ptr(sink)); }
  std::string all() const { return text.str(); }

private:
  std::ostringstream text;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink;
};

struct FusedCase {
  const char *name;
  int64_t batch, length, heads, groups, width;
  Attributes attributes;
};

/// Results, then gradients from them, of which sums over queries meet in a fixed order.
TEST(CudaShapes, FusedAttention) {
  const FusedCase cases[] = {
      {"causal", 2, 1024, 32, 8, 128, {{"scale", 0.088}, {"minDistance", int64_t{0}}}},
      {"causal, narrow heads", 4, 512, 12, 12, 64, {{"scale", 0.125}, {"minDistance", int64_t{0}}}},
      {"causal, no multiple", 2, 1000, 8, 2, 64, {{"scale", 0.125}, {"minDistance", int64_t{0}}}},
      {"window", 2, 1024, 8, 8, 64, {{"scale", 0.125}, {"minDistance", int64_t{0}}, {"maxDistance", int64_t{255}}}},
      {"full", 2, 512, 12, 12, 64, {{"scale", 0.125}}}};
  for (const FusedCase &c : cases) {
    SCOPED_TRACE(c.name);
    Warnings warnings;
    Tensor query = random({c.batch, c.length, c.heads, c.width}, 1, 1, kNarrow),
           key = random({c.batch, c.length, c.groups, c.width}, 2, 1, kNarrow),
           value = random({c.batch, c.length, c.groups, c.width}, 3, 1, kNarrow),
           gradient = random(query.dims, 4, 1, kNarrow);
    Dims statistic = {c.batch, c.heads, c.length};
    std::vector<Values> saved =
        expectAsOnCpu({"attention",
                       c.attributes,
                       {query, key, value, absent(), absent(), absent(), absent(), absent(), absent(), absent()},
                       {{kNarrow, query.dims}, {kWide, statistic}}},
                      0x1p-6);
    if (saved.size() == 2)
      expectAsOnCpu({"attention_grad",
                     c.attributes,
                     {gradient, query, key, value, absent(), absent(), absent(), absent(), absent(), absent(), absent(),
                      tensor(kNarrow, query.dims, saved[0]), tensor(kWide, statistic, saved[1])},
                     {{kNarrow, query.dims}, {kNarrow, key.dims}, {kNarrow, value.dims}, none(), none()}},
                    0x1p-5);
    EXPECT_EQ(warnings.all(), "") << "attention should be cuDNN's here";
  }
}

struct ConvolutionCase {
  const char *name;
  Dims image, kernel, strides, low;
  int64_t groups;
};

TEST(CudaShapes, Convolutions) {
  const ConvolutionCase cases[] = {
      {"3 x 3", {4, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1}, 1},
      {"1 x 1 by 2", {4, 256, 28, 28}, {512, 256, 1, 1}, {2, 2}, {0, 0}, 1},
      {"7 x 7 by 2", {2, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3}, 1},
      {"patches", {2, 3, 224, 224}, {768, 3, 16, 16}, {16, 16}, {0, 0}, 1},
      {"depthwise", {4, 96, 56, 56}, {96, 1, 7, 7}, {1, 1}, {3, 3}, 96},
      {"groups", {2, 128, 28, 28}, {128, 4, 3, 3}, {1, 1}, {1, 1}, 32},
      {"one dimension", {2, 512, 4000}, {512, 512, 3}, {2}, {0}, 1},
      {"three dimensions", {1, 16, 8, 28, 28}, {32, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, 1}};
  for (const ConvolutionCase &c : cases)
    for (DType type : {kNarrow, kWide}) {
      SCOPED_TRACE(fmt::format("{}, {}", c.name, name(type)));
      Warnings warnings;
      const double tolerance = type == kNarrow ? 0x1p-7 : 1e-5;
      const Attributes attributes = {{"strides", c.strides},
                                     {"dilations", std::vector<int64_t>(c.strides.size(), 1)},
                                     {"low", c.low},
                                     {"high", c.low},
                                     {"groups", c.groups}};
      Dims result = {c.image[0], c.kernel[0]};
      for (size_t d = 0; d < c.strides.size(); ++d)
        result.push_back((c.image[d + 2] + 2 * c.low[d] - c.kernel[d + 2]) / c.strides[d] + 1);
      const Tensor image = random(c.image, 1, 1, type), kernel = random(c.kernel, 2, 0.1, type),
                   bias = random({c.kernel[0]}, 3, 1, type), gradient = random(result, 4, 1, type);
      expectAsOnCpu({"conv", attributes, {image, kernel, bias}, {{type, result}}}, tolerance);
      expectAsOnCpu({"conv_data_grad", attributes, {gradient, kernel}, {{type, c.image}}}, tolerance);
      expectAsOnCpu({"conv_weight_grad", attributes, {gradient, image}, {{kWide, c.kernel}}}, tolerance);
      EXPECT_EQ(warnings.all(), "") << "convolutions should be cuDNN's here";
    }
}

} // namespace
} // namespace mt::kernels::test
