// What elementwise operations make of eight elements of each operand: one branch on the function for all of them. Device
// code of kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_OPERATIONS_CUH
#define MT_KERNELS_CUDA_OPERATIONS_CUH

#include "kernels/cuda/Functions.cuh"

namespace mt::kernels::cuda {

template <Function F, typename C> __device__ __forceinline__ void mapOne(const C (&x)[kOctet], C (&out)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = evaluate<F>(x[i]);
}

template <Function F, typename C>
__device__ __forceinline__ void mapTwo(const C (&a)[kOctet], const C (&b)[kOctet], C (&out)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    if constexpr (kIsPredicate<F>)
      out[i] = holds<F>(a[i], b[i]) ? C(1) : C(0);
    else
      out[i] = evaluate<F>(a[i], b[i]);
}

// Operations: how many operands they have, and what they make of eight elements of each.

struct Unary {
  static constexpr int kIn = 1, kOut = 1;
  template <typename C>
  static __device__ __forceinline__ void apply(Function function, const C (&in)[1][kOctet], C (&out)[1][kOctet]) {
#define MT_CASE(name)                                                                                                  \
  case Function::name:                                                                                                 \
    return mapOne<Function::name>(in[0], out[0]);
    switch (function) {
      MT_UNARY_FUNCTIONS(MT_CASE)
    default:
      return;
    }
#undef MT_CASE
  }
};

struct Binary {
  static constexpr int kIn = 2, kOut = 1;
  template <typename C>
  static __device__ __forceinline__ void apply(Function function, const C (&in)[2][kOctet], C (&out)[1][kOctet]) {
#define MT_CASE(name)                                                                                                  \
  case Function::name:                                                                                                 \
    return mapTwo<Function::name>(in[0], in[1], out[0]);
    switch (function) {
      MT_BINARY_FUNCTIONS(MT_CASE)
    default:
      return;
    }
#undef MT_CASE
  }
};

struct Select {
  static constexpr int kIn = 3, kOut = 1;
  template <typename C>
  static __device__ __forceinline__ void apply(Function, const C (&in)[3][kOctet], C (&out)[1][kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[0][i] = in[0][i] != C(0) ? in[1][i] : in[2][i];
  }
};

/// Of activations: the gradient, the gated product, and the gradients of its factors.
struct Slope {
  static constexpr int kIn = 2, kOut = 1;
  template <Function F, typename C>
  static __device__ __forceinline__ void one(const C (&in)[2][kOctet], C (&out)[1][kOctet], int i) {
    out[0][i] = slope<F>(in[0][i]) * in[1][i];
  }
};
struct Gate {
  static constexpr int kIn = 2, kOut = 1;
  template <Function F, typename C>
  static __device__ __forceinline__ void one(const C (&in)[2][kOctet], C (&out)[1][kOctet], int i) {
    out[0][i] = activation<F>(in[0][i]) * in[1][i];
  }
};
struct GateGrad {
  static constexpr int kIn = 3, kOut = 2;
  template <Function F, typename C>
  static __device__ __forceinline__ void one(const C (&in)[3][kOctet], C (&out)[2][kOctet], int i) {
    out[0][i] = slope<F>(in[0][i]) * in[1][i] * in[2][i];
    out[1][i] = activation<F>(in[0][i]) * in[2][i];
  }
};

template <typename What> struct OfActivation {
  static constexpr int kIn = What::kIn, kOut = What::kOut;
  template <Function F, typename C>
  static __device__ __forceinline__ void all(const C (&in)[kIn][kOctet], C (&out)[kOut][kOctet]) {
    constexpr int kUnroll = std::is_same_v<C, float> ? kOctet : 1; // doubles are rare and their code is long
#pragma unroll kUnroll
    for (int i = 0; i < kOctet; ++i)
      What::template one<F>(in, out, i);
  }
  template <typename C>
  static __device__ __forceinline__ void apply(Function function, const C (&in)[kIn][kOctet], C (&out)[kOut][kOctet]) {
#define MT_CASE(name)                                                                                                  \
  case Function::name:                                                                                                 \
    return all<Function::name>(in, out);
    switch (function) {
      MT_ACTIVATION_FUNCTIONS(MT_CASE)
    default:
      return;
    }
#undef MT_CASE
  }
};

} // namespace mt::kernels::cuda
#endif
