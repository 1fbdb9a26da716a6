#include "runtime/tokenizer/Trie.h"

#include <utility>

namespace mt::tokenizer {

void Trie::add(std::string_view text, uint32_t value) {
  uint32_t &root = roots[static_cast<uint8_t>(text[0])];
  if (root == 0) {
    root = static_cast<uint32_t>(values.size());
    values.push_back(kNone);
  }
  uint32_t node = root;
  for (char byte : text.substr(1))
    node = step(node, static_cast<uint8_t>(byte));
  values[node] = value;
  ++count;
}

uint32_t Trie::step(uint32_t from, uint8_t byte) {
  if (uint32_t to = after(from, byte))
    return to;
  if (2 * (used + 1) > ways.size())
    grow();
  Way way{from, static_cast<uint32_t>(values.size()), byte};
  values.push_back(kNone);
  put(way);
  ++used;
  return way.to;
}

void Trie::put(const Way &way) {
  size_t slot = slotOf(way.from, way.byte);
  while (ways[slot].to != 0)
    slot = (slot + 1) & (ways.size() - 1);
  ways[slot] = way;
}

void Trie::grow() {
  --shift;
  std::vector<Way> old = std::exchange(ways, std::vector<Way>(2 * ways.size()));
  for (const Way &way : old)
    if (way.to != 0)
      put(way);
}

} // namespace mt::tokenizer
