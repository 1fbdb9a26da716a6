#include "runtime/executor/CallTable.h"

#include "kernels/SignatureText.h"
#include "runtime/base/Sizes.h"
#include "runtime/plan/Dump.h"

#include <algorithm>

namespace mt::executor {
namespace {

constexpr std::string_view kColumns = "{:>7} {:>10} {:>8} {:>10} {:>9} {:>9}  {}\n";

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string line(const CallTable::Row &row) {
  return fmt::format(kColumns, fmt::format("{:.1f} %", row.share * 100), fmt::format("{:.3f}", row.seconds * 1e3),
                     row.runs,
                     fmt::format("{:.4g}", row.seconds / static_cast<double>(row.runs) * 1e3),
                     fmt::format("{:.3g}", rate(row.flops, row.seconds) / 1e12),
                     fmt::format("{:.3g}", rate(row.bytes, row.seconds) / 1e9), row.call);
}

void addTo(CallTable::Row &sum, const CallTable::Row &row) {
  sum.runs += row.runs, sum.seconds += row.seconds, sum.flops += row.flops, sum.bytes += row.bytes,
      sum.share += row.share;
}

} // namespace

void CallTable::add(const std::vector<device::CallTimes> &times) {
  for (const device::CallTimes &one : times)
    for (size_t i = 0; i < one.seconds.size(); ++i) {
      const kernels::Signature &call = one.code->calls[i].signature;
      const double runs = static_cast<double>(one.runs);
      const plan::StreamKind kind = plan.streams[one.stream].kind;
      Row row{kind,
              kernels::printWork(call),
              one.runs,
              one.seconds[i],
              kernels::flops(call) * runs,
              kernels::traffic(call) * runs,
              0};
      auto [found, fresh] = byCall.try_emplace({kind, row.call}, row);
      if (!fresh)
        addTo(found->second, row);
    }
}

std::vector<CallTable::Row> CallTable::rows() const {
  std::map<plan::StreamKind, double> sums;
  for (const auto &[key, row] : byCall)
    sums[row.kind] += row.seconds;
  std::vector<Row> all;
  for (const auto &[key, row] : byCall) {
    all.push_back(row);
    all.back().share = rate(row.seconds, sums[row.kind]);
  }
  std::ranges::stable_sort(all, std::greater(), &Row::seconds);
  return all;
}

std::string CallTable::text() const {
  std::map<plan::StreamKind, std::vector<Row>> tables;
  for (Row &row : rows())
    tables[row.kind].push_back(std::move(row));
  std::string text = "times of kernel calls";
  for (const auto &[kind, table] : tables) {
    Row rest, sum;
    std::string lines;
    size_t shown = 0;
    for (const Row &row : table) {
      const bool matters = shown < kMostRows && sum.share < 0.99;
      addTo(sum, row);
      if (!matters)
        addTo(rest, row);
      else if (++shown)
        lines += line(row);
    }
    if (shown < table.size()) {
      rest.call = fmt::format("{} others", table.size() - shown);
      lines += line(rest);
    }
    text += fmt::format("\n{}: {} in {} calls\n", plan::name(kind), formatSeconds(sum.seconds), sum.runs) +
            fmt::format(kColumns, "share", "ms", "runs", "ms/run", "TFLOP/s", "GB/s", "call") + lines;
  }
  while (text.ends_with('\n'))
    text.pop_back();
  return text;
}

} // namespace mt::executor
