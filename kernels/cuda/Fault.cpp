#include "kernels/cuda/CudaKernels.h"

namespace mt::kernels::cuda {

std::string_view message(Fault fault) {
  switch (fault) {
  case Fault::none:
    break;
  case Fault::indexOutOfRange:
    return "an index is outside of what it selects from; see the data";
  case Fault::labelOutOfRange:
    return "a label is outside of the classes; see the data: labels that do not count are -100";
  case Fault::notFinite:
    return "a result is not finite; lower the learning rate, or see the data";
  }
  return "nothing is wrong";
}

} // namespace mt::kernels::cuda
