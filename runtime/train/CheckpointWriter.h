// Checkpoints of a run, written beside training: a copy of the state is taken between two steps, at the speed of memory,
// and a thread writes that while training goes on. Where memory has no room for a copy they are written from the state
// itself, with training at rest; their bytes are the same. Between the training loop, which says when, and
// saveCheckpoint().
#ifndef MT_RUNTIME_TRAIN_CHECKPOINTWRITER_H
#define MT_RUNTIME_TRAIN_CHECKPOINTWRITER_H

#include "runtime/host/Arena.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/EvaluationRecord.h"

#include <map>
#include <thread>

namespace mt::train {

class CheckpointWriter {
public:
  struct Setup {
    std::string out;
    PartBytes state; ///< where nothing runs
    Keep keep;
    int threads = 0;
    std::string newest; ///< checkpoint that the run goes on from, if any, and its step
    int64_t step = 0;
    StateRank rank = {};
  };
  /// `plan` must outlive it.
  CheckpointWriter(const plan::Plan &plan, Setup setup) : plan(plan), setup(std::move(setup)) {}
  /// Waits.
  ~CheckpointWriter() { wait(); }
  CheckpointWriter(const CheckpointWriter &) = delete;

  /// Takes the memory of a copy, all of it, if this machine has it and `others` bytes more, which are still to be
  /// taken. Returns a line for people: from now on beside training, or why not. `processes` of one size share the
  /// machine.
  std::string reserveCopy(uint64_t others, uint32_t processes = 1);
  /// Whether there is a copy; of several ranks all have one, or none.
  bool hasCopy() const { return arena.has_value(); }
  void dropCopy() { arena.reset(); }

  /// Begins a checkpoint of the state as it is now, with nothing running, once the one before is written; without a
  /// copy, writes it. One that cannot be written is a warning: the one before it stays.
  void begin(CheckpointMeta meta);
  /// Writes a checkpoint of the state as it is now, once the one before is written.
  Status write(CheckpointMeta meta);
  /// The evaluation of the newest checkpoint's step, for that checkpoint: as soon as it is written, or with the next
  /// wait(). That it cannot be written there is a warning: going on from there, the evaluation is made again.
  void record(EvaluationRecord evaluations);
  /// Returns when everything that was begun is written.
  void wait();

  /// The newest checkpoint, empty if there is none, and its step; of what is being written after wait() only.
  const std::string &newest() const { return setup.newest; }
  int64_t step() const { return setup.step; }

private:
  Status save(const CheckpointMeta &meta, const PartBytes &bytes, int threads);
  Status copy();
  void warn(int64_t step, const Status &failure) const;
  void writeRecord();

  const plan::Plan &plan;
  Setup setup;
  std::optional<host::Arena> arena;
  std::map<const plan::Part *, uint64_t> places; ///< of what is copied, in the arena
  std::optional<EvaluationRecord> recorded;      ///< and not written yet
  std::jthread writing;                          ///< writes `setup` until it is joined
};

} // namespace mt::train
#endif
