// A call as one line of text, for files that people read: "matmul{transposeRhs=1} f32[64,768] f32[3072,768] - ->
// f32[64,3072]". Scratch is left out: it follows from the call and the device.
#ifndef MT_KERNELS_SIGNATURETEXT_H
#define MT_KERNELS_SIGNATURETEXT_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Kernel, attributes by name, operands in order; "-" where one is absent. Behind a second arrow stands the undo that
/// an update writes (kernels/Optimizers.h).
std::string print(const Signature &call);
/// The same for calls that do the same work: without which parameter an update is of, and where in it.
std::string printWork(Signature call);

/// Reads what `print` wrote into `call`, and checks it against the catalogue. What is wrong, or empty. Text may be hostile.
std::string parse(std::string_view text, Signature &call);

} // namespace mt::kernels
#endif
