// Lists by number, all in one piece of memory: a simulation makes thousands of them, and a search thousands of
// simulations.
#ifndef MT_COMPILER_PLANNER_GROUPED_H
#define MT_COMPILER_PLANNER_GROUPED_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mt::planner {

/// Values by group, those of each in the order in which they were given.
template <typename T> class Grouped {
public:
  Grouped() = default;
  /// `given`: groups, each less than `count`, and what belongs to them.
  Grouped(size_t count, std::span<const std::pair<uint32_t, T>> given) : firsts(count + 2, 0), values(given.size()) {
    for (const auto &[group, value] : given)
      ++firsts[group + 2];
    for (size_t group = 2; group < firsts.size(); ++group)
      firsts[group] += firsts[group - 1];
    for (const auto &[group, value] : given) // of each group the first, as yet one further on, becomes its end
      values[firsts[group + 1]++] = value;
    firsts.pop_back();
  }
  size_t size() const { return firsts.empty() ? 0 : firsts.size() - 1; }
  size_t all() const { return values.size(); } ///< values of all groups
  std::span<const T> operator[](size_t group) const {
    return std::span(values).subspan(firsts[group], firsts[group + 1] - firsts[group]);
  }
  /// Without those that `keep`, given a group and a value, is false for; it is asked in order.
  template <typename Keep> void filter(Keep keep) {
    uint32_t kept = 0, next = 0;
    for (uint32_t group = 0; group < size(); ++group) {
      for (uint32_t last = firsts[group + 1]; next < last; ++next)
        if (keep(group, values[next]))
          values[kept++] = values[next];
      firsts[group + 1] = kept;
    }
    values.resize(kept);
  }

private:
  std::vector<uint32_t> firsts; ///< by group, and the end of the last
  std::vector<T> values;
};

} // namespace mt::planner
#endif
