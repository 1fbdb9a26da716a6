// Products of bf16 matrices on AVX-512 BF16, by oneDNN, on the calling thread alone; on AMX's tiles they are our own
// (Tiles.h). Prepared once for a shape; where a processor has no such units there is none. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16UNITS_H
#define MT_KERNELS_CPU_BF16UNITS_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/Gemm.h"

#include <memory>
#include <optional>

namespace mt::kernels::cpu {

/// C = op(A) op(B) + bias, or, if it adds, with what C holds; A and B bf16, sums in f32, C and a row of bias f32 or
/// bf16. The order of sums does not depend on the number of rows, but for a few.
class Bf16Product {
public:
  struct Shape {
    Gemm gemm;
    DType c = DType::f32;
    std::optional<DType> bias = {};
    bool adds = false;
  };
  /// Null where the processor or the library has no units for it.
  static std::shared_ptr<const Bf16Product> make(const Shape &shape);

  /// Bytes that run() takes, aligned to 64.
  virtual uint64_t scratch() const = 0;
  virtual void run(const void *a, const void *b, void *c, const void *bias, std::byte *scratch) const = 0;
  virtual ~Bf16Product() = default;
};

} // namespace mt::kernels::cpu
#endif
