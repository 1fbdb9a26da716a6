// A stream of the GPU as kernels are given it: with who wants to know of what is launched there. Private to kernels/cuda
// and runtime/device/cuda.
#ifndef MT_KERNELS_CUDA_STREAM_H
#define MT_KERNELS_CUDA_STREAM_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mt {
class Status;
}

namespace mt::kernels::cuda {

/// Told by the thread that launches, before each launch: so many more are enqueued. It may wait until there is room.
class Pace {
public:
  virtual Status launching(int64_t launches) = 0;

protected:
  ~Pace() = default;
};

struct Stream {
  cudaStream_t cuda = {};
  Pace *pace = nullptr; ///< null: nobody wants to know
  Stream(cudaStream_t cuda = {}, Pace *pace = nullptr) : cuda(cuda), pace(pace) {}
  operator cudaStream_t() const { return cuda; }
  Status launching(int64_t launches) const;
};

} // namespace mt::kernels::cuda
#endif
