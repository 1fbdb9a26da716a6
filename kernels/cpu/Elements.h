// Rows of elements between storage and arithmetic: any storage type is read as float (f32, bf16, f16), double (f64) or
// int64_t (integers and booleans), and written from any of them, replacing or adding. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ELEMENTS_H
#define MT_KERNELS_CPU_ELEMENTS_H

#include "kernels/Catalogue.h"

namespace mt::kernels::cpu {

/// out[i] = base[offset + i * stride] for i < count; offsets and strides in elements.
template <typename C> using LoadRow = void (*)(const void *base, int64_t offset, int64_t stride, int64_t count, C *out);
/// base[offset + i] = in[i], or += in[i].
template <typename C>
using StoreRow = void (*)(const C *in, void *base, int64_t offset, int64_t count, bool accumulate);

/// C is float, double or int64_t.
template <typename C> LoadRow<C> loader(DType storage);
template <typename C> StoreRow<C> storer(DType storage);

/// Which arithmetic a storage type is read into.
enum class Arithmetic : uint8_t { real32, real64, integer };
Arithmetic arithmeticOf(DType storage);
/// Whether storage and arithmetic are the same bits.
template <typename C> bool isNative(DType storage);

/// Calls visit(C()) with the arithmetic type of a storage type.
template <typename Visit> auto withArithmetic(DType storage, Visit visit) {
  switch (arithmeticOf(storage)) {
  case Arithmetic::real32:
    return visit(float());
  case Arithmetic::real64:
    return visit(double());
  case Arithmetic::integer:
    break;
  }
  return visit(int64_t());
}

} // namespace mt::kernels::cpu
#endif
