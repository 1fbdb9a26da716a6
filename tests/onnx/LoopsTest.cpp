// Loop and Scan: how often their bodies are imported, and what is refused.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

namespace mt::onnx::test {
namespace {

/// A body, to be filled with nodes.
struct Body {
  ::onnx::GraphProto &graph;
  explicit Body(::onnx::NodeProto &of) : graph(*attributeOf(of).mutable_g()) {}
  static ::onnx::AttributeProto &attributeOf(::onnx::NodeProto &node) {
    auto &attribute = *node.add_attribute();
    attribute.set_name("body");
    attribute.set_type(::onnx::AttributeProto::GRAPH);
    return attribute;
  }
  Body &input(const std::string &name) { return graph.add_input()->set_name(name), *this; }
  Body &output(const std::string &name) { return graph.add_output()->set_name(name), *this; }
  ::onnx::NodeProto &node(const std::string &op, std::initializer_list<std::string> inputs, const std::string &output) {
    auto &made = *graph.add_node();
    made.set_op_type(op);
    for (const std::string &name : inputs)
      made.add_input(name);
    made.add_output(output);
    return made;
  }
};

struct Loops : testing::Test {
  TestModel model{22};
  Loops() { model.input("x", kFloat, {"b", "6", "8"}).output("y"); }
  size_t count(const Imported &result, const std::string &what) {
    size_t found = 0;
    for (size_t at = result.text.find(what); at != std::string::npos; at = result.text.find(what, at + 1))
      ++found;
    return found;
  }
  /// Three times h = tanh(h + x), all of them stacked.
  Body addLoop(const std::string &trips, const std::string &condition) {
    auto &loop = model.node("Loop", {trips, condition, "x"}, {"last", "y"});
    Body body(loop);
    body.input("i").input("going").input("h").output("goes").output("next").output("each");
    body.node("Add", {"h", "x"}, "sum"); // x of the graph around
    body.node("Tanh", {"sum"}, "next");
    body.node("Identity", {"next"}, "each");
    return body;
  }
};

TEST_F(Loops, AreUnrolled) {
  model.integers("three", {}, {3});
  addLoop("three", "").node("Identity", {"going"}, "goes");
  Imported result = import(model);
  EXPECT_EQ(count(result, "nn.tanh"), 3U) << result.everything();
  EXPECT_TRUE(result.has("tensor<3x2x6x8xf32>")) << result.everything();
}

TEST_F(Loops, EndWhereTheirConditionSaysSo) {
  model.integers("many", {}, {INT64_MAX});
  model.integers("two", {}, {2});
  addLoop("many", "").node("Less", {"i", "two"}, "goes");
  EXPECT_EQ(count(import(model), "nn.tanh"), 3U) << import(model).everything();
}

TEST_F(Loops, OfDataAreRefused) {
  model.input("n", kInt64, {"b"});
  addLoop("n", "").node("Identity", {"going"}, "goes");
  EXPECT_TRUE(import(model).complains({"(Loop)", "trip count depends on the model's data"}))
      << import(model).everything();
}

TEST_F(Loops, WithConditionsOnDataAreRefused) {
  model.integers("three", {}, {3});
  Body body = addLoop("three", "");
  body.node("ReduceSum", {"next"}, "total");
  body.node("IsNaN", {"total"}, "goes");
  EXPECT_TRUE(import(model).complains({"(Loop)", "after 1 iterations depends on the model's data"}))
      << import(model).everything();
}

TEST_F(Loops, HaveABound) {
  model.integers("endless", {}, {1'000'000});
  addLoop("endless", "").node("Identity", {"going"}, "goes");
  EXPECT_TRUE(import(model).complains({"(Loop)", "more than 20000 nodes, of which its body has 4", "--seq"}))
      << import(model).everything();
}

TEST_F(Loops, WithoutNodesEndToo) {
  auto &loop = model.node("Loop", {"", "", "x"}, {"y"});
  Body(loop).input("i").input("going").input("h").output("going").output("h");
  EXPECT_TRUE(import(model).complains({"(Loop)", "more than 20000 nodes, of which its body has 0"}))
      << import(model).everything();
}

TEST_F(Loops, InLoopsCountTogether) {
  model.integers("hundreds", {}, {300});
  auto &outer = model.node("Loop", {"hundreds", "", "x"}, {"y"});
  Body body(outer);
  body.input("k").input("on").input("state").output("on").output("left");
  auto &inner = body.node("Loop", {"hundreds", "", "state"}, "left");
  Body(inner).input("i").input("going").input("h").output("going").output("next").node("Relu", {"h"}, "next");
  EXPECT_TRUE(import(model).complains({"'left' (Loop)", "more than 20000 nodes"}))
      << import(model).everything().substr(0, 2000);
}

TEST_F(Loops, ScansOfEndlessInputsAreRefused) {
  model.input("long", kFloat, {"1000000000", "1"});
  auto &scan = model.node("Scan", {"long"}, {"y"});
  setInt(scan, "num_scan_inputs", 1);
  Body body(scan);
  body.input("a").output("c");
  body.node("Relu", {"a"}, "c");
  EXPECT_TRUE(import(model, 1000000000).complains({"(Scan)", "more than 20000 nodes"}))
      << import(model, 1000000000).everything();
}

TEST_F(Loops, WithoutIterationsHaveNothingToStack) {
  model.integers("none", {}, {0});
  addLoop("none", "").node("Identity", {"going"}, "goes");
  EXPECT_TRUE(import(model).complains({"(Loop)", "no iteration"})) << import(model).everything();
}

TEST_F(Loops, WithOtherBodiesAreRefused) {
  model.integers("three", {}, {3});
  Body body = addLoop("three", "");
  body.input("more");
  EXPECT_TRUE(import(model).complains({"(Loop)", "its body has 4 inputs"})) << import(model).everything();
}

/// A running sum along axis 1 from behind, stacked along axis 2, the last first.
TEST_F(Loops, ScansCutAndStackAlongAnyAxis) {
  model.weights("start", {2, 8});
  auto &scan = model.node("Scan", {"start", "x"}, {"", "y"});
  setInt(scan, "num_scan_inputs", 1);
  setInts(scan, "scan_input_axes", {1});
  setInts(scan, "scan_input_directions", {1});
  setInts(scan, "scan_output_axes", {-1});
  setInts(scan, "scan_output_directions", {1});
  Body body(scan);
  body.input("sum").input("part").output("next").output("each");
  body.node("Add", {"sum", "part"}, "next");
  body.node("Relu", {"next"}, "each");
  Imported result = import(model);
  EXPECT_EQ(count(result, "nn.relu"), 6U) << result.everything();
  size_t last = result.text.find("starts = array<i64: 0, 5, 0>"),
         first = result.text.find("starts = array<i64: 0, 0, 0>");
  EXPECT_LT(last, first) << result.everything();
  EXPECT_TRUE(result.has("tensor<2x8x6xf32>")) << result.everything();
}

TEST_F(Loops, ScansOfDifferentLengthsAreRefused) {
  model.weights("w", {5, 8});
  auto &scan = model.node("Scan", {"x", "w"}, {"y"});
  setInt(scan, "num_scan_inputs", 2);
  Body body(scan);
  body.input("a").input("b").output("c");
  body.node("Add", {"a", "b"}, "c");
  EXPECT_TRUE(import(model).complains({"(Scan)", "2 and 5 parts"})) << import(model).everything();
}

TEST_F(Loops, ScansNeedAxesOfTheirOwn) {
  auto &scan = model.node("Scan", {"x"}, {"y"});
  setInt(scan, "num_scan_inputs", 1);
  setInts(scan, "scan_input_axes", {7});
  Body body(scan);
  body.input("a").output("c");
  body.node("Relu", {"a"}, "c");
  EXPECT_TRUE(import(model).complains({"(Scan)", "axis 7 is out of range"})) << import(model).everything();
  setInts(scan, "scan_output_axes", {0, 1});
  EXPECT_TRUE(import(model).complains({"(Scan)", "not as many"})) << import(model).everything();
  scan.clear_attribute();
  EXPECT_TRUE(import(model).complains({"(Scan)", "walks along 0 of its 1 inputs"})) << import(model).everything();
}

} // namespace
} // namespace mt::onnx::test
