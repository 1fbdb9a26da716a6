// Random damage to a plan file that its checksum does not notice: a few bytes of the payload changed, removed or
// inserted, and the header made to fit.
#ifndef MT_TESTS_PLAN_MUTATE_H
#define MT_TESTS_PLAN_MUTATE_H

#include <cstddef>
#include <random>
#include <vector>

namespace mt::tests {

void mutate(std::vector<std::byte> &file, std::mt19937 &random);

/// Makes the header's length and checksum fit the payload.
void seal(std::vector<std::byte> &file);

} // namespace mt::tests
#endif
