// The conformance suite of kernels on the GPU's kernels, run by Simt.h.
#include "tests/device/SimulatedDriver.h"

#include <gtest/gtest.h>

namespace mt::tests {

void simulationFailed(const std::string &what) { ADD_FAILURE() << what; }

} // namespace mt::tests
