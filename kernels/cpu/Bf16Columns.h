// What windows see of bf16 images, for products on the processor's units. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16COLUMNS_H
#define MT_KERNELS_CPU_BF16COLUMNS_H

#include "kernels/Bf16.h"
#include "kernels/cpu/WindowRuns.h"

namespace mt::kernels::cpu {

/// Elements behind the last that bringPlace() writes, too, with anything.
constexpr int64_t kBeyond = 31;

/// What results [begin, end) of an image see at one place of their windows, one after another; zeros where that is
/// outside. Only where hasBf16Units().
void bringPlace(const Windows &windows, const Place &place, const Bf16 *image, int64_t begin, int64_t end, Bf16 *to);

} // namespace mt::kernels::cpu
#endif
