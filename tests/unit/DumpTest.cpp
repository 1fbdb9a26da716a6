// The forms of a plan, of a plan small enough to know every line.
#include "runtime/plan/Dump.h"
#include "SmallPlan.h"
#include "runtime/plan/Diff.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/Occupancy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mt::plan {
namespace {

void expectLine(const std::string &text, const std::string &line) {
  EXPECT_NE(("\n" + text).find("\n" + line + "\n"), std::string::npos) << "no line\n" << line << "\nin\n" << text;
}

TEST(Dump, FormatsByName) {
  EXPECT_EQ(dumpFormatFromName("html"), DumpFormat::html);
  EXPECT_EQ(dumpFormatFromName("yaml"), std::nullopt);
}

TEST(Dump, TextTellsWhatThePlanIs) {
  const std::string text = dumpPlan(smallPlan(), DumpFormat::text);
  expectLine(text, "plan of /models/small.onnx by test, digest 0000000000000000");
  expectLine(text, "  model      small: 2 layers, 32 parameters in 2 tensors, digest 0000000000001234");
  expectLine(text, "  decisions  saved activations: input 1, all 1; weights: streamed; parked: 1 values; updates: early");
  expectLine(text, "  0  device   device       device 0  320 B");
  expectLine(text, "  layers 0 to 1, each: 1 tensors, 16 parameters, 192 B");
  expectLine(text, "    %0 block.0.weight [4, 4]  weight f32 staging[0, +64)  first_moment f32 state[0, +64)  "
                   "second_moment f32 state[64, +64)");
  expectLine(text, "template 0 block.forward: 1 calls, workspace 0 B");
  expectLine(text, "  add(read a0+0 f32[4, 4], read a1+0 f32[4, 4], write a2+0 f32[4, 4])  // /block/Add");
}

TEST(Dump, TextLetsOneFollowALayer) {
  const std::string text = dumpPlan(smallPlan(), DumpFormat::text);
  expectLine(text, "program step: 6 commands, predicted 8.00 ms");
  expectLine(text, "  layer 1; prefetch #3; compute #4; offload #5");
  expectLine(text, "  #4            8.000   4.00 ms compute    compute     1   0      192 B  forward 1; run "
                   "block.forward(<device[64, +64), <device[192, +64), >device[256, +64)); after #3 #5-1");
  expectLine(text, "  #3            4.000   2.00 ms upload     prefetch    1   -       64 B  weights 1; copy "
                   "staging[64, +64) -> device[64, +64); after #4-1");
}

TEST(Dump, JsonHoldsEveryTable) {
  const auto json = nlohmann::json::parse(dumpPlan(smallPlan(), DumpFormat::json));
  EXPECT_EQ(json["settings"]["micro_batch"], 1);
  EXPECT_EQ(json["spaces"][1]["kind"], "staging");
  EXPECT_EQ(json["parameters"][1]["parts"][2]["name"], "second_moment");
  EXPECT_EQ(json["templates"][0]["calls"][0]["kernel"], "add");
  const auto &commands = json["programs"][0]["commands"];
  ASSERT_EQ(commands.size(), 6u);
  EXPECT_EQ(commands[0]["copy"]["from"]["space"], 1);
  EXPECT_EQ(commands[1]["run"]["arguments"][2]["effect"], "write");
  EXPECT_EQ(commands[1]["awaits"][1]["back"], 1);
  EXPECT_EQ(commands[2]["role"], "offload");
}

TEST(Dump, TraceHasAnEventPerCommandAndNamedThreads) {
  const auto trace = nlohmann::json::parse(dumpPlan(smallPlan(), DumpFormat::trace));
  size_t events = 0, threads = 0;
  for (const auto &event : trace["traceEvents"]) {
    events += event["ph"] == "X";
    threads += event["name"] == "thread_name";
    if (event["ph"] == "X") {
      EXPECT_GE(event["ts"].get<double>(), 0);
    }
  }
  EXPECT_EQ(events, 6u);
  EXPECT_EQ(threads, 3u);
}

TEST(Dump, HtmlIsOnePageAndLabelsCannotEndItsScript) {
  Plan plan = smallPlan();
  plan.programs[0].commands[0].label = "</script><b>";
  const std::string page = dumpPlan(plan, DumpFormat::html);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_NE(page.find("\"forward 1\""), std::string::npos);
}

TEST(Dump, PlansWithoutProgramsHaveForms) {
  const Plan empty;
  for (DumpFormat format : {DumpFormat::text, DumpFormat::json, DumpFormat::trace, DumpFormat::html})
    EXPECT_FALSE(dumpPlan(empty, format).empty());
}

TEST(Occupancy, BoxesEndAtTheLastUse) {
  const Plan plan = smallPlan();
  std::vector<Box> boxes = occupancyOf(plan.programs[0], 0);
  const auto find = [&](uint64_t begin) {
    const auto at = std::ranges::find(boxes, begin, &Box::begin);
    return at == boxes.end() ? Box{} : *at;
  };
  EXPECT_EQ(boxes.size(), 5u);
  EXPECT_EQ(find(0).first, 0u); // weights of layer 0: uploaded by command 0, read by 1
  EXPECT_EQ(find(0).last, 1u);
  EXPECT_EQ(find(192).first, 1u); // output of layer 0: read by its download and by layer 1
  EXPECT_EQ(find(192).last, 4u);
}

TEST(LayerIndex, ParametersFollowTheCommandsThatTouchThem) {
  const auto layers = parametersByLayer(smallPlan());
  EXPECT_EQ(layers, (std::map<int32_t, std::vector<uint32_t>>{{0, {0}}, {1, {1}}}));
}

TEST(Diff, EqualPlansDoNotDiffer) {
  Plan other = smallPlan();
  other.producer = "another version";
  EXPECT_EQ(diffPlans(smallPlan(), other), "");
}

TEST(Diff, NamesWhatChanged) {
  Plan other = smallPlan();
  other.settings.weights = "kept";
  other.spaces[0].bytes = 384;
  other.parameters[1].dims = {2, 8};
  other.templates[0].workspaceBytes = 128;
  other.templates[0].calls[0].signature.kernel = "mul";
  other.programs[0].commands[3].to.offset = 320;
  other.programs[0].commands[4].awaits.pop_back();
  other.prediction.stepSeconds = 0.006;
  const std::string text = diffPlans(smallPlan(), other);
  EXPECT_EQ(text, "weights: streamed -> kept\n"
                  "space device: 320 B -> 384 B (+64 bytes)\n"
                  "parameter block.1.weight: [4, 4] -> [2, 8]\n"
                  "template forward of layers 0 to 1 workspace: 0 B -> 128 B (+128 bytes)\n"
                  "template forward of layers 0 to 1 calls: 1 -> 1; from call 0 on: add f32[4, 4] f32[4, 4] f32[4, 4] -> mul "
                  "f32[4, 4] f32[4, 4] f32[4, 4]\n"
                  "step: 1 commands touch other bytes\n"
                  "step: 1 commands await others\n"
                  "predicted step: 12.0 ms -> 6.00 ms (-50.0 %)\n");
}

/// Templates of another rung have other names and do the same work; such a change is one line and not two.
TEST(Diff, ComparesTemplatesByWhatTheyAreFor) {
  Plan other = smallPlan();
  other.templates[0].name = "block.forward.all";
  EXPECT_EQ(diffPlans(smallPlan(), other), "");
  other.templates[0].workspaceBytes = 128;
  EXPECT_EQ(diffPlans(smallPlan(), other), "template forward of layers 0 to 1 workspace: 0 B -> 128 B (+128 bytes)\n");
  other = smallPlan();
  other.programs[0].commands[4].label = "redo layer 1 mb 0";
  other.programs[0].commands[1].label = "redo layer 0 mb 0";
  const std::string text = diffPlans(smallPlan(), other);
  EXPECT_NE(text.find("template redo of layers 0 to 1 (block.forward) is new: 1 calls"), std::string::npos) << text;
  EXPECT_NE(text.find("template forward of layers 0 to 1 (block.forward) is gone: 1 calls"), std::string::npos) << text;
}

TEST(Diff, NamesWhereTheOrderParts) {
  Plan other = smallPlan();
  other.programs[0].commands.pop_back();
  EXPECT_EQ(diffPlans(smallPlan(), other), "step: offload commands: 2 -> 1\n"
                                           "step: offload bytes: 128 B -> 64 B (-64 bytes)\n"
                                           "step: offload time: 4.00 ms -> 2.00 ms (-50.0 %)\n"
                                           "step: the order differs from command 5 on: gradient 1 -> the end\n");
}

} // namespace
} // namespace mt::plan
