#include "runtime/train/FolderTensors.h"

#include "runtime/base/Files.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kIndex = "model.safetensors.index.json", *kOneFile = "model.safetensors";

std::string at(const std::string &folder, const std::string &name) { return (fs::path(folder) / name).string(); }

/// The files that an index names, each a plain name in the folder.
Result<std::set<std::string>> filesOfIndex(const std::string &path, const std::string &index) {
  Result<nlohmann::json> json = parseJson(index);
  if (!json || !json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object())
    return fail("{}: has no 'weight_map' of tensors and files", path);
  std::set<std::string> names;
  for (const auto &[tensor, file] : (*json)["weight_map"].items()) {
    if (!file.is_string() || fs::path(file.get<std::string>()).filename() != file.get<std::string>() ||
        fs::path(file.get<std::string>()).extension() != ".safetensors")
      return fail("{}: tensor '{}' lies in {}, which is no .safetensors file of the folder", path, tensor, file.dump());
    names.insert(file);
  }
  return names;
}

Result<std::set<std::string>> weightFiles(const std::string &folder) {
  MT_ASSIGN(std::optional<std::string> index, readFile(at(folder, kIndex)));
  if (index)
    return filesOfIndex(at(folder, kIndex), *index);
  std::error_code error;
  if (fs::exists(at(folder, kOneFile), error))
    return std::set<std::string>{kOneFile};
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors")
      names.insert(entry.path().filename().string());
  if (error)
    return fail("--like {}: {}", folder, error.message());
  if (names.empty())
    return fail("--like {}: holds no *.safetensors file: name the checkpoint folder that was trained", folder);
  return names;
}

} // namespace

Result<FolderTensors> FolderTensors::open(const std::string &folder) {
  FolderTensors opened;
  MT_ASSIGN(const std::set<std::string> names, weightFiles(folder));
  opened.all.reserve(names.size());
  for (const std::string &name : names) {
    MT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(at(folder, name)));
    opened.all.push_back(std::move(file));
    for (const auto &[tensor, view] : opened.all.back().tensors())
      if (!opened.byName.emplace(tensor, Place{&opened.all.back(), &view}).second)
        return fail("{}: tensor '{}' is in {} too", opened.all.back().path(), tensor,
                    opened.byName.at(tensor).file->path());
  }
  return opened;
}

std::string FolderTensors::prefixOf(const std::set<std::string_view> &names) const {
  if (std::ranges::any_of(names, [&](std::string_view name) { return byName.contains(name); }))
    return "";
  std::map<std::string_view, size_t> found;
  for (std::string_view name : names)
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (byName.contains(name.substr(dot + 1)))
        ++found[name.substr(0, dot + 1)];
  std::string_view best;
  for (auto [prefix, count] : found)
    if (best.empty() || count > found[best] || (count == found[best] && prefix.size() < best.size()))
      best = prefix;
  return std::string(best);
}

} // namespace mt::train
