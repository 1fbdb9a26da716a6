// The files in which a model has its weights: which they are, and a few bytes of each weight, so that a file that was
// written anew since a plan was compiled is noticed.
#ifndef MT_RUNTIME_PLAN_WEIGHTFILES_H
#define MT_RUNTIME_PLAN_WEIGHTFILES_H

#include "runtime/base/Files.h"
#include "runtime/base/MappedFile.h"
#include "runtime/plan/Program.h"

namespace mt::plan {

/// XXH3-64 of the first and last 64 bytes of what the file holds of a weight, never 0. It tells weights that lie
/// elsewhere now, and nearly all that have other values.
Result<uint64_t> sampleOf(const MappedFile &file, const Initial &initial);

/// Each once.
std::vector<InputFile> weightFiles(const Plan &plan);

} // namespace mt::plan
#endif
