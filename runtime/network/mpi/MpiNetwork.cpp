// Network.h by MPI, as a module (OpenNetwork.h). All calls of MPI are short and made one at a time: who waits asks
// again and again, so that threads of several channels and the watch share it. Large messages go in pieces, whose order
// MPI keeps: while they arrive who waits does not sleep, for most of MPI moves bytes only when it is asked.
//
// The watch: every rank tells rank 0 once a second that it is there, and rank 0 tells every rank. Who is silent for too
// long, or fails, ends the job: rank 0 says why to all. A rank that then does not come to its end by itself, as it
// computes or waits for something else, is ended by the watch.
#include "runtime/network/OpenNetwork.h"

#define OMPI_SKIP_MPICXX // the C++ bindings, which no standard has any more
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace mt::network {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds kBeat{1}, kSilence{15}, kLinger{4}, kUnwind{4};

/// What the watch sends.
struct Sign {
  enum Kind : int32_t { alive, failed, stop } kind = alive;
  std::array<char, 1020> text = {};

  static Sign of(Kind kind, const std::string &message) {
    Sign sign{kind, {}};
    message.copy(sign.text.data(), sign.text.size() - 1);
    return sign;
  }
};

class MpiNetwork final : public Network {
public:
  Status open(uint32_t wanted) {
    int provided = 0, size = 0, number = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
      return mt::fail("it does not start");
    if (provided < MPI_THREAD_SERIALIZED)
      return mt::fail("it cannot be used by several threads in turn; use one that can, as OpenMPI");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    if (static_cast<uint32_t>(size) != wanted)
      return mt::fail(
          "it has {} ranks, and the plan {}: start it with the launcher of the MPI that mtrun was built with", size,
          wanted);
    own = static_cast<uint32_t>(number), count = wanted;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (MPI_Comm *communicator : {&messages, &watches}) {
      MPI_Comm_dup(MPI_COMM_WORLD, communicator);
      MPI_Comm_set_errhandler(*communicator, MPI_ERRORS_RETURN);
    }
    heard.assign(count, Clock::now());
    watching = std::jthread([this](const std::stop_token &ends) { watch(ends); });
    return Status();
  }

  /// Where the job has come to its end, all leave together; else who is left is told why, and MPI is not waited for.
  ~MpiNetwork() override {
    if (!watching.joinable())
      return;
    const bool whole = failure().ok();
    if (!whole) { // who tells people why has time to do so, before a launcher sees that a rank has failed
      awaitSilence();
      std::this_thread::sleep_for(tells() ? seconds(0) : kUnwind + kLinger);
    }
    watching.request_stop();
    watching.join();
    if (whole)
      MPI_Finalize();
  }

  uint32_t rank() const override { return own; }
  uint32_t ranks() const override { return count; }

  Status exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives) override {
    if (!failure()) {
      awaitSilence();
      return failure();
    }
    const int tag = static_cast<int>(channel);
    std::vector<MPI_Request> requests;
    auto post = [&](std::span<const Message> all, auto call) {
      for (const Message &message : all)
        for (std::span<std::byte> piece : message.pieces)
          for (size_t at = 0; at < piece.size(); at += kMost) {
            std::lock_guard lock(calls);
            const auto bytes = static_cast<int>(std::min(kMost, piece.size() - at));
            if (call(piece.data() + at, bytes, MPI_BYTE, static_cast<int>(message.rank), tag, messages,
                     &requests.emplace_back(MPI_REQUEST_NULL)) != MPI_SUCCESS)
              return mt::fail("rank {} cannot be reached", message.rank);
          }
      return Status();
    };
    const Clock::time_point begin = Clock::now();
    Status posted = post(receives, MPI_Irecv);
    posted = posted ? post(sends, MPI_Isend) : posted;
    if (!posted)
      fail(posted);
    std::optional<Clock::duration> most; // that it waits for others
    if (isOfStep(channel))
      most = patienceAt(channel, begin);
    const Status done = wait(most, requests, receives);
    if (isOfStep(channel)) {
      std::lock_guard lock(state);
      before[channel] = Clock::now();
    }
    if (!done)
      awaitSilence();
    return done;
  }

  void expect(double stepSeconds) override {
    const auto many = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(20 * stepSeconds));
    std::lock_guard lock(state);
    expected = {Clock::now(), std::max<Clock::duration>(kPatience, many)};
  }
  double patience() const override {
    std::lock_guard lock(state);
    return expected ? std::chrono::duration<double>(expected->most).count() : 0;
  }
  double silence() const override { return std::chrono::duration<double>(kSilence).count(); }
  void whenEnded(std::function<void()> wanted) override {
    std::jthread before;
    {
      std::lock_guard lock(stopping);
      stop = std::move(wanted);
      before.swap(stopper);
    }
    if (before.joinable())
      before.join();
    if (!failure())
      giveUp();
  }

  void fail(const Status &reason) override { end(ofRank(own, reason), own == 0 ? Sign::stop : Sign::failed); }

  Status failure() const override {
    std::lock_guard lock(state);
    return ended;
  }

private:
  static constexpr size_t kMost = size_t(8) << 20;
  static constexpr seconds kPatience{30};
  uint32_t own = 0, count = 1;
  MPI_Comm messages = MPI_COMM_NULL, watches = MPI_COMM_NULL; ///< of exchanges, whose tags are channels; of the watch
  std::mutex stopping;
  std::function<void()> stop;      ///< see whenEnded()
  std::jthread stopper;            ///< carries it out
  mutable std::mutex calls, state; ///< of MPI; of what follows
  Status ended;
  std::list<std::pair<Sign, uint32_t>> signs; ///< to be sent, and where
  std::vector<Clock::time_point> heard;       ///< of the watch: by rank
  std::optional<Clock::time_point> since;     ///< the job has ended
  std::atomic<bool> silent = false;           ///< and all that is to be told is: MPI moves no more bytes
  /// An exchange of a step waits for others many times as long as a step should take, or as this rank took to come to
  /// it.
  struct Patience {
    Clock::time_point since;
    Clock::duration most;
  };
  std::optional<Patience> expected;
  std::map<Channel, Clock::time_point> before; ///< of those of steps: the last exchange's end
  std::jthread watching;

  std::optional<Clock::duration> patienceAt(Channel channel, Clock::time_point begin) const {
    std::lock_guard lock(state);
    if (!expected)
      return std::nullopt;
    const auto last = before.find(channel);
    const Clock::time_point since = last == before.end() ? expected->since : std::max(last->second, expected->since);
    return std::max(expected->most, 3 * (begin - since));
  }

  /// Of those that this one receives from, the first of whose message something is not there.
  uint32_t missingOf(std::span<const Message> receives, const std::vector<MPI_Request> &requests) const {
    size_t at = 0;
    for (const Message &message : receives)
      for (std::span<std::byte> piece : message.pieces)
        for (size_t begin = 0; begin < piece.size(); begin += kMost)
          if (requests[at++] != MPI_REQUEST_NULL)
            return message.rank;
    return own;
  }

  /// Requests that are done are null then.
  /// `most`: how long nothing may move.
  Status wait(std::optional<Clock::duration> most, std::vector<MPI_Request> &requests,
              std::span<const Message> receives) {
    constexpr Clock::duration kAwake = std::chrono::milliseconds(1);
    constexpr int kFew = 16; // requests that are looked at at a time: those before them are done
    Clock::time_point moved = Clock::now();
    size_t done = 0;
    for (int naps = 0; done < requests.size();) {
      const auto count = static_cast<int>(std::min<size_t>(kFew, requests.size() - done));
      int some = 0;
      std::array<int, kFew> which = {};
      {
        std::lock_guard lock(calls);
        if (MPI_Testsome(count, requests.data() + done, &some, which.data(), MPI_STATUSES_IGNORE) != MPI_SUCCESS)
          fail(mt::fail("a message was lost"));
      }
      MT_TRY(failure());
      while (done < requests.size() && requests[done] == MPI_REQUEST_NULL)
        ++done;
      const Clock::time_point now = Clock::now();
      if (some > 0)
        moved = now, naps = 0;
      if (most && now - moved > *most)
        end(mt::fail("rank {} hangs: for {} s it has taken no part in an exchange of the step",
                     missingOf(receives, requests), std::chrono::duration_cast<seconds>(*most).count()),
            own == 0 ? Sign::stop : Sign::failed);
      if (now - moved < kAwake)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 * ++naps, 200)));
    }
    return failure();
  }

  /// Where the job has ended: until what was posted is left alone, as its bytes may be gone soon.
  void awaitSilence() const {
    for (int i = 0; i < 200 && !silent; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  /// The first reason counts; it is told to others by signs of a kind, if any.
  void end(const Status &reason, std::optional<Sign::Kind> kind) {
    std::lock_guard lock(state);
    if (!ended)
      return;
    ended = reason;
    since = Clock::now();
    if (kind == Sign::failed) // without its own name, which who reads it knows
      signs.emplace_back(Sign::of(Sign::failed, reason.message()), 0);
    if (kind == Sign::stop)
      for (uint32_t rank = 1; rank < count; ++rank)
        signs.emplace_back(Sign::of(Sign::stop, reason.message()), rank);
  }

  /// Signs on their way, and what sends them.
  struct Sending {
    Sign sign;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void watch(const std::stop_token &ends) {
    Sign incoming;
    MPI_Request receiving = MPI_REQUEST_NULL;
    std::list<Sending> sending;
    Clock::time_point beat = Clock::now() - kBeat;
    for (Clock::time_point last = Clock::now(); !ends.stop_requested();) {
      if (const Clock::time_point now = Clock::now(); now - std::exchange(last, now) > kBeat + kLinger) {
        std::lock_guard lock(state); // it was stopped itself, and knows nothing of others
        heard.assign(count, now);
      }
      if (silent) {
        endIfLate();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      if (Clock::now() - beat >= kBeat) {
        beat = Clock::now();
        std::lock_guard lock(state);
        for (uint32_t rank = 0; rank < count; ++rank)
          if (rank != own && (own == 0 || rank == 0))
            signs.emplace_back(Sign::of(Sign::alive, ""), rank);
      }
      receive(incoming, receiving, watches);
      const bool hasEnded = !failure();
      send(sending, watches);
      silent = hasEnded && sending.empty();
      if (hasEnded)
        giveUp();
      judge();
      endIfLate();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::lock_guard lock(calls);
    if (receiving != MPI_REQUEST_NULL) {
      MPI_Cancel(&receiving);
      MPI_Request_free(&receiving);
    }
  }

  void receive(Sign &incoming, MPI_Request &receiving, MPI_Comm communicator) {
    for (int done = 1; done;) {
      MPI_Status status = {};
      {
        std::lock_guard lock(calls);
        if (receiving == MPI_REQUEST_NULL && MPI_Irecv(&incoming, sizeof(incoming), MPI_BYTE, MPI_ANY_SOURCE, 0,
                                                       communicator, &receiving) != MPI_SUCCESS)
          return;
        done = 0;
        if (MPI_Test(&receiving, &done, &status) != MPI_SUCCESS || !done)
          return;
      }
      incoming.text.back() = 0;
      take(incoming, static_cast<uint32_t>(status.MPI_SOURCE));
    }
  }

  void take(const Sign &sign, uint32_t from) {
    {
      std::lock_guard lock(state);
      heard[from] = Clock::now();
    }
    if (sign.kind == Sign::failed)
      end(Status::error(sign.text.data()), Sign::stop);
    else if (sign.kind == Sign::stop)
      end(Status::error(sign.text.data()), std::nullopt);
  }

  void send(std::list<Sending> &sending, MPI_Comm communicator) {
    std::list<std::pair<Sign, uint32_t>> next;
    {
      std::lock_guard lock(state);
      next.swap(signs);
    }
    std::lock_guard lock(calls);
    for (const auto &[sign, rank] : next) {
      Sending &one = sending.emplace_back(Sending{sign});
      MPI_Isend(&one.sign, sizeof(one.sign), MPI_BYTE, static_cast<int>(rank), 0, communicator, &one.request);
    }
    sending.remove_if([](Sending &one) {
      int done = 0;
      return MPI_Test(&one.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
    });
  }

  /// In a thread of its own: it may take long, and the watch goes on.
  void giveUp() {
    std::lock_guard lock(stopping);
    if (std::function<void()> wanted = std::exchange(stop, nullptr))
      stopper = std::jthread(std::move(wanted));
  }

  bool tells() const { return own == 0 || (own == 1 && ended.message().starts_with(kSilentFirst)); }

  void endIfLate() {
    std::lock_guard lock(state);
    if (!since || Clock::now() - *since < (tells() ? kUnwind : kUnwind + kLinger))
      return;
    if (tells())
      fmt::print(stderr, "error: {}\n", ended.message());
    std::_Exit(EXIT_FAILURE);
  }

  void judge() {
    for (uint32_t rank = 0; rank < count; ++rank) {
      if (rank == own || (own != 0 && rank != 0))
        continue;
      Clock::time_point last;
      {
        std::lock_guard lock(state);
        last = heard[rank];
      }
      if (Clock::now() - last > kSilence)
        end(mt::fail("rank {} has given no sign for {} s: it was killed or stopped, or its machine cannot be reached",
                     rank, kSilence.count()),
            own == 0 ? std::optional(Sign::stop) : std::nullopt);
    }
  }
};

} // namespace
} // namespace mt::network

extern "C" mt::Status mtOpenMpiNetwork(uint32_t ranks, std::unique_ptr<mt::network::Network> &network) {
  auto made = std::make_unique<mt::network::MpiNetwork>();
  MT_TRY(made->open(ranks));
  network = std::move(made);
  return mt::Status();
}
