// cuDNN's own library on the graphs of convolutions, for GPUs that are described and not there: models' convolutions
// and both of their gradients, in 32 bits and in 16, have a plan within the scratch that the catalogue allots, whose
// sums have one order, and which does not round operands of 32 bits; none of them goes straight from its definition.
// Nothing runs.
#include "kernels/DeviceScratch.h"
#include "kernels/cuda/ConvolutionGraph.h"
#include "tests/cudnn/Described.h"

#include <algorithm>

namespace mt::kernels {
namespace {

struct Shape {
  const char *name;
  Dims image, kernel;
  Dims strides, dilations, low, high;
  int64_t groups = 1;
  /// Many channels, whose products tensor cores compute on every GPU; of images that have room in scratch.
  bool dense() const {
    const bool room = image[0] * image[1] * image[2] * image[3] < int64_t{1} << 30;
    return kernel[1] >= 64 && kernel[0] >= 64 && kernel.size() > 3 && kernel[2] > 1 && room;
  }
  Dims result() const {
    Dims dims = {image[0], kernel[0]};
    for (size_t d = 0; d < strides.size(); ++d)
      dims.push_back((image[d + 2] + low[d] + high[d] - (kernel[d + 2] - 1) * dilations[d] - 1) / strides[d] + 1);
    return dims;
  }
};

const std::vector<Shape> kShapes = {
    {"ResNet's 3 x 3", {32, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"ResNet's 3 x 3 by 2", {32, 128, 56, 56}, {128, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"ResNet's 1 x 1", {32, 256, 56, 56}, {64, 256, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {"ResNet's 1 x 1 by 2", {32, 256, 56, 56}, {512, 256, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {"ResNet's last", {32, 512, 7, 7}, {512, 512, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"ResNet's first, 7 x 7 by 2", {32, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {"ResNeXt's, 32 groups", {32, 128, 56, 56}, {128, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 32},
    {"MobileNet's, depthwise", {32, 144, 56, 56}, {144, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 144},
    {"MobileNet's, depthwise by 2", {32, 96, 112, 112}, {96, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 96},
    {"EfficientNet's, depthwise, padded behind", {8, 96, 64, 64}, {96, 1, 3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 96},
    {"ConvNeXt's, depthwise 7 x 7", {32, 96, 56, 56}, {96, 1, 7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, 96},
    {"ConvNeXt's 2 x 2 by 2", {32, 96, 56, 56}, {192, 96, 2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {"patches of 14", {16, 3, 224, 224}, {1024, 3, 14, 14}, {14, 14}, {1, 1}, {0, 0}, {0, 0}},
    {"patches of 16", {16, 3, 224, 224}, {768, 3, 16, 16}, {16, 16}, {1, 1}, {0, 0}, {0, 0}},
    {"dilated", {8, 256, 32, 32}, {256, 256, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
    {"an image, to 3 channels", {4, 128, 64, 64}, {3, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"wav2vec2's first", {4, 1, 160000}, {512, 1, 10}, {5}, {1}, {0}, {0}},
    {"wav2vec2's others", {4, 512, 31999}, {512, 512, 3}, {2}, {1}, {0}, {0}},
    {"wav2vec2's positions, 16 groups", {4, 768, 499}, {768, 48, 128}, {1}, {1}, {64}, {63}, 16},
    {"Whisper's", {4, 80, 3000}, {512, 80, 3}, {1}, {1}, {1}, {1}},
    {"Mamba's, depthwise, causal", {4, 1536, 2048}, {1536, 1, 4}, {1}, {1}, {3}, {0}, 1536},
    {"video", {4, 64, 8, 56, 56}, {128, 64, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"video, patches", {2, 3, 16, 224, 224}, {768, 3, 2, 16, 16}, {2, 16, 16}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {"video, depthwise", {2, 48, 8, 56, 56}, {48, 1, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 48},
    {"odd", {8, 7, 15, 15}, {13, 7, 3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {"of a reference case", {8, 3, 8, 8}, {12, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"of more than 4 GiB", {64, 64, 512, 1024}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"of few groups, padded unevenly",
     {2, 12, 8, 15, 15},
     {18, 4, 3, 3, 3},
     {2, 2, 2},
     {2, 2, 2},
     {3, 0, 1},
     {4, 1, 2},
     3},
    {"of strides beyond the window", {2, 8, 50, 50}, {8, 8, 2, 2}, {7, 5}, {1, 1}, {0, 0}, {0, 0}},
    {"padded more than the window", {2, 8, 5, 5}, {8, 8, 3, 3}, {1, 1}, {1, 1}, {4, 4}, {4, 4}},
};

Signature callOf(const Shape &shape, const std::string &kernel, DType type) {
  auto operand = [&](const Dims &dims, Effect effect = Effect::read) { return OperandType{type, dims, effect, true}; };
  Signature call{kernel,
                 {{"strides", shape.strides},
                  {"dilations", shape.dilations},
                  {"low", shape.low},
                  {"high", shape.high},
                  {"groups", shape.groups}},
                 {}};
  if (kernel == "conv")
    call.operands = {operand(shape.image), operand(shape.kernel), operand({shape.kernel[0]}),
                     operand(shape.result(), Effect::write)};
  else if (kernel == "conv_data_grad")
    call.operands = {operand(shape.result()), operand(shape.kernel), operand(shape.image, Effect::write)};
  else
    call.operands = {operand(shape.result()), operand(shape.image), {DType::f32, shape.kernel, Effect::write, true}};
  return call;
}

class Convolutions : public Described {};

TEST_P(Convolutions, HavePlansWithinTheirScratch) {
  int built = 0, onTensorCores = 0;
  uint64_t most = 0;
  for (const Shape &shape : kShapes)
    for (const char *kernel : {"conv", "conv_data_grad", "conv_weight_grad"})
      for (DType type : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", shape.name, kernel, name(type)));
        const Signature call = callOf(shape, kernel, type);
        ASSERT_EQ(check(call), "");
        const GraphConvolution parts = GraphConvolution::of(call);
        ASSERT_EQ(parts.refusal, "");
        const Result<cuda::ConvolutionPlan> plan =
            cuda::convolutionPlan(cuda::ConvolutionGraph::of(call), parts.library, *dnn);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        EXPECT_LE(plan->workspace, parts.library);
        EXPECT_TRUE(plan->repeats);
        EXPECT_FALSE(type == DType::f32 && plan->tensorCores);
        EXPECT_TRUE(plan->tensorCores || type == DType::f32 || !shape.dense());
        ++built, onTensorCores += plan->tensorCores;
        most = std::max(most, plan->workspace);
      }
  std::printf("compute capability %d: %d plans by cuDNN %zu, %d on tensor cores, workspace of at most %zu MiB\n",
              GetParam().capability, built, dnn->call.cudnnGetVersion(), onTensorCores, size_t{most >> 20});
}

TEST_P(Convolutions, ThatCannotBeAreSaidInOneLine) {
  cuda::ConvolutionGraph graph = cuda::ConvolutionGraph::of(callOf(kShapes.front(), "conv", DType::f32));
  graph.result.back() += 5;
  const std::string message = cuda::convolutionPlan(graph, 1 << 20, *dnn).status().message();
  EXPECT_EQ(message.find("cuDNN, "), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Described, Convolutions, kGpus, nameOfGpu);

} // namespace
} // namespace mt::kernels
