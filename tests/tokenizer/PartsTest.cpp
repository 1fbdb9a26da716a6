// Parts of tokenizers alone: pre-tokenizers and normalizers against the package, UTF-8 that is broken, regular
// expressions, joining pairs by its two ways.
#include "runtime/tokenizer/Base64.h"
#include "runtime/tokenizer/Charsmap.h"
#include "runtime/tokenizer/Merging.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/RegexDialect.h"
#include "runtime/tokenizer/Trie.h"
#include "runtime/tokenizer/Unicode.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <random>

namespace mt::tests {
namespace {

using namespace tokenizer;
using nlohmann::json;

const json &steps() {
  static const json all = json::parse(std::ifstream(MT_TOKENIZERS "/steps.json"));
  return all;
}

Result<Fields> fieldsOf(simdjson::dom::parser &parser, const json &step) {
  return Fields::of(parser.parse(step.dump()).value_unsafe(), "the step");
}

/// What is recorded, or the text itself.
json recorded(const json &entry, size_t text, const json &unchanged) {
  for (const json &result : entry["results"])
    if (result[0].get<size_t>() == text)
      return result[1];
  return unchanged;
}

/// Pieces that are not empty, of one pre-tokenizer after the other.
bool preTokenize(std::span<const PreTokenizerPtr> all, TextPiece piece, Scratch &scratch, const Sink &sink) {
  if (piece.text.empty())
    return true;
  if (all.empty())
    return sink(piece);
  auto next = [&](TextPiece part) { return preTokenize(all.subspan(1), part, scratch, sink); };
  return all.front()->run(piece, scratch, next);
}

std::vector<std::string> piecesOf(const json &step, const std::string &text) {
  simdjson::dom::parser parser;
  Result<Fields> fields = fieldsOf(parser, step);
  std::vector<PreTokenizerPtr> all;
  size_t buffers = 0;
  Status status = readPreTokenizers(*fields, all, buffers);
  EXPECT_TRUE(status.ok()) << status.message();
  Scratch scratch;
  scratch.buffers.resize(buffers);
  std::vector<std::string> pieces;
  auto put = [&](TextPiece piece) {
    pieces.emplace_back(piece.text);
    return true;
  };
  EXPECT_TRUE(preTokenize(all, {text, true}, scratch, put)) << scratch.failure.message();
  return pieces;
}

TEST(PreTokenizers, AreThePackages) {
  const json &texts = steps()["texts"]["pre_tokenizers"];
  for (const json &entry : steps()["pre_tokenizers"])
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(json(piecesOf(entry["step"], texts[i])), recorded(entry, i, json::array({texts[i]})))
          << entry["step"] << " of " << texts[i];
}

TEST(Normalizers, AreThePackages) {
  const json &texts = steps()["texts"]["normalizers"];
  for (const json &entry : steps()["normalizers"]) {
    simdjson::dom::parser parser;
    Result<Fields> fields = fieldsOf(parser, entry["step"]);
    std::vector<NormalizerPtr> all;
    Status status = readNormalizers(*fields, all);
    ASSERT_TRUE(status.ok()) << status.message();
    Scratch scratch;
    for (size_t i = 0; i < texts.size(); ++i) {
      bool whole = true;
      auto text = texts[i].get<std::string>();
      Result<std::string_view> normal = normalize(all, text, scratch, whole);
      ASSERT_TRUE(normal.ok());
      EXPECT_EQ(*normal, recorded(entry, i, texts[i]).get<std::string>()) << entry["step"] << " of " << texts[i];
    }
  }
}

TEST(Unicode, BrokenTextIsRepairedByTheLongestBeginning) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(repaired("a\xff"), "a" + bad);
  EXPECT_EQ(repaired("\xe2\x82x"), bad + "x");
  EXPECT_EQ(repaired("\xe2\x82"), bad);
  EXPECT_EQ(repaired("\xf0\x9f\x98"), bad);
  EXPECT_EQ(repaired("\xf0\x80\x80"), bad + bad + bad);
  EXPECT_EQ(repaired("\xed\xa0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(repaired("\xc0\xaf"), bad + bad) << "longer than needed";
  EXPECT_EQ(repaired("é€😀"), "é€😀");
}

/// Long texts are normalized in pieces.
TEST(Unicode, NormalFormsOfLongTextsAreThoseOfTheirParts) {
  const std::string part = "Å e\xcc\x81\xcc\x82 \xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab 中文字x\xcc\x87\xcc\xa3é";
  for (NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd}) {
    std::string once, whole, want, text;
    appendNormal(form, part, once);
    for (int i = 0; i < 3000; ++i) {
      text += part + (i % 3 == 0 ? "\n" : "中");
      want += once + (i % 3 == 0 ? "\n" : "中");
    }
    appendNormal(form, text, whole);
    EXPECT_EQ(whole, want);
  }
}

TEST(Regex, WhatOnigurumaMeansIsSaidInPcresWords) {
  EXPECT_EQ(*translateRegex(R"(\s+(?!\S))"), R"(\p{White_Space}+(?!\P{White_Space}))");
  EXPECT_EQ(*translateRegex(R"(x{,2}\p{N}{1,3}+)"), R"(x{0,2}(?:\p{N}{1,3})+)");
  EXPECT_EQ(*translateRegex(R"([\p{Han}\u4e00-\u9fa5])"), R"([\p{sc:Han}\x{4e00}-\x{9fa5}])");
  EXPECT_EQ(*translateRegex("(a|b)]"), "(?:a|b)\\]");
}

TEST(Regex, WhatIsNotSupportedIsQuoted) {
  auto refusal = [](const char *text) { return translateRegex(text).status().message(); };
  for (auto [expression, part] :
       std::vector<std::pair<const char *, const char *>>{{R"((a)\1)", R"(\1 is not supported (at byte 3))"},
                                                          {R"(\h)", R"(\h is not supported)"},
                                                          {"(?<n>a)", "(?<n is not supported"},
                                                          {"[a&&b]", "\"&&\" in a class is not supported"},
                                                          {"[a[b]]", "\"[\" in a class"},
                                                          {"[]a]", "a class that begins with \"]\""},
                                                          {"[a", "a class that is not closed"},
                                                          {"(a", "a group that is not closed"},
                                                          {"a)", "a \")\" without its \"(\""},
                                                          {"+a", "a quantifier of nothing"},
                                                          {"a{2}?", "{2}? is not supported"},
                                                          {"a+**", "+"},
                                                          {"b(?i)a", "(?i) is not supported"},
                                                          {R"(\xff)", R"(\xff is not supported)"},
                                                          {R"([\W])", R"(\W is not supported)"},
                                                          {"a\xff", "is not UTF-8"}})
    EXPECT_NE(refusal(expression).find(part), std::string::npos) << expression << ": " << refusal(expression);
  EXPECT_NE(refusal(std::string(300, '(').c_str()).find("nesting this deep"), std::string::npos);
  EXPECT_NE(translateRegex(std::string(70000, 'a')).status().message().find("is too long"), std::string::npos);
  EXPECT_NE(Regex::compile("\\p{Klingon}").status().message().find("\\p{Klingon}"), std::string::npos);
}

TEST(Regex, GivesUpInsteadOfRunningForever) {
  Result<Regex> regex = Regex::compile("(?:a|a)*(?:a|a)*(?:a|a)*[bc]");
  ASSERT_TRUE(regex.ok());
  RegexMemory memory;
  Result<std::optional<Match>> found = regex->find(std::string(5000, 'a'), 0, memory);
  EXPECT_NE(found.status().message().find("gave up at byte 0"), std::string::npos) << found.status().message();
}

TEST(Regex, TakesWhatJitsStackDoesNot) {
  Result<Regex> regex = Regex::compile("(?:a|bc)*");
  ASSERT_TRUE(regex.ok());
  RegexMemory memory;
  const std::string text(3 << 20, 'a');
  Result<std::optional<Match>> found = regex->find(text, 0, memory);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->end, text.size());
}

/// The definition: the pair of the lowest rank, the leftmost of equal ones.
std::vector<uint32_t> mergedSlowly(const std::map<std::pair<uint32_t, uint32_t>, PairTable::Entry> &pairs,
                                   std::vector<uint32_t> ids) {
  while (true) {
    const PairTable::Entry *best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      if (auto at = pairs.find({ids[i], ids[i + 1]}); at != pairs.end() && (!best || at->second.rank < best->rank)) {
        best = &at->second;
        place = i;
      }
    if (!best)
      return ids;
    ids[place] = best->id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(Merging, ShortRowsAndLongOnesFollowTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    // Tokens are texts over three letters; each joins two that were there.
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::map<std::pair<uint32_t, uint32_t>, PairTable::Entry> pairs;
    PairTable table(40);
    for (uint32_t rank = 0; rank < 40; ++rank) {
      uint32_t left = static_cast<uint32_t>(random() % tokens.size()),
               right = static_cast<uint32_t>(random() % tokens.size());
      std::string joined = tokens[left] + tokens[right];
      if (joined.size() > 9 || std::ranges::find(tokens, joined) != tokens.end())
        continue;
      // SentencePiece's ranks may be equal.
      PairTable::Entry entry{left, right, round % 2 == 0 ? rank : rank / 4, static_cast<uint32_t>(tokens.size())};
      tokens.push_back(joined);
      pairs[{left, right}] = entry;
      table.put(entry);
    }
    std::vector<uint32_t> ids(random() % 300);
    for (uint32_t &id : ids)
      id = static_cast<uint32_t>(random() % 3);
    std::vector<uint32_t> merged = ids;
    Scratch scratch;
    mergePairs(table, scratch, merged, 0);
    EXPECT_EQ(merged, mergedSlowly(pairs, ids)) << "round " << round;
  }
}

TEST(Tries, FindAllTheTextsThatATextBeginsWith) {
  std::mt19937 random(5);
  std::map<std::string, uint32_t> texts;
  Trie trie;
  auto word = [&](size_t most) {
    std::string text(1 + random() % most, 'a');
    for (char &c : text)
      c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (uint32_t i = 0; i < 3000; ++i) {
    std::string text = word(9);
    texts[text] = i;
    trie.add(text, i);
  }
  for (int i = 0; i < 2000; ++i) {
    std::string text = word(12);
    std::vector<uint32_t> found, want;
    trie.each(text, [&](size_t, uint32_t value) { found.push_back(value); });
    for (size_t length = 1; length <= text.size(); ++length)
      if (auto at = texts.find(text.substr(0, length)); at != texts.end())
        want.push_back(at->second);
    EXPECT_EQ(found, want) << text;
  }
}

TEST(Base64, IsReadOrRefused) {
  EXPECT_EQ(fromBase64("aGVsbG8="), "hello");
  EXPECT_EQ(fromBase64("aGVsbA=="), "hell");
  EXPECT_EQ(fromBase64("aGVs"), "hel");
  EXPECT_EQ(fromBase64(""), "");
  EXPECT_EQ(fromBase64("aGVsbG8"), std::nullopt);
  EXPECT_EQ(fromBase64("aGV!"), std::nullopt);
}

TEST(Charsmaps, ThatAreDamagedAreRefusedOrFindNothing) {
  EXPECT_NE(Charsmap::read("abc").status().message().find("cut short"), std::string::npos);
  EXPECT_NE(Charsmap::read(std::string("\x08\0\0\0abcd", 8)).status().message().find("damaged"), std::string::npos);
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(std::string("\x40\0\0\0", 4));
    for (int i = 0; i < 64; ++i)
      bytes += static_cast<char>(random());
    Result<Charsmap> map = Charsmap::read(bytes + "xy");
    ASSERT_TRUE(map.ok());
    for (int i = 0; i < 8; ++i) {
      std::string text = {static_cast<char>('a' + random() % 26), static_cast<char>(random() % 128), 'x'};
      auto found = map->longest(text);
      EXPECT_TRUE(!found || found->length <= text.size());
    }
  }
}

} // namespace
} // namespace mt::tests
