// Refuses spaces that the machine has no memory for, before anything is reserved.
#ifndef MT_RUNTIME_HOST_MEMORYCHECK_H
#define MT_RUNTIME_HOST_MEMORYCHECK_H

#include "runtime/base/Status.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/plan/Program.h"

#include <span>

namespace mt::host {

/// All spaces together, and `scratch` bytes beside them for kernels, against `memory`. The error names the bytes needed
/// by kind, those there, what limits them, and the remedy.
Status checkMemory(std::span<const plan::Space> spaces, uint64_t scratch, const MachineMemory &memory);
/// The same of host spaces alone, where device spaces lie in another memory.
Status checkHostMemory(std::span<const plan::Space> spaces, uint64_t scratch, const MachineMemory &memory);

} // namespace mt::host
#endif
