// An axis of a curve: the range that it covers, where its ticks are, what is written there. Ticks are round: 1, 2 or 5
// times a power of ten (Heckbert, "Nice Numbers for Graph Labels", Graphics Gems, 1990). Drawn by Chart.h.
#ifndef MT_RUNTIME_TRAIN_AXIS_H
#define MT_RUNTIME_TRAIN_AXIS_H

#include <string>
#include <vector>

namespace mt::train {

struct Axis {
  double low = 0, high = 1; ///< low < high
  bool isLog = false;
  struct Tick {
    double value = 0;
    std::string text;
  };
  std::vector<Tick> ticks; ///< ascending, within the range

  /// Where a value is: 0 at `low`, 1 at `high`.
  double at(double value) const;
};

/// Of steps, first to last, which are 2^52 at most: beyond it a double has no room for what is between them.
Axis stepAxis(double first, double last);
/// Of values between these; from zero where `fromZero` and they are not negative. Logarithmic where that is allowed and
/// the largest is a hundred times the smallest or more.
Axis valueAxis(double least, double most, bool fromZero, bool mayBeLog);

} // namespace mt::train
#endif
