// Checkpoint folders like the one that was trained: every file and byte that was not trained is as it was.
#include "runtime/train/Export.h"
#include "tests/train/TestFiles.h"

#include <cstring>
#include <filesystem>

namespace mt::tests {
namespace {

using namespace train;
namespace fs = std::filesystem;

class FolderExports : public testing::Test {
protected:
  Folder folder;
  std::vector<float> trained = {1.5f, -2.0f, 0.25f, 3, 4, 5};

  static std::string floats(const std::vector<float> &values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * 4};
  }
  /// A file of tensors whose header is given as text.
  static std::string tensors(const std::string &header, const std::string &data) {
    uint64_t length = header.size();
    return std::string(reinterpret_cast<const char *>(&length), 8) + header + data;
  }
  static std::string entry(const std::string &name, const std::string &type, const std::string &shape, int begin,
                           int end) {
    return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
  }

  void SetUp() override {
    fs::create_directories(folder / "like");
    // The order of names is not that of the bytes, and there is room in front of one.
    folder.write("like/a.safetensors",
                 tensors("{\"__metadata__\":{\"format\":\"pt\"}, " + entry("model.w", "BF16", "[2,3]", 8, 20) + "," +
                             entry("frozen", "F32", "[2]", 0, 8) + "}   ",
                         floats({7, 8}) + std::string(12, 'b')));
    folder.write("like/b.safetensors", tensors("{" + entry("lm_head.weight", "BF16", "[2,3]", 0, 12) + "," +
                                                   entry("same", "BF16", "[2,3]", 12, 24) + "}",
                                               std::string(24, 'b')));
    folder.write(
        "like/model.safetensors.index.json",
        R"({"metadata": {}, "weight_map": {"model.w": "a.safetensors", "frozen": "a.safetensors", "lm_head.weight": "b.safetensors", "same": "b.safetensors"}})");
    folder.write("like/config.json", "{\"tie_word_embeddings\": true}");
    folder.write("like/tokenizer.model", std::string("\0\1\2", 3));
    folder.write("like/pytorch_model.bin", "old");
    folder.write("like/consolidated.safetensors", "old");
    folder.write("like/.gitattributes", "hidden");
    fs::create_directories(folder / "like/original");
    checkpoint({{"wrapped.model.w", {DType::f32, {2, 3}, bytesOf(trained)}}});
  }
  void checkpoint(const std::map<std::string, ArrayView> &weights) {
    fs::create_directories(folder / "run/step-3");
    std::vector<TensorInfo> all;
    for (const auto &[name, array] : weights)
      all.push_back({name, array.type, array.dims});
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(folder / "run/step-3/weight.safetensors", all);
    for (const auto &[name, array] : weights)
      ASSERT_TRUE(writer->write(array.data).ok());
    ASSERT_TRUE(writer->finish().ok());
    folder.write("run/step-3/meta.json", "{\"format\": 1, \"step\": 3, \"aliases\": {}, \"model_file\": \"\"}");
  }
  Status run(const std::string &output = "out") {
    return exportWeights({.from = folder / "run", .output = folder / output, .model = "", .like = folder / "like"});
  }
  std::string problem() {
    Status status = run();
    EXPECT_FALSE(fs::exists(folder / "out"));
    return status.ok() ? "" : status.message();
  }
};

TEST_F(FolderExports, TrainedValuesAndNothingElse) {
  Status status = run();
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string values("\xc0\x3f\x00\xc0\x80\x3e\x40\x40\x80\x40\xa0\x40", 12); // as bf16
  std::string a = readFile(folder / "like/a.safetensors"), b = readFile(folder / "like/b.safetensors");
  EXPECT_EQ(readFile(folder / "out/a.safetensors"), a.substr(0, a.size() - 12) + values);
  EXPECT_EQ(readFile(folder / "out/b.safetensors"), b.substr(0, b.size() - 24) + values + std::string(12, 'b'))
      << "a tied head is a copy, another tensor of the same bytes is none";
  for (const char *name : {"config.json", "tokenizer.model", "model.safetensors.index.json"})
    EXPECT_EQ(readFile(folder / ("out/" + std::string(name))), readFile(folder / ("like/" + std::string(name))))
        << name;
  size_t entries = 0;
  for ([[maybe_unused]] const auto &found : fs::directory_iterator(folder / "out"))
    ++entries;
  EXPECT_EQ(entries, 5u);
  EXPECT_NE(run().message().find("the folder is not empty"), std::string::npos);
}

TEST_F(FolderExports, WithoutAnIndexThereIsOneFile) {
  fs::remove(folder / "like/model.safetensors.index.json");
  fs::rename(folder / "like/a.safetensors", folder / "like/model.safetensors");
  ASSERT_TRUE(run("new/").ok());
  EXPECT_TRUE(fs::exists(folder / "new/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "new/b.safetensors"));
}

TEST_F(FolderExports, LinksAreFollowed) { // as the hub's cache has them
  fs::create_directories(folder / "snapshots/1");
  for (const auto &entry : fs::directory_iterator(folder / "like"))
    fs::create_symlink(entry.path(), folder / ("snapshots/1/" + entry.path().filename().string()));
  Status status =
      exportWeights({.from = folder / "run", .output = folder / "out", .model = "", .like = folder / "snapshots/1"});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "out/a.safetensors")));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "out/config.json")));
}

TEST_F(FolderExports, Refused) {
  const std::string like = folder / "like";
  checkpoint({{"other", {DType::f32, {2, 3}, bytesOf(trained)}}});
  EXPECT_EQ(problem(), "--like " + like + ": has no tensor for 'other': name the folder that was trained");
  checkpoint({{"model.w", {DType::f32, {3, 2}, bytesOf(trained)}}});
  EXPECT_EQ(
      problem(),
      like +
          "/a.safetensors: tensor 'model.w' is [2, 3] there and [3, 2] in the run: name the folder that was trained");
  checkpoint({{"model.w", {DType::f32, {2, 3}, bytesOf(trained)}}, {"x.same", {DType::f32, {2, 3}, bytesOf(trained)}}});
  EXPECT_EQ(problem(), "--like " + like + ": has no tensor for 'x.same': name the folder that was trained")
      << "names are the folder's, or all of them are wrapped";

  checkpoint({{"model.w", {DType::f32, {2, 3}, bytesOf(trained)}}});
  folder.write("like/model.safetensors.index.json", R"({"weight_map": {"model.w": "a.safetensors"}})");
  folder.write("like/a.safetensors", tensors("{" + entry("model.w", "I8", "[2,3]", 0, 6) + "}", "abcdef"));
  EXPECT_EQ(problem(), like + "/a.safetensors: tensor 'model.w' is of type i8, which holds no trained weights");
  folder.write("like/a.safetensors",
               tensors("{" + entry("model.w", "BF16", "[2,3]", 0, 12) + "," + entry("v", "F32", "[2]", 8, 16) + "}",
                       std::string(16, 'b')));
  EXPECT_EQ(problem(), like + "/a.safetensors: its tensors overlap");
  fs::remove(folder / "like/model.safetensors.index.json");
  folder.write("like/b.safetensors", readFile(folder / "like/a.safetensors"));
  EXPECT_EQ(problem(), like + "/b.safetensors: tensor 'model.w' is also in " + like +
                           "/a.safetensors; keep one of the files, or the index of those that belong together");

  folder.write("like/model.safetensors.index.json", R"({"weight_map": {"model.w": "../a.safetensors"}})");
  EXPECT_EQ(problem(), like + "/model.safetensors.index.json: tensor 'model.w' is in \"../a.safetensors\", which is "
                              "no .safetensors file of the folder");
  folder.write("like/model.safetensors.index.json", "[]");
  EXPECT_EQ(problem(), like + "/model.safetensors.index.json: has no weight_map");
  fs::remove(folder / "like/model.safetensors.index.json");
  for (const char *name : {"a", "b", "consolidated"})
    fs::remove(folder / ("like/" + std::string(name) + ".safetensors"));
  EXPECT_EQ(problem(),
            like + ": holds pytorch_model.bin and no *.safetensors file; load it with transformers and save it again: "
                   "AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)");
  fs::remove(folder / "like/pytorch_model.bin");
  EXPECT_EQ(problem(),
            like + ": holds no *.safetensors file; name a checkpoint folder, or convert it to safetensors first");
  EXPECT_FALSE(
      exportWeights({.from = folder / "run", .output = folder / "out", .model = "", .like = folder / "none"}).ok());
}

TEST_F(FolderExports, ABrokenConfigurationIsSaid) {
  folder.write("like/config.json", "[");
  EXPECT_EQ(problem(), folder / "like" + std::string("/config.json: is not a JSON object"));
}

} // namespace
} // namespace mt::tests
