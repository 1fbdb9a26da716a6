// `mtrun probe`: measures this machine with the same device, kernels and copies that plans run on, and writes the
// numbers as a target for `mtc compile --target FILE`.
#ifndef MT_RUNTIME_TRAIN_PROBE_H
#define MT_RUNTIME_TRAIN_PROBE_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

namespace mt::train {

/// Takes some seconds; half a gigabyte of memory, and for a GPU four of each. Rates are the best of a few tries. Prints to standard output where
/// options.output is empty.
Status probeMachine(const ProbeOptions &options);

} // namespace mt::train
#endif
