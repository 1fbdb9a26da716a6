// docs/kernels.md, made of the catalogue. Not read by any program but the one that writes the page and its test.
#ifndef MT_KERNELS_REFERENCE_H
#define MT_KERNELS_REFERENCE_H

#include <string>

namespace mt::kernels {

/// The whole page, in Markdown.
std::string referencePage();

} // namespace mt::kernels
#endif
