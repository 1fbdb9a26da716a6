// A curve over the steps of a run in bounded memory: buckets of equally many steps, twice as many whenever they would
// become too many, each with its mean and its extremes. A function of the values in their order: it does not matter
// whether a run adds them as it goes or somebody reads them again. Drawn by Chart.h.
#ifndef MT_RUNTIME_TRAIN_SERIES_H
#define MT_RUNTIME_TRAIN_SERIES_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt::train {

struct Point {
  int64_t step = 0;
  double value = 0;
  bool operator==(const Point &) const = default;
};

class Series {
public:
  static constexpr size_t kMostBuckets = 700;

  /// Steps ascend, from 0 to 2^52; one before the first is left out. A value that is no finite number, or has more than
  /// a hundred digits, is counted and left out.
  void add(int64_t step, double value);

  bool empty() const { return buckets.empty(); }
  /// Values that were left out.
  int64_t missing() const { return left; }
  /// The newest, and the first of the smallest; of a series that is not empty.
  Point last() const { return newest; }
  Point least() const { return smallest; }
  /// Every value where the buckets are of one step; else the smallest and the largest of each. At most 2 kMostBuckets.
  std::vector<Point> extremes() const;
  /// Means over the buckets around each: a fiftieth of them to either side, the nearer the heavier. At the start, where
  /// curves are steep, fewer: the first point is the first mean.
  std::vector<Point> smoothed() const;

private:
  struct Bucket {
    int64_t count = 0; ///< 0: none of its steps has a value
    double sum = 0;
    Point least, most;
  };
  void widen();
  std::vector<Bucket> buckets; ///< the last one has a value
  int64_t origin = 0;          ///< the first step
  int64_t width = 1;           ///< steps of a bucket
  int64_t left = 0;
  Point newest, smallest;
};

} // namespace mt::train
#endif
