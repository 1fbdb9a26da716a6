#include "runtime/tokenizer/JsonTokenizer.h"
#include "runtime/tokenizer/SentencePiece.h"

#include <algorithm>
#include <filesystem>

namespace mt::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr const char *kJson = "tokenizer.json", *kConfiguration = "tokenizer_config.json",
                     *kChatTemplate = "chat_template.jinja";

} // namespace

Result<std::vector<std::string>> tokenizerFiles(const std::string &path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return fail("--tokenizer {}: no such file or folder", path);
  if (!fs::is_directory(path, error))
    return std::vector<std::string>{path};
  const fs::path folder(path);
  if (fs::exists(folder / kJson, error)) {
    std::vector<std::string> files = {(folder / kJson).string()};
    for (const char *name : {kConfiguration, kChatTemplate})
      if (fs::exists(folder / name, error))
        files.push_back((folder / name).string());
    return files;
  }
  std::vector<std::string> models;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".model")
      models.push_back(at->path().string());
  if (error)
    return fail("--tokenizer {}: {}", path, error.message());
  std::ranges::sort(models);
  if (models.empty())
    return fail("--tokenizer {}: the folder has no tokenizer.json and no .model of SentencePiece", path);
  if (models.size() > 1)
    return fail("--tokenizer {}: the folder has several models ({}, {}): name one of them", path, models[0], models[1]);
  return models;
}

Result<std::unique_ptr<Tokenizer>> openTokenizer(const std::string &path) {
  MT_ASSIGN(std::vector<std::string> files, tokenizerFiles(path));
  fs::path extension = fs::path(files.front()).extension();
  if (extension == ".json")
    return openJsonTokenizer(files.front(), files.size() > 1 && files[1].ends_with(kConfiguration) ? files[1] : "");
  if (extension == ".model")
    return openSentencePiece(files.front());
  return fail("--tokenizer {}: neither a tokenizer.json nor a .model of SentencePiece, by its name", path);
}

} // namespace mt::tokenizer
