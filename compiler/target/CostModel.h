// The cost model: predicted seconds of one kernel call on a target. Not a simulator: the
// timeline of a whole program is runtime/plan/Timeline.h. Free of MLIR.
#ifndef MT_COMPILER_TARGET_COSTMODEL_H
#define MT_COMPILER_TARGET_COSTMODEL_H

#include "compiler/target/Target.h"
#include "kernels/Catalogue.h"

namespace mt::target {

/// max(flops / attainable rate of the call's type, bytes / device bandwidth) + overhead, flops and bytes as the catalogue
/// gives them: the roofline model (Williams, Waterman, Patterson, 2009). The type is that of the first floating-point
/// operand; bf16 and f16 use the bf16 rate, every other type the fp32 rate.
double roofline(const Target &target, const kernels::Signature &call);
/// The same of a call on a host stream, which is bound by the host's memory.
double hostRoofline(const Target &target, const kernels::Signature &call);

/// Predicted seconds of a kernel call: of its pieces, each as long as the roofline says, times what was measured of such
/// calls on the target (Rates.h).
double kernelSeconds(const Target &target, const kernels::Signature &call);
/// The same of a call on a host stream.
double hostKernelSeconds(const Target &target, const kernels::Signature &call);

} // namespace mt::target
#endif
