// Times work on a device: kernel calls and copies, one kind at a time or two at once, on streams as plans have them.
#ifndef MT_RUNTIME_PROBE_BENCH_H
#define MT_RUNTIME_PROBE_BENCH_H

#include "runtime/device/Device.h"

#include <memory>
#include <optional>
#include <vector>

namespace mt::probe {

/// Streams of a bench, one of each kind.
using Lane = plan::StreamKind;
inline constexpr size_t kLanes = 4;

/// What one stream does: a kernel call (without scratch), or a copy of so many bytes where the call names no kernel. It is
/// done `times` over where one alone is too short to be timed.
struct Work {
  Lane lane = Lane::compute;
  kernels::Signature call;
  uint64_t bytes = 0;
  bool isCopy() const { return call.kernel.empty(); }
};

class Bench {
public:
  /// `device` as people name it, `threads` 0: the machine's cores. Errors: no such device, or no memory for the largest work.
  static Result<std::unique_ptr<Bench>> create(std::string device, int threads, std::vector<Work> works);

  /// Seconds of one piece of the work of that number, repeated for at least `seconds`. An error if the device cannot do it.
  Result<double> time(size_t work, double seconds);
  /// How many times as long works of different lanes take when all run at once, each for at least `seconds`: 1 where
  /// they share nothing.
  Result<double> slowdown(const std::vector<size_t> &together, double seconds);

private:
  /// What a place in memory is filled with. Numbers are from 0.5 up to 1 in 16 and 32 bits, of either sign or positive;
  /// integers from 0 to 63; scalars ones in 64 bits: with them, and moments that are not negative, updates stay finite.
  enum Content : uint8_t { numbers, positive, integers, scalars, results, scratch, copied, contents };
  struct Layout {
    uint64_t bytes[contents] = {}, offset[contents] = {}, total = 0;
  };
  /// Work made ready for the device: so many pieces of it in one command.
  struct Ready {
    int pieces = 0;
    std::unique_ptr<plan::Template> code = std::make_unique<plan::Template>();
    std::vector<plan::Binding> arguments;
    plan::Span workspace, from, to;
    device::Code prepared;
    bool isWarm = false;
  };

  const std::string name;
  const int threads;
  const bool gpu;
  const std::vector<Work> works;
  std::vector<std::optional<Ready>> ready; ///< by work
  Layout layouts[2];                       ///< by space
  std::vector<std::unique_ptr<plan::Template>> retired; ///< a device needs what it prepared for as long as it lives
  std::unique_ptr<device::Device> device;

  Bench(std::string name, int threads, std::vector<Work> works);
  static Content contentOf(const kernels::OperandType &operand);
  static void fill(Content content, std::span<std::byte> memory);
  kernels::Signature withScratch(const Work &work) const;
  uint32_t spaceOf(const Work &work) const;
  void layOut();
  Status open();
  Status fillMemory();
  Status fill(Content content, plan::Span span);
  Status renew(size_t work);
  Status prepare(size_t work, int pieces);
  Status makeReady(size_t work);
  Status issue(size_t work);
  Result<double> timed(const std::vector<std::pair<size_t, int>> &jobs);
};

} // namespace mt::probe
#endif
