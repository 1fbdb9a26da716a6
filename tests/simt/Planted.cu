#include "tests/simt/Planted.h"

namespace mt::simt {
namespace {

constexpr int kThreads = 64;

__device__ __forceinline__ int64_t own() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// Right.

__global__ void __launch_bounds__(kThreads) reverse(Planted a) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = a.in[own()];
  __syncthreads();
  a.out[own()] = parts[kThreads - 1 - threadIdx.x];
  __syncthreads();
  parts[threadIdx.x] = 0;
}

__global__ void __launch_bounds__(kThreads) warpSums(Planted a) {
  float sum = a.in[own()];
  for (int lane = 16; lane > 0; lane /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  float first = __shfl_sync(0xffffffffu, a.in[own()], 0), before = __shfl_up_sync(0xffffffffu, a.in[own()], 1);
  a.out[own()] = sum + 1000 * first + (threadIdx.x % 32 > 0 ? 1000000 * before : 0);
}

__global__ void __launch_bounds__(kThreads) anyNegative(Planted a) {
  a.out[own()] = __syncthreads_or(a.in[own()] < 0) ? 1.0f : 0.0f;
}

// Wrong.

__global__ void missingBarrier(Planted a) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = 0;
  __syncthreads();
  parts[threadIdx.x] = a.in[own()];
  a.out[own()] = parts[kThreads - 1 - threadIdx.x];
}

__global__ void overwritesWhatIsRead(Planted a) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = a.in[own()];
  __syncthreads();
  float value = parts[(threadIdx.x + 1) % kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  a.out[own()] = parts[threadIdx.x];
}

__global__ void twoWriters(Planted a) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x / 2] = a.in[own()];
  __syncthreads();
  a.out[own()] = parts[threadIdx.x / 2];
}

__global__ void neverWritten(Planted a) {
  __shared__ float parts[kThreads];
  if (threadIdx.x > 0)
    parts[threadIdx.x] = a.in[own()];
  __syncthreads();
  a.out[own()] = parts[kThreads - 1 - threadIdx.x];
}

__global__ void onePastTheEnd(Planted a) { a.out[own()] = a.in[own() + 1]; }

__global__ void oneBeforeTheBegin(Planted a) { a.out[own() - 1] = a.in[own()]; }

__global__ void writesAnOperandThatIsRead(Planted a) { const_cast<float *>(a.in)[own()] = 0; }

__global__ void nullPointer(Planted a) {
  const float *nowhere = a.count > 0 ? nullptr : a.in;
  a.out[own()] = nowhere[16];
}

struct alignas(16) Pack {
  float at[4];
};
__global__ void misalignedPack(Planted a) {
  if (threadIdx.x < 8)
    *reinterpret_cast<Pack *>(a.out + 4 * threadIdx.x) = *reinterpret_cast<const Pack *>(a.in + 4 * threadIdx.x + 1);
}

__global__ void shuffleWithAReturnedLane(Planted a) {
  if (threadIdx.x % 32 == 7)
    return;
  a.out[own()] = __shfl_xor_sync(0xffffffffu, a.in[own()], 1);
}

__global__ void shuffleOutsideItsMask(Planted a) { a.out[own()] = __shfl_xor_sync(0x0000ffffu, a.in[own()], 1); }

__global__ void shuffleFromOutsideItsMask(Planted a) {
  if (threadIdx.x % 32 < 16)
    a.out[own()] = __shfl_xor_sync(0x0000ffffu, a.in[own()], 16);
}

__global__ void barrierInABranch(Planted a) {
  if (threadIdx.x < 32)
    __syncthreads();
  a.out[own()] = a.in[own()];
}

__global__ void barrierBesideAShuffle(Planted a) {
  if (threadIdx.x % 2 == 0)
    __syncthreads();
  else
    a.out[own()] = __shfl_xor_sync(0xffffffffu, a.in[own()], 2);
}

__global__ void blocksWriteOnePlace(Planted a) { a.out[threadIdx.x] = a.in[own()]; }

__global__ void blockReadsAnothers(Planted a) {
  a.out[own()] = a.in[own()];
  float other = a.out[(own() + kThreads) % a.count];
  a.out[own()] = other;
}

__global__ void threadReadsAnothers(Planted a) {
  a.out[own()] = a.in[own()];
  if (threadIdx.x > 0)
    a.out[own()] += a.out[own() - 1];
}

__global__ void beyondASharedArray(Planted a) {
  __shared__ float parts[2][kThreads];
  parts[0][threadIdx.x] = a.in[own()];
  __syncthreads();
  a.out[own()] = parts[0][threadIdx.x + 1];
}

__global__ void shiftTooFar(Planted a) { a.out[own()] = static_cast<float>(1 << (threadIdx.x + a.count / a.count)); }

__global__ void withoutEnd(Planted a) {
  if (threadIdx.x == 5)
    while (a.in[own()] < 1e30f)
      a.out[own()] += 1;
}

} // namespace

#define MT_PLANTED_CODE(name)                                                                                          \
  PlantedCode name##Code() { return name; }
MT_PLANTED(MT_PLANTED_CODE)

} // namespace mt::simt
