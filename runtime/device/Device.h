// The contract of what executes a plan's commands: memory for spaces, in-order streams, events. One object serves a
// whole plan - all its spaces and streams, by their index in the plan, whatever devices they are on, host streams
// too. Knows no programs: the executor decides what is issued. Implementations: cpu/, cuda/, and rehearsal/, which
// takes time and computes nothing; tests/device holds the conformance suite that those pass which compute.
//
// Issuing calls (copy, run, record, wait) come from one thread, return before the work is done, and never wait for
// work; copy and run may wait for room when a stream is far behind. Commands of one stream run one after another in
// the order of issue; commands of different streams are ordered by record and wait alone. The first command that
// fails stops the device: commands that had not begun then do not run, and every later call returns that error.
#ifndef MT_RUNTIME_DEVICE_DEVICE_H
#define MT_RUNTIME_DEVICE_DEVICE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt::host {
class FileSpace;
}

namespace mt::device {

/// Completion of everything issued to a stream before it was recorded. Plain numbers: nothing to release, valid as
/// long as the device.
struct Event {
  uint32_t stream = 0;
  uint64_t count = 0;
};

/// What a command is called in errors and measurements. The text must stay valid until the command is done.
struct Tag {
  std::string_view label;
  uint64_t number = 0;
  double seconds = 0; ///< that the plan predicts; for devices that do no more than take them
};

/// A call, with the addresses of its operands (null where absent).
using HostFunction = std::function<Status(const kernels::Signature &call, std::span<void *const> operands)>;

/// Functions of the program that take part in templates, by kernel name.
struct HostFunctions {
  std::map<std::string, HostFunction, std::less<>> instead; ///< called in place of the kernel; on host streams
  std::map<std::string, HostFunction, std::less<>> before;  ///< called just before the kernel; on a GPU with copies of what it reads
};

/// A template made ready for a stream; a number that the device gave out.
struct Code {
  uint32_t index = 0;
};

/// Seconds since the device was made.
struct Measured {
  uint64_t number = 0; ///< of the tag
  double begin = 0, end = 0;
};

/// What the calls of a template took, over all its runs on a stream.
struct CallTimes {
  const plan::Template *code = nullptr;
  uint32_t stream = 0;
  uint64_t runs = 0;
  std::vector<double> seconds; ///< of all runs together, by call

  CallTimes(const plan::Template &code, uint32_t stream) : code(&code), stream(stream), seconds(code.calls.size()) {}
  /// Moves what there is, if anything, to the end of `all`.
  void moveTo(std::vector<CallTimes> &all) {
    if (runs > 0)
      all.push_back(std::exchange(*this, CallTimes(*code, stream)));
  }
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;

  /// Whether this device can execute the plan at all: kinds of spaces and streams, kernels and element types. The
  /// error names what it cannot do. Touches nothing.
  virtual Status supports(const plan::Plan &plan) const = 0;

  /// Reserves every space, exactly its bytes in one allocation each, and starts the streams. Once, first. Errors name
  /// the bytes needed, those there, and the remedy.
  virtual Status reserve(std::span<const plan::Space> spaces, std::span<const plan::Stream> streams) = 0;
  /// Bytes reserved for a space.
  virtual uint64_t reserved(uint32_t space) const = 0;
  /// Addresses of bytes that the host can touch: spans of host spaces, and of every space where memory is shared;
  /// empty for others. Orders nothing: the caller sees to it that no command uses them.
  virtual std::span<std::byte> host(plan::Span span) = 0;
  /// What a space of kind file is in; null for others. Orders nothing either.
  virtual host::FileSpace *file(uint32_t) { return nullptr; }

  /// Chooses the kernels of a template for a stream. All choices are made here, none when it runs. `code` must
  /// outlive the device; so must what `functions` refer to.
  virtual Result<Code> prepare(uint32_t stream, const plan::Template &code, const HostFunctions &functions) = 0;

  /// Copies from.bytes (== to.bytes) between any two spaces.
  virtual Status copy(uint32_t stream, plan::Span from, plan::Span to, Tag tag) = 0;
  /// Runs prepared code. Binding i is argument i of the template; those bound as accumulating add to what is there.
  /// `arguments` must stay valid until the command is done: they live in the plan.
  virtual Status run(uint32_t stream, Code code, std::span<const plan::Binding> arguments, plan::Span workspace,
                     Tag tag) = 0;
  virtual Result<Event> record(uint32_t stream) = 0;
  /// Later commands of the stream wait for the event. Enqueues; never blocks the caller.
  virtual Status wait(uint32_t stream, Event event) = 0;

  /// Blocks the caller until the event has happened (or the device has stopped: then its error).
  virtual Status synchronize(Event event) = 0;
  /// Blocks the caller until everything is done.
  virtual Status synchronize() = 0;

  /// Times of the commands since the last call of it, in no particular order; empty unless the device was made to
  /// measure. After synchronize().
  virtual std::vector<Measured> measured() = 0;
  /// The same of kernel calls, summed; empty unless the device was made to measure calls.
  virtual std::vector<CallTimes> callTimes() = 0;
};

} // namespace mt::device
#endif
