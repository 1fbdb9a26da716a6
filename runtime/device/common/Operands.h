// Where the operands of a template's calls are once its arguments are bound, and what calls are named and cached by:
// what prepared templates of every device share. Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_OPERANDS_H
#define MT_RUNTIME_DEVICE_COMMON_OPERANDS_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt::device {

using Address = std::function<std::byte *(const plan::Span &)>;

/// Fills `operands` with the addresses of a call's operands, null where one is absent; the result's bit i says that
/// operand i adds to what is there.
uint64_t bindOperands(const plan::Call &call, std::span<const plan::Binding> arguments, const plan::Span &workspace,
                      const Address &address, std::vector<void *> &operands);

/// Whether a call has the scratch that a backend needs; the error says how much, and that the plan is for another
/// device.
Status checkScratch(const plan::Call &call, kernels::Backend backend);

/// "matmul of /h.0/attn/MatMul": what errors call it.
std::string nameOf(const plan::Call &call);
/// Equal for equal signatures only: what a cache may go by.
std::string keyOf(const kernels::Signature &call);

} // namespace mt::device
#endif
