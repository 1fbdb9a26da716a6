// What ranks of a job send each other: exchanges in which all take part, and texts that all get to see. Knows no plans
// and no weights. Implementations: LocalNetwork.h, within a process, for tests; mpi/, between processes.
#ifndef MT_RUNTIME_NETWORK_NETWORK_H
#define MT_RUNTIME_NETWORK_NETWORK_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt::network {

/// Exchanges of one channel come in the same order on every rank, whatever those of another do: of the training loop,
/// of the thread that writes checkpoints, of the plan's commands, and of those that exchange from a device's memory, a
/// channel for each device.
enum class Channel : uint16_t { loop, checkpoint, step };
constexpr Channel channelOfDevice(uint32_t device) {
  return static_cast<Channel>(static_cast<uint32_t>(Channel::step) + 1 + device);
}
constexpr bool isOfStep(Channel channel) { return channel >= Channel::step; }

/// Bytes that go to a rank or come from one, in pieces; both sides name as many bytes in as many pieces.
struct Message {
  uint32_t rank = 0;
  std::vector<std::span<std::byte>> pieces;
};

class Network {
public:
  virtual ~Network() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  /// Sends and receives what is named, at most one message to and from each other rank. Returns when all of it is done,
  /// or with the error that ended the job: then, and after every later call, what was to be received is undefined. One
  /// thread a channel.
  virtual Status exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives) = 0;

  /// Ends the job on all ranks with one error, which names this rank: exchanges that wait, and all later ones, return
  /// it.
  virtual void fail(const Status &failure) = 0;
  /// The error that ended the job, if one has.
  virtual Status failure() const = 0;
  /// That a step is expected to take so long: who takes many times that, and as long as another rank, to come to an
  /// exchange of one hangs.
  virtual void expect(double) {}
  /// Seconds that an exchange of a step may take then; 0: that is not known.
  virtual double patience() const { return 0; }
  /// Seconds for which a rank may be silent before the job ends, naming it; 0: who is silent is not noticed.
  virtual double silence() const { return 0; }
  /// Calls `stop` once, from a thread of the network, when the job has ended with an error: what waits outside of
  /// exchange() for other ranks is to give up. None: nothing does any more.
  virtual void whenEnded(std::function<void()>) {}
};

/// An error of a rank, which says so, if it does not say already whose it is.
Status ofRank(uint32_t rank, const Status &failure);
/// How the error begins that says that rank 0 is gone: then rank 1 tells people, else rank 0.
inline constexpr const char *kSilentFirst = "rank 0 has given no sign";

/// The texts of all ranks, in their order. Every rank gives one.
Result<std::vector<std::string>> gatherTexts(Network &network, Channel channel, const std::string &own);
/// Rank 0's text; an error of it is everybody's. What the others give does not count.
Result<std::string> broadcast(Network &network, Channel channel, const Result<std::string> &own);
/// The error of the first rank that has one, which is named, on all of them alike.
Status agree(Network &network, Channel channel, const Status &own);

} // namespace mt::network
#endif
