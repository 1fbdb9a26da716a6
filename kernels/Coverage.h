// Which backend has code for which kernel of the catalogue. Data, so that the compiler knows without linking a backend;
// tests hold the backends' own tables against it.
#ifndef MT_KERNELS_COVERAGE_H
#define MT_KERNELS_COVERAGE_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Whether `backend` has code for a kernel of the catalogue, for some element types at least.
bool hasCode(std::string_view kernel, Backend backend);

} // namespace mt::kernels
#endif
