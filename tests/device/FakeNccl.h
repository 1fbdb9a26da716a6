// Stands in for NCCL where there is no GPU: messages between processes, or threads, go over sockets when their turn on
// a simulated stream (SimulatedDriver.h) comes. As nasty as NCCL may be, and less patient: what it leaves undefined -
// messages that do not match, a call outside of a group, two threads at once - fails the program that runs.
#ifndef MT_TESTS_DEVICE_FAKENCCL_H
#define MT_TESTS_DEVICE_FAKENCCL_H

#include "kernels/cuda/Nccl.h"

namespace mt::tests {

const kernels::cuda::Nccl &fakeNccl();
/// Communicators that are not aborted.
int fakeCommunicators();
/// The next look at a communicator, by ncclCommGetAsyncError, finds that its network has failed.
void failFakeNccl();

} // namespace mt::tests
#endif
