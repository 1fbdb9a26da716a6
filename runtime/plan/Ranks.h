// A plan for several ranks as one of them runs it: what lies at another place on each of them is where this one has it.
#ifndef MT_RUNTIME_PLAN_RANKS_H
#define MT_RUNTIME_PLAN_RANKS_H

#include "runtime/plan/Program.h"

namespace mt::plan {

/// Moves bindings to where they are on `rank`, below plan.ranks. The plan keeps its number of ranks.
void moveToRank(Plan &plan, uint32_t rank);

/// Whether other ranks take part in a call.
bool isExchange(const kernels::Signature &call);
/// Bytes that an exchange, all_to_all or all_gather, makes a rank send to others.
uint64_t sentBytes(const kernels::Signature &exchange);

/// Elements of a parameter that a rank has of its state, and where they are there.
struct Owned {
  int64_t first = 0, count = 0; ///< of the parameter
  int64_t place = 0;            ///< of what the rank has
};
/// Those of its share and the tail, in order. Those that several ranks have - where `once`, of just one of them.
std::vector<Owned> ownedBy(const kernels::Shares &shares, uint32_t rank, bool once);

} // namespace mt::plan
#endif
