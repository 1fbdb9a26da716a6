// A CUDA stream and the commands that are on it: a ring with, for each, its completion, the words in which its kernels
// report faults, and its times where they are measured. Completions are found by the number of the command, however
// long ago it was. Knows nothing of what commands do. Private to runtime/device/cuda.
//
// One thread issues: begin, end, mark and waitFor are its. Any thread may ask how far the stream has come.
#ifndef MT_RUNTIME_DEVICE_CUDA_GPUSTREAM_H
#define MT_RUNTIME_DEVICE_CUDA_GPUSTREAM_H

#include "runtime/device/cuda/GpuTemplate.h"

#include <mutex>

namespace mt::device {

class GpuStream final : private kernels::cuda::Pace {
public:
  /// At most `window` commands, and of them together at most `mostLaunches` launches, are on the GPU at once. `origin`:
  /// the event that times are measured from; null: none are. It was recorded `originSeconds` after the device was made.
  static Result<std::unique_ptr<GpuStream>> make(Driver &driver, size_t window, size_t mostLaunches, cudaEvent_t origin,
                                                 double originSeconds);
  /// Waits for what is on the GPU.
  ~GpuStream();
  GpuStream(const GpuStream &) = delete;
  GpuStream &operator=(const GpuStream &) = delete;

  cudaStream_t stream() const { return cuda; }
  /// For launches, of which there are only so many at once.
  kernels::cuda::Stream paced() { return {cuda, this}; }
  /// Room for the fault words of commands of so many calls and, if they are `timed`, for events between them. When code
  /// is prepared: it allocates. No command of timed calls may be under way.
  Status reserveCalls(size_t calls, bool timed);

  /// Starts command `count` (numbers rise), a run of `code` or, if that is null, one call; waits for older ones where
  /// there is no room. Returns the words for its faults. `times`: where its calls' are added once it is done; null:
  /// they are not timed.
  Result<uint32_t *> begin(uint64_t count, Tag tag, const GpuTemplate *code, CallTimes *times);
  /// Of the command begun last, an event for each end of a call but the last; none if calls are not timed.
  std::span<const cudaEvent_t> betweenCalls();
  /// Faults of the command begun last are in these words instead.
  void faultsIn(const uint32_t *words);
  /// What has been enqueued since begin() is the command.
  Status end();
  /// What is enqueued from here on runs after command `count`, or the newest one before it, of another stream.
  Status waitFor(GpuStream &other, uint64_t count);
  /// Makes waits that no command has followed part of the completion of `count`.
  Status mark(uint64_t count);

  /// Returns when command `count`, or the newest one before it, is done. Errors: those of sweep().
  Status reach(uint64_t count);
  /// Looks at the commands that have become done: their faults, and their times. Never blocks. The error names the
  /// command, and the call that met the fault.
  Status sweep();
  /// Waits for everything enqueued.
  Status drain();
  /// Times since the last call of it.
  std::vector<Measured> measured();

private:
  struct Entry {
    uint64_t count = 0, number = 0;
    std::string label;
    const GpuTemplate *code = nullptr; ///< of a run
    const uint32_t *faults = nullptr;
    CallTimes *times = nullptr;
    cudaEvent_t begin = {}, done = {};
    std::vector<cudaEvent_t> between; ///< calls
  };
  /// A place among the launches: all up to the `launched`-th are done when it is.
  struct Milestone {
    cudaEvent_t event = {};
    int64_t launched = 0;
  };
  GpuStream(Driver &driver, size_t mostLaunches, cudaEvent_t origin, double originSeconds)
      : driver(driver), mostLaunches(static_cast<int64_t>(mostLaunches)), origin(origin), originSeconds(originSeconds) {}
  Entry &at(uint64_t position) { return ring[position % ring.size()]; }
  const Entry *find(uint64_t count);
  Status makeRoom();
  Status launching(int64_t launches) override;
  Status setMilestone();
  Status retire(const Entry &entry);
  Status addCallTimes(const Entry &entry);
  Status sweepLocked();

  Driver &driver;
  const int64_t mostLaunches;
  const cudaEvent_t origin;
  const double originSeconds;
  cudaStream_t cuda = {};
  bool waited = false; ///< since the last command
  // Of the issuing thread alone: launches so far, and a ring of milestones, of which [oldest, newest) may be under way.
  int64_t launched = 0, passed = 0;
  std::vector<Milestone> milestones;
  uint64_t oldest = 0, newest = 0;
  std::mutex mutex;    ///< of all below
  std::vector<Entry> ring;
  uint64_t tail = 0, head = 0; ///< commands on the GPU: positions [tail, head)
  std::vector<void *> words;   ///< blocks of fault words; the last one is in use
  size_t wordsPerCommand = 0;
  std::vector<Measured> times;
};

} // namespace mt::device
#endif
