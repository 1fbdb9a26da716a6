// Operands of a launch as device code takes them, and how many of their elements a thread holds. No library is needed
// here: device code is compiled once for every architecture. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_ELEMENTS_H
#define MT_KERNELS_CUDA_ELEMENTS_H

#include "kernels/Catalogue.h"

#include <algorithm>

namespace mt::kernels::cuda {

/// Threads of a block where nothing asks for another number; of a warp; of a row at most; and of a block at most.
constexpr int kThreads = 256, kWarp = 32, kRowThreads = 512, kMostThreads = 1024;

/// Elements that a thread moves at once: 16 bytes of bf16, two times 16 of f32; and how many times so many of a row it
/// keeps in registers between passes.
constexpr int kOctet = 8, kHeld = 4;

/// A read operand, and a written one; no data: absent.
struct In {
  const void *data = nullptr;
  DType type = DType::f32;
};
struct Out {
  void *data = nullptr;
  DType type = DType::f32;
  bool adds = false;
};

/// Whether elements of a type are moved eight at a time where addresses allow it.
constexpr bool hasPacks(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f64 || type == DType::i64 || type == DType::i32 ||
         type == DType::boolean;
}

/// Whether eight elements at a time can be moved from this address on.
inline bool isAligned(const void *address, DType type) {
  return hasPacks(type) && reinterpret_cast<uintptr_t>(address) % std::min<uint64_t>(byteSize(type) * kOctet, 16) == 0;
}

/// The elements of a row, the same for all rows of a launch; packed: all of them can be moved eight at a time.
struct RowShape {
  int64_t width = 0;
  bool packed = false;
};

/// What row kernels are compiled for: rows of packs with all operands of one type and parameters of 32 bits, or any.
enum class RowCode : uint8_t { any, f32, bf16 };

/// Calls visit(C()) with the arithmetic type that a storage type is read into.
template <typename Visit> auto withArithmetic(DType type, Visit visit) {
  if (type == DType::f32 || type == DType::bf16 || type == DType::f16)
    return visit(float());
  if (type == DType::f64)
    return visit(double());
  return visit(int64_t());
}

/// `total` items in `count` chunks of `size`, the last maybe shorter.
struct Cut {
  int64_t total = 0, size = 0, count = 0;
};

} // namespace mt::kernels::cuda
#endif
