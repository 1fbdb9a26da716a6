// The calls of a plan that other ranks take part in - all_to_all and all_gather of the catalogue - as messages.
#ifndef MT_RUNTIME_NETWORK_COLLECTIVES_H
#define MT_RUNTIME_NETWORK_COLLECTIVES_H

#include "kernels/Catalogue.h"
#include "runtime/network/Network.h"

namespace mt::network {

/// What a rank sends and receives for a call, whoever carries it, and what it copies itself. `operands` are the
/// addresses of the call's. The catalogue has checked it.
struct Exchange {
  struct Copy {
    std::span<std::byte> from, to;
  };
  std::vector<Message> sends, receives;
  std::vector<Copy> copies;
};
Exchange exchangeOf(uint32_t rank, const kernels::Signature &call, std::span<void *const> operands);

/// Carries a call out, in memory of the host. Its ranks are the network's.
Status exchange(Network &network, Channel channel, const kernels::Signature &call, std::span<void *const> operands);

} // namespace mt::network
#endif
