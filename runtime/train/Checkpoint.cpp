#include "runtime/train/Checkpoint.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/CheckpointMeta.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/EvaluationRecord.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

// Names in a run's folder. What is written lies in .writing-N until it is complete; what a step's checkpoint was before
// it was replaced may lie in .replaced-N for a moment, and after an exchange in .writing-N; .removing-N is going.
constexpr std::string_view kPrefix = "step-", kAside = ".writing-", kReplaced = ".replaced-", kRemoving = ".removing-",
                           kDamaged = "damaged-";

/// In order; none of a folder that is not there.
Result<std::vector<std::string>> entriesOf(const std::string &out) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(out, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    return fail("{}: {}", out, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// N of step-N.
std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  int64_t step = 0;
  const char *end = name.data() + name.size();
  auto [at, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && at == end ? std::optional(step) : std::nullopt;
}

/// N of whatever the name says of its step: step-N, .writing-N.2, .replaced-step-N, damaged-step-N.
int64_t stepIn(std::string_view name) {
  int64_t step = 0;
  std::string_view number = name.substr(name.rfind('-') + 1);
  std::from_chars(number.data(), number.data() + number.size(), step);
  return step;
}

bool isLeftover(std::string_view name) { return name.starts_with(kAside) || name.starts_with(kReplaced); }

/// Of a checkpoint that cannot be used: whether the reason is what its files hold. Not so where they cannot be read.
bool hasDamage(const std::string &folder, bool throughout) {
  return !isOfLaterVersion(folder) && readFile(folder + "/meta.json") && checkReadable(folder, throughout);
}

std::string stepFolder(const std::string &out, int64_t step) { return fmt::format("{}/{}{}", out, kPrefix, step); }

/// Removes folders of `out` for good: first their names, durably, so that no half of one is ever taken for whole.
Status discard(const std::string &out, const std::vector<std::string> &folders) {
  std::vector<std::string> going;
  for (const std::string &folder : folders) {
    std::string name = fs::path(folder).filename().string();
    name = name.starts_with(kRemoving) ? name : fmt::format("{}{}", kRemoving, name);
    going.push_back(fmt::format("{}/{}", out, name));
    if (going.back() != folder)
      MT_TRY(renamePath(folder, going.back()).status());
  }
  if (going.empty())
    return Status();
  MT_TRY(syncFolder(out));
  Status first;
  for (const std::string &folder : going) {
    std::error_code error;
    fs::remove_all(folder, error);
    if (error && first)
      first = fail("{}: {}", folder, error.message());
  }
  return first;
}

/// Gives the complete `aside` the name `folder`; what has that name is removed once the new one is durably there.
Status publish(const std::string &out, const std::string &aside, const std::string &folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    MT_TRY(renamePath(aside, folder).status());
    return syncFolder(out);
  }
  std::string old = aside;
  MT_ASSIGN(bool exchanged, renamePath(aside, folder, true));
  if (!exchanged) { // for a moment there is none of this name; both are complete, and found as leftovers
    old = fmt::format("{}/{}{}", out, kReplaced, fs::path(folder).filename().string());
    MT_TRY(renamePath(folder, old).status());
    MT_TRY(renamePath(aside, folder).status());
  }
  MT_TRY(syncFolder(out));
  if (Status gone = discard(out, {old}); !gone) // the new one is safe
    log().warn("{}: what it replaced could not be removed: {}", folder, gone.message());
  return Status();
}

Status adopt(const std::string &out, const std::string &leftover) {
  std::error_code error;
  if (!fs::exists(leftover + "/meta.json", error)) // never was complete, unless it cannot be looked at
    return error ? fail("{}: {}", leftover, error.message()) : discard(out, {leftover});
  FoundCheckpoint found = lookAt(leftover);
  if (!found.whole)
    return found.damaged ? setAside(leftover).status() : found.whole;
  std::string folder = stepFolder(out, found.meta.step);
  FoundCheckpoint there = lookAt(folder);
  if (there.whole && there.meta.order > found.meta.order) // the leftover was being replaced by it
    return discard(out, {leftover});
  if (!there.whole && fs::exists(folder, error))
    MT_TRY(there.damaged ? setAside(folder).status() : there.whole);
  return publish(out, leftover, folder);
}

Status checkRoom(const std::string &out, uint64_t needed) {
  struct statvfs disk = {};
  if (::statvfs(out.c_str(), &disk) != 0 || disk.f_blocks == 0) // unknown: writing will tell
    return Status();
  uint64_t free = static_cast<uint64_t>(::geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
  if (free >= needed)
    return Status();
  return fail("--out {}: a checkpoint needs {}, and the disk has {} free: make room, or keep fewer with --keep", out,
              formatSize(needed), formatSize(free));
}

/// A new folder for what is written. One that could not be adopted may have its name, and stays.
Result<std::string> makeAside(const std::string &out, int64_t step) {
  std::string aside = fmt::format("{}/{}{}", out, kAside, step), first = aside;
  for (int number = 2; ::mkdir(aside.c_str(), 0777) != 0; ++number) {
    if (errno != EEXIST)
      return fail("--out: {}: {}: choose a folder that can be written", aside, std::strerror(errno));
    aside = fmt::format("{}.{}", first, number);
  }
  return aside;
}

Status prune(const std::string &out, const std::string &run, Keep keep) {
  if (run.empty())
    return Status();
  MT_ASSIGN(std::vector<FoundCheckpoint> all, findCheckpoints(out));
  std::erase_if(all, [&](const FoundCheckpoint &found) { return !found.whole || found.meta.run != run; });
  const std::vector<const FoundCheckpoint *> best =
      keep.best ? byEvaluation(all) : std::vector<const FoundCheckpoint *>();
  std::vector<std::string> old;
  for (size_t i = static_cast<size_t>(std::max(keep.newest, 1)); i < all.size(); ++i)
    if (best.empty() || best.front() != &all[i])
      old.push_back(all[i].folder);
  return discard(out, old);
}

/// What was written is safe; that an old one could not be removed is no reason to fail.
void pruneAfter(const std::string &out, const std::string &run, Keep keep) {
  if (Status pruned = prune(out, run, keep); !pruned)
    log().warn("an old checkpoint could not be removed: {}", pruned.message());
}

} // namespace

/// What comes before any tensor: leftovers, numbers, room. Returns a new folder for them.
static Result<std::string> beginCheckpoint(const std::string &out, const plan::Plan &plan, CheckpointMeta &meta) {
  adoptLeftovers(out);
  MT_ASSIGN(std::vector<FoundCheckpoint> all, findCheckpoints(out));
  for (const FoundCheckpoint &found : all)
    meta.order = std::max(meta.order, found.meta.order);
  ++meta.order;
  constexpr uint64_t kMargin = 1 << 20; // headers, metadata, metrics
  MT_TRY(checkRoom(out, stateBytes(plan) + kMargin));
  return makeAside(out, meta.step);
}

/// What comes after all tensors. Returns the checkpoint's folder.
static Result<std::string> finishCheckpoint(const std::string &out, const std::string &aside,
                                            const CheckpointMeta &meta, Keep keep) {
  Status written = writeMeta(aside, meta);
  if (written)
    written = syncFolder(aside);
  if (!written) {
    std::error_code error;
    fs::remove_all(aside, error);
    return written;
  }
  std::string folder = stepFolder(out, meta.step);
  MT_TRY(publish(out, aside, folder));
  pruneAfter(out, meta.run, keep);
  return folder;
}

Result<std::string> saveCheckpoint(const std::string &out, const plan::Plan &plan, CheckpointMeta meta,
                                   const PartBytes &part, Keep keep, int threads, StateRank rank) {
  const bool isFirst = rank.rank() == 0;
  MT_ASSIGN(const std::string aside, rank.told(isFirst ? beginCheckpoint(out, plan, meta) : std::string()));
  Result<nlohmann::json> files = writeState(aside, plan, part, threads, rank);
  if (!files) {
    std::error_code error;
    if (isFirst)
      fs::remove_all(aside, error);
    return files.status();
  }
  meta.files = std::move(*files);
  return rank.told(isFirst ? finishCheckpoint(out, aside, meta, keep) : std::string());
}

Status recordEvaluations(const std::string &folder, const nlohmann::json &evaluations, Keep keep) {
  MT_ASSIGN(CheckpointMeta meta, readMeta(folder));
  meta.evaluations = evaluations;
  MT_TRY(writeMeta(folder, meta));
  pruneAfter(folderOf(folder), meta.run, keep);
  return Status();
}

std::vector<InputFile> checkpointFiles(const std::string &folder) {
  std::vector<InputFile> files;
  const Result<CheckpointMeta> meta = readMeta(folder);
  if (!meta)
    return files;
  files.push_back({"a file of a checkpoint", folder + "/meta.json"});
  std::error_code error;
  for (const auto &[name, about] : meta->files.items())
    files.push_back({"a file of a checkpoint", fmt::format("{}/{}.safetensors", folder, name)});
  if (meta->files.empty()) // format 1 does not say
    for (const auto &entry : fs::directory_iterator(folder, error))
      files.push_back({"a file of a checkpoint", entry.path().string()});
  return files;
}

FoundCheckpoint lookAt(const std::string &folder) {
  FoundCheckpoint found;
  found.folder = folder;
  Result<CheckpointMeta> meta = readMeta(folder);
  found.whole = meta ? checkSizes(folder, meta->files) : meta.status();
  found.damaged = !found.whole && hasDamage(folder, false);
  if (meta)
    found.meta = std::move(*meta);
  found.step = meta ? found.meta.step : stepIn(fs::path(folder).filename().string());
  return found;
}

Result<std::vector<FoundCheckpoint>> findCheckpoints(const std::string &out) {
  std::vector<FoundCheckpoint> all;
  MT_ASSIGN(std::vector<std::string> names, entriesOf(out));
  for (const std::string &name : names) {
    bool named = stepOf(name).has_value();
    if (!named && !isLeftover(name))
      continue;
    FoundCheckpoint found = lookAt(fmt::format("{}/{}", out, name));
    if (named || !found.damaged)
      all.push_back(std::move(found));
  }
  std::stable_sort(all.begin(), all.end(), [](const FoundCheckpoint &a, const FoundCheckpoint &b) {
    bool aWhole = a.whole.ok(), bWhole = b.whole.ok();
    return aWhole != bWhole ? aWhole : aWhole ? a.meta.order > b.meta.order : a.step > b.step;
  });
  return all;
}

std::vector<const FoundCheckpoint *> byEvaluation(const std::vector<FoundCheckpoint> &newestFirst) {
  std::vector<std::pair<double, const FoundCheckpoint *>> evaluated;
  std::string data;
  for (const FoundCheckpoint &found : newestFirst) {
    Result<EvaluationRecord> record = EvaluationRecord::read(found.meta.evaluations);
    if (!found.whole || !record || record->step != found.meta.step || record->step == 0 || !std::isfinite(record->loss))
      continue;
    if (evaluated.empty())
      data = record->data;
    if (record->data == data)
      evaluated.emplace_back(record->loss, &found);
  }
  std::ranges::reverse(evaluated);
  std::ranges::stable_sort(evaluated, {}, &std::pair<double, const FoundCheckpoint *>::first);
  std::vector<const FoundCheckpoint *> sorted;
  for (const auto &[loss, found] : evaluated)
    sorted.push_back(found);
  return sorted;
}

void adoptLeftovers(const std::string &out) {
  Result<std::vector<std::string>> names = entriesOf(out);
  for (size_t i = 0; names && i < names->size(); ++i) {
    const std::string &name = (*names)[i];
    std::string path = fmt::format("{}/{}", out, name);
    Status done = name.starts_with(kRemoving) ? discard(out, {path}) : isLeftover(name) ? adopt(out, path) : Status();
    if (!done)
      log().warn("{}: what an interrupted run left stays there: {}", path, done.message());
  }
}

Result<std::string> setAside(const std::string &folder) {
  std::string name = fs::path(folder).filename().string(), out = folderOf(folder);
  std::string free = fmt::format("{}/{}{}", out, kDamaged, name);
  std::error_code error;
  for (int number = 2; fs::exists(free, error); ++number)
    free = fmt::format("{}/{}{}.{}", out, kDamaged, name, number);
  MT_TRY(renamePath(folder, free).status());
  MT_TRY(syncFolder(out));
  return free;
}

Result<std::vector<FoundCheckpoint>> damagedCheckpoints(const std::string &out) {
  std::vector<FoundCheckpoint> found;
  MT_ASSIGN(std::vector<std::string> names, entriesOf(out));
  for (const std::string &name : names)
    if (name.starts_with(kDamaged))
      found.push_back(lookAt(fmt::format("{}/{}", out, name)));
  return found;
}

Status isOfGraph(const std::string &folder, const CheckpointMeta &meta, const plan::Plan &plan) {
  if (meta.graph.empty() || meta.graph == checksumText(plan.model.digest))
    return Status();
  return fail("{} was trained on another graph ({}) than the plan has ({}): compile a plan of that model; or, to take its "
              "weights over, start a new run from what mtrun export with --model {} writes",
              folder, meta.modelFile, plan.model.file, plan.model.file);
}

Status hasFrozenWeights(const std::string &folder, const CheckpointMeta &meta, const std::string &fingerprint) {
  if (meta.frozenWeights.empty() || meta.frozenWeights == fingerprint)
    return Status();
  return fail("{} was trained beside other frozen weights than the plan's files hold now: bring those back; or, to go on "
              "beside these, start a new run from what mtrun export writes",
              folder);
}

Status loadCheckpoint(const std::string &folder, const plan::Plan &plan, const PartBytes &part, Wanted wanted,
                      int threads, uint32_t rank) {
  MT_ASSIGN(CheckpointMeta meta, readMeta(folder));
  return readState(folder, meta.files, plan, part, wanted, threads, rank);
}

Status verifyCheckpoint(const std::string &folder, bool weightsOnly, int threads) {
  MT_ASSIGN(CheckpointMeta meta, readMeta(folder));
  return verifyState(folder, meta.files, weightsOnly, threads);
}

bool isDamaged(const std::string &folder, bool weightsOnly, int threads) {
  return !verifyCheckpoint(folder, weightsOnly, threads) && hasDamage(folder, true);
}

} // namespace mt::train
