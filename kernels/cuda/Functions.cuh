// The arithmetic of elementwise kernels on one element, in float, double or int64_t: what kernels/cpu computes row by
// row. A function is a template argument, so that a kernel branches once for eight elements. Device code of
// kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_FUNCTIONS_CUH
#define MT_KERNELS_CUDA_FUNCTIONS_CUH

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Elementwise.h"

namespace mt::kernels::cuda {

// What the integers do: wrap around, divide by zero to zero.

__device__ inline int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
__device__ inline uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

__device__ __noinline__ inline int64_t quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? wrap(0 - bits(a)) : a / b;
}
__device__ __noinline__ inline int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
__device__ __noinline__ inline int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bits(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    result *= exponent & 1 ? factor : 1;
  return wrap(result);
}

template <Function F> __device__ __forceinline__ int64_t evaluate(int64_t x) {
  if constexpr (F == Function::neg)
    return wrap(0 - bits(x));
  if constexpr (F == Function::abs)
    return x < 0 ? wrap(0 - bits(x)) : x;
  if constexpr (F == Function::sign)
    return static_cast<int64_t>(x > 0) - static_cast<int64_t>(x < 0);
  if constexpr (F == Function::relu)
    return x > 0 ? x : 0;
  if constexpr (F == Function::invert)
    return x == 0;
  return x; // of integers: floor, ceil, round
}

template <Function F> __device__ __forceinline__ int64_t evaluate(int64_t a, int64_t b) {
  if constexpr (F == Function::add)
    return wrap(bits(a) + bits(b));
  if constexpr (F == Function::sub)
    return wrap(bits(a) - bits(b));
  if constexpr (F == Function::mul)
    return wrap(bits(a) * bits(b));
  if constexpr (F == Function::div)
    return quotient(a, b);
  if constexpr (F == Function::mod)
    return modulo(a, b);
  if constexpr (F == Function::pow)
    return power(a, b);
  if constexpr (F == Function::maximum)
    return a > b ? a : b;
  if constexpr (F == Function::minimum)
    return a < b ? a : b;
  if constexpr (F == Function::bitAnd)
    return a & b;
  if constexpr (F == Function::bitOr)
    return a | b;
  if constexpr (F == Function::bitXor)
    return a ^ b;
  return 0;
}

template <Function F, typename C> __device__ __forceinline__ bool holds(C a, C b) {
  if constexpr (F == Function::equal)
    return a == b;
  if constexpr (F == Function::notEqual)
    return a != b;
  if constexpr (F == Function::less)
    return a < b;
  if constexpr (F == Function::lessEqual)
    return a <= b;
  if constexpr (F == Function::greater)
    return a > b;
  return a >= b;
}
template <Function F> constexpr bool kIsPredicate = F >= Function::equal &&F <= Function::greaterEqual;

// Floats and doubles: R is either. The overloads of the C library are those of the device.

__device__ __forceinline__ double sigmoid(double x) { return 1 / (1 + exp(-x)); }
/// Within 3 ulps and without a branch; what is less than the least normal number may become zero.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

template <typename R> __device__ __forceinline__ R geluTanhInner(R x) {
  return tanh(R(0.79788456080286535588) * x * (R(1) + R(0.044715) * x * x));
}
template <typename R> __device__ __forceinline__ R normalProbability(R x) {
  return R(0.5) + R(0.5) * erf(x * R(0.70710678118654752440));
}

template <Function F, typename R> __device__ __forceinline__ R activation(R x) {
  if constexpr (F == Function::relu)
    return x > R(0) || x != x ? x : R(0);
  else if constexpr (F == Function::silu)
    return x * sigmoid(x);
  else if constexpr (F == Function::geluErf)
    return x * normalProbability(x);
  else if constexpr (F == Function::geluTanh)
    return x * (R(0.5) + R(0.5) * geluTanhInner(x));
  else if constexpr (F == Function::geluSigmoid)
    return x * sigmoid(R(1.702) * x);
  else if constexpr (F == Function::softplus)
    return (x > R(0) || x != x ? x : R(0)) + log1p(exp(-fabs(x)));
  else {
    static_assert(F == Function::sigmoid, "a function without a formula");
    return sigmoid(x);
  }
}

/// The derivative of an activation.
template <Function F, typename R> __device__ __forceinline__ R slope(R x) {
  if constexpr (F == Function::relu)
    return x > R(0) ? R(1) : R(0);
  if constexpr (F == Function::geluErf)
    return normalProbability(x) + x * exp(R(-0.5) * x * x) * R(0.39894228040143267794);
  if constexpr (F == Function::geluTanh) {
    R t = geluTanhInner(x);
    R rate = R(0.79788456080286535588) * (R(1) + R(3 * 0.044715) * x * x);
    return R(0.5) + R(0.5) * t + R(0.5) * x * (R(1) - t * t) * rate;
  }
  R scale = F == Function::geluSigmoid ? R(1.702) : R(1), s = sigmoid(scale * x);
  if constexpr (F == Function::silu || F == Function::geluSigmoid)
    return s * (R(1) + scale * x * (R(1) - s));
  if constexpr (F == Function::softplus)
    return s;
  return s - s * s;
}

template <Function F, typename R> __device__ __forceinline__ R realValue(R x) {
  if constexpr (F == Function::neg)
    return -x;
  else if constexpr (F == Function::abs)
    return fabs(x);
  else if constexpr (F == Function::sign)
    return x > R(0) ? R(1) : x < R(0) ? R(-1) : R(0);
  else if constexpr (F == Function::exp)
    return exp(x);
  else if constexpr (F == Function::log)
    return log(x);
  else if constexpr (F == Function::sqrt)
    return sqrt(x);
  else if constexpr (F == Function::rsqrt)
    return R(1) / sqrt(x);
  else if constexpr (F == Function::reciprocal)
    return R(1) / x;
  else if constexpr (F == Function::tanh)
    return tanh(x);
  else if constexpr (F == Function::erf)
    return erf(x);
  else if constexpr (F == Function::sin)
    return sin(x);
  else if constexpr (F == Function::cos)
    return cos(x);
  else if constexpr (F == Function::atan)
    return atan(x);
  else if constexpr (F == Function::floor)
    return floor(x);
  else if constexpr (F == Function::ceil)
    return ceil(x);
  else if constexpr (F == Function::round)
    return rint(x);
  else if constexpr (F == Function::isNan)
    return x != x ? R(1) : R(0);
  else if constexpr (F == Function::invert)
    return x == R(0) ? R(1) : R(0);
  else
    return activation<F>(x);
}

template <typename R> __device__ __forceinline__ R realModulo(R a, R b) {
  R rest = fmod(a, b);
  return rest != R(0) && (rest < R(0)) != (b < R(0)) ? rest + b : rest;
}

template <Function F, typename R> __device__ __forceinline__ R realValue(R a, R b) {
  if constexpr (F == Function::add)
    return a + b;
  if constexpr (F == Function::sub)
    return a - b;
  if constexpr (F == Function::mul)
    return a * b;
  if constexpr (F == Function::div)
    return a / b;
  if constexpr (F == Function::pow)
    return b == R(2) ? a * a : b == R(3) ? a * a * a : pow(a, b);
  if constexpr (F == Function::maximum)
    return a != a || a > b ? a : b;
  if constexpr (F == Function::minimum)
    return a != a || a < b ? a : b;
  if constexpr (F == Function::mod)
    return realModulo(a, b);
  return R(0); // of bits: no call of the catalogue has them of floats
}

/// Long code, or rare: called, not repeated for each of eight elements.
template <Function F, typename R> __device__ __noinline__ R distantValue(R x) { return realValue<F>(x); }
template <Function F, typename R> __device__ __noinline__ R distantValue(R a, R b) { return realValue<F>(a, b); }

template <Function F> __device__ __forceinline__ float evaluate(float x) {
  if constexpr (F == Function::sin || F == Function::cos)
    return distantValue<F>(x);
  return realValue<F>(x);
}
template <Function F> __device__ __forceinline__ float evaluate(float a, float b) {
  if constexpr (F == Function::pow || F == Function::mod)
    return distantValue<F>(a, b);
  return realValue<F>(a, b);
}
template <Function F> __device__ __forceinline__ double evaluate(double x) { return distantValue<F>(x); }
template <Function F> __device__ __forceinline__ double evaluate(double a, double b) { return distantValue<F>(a, b); }

} // namespace mt::kernels::cuda
#endif
