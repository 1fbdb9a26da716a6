// The calls of a plan that other ranks take part in - all_to_all and all_gather of the catalogue - as messages.
#ifndef MT_RUNTIME_NETWORK_COLLECTIVES_H
#define MT_RUNTIME_NETWORK_COLLECTIVES_H

#include "kernels/Catalogue.h"
#include "runtime/network/Network.h"

namespace mt::network {

/// `operands` are the addresses of the call's. The catalogue has checked it, and its ranks are the network's.
Status allToAll(Network &network, const kernels::Signature &call, std::span<void *const> operands);
Status allGather(Network &network, const kernels::Signature &call, std::span<void *const> operands);

} // namespace mt::network
#endif
