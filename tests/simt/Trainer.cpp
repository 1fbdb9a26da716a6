// mtrun with a GPU that is none: what its kernels do wrong ends the run.
#include "tests/device/SimulatedDriver.h"

#include <cstdio>
#include <cstdlib>

namespace mt::tests {

void simulationFailed(const std::string &what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::_Exit(70);
}

} // namespace mt::tests
