// Executes a plan's programs on a device: for each command in issue order, enqueue its waits, issue it, record its
// completion if anything awaits it. Owns the device, hence all memory of the plan. Knows no data, optimizer or
// checkpoint: the training loop (runtime/train) feeds it and reads its results through callbacks.
#ifndef MT_RUNTIME_EXECUTOR_EXECUTOR_H
#define MT_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/base/Status.h"
#include "runtime/host/HostBytes.h"
#include "runtime/plan/Program.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mt::device {
class Device;
}
namespace mt::network {
class Network;
}

namespace mt::executor {

struct ExecutorOptions {
  std::string device = {};                           ///< cpu, cuda or cuda:N; empty: the plan's target
  int threads = 0;                                   ///< of the kernels' pool; 0: the machine's cores
  std::optional<uint64_t> jitterSeed = std::nullopt; ///< random delays before commands, for testing
  bool poison = false;                               ///< NaN into memory whose content must not matter, for testing
  double slowCopyBytesPerSecond = 0;                 ///< copies take at least bytes / this; 0: as fast as they go
  bool protectHost = false;   ///< host spaces inaccessible during compute commands; discrete plans only
  bool cudaGraphs = false;    ///< captured launches, see device::CudaOptions
  std::string tracePath = {}; ///< where writeTrace() writes; empty: nothing is measured
  bool traceCalls = false;    ///< kernel calls are measured, too
  std::string stateFolder = {}; ///< where the bytes of spaces of kind file are
  network::Network *network = nullptr; ///< to the other ranks, of a plan that has some; outlives the executor
};

/// Called on threads of the device, one call of each callback at a time and in program order. An error stops the run
/// and comes back from a later call of the executor.
struct Callbacks {
  /// Fills the next step's (or batch's) inputs. Pointers to every part of plan.inputs, inputs x parts; part i of
  /// input n has plan.inputs[n].parts[i].bytes bytes, the micro-batches' rows in order.
  std::function<Status(std::span<void *const> parts)> feed;
  /// The loss of the step or batch, its final scalars (kernels::Scalars), and of an evaluation of a language model, for
  /// each row in turn, the logits after the last token whose label counts; else none.
  std::function<Status(float loss, std::span<const double> scalars, std::span<const float> predictions)> report;
  /// Optional: the gradient of a parameter (index into plan.parameters), or of its elements from `first` on, as an update is
  /// about to consume it, before clipping. On the update's stream.
  std::function<void(int64_t parameter, int64_t first, std::span<const float> gradient)> gradient;
};

class Executor {
public:
  /// Checks the machine (kernels, memory), reserves every space, prepares every kernel. `plan` comes from plan::load
  /// (it is not validated again), is moved to this rank, and must outlive the executor.
  static Result<std::unique_ptr<Executor>> create(const plan::Plan &plan, ExecutorOptions options, Callbacks callbacks);
  /// The same on a device that the caller made; the options that say which and how do not count.
  static Result<std::unique_ptr<Executor>> create(const plan::Plan &plan, std::unique_ptr<device::Device> device,
                                                  ExecutorOptions options, Callbacks callbacks);
  ~Executor();

  /// Reads or generates the initial value of every parameter - `frozenAlone`: that is not trained -; moments become
  /// zero. Before the first run; with nothing running. Returns the fingerprint of what is not trained, see
  /// host::loadWeights().
  Result<uint64_t> loadWeights(bool frozenAlone = false);
  /// Enqueues one iteration of the program and returns, possibly before it is done: at most two iterations are under
  /// way. Another program than the last one first waits until everything before is done. Errors may be those of
  /// earlier iterations; after an error every call returns it.
  Status run(plan::ProgramKind program);
  /// Waits until everything enqueued is done.
  Status drain();

  /// The bytes of a span of a host space (any space where the device shares memory). For reading and writing while
  /// nothing runs: after drain(), or before the first run.
  std::span<std::byte> host(plan::Span span);
  /// The same, and of files.
  host::HostBytes bytes(plan::Span span);
  /// Bytes reserved for spaces of a kind; equals the plan's.
  uint64_t reservedBytes(plan::SpaceKind kind) const;
  /// Seconds that the streams of a kind spent on commands since create(); zero without tracing.
  double busySeconds(plan::StreamKind kind) const;
  /// Writes the trace to options.tracePath: planned and measured times side by side, in Chrome's trace format. Says how
  /// much overlaps, and what calls took where they are measured. After drain().
  Status writeTrace();

private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// What can be checked of a plan before its data is looked at: whether the device is there and can run it, and the
/// bytes of its spaces and of its kernels' scratch against what device and machine have. Errors name the remedy.
/// `device` and `threads` as in ExecutorOptions; `processes` of the plan share the machine's memory.
Status checkMachine(const plan::Plan &plan, const std::string &device, int threads, uint32_t processes = 1);

/// Bytes that the kernels of the host take beside the plan's spaces, and the threads that share them.
struct KernelScratch {
  uint64_t bytes = 0;
  int threads = 0;
};
Result<KernelScratch> scratchOf(const plan::Plan &plan, const std::string &device, int threads);

} // namespace mt::executor
#endif
