#include "runtime/plan/Ranks.h"

#include <algorithm>

namespace mt::plan {

void moveToRank(Plan &plan, uint32_t rank) {
  for (Program &program : plan.programs)
    for (Command &command : program.commands)
      for (Binding &binding : command.arguments) {
        binding.span.offset += std::min(rank * binding.rankStride, binding.rankReach);
        binding.rankStride = binding.rankReach = 0;
      }
}

bool isExchange(const kernels::Signature &call) { return call.kernel == "all_to_all" || call.kernel == "all_gather"; }

uint64_t sentBytes(const kernels::Signature &exchange) {
  const std::vector<int64_t> shares = exchange.integers("shares");
  uint64_t bytes = 0;
  for (size_t i = 0; i < shares.size(); ++i)
    bytes += static_cast<uint64_t>(shares[i]) * kernels::byteSize(exchange.operands[i].type);
  return bytes * static_cast<uint64_t>(exchange.integer("ranks") - 1);
}

std::vector<Owned> ownedBy(const kernels::Shares &shares, uint32_t rank, bool once) {
  std::vector<Owned> owned;
  const int64_t begin = shares.share > 0 ? shares.begin(rank) : 0;
  const int64_t first = once ? std::min(rank * shares.share, shares.body) : begin;
  const int64_t end = std::min(first + shares.share, shares.body);
  if (first < end)
    owned.push_back({first, end - first, first - begin});
  if (shares.tail > 0 && (!once || rank == 0))
    owned.push_back({shares.body, shares.tail, shares.share});
  return owned;
}

} // namespace mt::plan
