// What ranks send each other, by the exchanges that plans make.
#ifndef MT_RUNTIME_PROBE_NETWORKRATES_H
#define MT_RUNTIME_PROBE_NETWORKRATES_H

#include "runtime/device/Device.h"
#include "runtime/network/Network.h"

#include <memory>

namespace mt::probe {

struct NetworkRates {
  double bandwidth = 0; ///< bytes per second that a rank sends while it receives as many
  double overhead = 0;  ///< seconds of an exchange of next to nothing, for each other rank
  double deviceBandwidth = 0; ///< the first of these, from a device's memory; 0: not measured
};

/// All ranks call it at once. Takes some seconds, and half a gigabyte of memory.
Result<NetworkRates> probeNetwork(network::Network &network);

/// Bytes per second that a rank's device sends while it receives as many, from memory to memory. All ranks call it at
/// once, each with a device that has reserved nothing. Takes some seconds, and half a gigabyte of the device's memory.
Result<double> probeDeviceNetwork(network::Network &network, std::unique_ptr<device::Device> device);

} // namespace mt::probe
#endif
