#include "runtime/device/rehearsal/RehearsalDevice.h"

#include "runtime/device/common/Worker.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>

namespace mt::device {
namespace {

using Clock = std::chrono::steady_clock;

/// How late a sleeper may wake: so long before its time it stays awake.
constexpr std::chrono::microseconds kLate(80);

void waitUntil(Clock::time_point end) {
  if (end - Clock::now() > kLate)
    std::this_thread::sleep_until(end - kLate);
  while (Clock::now() < end)
    std::this_thread::yield();
}

class RehearsalDevice final : public Device {
public:
  explicit RehearsalDevice(RehearsalOptions options) : options(options) {}
  ~RehearsalDevice() override {
    if (progress)
      progress->stop(Status::error("the device is being released"));
  }

  std::string_view name() const override { return "rehearsal"; }
  Status supports(const plan::Plan &) const override { return {}; }
  Status reserve(std::span<const plan::Space>, std::span<const plan::Stream> streams) override {
    kinds.clear();
    for (const plan::Stream &stream : streams)
      kinds.push_back(stream.kind);
    progress = std::make_unique<Progress>(streams.size());
    lanes.resize(streams.size());
    for (uint32_t i = 0; i < streams.size(); ++i) {
      MT_ASSIGN(lanes[i].worker, Worker::start(i, *progress));
      // The kernel may put off the end of a sleep by 50 us otherwise.
      lanes[i].worker->issue([] { return prctl(PR_SET_TIMERSLACK, 1UL), Status(); }, false);
    }
    return {};
  }
  uint64_t reserved(uint32_t) const override { return 0; }
  std::span<std::byte> host(plan::Span) override { return {}; }

  Result<Code> prepare(uint32_t stream, const plan::Template &code, const HostFunctions &) override {
    const bool sends = options.exchange && plan::isNetwork(kinds[stream]);
    codes.push_back(sends ? &code : nullptr);
    return Code{static_cast<uint32_t>(codes.size() - 1)};
  }
  Status copy(uint32_t stream, plan::Span, plan::Span, Tag tag) override { return issue(stream, nullptr, tag); }
  Status run(uint32_t stream, Code code, std::span<const plan::Binding>, plan::Span, Tag tag) override {
    return issue(stream, codes[code.index], tag);
  }
  Result<Event> record(uint32_t stream) override {
    MT_TRY(progress->failure());
    return lanes[stream].worker->last();
  }
  Status wait(uint32_t stream, Event event) override {
    MT_TRY(progress->failure());
    lanes[stream].worker->before([this, event] {
      progress->await(event, false);
      return Status();
    });
    return {};
  }
  Status synchronize(Event event) override {
    progress->await(event, false);
    return progress->failure();
  }
  Status synchronize() override {
    for (Lane &lane : lanes)
      progress->await(lane.worker->last(), true);
    return progress->failure();
  }
  std::vector<Measured> measured() override {
    std::vector<Measured> all;
    for (Lane &lane : lanes) {
      all.insert(all.end(), lane.times.begin(), lane.times.end());
      lane.times.clear();
    }
    return all;
  }

  std::vector<CallTimes> callTimes() override { return {}; }

private:
  struct Lane {
    std::vector<Measured> times;
    std::unique_ptr<Worker> worker;
  };
  const RehearsalOptions options;
  const Clock::time_point origin = Clock::now();
  std::unique_ptr<Progress> progress;
  std::vector<plan::StreamKind> kinds;
  std::vector<const plan::Template *> codes; ///< that send something, else null
  std::vector<Lane> lanes;                   ///< last: their threads use everything above

  double secondsAt(Clock::time_point when) const { return std::chrono::duration<double>(when - origin).count(); }

  Status issue(uint32_t stream, const plan::Template *code, Tag tag) {
    MT_TRY(progress->failure());
    Lane &lane = lanes[stream];
    lane.worker->issue(
        [this, &lane, stream, code, number = tag.number, seconds = tag.seconds * options.pace] {
          const Clock::time_point begin = Clock::now();
          if (code && options.pace > 0)
            MT_TRY(options.exchange(*code, stream));
          if (seconds > 0)
            waitUntil(begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
          if (options.measure)
            lane.times.push_back({number, secondsAt(begin), secondsAt(Clock::now())});
          return Status();
        },
        true);
    return {};
  }
};
} // namespace

std::unique_ptr<Device> makeRehearsalDevice(RehearsalOptions options) { return std::make_unique<RehearsalDevice>(options); }

} // namespace mt::device
