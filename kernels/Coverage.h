// Which backend has code for which calls of the catalogue: kernels, and the element types of their operands. Data, so that
// the compiler knows without linking a backend; backends ask it before they prepare a call, and refuse no types of their own.
#ifndef MT_KERNELS_COVERAGE_H
#define MT_KERNELS_COVERAGE_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Whether `backend` has code for a kernel of the catalogue, for some element types at least.
bool hasCode(std::string_view kernel, Backend backend);

/// Empty if `backend` has code for a call that check() passed, else what it lacks and what to do: the kernel, or an
/// element type of an operand.
std::string missingCode(const Signature &call, Backend backend);

/// Whether a result that accumulates has the bits of one that does not, added to what was there: then it may be bound
/// so in place of a sum.
bool addsOnce(std::string_view kernel, Backend backend);

} // namespace mt::kernels
#endif
