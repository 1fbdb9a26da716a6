#include "runtime/train/CheckpointMeta.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Files.h"
#include "runtime/base/Json.h"
#include "runtime/train/Adapters.h"
#include "runtime/train/Aliases.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/EvaluationRecord.h"

namespace mt::train {
namespace {

using nlohmann::json;

constexpr int64_t kFormat = 2, kOldFormat = 1;

std::string compact(const json &object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string checksumOfJson(const json &object) {
  std::string text = compact(object);
  return checksumText(checksumOf(std::as_bytes(std::span(text))));
}

/// Calls visit(key, field) for every field; `meta` may be const.
template <typename Meta, typename Visit> void forEachField(Meta &meta, const Visit &visit) {
  visit("order", meta.order);
  visit("run", meta.run);
  visit("step", meta.step);
  visit("epoch", meta.epoch);
  visit("position", meta.position);
  visit("rows", meta.rows);
  visit("batch", meta.batch);
  visit("micro_batch", meta.microBatch);
  visit("sequence", meta.sequence);
  visit("precision", meta.precision);
  visit("optimizer", meta.optimizer);
  visit("loss", meta.loss);
  visit("clip", meta.clip);
  visit("plan", meta.plan);
  visit("graph", meta.graph);
  visit("frozen_weights", meta.frozenWeights);
  visit("model_file", meta.modelFile);
  visit("corpus", meta.data);
  visit("numerics", meta.numerics);
  visit("recipe", meta.recipe);
  visit("aliases", meta.aliases);
  visit("adapters", meta.adapters);
  visit("evaluations", meta.evaluations);
  visit("files", meta.files);
}

json toJson(const CheckpointMeta &meta) {
  json object = {{"format", kFormat}};
  forEachField(meta, [&](const char *key, const auto &field) { object[key] = field; });
  return object;
}

bool isOf(const json &value, const int64_t &) { return value.is_number_integer(); }
bool isOf(const json &value, const std::string &) { return value.is_string(); }
bool isOf(const json &value, const bool &) { return value.is_boolean(); }
bool isOf(const json &, const json &) { return true; }

/// What is missing or of another type stays as it is in a new one.
CheckpointMeta fromJson(const json &object) {
  CheckpointMeta meta;
  auto read = [&](const char *key, auto &field) {
    if (auto at = object.find(key); at != object.end() && isOf(*at, field))
      field = at->get<std::remove_reference_t<decltype(field)>>();
  };
  read("format", meta.format);
  forEachField(meta, read);
  if (meta.format != kOldFormat)
    return meta;
  read("hyperparameters", meta.recipe);
  if (meta.recipe.is_object() && object.contains("seed")) {
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
  MT_ASSIGN(std::optional<std::string> content, readFile(path));
  if (!content)
    return fail("{}: No such file or directory", path);
  Result<json> parsed = parseJson(*content);
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
  if (meta.step < 0 || meta.position < 0 || !meta.recipe.is_object() || !readAliases(meta.aliases) ||
      !readAdapters(meta.adapters) || !isStateRecord(meta.files) || !EvaluationRecord::read(meta.evaluations))
    return fail("{}: damaged", path);
  return meta;
}

} // namespace mt::train
