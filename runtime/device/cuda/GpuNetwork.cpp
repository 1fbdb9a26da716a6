#include "runtime/device/cuda/GpuNetwork.h"

#include "runtime/network/Collectives.h"

#include <cstring>

namespace mt::device {

using kernels::cuda::NcclComm;
using kernels::cuda::NcclId;
using kernels::cuda::NcclResult;
using kernels::cuda::NcclType;

Result<std::unique_ptr<GpuNetwork>> GpuNetwork::join(Driver &driver, network::Network &network, cudaStream_t stream) {
  const Result<const kernels::cuda::Nccl *> nccl = driver.nccl();
  MT_TRY(network::agree(network, network::Channel::loop, nccl.status())); // else the others would wait for this one
  std::unique_ptr<GpuNetwork> made(new GpuNetwork(driver, network, **nccl));
  if (Status opened = made->open(stream); !opened) {
    network.fail(opened.within(driver.name())); // the others wait for this one within NCCL
    return network.failure();
  }
  return made;
}

Status GpuNetwork::open(cudaStream_t stream) {
  NcclId id = {};
  Result<std::string> first = std::string();
  if (network.rank() == 0) {
    const Status told = nccl.told(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    first = told ? Result<std::string>(std::string(id.bytes.begin(), id.bytes.end())) : told;
  }
  MT_ASSIGN(const std::string text, network::broadcast(network, network::Channel::loop, first));
  if (text.size() != id.bytes.size())
    return fail("rank 0 has sent {} bytes for NCCL, and {} are expected", text.size(), id.bytes.size());
  std::memcpy(id.bytes.data(), text.data(), text.size());
  NcclComm made = nullptr;
  MT_TRY(
      nccl.told(nccl.ncclCommInitRank(&made, static_cast<int>(network.ranks()), id, static_cast<int>(network.rank())),
                "ncclCommInitRank"));
  comm = made;
  MT_ASSIGN(last, driver.createEvent(false));
  MT_TRY(meet(stream));
  watching = std::jthread([this](const std::stop_token &ends) { watch(ends); });
  return {};
}

/// A byte from each to each.
Status GpuNetwork::meet(cudaStream_t stream) {
  constexpr uint64_t kApart = 256;
  MT_ASSIGN(void *memory, driver.allocate(2 * kApart * network.ranks()));
  std::vector<network::Message> sends, receives;
  for (uint32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != network.rank()) {
      auto *place = static_cast<std::byte *>(memory) + 2 * kApart * rank;
      sends.push_back({rank, {{place, 1}}});
      receives.push_back({rank, {{place + kApart, 1}}});
    }
  Status met = driver.fill(memory, 0, 2 * kApart * network.ranks(), stream);
  met = met ? send(sends, receives, stream) : met;
  met = met ? driver.synchronize(stream) : met;
  driver.release(memory);
  return met;
}

GpuNetwork::~GpuNetwork() {
  if (watching.joinable()) {
    watching.request_stop();
    changed.notify_all();
    watching.join();
  }
  abort();
  if (last)
    driver.destroy(last);
}

/// Who is about to call NCCL is waited for, unless that call is what does not end.
void GpuNetwork::abort() {
  const std::unique_lock lock(issuing, std::chrono::seconds(1));
  if (NcclComm made = comm.exchange(nullptr))
    (void)nccl.ncclCommAbort(made);
}

kernels::cuda::Run GpuNetwork::prepare(const kernels::Signature &call) {
  return [this, call](const kernels::cuda::Launch &launch) { return exchange(call, launch); };
}

Status GpuNetwork::exchange(const kernels::Signature &call, const kernels::cuda::Launch &launch) {
  const network::Exchange made = network::exchangeOf(network.rank(), call, launch.operands);
  MT_TRY(launch.stream.launching(static_cast<int64_t>(1 + made.copies.size())));
  for (const network::Exchange::Copy &copy : made.copies)
    MT_TRY(driver.copy(copy.to.data(), copy.from.data(), copy.to.size(), cudaMemcpyDeviceToDevice, launch.stream));
  MT_TRY(send(made.sends, made.receives, launch.stream));
  MT_TRY(driver.record(last, launch.stream));
  std::lock_guard lock(mutex);
  enqueued = Clock::now();
  return {};
}

/// As one group: none of the messages waits for another.
Status GpuNetwork::send(std::span<const network::Message> sends, std::span<const network::Message> receives,
                        cudaStream_t stream) {
  const std::lock_guard lock(issuing);
  const NcclComm with = comm;
  if (!with) {
    const Status failure = network.failure();
    return failure ? fail("its exchanges have ended") : failure;
  }
  MT_TRY(nccl.told(nccl.ncclGroupStart(), "ncclGroupStart", with));
  Status told;
  auto post = [&](std::span<const network::Message> messages, const char *name, auto call) {
    for (const network::Message &message : messages)
      for (std::span<std::byte> piece : message.pieces)
        if (told)
          told =
              nccl.told(call(piece.data(), piece.size(), NcclType::uint8, static_cast<int>(message.rank), with, stream),
                        name, with);
  };
  post(sends, "ncclSend", nccl.ncclSend);
  post(receives, "ncclRecv", nccl.ncclRecv);
  const Status ended = nccl.told(nccl.ncclGroupEnd(), "ncclGroupEnd", with);
  return told ? ended : told;
}

/// What fails or hangs between GPUs is seen by nobody who waits for a GPU.
void GpuNetwork::watch(const std::stop_token &ends) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  Status problem = driver.bind();
  while (problem && !ends.stop_requested()) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, ends, kPause, [] { return false; });
    lock.unlock();
    problem = look();
  }
  // Where a rank is gone NCCL says so first, but not which: who listens for signs of each will.
  const std::chrono::duration<double> longer(network.silence() > 0 ? network.silence() + 3 : 0);
  for (const Clock::time_point begin = Clock::now(); Clock::now() - begin < longer && network.failure();) {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, ends, kPause, [] { return false; }); ends.stop_requested())
      return;
  }
  if (!problem)
    network.fail(problem.within(driver.name()));
}

Status GpuNetwork::look() {
  if (const std::unique_lock asking(issuing, std::try_to_lock); asking) {
    const NcclComm with = comm;
    if (!with)
      return {};
    NcclResult error = NcclResult::success;
    MT_TRY(nccl.told(nccl.ncclCommGetAsyncError(with, &error), "ncclCommGetAsyncError", with));
    MT_TRY(nccl.told(error, "an exchange with other ranks' GPUs", with));
  }
  std::unique_lock lock(mutex);
  const std::optional<Clock::time_point> since = enqueued;
  lock.unlock();
  const double patience = network.patience();
  if (!since || patience <= 0 || !comm)
    return {};
  MT_ASSIGN(const bool done, driver.isDone(last));
  const double waited = std::chrono::duration<double>(Clock::now() - *since).count();
  // It waits for what this GPU computes before it, too: of a machine that is slower than predicted, long before the
  // first.
  const double most = std::max(slowest > 0 ? patience : 10 * patience, 3 * slowest);
  if (!done)
    return waited > most ? fail("for {:.0f} s no exchange with other ranks' GPUs has moved", waited) : Status();
  slowest = std::max(slowest, waited);
  lock.lock();
  if (enqueued == since)
    enqueued.reset();
  return {};
}

} // namespace mt::device
