#include "runtime/tokenizer/SentencePieceRules.h"

#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {

size_t longestOf(const Trie &trie, std::string_view text) {
  size_t longest = 0;
  trie.each(text, [&](size_t length, uint32_t) { longest = length; });
  return longest;
}

SentencePieceRules::Step SentencePieceRules::step(std::string_view rest) const {
  if (size_t length = longestOf(fixed, rest))
    return {length, rest.substr(0, length)};
  if (map)
    if (auto found = map->longest(rest))
      return {found->length, found->replacement};
  size_t length = lengthOf(rest[0]);
  if (length > rest.size() || !isUtf8(rest.substr(0, length)))
    return {1, "\xef\xbf\xbd"};
  return {length, rest.substr(0, length)};
}

std::string SentencePieceRules::apply(std::string_view text) const {
  std::string out;
  const std::string_view space = markSpaces ? kSpaceMark : " ";
  if (singleSpaces)
    while (!text.empty()) {
      Step head = step(text);
      if (head.text != " ")
        break;
      text.remove_prefix(head.length);
    }
  if (text.empty())
    return out;
  out.reserve(text.size() + text.size() / 2);
  if (!spacesBehind && spaceFirst)
    out += space;
  bool afterSpace = singleSpaces;
  while (!text.empty()) {
    Step next = step(text);
    std::string_view put = next.text;
    while (afterSpace && put.starts_with(' '))
      put.remove_prefix(1);
    for (char c : put)
      c == ' ' ? out += space : out += c;
    if (!put.empty())
      afterSpace = put.ends_with(' ');
    afterSpace = afterSpace && singleSpaces;
    text.remove_prefix(next.length);
  }
  while (singleSpaces && out.ends_with(space))
    out.erase(out.size() - space.size());
  if (spacesBehind && spaceFirst)
    out += space;
  return out;
}

} // namespace mt::tokenizer
