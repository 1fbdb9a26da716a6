// Which kernels of the catalogue are optimizers, and what they keep: everything but kernels/ asks here and names none.
#ifndef MT_KERNELS_OPTIMIZERS_H
#define MT_KERNELS_OPTIMIZERS_H

#include <string>
#include <string_view>
#include <vector>

namespace mt::kernels {

/// Kernels that update whole weights, by name; NAME_split of each updates masters in two halves.
std::vector<std::string> optimizers();
/// "adamw or sgd", for messages.
std::string optimizerList();
/// Whether an optimizer keeps a second moment beside the first.
bool keepsSecondMoment(std::string_view optimizer);

} // namespace mt::kernels
#endif
