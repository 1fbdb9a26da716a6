// What the operands of cases hold.
#include "kernels/Types.h"
#include "tests/nn/GradientCheck.h"

namespace mt::nn::test {

static double between(Random &random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

Input real(Index dims, double low, double high) {
  return {Input::real, std::move(dims), [=](Random &random, size_t, size_t) { return between(random, low, high); }};
}
Input fixed(Index dims) {
  Input made = real(std::move(dims));
  made.kind = Input::fixed;
  return made;
}
Input positive(Index dims) { return real(std::move(dims), 0.4, 2); }
Input apart(Index dims, int shift) {
  return {Input::real, std::move(dims), [shift](Random &, size_t index, size_t count) {
            size_t place = (index * 7 + count / 2 + 1) % count; // 7 divides no count used here: a permutation
            double value = 0.2 + 0.2 * static_cast<double>(place / 2) + 0.05 * (shift + 1);
            return place % 2 == 0 ? value : -value;
          }};
}
Input given(Index dims, std::vector<double> values) {
  return {Input::real, std::move(dims),
          [values = std::move(values)](Random &, size_t index, size_t) { return values[index]; }};
}
Input integers(Index dims, int64_t low, int64_t high) {
  return {Input::integer, std::move(dims), [=](Random &random, size_t, size_t) {
            return static_cast<double>(low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low)));
          }};
}
Input booleans(Index dims) {
  return {Input::boolean, std::move(dims), [](Random &random, size_t index, size_t) {
            return index < 2 ? static_cast<double>(index)
                             : static_cast<double>(random() & 1); // both, where there is room
          }};
}
Input scalars() {
  return {Input::scalars, {kernels::Scalars::kCount}, [](Random &, size_t index, size_t) {
            return index == kernels::Scalars::kInverseValid ? 0.37 : 0.1 * static_cast<double>(index + 1);
          }};
}

} // namespace mt::nn::test
