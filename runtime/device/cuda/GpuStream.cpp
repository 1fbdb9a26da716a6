#include "runtime/device/cuda/GpuStream.h"

namespace mt::device {
namespace {

constexpr size_t kMilestones = 8; // among as many launches as may be under way

} // namespace

Result<std::unique_ptr<GpuStream>> GpuStream::make(Driver &driver, size_t window, size_t mostLaunches, cudaEvent_t origin,
                                                   double originSeconds) {
  std::unique_ptr<GpuStream> made(new GpuStream(driver, mostLaunches, origin, originSeconds));
  MT_ASSIGN(made->cuda, driver.createStream());
  made->ring.resize(window);
  for (Entry &entry : made->ring) {
    MT_ASSIGN(entry.done, driver.createEvent(origin != nullptr));
    if (origin) {
      MT_ASSIGN(entry.begin, driver.createEvent(true));
    }
  }
  made->milestones.resize(kMilestones);
  for (Milestone &milestone : made->milestones) {
    MT_ASSIGN(milestone.event, driver.createEvent(false));
  }
  MT_TRY(made->reserveCalls(1, false));
  return made;
}

GpuStream::~GpuStream() {
  if (cuda)
    (void)driver.synchronize(cuda);
  for (Entry &entry : ring) {
    for (cudaEvent_t event : {entry.begin, entry.done})
      if (event)
        driver.destroy(event);
    for (cudaEvent_t event : entry.between)
      driver.destroy(event);
  }
  for (const Milestone &milestone : milestones)
    if (milestone.event)
      driver.destroy(milestone.event);
  for (void *block : words)
    driver.releasePinned(block);
  if (cuda)
    driver.destroy(cuda);
}

/// Commands under way keep their words: earlier blocks stay.
Status GpuStream::reserveCalls(size_t calls, bool timed) {
  std::lock_guard lock(mutex);
  for (Entry &entry : ring)
    while (timed && entry.between.size() + 1 < calls) {
      MT_ASSIGN(cudaEvent_t event, driver.createEvent(true));
      entry.between.push_back(event);
    }
  if (calls <= wordsPerCommand)
    return {};
  Result<void *> block = driver.allocatePinned(ring.size() * calls * sizeof(uint32_t));
  if (!block.ok())
    return block.status().within("words for the faults of kernels");
  words.push_back(*block);
  wordsPerCommand = calls;
  return {};
}

/// Returns when the ring has a free entry.
Status GpuStream::makeRoom() {
  cudaEvent_t done = {};
  std::string label;
  {
    std::lock_guard lock(mutex);
    if (head - tail < ring.size())
      return {};
    done = at(tail).done;
    label = at(tail).label;
  }
  MT_TRY(driver.synchronize(done).within(fmt::format("waiting for \"{}\"", label)));
  return sweep();
}

/// Milestones are set every so often, not at every launch: at most so many launches have none behind them.
Status GpuStream::launching(int64_t launches) {
  const int64_t reached = newest > 0 ? milestones[(newest - 1) % kMilestones].launched : 0;
  if (launched - reached >= std::max<int64_t>(1, mostLaunches / static_cast<int64_t>(kMilestones)) && newest - oldest < kMilestones)
    MT_TRY(setMilestone());
  while (launched > passed && launched + launches - passed > mostLaunches) {
    if (oldest == newest)
      MT_TRY(setMilestone());
    const Milestone &first = milestones[oldest++ % kMilestones];
    MT_TRY(driver.synchronize(first.event).within("waiting for room among launches"));
    passed = first.launched;
  }
  launched += launches;
  return {};
}

Status GpuStream::setMilestone() {
  Milestone &next = milestones[newest++ % kMilestones];
  next.launched = launched;
  return driver.record(next.event, cuda);
}

Result<uint32_t *> GpuStream::begin(uint64_t count, Tag tag, const GpuTemplate *code, CallTimes *times) {
  MT_TRY(makeRoom());
  std::lock_guard lock(mutex);
  Entry &entry = at(head);
  entry.count = count;
  entry.number = tag.number;
  entry.label = tag.label;
  entry.code = code;
  entry.times = times;
  uint32_t *faults = static_cast<uint32_t *>(words.back()) + head % ring.size() * wordsPerCommand;
  entry.faults = faults;
  if (origin)
    MT_TRY(driver.record(entry.begin, cuda).within(fmt::format("\"{}\"", tag.label)));
  return faults;
}

std::span<const cudaEvent_t> GpuStream::betweenCalls() {
  std::lock_guard lock(mutex);
  const Entry &entry = at(head);
  return entry.times ? std::span<const cudaEvent_t>(entry.between) : std::span<const cudaEvent_t>();
}

void GpuStream::faultsIn(const uint32_t *words) {
  std::lock_guard lock(mutex);
  at(head).faults = words;
}

Status GpuStream::end() {
  std::lock_guard lock(mutex);
  MT_TRY(driver.record(at(head).done, cuda));
  ++head;
  waited = false;
  return {};
}

/// The newest command on the GPU up to a number; null: all those are done.
const GpuStream::Entry *GpuStream::find(uint64_t count) {
  for (uint64_t position = head; position > tail; --position)
    if (at(position - 1).count <= count)
      return &at(position - 1);
  return nullptr;
}

/// The other stream's lock is held meanwhile: its entry must not be used for a later command before the wait is there.
Status GpuStream::waitFor(GpuStream &other, uint64_t count) {
  if (&other == this)
    return {};
  std::lock_guard lock(other.mutex);
  const Entry *entry = other.find(count);
  if (!entry)
    return {};
  waited = true;
  Status status = driver.wait(cuda, entry->done);
  return status ? status : status.within(fmt::format("waiting for \"{}\"", entry->label));
}

Status GpuStream::mark(uint64_t count) {
  if (!waited)
    return {};
  MT_TRY(begin(count, {"wait", UINT64_MAX}, nullptr, nullptr).status());
  return end();
}

Status GpuStream::reach(uint64_t count) {
  cudaEvent_t event = {};
  std::string label;
  {
    std::lock_guard lock(mutex);
    if (const Entry *entry = find(count)) {
      event = entry->done;
      label = entry->label;
    }
  }
  // If the entry is taken for a later command meanwhile, this waits for that one: longer than needed, never forever,
  // as a command is enqueued only after everything on the host that it depends on.
  if (event)
    MT_TRY(driver.synchronize(event).within(fmt::format("waiting for \"{}\"", label)));
  return sweep();
}

/// The driver tells times in 32 bits: the length of a command long after the origin is exact only between its own two
/// events.
Status GpuStream::retire(const Entry &entry) {
  if (Status fault = entry.code ? entry.code->faultOf(entry.faults) : Status(); !fault)
    return fault.within(fmt::format("\"{}\"", entry.label));
  if (!origin || entry.number == UINT64_MAX)
    return {};
  MT_ASSIGN(double begin, driver.seconds(origin, entry.begin));
  MT_ASSIGN(double length, driver.seconds(entry.begin, entry.done));
  times.push_back({entry.number, originSeconds + begin, originSeconds + begin + length});
  return entry.times ? addCallTimes(entry) : Status();
}

Status GpuStream::addCallTimes(const Entry &entry) {
  std::vector<double> &sums = entry.times->seconds;
  for (size_t i = 0; i < sums.size(); ++i) {
    MT_ASSIGN(const double seconds, driver.seconds(i == 0 ? entry.begin : entry.between[i - 1],
                                                   i + 1 == sums.size() ? entry.done : entry.between[i]));
    sums[i] += seconds;
  }
  ++entry.times->runs;
  return {};
}

Status GpuStream::sweepLocked() {
  for (; tail < head; ++tail) {
    const Entry &entry = at(tail);
    Result<bool> done = driver.isDone(entry.done);
    if (!done.ok())
      return done.status().within(fmt::format("\"{}\", or a command before it", entry.label));
    if (!*done)
      break;
    MT_TRY(retire(entry));
  }
  return {};
}

Status GpuStream::sweep() {
  std::lock_guard lock(mutex);
  return sweepLocked();
}

Status GpuStream::drain() {
  MT_TRY(driver.synchronize(cuda));
  return sweep();
}

std::vector<Measured> GpuStream::measured() {
  std::lock_guard lock(mutex);
  return std::exchange(times, {});
}

} // namespace mt::device
