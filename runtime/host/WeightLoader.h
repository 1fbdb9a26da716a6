// Initial values: from files or generators into the parameters' weight spans, chunk by chunk, straight into place;
// moments become zero, averages the weights. Knows where a value comes from and what types it has; not who runs the
// plan.
#ifndef MT_RUNTIME_HOST_WEIGHTLOADER_H
#define MT_RUNTIME_HOST_WEIGHTLOADER_H

#include "runtime/base/Status.h"
#include "runtime/host/HostBytes.h"
#include "runtime/plan/Program.h"

#include <functional>

namespace mt::host {

/// The bytes of a span of a host space; files as they were made.
using Place = std::function<HostBytes(const plan::Span &)>;

/// Fills every part of every parameter of a valid plan, what `rank` has of them, on up to `threads` threads. Stored
/// floats become 32-bit, then the weight's type; a bf16 weight with a remainder keeps all 32 bits. Other types are
/// taken as they are. Errors name parameter, file and element: a file missing or too short, types that do not convert,
/// a trainable weight not finite. Returns the fingerprint of what is not trained, the same for all plans of a model:
/// XXH3-64 over the frozen parameters' names and stored bytes, or what generates them. Zero where all are trained.
/// `frozenAlone`: what is trained is left as it is, for a checkpoint has it.
Result<uint64_t> loadWeights(const plan::Plan &plan, const Place &place, int threads, uint32_t rank = 0,
                             bool frozenAlone = false);

} // namespace mt::host
#endif
