// Text to tokens: mtrun tokenize and --tokenizer, what they make, and what is said about what they cannot.
#include "runtime/train/Tokenize.h"
#include "runtime/base/Json.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/Corpus.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/Packs.h"
#include "tests/train/TestFiles.h"

#include <nlohmann/json.hpp>

namespace mt::tests {
namespace {

using namespace train;
namespace fs = std::filesystem;

/// Characters a to d and two pairs of them; "." ends a document where the folder says so.
constexpr const char *kTokenizer =
    R"({"model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "c": 3,
  "d": 4, " ": 5, "ab": 6, "cd": 7, ".": 8}, "merges": [["a", "b"], ["c", "d"]]}})";

class Tokenizing : public testing::Test {
protected:
  Tokenizing() {
    fs::create_directory(folder / "hf");
    fs::create_directory(folder / "text");
    folder.write("hf/tokenizer.json", kTokenizer);
    folder.write("hf/tokenizer_config.json", R"({"eos_token": "."})");
    options = {folder / "text", folder / "tokens", folder / "hf", 0, uint64_t(128) << 20};
  }
  Status run() {
    testing::internal::CaptureStdout();
    Status status = tokenize(options);
    said = testing::internal::GetCapturedStdout();
    return status;
  }
  std::vector<int64_t> tokensOf(const std::string &path, const std::string &tokenizer, int64_t sequence) {
    plan::Plan plan = languagePlan(1, sequence, 1);
    Result<std::unique_ptr<Corpus>> corpus = openCorpus(path, tokenizer, plan);
    EXPECT_TRUE(corpus.ok()) << corpus.status().message();
    std::vector<int64_t> all, ids(static_cast<size_t>(sequence)), labels(ids.size());
    for (int64_t row = 0; corpus && row < (*corpus)->rows(); ++row) {
      std::byte *to[3] = {reinterpret_cast<std::byte *>(ids.data()), reinterpret_cast<std::byte *>(labels.data()),
                          nullptr};
      EXPECT_TRUE((*corpus)->read(row, to).ok());
      all.insert(all.end(), ids.begin(), ids.end());
      all.push_back(labels.back());
    }
    return all;
  }
  /// Names of a folder's files.
  static std::vector<std::string> filesIn(const std::string &path) {
    std::vector<std::string> names;
    for (const fs::directory_entry &entry : fs::directory_iterator(path))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  nlohmann::json index() { return *parseJson(readFile(folder / "tokens/index.json")); }

  Folder folder;
  TokenizeOptions options;
  std::string said;
};

using Numbers = std::vector<int64_t>;

TEST_F(Tokenizing, MakesAFolderThatTrainingReads) {
  folder.write("text/a.txt", "abcd");
  folder.write("text/b.txt", "ba x");
  folder.write("text/c.txt", "");
  ASSERT_TRUE(run().ok());
  const Numbers want = {6, 7, 8, 2, 1, 5, 0, 8, 8};
  EXPECT_EQ(tokensOf(folder / "tokens", "", 8), want);
  EXPECT_EQ(tokensOf(folder / "text", folder / "hf", 8), want) << "text read directly is the same";
  EXPECT_EQ(filesIn(folder / "tokens"), (std::vector<std::string>{"index.json", "tokens-00000.bin"}));
  EXPECT_EQ(index()["type"], "uint16");
  EXPECT_EQ(index()["tokens"], 9);
  EXPECT_EQ(index()["documents"], 3);
  EXPECT_EQ(index()["tokenizer"]["vocabulary"], 9);
  EXPECT_EQ(index()["tokenizer"]["end"], 8);
  EXPECT_EQ(index()["files"][0]["tokens"], 9);
  EXPECT_NE(said.find("9 tokens (uint16) of 3 documents, 8 B of text, in 1 files"), std::string::npos) << said;
  EXPECT_EQ(filesIn(folder.path), (std::vector<std::string>{"hf", "text", "tokens"})) << "nothing else remains";
}

TEST_F(Tokenizing, LinesOfJsonAreDocuments) {
  std::string lines = "{\"text\": \"ab\"}\n\n{\"id\": 7, \"text\": \"c\\u0064\"}\n";
  options.corpus = folder.write("docs.jsonl", lines);
  ASSERT_TRUE(run().ok());
  const Numbers want = {6, 8, 7, 8};
  EXPECT_EQ(tokensOf(folder / "tokens", "", 3), want);
  EXPECT_EQ(tokensOf(options.corpus, folder / "hf", 3), want);
}

/// Rows of samples as (tokens, labels); padding is 0, what does not count -100.
TEST_F(Tokenizing, PromptsAreNoTargets) {
  const std::string lines = R"({"prompt": "ab", "completion": "cd", "id": 3}
{"completion": "b", "prompt": ""}
{"prompt": "abababab", "completion": "cdcdcd"}
)";
  options.corpus = folder.write("samples.jsonl", lines);
  plan::Plan plan = languagePlan(1, 6, 1);
  plan.inputs[1].ignored = -100;
  using Rows = std::vector<std::pair<Numbers, Numbers>>;
  auto rows = [&](const std::string &tokenizer) {
    testing::internal::CaptureStderr();
    Result<std::unique_ptr<Corpus>> corpus = openCorpus(options.corpus, tokenizer, plan);
    said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(corpus.ok()) << corpus.status().message();
    Rows all;
    for (int64_t row = 0; corpus && row < (*corpus)->rows(); ++row) {
      Numbers ids(6), labels(6);
      std::byte *to[3] = {reinterpret_cast<std::byte *>(ids.data()), reinterpret_cast<std::byte *>(labels.data()),
                          nullptr};
      EXPECT_TRUE(readRow(**corpus, plan, row, to).ok());
      all.emplace_back(ids, labels);
    }
    return all;
  };
  const int64_t n = -100;
  const Rows want = {{{6, 7, 0, 0, 0, 0}, {7, 8, n, n, n, n}}, // the completion, and the token that ends it
                     {{2, 0, 0, 0, 0, 0}, {8, n, n, n, n, n}}, // no prompt: its first token is nobody's successor
                     {{6, 6, 6, 6, 7, 7}, {n, n, n, 7, 7, 7}}};
  EXPECT_EQ(rows(folder / "hf"), want);
  EXPECT_NE(said.find("1 of 3 samples are longer than the sequence of 6 tokens and lose their ends"), std::string::npos)
      << said;
  EXPECT_ERROR(run(), "samples.jsonl: its lines are samples - prompts and completions, or chats -");

  // What the tokenizer puts before a sequence stands before a sample.
  auto tokenizer = *parseJson(kTokenizer);
  tokenizer["post_processor"] = *parseJson(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "?", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
    "special_tokens": {"?": {"id": "?", "ids": [0], "tokens": ["?"]}}})");
  folder.write("hf/tokenizer.json", tokenizer.dump());
  EXPECT_EQ(rows(folder / "hf")[1], (Rows::value_type{{0, 2, 0, 0, 0, 0}, {2, 8, n, n, n, n}}));

  plan.inputs[1].targets = {1, 0}; // a model that looks for successors itself
  EXPECT_EQ(rows(folder / "hf")[0].first, (Numbers{0, 6, 7, 8, 0, 0}));
  EXPECT_EQ(rows(folder / "hf")[0].second, (Numbers{n, n, 7, 8, n, n}));
}

TEST_F(Tokenizing, SamplesShareRows) {
  plan::Plan plan = languagePlan(1, 6, 1);
  for (const char *name : {"position_ids", "segment_ids"})
    plan.inputs.push_back({plan::InputKind::data, name, DType::i64, {1, 6}, plan.inputs[0].parts, 0});
  const std::string path = folder.write("s.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                                                   "\n"
                                                   R"({"prompt": "", "completion": ""})"
                                                   "\n"
                                                   R"({"prompt": "a", "completion": "bcd"})"
                                                   "\n");
  Result<std::unique_ptr<Corpus>> samples = openCorpus(path, folder / "hf", plan);
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  Packing packing;
  Result<SharedCorpus> packs = packed(std::move(*samples), "--data s.jsonl", plan, packing);
  ASSERT_TRUE(packs.ok()) << packs.status().message();
  EXPECT_EQ(packing.samples, 2) << "what has no token but the last, which is a target alone, is left out";
  ASSERT_EQ((*packs)->rows(), 1);
  RowBuffer buffer(plan);
  ASSERT_TRUE(readRow(**packs, plan, 0, buffer.destinations).ok());
  auto column = [&](size_t input) {
    const auto *values = reinterpret_cast<const int64_t *>(buffer.destinations[input]);
    return Numbers(values, values + 6);
  };
  EXPECT_EQ(column(0), (Numbers{6, 7, 1, 2, 7, 0}));
  EXPECT_EQ(column(1), (Numbers{7, 8, 2, 7, 8, -100}));
  EXPECT_EQ(column(3), (Numbers{0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(column(4), (Numbers{1, 1, 2, 2, 2, 0}));
  EXPECT_EQ((*packs)->where(0, 0, 3), path + ":3, token 1");
}

TEST_F(Tokenizing, SamplesThatAreNone) {
  plan::Plan plan = languagePlan(1, 6, 1);
  plan.inputs[1].ignored = -100;
  auto problem = [&](const std::string &lines) {
    return openCorpus(folder.write("s.jsonl", lines), folder / "hf", plan).status();
  };
  const std::string good = R"({"prompt": "a", "completion": "b"})"
                           "\n";
  EXPECT_ERROR(problem(good + R"({"text": "a"})"), "s.jsonl:2: no \"prompt\", which the first line has");
  EXPECT_ERROR(problem(good + R"({"prompt": "a"})"), "s.jsonl:2: no \"completion\"");
  EXPECT_ERROR(problem(good + R"({"prompt": ["a"], "completion": "b"})"), "s.jsonl:2: \"prompt\" must be a text");
  EXPECT_ERROR(problem(R"({"text": "abcdabcd"})"
                       "\n" +
                       good),
               "s.jsonl:2: no \"text\", nor \"prompt\"");
  plan.inputs[1].ignored = std::nullopt;
  EXPECT_ERROR(problem(good), "it has no ignore index");
  plan = languagePlan(1, 6, 1);
  plan.inputs[1].dims = {1};
  EXPECT_ERROR(problem(good), "prompts and completions are for models with a target for each token");
}

TEST_F(Tokenizing, NothingDependsOnThreadsAndSizesOfFiles) {
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += "{\"text\": \"" + std::string(static_cast<size_t>(i % 37), "abcd x"[i % 6]) + "abba\"}\n";
  options.corpus = folder.write("docs.jsonl", lines);
  Numbers first;
  std::string files;
  for (int threads : {1, 2, 7})
    for (uint64_t size : {uint64_t(4) << 10, uint64_t(1) << 20}) {
      options.output = folder / fmt::format("t{}-{}", threads, size);
      options.threads = threads;
      options.fileBytes = size;
      ASSERT_TRUE(run().ok());
      Numbers tokens = tokensOf(options.output, "", 4);
      first = first.empty() ? tokens : first;
      EXPECT_EQ(tokens, first);
      for (const std::string &name : filesIn(options.output)) {
        std::string content = readFile(options.output + "/" + name);
        EXPECT_LE(content.size(), std::max<uint64_t>(size, 1 << 14));
        EXPECT_EQ(content, readFile(fmt::format("{}/t1-{}/{}", folder.path, size, name)));
      }
    }
  EXPECT_GT(filesIn(folder / "t1-4096").size(), 5U);
}

/// Files say themselves how wide their tokens are, whatever the model's vocabulary.
TEST_F(Tokenizing, LargeVocabulariesTakeFourBytes) {
  auto tokenizer = *parseJson(kTokenizer);
  tokenizer["model"]["vocab"]["x"] = 70000;
  folder.write("hf/tokenizer.json", tokenizer.dump());
  folder.write("text/a.txt", "abcdab");
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(index()["type"], "uint32");
  EXPECT_EQ(tokensOf(folder / "tokens", "", 3), (Numbers{6, 7, 6, 8}));
  EXPECT_EQ(tokensOf(folder / "text", folder / "hf", 3), (Numbers{6, 7, 6, 8}));
}

TEST_F(Tokenizing, AByteOrderMarkIsNoLine) {
  options.corpus = folder.write("docs.jsonl", "\xef\xbb\xbf{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n");
  EXPECT_EQ(tokensOf(options.corpus, folder / "hf", 3), (Numbers{6, 8, 7, 8}));
}

TEST_F(Tokenizing, NamesAndIdsThatAreNoTokens) {
  folder.write("text/a.txt", "ab");
  folder.write("hf/tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_ERROR(run(), "hf/tokenizer_config.json: \"eos_token\" is '</s>', which is no token of the tokenizer");
  auto tokenizer = *parseJson(kTokenizer);
  tokenizer["post_processor"] = *parseJson(R"({"type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "e", "type_id": 0}}], "pair": [],
    "special_tokens": {"e": {"id": "e", "ids": [100000], "tokens": ["e"]}}})");
  folder.write("hf/tokenizer.json", tokenizer.dump());
  fs::remove(folder / "hf/tokenizer_config.json");
  EXPECT_ERROR(run(), "the post-processor puts token 100000 beside texts, and there are 9 tokens");
}

TEST_F(Tokenizing, IndicesThatAreDamaged) {
  folder.write("text/a.txt", "abcdabcd");
  ASSERT_TRUE(run().ok());
  plan::Plan plan = languagePlan(1, 2, 1);
  const std::string path = folder / "tokens/index.json";
  for (const char *files : {R"([{"name": 5, "tokens": 5}])", R"([5])",
                            R"([{"name": "tokens-00000.bin", "tokens": 5}, {"name": "", "tokens": 1}])",
                            R"([{"name": "tokens-00000.bin", "tokens": 5}, 5])"}) {
    nlohmann::json index = *parseJson(readFile(path));
    index["files"] = *parseJson(files);
    std::string before = readFile(path);
    folder.write("tokens/index.json", index.dump());
    EXPECT_ERROR(openCorpus(folder / "tokens", "", plan).status(), "tokenize again") << files;
    folder.write("tokens/index.json", before);
  }
  EXPECT_TRUE(openCorpus(folder / "tokens", "", plan).ok());
}

TEST_F(Tokenizing, OutputsThatCannotBe) {
  folder.write("text/a.txt", "abcd");
  options.output = "/dev/null";
  EXPECT_ERROR(run(), "/dev/null: it is there, and no folder: name a new folder");
  options.output = folder / "hf";
  EXPECT_ERROR(run(), "hf: the folder is not empty: name a new one, or remove what is in it");
  fs::create_directory(folder / "empty");
  const fs::path here = fs::current_path();
  fs::current_path(folder / "empty");
  options.output = ".";
  EXPECT_ERROR(run(), ".: a folder that something is mounted on, or that this runs in, cannot be replaced");
  fs::current_path(here);
  fs::create_directory_symlink(folder / "empty", folder / "link");
  options.output = folder / "link/";
  EXPECT_TRUE(run().ok());
  EXPECT_TRUE(fs::exists(folder / "empty/index.json")) << "a link is followed";
  options.output = folder / "text/a.txt/below";
  EXPECT_FALSE(run().ok());
  options.output = folder / "new/below/";
  fs::create_directories(folder / "new/below");
  EXPECT_TRUE(run().ok()) << "an empty folder may be there";
  options.output = folder / "text/inside";
  EXPECT_TRUE(run().ok()) << "folders in a corpus are no part of it";
  options.output = folder / "again";
  EXPECT_TRUE(run().ok());
  EXPECT_EQ(readFile(folder / "again/index.json"), readFile(folder / "text/inside/index.json"));
}

TEST_F(Tokenizing, InputsThatAreWrongLeaveNothing) {
  EXPECT_ERROR(run(), "CORPUS " + folder.path + "/text: the folder has no files");
  folder.write("text/a.txt", "");
  EXPECT_ERROR(run(), "text: it holds no text");
  options.corpus = folder / "nothing";
  EXPECT_ERROR(run(), "CORPUS " + folder.path + "/nothing: no such file or folder");
  options.corpus = folder.write("t.bin", "abcd");
  EXPECT_ERROR(run(), "t.bin: tokens, and no text: a tokenizer reads text files and .jsonl with \"text\"");
  options.corpus = folder.write("t.npz", "abcd");
  EXPECT_ERROR(run(), "t.npz: arrays, and no text");
  auto line = [&](const std::string &text) {
    options.corpus = folder.write("d.jsonl", "{\"text\": \"a\"}\n" + text + "\n{\"text\": \"a\"}\n");
    return run();
  };
  EXPECT_ERROR(line("{\"text\": "), "d.jsonl:2: not a JSON object on one line:");
  EXPECT_ERROR(line("[1]"), "d.jsonl:2: not a JSON object on one line: it is something else");
  EXPECT_ERROR(line("{\"body\": \"a\"}"), "d.jsonl:2: no \"text\"");
  EXPECT_ERROR(line("{\"text\": 7}"), "d.jsonl:2: \"text\" must be a text");
  options.tokenizer = folder / "none";
  EXPECT_ERROR(run(), "--tokenizer " + folder.path + "/none: no such file or folder");
  EXPECT_FALSE(fs::exists(folder / "tokens"));
  for (const std::string &name : filesIn(folder.path))
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
}

/// A word that has no token, in the later of two documents: the message names it whatever thread found it first.
TEST_F(Tokenizing, WordsWithoutTokensAreSaidWithTheirDocument) {
  folder.write("hf/tokenizer.json", R"({"pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"a": 0, ".": 1}}})");
  options.corpus = folder.write("d.jsonl", "{\"text\": \"a a\"}\n{\"text\": \"a b\"}\n{\"text\": \"a c\"}\n");
  EXPECT_ERROR(run(), "d.jsonl:2: \"b\" has no token");
}

TEST_F(Tokenizing, TokensOutsideOfTheModelAreSaid) {
  plan::Plan plan = languagePlan(1, 2, 1);
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 7;
  folder.write("text/a.txt", "abab");
  folder.write("text/b.txt", "abcd");
  folder.write("hf/tokenizer_config.json", "{}");
  EXPECT_ERROR(openCorpus(folder / "text", folder / "hf", plan).status(),
               "b.txt: token 7 of --tokenizer " + folder.path + "/hf is outside the model's vocabulary of 7");
  EXPECT_ERROR(openCorpus(folder.write("t.bin", "abcd"), folder / "hf", plan).status(), "--tokenizer is for text");
  EXPECT_ERROR(openCorpus(folder.write("a.txt", "a"), folder / "hf", plan).status(), "a.txt is too short: 1 tokens");
}

TEST_F(Tokenizing, IndexesThatDoNotFitTheirFilesAreSaid) {
  folder.write("text/a.txt", std::string(5000, 'a'));
  options.fileBytes = 4096;
  ASSERT_TRUE(run().ok());
  plan::Plan plan = languagePlan(1, 4, 1);
  auto refusal = [&] { return openCorpus(folder / "tokens", "", plan).status(); };
  EXPECT_TRUE(refusal().ok());
  EXPECT_TRUE(openCorpus(folder / "tokens/tokens-00000.bin", "", plan).ok()) << "one alone may be read";
  const std::string last = folder / "tokens/tokens-00003.bin", whole = readFile(last);
  fs::remove(last);
  EXPECT_ERROR(refusal(), "index.json: it lists tokens-00003.bin, and the folder has no more");
  folder.write("tokens/tokens-00003.bin", whole.substr(0, whole.size() - 2));
  EXPECT_ERROR(refusal(), "it says that tokens-00003.bin has");
  folder.write("tokens/tokens-00003.bin", whole);
  folder.write("tokens/tokens-00004.bin", whole);
  EXPECT_ERROR(refusal(), "index.json: it lists no more files, and the folder has tokens-00004.bin");
  folder.write("tokens/index.json", "{");
  EXPECT_ERROR(refusal(), "index.json: not JSON");
  folder.write("tokens/index.json", "{}");
  EXPECT_ERROR(refusal(), "index.json: not the index of a folder that mtrun tokenize made");
}

TEST_F(Tokenizing, FingerprintsSeeTheTokenizersFiles) {
  folder.write("text/a.txt", "abcd");
  std::string before = *dataFingerprint(folder / "text", folder / "hf");
  EXPECT_NE(before, *dataFingerprint(folder / "text", ""));
  EXPECT_NE(before, *dataFingerprint(folder / "text", folder / "hf/tokenizer.json"));
  folder.write("hf/tokenizer_config.json", R"({"eos_token": "a"})");
  EXPECT_NE(before, *dataFingerprint(folder / "text", folder / "hf"));
}

} // namespace
} // namespace mt::tests
