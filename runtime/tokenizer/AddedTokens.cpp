#include "runtime/tokenizer/AddedTokens.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace mt::tokenizer {
namespace {

Result<AddedTokens::Token> readToken(const Fields &fields) {
  AddedTokens::Token token;
  MT_TRY(fields.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  MT_ASSIGN(token.content, fields.text("content"));
  MT_ASSIGN(token.singleWord, fields.flag("single_word", false));
  MT_ASSIGN(token.spaceBefore, fields.flag("lstrip", false));
  MT_ASSIGN(token.spaceAfter, fields.flag("rstrip", false));
  MT_ASSIGN(token.special, fields.flag("special", false));
  MT_ASSIGN(token.normalized, fields.flag("normalized", !token.special));
  return token;
}

} // namespace

Status AddedTokens::read(const Fields &fields, const Model &model, const std::vector<NormalizerPtr> &normalizers) {
  if (!fields.find("added_tokens"))
    return Status();
  MT_ASSIGN(std::vector<Fields> entries, fields.objects("added_tokens"));
  Vocabulary own;
  Scratch scratch;
  auto next = static_cast<uint32_t>(model.vocabulary().size());
  for (const Fields &entry : entries) {
    MT_ASSIGN(Token token, readToken(entry));
    MT_ASSIGN(uint64_t id, entry.number("id"));
    std::optional<uint32_t> known = model.vocabulary().find(token.content);
    if (!known)
      known = own.find(token.content);
    if (token.content.empty())
      continue;
    token.id = known ? *known : next++;
    if (token.id != id)
      return entry.fail("\"{}\" has the id {} here, and {} by its place in the vocabulary", token.content, id,
                        token.id);
    MT_TRY(own.add(token.content, token.id).within(entry.where()));
    bool whole = true;
    token.form = token.content;
    if (token.normalized) {
      MT_ASSIGN(token.form, normalize(normalizers, token.content, scratch, whole));
    }
    std::erase_if(tokens, [&](const Token &other) { return other.id == token.id; });
    tokens.push_back(std::move(token));
  }
  std::ranges::sort(tokens, {}, &Token::id);
  for (size_t n = 0; n < tokens.size(); ++n)
    if (!tokens[n].form.empty())
      tries[tokens[n].normalized].add(tokens[n].form, static_cast<uint32_t>(n));
  return Status();
}

const AddedTokens::Token *AddedTokens::token(uint32_t id) const {
  auto at = std::ranges::lower_bound(tokens, id, {}, &Token::id);
  return at != tokens.end() && at->id == id ? &*at : nullptr;
}

std::optional<uint32_t> AddedTokens::find(std::string_view content) const {
  auto at = std::ranges::find(tokens, content, &Token::content);
  return at != tokens.end() ? std::optional(at->id) : std::nullopt;
}

uint32_t AddedTokens::end() const { return tokens.empty() ? 0 : tokens.back().id + 1; }

bool AddedTokens::isSpecial(std::string_view content) const {
  return std::ranges::any_of(tokens, [&](const Token &token) { return token.special && token.content == content; });
}

std::optional<AddedTokens::Place> AddedTokens::placeAt(const Trie &trie, std::string_view text, size_t at) const {
  std::optional<Place> place;
  trie.each(text.substr(at), [&](size_t length, uint32_t token) {
    place = Place{token, at, at + length, at + length, true};
  });
  if (!place)
    return std::nullopt;
  const Token &token = tokens[place->token];
  size_t after = place->end;
  if (token.singleWord) {
    size_t before = at == 0 ? 0 : previousCharacter(text, at);
    place->counts = (at == 0 || !isWordPart(nextCharacter(text, before))) &&
                    (after == text.size() || !isWordPart(nextCharacter(text, after)));
  }
  while (token.spaceBefore && place->begin > 0) {
    size_t before = previousCharacter(text, place->begin), end = before;
    if (!isSpace(nextCharacter(text, end)))
      break;
    place->begin = before;
  }
  for (size_t end = place->end; token.spaceAfter && end < text.size() && isSpace(nextCharacter(text, end));)
    place->end = end;
  return place;
}

} // namespace mt::tokenizer
