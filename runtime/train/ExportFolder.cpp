#include "runtime/train/ExportFolder.h"

#include "runtime/base/AtomicFolder.h"
#include "runtime/base/Json.h"
#include "runtime/train/Elements.h"
#include "runtime/train/FolderTensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

/// Weights in other formats, which the trained ones would contradict.
constexpr std::string_view kOtherWeights[] = {".safetensors", ".bin",  ".bin.index.json", ".pt", ".pth",
                                              ".ckpt",        ".gguf", ".onnx",           ".h5", ".msgpack",
                                              ".ot",          ".data"};

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// A tensor of the folder, and the trained one whose values it takes.
struct Place {
  const SafetensorsFile *file;
  const ArrayView *view;
  const TrainedWeights::Named *trained = nullptr;
};

class FolderExporter {
public:
  FolderExporter(const TrainedWeights &trained, std::string like, std::string output)
      : trained(trained), like(std::move(like)), output(std::move(output)) {}

  Result<ExportedFolder> run() {
    MT_ASSIGN(const FolderTensors opened, FolderTensors::open(like));
    for (const auto &[name, place] : opened.places())
      places.emplace(name, Place{place.file, place.view});
    MT_TRY(match(opened));
    MT_ASSIGN(AtomicFolder folder, AtomicFolder::create(output));
    for (const auto &file : opened.files())
      MT_TRY(writeWeights(*file, folder.file(fs::path(file->path()).filename().string())));
    MT_TRY(copyOthers(opened, folder));
    MT_TRY(folder.commit());
    return done;
  }

private:
  const TrainedWeights &trained;
  std::string like, output, prefix;
  std::map<std::string, Place, std::less<>> places;
  ExportedFolder done;

  std::string at(const std::string &name) const { return (fs::path(like) / name).string(); }

  using At = std::map<std::string, Place, std::less<>>::iterator;
  /// The tensor of the folder that a trained one's name means.
  At placeOf(std::string_view name) {
    At exact = places.find(name);
    return exact == places.end() && !prefix.empty() && name.starts_with(prefix)
               ? places.find(name.substr(prefix.size()))
               : exact;
  }

  Status match(const FolderTensors &opened) {
    std::set<std::string_view> names, missing, placed;
    for (const auto &[name, named] : trained.tensors())
      names.insert(name);
    prefix = opened.prefixOf(names);
    for (const auto &[name, named] : trained.tensors()) {
      const At found = placeOf(name);
      if (found == places.end()) {
        missing.insert(named.parameter);
        continue;
      }
      const std::string &tensor = found->first;
      Place *place = &found->second;
      if (place->view->dims != named.dims)
        return fail("{}: tensor '{}' is {} there and {} in the run: name the folder that was trained",
                    place->file->path(), tensor, text(place->view->dims), text(named.dims));
      if (!isFloat(place->view->type))
        return fail("{}: tensor '{}' is of type {}, which holds no trained weights", place->file->path(), tensor,
                    kernels::name(place->view->type));
      place->trained = &named;
      placed.insert(named.parameter);
    }
    for (std::string_view parameter : placed)
      missing.erase(parameter);
    if (!missing.empty())
      return fail("--like {}: has no tensor for '{}'{}: name the folder that was trained", like, *missing.begin(),
                  missing.size() > 1 ? fmt::format(" and {} more of the run's parameters", missing.size() - 1) : "");
    return followTiedHead();
  }

  /// A head that config.json ties to the embedding, and that is stored too, stays a copy of it.
  Status followTiedHead() {
    MT_ASSIGN(std::optional<std::string> config, readFile(at("config.json")));
    Result<nlohmann::json> json = parseJson(config.value_or("{}"));
    if (!json || !json->is_object())
      return fail("{}: is not a JSON object", at("config.json"));
    const auto tied = json->find("tie_word_embeddings");
    const At found = places.find("lm_head.weight");
    Place *head = found == places.end() ? nullptr : &found->second;
    if (!head || head->trained || tied == json->end() || *tied != true)
      return {};
    const std::span<const std::byte> bytes = head->view->data;
    for (const auto &[name, other] : places)
      if (other.trained && other.view->type == head->view->type && other.view->dims == head->view->dims &&
          std::memcmp(other.view->data.data(), bytes.data(), bytes.size()) == 0)
        head->trained = other.trained;
    return {};
  }

  /// The file's bytes with trained values in their places.
  Status writeWeights(const SafetensorsFile &original, const std::string &path) {
    std::vector<const Place *> order;
    for (const auto &[name, place] : places)
      if (place.file == &original && place.view->data.size() > 0)
        order.push_back(&place);
    std::ranges::sort(order, {}, [](const Place *place) { return place->view->data.data(); });
    MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
    const std::byte *next = original.bytes().data(), *end = next + original.bytes().size();
    for (const Place *place : order) {
      const std::byte *begin = place->view->data.data();
      if (begin < next)
        return fail("{}: its tensors overlap", original.path());
      done.trained += place->trained ? 1 : 0;
      if (!place->trained)
        continue; // with what lies before the next one
      MT_TRY(file.write({next, begin}));
      MT_TRY(writeTrained(*place, file));
      next = begin + place->view->data.size();
    }
    MT_TRY(file.write({next, end}));
    MT_TRY(file.commit());
    done.tensors += original.tensors().size(), ++done.weightFiles, done.bytes += original.bytes().size();
    return {};
  }

  Status writeTrained(const Place &place, AtomicFile &file) const {
    const DType type = place.view->type;
    std::vector<std::byte> converted;
    return trained.read(
        *place.trained, [&] { return floatsOf(type, place.view->data); },
        [&](std::span<const float> values) -> Status {
          converted.resize(values.size() * byteSize(type));
          MT_TRY(convert(DType::f32, reinterpret_cast<const std::byte *>(values.data()), type, converted.data(),
                         static_cast<int64_t>(values.size())));
          return file.write(converted);
        });
  }

  /// Configuration, tokenizer and what else lies beside the weights.
  Status copyOthers(const FolderTensors &opened, const AtomicFolder &folder) {
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(like, error)) {
      const std::string name = entry.path().filename().string();
      const bool isWeights =
          std::ranges::any_of(kOtherWeights, [&](std::string_view end) { return endsWith(name, end); });
      if (std::ranges::any_of(opened.files(), [&](const auto &file) { return file->path() == at(name); }) ||
          name.starts_with('.') || name.starts_with(fs::path(output).filename().string() + ".tmp."))
        continue;
      std::error_code ignored;
      if (isWeights || !fs::is_regular_file(entry.path(), ignored)) {
        done.left.push_back(name);
        continue;
      }
      MT_ASSIGN(MappedFile file, MappedFile::open(entry.path().string()));
      MT_TRY(writeFileAtomically(folder.file(name), file.bytes()));
      ++done.otherFiles, done.bytes += file.size();
    }
    return error ? fail("--like {}: {}", like, error.message()) : Status();
  }
};

} // namespace

Result<ExportedFolder> exportFolder(const TrainedWeights &trained, const std::string &like, const std::string &output) {
  return FolderExporter(trained, like, output).run();
}

} // namespace mt::train
