#include "runtime/tokenizer/Cuts.h"

#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {

size_t Cuts::startAt(std::string_view text, size_t at) {
  for (size_t n = 0; n < kStarts.size(); ++n)
    if (text.substr(at).starts_with(kStarts[n]))
      return n;
  return kStarts.size();
}

void Cuts::learn(const Vocabulary &tokens) {
  for (size_t n = 0; n < kStarts.size(); ++n)
    allowed[n] = tokens.find(kStarts[n]).has_value();
  for (uint32_t id = 0; id < tokens.end(); ++id) {
    const std::string *token = tokens.token(id);
    for (size_t at = 0, next = 0; token && at < token->size(); at = next) {
      next = at + lengthOf((*token)[at]);
      if (size_t n = next < token->size() ? startAt(*token, next) : kStarts.size(); n < kStarts.size())
        inside[n].insert(token->substr(at, next - at));
    }
  }
}

size_t Cuts::first(std::string_view text, const Vocabulary &tokens) const {
  for (size_t at = text.empty() ? 0 : lengthOf(text[0]); at < text.size(); ++at) {
    char c = text[at];
    if (c != ' ' && c != '\n' && c != '\xe2')
      continue;
    size_t n = startAt(text, at);
    if (n == kStarts.size() || !allowed[n])
      continue;
    size_t begin = previousCharacter(text, at);
    std::string_view before = text.substr(begin, at - begin);
    if (!inside[n].contains(before) && tokens.find(before))
      return at;
  }
  return text.size();
}

} // namespace mt::tokenizer
