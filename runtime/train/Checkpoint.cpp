#include "runtime/train/Checkpoint.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/host/Convert.h"
#include "runtime/train/Safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using plan::PartRole;

constexpr int kFormat = 1;
constexpr std::string_view kPrefix = "step-", kAside = ".writing-", kReplaced = ".replaced-";
constexpr PartRole kRoles[] = {PartRole::weight, PartRole::firstMoment, PartRole::secondMoment}; // that have files

const plan::Part *partOf(const plan::Parameter &parameter, PartRole role) {
  for (const plan::Part &part : parameter.parts)
    if (part.role == role)
      return &part;
  return nullptr;
}

std::string fileOf(const std::string &folder, PartRole role) {
  return fmt::format("{}/{}.safetensors", folder, fileStem(role));
}

Status syncFolder(const std::string &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  bool ok = descriptor >= 0 && ::fsync(descriptor) == 0;
  std::string reason = ok ? "" : std::strerror(errno);
  if (descriptor >= 0)
    ::close(descriptor);
  return ok ? Status() : fail("{}: {}", folder, reason);
}

/// The other half of a weight, where that is in two.
const plan::Part *restOf(const plan::Parameter &parameter, PartRole role) {
  return role == PartRole::weight ? partOf(parameter, PartRole::remainder) : nullptr;
}

/// A master in two halves, in place.
struct Master {
  std::span<std::byte> upper, lower;
  size_t elements() const { return upper.size() / sizeof(kernels::Bf16); }
  kernels::Bf16 *uppers() const { return reinterpret_cast<kernels::Bf16 *>(upper.data()); }
  int16_t *lowers() const { return reinterpret_cast<int16_t *>(lower.data()); }
};

Status writeJoined(SafetensorsWriter &writer, const Master &master) {
  constexpr size_t kPiece = 1 << 16;
  std::vector<float> piece;
  for (size_t at = 0; at < master.elements(); at += piece.size()) {
    piece.resize(std::min(kPiece, master.elements() - at));
    host::joinMaster(master.uppers() + at, master.lowers() + at, piece);
    MT_TRY(writer.write(std::as_bytes(std::span(piece))));
  }
  return Status();
}

Status splitInto(const Master &master, std::span<const std::byte> stored) {
  for (size_t i = 0; i < master.elements(); ++i) {
    float value;
    std::memcpy(&value, stored.data() + i * sizeof(value), sizeof(value));
    if (!kernels::splits(value))
      return fail("element {} is {}: not finite in bf16; go on with --precision fp32", i, value);
    host::splitMaster(std::span(&value, 1), master.uppers() + i, master.lowers() + i);
  }
  return Status();
}

Status writeRole(const std::string &folder, const plan::Plan &plan, PartRole role, const PartBytes &bytes) {
  std::vector<TensorInfo> tensors;
  // By name, so that the file does not depend on the plan's order.
  std::vector<const plan::Parameter *> parameters;
  for (const plan::Parameter &parameter : plan.parameters)
    if (parameter.trainable && partOf(parameter, role))
      parameters.push_back(&parameter);
  std::sort(parameters.begin(), parameters.end(), [](auto *a, auto *b) { return a->name < b->name; });
  for (const plan::Parameter *parameter : parameters) {
    DType type = restOf(*parameter, role) ? DType::f32 : partOf(*parameter, role)->type;
    tensors.push_back({parameter->name, type, parameter->dims});
  }
  if (tensors.empty())
    return Status();
  MT_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::create(fileOf(folder, role), tensors));
  for (const plan::Parameter *parameter : parameters) {
    std::span<std::byte> part = bytes(*partOf(*parameter, role));
    if (const plan::Part *rest = restOf(*parameter, role))
      MT_TRY(writeJoined(writer, {part, bytes(*rest)}));
    else
      MT_TRY(writer.write(part));
  }
  return writer.finish();
}

std::string metaText(const CheckpointMeta &meta) {
  json object = {{"format", kFormat},
                 {"order", meta.order},
                 {"step", meta.step},
                 {"epoch", meta.epoch},
                 {"position", meta.position},
                 {"rows", meta.rows},
                 {"seed", meta.seed},
                 {"shuffle", meta.shuffle},
                 {"batch", meta.batch},
                 {"micro_batch", meta.microBatch},
                 {"sequence", meta.sequence},
                 {"precision", meta.precision},
                 {"optimizer", meta.optimizer},
                 {"plan", meta.plan},
                 {"model_file", meta.modelFile},
                 {"hyperparameters", meta.hyperparameters}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Status writeAside(const std::string &aside, const plan::Plan &plan, const CheckpointMeta &meta, const PartBytes &part) {
  std::error_code error;
  fs::create_directories(aside, error);
  if (error)
    return fail("--out: {}: {}: choose a folder that can be written", aside, error.message());
  for (PartRole role : kRoles)
    MT_TRY(writeRole(aside, plan, role, part));
  MT_TRY(writeFileAtomically(aside + "/meta.json", metaText(meta)));
  return syncFolder(aside);
}

/// The complete checkpoints of a folder with their order, oldest first.
std::vector<std::pair<int64_t, std::string>> listCheckpoints(const std::string &out) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator at(out, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(kPrefix))
      continue;
    if (Result<CheckpointMeta> meta = readMeta(at->path().string()))
      found.emplace_back(meta->order, at->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void removeLeftovers(const std::string &out) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator at(out, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.starts_with(kAside) || name.starts_with(kReplaced))
      leftovers.push_back(at->path());
  }
  for (const fs::path &path : leftovers)
    fs::remove_all(path, error);
}

/// Renames `aside` to `folder`, moving away what is there.
Status publish(const std::string &out, const std::string &aside, const std::string &folder) {
  std::error_code error;
  std::string replaced = fmt::format("{}/{}{}", out, kReplaced, fs::path(folder).filename().string());
  if (fs::exists(folder))
    fs::rename(folder, replaced, error);
  if (!error)
    fs::rename(aside, folder, error);
  if (error)
    return fail("{}: {}", folder, error.message());
  MT_TRY(syncFolder(out));
  fs::remove_all(replaced, error);
  return Status();
}

Status loadRole(const SafetensorsFile &file, const plan::Plan &plan, PartRole role, const PartBytes &bytes) {
  size_t used = 0;
  for (const plan::Parameter &parameter : plan.parameters) {
    const plan::Part *part = partOf(parameter, role);
    if (!parameter.trainable || !part)
      continue;
    const ArrayView *tensor = file.find(parameter.name);
    if (!tensor)
      return fail("{}: no parameter '{}': the checkpoint is of another model", file.path(), parameter.name);
    const plan::Part *rest = restOf(parameter, role);
    DType wanted = rest ? DType::f32 : part->type;
    if (tensor->type != wanted || tensor->dims != parameter.dims)
      return fail("{}: parameter '{}' is {} {}, and the plan wants {} {}", file.path(), parameter.name,
                  name(tensor->type), text(tensor->dims), name(wanted), text(parameter.dims));
    std::span<std::byte> to = bytes(*part), lower = rest ? bytes(*rest) : std::span<std::byte>();
    if (to.size() + lower.size() < tensor->data.size())
      return fail("{}: parameter '{}' has {} bytes, and its place {}", file.path(), parameter.name, tensor->data.size(),
                  to.size() + lower.size());
    if (rest)
      MT_TRY(
          splitInto({to, lower}, tensor->data).within(fmt::format("{}: parameter '{}'", file.path(), parameter.name)));
    else
      std::memcpy(to.data(), tensor->data.data(), tensor->data.size());
    ++used;
  }
  if (used != file.tensors().size())
    return fail("{}: it has {} parameters, and the plan trains {}: compile the same model with the same --train and "
                "--freeze",
                file.path(), file.tensors().size(), used);
  return Status();
}

} // namespace

std::string_view fileStem(PartRole role) {
  switch (role) {
  case PartRole::weight:
    return "weight";
  case PartRole::remainder:
    break;
  case PartRole::firstMoment:
    return "first_moment";
  case PartRole::secondMoment:
    return "second_moment";
  }
  return "";
}

Result<std::string> saveCheckpoint(const std::string &out, const plan::Plan &plan, CheckpointMeta meta,
                                   const PartBytes &part, int keep) {
  std::vector<std::pair<int64_t, std::string>> older = listCheckpoints(out);
  meta.order = older.empty() ? 1 : older.back().first + 1;
  std::string folder = fmt::format("{}/{}{}", out, kPrefix, meta.step);
  std::string aside = fmt::format("{}/{}{}", out, kAside, meta.step);
  std::error_code error;
  removeLeftovers(out);
  if (Status written = writeAside(aside, plan, meta, part); !written) {
    fs::remove_all(aside, error);
    return written;
  }
  MT_TRY(publish(out, aside, folder));
  std::vector<std::pair<int64_t, std::string>> all = listCheckpoints(out);
  for (size_t i = 0; i + static_cast<size_t>(std::max(keep, 1)) < all.size(); ++i)
    fs::remove_all(all[i].second, error);
  return folder;
}

std::optional<std::string> newestCheckpoint(const std::string &path) {
  if (readMeta(path))
    return path;
  std::vector<std::pair<int64_t, std::string>> found = listCheckpoints(path);
  if (found.empty())
    return std::nullopt;
  return found.back().second;
}

Result<CheckpointMeta> readMeta(const std::string &folder) {
  std::string path = folder + "/meta.json";
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  std::string_view content(reinterpret_cast<const char *>(file.bytes().data()), file.size());
  Result<json> parsed = parseJson(content);
  if (!parsed)
    return fail("{}: damaged: {}", path, parsed.status().message());
  const json &object = *parsed;
  if (!object.is_object() || !object.contains("format"))
    return fail("{}: damaged", path);
  if (object["format"] != kFormat)
    return fail("{}: format {} is not {}, the one of this version: use the mtrun that wrote it", path,
                object["format"].dump(), kFormat);
  auto integer = [&](const char *key) {
    auto at = object.find(key);
    return at != object.end() && at->is_number_integer() ? at->get<int64_t>() : int64_t(0);
  };
  auto string = [&](const char *key) {
    auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  CheckpointMeta meta;
  meta.order = integer("order");
  meta.step = integer("step");
  meta.epoch = integer("epoch");
  meta.position = integer("position");
  meta.rows = integer("rows");
  meta.seed = static_cast<uint64_t>(integer("seed"));
  meta.shuffle = object.contains("shuffle") && object["shuffle"] == true;
  meta.batch = integer("batch");
  meta.microBatch = integer("micro_batch");
  meta.sequence = integer("sequence");
  meta.precision = string("precision");
  meta.optimizer = string("optimizer");
  meta.plan = string("plan");
  meta.modelFile = string("model_file");
  meta.hyperparameters = object.value("hyperparameters", json::object());
  if (meta.step < 0 || meta.position < 0)
    return fail("{}: damaged", path);
  return meta;
}

Status loadCheckpoint(const std::string &folder, const plan::Plan &plan, const PartBytes &part, bool weightsOnly) {
  for (PartRole role : kRoles) {
    bool moment = role == PartRole::firstMoment || role == PartRole::secondMoment;
    bool wanted = std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const plan::Parameter &parameter) {
      return parameter.trainable && partOf(parameter, role);
    });
    if (!wanted || (moment && weightsOnly))
      continue;
    MT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(fileOf(folder, role)));
    MT_TRY(loadRole(file, plan, role, part));
  }
  return Status();
}

} // namespace mt::train
