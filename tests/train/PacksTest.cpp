// Samples that share rows: what such rows hold, which samples share one, and which cannot.
#include "runtime/train/Packs.h"
#include "runtime/train/Batches.h"
#include "tests/train/TestFiles.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>

namespace mt::tests {
namespace {

using namespace train;
using Numbers = std::vector<int64_t>;

/// What a row has for each input.
struct Columns {
  Numbers tokens, labels, positions, segments;
};

class Packs : public testing::Test {
protected:
  Packs() {
    for (const char *name : {"position_ids", "segment_ids"})
      plan.inputs.push_back({plan::InputKind::data, name, DType::i64, {2, kSequence}, plan.inputs[0].parts, 0});
  }

  SharedCorpus open(const std::string &path) {
    Result<std::unique_ptr<Corpus>> corpus = openCorpus(path, "", plan);
    EXPECT_TRUE(corpus.ok()) << corpus.status().message();
    return corpus ? SharedCorpus(std::move(*corpus)) : nullptr;
  }
  SharedCorpus pack(const std::string &lines) {
    Result<SharedCorpus> packs = packed(open(folder.write("d.jsonl", lines)), "--data d", plan, packing = {});
    EXPECT_TRUE(packs.ok()) << packs.status().message();
    return packs ? *packs : nullptr;
  }
  Columns read(const Corpus &corpus, int64_t row) {
    RowBuffer buffer(plan);
    Status status = readRow(corpus, plan, row, buffer.destinations);
    EXPECT_TRUE(status.ok()) << status.message();
    auto column = [&](size_t input) {
      const auto *values = reinterpret_cast<const int64_t *>(buffer.destinations[input]);
      return Numbers(values, values + kSequence);
    };
    return {column(0), column(1), column(3), column(4)};
  }

  static constexpr int64_t kSequence = 8, n = -100;
  plan::Plan plan = languagePlan(2, kSequence, 1);
  Folder folder;
  Packing packing;
};

TEST_F(Packs, RowsHoldSamplesSideBySide) {
  auto packs = pack("{\"tokens\": [1, 2, 3], \"labels\": [11, 12, -100]}\n{\"tokens\": [4, 5, 6, 7, 8, 9, 10], "
                    "\"labels\": [4, 5, 6, 7, 8, 9, 10]}\n"
                    "{\"tokens\": [20, 21, 22, 23]}\n{\"tokens\": [30], \"labels\": [31]}\n");
  ASSERT_EQ(packs->rows(), 2);
  const Columns first = read(*packs, 0), second = read(*packs, 1);
  EXPECT_EQ(first.tokens, (Numbers{1, 2, 3, 20, 21, 22, 0, 0}));
  EXPECT_EQ(first.labels, (Numbers{11, 12, n, 21, 22, 23, n, n}));
  EXPECT_EQ(first.positions, (Numbers{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(first.segments, (Numbers{1, 1, 1, 2, 2, 2, 0, 0}));
  EXPECT_EQ(second.tokens, (Numbers{4, 5, 6, 7, 8, 9, 10, 30}));
  EXPECT_EQ(second.labels, (Numbers{4, 5, 6, 7, 8, 9, 10, 31}));
  EXPECT_EQ(second.positions, (Numbers{0, 1, 2, 3, 4, 5, 6, 0}));
  EXPECT_EQ(second.segments, (Numbers{1, 1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(packing.samples, 4);
  EXPECT_EQ(packing.rows, 2);
  EXPECT_EQ(packing.filled, 14);
  EXPECT_EQ(packs->where(0, 0, 4), folder / "d.jsonl:3: 'input_ids', element 1");
}

TEST_F(Packs, ABadTokenIsNamedBySampleAndPlace) {
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 0; // as of what is behind what is looked at before
  auto packs = pack("{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4, 300, 6]}\n");
  plan.inputs[0].vocabulary = plan.inputs[1].vocabulary = 256;
  RowBuffer buffer(plan);
  EXPECT_ERROR(readRow(*packs, plan, 0, buffer.destinations),
               "d.jsonl:2: 'input_ids', element 1: token 300 is outside");
}

TEST_F(Packs, TheFirstLabelOfASampleIsNoTargetWhereTheModelLooksForSuccessors) {
  plan.inputs[1].targets = {1, kSequence};
  auto packs = pack("{\"tokens\": [1, 2, 3], \"labels\": [1, 2, 3]}\n{\"tokens\": [4, 5], \"labels\": [4, 5]}\n");
  EXPECT_EQ(read(*packs, 0).labels, (Numbers{n, 2, 3, n, 5, n, n, n}));
}

TEST_F(Packs, RowsOfWhichNoLabelCountsAreNoted) {
  auto packs = pack("{\"tokens\": [1, 2, 3, 4, 5], \"labels\": [-100, -100, -100, -100, -100]}\n{\"tokens\": [1, 2, "
                    "3], \"labels\": [-100, -100, -100]}\n"
                    "{\"tokens\": [1, 2, 3, 4, 5, 6], \"labels\": [-100, -100, -100, -100, -100, -100]}\n{\"tokens\": "
                    "[1, 2], \"labels\": [-100, 2]}\n");
  ASSERT_EQ(packs->rows(), 2);
  EXPECT_EQ(packs->unlabelled, Numbers{0});
}

/// Each sample is in one row, whole; rows are filled about as well as can be, and are the same every time.
TEST_F(Packs, EverySampleHasOnePlace) {
  std::mt19937 random(3);
  std::string lines;
  std::map<std::pair<int64_t, int64_t>, int64_t> length; // by the first two tokens, which tell samples apart
  for (int64_t i = 0; i < 10000; ++i) {
    const int64_t tokens = 2 + random() % 5;
    length[{i / 250, i % 250}] = tokens;
    lines += fmt::format("{{\"tokens\": [{}, {}", i / 250, i % 250);
    for (int64_t more = 2; more < tokens; ++more)
      lines += ", 255";
    lines += fmt::format("], \"labels\": [{}]}}\n", fmt::join(Numbers(static_cast<size_t>(tokens), 1), ", "));
  }
  auto packs = pack(lines);
  int64_t seen = 0;
  for (int64_t row = 0; row < packs->rows(); ++row) {
    const Columns columns = read(*packs, row);
    for (size_t i = 0; i < kSequence && columns.segments[i] > 0; ++seen) {
      const auto end = std::ranges::upper_bound(columns.segments.begin() + static_cast<ptrdiff_t>(i),
                                                columns.segments.end() - std::ranges::count(columns.segments, 0),
                                                columns.segments[i]);
      const auto size = end - columns.segments.begin() - static_cast<ptrdiff_t>(i);
      ASSERT_EQ(length.extract({columns.tokens[i], columns.tokens[i + 1]}).mapped(), size);
      i += static_cast<size_t>(size);
    }
  }
  EXPECT_TRUE(length.empty());
  EXPECT_EQ(seen, 10000);
  EXPECT_EQ(packing.rows, packs->rows());
  EXPECT_GT(static_cast<double>(packing.filled) / static_cast<double>(packs->rows() * kSequence), 0.98);
  auto again = pack(lines);
  for (int64_t row : {int64_t(0), packs->rows() / 2, packs->rows() - 1})
    EXPECT_EQ(read(*again, row).tokens, read(*packs, row).tokens);
}

TEST_F(Packs, RowsThatAreFullStayAsTheyAre) {
  auto windows = open(folder.write("a.txt", "abcdefghijklmnopqrst"));
  Result<SharedCorpus> same = packed(windows, "--data a.txt", plan, packing);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, windows);
  EXPECT_EQ(packing.rows, 0);
  const Columns row = read(*windows, 1); // and are a sequence of their own
  EXPECT_EQ(row.positions, (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(row.segments, Numbers(kSequence, 1));
  EXPECT_EQ(row.tokens[0], 'j');
}

/// Of tokens of which an index says what ends a document: also where a window begins within one, or an epoch's windows
/// begin later.
TEST_F(Packs, WindowsKeepDocumentsApart) {
  const auto write = [&](const std::string &end) {
    std::string tokens(1024, '\0');
    const int32_t header[] = {20240520, 1, 27};
    std::memcpy(tokens.data(), header, sizeof(header));
    for (int i = 1; i <= 27; ++i) // the third, the fifth, the sixth and the 14th end a document
      tokens += {static_cast<char>(i == 3 || i == 5 || i == 6 || i == 14 ? 99 : i), '\0'};
    std::filesystem::create_directory(folder / "t");
    folder.write("t/tokens-00000.bin", tokens);
    folder.write("t/index.json", "{\"format\": \"mt tokens 1\", \"type\": \"uint16\", \"tokenizer\": {\"end\": " + end +
                                     "}, \"files\": [{\"name\": \"tokens-00000.bin\", \"tokens\": 27}]}");
    return open(folder / "t");
  };
  auto windows = write("99");
  Result<SharedCorpus> apart = packed(windows, "--data t", plan, packing);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(packing.windows, 3);
  EXPECT_EQ(packing.rows, 0);
  ASSERT_EQ((*apart)->rows(), 3);
  const Columns first = read(**apart, 0), second = read(**apart, 1), third = read(**apart, 2);
  EXPECT_EQ(first.tokens, (Numbers{1, 2, 99, 4, 99, 99, 7, 8}));
  EXPECT_EQ(first.labels, (Numbers{2, 99, n, 99, n, n, 8, 9}));
  EXPECT_EQ(first.positions, (Numbers{0, 1, 2, 0, 1, 0, 0, 1}));
  EXPECT_EQ(first.segments, (Numbers{1, 1, 1, 2, 2, 3, 4, 4}));
  EXPECT_EQ(second.tokens, (Numbers{10, 11, 12, 13, 99, 15, 16, 17}));
  EXPECT_EQ(second.labels, (Numbers{11, 12, 13, 99, n, 16, 17, 18}));
  EXPECT_EQ(second.positions, (Numbers{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(second.segments, (Numbers{1, 1, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(third.segments, Numbers(kSequence, 1));
  EXPECT_EQ((*apart)->where(1, 0, 4), folder / "t/tokens-00000.bin, token 13");
  RowBuffer buffer(plan);
  ASSERT_TRUE(readRow(**apart, plan, {0, 2}, buffer.destinations).ok());
  const auto *segments = reinterpret_cast<const int64_t *>(buffer.destinations[4]);
  EXPECT_EQ(Numbers(segments, segments + kSequence), (Numbers{1, 2, 2, 3, 4, 4, 4, 4})) << "two tokens later";
  plan.inputs[1].targets = {1, kSequence}; // a model that looks for successors itself
  EXPECT_EQ(read(**packed(write("99"), "--data t", plan, packing), 0).labels, (Numbers{1, 2, 99, n, 99, n, n, 8}));
  plan.inputs[1].targets.clear();
  EXPECT_TRUE((*apart)->unlabelled.empty());
  for (const char *none : {"null", "-1", "\"99\"", "1e30"}) {
    auto unknown = write(none);
    packing = {};
    EXPECT_EQ(*packed(unknown, "--data t", plan, packing), unknown) << none;
    EXPECT_EQ(packing.mixed, 3);
  }
  std::string ends(1024 + 2 * 18, '\0'); // a window of nothing but ends has no target
  const int32_t header[] = {20240520, 1, 18};
  std::memcpy(ends.data(), header, sizeof(header));
  for (size_t i = 0; i < 9; ++i)
    ends[1024 + 2 * i] = 7, ends[1024 + 2 * (9 + i)] = static_cast<char>(i + 1);
  folder.write("t/tokens-00000.bin", ends);
  folder.write("t/index.json", "{\"format\": \"mt tokens 1\", \"type\": \"uint16\", \"tokenizer\": {\"end\": 7}, \"files\": "
                               "[{\"name\": \"tokens-00000.bin\", \"tokens\": 18}]}");
  EXPECT_EQ((*packed(open(folder / "t"), "--data t", plan, packing))->unlabelled, Numbers{0});
}

TEST_F(Packs, PositionsThatTheModelLacksAreSaidAsWhatTheyAre) {
  plan.inputs[3].vocabulary = 5; // what a table of positions has
  auto packs = pack("{\"tokens\": [1, 2, 3, 4, 5]}\n{\"tokens\": [1, 2, 3, 4, 5]}\n");
  EXPECT_EQ(read(*packs, 0).positions, (Numbers{0, 1, 2, 3, 0, 1, 2, 3})) << "a row may be longer than the table";
  EXPECT_ERROR(openCorpus(folder.write("a.txt", "abcdefghijkl"), "", plan).status(),
               "a.txt, byte 5: position 5 is beyond the 5 that the model has: give shorter sequences");
}

TEST_F(Packs, InputsOfTheSameNamesThatMeanSomethingElseAreWanted) {
  const std::string path = folder.write("a.txt", "abcdefghijkl");
  plan.inputs[4].vocabulary = 2; // types of tokens, which a table has rows for
  EXPECT_ERROR(openCorpus(path, "", plan).status(), "this model has not one input of tokens");
  plan.inputs.pop_back();
  EXPECT_ERROR(openCorpus(path, "", plan).status(), "also wants 'position_ids'");
}

TEST_F(Packs, DataMaySayPlacesThemselves) {
  auto corpus =
      open(folder.write("d.jsonl", "{\"tokens\": [1, 2, 3], \"segment_ids\": [5, 5, 6], \"position_ids\": [3, 4, 0]}\n"
                                   "{\"tokens\": [1, 2, 3], \"segment_ids\": [7, 7]}\n"));
  EXPECT_EQ(read(*corpus, 0).segments, (Numbers{5, 5, 6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read(*corpus, 0).positions, (Numbers{3, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read(*corpus, 1).segments, (Numbers{7, 7, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read(*corpus, 1).positions, (Numbers{0, 1, 0, 0, 0, 0, 0, 0})) << "two tokens and a target";
}

TEST_F(Packs, PlansThatCannotPack) {
  const std::string lines = "{\"tokens\": [1, 2, 3]}\n";
  auto refusal = [&] { return packed(open(folder.write("d.jsonl", lines)), "--data d", plan, packing).status(); };
  plan.inputs.resize(3);
  EXPECT_ERROR(refusal(),
               "--pack: the plan has no input 'segment_ids', by which the model keeps samples of a row apart: compile "
               "the checkpoint folder with mtc compile --pack");
  plan.inputs.push_back({plan::InputKind::data, "segment_ids", DType::i64, {2, kSequence}, plan.inputs[0].parts, 0});
  auto samples = open(folder.write("d.jsonl", lines));
  plan.inputs.push_back({plan::InputKind::data, "pixels", DType::f32, {2, 3}, plan.inputs[0].parts, 0});
  EXPECT_ERROR(packed(samples, "--data d", plan, packing).status(),
               "--pack: 'pixels' [2, 3] says nothing of single tokens");
  plan.inputs.pop_back();
  plan.inputs[1].ignored = std::nullopt;
  EXPECT_ERROR(packed(samples, "--data d", plan, packing).status(), "it has no ignore index");
  plan.inputs.erase(plan.inputs.begin() + 1);
  EXPECT_ERROR(packed(samples, "--data d", plan, packing).status(), "--pack: the model has no target for each token");
}

} // namespace
} // namespace mt::tests
