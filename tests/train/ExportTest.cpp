// Export: the reference models with other weights in place, and small models whose values lie elsewhere.
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Export.h"
#include "runtime/train/ExportOnnx.h"
#include "tests/train/TestFiles.h"

#include <cstring>

namespace mt::tests {
namespace {

using namespace train;

/// A folder that looks like a checkpoint of these weights.
void writeCheckpoint(const Folder &folder, const std::map<std::string, ArrayView, std::less<>> &weights, const std::string &model,
                     const std::string &aliases = "{}") {
  std::filesystem::create_directories(folder / "run/step-3");
  std::vector<TensorInfo> tensors;
  for (const auto &[name, array] : weights)
    tensors.push_back({name, array.type, array.dims});
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder / "run/step-3/weight.safetensors", tensors);
  for (const auto &[name, array] : weights)
    ASSERT_TRUE(writer->write(array.data).ok());
  ASSERT_TRUE(writer->finish().ok());
  folder.write("run/step-3/meta.json", "{\"format\": 1, \"step\": 3, \"aliases\": " + aliases + ", \"model_file\": \"" + model + "\"}");
}

std::string rangeOf(const OnnxFile &model, Range range) {
  return {reinterpret_cast<const char *>(model.file.bytes().data()) + range.begin, range.size()};
}

class ReferenceModels : public testing::TestWithParam<const char *> {};

TEST_P(ReferenceModels, TrainedWeightsReplaceTheirBytesAndNothingElse) {
  std::string folderOfCase = std::string(MT_GOLDEN) + "/" + GetParam();
  if (!std::filesystem::exists(folderOfCase))
    GTEST_SKIP() << "no " << folderOfCase;
  Folder folder;
  Result<NpzFile> final = NpzFile::open(folderOfCase + "/final.npz");
  ASSERT_TRUE(final.ok()) << final.status().message();
  writeCheckpoint(folder, final->arrays(), folderOfCase + "/model.onnx");
  Status status = exportWeights({folder / "run", folder / "out.onnx", ""});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx.data"));

  Result<OnnxFile> before = OnnxFile::open(folderOfCase + "/model.onnx"), after = OnnxFile::open(folder / "out.onnx");
  ASSERT_TRUE(after.ok()) << after.status().message();
  ASSERT_EQ(before->initializers.size(), after->initializers.size());
  ASSERT_EQ(before->file.size(), after->file.size());
  std::string bytes = readFile(folder / "out.onnx"), original = readFile(folderOfCase + "/model.onnx");
  size_t replaced = 0;
  for (const Initializer &tensor : after->initializers)
    if (const ArrayView *want = final->find(tensor.name)) {
      EXPECT_EQ(rangeOf(*after, tensor.raw), std::string(reinterpret_cast<const char *>(want->data.data()), want->data.size()));
      bytes.replace(tensor.raw.begin, tensor.raw.size(), original, tensor.raw.begin, tensor.raw.size());
      ++replaced;
    }
  EXPECT_EQ(replaced, final->arrays().size());
  EXPECT_EQ(bytes, original);
}

INSTANTIATE_TEST_SUITE_P(Golden, ReferenceModels, testing::Values("gpt2", "gpt2-clip", "llama", "llama-opset23", "mlp"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

std::string varintField(int number, uint64_t value) { return wireVarint(static_cast<uint64_t>(number) << 3) + wireVarint(value); }
std::string entry(const std::string &key, const std::string &value) {
  return wireField(13, wireField(1, key) + wireField(2, value));
}
/// TensorProto of [3] with a name, a type, and what says where its values are.
std::string tensor(const std::string &name, int type, const std::string &values) {
  return wireField(5, varintField(1, 3) + varintField(2, static_cast<uint64_t>(type)) + wireField(8, name) + values);
}
std::string floats(const std::vector<float> &values) { return {reinterpret_cast<const char *>(values.data()), values.size() * 4}; }

class Exports : public testing::Test {
protected:
  Folder folder;
  std::vector<float> trained = {1.5f, -2.0f, 0.25f};

  std::string model(const std::string &initializers, const std::string &functions = "") {
    std::string graph = wireField(2, "name") + initializers + wireField(1, wireField(4, "Relu"));
    return folder.write("model.onnx", varintField(1, 8) + functions + wireField(7, graph) + wireField(8, "opset"));
  }
  Status run(const std::vector<std::string> &names, const std::string &output = "out.onnx") {
    std::map<std::string, ArrayView, std::less<>> weights;
    for (const std::string &name : names)
      weights[name] = {DType::f32, {3}, bytesOf(trained)};
    writeCheckpoint(folder, weights, folder / "model.onnx");
    return exportWeights({folder / "run", folder / output, ""});
  }
  std::string data(const Initializer &tensor) {
    std::string all = readFile(folder / tensor.externalData.at("location"));
    return all.substr(std::stoul(tensor.externalData.at("offset")), std::stoul(tensor.externalData.at("length")));
  }
};

TEST_F(Exports, ValuesThatAreNotInTheFileGoBesideIt) {
  folder.write("frozen.data", "........" + floats({7, 8, 9}));
  std::string where = varintField(14, 1);
  std::string single;
  for (float value : {4.0f, 5.0f, 6.0f})
    single += "\x25" + floats({value}); // float_data, one field each
  model(tensor("raw", 1, wireField(9, floats({1, 2, 3}))) + tensor("packed", 1, wireField(4, floats({1, 2, 3}))) +
        tensor("single", 1, single) + tensor("half", 10, wireField(9, "123456")) +
        tensor("made", 1, entry("location", "model.onnx.data") + entry("mt.generator", "ones") + where) +
        tensor("frozen", 1, entry("location", "frozen.data") + entry("offset", "8") + entry("length", "12") + where) +
        tensor("frozenMade", 1, entry("location", "model.onnx.data") + entry("mt.generator", "ones") + where) +
        tensor("frozenConstant", 1,
               entry("location", "model.onnx.data") + entry("mt.generator", "constant") + entry("mt.value", "0.5") +
                   where) +
        tensor("kept", 1, wireField(9, floats({1, 1, 2}))));
  Status status = run({"raw", "packed", "single", "half", "made"});
  ASSERT_TRUE(status.ok()) << status.message();
  Result<OnnxFile> out = OnnxFile::open(folder / "out.onnx");
  ASSERT_TRUE(out.ok()) << out.status().message();
  std::map<std::string, Initializer> found;
  for (const Initializer &initializer : out->initializers)
    found[initializer.name] = initializer;
  ASSERT_EQ(found.size(), 9u);
  EXPECT_EQ(rangeOf(*out, found["raw"].raw), floats(trained));
  EXPECT_EQ(rangeOf(*out, found["packed"].raw), floats(trained));
  EXPECT_EQ(rangeOf(*out, found["kept"].raw), floats({1, 1, 2}));
  EXPECT_EQ(rangeOf(*out, found["half"].raw), std::string("\x00\x3e\x00\xc0\x00\x34", 6));
  EXPECT_EQ(data(found["single"]), floats(trained));
  EXPECT_EQ(data(found["made"]), floats(trained));
  EXPECT_EQ(data(found["frozen"]), floats({7, 8, 9}));
  EXPECT_EQ(data(found["frozenMade"]), floats({1, 1, 1}));
  EXPECT_EQ(data(found["frozenConstant"]), floats({0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(found["made"].dims, (Dims{3}));
  EXPECT_FALSE(found["made"].externalData.contains("mt.generator"));
}

TEST_F(Exports, ValuesOfNodesAndFunctionsGoBesideItToo) {
  folder.write("constants.onnx.data", floats({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  auto outside = [&](int field, const std::string &name, int at) {
    std::string values =
        entry("location", "constants.onnx.data") + entry("offset", std::to_string(at * 4)) + varintField(14, 1);
    return wireField(field, varintField(1, 3) + varintField(2, 1) + wireField(8, name) + values);
  };
  auto node = [](const std::string &op, const std::string &attribute) {
    return wireField(4, op) + wireField(5, wireField(1, "value") + attribute);
  };
  std::string body =
      tensor("inside", 1, wireField(9, floats({1, 1, 1}))) + outside(5, "of the body", 3) + wireField(2, "body");
  std::string nodes = wireField(1, node("Constant", outside(5, "constant", 0))) +
                      wireField(1, node("Loop", wireField(6, body))) +
                      wireField(1, node("Constant", wireField(22, outside(1, "sparse", 6) + varintField(3, 9))));
  std::string function =
      wireField(25, wireField(1, "f") + wireField(7, node("Constant", outside(5, "of a function", 6))));
  model(nodes + tensor("w", 1, wireField(9, floats({1, 2, 3}))), function);
  std::filesystem::create_directories(folder / "copy");
  Status status = run({"w"}, "copy/out.onnx");
  ASSERT_TRUE(status.ok()) << status.message();

  Result<OnnxFile> out = OnnxFile::open(folder / "copy/out.onnx");
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->locations, (std::set<std::string>{"out.onnx.data"}));
  EXPECT_EQ(rangeOf(*out, out->initializers[0].raw), floats(trained));
  ASSERT_EQ(out->nested.size(), 4u);
  std::map<std::string, std::string> found;
  std::string data = readFile(folder / "copy/out.onnx.data");
  for (const NestedTensors &nested : out->nested) {
    Result<std::string> same = out->withMoved(nested, [&](const Initializer &tensor) -> Result<std::string> {
      found[tensor.name] = data.substr(std::stoul(tensor.entry("offset")), std::stoul(tensor.entry("length")));
      return rangeOf(*out, tensor.content);
    });
    ASSERT_TRUE(same.ok()) << same.status().message();
    EXPECT_EQ(*same, rangeOf(*out, nested.field));
  }
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"constant", floats({1, 2, 3})},
                                                       {"of the body", floats({4, 5, 6})},
                                                       {"sparse", floats({7, 8, 9})},
                                                       {"of a function", floats({7, 8, 9})}}));

  EXPECT_ERROR(run({"w"}, "constants.onnx"), "overwrite");
}

TEST_F(Exports, TensorsAlone) {
  model(tensor("w", 1, wireField(9, floats({1, 2, 3}))));
  ASSERT_TRUE(run({"w"}, "out.safetensors").ok());
  ASSERT_TRUE(run({"w"}, "out.npz").ok());
  Result<SafetensorsFile> tensors = SafetensorsFile::open(folder / "out.safetensors");
  Result<NpzFile> arrays = NpzFile::open(folder / "out.npz");
  for (const ArrayView *array : {tensors->find("w"), arrays->find("w")}) {
    ASSERT_TRUE(array);
    EXPECT_EQ(array->dims, (Dims{3}));
    EXPECT_EQ(std::memcmp(array->data.data(), trained.data(), 12), 0);
  }
}

/// A model that holds one matrix four times, in every way that values are stored; and its names in the module.
class TiedExports : public Exports {
protected:
  std::vector<float> master = {1, 2, 3, 4, 5, 6}, turned = {1, 4, 2, 5, 3, 6};
  const std::string kAliases = R"({"w": [{"kind": "initializer", "name": "copy", "transposed": false},
    {"kind": "initializer", "name": "turned", "transposed": true}, {"kind": "initializer", "name": "outside", "transposed": true},
    {"kind": "module", "name": "net.w", "transposed": true}]})";

  static std::string matrix(const std::string &name, uint64_t rows, uint64_t columns, int type, const std::string &values) {
    return wireField(5, varintField(1, rows) + varintField(1, columns) + varintField(2, static_cast<uint64_t>(type)) + wireField(8, name) + values);
  }
  void SetUp() override {
    folder.write("old.data", std::string(24, 'x'));
    model(matrix("w", 2, 3, 1, wireField(9, std::string(24, 'a'))) + matrix("copy", 2, 3, 10, wireField(9, std::string(12, 'b'))) +
          matrix("turned", 3, 2, 1, wireField(9, std::string(24, 'c'))) +
          matrix("outside", 3, 2, 1, entry("location", "old.data") + varintField(14, 1)) +
          matrix("other", 3, 2, 1, wireField(9, std::string(24, 'a'))));
  }
  Status run(const std::string &output, const std::string &aliases) {
    writeCheckpoint(folder, {{"w", {DType::f32, {2, 3}, bytesOf(master)}}}, folder / "model.onnx", aliases);
    return exportWeights({folder / "run", folder / output, ""});
  }
};

TEST_F(TiedExports, EveryCopyInAModelHasTheTrainedValue) {
  Status status = run("out.onnx", kAliases);
  ASSERT_TRUE(status.ok()) << status.message();
  Result<OnnxFile> out = OnnxFile::open(folder / "out.onnx");
  ASSERT_TRUE(out.ok()) << out.status().message();
  std::map<std::string, Initializer> found;
  for (const Initializer &initializer : out->initializers)
    found[initializer.name] = initializer;
  EXPECT_EQ(rangeOf(*out, found["w"].raw), floats(master));
  EXPECT_EQ(rangeOf(*out, found["turned"].raw), floats(turned));
  EXPECT_EQ(rangeOf(*out, found["copy"].raw), std::string("\x00\x3c\x00\x40\x00\x42\x00\x44\x00\x45\x00\x46", 12)); // as f16
  EXPECT_EQ(data(found["outside"]), floats(turned));
  EXPECT_EQ(rangeOf(*out, found["other"].raw), std::string(24, 'a')) << "of the same bytes, and another tensor";
}

TEST_F(TiedExports, TensorsHaveEveryNameArraysThoseOfInitializers) {
  ASSERT_TRUE(run("out.safetensors", kAliases).ok());
  ASSERT_TRUE(run("out.npz", kAliases).ok());
  Result<SafetensorsFile> tensors = SafetensorsFile::open(folder / "out.safetensors");
  Result<NpzFile> arrays = NpzFile::open(folder / "out.npz");
  EXPECT_EQ(tensors->tensors().size(), 5u);
  EXPECT_EQ(arrays->arrays().size(), 4u);
  EXPECT_FALSE(arrays->find("net.w"));
  for (const char *name : {"w", "copy", "turned", "outside", "net.w"})
    for (const ArrayView *array : {tensors->find(name), arrays->find(name)}) {
      if (!array && name == std::string("net.w"))
        continue;
      ASSERT_TRUE(array) << name;
      bool same = name == std::string("w") || name == std::string("copy");
      EXPECT_EQ(array->dims, same ? (Dims{2, 3}) : (Dims{3, 2})) << name;
      EXPECT_EQ(std::memcmp(array->data.data(), (same ? master : turned).data(), 24), 0) << name;
    }
}

// More than one piece, and rows that do not divide into pieces.
TEST_F(TiedExports, LargeTransposes) {
  constexpr int64_t kRows = 1000, kColumns = 333;
  std::vector<float> large(kRows * kColumns);
  for (size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<float>(i);
  writeCheckpoint(folder, {{"w", {DType::f32, {kRows, kColumns}, bytesOf(large)}}}, folder / "model.onnx",
                  R"({"w": [{"kind": "module", "name": "t", "transposed": true}]})");
  ASSERT_TRUE(exportWeights({folder / "run", folder / "out.safetensors", ""}).ok());
  Result<SafetensorsFile> tensors = SafetensorsFile::open(folder / "out.safetensors");
  const ArrayView *array = tensors->find("t");
  ASSERT_EQ(array->dims, (Dims{kColumns, kRows}));
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      float value;
      std::memcpy(&value, array->data.data() + (j * kRows + i) * 4, 4);
      ASSERT_EQ(value, large[static_cast<size_t>(i * kColumns + j)]) << i << " " << j;
    }
}

TEST_F(TiedExports, DamagedAliasesAreRefused) {
  for (const char *aliases : {"[]x", "3", R"({"w": [3]})", R"({"w": [{"kind": "cousin", "name": "copy", "transposed": true}]})",
                              R"({"w": [{"kind": "module", "name": "copy"}]})"})
    EXPECT_FALSE(run("out.npz", aliases).ok()) << aliases;
  EXPECT_ERROR(run("out.npz", R"({"w": [{"kind": "module", "name": "w", "transposed": true}]})"), "both have the name 'w'");
  EXPECT_ERROR(run("out.onnx", R"({"w": [{"kind": "initializer", "name": "none", "transposed": true}]})"), "it has no parameter 'none'");
  EXPECT_ERROR(run("out.onnx", R"({"w": [{"kind": "initializer", "name": "copy", "transposed": true}]})"), "parameter 'copy' is [2, 3] there");
  writeCheckpoint(folder, {{"w", {DType::f32, {6}, bytesOf(master)}}}, folder / "model.onnx", kAliases);
  EXPECT_ERROR(exportWeights({folder / "run", folder / "out.npz", ""}), "'turned' cannot be the transpose of 'w' [6]");
}

// Those that were written before there were aliases.
TEST_F(TiedExports, CheckpointsWithoutAliasesAreWarnedAbout) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(run("out.npz", "null").ok());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("copies under such names keep their old values"), std::string::npos);
}

TEST_F(Exports, CheckpointsHoldMasters) {
  model(tensor("w", 1, wireField(9, floats({1, 2, 3}))));
  ASSERT_TRUE(run({"w"}, "out.npz").ok());
  std::vector<TensorInfo> tensors = {{"w", DType::bf16, {3}}};
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder / "run/step-3/weight.safetensors", tensors);
  ASSERT_TRUE(writer->write(bytesOf(std::vector<uint16_t>(3))).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_ERROR(exportWeights({folder / "run", folder / "out.npz", ""}), "parameter 'w' is bf16, not f32");
}

TEST_F(Exports, WhatIsWrongIsSaid) {
  model(tensor("w", 1, wireField(9, floats({1, 2, 3}))));
  EXPECT_ERROR(run({"v"}), "model.onnx: it has no parameter 'v'");
  EXPECT_ERROR(run({"w"}, "out.txt"), "the ending says what to write");
  EXPECT_ERROR(exportWeights({folder / "nowhere", folder / "out.onnx", ""}), "nowhere: no complete checkpoint");
  EXPECT_FALSE(run({"w"}, "no/such/folder/out.onnx").ok());
  std::filesystem::remove(folder / "model.onnx");
  EXPECT_ERROR(run({"w"}), "say where it is with --model");
  model(tensor("w", 1, wireField(9, floats({1, 2, 3}))) +
        tensor("outside", 1, entry("location", "../secret") + varintField(14, 1)));
  EXPECT_ERROR(run({"w"}), "outside the model's folder");
  model(tensor("w", 1, wireField(9, floats({1, 2, 3}))) +
        tensor("made", 1, entry("location", "x") + entry("mt.generator", "dice") + varintField(14, 1)));
  EXPECT_ERROR(run({"w"}), "'made' is made by 'dice', which is no generator");
  EXPECT_ERROR(run({"w"}, "run/step-3/weight.safetensors"), "this would overwrite a file of a checkpoint, ");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx.data"));
}

TEST_F(Exports, FilesThatAreNoModelsAreRefused) {
  std::string good = readFile(model(tensor("w", 1, wireField(9, floats({1, 2, 3})))));
  for (size_t length = 0; length < good.size() - 7; ++length)
    EXPECT_FALSE(OnnxFile::open(folder.write("cut.onnx", good.substr(0, length))).ok()) << length;
  std::string deep; // graphs within attributes of nodes
  for (int i = 0; i < 1000; ++i)
    deep = wireField(1, wireField(5, wireField(6, deep)));
  EXPECT_ERROR(OnnxFile::open(folder.write("deep.onnx", wireField(7, deep))).status(), "lies within 100 others");
}

} // namespace
} // namespace mt::tests
