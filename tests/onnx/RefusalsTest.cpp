// What converters say of nodes that they cannot take: what is wrong, at which node.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

namespace mt::onnx::test {
namespace {

using Build = void (*)(TestModel &);
struct Refusal {
  Build build;
  std::initializer_list<std::string> says;
};

/// Each of the refusals, of models with the inputs x [2, 6, 8] of reals and n [2, 6] of whole numbers.
void expectRefusals(std::initializer_list<Refusal> refusals, int64_t opset = 28) {
  for (const Refusal &refusal : refusals) {
    TestModel model(opset);
    model.input("x", kFloat, {"b", "6", "8"}).input("n", kInt64, {"b", "6"}).output("y");
    refusal.build(model);
    ImportOptions options;
    options.sequence = 6;
    Imported result = import(model, 2, options);
    EXPECT_TRUE(result.complains(refusal.says)) << *refusal.says.begin() << "\n" << result.everything();
  }
}

using Model = TestModel;
void known(Model &m, const char *name, std::initializer_list<int64_t> values) {
  m.integers(name, {static_cast<int64_t>(values.size())}, values);
}
void knownScalar(Model &m, const char *name, int64_t value) { m.integers(name, {}, {value}); }

/// "taken": what a mask selects of x.
void take(Model &m, const char *mask) {
  m.node("NonZero", {mask}, {"places"});
  m.node("Transpose", {"places"}, {"tuples"});
  m.node("GatherND", {"x", "tuples"}, {"taken"});
}

TEST(Refusals, Elementwise) {
  expectRefusals({
      {[](Model &m) {
         setText(m.node("BitShift", {"n", "n"}, {"y"}), "direction", "UP");
       },
       {"(BitShift)", "neither LEFT nor RIGHT"}},
      {[](Model &m) {
         m.weights("w", {8});
         m.node("SwiGLU", {"x", "w"}, {"y"});
       },
       {"(SwiGLU)", "one shape and type"}},
      {[](Model &m) {
         m.node("OneHot", {"n", "n", "x"}, {"y"});
       },
       {"(OneHot)", "depth must be one number", "shapes or constants"}},
  });
}

TEST(Refusals, Positions) {
  expectRefusals({
      {[](Model &m) {
         knownScalar(m, "axis", 3);
         m.node("CumProd", {"x", "axis"}, {"y"});
       },
       {"(CumProd)", "axis 3 is out of range"}},
      {[](Model &m) {
         take(m, "x");
         knownScalar(m, "axis", 0);
         m.node("CumSum", {"taken", "axis"}, {"y"});
       },
       {"(CumSum)", "takes what NonZero selects", "depends on the model's data", "row by row"}},
      {[](Model &m) {
         m.node("NonZero", {"x"}, {"places"});
         m.node("Shape", {"places"}, {"sizes"});
         m.integers("two", {1}, {2});
         m.node("Mul", {"sizes", "two"}, {"y"});
       },
       {"'y' holds what NonZero selects, the number of which depends on the model's data"}},
      {[](Model &m) {
         setInt(m.node("SplitToSequence", {"x", "n"}, {"parts"}), "axis", 1);
         m.node("SequenceLength", {"parts"}, {"y"});
       },
       {"(SplitToSequence)", "the sizes of its parts depend on the model's data", "along the first dimension"}},
      {[](Model &m) { // as large as another mask selects
         take(m, "x");
         m.node("Neg", {"x"}, {"less"});
         m.node("NonZero", {"less"}, {"others"});
         m.node("Shape", {"others"}, {"sizes"});
         m.integers("one", {1}, {1});
         m.node("Gather", {"sizes", "one"}, {"count"});
         m.node("Unsqueeze", {"taken", "one"}, {"column"});
         setInt(m.node("Concat", {"one", "count"}, {"wide"}), "axis", 0);
         m.node("Expand", {"column", "wide"}, {"y"});
       },
       {"(Expand)", "takes what NonZero selects"}},
      {[](Model &m) { // one for each two of what is selected
         m.node("NonZero", {"x"}, {"places"});
         m.node("Shape", {"places"}, {"sizes"});
         m.integers("one", {1}, {1});
         m.node("Gather", {"sizes", "one"}, {"count"});
         setInt(m.node("Concat", {"count", "count"}, {"pairs"}), "axis", 0);
         m.node("ConstantOfShape", {"pairs"}, {"y"});
       },
       {"(ConstantOfShape)", "takes what NonZero selects"}},
      {[](Model &m) { // numbers of rows from another than 0
         m.node("NonZero", {"x"}, {"places"});
         m.node("Shape", {"places"}, {"sizes"});
         knownScalar(m, "one", 1);
         m.node("Gather", {"sizes", "one"}, {"count"});
         m.node("Range", {"one", "count", "one"}, {"y"});
       },
       {"(Range)", "takes what NonZero selects"}},
      {[](Model &m) {
         m.node("Split", {"x", "n"}, {"y", "z", "a", "b", "c"});
       },
       {"(Split)", "the sizes of its parts depend on the model's data"}},
      {[](Model &m) { // as many rows as places, whatever is selected
         take(m, "n");
         m.integers("shape", {2}, {12, -1});
         m.node("Reshape", {"taken", "shape"}, {"y"});
       },
       {"(Reshape)", "takes what NonZero selects"}},
      {[](Model &m) {
         take(m, "n");
         setInt(m.node("SplitToSequence", {"taken"}, {"parts"}), "axis", 1);
         setInt(*m.graph().mutable_node(m.graph().node_size() - 1), "keepdims", 0);
         m.node("SequenceLength", {"parts"}, {"y"});
       },
       {"(SplitToSequence)", "takes what NonZero selects"}},
      {[](Model &m) {
         m.integers("none", {1}, {0});
         m.integers("two", {1}, {2});
         m.node("Slice", {"x", "none", "none", "two"}, {"empty"});
         m.node("NonZero", {"empty"}, {"y"});
       },
       {"(NonZero)", "its input has no elements"}},
      {[](Model &m) {
         setText(m.node("Einsum", {"x", "x"}, {"y"}), "equation", "b1i,bji->bj");
       },
       {"(Einsum)", "equation 'b1i,bji->bj' has a label that is no letter"}},
      {[](Model &m) { // sizes that join the numbers of two masks
         m.node("NonZero", {"x"}, {"places"});
         m.node("Neg", {"x"}, {"less"});
         m.node("NonZero", {"less"}, {"others"});
         m.node("Shape", {"places"}, {"sizes"});
         m.node("Shape", {"others"}, {"more"});
         setInt(m.node("Concat", {"sizes", "more"}, {"y"}), "axis", 0);
       },
       {"(Concat)", "it joins the numbers of what two masks select"}},
      {[](Model &m) {
         take(m, "x");
         m.node("Neg", {"x"}, {"less"});
         m.node("NonZero", {"less"}, {"others"});
         m.node("Transpose", {"others"}, {"elsewhere"});
         m.node("ScatterND", {"x", "elsewhere", "taken"}, {"y"});
       },
       {"(ScatterND)", "the mask, what it selects and where that goes do not fit each other"}},
      {[](Model &m) {
         m.node("NonZero", {"x"}, {"places"});
         m.node("Transpose", {"places"}, {"tuples"});
         m.node("GatherND", {"x", "tuples"}, {"y"});
       },
       {"graph output 'y' holds what NonZero selects", "depends on the model's data"}},
      {[](Model &m) { m.node("NonZero", {"x"}, {"y"}); },
       {"graph output 'y' holds what NonZero selects", "depends on the model's data"}},
      {[](Model &m) {
         m.node("ReverseSequence", {"x", "n"}, {"y"});
       },
       {"(ReverseSequence)", "one number for each row"}},
      {[](Model &m) {
         setInt(m.node("ReverseSequence", {"x", "n"}, {"y"}), "time_axis", 1);
       },
       {"(ReverseSequence)", "another one for the batch"}},
      {[](Model &m) {
         m.node("TensorScatter", {"x", "n"}, {"y"});
       },
       {"(TensorScatter)", "must have the rank of the cache"}},
      {[](Model &m) {
         m.weights("w", {2, 7, 8});
         m.node("TensorScatter", {"x", "w"}, {"y"});
       },
       {"(TensorScatter)", "writes 7 entries into a cache of 6"}},
      {[](Model &m) {
         known(m, "c", {1, 0, 0, 0, 0, 0, 0, 0, 1});
         setInt(m.node("Compress", {"x", "c"}, {"y"}), "axis", 2);
       },
       {"(Compress)", "more conditions than the 8 entries"}},
  });
}

TEST(Refusals, Sequences) {
  expectRefusals({
      {[](Model &m) {
         knownScalar(m, "at", 2);
         m.node("SequenceConstruct", {"x", "x"}, {"s"});
         m.node("SequenceAt", {"s", "at"}, {"y"});
       },
       {"(SequenceAt)", "position 2 is outside the sequence of 2"}},
      {[](Model &m) {
         m.node("SequenceEmpty", {}, {"e"});
         m.node("SequenceErase", {"e"}, {"s"});
         m.node("ConcatFromSequence", {"s"}, {"y"});
       },
       {"(SequenceErase)", "empty sequence"}},
      {[](Model &m) {
         m.node("SequenceEmpty", {}, {"e"});
         m.node("ConcatFromSequence", {"e"}, {"y"});
       },
       {"(ConcatFromSequence)", "joins an empty sequence"}},
      {[](Model &m) {
         known(m, "sizes", {3, 4});
         setInt(m.node("SplitToSequence", {"x", "sizes"}, {"s"}), "axis", 1);
         m.node("ConcatFromSequence", {"s"}, {"y"});
       },
       {"(SplitToSequence)", "do not add up to 6"}},
      {[](Model &m) {
         m.node("Optional", {}, {"o"});
         m.node("OptionalGetElement", {"o"}, {"y"});
       },
       {"(OptionalGetElement)", "has none"}},
      {[](Model &m) {
         m.node("SequenceMap", {"x"}, {"s"});
         m.node("ConcatFromSequence", {"s"}, {"y"});
       },
       {"(SequenceMap)", "the first must be a sequence"}},
  });
}

TEST(Refusals, Quantization) {
  expectRefusals({
      {[](Model &m) {
         m.weights("scale", {2, 2, 8});
         auto &node = m.node("QuantizeLinear", {"x", "scale"}, {"y"});
         setInt(node, "block_size", 2);
       },
       {"(QuantizeLinear)", "2x2x8 do not fit blocks of 2"}},
      {[](Model &m) {
         m.scalar("scale", 1);
         setInt(m.node("QuantizeLinear", {"x", "scale"}, {"y"}), "output_dtype", ::onnx::TensorProto::INT4);
       },
       {"(QuantizeLinear)", "int4, for which there are no kernels"}},
      {[](Model &m) {
         m.scalar("scale", 1);
         setInt(m.node("DequantizeLinear", {"n", "scale"}, {"y"}), "output_dtype", ::onnx::TensorProto::UINT32);
       },
       {"(DequantizeLinear)", "uint32, for which there are no kernels"}},
  });
}

TEST(Refusals, Signals) {
  expectRefusals({
      {[](Model &m) {
         knownScalar(m, "size", 70000);
         m.node("HannWindow", {"size"}, {"y"});
       },
       {"(HannWindow)", "at most 65536"}},
      {[](Model &m) {
         knownScalar(m, "size", 7);
         setInt(m.node("HannWindow", {"size"}, {"y"}), "output_datatype", ::onnx::TensorProto::UINT32);
       },
       {"(HannWindow)", "uint32, for which there are no kernels"}},
      {[](Model &m) {
         knownScalar(m, "many", 60000);
         knownScalar(m, "rate", 8192);
         m.scalar("low", 0);
         m.scalar("high", 4000);
         m.node("MelWeightMatrix", {"many", "many", "rate", "low", "high"}, {"y"});
       },
       {"(MelWeightMatrix)", "30001 by 60000 weights"}},
      {[](Model &m) {
         knownScalar(m, "bins", 8);
         knownScalar(m, "rate", 0);
         m.node("MelWeightMatrix", {"bins", "bins", "rate", "rate", "rate"}, {"y"});
       },
       {"(MelWeightMatrix)", "positive numbers that are known"}},
      {[](Model &m) { m.node("DFT", {"x"}, {"y"}); }, {"(DFT)", "a last dimension of one, or of two"}},
      {[](Model &m) {
         m.weights("w", {2, 8, 1});
         knownScalar(m, "axis", 2);
         m.node("DFT", {"w", "", "axis"}, {"y"});
       },
       {"(DFT)", "axis 2 is out of range"}},
      {[](Model &m) {
         m.weights("w", {2, 8, 1});
         knownScalar(m, "length", 0);
         m.node("DFT", {"w", "length"}, {"y"});
       },
       {"(DFT)", "one positive number"}},
      {[](Model &m) {
         m.weights("w", {2, 8, 1});
         auto &node = m.node("DFT", {"w"}, {"y"});
         setInt(node, "inverse", 1);
         setInt(node, "onesided", 1);
       },
       {"(DFT)", "needs real and imaginary parts"}},
      {[](Model &m) {
         knownScalar(m, "step", 1);
         m.node("STFT", {"x", "step"}, {"y"});
       },
       {"(STFT)", "needs a signal"}},
      {[](Model &m) {
         m.weights("w", {2, 8, 1});
         knownScalar(m, "step", 1);
         knownScalar(m, "length", 9);
         m.node("STFT", {"w", "step", "", "length"}, {"y"});
       },
       {"(STFT)", "frames of 9 do not fit a signal of 8"}},
  });
}

TEST(Refusals, Geometry) {
  expectRefusals({
      {[](Model &m) {
         known(m, "size", {2, 1, 4, 4});
         m.node("AffineGrid", {"x", "size"}, {"y"});
       },
       {"(AffineGrid)", "2x6x8 do not fit the size 2x1x4x4"}},
      {[](Model &m) {
         known(m, "shape", {4, 4});
         m.node("CenterCropPad", {"x", "shape"}, {"y"});
       },
       {"(CenterCropPad)", "2 sizes for 3 dimensions"}},
      {[](Model &m) {
         known(m, "shape", {2, -1, 4});
         m.node("CenterCropPad", {"x", "shape"}, {"y"});
       },
       {"(CenterCropPad)", "size -1 is negative"}},
      {[](Model &m) {
         known(m, "image", {4, 4});
         known(m, "block", {2});
         m.node("Col2Im", {"x", "image", "block"}, {"y"});
       },
       {"(Col2Im)", "do not fit together"}},
      {[](Model &m) {
         known(m, "image", {4, 4});
         known(m, "block", {5, 5});
         m.node("Col2Im", {"x", "image", "block"}, {"y"});
       },
       {"(Col2Im)", "larger than the padded image"}},
      {[](Model &m) {
         known(m, "image", {4, 4});
         known(m, "block", {2, 2});
         m.node("Col2Im", {"x", "image", "block"}, {"y"});
       },
       {"(Col2Im)", "columns of shape 2x6x8 do not fit blocks of 2x2"}},
      {[](Model &m) { m.node("Det", {"x"}, {"y"}); }, {"(Det)", "square matrices of at most 4 by 4", "2x6x8"}},
  });
}

TEST(Refusals, Pools) {
  expectRefusals({
      {[](Model &m) {
         m.integers("whole", {2, 1, 4, 4}, std::vector<int64_t>(32, 1));
         setInts(m.node("MaxPool", {"whole"}, {"y"}), "kernel_shape", {2, 2});
       },
       {"(MaxPool)", "more than 16 bits"}},
      {[](Model &m) {
         auto &node = m.node("MaxPool", {"x"}, {"z", "y"});
         setInts(node, "kernel_shape", {2000});
         setInts(node, "pads", {2000, 2000});
       },
       {"(MaxPool)", "windows of 2000 elements", "up to 1024"}},
      {[](Model &m) {
         setInts(m.node("MaxUnpool", {"x", "n"}, {"y"}), "kernel_shape", {2});
       },
       {"(MaxUnpool)", "a place for each of them", "2x6 for shape 2x6x8"}},
      {[](Model &m) {
         m.integers("places", {2, 1, 2}, {0, 1, 2, 3});
         m.weights("w", {2, 1, 2});
         setInts(m.node("MaxUnpool", {"w", "places"}, {"y"}), "kernel_shape", {2, 2});
       },
       {"(MaxUnpool)", "kernel_shape does not fit", "2x1x2"}},
      {[](Model &m) {
         m.integers("places", {2, 1, 2}, {0, 1, 2, 3});
         m.weights("w", {2, 1, 2});
         auto &node = m.node("MaxUnpool", {"w", "places"}, {"y"});
         setInts(node, "kernel_shape", {1});
         setInts(node, "pads", {1, 1});
       },
       {"(MaxUnpool)", "makes an image of shape 2x1x0"}},
      {[](Model &m) {
         m.integers("places", {2, 1, 2}, {0, 1, 2, 3});
         m.weights("w", {2, 1, 2});
         known(m, "shape", {2, 1, 2});
         setInts(m.node("MaxUnpool", {"w", "places", "shape"}, {"y"}), "kernel_shape", {2});
       },
       {"(MaxUnpool)", "does not hold an image of shape 2x1x3"}},
  });
}

TEST(Refusals, Samples) {
  expectRefusals({
      {[](Model &m) {
         m.node("GridSample", {"x", "x"}, {"y"});
       },
       {"(GridSample)", "a grid of shape 2x6x8 does not fit an image of shape 2x6x8"}},
      {[](Model &m) {
         m.node("RoiAlign", {"x", "x", "n"}, {"y"});
       },
       {"(RoiAlign)", "takes images [N, C, H, W]"}},
      {[](Model &m) {
         m.weights("image", {2, 1, 4, 4});
         m.weights("boxes", {2, 4});
         known(m, "places", {0, 1});
         m.node("RoiAlign", {"image", "boxes", "places"}, {"y"});
       },
       {"(RoiAlign)", "sampling_ratio of 0 depends on the regions", "export the model with a positive one"}},
      {[](Model &m) {
         m.weights("image", {2, 1, 4, 4});
         m.weights("boxes", {2, 4});
         known(m, "places", {0, 1});
         setText(m.node("RoiAlign", {"image", "boxes", "places"}, {"y"}), "mode", "median");
       },
       {"(RoiAlign)", "mode 'median'"}},
      {[](Model &m) {
         m.weights("image", {2, 1, 4, 4});
         m.weights("w", {1, 1, 2, 2});
         m.weights("offsets", {2, 8, 4, 4});
         m.node("DeformConv", {"image", "w", "offsets"}, {"y"});
       },
       {"(DeformConv)", "offsets of shape 2x8x4x4 do not fit together"}},
  });
}

TEST(Refusals, Normalization) {
  expectRefusals({
      {[](Model &m) {
         m.weights("w", {5});
         m.node("BatchNormalization", {"x", "w", "w", "w", "w"}, {"y"});
       },
       {"(BatchNormalization)", "an entry for each of 6 channels"}},
      {[](Model &m) {
         setInts(m.node("MeanVarianceNormalization", {"x"}, {"y"}), "axes", {0, 3});
       },
       {"(MeanVarianceNormalization)", "axis 3 is out of range"}},
      {[](Model &m) { setInt(m.node("LRN", {"x"}, {"y"}), "size", 0); }, {"(LRN)", "a size of 1 to 1024"}},
      {[](Model &m) {
         m.weights("w", {5});
         setInt(m.node("GroupNormalization", {"x", "w", "w"}, {"y"}), "num_groups", 2);
       },
       {"(GroupNormalization)", "each of 6 channels"}},
  });
  expectRefusals({{[](Model &m) {
                     m.weights("w", {6});
                     m.node("BatchNormalization", {"x", "w", "w", "w", "w"}, {"y", "mean", "variance", "a", "b"});
                   },
                   {"(BatchNormalization)", "before opset 14"}}},
                 9);
}

TEST(Refusals, Attention) {
  expectRefusals({
      {[](Model &m) {
         auto &node = m.node("Attention", {"x", "x", "x", "", "x", "x"}, {"y"});
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
       },
       {"(Attention)", "past keys and values must have the shape"}},
      {[](Model &m) {
         auto &node = m.node("Attention", {"x", "x", "x"}, {"y"});
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
         setInt(node, "left_window_size", -2);
       },
       {"(Attention)", "window sizes"}},
      {[](Model &m) {
         auto &node = m.node("Attention", {"x", "x", "x", "", "", "", "n"}, {"y"});
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
       },
       {"(Attention)", "nonpad_kv_seqlen", "each row"}},
      {[](Model &m) {
         auto &node = m.node("Attention", {"x", "x", "x"}, {"y", "", "", "scores"});
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
         setInt(node, "qk_matmul_output_mode", 4);
       },
       {"(Attention)", "qk_matmul_output_mode 4"}},
  });
}

constexpr const char *kOrt = "com.microsoft";

TEST(Refusals, FusedProducts) {
  expectRefusals({
      {[](Model &m) {
         m.weights("w", {8, 4});
         m.node("Flatten", {"x"}, {"rows"});
         m.weights("w2", {48, 4});
         setText(m.node("FusedGemm", {"rows", "w2"}, {"y"}, kOrt), "activation", "Swish");
       },
       {"'n_y' (com.microsoft.FusedGemm)", "its activation 'Swish' is not known; those that are: Clip Elu"}},
      {[](Model &m) {
         m.weights("w", {8, 3});
         m.node("FusedGemm", {"x", "w"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.FusedGemm)", "its factors must have rank two"}},
      {[](Model &m) {
         m.weights("w", {8, 8, 3, 3});
         m.node("NhwcConv", {"x", "w"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.NhwcConv)", "must have four dimensions"}},
      {[](Model &m) {
         m.weights("odd", {2, 7});
         m.weights("bias", {7});
         m.node("BiasSplitGelu", {"odd", "bias"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.BiasSplitGelu)", "an even number of columns"}},
      {[](Model &m) {
         m.node("Conv", {"x", "x"}, {"y"}, "com.microsoft.nchwc");
       },
       {"'n_y' (com.microsoft.nchwc.Conv)", "for the processor that it ran on", "ORT_ENABLE_EXTENDED"}},
  });
}

TEST(Refusals, FusedNorms) {
  expectRefusals({
      {[](Model &m) {
         m.weights("gain", {8});
         m.node("GroupNorm", {"x", "gain", "gain"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.GroupNorm)", "four dimensions", "for each of its channels"}},
      {[](Model &m) {
         m.weights("gain", {8});
         m.weights("image", {2, 3, 3, 8});
         setInt(m.node("GroupNorm", {"image", "gain", "gain"}, {"y"}, kOrt), "groups", 3);
       },
       {"'n_y' (com.microsoft.GroupNorm)", "3 groups do not divide the channels"}},
      {[](Model &m) {
         m.weights("gain", {8});
         m.weights("image", {2, 1, 3, 8});
         m.weights("skip", {2, 3, 3, 8});
         setInt(m.node("SkipGroupNorm", {"image", "gain", "gain", "skip"}, {"y"}, kOrt), "groups", 2);
       },
       {"'n_y' (com.microsoft.SkipGroupNorm)", "do not broadcast to its first input"}},
      {[](Model &m) {
         m.weights("gain", {8});
         m.weights("image", {2, 1, 3, 8});
         m.weights("one", {1});
         setInt(m.node("SkipGroupNorm", {"image", "gain", "gain", "image", "one"}, {"y"}, kOrt), "groups", 2);
       },
       {"'n_y' (com.microsoft.SkipGroupNorm)", "its bias must have an entry for each channel"}},
      {[](Model &m) {
         m.weights("table", {8});
         m.node("EmbedLayerNormalization", {"n", "", "table", "table", "", "table", "table"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.EmbedLayerNormalization)", "its ids must have two dimensions and its tables two"}},
      {[](Model &m) {
         m.weights("table", {9, 8});
         m.weights("few", {3, 8});
         m.weights("gain", {8});
         m.node("EmbedLayerNormalization", {"n", "", "table", "few", "", "gain", "gain"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.EmbedLayerNormalization)", "6 tokens have no place in 3 rows"}},
  });
}

TEST(Refusals, FusedAttention) {
  expectRefusals({
      {[](Model &m) {
         m.weights("w", {8, 24});
         setInt(m.node("Attention", {"x", "w"}, {"y"}, kOrt), "num_heads", 3);
       },
       {"'n_y' (com.microsoft.Attention)", "does not have 3 heads"}},
      {[](Model &m) {
         m.weights("w", {8, 24});
         auto &node = m.node("Attention", {"x", "w"}, {"y"}, kOrt);
         setInt(node, "num_heads", 2);
         setInts(node, "qkv_hidden_sizes", {8, 4, 12});
       },
       {"'n_y' (com.microsoft.Attention)", "8x4x12 do not make up the 24 columns"}},
      {[](Model &m) {
         m.weights("w", {8, 24});
         setInt(m.node("Attention", {"x", "w", "", "", "x"}, {"y"}, kOrt), "num_heads", 2);
       },
       {"'n_y' (com.microsoft.Attention)", "has a key-value cache"}},
      {[](Model &m) {
         m.weights("w", {8, 24});
         auto &node = m.node("Attention", {"x", "w"}, {"y"}, kOrt);
         setInt(node, "num_heads", 2);
         setInt(node, "do_rotary", 1);
       },
       {"'n_y' (com.microsoft.Attention)", "do_rotary is not supported"}},
      {[](Model &m) {
         m.weights("w", {8, 24});
         known(m, "ends", {1, 2, 3, 4, 5, 6, 7});
         setInt(m.node("Attention", {"x", "w", "", "ends"}, {"y"}, kOrt), "num_heads", 2);
       },
       {"'n_y' (com.microsoft.Attention)", "its mask of shape 7 is neither [batch, keys]"}},
      {[](Model &m) {
         m.weights("w", {24});
         setInt(m.node("Attention", {"x", "w"}, {"y"}, kOrt), "num_heads", 2);
       },
       {"'n_y' (com.microsoft.Attention)", "three dimensions and its weights two"}},
      {[](Model &m) {
         m.weights("w", {8, 24});
         auto &node = m.node("Attention", {"x", "w", "", "n"}, {"y"}, kOrt);
         setInt(node, "num_heads", 2);
         setFloat(node, "mask_filter_value", -1);
       },
       {"'n_y' (com.microsoft.Attention)", "its mask_filter_value of -1 hides nothing"}},
      {[](Model &m) {
         setInt(m.node("MultiHeadAttention", {"x", "x", "x"}, {"y", "keys"}, kOrt), "num_heads", 2);
       },
       {"(com.microsoft.MultiHeadAttention)", "has a key-value cache"}},
      {[](Model &m) {
         auto &node = m.node("GroupQueryAttention", {"x", "x", "x"}, {"y"}, kOrt);
         setInt(node, "num_heads", 2);
         setInt(node, "kv_num_heads", 2);
         setInt(node, "smooth_softmax", 1);
       },
       {"'n_y' (com.microsoft.GroupQueryAttention)", "a bias or a sink"}},
      {[](Model &m) { setInt(m.node("MultiHeadAttention", {"x"}, {"y"}, kOrt), "num_heads", 2); },
       {"'n_y' (com.microsoft.MultiHeadAttention)", "are in none of the forms that it has"}},
      {[](Model &m) {
         m.weights("short", {20});
         setInt(m.node("MultiHeadAttention", {"x", "x", "x", "short"}, {"y"}, kOrt), "num_heads", 2);
       },
       {"'n_y' (com.microsoft.MultiHeadAttention)", "has columns 0 to 20, and needs those from 16 to 24"}},
      {[](Model &m) { // keys of other heads than the queries have
         m.weights("keys", {2, 6, 3, 2, 4});
         setInt(m.node("MultiHeadAttention", {"x", "keys"}, {"y"}, kOrt), "num_heads", 3);
       },
       {"'n_y' (com.microsoft.MultiHeadAttention)", "does not have 3 heads"}},
      {[](Model &m) {
         m.weights("packed", {2, 6, 2, 3, 4});
         m.weights("bias", {24});
         setInt(m.node("MultiHeadAttention", {"packed", "", "", "bias"}, {"y"}, kOrt), "num_heads", 2);
       },
       {"'n_y' (com.microsoft.MultiHeadAttention)", "a bias of packed queries, keys and values"}},
      {[](Model &m) {
         m.weights("table", {8});
         known(m, "six", {6});
         m.node("RelativePositionBias", {"table", "six", "six"}, {"y"}, kOrt);
       },
       {"'n_y' (com.microsoft.RelativePositionBias)", "the shape [buckets, heads]"}},
      {[](Model &m) {
         m.weights("table", {8, 2});
         known(m, "six", {6});
         setInt(m.node("RelativePositionBias", {"table", "six", "six"}, {"y"}, kOrt), "max_distance", 4);
       },
       {"'n_y' (com.microsoft.RelativePositionBias)",
        "its max_distance of 4 must be more than the 4 distances that have a bucket each"}},
  });
}

TEST(Refusals, States) {
  auto linear = [](Model &m, const char *rule) -> ::onnx::NodeProto & {
    auto &node = m.node("LinearAttention", {"x", "x", "x", "", "x", "x"}, {"y"});
    setText(node, "update_rule", rule);
    return node;
  };
  static const auto attention = linear;
  expectRefusals({
      {[](Model &m) {
         m.weights("w", {6, 2, 3});
         m.node("CausalConvWithState", {"x", "w"}, {"y"});
       },
       {"(CausalConvWithState)", "6x2x3 does not fit the input 2x6x8"}},
      {[](Model &m) {
         m.weights("w", {6, 1, 3});
         m.node("CausalConvWithState", {"x", "w", "", "x"}, {"y"});
       },
       {"(CausalConvWithState)", "past state must have the shape 2x6x2"}},
      {[](Model &m) {
         m.weights("w", {6, 1, 3});
         setText(m.node("CausalConvWithState", {"x", "w"}, {"y"}), "activation", "relu");
       },
       {"(CausalConvWithState)", "activation 'relu'"}},
      {[](Model &m) { attention(m, "linear"); }, {"(LinearAttention)", "numbers of heads, 0 and 0"}},
      {[](Model &m) {
         auto &node = attention(m, "gated");
         setInt(node, "q_num_heads", 3);
         setInt(node, "kv_num_heads", 3);
       },
       {"(LinearAttention)", "2x6x8 does not have 3 heads"}},
      {[](Model &m) {
         m.weights("w", {2, 1025, 8});
         auto &node = m.node("LinearAttention", {"w", "w", "w"}, {"y"});
         setText(node, "update_rule", "linear");
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
       },
       {"(LinearAttention)", "has 1025 tokens"}},
      {[](Model &m) {
         m.weights("w", {2, 5, 8});
         auto &node = m.node("LinearAttention", {"x", "x", "w"}, {"y"});
         setText(node, "update_rule", "linear");
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
       },
       {"(LinearAttention)", "differ in batch or tokens"}},
      {[](Model &m) {
         auto &node = m.node("LinearAttention", {"x", "x", "x", "x"}, {"y"});
         setText(node, "update_rule", "linear");
         setInt(node, "q_num_heads", 2);
         setInt(node, "kv_num_heads", 2);
       },
       {"(LinearAttention)", "past state must have the shape 2x2x4x4"}},
  });
}

} // namespace
} // namespace mt::onnx::test
