#include "runtime/train/CheckpointMeta.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Checksum.h"

namespace mt::train {
namespace {

using nlohmann::json;

constexpr int64_t kFormat = 2, kOldFormat = 1;

std::string compact(const json &object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string checksumOfJson(const json &object) {
  std::string text = compact(object);
  return checksumText(checksumOf(std::as_bytes(std::span(text))));
}

json toJson(const CheckpointMeta &meta) {
  return {{"format", kFormat},
          {"order", meta.order},
          {"run", meta.run},
          {"step", meta.step},
          {"epoch", meta.epoch},
          {"position", meta.position},
          {"rows", meta.rows},
          {"batch", meta.batch},
          {"micro_batch", meta.microBatch},
          {"sequence", meta.sequence},
          {"precision", meta.precision},
          {"optimizer", meta.optimizer},
          {"loss", meta.loss},
          {"clip", meta.clip},
          {"plan", meta.plan},
          {"model_file", meta.modelFile},
          {"data", meta.data},
          {"numerics", meta.numerics},
          {"recipe", meta.recipe},
          {"files", meta.files}};
}

CheckpointMeta fromJson(const json &object) {
  auto integer = [&](const char *key) {
    auto at = object.find(key);
    return at != object.end() && at->is_number_integer() ? at->get<int64_t>() : int64_t(0);
  };
  auto string = [&](const char *key) {
    auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  CheckpointMeta meta;
  meta.format = integer("format");
  meta.order = integer("order");
  meta.run = string("run");
  meta.step = integer("step");
  meta.epoch = integer("epoch");
  meta.position = integer("position");
  meta.rows = integer("rows");
  meta.batch = integer("batch");
  meta.microBatch = integer("micro_batch");
  meta.sequence = integer("sequence");
  meta.precision = string("precision");
  meta.optimizer = string("optimizer");
  meta.loss = string("loss");
  meta.clip = object.contains("clip") && object["clip"] == true;
  meta.plan = string("plan");
  meta.modelFile = string("model_file");
  meta.data = string("data");
  meta.numerics = string("numerics");
  meta.recipe = object.value(meta.format == kOldFormat ? "hyperparameters" : "recipe", json::object());
  meta.files = object.value("files", json::object());
  if (meta.format == kOldFormat && meta.recipe.is_object() && object.contains("seed")) {
    meta.recipe["seed"] = object["seed"];
    meta.recipe["shuffle"] = object.contains("shuffle") && object["shuffle"] == true;
  }
  return meta;
}

struct Stored {
  json object;
  bool sound = false; ///< its checksum is right
};

/// An object with a format, without its checksum.
Result<Stored> readStored(const std::string &path) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  std::string_view content(reinterpret_cast<const char *>(file.bytes().data()), file.size());
  Result<json> parsed = parseJson(content);
  if (!parsed)
    return fail("{}: damaged: {}", path, parsed.status().message());
  Stored stored{std::move(*parsed), false};
  if (!stored.object.is_object() || !stored.object.contains("format"))
    return fail("{}: damaged", path);
  json checksum = stored.object.value("checksum", json());
  stored.object.erase("checksum");
  stored.sound = checksum == checksumOfJson(stored.object);
  return stored;
}

} // namespace

Status writeMeta(const std::string &folder, const CheckpointMeta &meta) {
  json object = toJson(meta);
  // Read back first: what the file's reader will have, such as texts made valid.
  object["checksum"] = checksumOfJson(json::parse(compact(object)));
  std::string text = object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  return writeFileAtomically(folder + "/meta.json", text);
}

bool isOfLaterVersion(const std::string &folder) {
  Result<Stored> stored = readStored(folder + "/meta.json");
  return stored && stored->sound && stored->object["format"].is_number_integer() && stored->object["format"] > kFormat;
}

Result<CheckpointMeta> readMeta(const std::string &folder) {
  std::string path = folder + "/meta.json";
  MT_ASSIGN(Stored stored, readStored(path));
  const json &object = stored.object;
  if (object["format"] != kFormat && object["format"] != kOldFormat)
    return fail("{}: format {} is neither {} nor {}, those of this version: the file is damaged, or for the mtrun that "
                "wrote it",
                path, compact(object["format"]), kOldFormat, kFormat);
  if (object["format"] != kOldFormat && !stored.sound)
    return fail("{}: its checksum is wrong: the file is damaged", path);
  CheckpointMeta meta = fromJson(object);
  if (meta.step < 0 || meta.position < 0 || !meta.recipe.is_object() || !isStateRecord(meta.files))
    return fail("{}: damaged", path);
  return meta;
}

} // namespace mt::train
