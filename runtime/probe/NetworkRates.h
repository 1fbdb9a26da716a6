// What ranks send each other, by the exchanges that plans make.
#ifndef MT_RUNTIME_PROBE_NETWORKRATES_H
#define MT_RUNTIME_PROBE_NETWORKRATES_H

#include "runtime/network/Network.h"

namespace mt::probe {

struct NetworkRates {
  double bandwidth = 0; ///< bytes per second that a rank sends while it receives as many
  double overhead = 0;  ///< seconds of an exchange of next to nothing, for each other rank
};

/// All ranks call it at once. Takes some seconds, and half a gigabyte of memory.
Result<NetworkRates> probeNetwork(network::Network &network);

} // namespace mt::probe
#endif
