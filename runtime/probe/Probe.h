// `mtrun probe`: measures this machine with the same device, kernels and copies that plans run on, and writes the
// numbers as a target for `mtc compile --target FILE`.
#ifndef MT_RUNTIME_PROBE_PROBE_H
#define MT_RUNTIME_PROBE_PROBE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt::probe {

struct ProbeOptions {
  std::vector<std::string> plans; ///< whose calls are measured besides the samples
  std::string output;             ///< empty: standard output
  std::string device = "cpu";     ///< cpu or cuda[:N]
  std::string disk;               ///< a folder on one; empty: none is measured
  int threads = 0;
  /// That the kernels are held to; empty: the best there is, and of a CPU amx-f32 where it is faster, or with
  /// `roofline` what the plans' targets say.
  std::string isa;
  std::optional<uint64_t>
      hostMemory;     ///< bytes that the host is taken to have, and has when they are used; none: what is free
  bool brief = false; ///< rates of the machine, and the calls of plans alone
  bool roofline = false; ///< in place of the target: how near calls of plans come to those rates
};

/// Takes about a minute (brief: some seconds), a gigabyte of memory, and of a GPU's eight; more where plans have larger calls. Prints to standard
/// output where options.output is empty.
Status probeMachine(const ProbeOptions &options);

} // namespace mt::probe
#endif
