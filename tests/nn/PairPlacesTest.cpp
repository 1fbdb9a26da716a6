// Places of pairs: tables of models that people train, made as these make them, against what is found.
#include "compiler/nn/PairPlaces.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>

namespace mt::nn {
namespace {

using Table = std::vector<int64_t>;

Table tableOf(int64_t queries, int64_t keys, const std::function<int64_t(int64_t, int64_t)> &number) {
  Table table;
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k)
      table.push_back(number(q, k));
  return table;
}

/// Everything that PairPlaces promises, and that its line gives the table back.
void expectFound(const Table &table, int64_t queries, int64_t keys, int64_t mostEntries) {
  std::optional<PairPlaces> places = findPairPlaces(table, queries, keys);
  ASSERT_TRUE(places);
  EXPECT_LE(places->entries, mostEntries);
  ASSERT_EQ(static_cast<int64_t>(places->query.size()), queries);
  ASSERT_EQ(static_cast<int64_t>(places->key.size()), keys);
  EXPECT_EQ(*std::ranges::min_element(places->query), 0);
  EXPECT_EQ(std::set<int64_t>(places->key.begin(), places->key.end()).size(), places->key.size());
  std::optional<Table> line = alongPlaces(table, *places);
  ASSERT_TRUE(line);
  ASSERT_EQ(static_cast<int64_t>(line->size()), places->entries);
  for (int64_t number : *line)
    ASSERT_TRUE(std::ranges::find(table, number) != table.end()) << "a number that the table has not";
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) {
      int64_t entry = places->key[static_cast<size_t>(k)] - places->query[static_cast<size_t>(q)];
      ASSERT_GE(entry, 0);
      ASSERT_LT(entry, places->entries);
      ASSERT_EQ(line->at(static_cast<size_t>(entry)), table[static_cast<size_t>(q * keys + k)]);
    }
}

int64_t ofWindow(int64_t q, int64_t k, int64_t width) {
  return (q / width - k / width + width - 1) * (2 * width - 1) + q % width - k % width + width - 1;
}

TEST(PairPlaces, OfWindows) { // Swin
  for (int64_t width : {2, 4, 7, 12})
    expectFound(tableOf(width * width, width * width, [&](int64_t q, int64_t k) { return ofWindow(q, k, width); }),
                width * width, width * width, (2 * width - 1) * (2 * width - 1));
}

TEST(PairPlaces, OfTokensBeforeAPicture) { // BEiT: what the token is to others, they to it, it to itself
  for (int64_t tokens : {1, 2, 5}) {
    const int64_t width = 14, size = width * width + tokens, last = (2 * width - 1) * (2 * width - 1);
    Table table = tableOf(size, size, [&](int64_t q, int64_t k) {
      if (q < tokens && k < tokens)
        return last + 2 + q * tokens + k;
      if (q < tokens)
        return last + 50 + q;
      return k < tokens ? last + 70 + k : ofWindow(q - tokens, k - tokens, width);
    });
    expectFound(table, size, size, tokens == 1 ? size * size / 10 : size * size - 1);
  }
}

TEST(PairPlaces, OfDistancesWithoutSign) { // LeViT: by size of distance; its smaller layers ask every other place
  for (int64_t stride : {1, 2}) {
    const int64_t width = 8, each = width / stride;
    std::map<std::pair<int64_t, int64_t>, int64_t> numbers;
    Table table = tableOf(each * each, width * width, [&](int64_t q, int64_t k) {
      std::pair<int64_t, int64_t> distance(std::abs(q / each * stride - k / width),
                                           std::abs(q % each * stride - k % width));
      return numbers.emplace(distance, static_cast<int64_t>(numbers.size())).first->second;
    });
    expectFound(table, each * each, width * width, each * each * width * width / 2);
  }
}

TEST(PairPlaces, OfWindowsInTimeToo) { // Video Swin
  const int64_t width = 4, frames = 3, size = frames * width * width, step = (2 * width - 1) * (2 * width - 1);
  Table table = tableOf(size, size, [&](int64_t q, int64_t k) {
    int64_t square = width * width;
    return (q / square - k / square + frames - 1) * step + ofWindow(q % square, k % square, width);
  });
  expectFound(table, size, size, (2 * frames - 1) * step);
}

TEST(PairPlaces, NoneWhereNothingRepeats) {
  std::mt19937_64 random(1);
  Table table = tableOf(36, 36, [&](int64_t, int64_t) { return static_cast<int64_t>(random() % 1000); });
  EXPECT_FALSE(findPairPlaces(table, 36, 36));
  // One number of a window's table is another.
  table = tableOf(49, 49, [](int64_t q, int64_t k) { return ofWindow(q, k, 7); });
  table[49 * 30 + 11] = 3;
  EXPECT_FALSE(findPairPlaces(table, 49, 49));
  // Numbers so far apart that their line would be longer than the table.
  table = tableOf(8, 8, [](int64_t q, int64_t k) { return 1000003 * q * q + 7919 * k * k; });
  EXPECT_FALSE(findPairPlaces(table, 8, 8));
  EXPECT_FALSE(findPairPlaces(Table{1, 2}, 1, 2));
  EXPECT_FALSE(
      findPairPlaces(tableOf(8, 8, [](int64_t q, int64_t k) { return (q + k) % 2 ? INT64_MAX : INT64_MIN; }), 8, 8));
}

/// Tables that are a function of random places: never another answer than the table.
TEST(PairPlaces, NeverWrong) {
  std::mt19937_64 random(7);
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    int64_t queries = 2 + static_cast<int64_t>(random() % 12), keys = 2 + static_cast<int64_t>(random() % 12);
    int64_t numbers = 1 + static_cast<int64_t>(random() % 3);
    Table table = tableOf(queries, keys, [&](int64_t q, int64_t k) {
      return round % 2 ? (k - q) / 2 : static_cast<int64_t>(random()) % numbers;
    });
    if (findPairPlaces(table, queries, keys)) {
      ++found;
      expectFound(table, queries, keys, queries * keys);
    }
  }
  EXPECT_GT(found, 0);
}

} // namespace
} // namespace mt::nn
