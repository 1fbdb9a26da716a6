// Elementwise kernels of any type and broadcast: eight elements a thread, as packs of 16 bytes where all operands allow
// it (side by side or repeated within a row), all of them under way before one is converted. Every operand is moved
// once: with packs bound by the memory's bandwidth, but for functions of many instructions (pow, mod, sin, erf in 16
// bits); element by element about half of it.
#include "kernels/cuda/Elementwise.h"
#include "kernels/cuda/Operations.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

/// Element by element, wherever they lie: a function that is called, because its code is long.
template <typename C>
__device__ __noinline__ void loadScattered(const Views<kMostIn> &views, int operand, In in, Places places, C *out) {
  withStorage<C>(in.type, [&](auto storage) {
#pragma unroll 2
    for (int i = 0; i < kOctet; ++i) {
      int64_t offsets[kMostIn];
      if (places.at(i) < places.size)
        views.offsets(places.at(i), offsets);
      out[i] = places.at(i) < places.size
                   ? fromStorage<C>(static_cast<const decltype(storage) *>(in.data)[offsets[operand]])
                   : C(0);
    }
  });
}

/// Packs, or one element for all eight.
template <int Count, typename C>
__device__ __forceinline__ void loadPacks(const ElementwiseArguments &a, int64_t first, C (&in)[Count][kOctet]) {
  int64_t offsets[kMostIn];
  a.views.offsets(first, offsets);
  Raw<C> raw[Count];
  bool repeats[Count];
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    repeats[n] = a.views.rank == 0 || a.views.strides[n][a.views.rank - 1] == 0;
    if (!repeats[n])
      raw[n] = bring<C>(a.in[n].type, a.in[n].data, offsets[n]);
  }
#pragma unroll
  for (int n = 0; n < Count; ++n)
    if (repeats[n])
      in[n][0] = loadOne<C>(a.in[n].type, a.in[n].data, offsets[n]);
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    if (!repeats[n]) {
      widen(a.in[n].type, raw[n], in[n]);
      continue;
    }
#pragma unroll
    for (int i = 1; i < kOctet; ++i)
      in[n][i] = in[n][0];
  }
}

template <int Count, typename C>
__device__ __forceinline__ void loadAll(const ElementwiseArguments &arguments, const Places &places,
                                        C (&in)[Count][kOctet]) {
  if (places.whole())
    return loadPacks(arguments, places.first, in);
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    C scattered[kOctet]; // in memory, so that `in` need not be
    loadScattered(arguments.views, n, arguments.in[n], places, scattered);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      in[n][i] = scattered[i];
  }
}

template <typename C, typename What>
__global__ void __launch_bounds__(kThreads) elementwise(const __grid_constant__ ElementwiseArguments arguments) {
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, arguments.total, arguments.packed);
  C in[What::kIn][kOctet], out[What::kOut][kOctet];
  if (places.none())
    return;
  loadAll(arguments, places, in);
  What::apply(arguments.function, in, out);
#pragma unroll
  for (int n = 0; n < What::kOut; ++n)
    if (arguments.out[n].data)
      store(arguments.out[n], 0, places, out[n]);
}

template <typename C> ElementwiseCode codeFor(Operation operation) {
  switch (operation) {
  case Operation::unary:
    return elementwise<C, Unary>;
  case Operation::binary:
    return elementwise<C, Binary>;
  case Operation::select:
    return elementwise<C, Select>;
  default:
    break;
  }
  if constexpr (std::is_floating_point_v<C>)
    return operation == Operation::slope  ? elementwise<C, OfActivation<Slope>>
           : operation == Operation::gate ? elementwise<C, OfActivation<Gate>>
                                          : elementwise<C, OfActivation<GateGrad>>;
  return nullptr; // integers have no activations
}

} // namespace

ElementwiseCode elementwiseCode(Operation operation, DType type) {
  return withArithmetic(type, [&](auto arithmetic) { return codeFor<decltype(arithmetic)>(operation); });
}

} // namespace mt::kernels::cuda
