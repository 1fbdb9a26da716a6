#include "runtime/train/RunFolder.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/Log.h"
#include "runtime/base/MappedFile.h"
#include "runtime/train/CheckpointMeta.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kRunFile = "run.json", *kLockFile = ".lock", *kMetricsFile = "metrics.jsonl";

std::string textOf(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  return file ? std::string(reinterpret_cast<const char *>(file->bytes().data()), file->size()) : std::string();
}

std::string newIdentity() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
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

/// The identity in run.json; empty if there is none.
std::string RunFolder::notedRun() const {
  Result<nlohmann::json> object = parseJson(textOf(fmt::format("{}/{}", out, kRunFile)));
  bool known = object && object->is_object() && object->contains("run") && (*object)["run"].is_string();
  return known ? (*object)["run"].get<std::string>() : std::string();
}

/// What shows that the folder holds a run: a checkpoint, whole or not, or steps in its metrics. Empty: nothing.
std::string RunFolder::heldRun() const {
  if (std::vector<FoundCheckpoint> found = findCheckpoints(out); !found.empty())
    return found.front().folder;
  if (std::vector<std::string> damaged = damagedCheckpoints(out); !damaged.empty())
    return damaged.front();
  std::string metrics = fmt::format("{}/{}", out, kMetricsFile), lines = textOf(metrics);
  return std::count(lines.begin(), lines.end(), '\n') > 1 ? metrics : ""; // the first line describes the run
}

Result<RunFolder::Start> RunFolder::start(bool resumes, bool overwrite) {
  if (locked.valid())
    adoptLeftovers(out);
  if (resumes)
    return resume();
  if (std::string held = heldRun(); !held.empty() && !overwrite)
    return fail("--out {}: it holds a run ({}): go on with --resume, start a new one in its place with --overwrite, or "
                "choose another folder",
                out, held);
  return Start();
}

Status RunFolder::damaged(const FoundCheckpoint &found, const std::string &instead) {
  std::string kept;
  if (locked.valid()) {
    MT_ASSIGN(std::string path, setAside(found.folder));
    kept = ", and it is kept as " + path;
  }
  log().warn("{}; {} is used instead{}", found.whole.message(), instead, kept);
  return Status();
}

Result<RunFolder::Start> RunFolder::resume() {
  std::string run = notedRun();
  std::vector<FoundCheckpoint> all = findCheckpoints(out);
  for (const FoundCheckpoint &found : all)
    if (!found.whole && isOfLaterVersion(found.folder))
      return found.whole.within("--resume");
  auto chosen = std::find_if(all.begin(), all.end(), [&](const FoundCheckpoint &found) {
    return found.whole && (run.empty() || found.meta.run.empty() || found.meta.run == run);
  });
  if (chosen != all.end()) {
    for (const FoundCheckpoint &found : all)
      if (!found.whole && found.step >= chosen->step)
        MT_TRY(damaged(found, chosen->folder));
    return Start{chosen->folder, chosen->meta, ""};
  }
  std::vector<std::string> aside = damagedCheckpoints(out);
  bool broken = !all.empty() && !all.back().whole;
  if (broken || !aside.empty())
    return fail("--resume: no checkpoint of {} is whole ({}): bring one back, or start anew with --overwrite", out,
                broken ? all.back().whole.message() : aside.front() + " was damaged");
  Start start;
  start.note = all.empty()
                   ? fmt::format("--resume: {} has no checkpoint yet: starting at step 0", out)
                   : fmt::format("--resume: {} has checkpoints of an earlier run only ({}), none of the one that "
                                 "took its place: starting at step 0",
                                 out, all.front().folder);
  return start;
}

Status RunFolder::begin(const Start &start) {
  std::string noted = notedRun();
  identity = start.checkpoint ? start.meta.run : "";
  if (identity.empty())
    identity = newIdentity();
  if (identity == noted)
    return Status();
  return writeFileAtomically(fmt::format("{}/{}", out, kRunFile), nlohmann::json{{"run", identity}}.dump() + "\n");
}

} // namespace mt::train
