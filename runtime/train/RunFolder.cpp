#include "runtime/train/RunFolder.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/Log.h"
#include "runtime/train/CheckpointMeta.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLockFile = ".lock";

std::string textOf(const std::string &path) {
  Result<std::optional<std::string>> text = readFile(path);
  return text && *text ? **text : "";
}

std::string newIdentity() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// What run.json says: whose folder it is, and what of it was there before.
struct Noted {
  std::string run;              ///< empty: nobody's, or everybody's
  std::optional<int64_t> order; ///< the largest of a checkpoint of earlier runs; none: not known
  std::set<std::string> others; ///< names of what was damaged then

  static Result<Noted> read(const std::string &out) {
    std::string path = fmt::format("{}/{}", out, kRunFile);
    MT_ASSIGN(std::optional<std::string> text, readFile(path));
    Noted noted;
    if (!text)
      return noted;
    Result<nlohmann::json> object = parseJson(*text);
    if (!object || !object->is_object() || !object->contains("run") || !(*object)["run"].is_string())
      return fail("{}: damaged: without it, it is not known which checkpoints are of the run; remove it to go on from the "
                  "newest",
                  path);
    noted.run = (*object)["run"].get<std::string>();
    if (object->contains("order") && (*object)["order"].is_number_integer())
      noted.order = (*object)["order"].get<int64_t>();
    for (const nlohmann::json &name : object->value("others", nlohmann::json::array()))
      if (name.is_string())
        noted.others.insert(name.get<std::string>());
    return noted;
  }
  Status write(const std::string &out) const {
    nlohmann::json object = {{"run", run}};
    if (order)
      object["order"] = *order;
    if (!others.empty())
      object["others"] = others;
    return writeFileAtomically(fmt::format("{}/{}", out, kRunFile), object.dump() + "\n");
  }

  /// Whether a checkpoint is of this run. Older versions did not write that into it: then its age decides.
  bool owns(const FoundCheckpoint &found) const {
    if (run.empty())
      return true;
    if (found.meta.format == 0) // nothing is known of it
      return !others.contains(fs::path(found.folder).filename().string());
    return found.meta.run.empty() ? !order || found.meta.order > *order : found.meta.run == run;
  }
};

/// A run's own checkpoints, of all that findCheckpoints() or damagedCheckpoints() found.
Result<std::vector<FoundCheckpoint>> ownOf(const Noted &noted, Result<std::vector<FoundCheckpoint>> found) {
  if (found)
    std::erase_if(*found, [&](const FoundCheckpoint &one) { return !noted.owns(one); });
  return found;
}

std::string thisProcess() {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

} // namespace

Result<RunFolder> RunFolder::lock(const std::string &out) {
  Status made = makeFolders(out);
  if (!made || ::access(out.c_str(), W_OK | X_OK) != 0)
    return fail("--out {}: {}: choose a folder that can be written", out,
                made ? std::strerror(errno) : made.message().c_str());
  RunFolder folder(out);
  std::string path = fmt::format("{}/{}", out, kLockFile);
  folder.locked = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!folder.locked.valid())
    return fail("--out {}: {}: {}: choose a folder that can be written", out, path, std::strerror(errno));
  if (::flock(folder.locked.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return fail("--out {}: another mtrun trains in it ({}): wait until it is done, or choose another folder", out,
                  textOf(path));
    log().warn("{}: {}: this file system has no locks: see to it that no other mtrun trains there", out,
               std::strerror(errno));
  }
  // Who it is is for messages only.
  std::string name = thisProcess();
  if (::ftruncate(folder.locked.get(), 0) == 0)
    static_cast<void>(writeAllAt(folder.locked.get(), std::as_bytes(std::span(name)), 0));
  return folder;
}

/// What shows that the folder holds a run: a checkpoint, whole or not, or steps in its metrics. Empty: nothing.
Result<std::string> RunFolder::heldRun() const {
  MT_ASSIGN(std::vector<FoundCheckpoint> found, findCheckpoints(out));
  if (!found.empty())
    return found.front().folder;
  MT_ASSIGN(std::vector<FoundCheckpoint> damaged, damagedCheckpoints(out));
  if (!damaged.empty())
    return damaged.front().folder;
  std::string metrics = fmt::format("{}/{}", out, kMetricsFile), lines = textOf(metrics);
  return std::count(lines.begin(), lines.end(), '\n') > 1 ? metrics : std::string(); // the first line describes the run
}

Result<RunFolder::Start> RunFolder::start(bool resumes, bool overwrite) {
  if (locked.valid())
    adoptLeftovers(out);
  if (resumes)
    return resume();
  MT_ASSIGN(std::string held, heldRun());
  if (!held.empty() && !overwrite)
    return fail("--out {}: it holds a run ({}): go on with --resume, start a new one in its place with --overwrite, or "
                "choose another folder",
                out, held);
  Start start;
  start.run = newIdentity();
  return start;
}

/// Before `chosen`, the one that is gone on from, may come some that cannot be used: damaged ones are set aside.
Status RunFolder::passOver(const std::vector<FoundCheckpoint> &all, const FoundCheckpoint &chosen) {
  auto newer = [&](const FoundCheckpoint &found) { return !found.whole && found.step >= chosen.step; };
  for (const FoundCheckpoint &found : all)
    if (newer(found) && !found.damaged)
      return found.whole.within("--resume");
  for (const FoundCheckpoint &found : all) {
    if (!newer(found))
      continue;
    std::string kept;
    if (locked.valid()) {
      MT_ASSIGN(std::string path, setAside(found.folder));
      kept = ", and it is kept as " + path;
    }
    log().warn("{}; {} is used instead{}", found.whole.message(), chosen.folder, kept);
  }
  return Status();
}

Result<RunFolder::Start> RunFolder::resume() {
  MT_ASSIGN(Noted noted, Noted::read(out));
  MT_ASSIGN(std::vector<FoundCheckpoint> all, findCheckpoints(out));
  MT_ASSIGN(std::vector<FoundCheckpoint> own, ownOf(noted, all));
  Start start;
  if (!own.empty() && own.front().whole) {
    const FoundCheckpoint &chosen = own.front();
    MT_TRY(passOver(own, chosen));
    start = {chosen.folder, chosen.meta, chosen.meta.run, ""};
  } else {
    for (const FoundCheckpoint &found : own)
      if (!found.damaged)
        return found.whole.within("--resume");
    MT_ASSIGN(std::vector<FoundCheckpoint> aside, ownOf(noted, damagedCheckpoints(out)));
    if (!own.empty() || !aside.empty())
      return fail("--resume: no checkpoint of {} is whole ({}): bring one back, or start anew with --overwrite", out,
                  own.empty() ? aside.front().folder + " was damaged" : own.back().whole.message());
    start.note = all.empty() ? fmt::format("--resume: {} has no checkpoint yet: starting at step 0", out)
                             : fmt::format("--resume: {} has checkpoints of an earlier run only ({}), none of the one that "
                                           "took its place: starting at step 0",
                                           out, all.front().folder);
  }
  if (start.run.empty())
    start.run = noted.run.empty() ? newIdentity() : noted.run;
  return start;
}

/// What a new run finds in its folder.
Result<Noted> noteOthers(const std::string &out, const std::string &run) {
  Noted noted{run, -1, {}};
  MT_ASSIGN(std::vector<FoundCheckpoint> all, findCheckpoints(out));
  for (const FoundCheckpoint &found : all) {
    noted.order = std::max(*noted.order, found.meta.order);
    if (found.damaged) // and not in the way of one of this name that the new run writes
      MT_TRY(setAside(found.folder).status());
    else if (!found.whole)
      noted.others.insert(fs::path(found.folder).filename().string());
  }
  MT_ASSIGN(std::vector<FoundCheckpoint> damaged, damagedCheckpoints(out));
  for (const FoundCheckpoint &found : damaged) {
    noted.order = std::max(*noted.order, found.meta.order);
    noted.others.insert(fs::path(found.folder).filename().string());
  }
  return noted;
}

Status RunFolder::begin(const Start &start) {
  identity = start.run;
  MT_ASSIGN(Noted before, Noted::read(out));
  if (identity == before.run)
    return Status();
  Noted noted;
  noted.run = identity;
  if (!start.checkpoint) {
    MT_ASSIGN(noted, noteOthers(out, identity));
  }
  return noted.write(out);
}

Result<std::vector<FoundCheckpoint>> checkpointsOf(const std::string &path) {
  std::error_code error;
  if (fs::exists(path + "/meta.json", error))
    return std::vector<FoundCheckpoint>{lookAt(path)};
  MT_ASSIGN(Noted noted, Noted::read(path));
  MT_ASSIGN(std::vector<FoundCheckpoint> all, findCheckpoints(path));
  MT_ASSIGN(std::vector<FoundCheckpoint> own, ownOf(noted, all));
  if (own.empty() && !all.empty())
    return fail("{}: its checkpoints are of an earlier run ({}), none of the one that took its place: name the "
                "checkpoint that you mean",
                path, all.front().folder);
  if (own.empty())
    return fail("{}: no complete checkpoint there: name the folder that mtrun's --out named", path);
  return own;
}

/// Calls use() with the first and, where that turns out to be damaged, with the next; warns of `failures` before, those
/// of checkpoints that are passed over, of which `instead` says what is used. There is one at least, or a failure.
static Status useFirst(const std::vector<const FoundCheckpoint *> &wanted, const std::string &path,
                       std::vector<Status> failures, std::string_view instead,
                       const std::function<Status(const FoundCheckpoint &)> &use) {
  const bool isOnly = wanted.size() + failures.size() == 1;
  for (const FoundCheckpoint *found : wanted) {
    for (const Status &failure : failures)
      log().warn("{}; {} is used", failure.message(), instead);
    Status used = use(*found);
    if (used || !isDamaged(found->folder, true))
      return used;
    failures = {used};
  }
  return isOnly ? failures.front() : fail("{}: no checkpoint there is whole: {}", path, failures.back().message());
}

Status withNewest(const std::string &path, const std::function<Status(const FoundCheckpoint &)> &use) {
  MT_ASSIGN(std::vector<FoundCheckpoint> all, checkpointsOf(path));
  std::vector<const FoundCheckpoint *> whole;
  std::vector<Status> failures; // of those that cannot be used and are newer, by step
  for (const FoundCheckpoint &found : all)
    if (found.whole)
      whole.push_back(&found);
    else if (found.step < all.front().step)
      continue;
    else if (!found.damaged)
      return found.whole;
    else
      failures.push_back(found.whole);
  return useFirst(whole, path, failures, "an older checkpoint", use);
}

Status withBest(const std::string &path, const std::function<Status(const FoundCheckpoint &)> &use) {
  MT_ASSIGN(std::vector<FoundCheckpoint> all, checkpointsOf(path));
  const std::vector<const FoundCheckpoint *> best = byEvaluation(all);
  if (best.empty())
    return fail("{}: no checkpoint there has an evaluation: train with --eval-data, and --keep-best to keep the best",
                path);
  std::vector<Status> failures; // any may have been the best
  for (const FoundCheckpoint &found : all)
    if (!found.whole && !found.damaged)
      return found.whole;
    else if (!found.whole)
      failures.push_back(found.whole);
  return useFirst(best, path, failures, "the best of the others", use);
}

} // namespace mt::train
