// The cost model: predicted seconds of one kernel call, copy or update on a target. A roofline, not a simulator: the
// timeline of a whole program is runtime/plan/Timeline.h. Free of MLIR.
#ifndef MT_COMPILER_TARGET_COSTMODEL_H
#define MT_COMPILER_TARGET_COSTMODEL_H

#include "compiler/target/Target.h"
#include "kernels/Catalogue.h"

namespace mt::target {

/// max(flops / attainable rate of `type`, bytes / device bandwidth) + overhead: the roofline model (Williams, Waterman,
/// Patterson, 2009). bf16 and f16 use the bf16 rate, every other type the fp32 rate.
double kernelSeconds(const Target &target, double flops, double bytes, kernels::DType type);
/// The same with flops and bytes as the catalogue gives them; the type is that of the first floating-point operand.
double kernelSeconds(const Target &target, const kernels::Signature &call);

enum class CopyDirection : uint8_t { upload, download, withinDevice, withinHost };
double copySeconds(const Target &target, uint64_t bytes, CopyDirection direction);

/// Host work that streams `bytes` (read and written together) through memory, such as an optimizer's update.
double hostSeconds(const Target &target, uint64_t bytes);
/// A kernel call executed on a host stream: bound by the host's memory.
double hostKernelSeconds(const Target &target, const kernels::Signature &call);

} // namespace mt::target
#endif
