#include "runtime/train/FolderTensors.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kIndex = "model.safetensors.index.json", *kOneFile = "model.safetensors";
constexpr std::string_view kEnding = ".safetensors";

std::string at(const std::string &folder, const std::string &name) { return (fs::path(folder) / name).string(); }

/// The files that an index names, each a plain name in the folder, and which of them has which tensor.
Result<std::map<std::string, std::string>> readIndex(const std::string &path) {
  MT_ASSIGN(const MappedFile file, MappedFile::open(path));
  Result<nlohmann::json> json = parseJson({reinterpret_cast<const char *>(file.bytes().data()), file.size()});
  if (!json || !json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object())
    return fail("{}: has no weight_map{}", path, json ? "" : ": " + json.status().message());
  std::map<std::string, std::string> places;
  for (const auto &[tensor, value] : (*json)["weight_map"].items()) {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || !name.ends_with(kEnding))
      return fail("{}: tensor '{}' is in {}, which is no {} file of the folder", path, tensor, value.dump(), kEnding);
    places[tensor] = name;
  }
  return places;
}

Status noneFound(const std::string &folder) {
  std::error_code error;
  for (const char *other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"})
    if (fs::exists(at(folder, other), error))
      return fail("{}: holds {} and no *.safetensors file; load it with transformers and save it again: "
                  "AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)",
                  folder, other);
  return fail("{}: holds no *.safetensors file; name a checkpoint folder, or convert it to safetensors first", folder);
}

/// Names of files in a folder without an index.
Result<std::set<std::string>> weightFiles(const std::string &folder) {
  std::error_code error;
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == kEnding)
      names.insert(entry.path().filename().string());
  if (error)
    return fail("{}: cannot be listed: {}", folder, error.message());
  if (names.empty())
    return noneFound(folder);
  return names.contains(kOneFile) ? std::set<std::string>{kOneFile} : names;
}

} // namespace

Status FolderTensors::add(const std::string &path) {
  MT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  all.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
  for (const auto &[tensor, view] : all.back()->tensors())
    if (const auto [place, isNew] = byName.emplace(tensor, Place{all.back().get(), &view}); !isNew)
      return fail("{}: tensor '{}' is also in {}; keep one of the files, or the index of those that belong together",
                  path, tensor, place->second.file->path());
  return Status();
}

Result<FolderTensors> FolderTensors::open(const std::string &folder) {
  FolderTensors opened;
  std::error_code error;
  const std::string index = at(folder, kIndex);
  if (!fs::exists(index, error)) {
    MT_ASSIGN(const std::set<std::string> names, weightFiles(folder));
    for (const std::string &name : names)
      MT_TRY(opened.add(at(folder, name)));
    return opened;
  }
  MT_ASSIGN(const auto places, readIndex(index));
  std::set<std::string> names;
  for (const auto &[tensor, name] : places)
    names.insert(name);
  for (const std::string &name : names) {
    if (!fs::exists(at(folder, name), error))
      return fail("{}: is missing, and {} names it; download the rest of the checkpoint", at(folder, name), index);
    MT_TRY(opened.add(at(folder, name)));
  }
  for (const auto &[tensor, name] : places)
    if (!opened.byName.contains(tensor))
      return fail("{}: names the tensor '{}', which no file holds; download the checkpoint again", index, tensor);
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
