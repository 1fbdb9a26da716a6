// What kernel calls took in a run, by what they compute and the kind of stream that they ran on: calls of equal
// signatures are one row, whatever template they are in, and so are updates of parameters of equal shapes. Private to
// the executor.
#ifndef MT_RUNTIME_EXECUTOR_CALLTABLE_H
#define MT_RUNTIME_EXECUTOR_CALLTABLE_H

#include "runtime/device/Device.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mt::executor {

class CallTable {
public:
  struct Row {
    plan::StreamKind kind = plan::StreamKind::compute;
    std::string call = {}; ///< kernels::printWork
    uint64_t runs = 0;
    double seconds = 0, flops = 0, bytes = 0; ///< of all runs; flops and bytes as the catalogue counts them
    double share = 0;                         ///< of the seconds of all rows of its kind of stream
  };

  explicit CallTable(const plan::Plan &plan) : plan(plan) {}
  void add(const std::vector<device::CallTimes> &times);

  /// Those that took longest first.
  std::vector<Row> rows() const;
  /// A table for each kind of stream: the rows that make up its time but for a hundredth, at most kMostRows of them,
  /// and a line for the others.
  std::string text() const;

private:
  static constexpr size_t kMostRows = 40;
  const plan::Plan &plan;
  std::map<std::pair<plan::StreamKind, std::string>, Row> byCall;
};

} // namespace mt::executor
#endif
