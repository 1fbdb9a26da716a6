// The arithmetic of elementwise kernels on contiguous rows: one function a kernel (and attribute value) and a type.
// float is vectorized with run-time dispatch. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ELEMENTWISEOPS_H
#define MT_KERNELS_CPU_ELEMENTWISEOPS_H

#include "kernels/Catalogue.h"

#include <cstdint>
#include <string>

namespace mt::kernels::cpu {

/// Rows that a function reads and writes at most.
inline constexpr size_t kMostIn = 3, kMostOut = 2;

/// out[j][i] = f(in[0][i], in[1][i], ..) for i < count. Booleans are 0 and 1. Ins and outs may be the same row.
template <typename C> using RowFunction = void (*)(const C *const *in, C *const *out, int64_t count);

/// `function` is the kernel's name, followed by "." and its attribute's value where it has one: "gelu.tanh". Null if
/// there is none.
template <typename C> RowFunction<C> rowFunction(const std::string &function);
template <> RowFunction<float> rowFunction<float>(const std::string &function);
/// The same, of results rounded to bf16; null also where only another pass rounds them.
RowFunction<float> roundedRowFunction(const std::string &function);
template <> RowFunction<double> rowFunction<double>(const std::string &function);
template <> RowFunction<int64_t> rowFunction<int64_t>(const std::string &function);

/// Whether a function gives nothing but numbers of its operands' type, so that none has to be rounded.
bool keepsType(std::string_view function);

/// The function of an elementwise call.
std::string functionName(const Signature &call);

} // namespace mt::kernels::cpu
#endif
