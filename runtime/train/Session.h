// A plan's executor with data: turns "run step 7 on these rows" into the feed's bytes and the step's scalars, and hands
// back loss and final scalars. Used by training and evaluation; knows no checkpoints, metrics or schedules of steps.
#ifndef MT_RUNTIME_TRAIN_SESSION_H
#define MT_RUNTIME_TRAIN_SESSION_H

#include "runtime/executor/Executor.h"
#include "runtime/train/Batches.h"
#include "runtime/train/Ranks.h"
#include "runtime/train/Recipe.h"
#include "runtime/train/StateFiles.h"

#include <deque>
#include <memory>
#include <mutex>

namespace mt::train {

/// One iteration of a program.
struct Job {
  plan::ProgramKind program = plan::ProgramKind::step;
  int64_t step = 0;                ///< 1-based; of an evaluation: the step it follows
  Batches *batches = nullptr;      ///< must outlive the job
  int64_t position = 0, count = 0; ///< rows
  int64_t valid = 0;               ///< labels that count; set by enqueue()
  /// Of an evaluation that is no measurement: takes its predictions (executor::Callbacks), and `done` is not called.
  std::vector<float> *predictions = nullptr;
};

/// Called on a thread of the device when a job's loss is known, in order.
using JobDone = std::function<Status(const Job &job, float loss, std::span<const double> scalars)>;
using GradientSeen = std::function<void(int64_t parameter, int64_t first, std::span<const float> gradient)>;

class Session {
public:
  /// Reserves memory and prepares kernels; loads the initial weights, and over them those of `checkpoint` if it is
  /// not empty (what is `wanted` of it). `plan` must outlive the session.
  struct Setup {
    explicit Setup(Ranks &ranks) : ranks(ranks) {}
    Ranks &ranks;
    MachineOptions machine;
    Recipe recipe; ///< of evaluations: the seed alone
    std::string checkpoint;
    Wanted wanted = Wanted::all;
    JobDone done;
    GradientSeen gradient; ///< may be empty
  };
  static Result<std::unique_ptr<Session>> open(const plan::Plan &plan, Setup setup);

  /// Reads and checks the job's rows, enqueues it, and returns possibly before earlier jobs are done. Errors of its
  /// data, on any rank, leave those as they are; others may be theirs, and then every later call has an error.
  Status enqueue(Job job);
  /// Waits for all jobs and carries out updates that are still pending: evaluations then use the weights after the last step.
  Status settle();
  /// settle(), and the host's bytes are those after the last step, too, where the device holds newer ones.
  Status store();

  /// Of the host, see store().
  host::HostBytes bytes(plan::Span span) { return executor->bytes(span); }
  Ranks &ranks() const { return setup.ranks; }
  /// Fingerprint of the weights that are not trained, as CheckpointMeta has it.
  const std::string &frozenWeights() const { return frozen; }
  uint64_t reservedBytes(plan::SpaceKind kind) const { return executor->reservedBytes(kind); }
  Status writeTrace() { return executor->writeTrace(); }

private:
  Session(const plan::Plan &plan, Setup setup) : plan(plan), setup(std::move(setup)) {}
  Status feed(std::span<void *const> parts);
  Status report(float loss, std::span<const double> scalars, std::span<const float> predictions);
  void clearPending();
  Status runAlone(plan::ProgramKind program);
  void fillScalars(const Job &job, std::span<void *const> parts) const;

  const plan::Plan &plan;
  Setup setup;
  std::string frozen;
  std::mutex mutex;
  std::deque<Job> waiting, running;             ///< enqueued and not fed; fed and not reported
  bool unsettled = false, unstored = false;     ///< a step ran since the last settle(), store()
  std::unique_ptr<executor::Executor> executor; ///< last: its threads use the rest
};

} // namespace mt::train
#endif
