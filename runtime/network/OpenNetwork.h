// The network of a job that a launcher of MPI started: its module is loaded then, and MPI with it; programs that train
// alone need neither.
#ifndef MT_RUNTIME_NETWORK_OPENNETWORK_H
#define MT_RUNTIME_NETWORK_OPENNETWORK_H

#include "runtime/network/Network.h"

#include <memory>

namespace mt::network {

/// How many processes the launcher started, by what it tells them: 1 without one.
uint32_t launchedRanks();

/// This one's number among those on its machine, 0 without a launcher.
uint32_t launchedLocalRank();

/// Whether it started as many as a plan for so many ranks needs; the error says how.
Status checkLaunched(uint32_t ranks);
/// Joins the other ranks. Errors: there are not so many, the module or MPI is not there.
Result<std::unique_ptr<Network>> openNetwork(uint32_t ranks);

/// What the module has: the implementation of openNetwork(), by this name.
using OpenModule = Status (*)(uint32_t ranks, std::unique_ptr<Network> &network);
inline constexpr const char *kOpenModule = "mtOpenMpiNetwork";

} // namespace mt::network
#endif
