// Texts by their beginnings: which of them does a text begin with? All ways out of all nodes are in one table, by node
// and byte.
#ifndef MT_RUNTIME_TOKENIZER_TRIE_H
#define MT_RUNTIME_TOKENIZER_TRIE_H

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class Trie {
public:
  /// Of texts that are not empty; the later value of equal ones counts.
  void add(std::string_view text, uint32_t value);
  bool empty() const { return count == 0; }
  /// Whether any of the texts begins with this byte.
  bool begins(char byte) const { return roots[static_cast<uint8_t>(byte)] != 0; }

  /// Calls found(length, value) for each of the texts that `text` begins with, the shortest first.
  template <typename Found> void each(std::string_view text, Found found) const {
    if (text.empty())
      return;
    uint32_t node = roots[static_cast<uint8_t>(text[0])];
    for (size_t length = 1; node != 0; ++length) {
      if (values[node] != kNone)
        found(length, values[node]);
      if (length == text.size())
        return;
      node = after(node, static_cast<uint8_t>(text[length]));
    }
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Way {
    uint32_t from = 0, to = 0; ///< `to` 0: free
    uint8_t byte = 0;
  };
  size_t slotOf(uint32_t from, uint8_t byte) const {
    return (from * uint64_t(0x9e3779b97f4a7c15) + byte * uint64_t(0xc2b2ae3d27d4eb4f)) >> shift;
  }
  uint32_t after(uint32_t from, uint8_t byte) const {
    for (size_t slot = slotOf(from, byte); ways[slot].to != 0; slot = (slot + 1) & (ways.size() - 1))
      if (ways[slot].from == from && ways[slot].byte == byte)
        return ways[slot].to;
    return 0;
  }
  uint32_t step(uint32_t from, uint8_t byte);
  void put(const Way &way);
  void grow();

  std::array<uint32_t, 256> roots = {};
  std::vector<uint32_t> values = {kNone}; ///< by node; node 0 is none
  std::vector<Way> ways = std::vector<Way>(1024);
  int shift = 54; ///< 64 less the bits of a slot
  size_t used = 0, count = 0;
};

} // namespace mt::tokenizer
#endif
