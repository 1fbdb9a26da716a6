#include "tests/device/FakeNccl.h"

#include "tests/device/SimulatedDriver.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <list>

namespace mt::tests {
namespace {

using kernels::cuda::NcclComm;
using kernels::cuda::NcclId;
using kernels::cuda::NcclResult;
using kernels::cuda::NcclType;

constexpr auto kSystemError = static_cast<NcclResult>(2), kInvalidUsage = static_cast<NcclResult>(5),
               kRemoteError = static_cast<NcclResult>(6);

std::atomic<int> communicators = 0;
std::atomic<bool> fails = false;

struct Communicator {
  int rank = 0, ranks = 0;
  std::vector<int> sockets; ///< by rank
  std::atomic<bool> aborted = false;
  std::atomic<int> underWay = 0; ///< groups on streams

  ~Communicator() {
    for (int socket : sockets)
      if (socket >= 0)
        close(socket);
  }
};

struct Operation {
  bool sends = false;
  std::byte *data = nullptr;
  uint64_t bytes = 0;
  int peer = 0;
};
struct Group {
  bool open = false;
  Communicator *communicator = nullptr;
  cudaStream_t stream = {};
  std::vector<Operation> operations;
};
thread_local Group group;

Communicator *of(NcclComm comm) { return static_cast<Communicator *>(comm); }

sockaddr_un addressOf(const NcclId &id, int rank) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string name = "mt-fake-nccl-";
  for (size_t i = 0; i < 16; ++i)
    name += fmt::format("{:02x}", static_cast<unsigned char>(id.bytes[i]));
  name += fmt::format("-{}", rank);
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2); // no file: the name begins with 0
  return address;
}

NcclResult getUniqueId(NcclId *id) {
  return getrandom(id->bytes.data(), id->bytes.size(), 0) == static_cast<ssize_t>(id->bytes.size())
             ? NcclResult::success
             : kSystemError;
}

/// Each listens, and calls those before it.
NcclResult initRank(NcclComm *comm, int ranks, NcclId id, int rank) {
  auto made = std::make_unique<Communicator>();
  made->rank = rank, made->ranks = ranks;
  made->sockets.assign(static_cast<size_t>(ranks), -1);
  const sockaddr_un own = addressOf(id, rank);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<const sockaddr *>(&own), sizeof(own)) != 0 || listen(listener, ranks) != 0) {
    simulationFailed("NCCL: two ranks have the same number");
    return kInvalidUsage;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int peer = 0; peer < rank; ++peer) {
    const sockaddr_un address = addressOf(id, peer);
    const int connected = socket(AF_UNIX, SOCK_STREAM, 0);
    while (connect(connected, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0) {
      if (std::chrono::steady_clock::now() > deadline)
        return kRemoteError;
      usleep(2000);
    }
    if (write(connected, &rank, sizeof(rank)) != sizeof(rank))
      return kRemoteError;
    made->sockets[static_cast<size_t>(peer)] = connected;
  }
  for (int others = rank + 1; others < ranks; ++others) {
    pollfd ready{listener, POLLIN, 0};
    if (poll(&ready, 1, 60'000) != 1)
      return kRemoteError;
    const int accepted = accept(listener, nullptr, nullptr);
    int peer = 0;
    if (read(accepted, &peer, sizeof(peer)) != sizeof(peer) || peer <= rank || peer >= ranks)
      return kRemoteError;
    made->sockets[static_cast<size_t>(peer)] = accepted;
  }
  close(listener);
  ++communicators;
  *comm = made.release();
  return NcclResult::success;
}

/// Bytes on their way over one socket.
struct Way {
  std::vector<std::span<std::byte>> pieces;
  size_t piece = 0, done = 0;
  bool isOver() const { return piece == pieces.size(); }
  /// Moves what can be moved; false: the other side is gone.
  template <typename Move> bool move(Move some) {
    while (!isOver()) {
      const std::span<std::byte> left = pieces[piece].subspan(done);
      const ssize_t moved = left.empty() ? 0 : some(left.data(), left.size());
      if (moved < 0)
        return errno == EAGAIN;
      if (moved == 0 && !left.empty())
        return false;
      done += static_cast<size_t>(moved);
      if (done == pieces[piece].size())
        ++piece, done = 0;
    }
    return true;
  }
};

/// A message is the bytes that it has, and then those.
void carryOut(Communicator &communicator, const std::vector<Operation> &operations) {
  std::list<uint64_t> sizes;
  std::vector<Way> out(communicator.sockets.size()), in(communicator.sockets.size());
  std::vector<std::pair<const uint64_t *, const Operation *>> expected;
  for (const Operation &each : operations) {
    uint64_t &size = sizes.emplace_back(each.bytes);
    Way &way = (each.sends ? out : in)[static_cast<size_t>(each.peer)];
    way.pieces.push_back(std::as_writable_bytes(std::span(&size, 1)));
    way.pieces.emplace_back(each.data, each.bytes);
    if (!each.sends)
      expected.emplace_back(&size, &each);
  }
  while (!communicator.aborted) {
    std::vector<pollfd> polled;
    for (size_t peer = 0; peer < out.size(); ++peer) {
      const int socket = communicator.sockets[peer];
      const bool moved = out[peer].move([&](void *data, size_t bytes) {
        return ::send(socket, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      }) && in[peer].move([&](void *data, size_t bytes) { return recv(socket, data, bytes, MSG_DONTWAIT); });
      if (!moved) { // NCCL says so when it is asked, and waits
        fails = true;
        while (!communicator.aborted)
          usleep(2000);
      }
      const auto wanted = static_cast<short>((out[peer].isOver() ? 0 : POLLOUT) | (in[peer].isOver() ? 0 : POLLIN));
      if (wanted)
        polled.push_back({socket, wanted, 0});
    }
    for (const auto &[size, operation] : expected)
      if (*size != operation->bytes && !communicator.aborted) {
        simulationFailed(fmt::format("NCCL: rank {} sends {} bytes, and rank {} expects {}", operation->peer, *size,
                                     communicator.rank, operation->bytes));
        return;
      }
    if (polled.empty())
      break;
    poll(polled.data(), polled.size(), 20);
  }
}

NcclResult groupStart() {
  if (group.open)
    simulationFailed("NCCL: a group within a group");
  group = {};
  group.open = true;
  return NcclResult::success;
}

NcclResult add(bool sends, const void *data, size_t bytes, NcclType type, int peer, NcclComm comm,
               cudaStream_t stream) {
  Communicator *communicator = of(comm);
  if (!group.open)
    simulationFailed("NCCL: a message outside of a group waits for the other side's");
  if (type != NcclType::uint8 || bytes == 0 || !data || peer < 0 || peer >= communicator->ranks ||
      peer == communicator->rank)
    simulationFailed("NCCL: a message of no bytes, of a type that is not expected, or to nobody");
  if ((group.communicator && group.communicator != communicator) || (group.stream && group.stream != stream))
    simulationFailed("NCCL: a group of several communicators or streams");
  group.communicator = communicator;
  group.stream = stream;
  group.operations.push_back({sends, static_cast<std::byte *>(const_cast<void *>(data)), bytes, peer});
  return communicator->aborted ? kInvalidUsage : NcclResult::success;
}

NcclResult groupEnd() {
  if (!group.open)
    simulationFailed("NCCL: the end of a group that has not begun");
  Group ended = std::exchange(group, {});
  if (!ended.communicator)
    return NcclResult::success;
  ++ended.communicator->underWay;
  enqueue(ended.stream, [communicator = ended.communicator, operations = std::move(ended.operations)] {
    carryOut(*communicator, operations);
    --communicator->underWay;
  });
  return NcclResult::success;
}

/// What is under way ends; the memory stays, as work on streams knows it.
NcclResult abort(NcclComm comm) {
  static std::mutex mutex;
  static auto &kept = *new std::vector<NcclComm>;
  const std::lock_guard lock(mutex);
  kept.push_back(comm);
  of(comm)->aborted = true;
  --communicators;
  return NcclResult::success;
}

NcclResult getAsyncError(NcclComm, NcclResult *error) {
  *error = fails.exchange(false) ? kRemoteError : NcclResult::success;
  return NcclResult::success;
}

} // namespace

const kernels::cuda::Nccl &fakeNccl() {
  static const kernels::cuda::Nccl nccl = {
      .ncclGetVersion =
          [](int *version) {
            *version = 22803;
            return NcclResult::success;
          },
      .ncclGetErrorString = [](NcclResult result) { return result == kRemoteError ? "remote error" : "error"; },
      .ncclGetLastError = [](NcclComm) { return ""; },
      .ncclGetUniqueId = getUniqueId,
      .ncclCommInitRank = initRank,
      .ncclCommAbort = abort,
      .ncclCommGetAsyncError = getAsyncError,
      .ncclGroupStart = groupStart,
      .ncclGroupEnd = groupEnd,
      .ncclSend = [](const void *data, size_t count, NcclType type, int peer, NcclComm comm,
                     cudaStream_t stream) { return add(true, data, count, type, peer, comm, stream); },
      .ncclRecv = [](void *data, size_t count, NcclType type, int peer, NcclComm comm,
                     cudaStream_t stream) { return add(false, data, count, type, peer, comm, stream); },
  };
  return nccl;
}

int fakeCommunicators() { return communicators; }
void failFakeNccl() { fails = true; }

} // namespace mt::tests
