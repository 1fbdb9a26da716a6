#include "runtime/train/RecipeFile.h"

#include "runtime/base/Files.h"
#include "runtime/train/RecipeReader.h"

#include <algorithm>

namespace mt::train {
namespace {

constexpr size_t kMostBytes = 1 << 20;

std::string quoted(const std::string &text) {
  std::string word = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      word += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      word += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      word += c;
  return word + "\"";
}

std::string keyText(const std::string &key) {
  const auto isBare = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  return !key.empty() && std::ranges::all_of(key, isBare) ? key : quoted(key);
}

std::string valueText(const std::string &word) { return numberWord(word) == word ? word : quoted(word); }

} // namespace

Result<std::vector<SaidOption>> readRecipeFile(const std::string &path) {
  MT_ASSIGN(const std::optional<std::string> text, readFile(path));
  if (!text)
    return fail("{}: there is no such file", path);
  if (text->size() > kMostBytes)
    return fail("{}: {} bytes are more than a recipe has, 1 MiB", path, text->size());
  Result<std::vector<SaidOption>> options = readRecipe(*text);
  return options ? options : options.status().within(path);
}

std::string recipeFileText(const std::vector<SaidOption> &options) {
  std::string text;
  for (const SaidOption &option : options) {
    std::string words;
    for (const std::string &word : option.words)
      words += (words.empty() ? "" : ", ") + (option.isFlag ? word : valueText(word));
    text += keyText(option.key) + " = " + (option.words.size() > 1 ? "[" + words + "]" : words) + "\n";
  }
  return text;
}

} // namespace mt::train
