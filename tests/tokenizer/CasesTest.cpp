// The same ids as the packages tokenizers and sentencepiece, in the manner of well-known tokenizers, of texts in many
// languages, code, emoji, odd spaces, and bytes that are no UTF-8.
#include "runtime/tokenizer/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <thread>

namespace mt::tests {
namespace {

using nlohmann::json;

const json &expected() {
  static const json all = json::parse(std::ifstream(MT_TOKENIZERS "/expected.json"));
  return all;
}

/// The texts, then those whose characters are the bytes.
std::vector<std::string> texts() {
  auto all = expected()["texts"].get<std::vector<std::string>>();
  for (const auto &broken : expected()["broken"].get<std::vector<std::string>>()) {
    std::string latin;
    for (size_t i = 0; i < broken.size(); ++i) {
      auto lead = static_cast<uint8_t>(broken[i]);
      latin += static_cast<char>(lead < 0x80 ? lead : lead << 6 | (broken[++i] & 0x3f));
    }
    all.push_back(latin);
  }
  return all;
}

std::unique_ptr<tokenizer::Tokenizer> open(const std::string &name) {
  Result<std::unique_ptr<tokenizer::Tokenizer>> tokenizer = tokenizer::openTokenizer(MT_TOKENIZERS "/" + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

std::vector<uint32_t> encode(const tokenizer::Tokenizer &tokenizer, std::string_view text, bool addSpecial = false) {
  std::vector<uint32_t> ids;
  Status status = tokenizer.encode(text, addSpecial, ids);
  EXPECT_TRUE(status.ok()) << status.message();
  return ids;
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, AreThePackages) {
  const json &want = expected()["cases"][GetParam()];
  std::unique_ptr<tokenizer::Tokenizer> tokenizer = open(GetParam());
  ASSERT_TRUE(tokenizer);
  const std::vector<std::string> all = texts();
  size_t compared = 0;
  for (size_t i = 0; i < want["ids"].size(); ++i)
    if (auto ids = want["ids"][i].get<std::vector<uint32_t>>(); !ids.empty() || all[i].empty()) {
      EXPECT_EQ(encode(*tokenizer, all[i]), ids) << "text " << i << ": " << all[i];
      ++compared;
    }
  EXPECT_GT(compared, 25U);
  EXPECT_EQ(encode(*tokenizer, "a", true), want["special"].get<std::vector<uint32_t>>());
  EXPECT_EQ(tokenizer->vocabularySize(), want["size"].get<uint32_t>());
}

TEST_P(Cases, AreDecodedLikeThePackages) {
  const json &want = expected()["cases"][GetParam()];
  std::unique_ptr<tokenizer::Tokenizer> tokenizer = open(GetParam());
  ASSERT_TRUE(tokenizer);
  size_t number = 0;
  for (size_t i = 20; i < 50; i += 2)
    if (auto ids = want["ids"][i].get<std::vector<uint32_t>>(); !ids.empty()) {
      EXPECT_EQ(tokenizer->decode(ids, true), want["decoded"][number].get<std::string>()) << "text " << i;
      ++number;
    }
  EXPECT_EQ(number, want["decoded"].size());
}

/// Words that a thread has seen come out of its table; texts of all lengths, in all orders, must not show that.
TEST_P(Cases, AreTheSameOnManyThreadsAndAgain) {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer = open(GetParam());
  ASSERT_TRUE(tokenizer);
  const std::vector<std::string> all = texts();
  std::string joined;
  for (const std::string &text : all)
    joined += text + "\n";
  std::vector<uint32_t> alone = encode(*tokenizer, joined);
  std::vector<std::vector<uint32_t>> found(4);
  {
    std::vector<std::jthread> threads;
    for (size_t n = 0; n < found.size(); ++n)
      threads.emplace_back([&, n] {
        for (size_t i = 0; i < all.size(); ++i)
          encode(*tokenizer, all[(i * (2 * n + 1) + n) % all.size()]);
        found[n] = encode(*tokenizer, joined);
      });
  }
  for (const std::vector<uint32_t> &ids : found)
    EXPECT_EQ(ids, alone);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto &[name, unused] : expected()["cases"].items())
    all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Cases, testing::ValuesIn(names()), [](const auto &info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return !isalnum(c); }, '_');
  return name;
});

TEST(Tokenizers, NameTheirSpecialTokens) {
  EXPECT_EQ(open("llama3.json")->special().begin, 0U);
  EXPECT_EQ(open("llama3.json")->special().end, std::nullopt);
  EXPECT_EQ(open("bert.json")->special().end, 3U);
  EXPECT_EQ(open("bert.json")->special().unknown, 1U);
  EXPECT_EQ(open("gpt2.json")->special().end, std::nullopt);
  EXPECT_EQ(open("bpe.model")->special().begin, 1U);
  EXPECT_EQ(open("bpe.model")->special().end, 2U);
  EXPECT_EQ(open("bpe-behind.model")->special().padding, 3U);
  EXPECT_EQ(open("bpe.model")->special().padding, std::nullopt);
  EXPECT_EQ(open("gpt2.json")->find("<|endoftext|>"), 0U);
}

/// Neither time nor memory of the square of a run's length.
TEST(Tokenizers, TakeLongRuns) {
  const std::string run(2 << 20, 'a');
  for (const std::string &name : names()) {
    std::unique_ptr<tokenizer::Tokenizer> tokenizer = open(name);
    std::vector<uint32_t> ids = encode(*tokenizer, run);
    EXPECT_FALSE(ids.empty()) << name;
    EXPECT_LE(ids.size(), run.size() + 1) << name;
  }
}

} // namespace
} // namespace mt::tests
