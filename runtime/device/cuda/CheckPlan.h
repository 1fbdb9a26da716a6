// Whether a GPU can execute a plan at all: which memory each stream touches, and which kernels. Pure; needs no GPU.
// Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_CHECKPLAN_H
#define MT_RUNTIME_DEVICE_CUDA_CHECKPLAN_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <functional>

namespace mt::device {

/// Whether so many GPUs can execute a plan. `hasKernel`: whether they have code for a kernel. Errors name the command or
/// template, and the remedy.
Status checkGpuPlan(const plan::Plan &plan, uint32_t gpus, const std::function<bool(std::string_view)> &hasKernel);

} // namespace mt::device
#endif
