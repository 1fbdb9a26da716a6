// cuDNN's own library on the graphs of attention, for GPUs that are described and not there: each that would be chosen
// builds, within the scratch that the catalogue allots, but for those that are known to go by blocks. The driver is a
// stub (StubDriver.c); nothing runs.
#include "kernels/cuda/GraphAttention.h"
#include "tests/cudnn/Described.h"

#include <cstdlib>

namespace mt::kernels {
namespace {

enum class Mask : uint8_t { full, causal, window };

struct Shape {
  int64_t batch, length, heads, groups, width;
  Mask mask = Mask::causal;
  std::string text() const {
    const char *const names[] = {"full", "causal", "window"};
    return fmt::format("{} x {}, {} heads of {} in {} groups, {}", batch, length, heads, width, groups,
                       names[static_cast<size_t>(mask)]);
  }
};

Signature callOf(const Shape &shape, bool gradient) {
  Attributes attributes{{"scale", 0.1}};
  if (shape.mask != Mask::full)
    attributes["minDistance"] = int64_t{0};
  if (shape.mask == Mask::window)
    attributes["maxDistance"] = int64_t{127};
  auto operand = [](Dims dims, Effect effect = Effect::read, DType type = DType::bf16) {
    return OperandType{type, std::move(dims), effect, true};
  };
  const OperandType none{DType::f32, {}, Effect::read, false};
  const Dims query{shape.batch, shape.length, shape.heads, shape.width},
      key{shape.batch, shape.length, shape.groups, shape.width}, statistic{shape.batch, shape.heads, shape.length};
  if (!gradient)
    return {"attention",
            attributes,
            {operand(query), operand(key), operand(key), none, none, none, none, none, none, none,
             operand(query, Effect::write), operand(statistic, Effect::write, DType::f32)}};
  return {"attention_grad",
          attributes,
          {operand(query),
           operand(query),
           operand(key),
           operand(key),
           none,
           none,
           none,
           none,
           none,
           none,
           none,
           operand(query),
           operand(statistic, Effect::read, DType::f32),
           operand(query, Effect::write),
           operand(key, Effect::write),
           operand(key, Effect::write),
           {DType::f32, {}, Effect::write, false},
           {DType::f32, {}, Effect::write, false}}};
}

/// Models' shapes: of tests, of benches, and a table of what users have. MT_CUDNN_ALL=1: all of the table.
std::vector<Shape> shapes() {
  std::vector<Shape> list = {{4, 32, 4, 4, 16},      {4, 32, 4, 2, 16}, // the reference cases
                             {8, 1024, 32, 8, 64},   {8, 1024, 24, 8, 128},
                             {8, 1024, 32, 32, 128},                                      // the benches' 1 B, 3 B, 7 B
                             {1, 16384, 32, 8, 128}, {1, 24576, 8, 8, 64, Mask::window}}; // long ones, cut into parts

  const bool all = std::getenv("MT_CUDNN_ALL") != nullptr;
  for (int64_t width : {64, 96, 128, 256})
    for (int64_t groups : {8, 32})
      for (Mask mask : {Mask::full, Mask::causal, Mask::window})
        for (int64_t length : {200, 1024, 4096, 32768})
          if (all ||
              (groups == 8 && (mask == Mask::causal ? length == 200 || length == 4096 : width == 128 && length == 200)))
            list.push_back({1, length, 32, groups, width, mask});
  if (all)
    list.push_back({1, 131072, 32, 8, 128});
  return list;
}

class Graphs : public Described {};

TEST_P(Graphs, BuildWithinTheirScratch) {
  int built = 0, byBlocks = 0, whole = 0;
  for (const Shape &shape : shapes())
    for (bool gradient : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", shape.text(), gradient ? ", gradient" : ""));
      const Signature call = callOf(shape, gradient);
      ASSERT_EQ(check(call), "");
      const FusedAttention fused = FusedAttention::of(call);
      ASSERT_EQ(fused.refusal, "");
      bool narrower = false; // than cuDNN's heads may be on this GPU, which goes by blocks, with this remark
      for (const cuda::GraphPart &part : cuda::graphParts(call, fused)) {
        const Result<uint64_t> workspace = cuda::graphWorkspace(part.graph, fused.library, *dnn);
        const bool wide =
            GetParam().capability == 90 || (GetParam().capability == 100 && dnn->call.cudnnGetVersion() >= 92300);
        if (gradient && shape.width > 128 && !wide) {
          EXPECT_NE(workspace.status().message().find("hidden_dim should be less than or equal to 128"),
                    std::string::npos)
              << workspace.status().message();
          narrower = true;
          break;
        }
        ASSERT_TRUE(workspace.ok()) << part.graph.text() << ": " << workspace.status().message();
        EXPECT_LE(*workspace, fused.library);
        ++built;
      }
      byBlocks += narrower;
      if (!fused.sums() || narrower)
        continue;
      // Where sums in a fixed order need no room for all pairs, the call is not cut.
      const FusedAttention linear = FusedAttention::linear(call, fused);
      const Result<uint64_t> workspace =
          cuda::graphWorkspace(cuda::graphParts(call, linear).front().graph, linear.library, *dnn);
      EXPECT_EQ(workspace.ok(),
                GetParam().capability == 100 || (GetParam().capability == 90 && dnn->call.cudnnGetVersion() >= 92500))
          << workspace.status().message();
      whole += workspace.ok();
    }
  std::printf(
      "compute capability %d: %d graphs built by cuDNN %zu, %d long gradients in one graph, %d calls go by blocks\n",
      GetParam().capability, built, dnn->call.cudnnGetVersion(), whole, byBlocks);
  EXPECT_GT(built, byBlocks);
}

INSTANTIATE_TEST_SUITE_P(Described, Graphs, kGpus, nameOfGpu);

} // namespace
} // namespace mt::kernels
