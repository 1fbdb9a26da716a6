// The CPU's implementation of the catalogue: a call is prepared once, when a plan is loaded, and then launched with
// addresses. Preparing checks the signature, decodes attributes, chooses blocks and counts the scratch; launching
// allocates nothing but that. `feed` and `report` belong to the training loop and are not here.
#ifndef MT_KERNELS_CPU_CPUKERNELS_H
#define MT_KERNELS_CPU_CPUKERNELS_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/ThreadPool.h"
#include "runtime/base/Status.h"

#include <functional>
#include <type_traits>

namespace mt::kernels::cpu {

struct Launch {
  /// One address for each operand of the signature, aligned to its element; null where it is absent. Written operands
  /// overlap nothing else, unless the kernel is of the elementwise family, not several of it, and the ranges are equal.
  std::span<void *const> operands;
  uint64_t accumulate = 0; ///< bit i: operand i (a written one) adds to what is there
  ThreadPool &pool;

  template <typename T> T *at(size_t operand) const { return static_cast<T *>(operands[operand]); }
  bool accumulates(size_t operand) const { return operand < 64 && (accumulate >> operand & 1) != 0; }
};

/// A prepared call.
class Run {
public:
  /// `kernel` is called with a Launch. It says by scratch() what it takes, unless that is nothing.
  template <typename Kernel>
    requires(!std::is_same_v<std::remove_cvref_t<Kernel>, Run>)
  explicit Run(Kernel kernel) {
    if constexpr (requires { kernel.scratch(); })
      taken = kernel.scratch();
    body = std::move(kernel);
  }

  /// May be called by several threads at once. An error means that results are undefined (an index out of range, a
  /// gradient that is not finite); its message does not name the call: the caller knows where it came from.
  Status operator()(const Launch &launch) const { return body(launch); }
  /// At most.
  Scratch scratch() const { return taken; }

private:
  std::function<Status(const Launch &)> body;
  Scratch taken;
};

/// Whether the CPU has code for a kernel of the catalogue, for some element types at least.
bool supports(std::string_view kernel);

/// Errors: an unknown kernel, an invalid signature, element types that the CPU has no code for.
Result<Run> prepare(const Signature &call);

} // namespace mt::kernels::cpu
#endif
