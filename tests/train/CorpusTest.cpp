// Data in every form, and what is said about data that do not fit.
#include "runtime/train/Batches.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/Elements.h"
#include "runtime/train/TextDocuments.h"
#include "runtime/train/TrainData.h"
#include "tests/train/TestFiles.h"

#include <cstring>
#include <numeric>
#include <set>

namespace mt::tests {
namespace {

using namespace train;

struct Row {
  std::vector<int64_t> tokens, labels;
};

Row readRow(const Corpus &corpus, RowPlace place, int64_t sequence) {
  Row result;
  result.tokens.resize(static_cast<size_t>(sequence));
  result.labels.resize(static_cast<size_t>(sequence));
  std::byte *to[3] = {reinterpret_cast<std::byte *>(result.tokens.data()),
                      reinterpret_cast<std::byte *>(result.labels.data()), nullptr};
  Status status = corpus.read(place, to);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

template <typename T> std::string raw(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

using Numbers = std::vector<int64_t>;

class CorpusForms : public testing::Test {
protected:
  plan::Plan plan = languagePlan(2, 4, 1);
  Folder folder;

  std::unique_ptr<Corpus> open(const std::string &path) {
    Result<std::unique_ptr<Corpus>> corpus = openCorpus(path, "", plan);
    EXPECT_TRUE(corpus.ok()) << corpus.status().message();
    return corpus ? std::move(*corpus) : nullptr;
  }
  Status refusal(const std::string &path) { return openCorpus(path, "", plan).status(); }

  struct Array {
    std::string name;
    DType type;
    Dims dims;
    std::string data;
  };
  std::string arrays(const std::string &file, const std::vector<Array> &all) {
    Result<NpzWriter> writer = NpzWriter::create(folder / file);
    for (const Array &array : all)
      EXPECT_TRUE(writer->add(array.name, array.type, array.dims, std::as_bytes(std::span(array.data))).ok());
    EXPECT_TRUE(writer->finish().ok());
    return folder / file;
  }
};

TEST_F(CorpusForms, TextIsBytesInWindows) {
  auto corpus = open(folder.write("a.txt", "abcdefghijklm"));
  ASSERT_EQ(corpus->rows(), 2); // windows of 5; three bytes remain
  Row row = readRow(*corpus, 1, 4);
  EXPECT_EQ(row.tokens, (Numbers{'f', 'g', 'h', 'i'}));
  EXPECT_EQ(row.labels, (Numbers{'g', 'h', 'i', 'j'}));
}

TEST_F(CorpusForms, WindowsThatAreShiftedGoOnAtTheBeginning) {
  std::filesystem::create_directory(folder / "text");
  folder.write("text/a.txt", "abc");
  folder.write("text/b.txt", "defghijklm");
  auto corpus = open(folder / "text");
  auto window = [&](int64_t row, uint64_t shift) {
    const Row read = readRow(*corpus, {row, shift}, 4);
    EXPECT_TRUE(std::equal(read.tokens.begin() + 1, read.tokens.end(), read.labels.begin()));
    return std::string(1, static_cast<char>(read.tokens[0])) + std::string(read.labels.begin(), read.labels.end());
  };
  ASSERT_EQ(corpus->rows(), 2);
  EXPECT_EQ(window(0, 2) + window(1, 2), "cdefghijkl");
  EXPECT_EQ(window(0, 3) + window(1, 3), "defghijklm");
  EXPECT_EQ(window(0, 4) + window(1, 4), "efghijklma") << "beyond the end it goes on at the beginning";
  EXPECT_EQ(window(1, 5 + 4), "jklma") << "modulo a window";
  EXPECT_EQ(corpus->where({1, 4}, 1, 3), folder / "text/a.txt, byte 0");
  EXPECT_EQ(corpus->where({1, 4}, 1, 2), folder / "text/b.txt, byte 9");
}

TEST_F(CorpusForms, EveryEpochOfAStreamTakesAsManyTokensEachOnce) {
  const std::string path = folder.write("t.bin", raw([] {
                                          std::vector<uint16_t> tokens(103);
                                          std::iota(tokens.begin(), tokens.end(), uint16_t(0));
                                          return tokens;
                                        }()));
  auto corpus = open(path);
  const Order order(corpus->rows(), true, 1);
  std::set<std::set<int64_t>> starts;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    std::set<int64_t> seen, first;
    for (int64_t i = 0; i < corpus->rows(); ++i) {
      const Row row = readRow(*corpus, order.at(epoch * corpus->rows() + i), 4);
      seen.insert(row.tokens[0]);
      seen.insert(row.labels.begin(), row.labels.end());
      first.insert(row.tokens[0]);
    }
    EXPECT_EQ(seen.size(), 100u) << "epoch " << epoch;
    EXPECT_TRUE(epoch > 0 || (first.contains(0) && first.contains(5)));
    starts.insert(first);
  }
  EXPECT_EQ(starts.size(), 5u) << "places that windows of five begin at";
}

TEST_F(CorpusForms, FilesOfAFolderAreOneStreamInNameOrder) {
  std::filesystem::create_directory(folder / "text");
  folder.write("text/b.md", "defgh");
  folder.write("text/a.txt", "abc");
  folder.write("text/empty.txt", "");
  folder.write("text/.hidden", "\xff");
  auto corpus = open(folder / "text");
  ASSERT_EQ(corpus->rows(), 1);
  EXPECT_EQ(readRow(*corpus, 0, 4).labels, (Numbers{'b', 'c', 'd', 'e'}));
  EXPECT_EQ(corpus->where(0, 0, 3), folder / "text/b.md, byte 0");
}

TEST_F(CorpusForms, TokensAreSixteenBitsUnlessTheVocabularyIsLarger) {
  auto corpus = open(folder.write("t.bin", raw(std::vector<uint16_t>{1, 2, 3, 4, 255, 6})));
  EXPECT_EQ(readRow(*corpus, 0, 4).labels, (Numbers{2, 3, 4, 255}));
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 100000;
  corpus = open(folder.write("t.bin", raw(std::vector<uint32_t>{1, 2, 3, 4, 70000})));
  EXPECT_EQ(readRow(*corpus, 0, 4).labels, (Numbers{2, 3, 4, 70000}));
}

TEST_F(CorpusForms, WindowsCrossFilesAndAreLongerThanWhatIsReadAtOnce) {
  constexpr int64_t kSequence = 1500;
  plan = languagePlan(1, kSequence, 1);
  plan.inputs[0].type = plan.inputs[1].type = DType::i32;
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 65536;
  std::filesystem::create_directory(folder / "tokens");
  std::vector<uint16_t> all(2 * (kSequence + 1));
  std::iota(all.begin(), all.end(), uint16_t(100));
  for (size_t at = 0, file = 0; at < all.size(); ++file) {
    size_t count = std::min(all.size() - at, size_t(1) << std::min<size_t>(file, 10));
    folder.write(fmt::format("tokens/{:02}.bin", file), raw(std::vector(all.begin() + at, all.begin() + at + count)));
    at += count;
  }
  auto corpus = open(folder / "tokens");
  ASSERT_EQ(corpus->rows(), 2);
  std::vector<int32_t> tokens(kSequence), labels(kSequence);
  std::byte *to[3] = {reinterpret_cast<std::byte *>(tokens.data()), reinterpret_cast<std::byte *>(labels.data()), nullptr};
  for (int64_t row : {0, 1}) {
    ASSERT_TRUE(corpus->read(row, to).ok());
    auto begin = all.begin() + row * (kSequence + 1);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), begin));
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), begin + 1));
  }
}

TEST_F(CorpusForms, ATokenThatTheInputsTypeCannotHoldIsSaidWithItsPlace) {
  plan.inputs[0].type = plan.inputs[1].type = DType::i16;
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 65536;
  EXPECT_ERROR(refusal(folder.write("t.bin", raw(std::vector<uint16_t>{1, 2, 40000, 4, 5}))),
               "t.bin, token 2: token 40000 does not fit the model's i16");
}

TEST_F(CorpusForms, TheFirstOfManyBadRowsIsNamed) {
  std::vector<uint16_t> tokens(5 * 200000, 7);
  for (size_t row : {150000u, 123456u, 199999u})
    tokens[5 * row + 2] = 300;
  EXPECT_ERROR(refusal(folder.write("t.bin", raw(tokens))), "t.bin, token 617282: token 300 is outside");
}

TEST_F(CorpusForms, HeadersOfLlmcAreRecognized) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 5;
  std::string tokens = raw(std::vector<uint16_t>{9, 8, 7, 6, 5});
  auto corpus = open(folder.write("t.bin", raw(header) + tokens));
  EXPECT_EQ(readRow(*corpus, 0, 4).tokens, (Numbers{9, 8, 7, 6}));
  EXPECT_ERROR(refusal(folder.write("t.bin", raw(header) + tokens.substr(2))), "header says 5 tokens, its length 4");
}

TEST_F(CorpusForms, ArraysAreConvertedAndShortRowsPadded) {
  auto corpus = open(arrays("d.npz", {{"input_ids", DType::i32, {3, 3}, raw(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9})},
                                      {"labels", DType::i64, {3, 4}, raw(Numbers{1, 2, 3, 4, 5, 6, -100, 8, 9, 10, 11, 12})}}));
  ASSERT_EQ(corpus->rows(), 3);
  EXPECT_EQ(readRow(*corpus, 1, 4).tokens, (Numbers{4, 5, 6, 0}));
  EXPECT_EQ(readRow(*corpus, 1, 4).labels, (Numbers{5, 6, -100, 8}));
}

TEST_F(CorpusForms, EndingsSayWhatDataAreHoweverTheyAreWritten) {
  const std::string line = "{\"tokens\": [5, 6, 7, 8, 9]}\n";
  for (const char *name : {"d.jsonl", "d.JSONL", "d.ndjson", "d.NdJson"})
    EXPECT_EQ(readRow(*open(folder.write(name, line)), 0, 4).tokens, (Numbers{5, 6, 7, 8})) << name;
  EXPECT_EQ(readRow(*open(folder.write("d.json", line)), 0, 4).tokens, (Numbers{'{', '"', 't', 'o'})); // with a warning
}

TEST_F(CorpusForms, ArchivesAreNoText) {
  EXPECT_ERROR(refusal(folder.write("a.jsonl.gz", "\x1f\x8b-and more")),
               "a.jsonl.gz: no text, but packed by gzip: unpack it");
  EXPECT_ERROR(refusal(folder.write("b.txt", "PAR1 and more PAR1")), "tools/from_parquet.py");
  EXPECT_ERROR(TextDocuments::open({folder.write("c.zst", "\x28\xb5\x2f\xfd-and more")}, "").status(),
               "c.zst: no text, but packed by zstd");
  EXPECT_ERROR(TextDocuments::open({folder.write("d", "PK\x03\x04-and more")}, "").status(),
               "d: no text, but a zip archive");
  EXPECT_TRUE(TextDocuments::open({folder.write("e", "PK is fine")}, "").ok());
}

TEST_F(CorpusForms, JsonLinesArePaddedAndShifted) {
  auto corpus = open(folder.write("d.jsonl", "{\"tokens\": [1, 2], \"labels\": [-100, 3]}\n\n{\"tokens\": [5, 6, 7, 8, 9]}\n"));
  ASSERT_EQ(corpus->rows(), 2);
  Row first = readRow(*corpus, 0, 4), second = readRow(*corpus, 1, 4);
  EXPECT_EQ(first.tokens, (Numbers{1, 2, 0, 0}));
  EXPECT_EQ(first.labels, (Numbers{-100, 3, -100, -100}));
  EXPECT_EQ(second.tokens, (Numbers{5, 6, 7, 8}));
  EXPECT_EQ(second.labels, (Numbers{6, 7, 8, 9}));
}

TEST_F(CorpusForms, JsonLinesTakeNestedListsNamesAndTruth) {
  auto corpus = open(folder.write(
      "d.jsonl", "\xef\xbb\xbf{\"labels\": [[[1], 2], [3, 4]], \"input_ids\": [[5, 6], [[7, true]]]}\r\n"));
  Row row = readRow(*corpus, 0, 4);
  EXPECT_EQ(row.tokens, (Numbers{5, 6, 7, 1}));
  EXPECT_EQ(row.labels, (Numbers{1, 2, 3, 4}));
}

TEST_F(CorpusForms, NestedListsAreThoseOfTheRow) {
  plan.inputs.push_back({plan::InputKind::data, "image", DType::i64, {2, 2, 3}, plan.inputs[0].parts, 0});
  auto line = [&](const std::string &image) {
    return folder.write("d.jsonl", "{\"tokens\": [1, 2], \"image\": " + image + "}\n");
  };
  for (const char *same : {"[[1, 2, 3], [4, 5, 6]]", "[1, 2, 3, 4, 5, 6]", "[[[1], [2], [3]], [[4], [5], [6]]]"})
    EXPECT_TRUE(refusal(line(same)).ok()) << same;
  EXPECT_ERROR(
      refusal(line("[[1, 2], [3, 4], [5, 6]]")),
      "d.jsonl:1: \"image\": has a list of 2 numbers where the model, whose rows are [2, 3], wants one of 3 numbers");
  EXPECT_ERROR(refusal(line("[[1, 2, 3, 4], [5, 6]]")), "has a list of 4 numbers where");
  EXPECT_ERROR(refusal(line("[[1, 2, 3], 4, 5, 6]")), "has a list of 4 numbers and lists where");
  EXPECT_ERROR(refusal(line("[[1, 2, 3]]")), "has a list of 1 lists where");
  EXPECT_ERROR(refusal(line("[[[1], [2]], [[3], [4]], [[5], [6]]]")), "has a list of 2 lists where");
}

TEST_F(CorpusForms, RowsWithoutALabelAreNoted) {
  auto corpus = open(folder.write("d.jsonl", "{\"tokens\": [1, 2], \"labels\": [-100, -100]}\n{\"tokens\": [1, 2, 3]}\n"
                                             "{\"tokens\": [1, 2], \"labels\": [-100, -100]}\n"));
  EXPECT_EQ(corpus->unlabelled, (Numbers{0, 2}));
}

TEST_F(CorpusForms, FingerprintsSeeEveryByte) {
  std::string content(3 << 20, 'a');
  std::string path = folder.write("a.txt", content), whole = *dataFingerprint(path, "");
  EXPECT_EQ(*dataFingerprint(folder.write("b.txt", content), ""), whole) << "names do not count";
  for (size_t at : {size_t(0), size_t(1) << 20, content.size() / 2 + 77, content.size() - 1}) {
    std::string changed = content;
    changed[at] = 'b';
    EXPECT_NE(*dataFingerprint(folder.write("a.txt", changed), ""), whole) << at;
  }
  EXPECT_NE(*dataFingerprint(folder.write("a.txt", content + "a"), ""), whole);
  EXPECT_NE(*dataFingerprint(path, folder.write("tokenizer", "t")), *dataFingerprint(path, ""));
}

TEST_F(CorpusForms, FingerprintsOfWhatIsTooLongToReadGoBySamples) {
  std::string path = folder.write("large.bin", "");
  std::filesystem::resize_file(path, (uint64_t(512) << 20) + (64 << 10)); // of zeros, without a place on the disk
  std::string whole = *dataFingerprint(path, "");
  auto withByteAt = [&](int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    auto put = [&](char byte) { file.seekp(at).put(byte).flush(); };
    put(1);
    std::string found = *dataFingerprint(path, "");
    put(0);
    return found;
  };
  EXPECT_NE(withByteAt((int64_t(512) << 20) - 1), whole);
  EXPECT_NE(withByteAt((int64_t(512) << 20) + (64 << 10) - 1), whole) << "the last byte is in a sample";
}

TEST_F(CorpusForms, WhatIsWrongIsSaidWithFileAndPlace) {
  EXPECT_ERROR(refusal(folder / "nothing.txt"), "nothing.txt: no such file or folder");
  EXPECT_ERROR(refusal(folder.write("short.txt", "abcd")), "short.txt is too short: 4 tokens, and a window takes 5");
  EXPECT_ERROR(refusal(folder.write("bad.txt", "abc\xff")), "bad.txt: byte 3 is not UTF-8");
  EXPECT_ERROR(refusal(folder.write("odd.bin", "abc")), "odd.bin: 3 bytes are no whole number of 16-bit tokens");
  EXPECT_ERROR(refusal(folder.write("t.bin", raw(std::vector<uint16_t>{1, 2, 300, 4, 5}))),
               "t.bin, token 2: token 300 is outside the model's vocabulary of 256");
  EXPECT_ERROR(
      refusal(folder.write("wide.bin", raw(std::vector<uint32_t>(64, 7)))),
      "wide.bin: every second one of its first 128 tokens is 0, as where wider integers are read as the uint16 that a "
      "vocabulary of 256 takes; write them again as those, with numpy's astype(numpy.uint16)");
  EXPECT_EQ(refusal(folder.write("zeros.bin", raw(std::vector<uint32_t>(64, 0)))).message(), "");
  EXPECT_ERROR(openCorpus(folder.write("a.txt", "abcdef"), "t.json", plan).status(),
               "--tokenizer t.json: no such file");
  std::filesystem::create_directory(folder / "mixed");
  folder.write("mixed/a.txt", "abcdef");
  folder.write("mixed/b.bin", "abcdef");
  EXPECT_ERROR(refusal(folder / "mixed"), "different forms");
  std::filesystem::create_directory(folder / "none");
  EXPECT_ERROR(refusal(folder / "none"), "has no files");
}

TEST_F(CorpusForms, WhatIsWrongInArraysIsSaidWithNameAndShape) {
  std::string row = raw(Numbers{1, 2, 3, 4});
  Array ids{"input_ids", DType::i64, {1, 4}, row}, labels{"labels", DType::i64, {1, 4}, row};
  EXPECT_ERROR(refusal(arrays("d.npz", {ids})), "d.npz: no array 'labels': the model wants input_ids i64 [2, 4]");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, labels, {"mask", DType::i64, {1, 4}, row}})), "array 'mask' belongs to no input");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, {"labels", DType::i64, {4}, row}})), "array 'labels' is i64 [4], and the model wants rows of [4]");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, {"labels", DType::i64, {1, 5}, raw(Numbers{1, 2, 3, 4, 5})}})), "[1, 5]");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, {"labels", DType::i64, {2, 4}, row + row}})), "but other arrays have 1 rows");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, {"labels", DType::f32, {1, 4}, raw(std::vector<float>{1, 2, 3, 4})}})), "is f32");
  EXPECT_ERROR(refusal(arrays("d.npz", {ids, {"labels", DType::i64, {1, 4}, raw(Numbers{1, -1, 3, 4})}})),
               "array 'labels', row 0, element 1: label -1 is outside");
}

TEST_F(CorpusForms, WhatIsWrongInJsonLinesIsSaidWithTheLine) {
  auto line = [&](const std::string &text) { return refusal(folder.write("d.jsonl", "{\"tokens\": [1, 2]}\n" + text)); };
  EXPECT_ERROR(line("{\"tokens\": [1, 2"), "d.jsonl:2: not a JSON object");
  EXPECT_ERROR(line("[1]"), "d.jsonl:2: not a JSON object on one line: it is something else");
  EXPECT_ERROR(line("{\"tokens\": [1, 2,]}"), "d.jsonl:2: not a JSON object on one line: a syntax error at line 1, column 18");
  EXPECT_ERROR(line("{\"tokens\": [1, 2], \"input_ids\": [1, 2]}"), "d.jsonl:2: \"input_ids\" is there twice");
  EXPECT_ERROR(line("{\"tokens\": " + std::string(200000, '[') + "1" + std::string(200000, ']') + "}"),
               "d.jsonl:2: not a JSON object on one line: it nests deeper than 64 levels at line 1, column 75");
  EXPECT_ERROR(line("{\"tokens\": [1, 2, 18446744073709551516]}"), "element 1: 18446744073709551516 does not fit");
  EXPECT_ERROR(line("{\"labels\": [1]}"), "d.jsonl:2: no \"tokens\"");
  EXPECT_ERROR(line("{\"tokens\": [1, 2], \"labels\": [1]}"), "2 tokens and 1 labels");
  EXPECT_ERROR(line("{\"tokens\": [1, 2], \"mask\": [1]}"), "\"mask\" belongs to no input");
  EXPECT_ERROR(line("{\"tokens\": [1, 2, 3, 4, 5, 6]}"), "has 5 elements, and the model wants rows of 4");
  EXPECT_ERROR(line("{\"tokens\": [1, \"a\"]}"), "must hold numbers");
  EXPECT_ERROR(line("{\"tokens\": [1, 2.5, 3]}"), "i64 is wanted");
  EXPECT_ERROR(line("{\"tokens\": [1, 256, 3]}"), "d.jsonl:2: 'input_ids', element 1: token 256 is outside");
}

TEST_F(CorpusForms, ModelsWithOtherInputsNeedNames) {
  plan.inputs.push_back({plan::InputKind::data, "attention_mask", DType::i64, {2, 4}, plan.inputs[0].parts, 0});
  EXPECT_ERROR(refusal(folder.write("a.txt", "abcdef")), "also wants 'attention_mask': use .npz or .jsonl");
  plan = languagePlan(2, 4, 1);
  plan.inputs[1].dims = {2};
  EXPECT_ERROR(refusal(folder.write("a.txt", "abcdef")), "labels are [2]");
  plan.inputs[0].type = DType::f32;
  EXPECT_ERROR(refusal(folder.write("a.txt", "abcdef")), "not one input of tokens");
}

/// A recipe of which nothing was said but weights and a share to hold back.
RecipeOptions arrangement(std::vector<double> weights, double evalSplit, bool shuffle = true) {
  RecipeOptions recipe;
  recipe.dataWeights = std::move(weights);
  recipe.evalSplit = evalSplit;
  recipe.shuffle = shuffle;
  recipe.seed = 5;
  recipe.pack = false;
  return recipe;
}

TEST_F(CorpusForms, WhatIsHeldBackIsNeverTrainedOn) {
  const int64_t counts[] = {50, 31};
  for (int part : {0, 1}) { // each row is known by its first token
    Numbers tokens, labels;
    for (int64_t row = 0; row < counts[part]; ++row) {
      const Numbers ids = {100 * part + row, 1, 2, 3};
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      const Numbers own = row % 10 == 9 ? Numbers(4, -100) : Numbers{1, 2, 3, 4};
      labels.insert(labels.end(), own.begin(), own.end());
    }
    arrays(fmt::format("{}.npz", part), {{"input_ids", DType::i64, {counts[part], 4}, raw(tokens)},
                                         {"labels", DType::i64, {counts[part], 4}, raw(labels)}});
  }
  for (const std::vector<double> &weights : {std::vector<double>(), {2.0, 1.0}}) {
    Result<TrainData> data = TrainData::open({{folder / "0.npz", folder / "1.npz"}, ""}, {}, plan);
    ASSERT_TRUE(data.ok() && data->arrange(arrangement(weights, 0.2), plan).ok());
    std::set<int64_t> trained, evaluated, unlabelled;
    for (int64_t position = 0; position < 10 * data->order->rows(); ++position)
      trained.insert(readRow(*data->corpus, data->order->at(position), 4).tokens[0]);
    for (int64_t row = 0; row < data->evalCorpus->rows(); ++row)
      evaluated.insert(readRow(*data->evalCorpus, row, 4).tokens[0]);
    EXPECT_EQ(evaluated.size(), 16u);
    EXPECT_EQ(trained.size(), 65u);
    for (int64_t row : evaluated)
      EXPECT_FALSE(trained.contains(row));
    for (const SharedCorpus &corpus : {data->corpus, data->evalCorpus})
      for (int64_t row : corpus->unlabelled) {
        const Row read = readRow(*corpus, row, 4);
        EXPECT_EQ(read.labels, Numbers(4, -100));
        unlabelled.insert(read.tokens[0]);
      }
    EXPECT_EQ(unlabelled.size(), 8u);
  }
}

TEST_F(CorpusForms, RowsThatAreNotShuffledKeepTheirOrderBesideThoseHeldBack) {
  const std::string path = folder.write("d.bin", raw(std::vector<uint16_t>(5 * 40, 1)));
  Result<TrainData> data = TrainData::open({{path}, ""}, {}, plan);
  ASSERT_TRUE(data.ok() && data->arrange(arrangement({}, 0.25, false), plan).ok());
  std::string before;
  for (int64_t position = 0; position < 30; ++position) {
    std::string where = fmt::format("{:>60}", data->corpus->where(data->order->at(position), 0, 0));
    EXPECT_LT(before, where);
    before = where;
  }
}

TEST_F(CorpusForms, ArrangementsThatDoNotSuitTheData) {
  const std::string path = folder.write("d.bin", raw(std::vector<uint16_t>(5 * 3, 1)));
  Result<TrainData> data = TrainData::open({{path, path}, ""}, {}, plan);
  ASSERT_TRUE(data.ok());
  EXPECT_ERROR(data->arrange(arrangement({}, 0.01), plan), "--eval-split 0.01: of the 6 rows of --data " + path + ", " +
                                                               path + " 0 would be held back and 6 trained on");
  EXPECT_ERROR(data->arrange(arrangement({1, 1}, 0.9), plan),
               "of the 3 rows of " + path + " 3 would be held back and 0 trained on");
  EXPECT_ERROR(data->arrange(arrangement({}, 1e300), plan), "--eval-split 1e+300: a share is below 1");
  EXPECT_ERROR(data->arrange(arrangement({}, 0.9), plan), "1 rows beside those that are held back, and a step takes 2");
  EXPECT_ERROR(data->arrange(arrangement({1}, 0), plan), "of this run 1 parts have weights, 1: give as many");
}

/// Of the step's batch, of which a rank has a part; data know nothing of them.
TEST_F(CorpusForms, BatchesNumberTheirRows) {
  plan = languagePlan(8, 4, 2);
  plan.ranks = 2;
  std::vector<plan::Span> parts(2, {0, 0, 16});
  for (plan::Input &input : plan.inputs)
    if (input.isOfData())
      input.parts.resize(2), input.dims[0] = 4;
  plan.inputs.push_back({plan::InputKind::rows, "rows", DType::i64, {4}, parts, 0});
  auto corpus = open(folder.write("d.txt", std::string(41, 'a')));
  Numbers ids[2] = {Numbers(8), Numbers(8)}, labels[2] = {Numbers(8), Numbers(8)}, rows[2] = {Numbers(2), Numbers(2)};
  void *places[] = {ids[0].data(), ids[1].data(), labels[0].data(), labels[1].data(), nullptr, rows[0].data(), rows[1].data()};
  for (uint32_t rank : {0U, 1U}) {
    Batches batches(plan, *corpus, Order(8, true, 0), rank);
    ASSERT_TRUE(batches.fill(8, 8, places).ok());
    EXPECT_EQ(rows[0], (Numbers{rank * 4, rank * 4 + 1}));
    EXPECT_EQ(rows[1], (Numbers{rank * 4 + 2, rank * 4 + 3}));
  }
}

TEST_F(CorpusForms, BatchesFillMicroBatchesAndCountLabels) {
  auto corpus = open(arrays("d.npz", {{"input_ids", DType::i64, {3, 4}, raw(Numbers{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23})},
                                      {"labels", DType::i64, {3, 4}, raw(Numbers{1, 2, -100, 4, 5, 6, -100, 8, -100, -100, -100, -100})}}));
  Batches batches(plan, *corpus, Order(3, false, 0));
  Numbers ids[2] = {Numbers(4), Numbers(4)}, labels[2] = {Numbers(4), Numbers(4)};
  void *parts[] = {ids[0].data(), ids[1].data(), labels[0].data(), labels[1].data(), nullptr};
  EXPECT_EQ(*batches.valid(0, 2), 6);
  ASSERT_TRUE(batches.fill(0, 2, parts).ok());
  EXPECT_EQ(ids[1], (Numbers{10, 11, 12, 13}));
  EXPECT_EQ(*batches.valid(2, 2), 3); // the last row, and the first of the next epoch
  ASSERT_TRUE(batches.fill(2, 2, parts).ok());
  EXPECT_EQ(ids[0], (Numbers{20, 21, 22, 23}));
  EXPECT_EQ(ids[1], (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(*batches.valid(1, 1), 3);
  ASSERT_TRUE(batches.fill(1, 1, parts).ok()); // padded with a row that does not count
  EXPECT_EQ(labels[1], (Numbers{-100, -100, -100, -100}));
  EXPECT_EQ(*batches.valid(2, 1), 0);
  Status none = batches.uncounted(2, 1);
  EXPECT_ERROR(none, "no label of the 1 rows from");
  EXPECT_ERROR(none, "row 2");
}

} // namespace
} // namespace mt::tests
