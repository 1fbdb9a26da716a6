// Ranks that are threads of one process, for tests: what one sends is copied to where the other receives it.
#ifndef MT_RUNTIME_NETWORK_LOCALNETWORK_H
#define MT_RUNTIME_NETWORK_LOCALNETWORK_H

#include "runtime/network/Network.h"

#include <memory>

namespace mt::network {

/// The networks of all ranks, in their order; each may be used as long as any of them is there.
std::vector<std::unique_ptr<Network>> makeLocalNetworks(uint32_t ranks);

} // namespace mt::network
#endif
