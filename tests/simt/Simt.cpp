#include "tests/simt/Simt.h"

#include "tests/simt/Symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <ucontext.h>
#include <unordered_map>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" char __executable_start, __data_start, _end; // of the program, by the linker
extern "C" void __ubsan_get_current_report_data(const char **kind, const char **message, const char **file,
                                                unsigned *line, unsigned *column, char **address);

namespace mt::simt {

Builtins builtins;

namespace {

constexpr unsigned kMostThreads = 1024, kWarp = 32;
constexpr size_t kStackBytes = (128 << 10) + 17 * 64; ///< so that stacks do not fall on the same lines of a cache
constexpr size_t kStacksBytes = kMostThreads * kStackBytes;
constexpr uint64_t kMostParameterBytes = 32764, kMostAccesses = 20'000'000; ///< of a launch, in bytes; of a thread
constexpr size_t kMostPages = 1 << 14;

thread_local const std::vector<Range> *scopeOfThread = nullptr;
const std::vector<Range> kNone;

/// Where a fiber is left and gone on: by the compiler's own functions, which save no registers that need no saving.
using Place = void *[5];
[[noreturn, gnu::noinline]] void goTo(Place &place) { __builtin_longjmp(place, 1); }

struct Fiber {
  enum State : uint8_t { idle, running, ready, atBarrier, atShuffle } state = idle;
  bool fresh = true; ///< has never run, or was left where it was
  unsigned thread = 0;
  Index index; ///< the same, as it is told
  std::byte *stack = nullptr;
  int value = 0;     ///< what it brought to the barrier
  unsigned mask = 0; ///< of its shuffle
  int from = 0;
  uint64_t bits = 0; ///< what it brought, and then what it gets
  uint64_t accesses = 0;
#ifdef __SANITIZE_ADDRESS__
  void *fake = nullptr;
#endif
  Place place = {};
  ucontext_t context = {};
};

/// Who touched bytes last: threads of the launch from 1 on, and the interval between barriers, counted over all launches.
struct Cell {
  uint32_t writer = 0, written = 0, reader = 0, read = 0;
};
constexpr uint32_t kSeveral = UINT32_MAX;
constexpr uintptr_t kPageBytes = 4096;
/// A cell for so many bytes as accesses were aligned to so far.
struct Page {
  unsigned shift = 2; ///< their logarithm
  std::vector<Cell> cells = std::vector<Cell>(kPageBytes >> shift);

  /// Makes cells as small as an address, or a length, asks for.
  void fit(uintptr_t at) {
    for (; at & ((uintptr_t{1} << shift) - 1); --shift) {
      std::vector<Cell> halves;
      halves.reserve(2 * cells.size());
      for (const Cell &cell : cells)
        halves.insert(halves.end(), 2, cell);
      cells = std::move(halves);
    }
  }
};

class Machine {
public:
  static Machine &instance() {
    static auto &machine = *new Machine; // never destroyed: stacks of fibers stay in use
    return machine;
  }

  bool launch(const Geometry &geometry, const void *code, uint64_t bytes, const void *thread,
              void (*body)(const void *)) {
    std::lock_guard lock(mutex);
    symbol = symbolAt(code);
    ++counts[symbol];
    place.clear();
    if (std::string what = refused(geometry, bytes); !what.empty())
      return note(what);
    run = [=] { body(thread); };
    ranges = scopeOfThread;
    if (pages.size() > kMostPages || interval > UINT32_MAX / 2)
      pages.clear(), recent = {}, interval = 0;
    launchBegin = interval + 1;
    builtins.blocks = geometry.blocks, builtins.threads = geometry.threads;
    std::vector<uint64_t> order(geometry.blocks.count());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::ranges::shuffle(order, random);
    return std::ranges::all_of(order, [&](uint64_t block) { return runBlock(block); });
  }

  int barrier(int value) {
    current->value = value;
    block(Fiber::atBarrier);
    return barrierSum;
  }
  uint64_t shuffle(unsigned mask, uint64_t bits, int from) {
    const unsigned own = 1U << lane();
    if (!(mask & own))
      wrong("a shuffle by a lane that its mask leaves out");
    if (from < 0 || from >= static_cast<int>(kWarp) || !(mask >> from & 1))
      wrong(fmt::format("a shuffle that reads lane {}, which its mask leaves out", from));
    current->mask = mask, current->bits = bits, current->from = from;
    if (!completesShuffle())
      block(Fiber::atShuffle);
    return current->bits;
  }
  int lane() const { return static_cast<int>(current->thread % kWarp); }

  void access(const void *address, uint64_t bytes, bool writes) {
    if (!current || isOwn(reinterpret_cast<uintptr_t>(address)))
      return;
    if (!pending.empty())
      wrong(std::exchange(pending, {}));
    if (++current->accesses > kMostAccesses)
      wrong("a thread that does not come to an end");
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at >= dataBegin && at < dataEnd)
      return mark(at, bytes, writes, true, "shared memory");
    if (!writes && at >= programBegin && at < dataBegin)
      return; // constants
    const Range *range = rangeOf(address, bytes, writes);
    if (!range)
      wrong(outside(ranges, address, bytes, writes));
    if (!range->shared)
      mark(at, bytes, writes, false, range->name);
  }
  /// What the sanitizer reports, in whose functions nothing can be given up: the thread is when it next comes here.
  void undefined(std::string what) {
    if (current && pending.empty())
      pending = std::move(what);
  }
  /// What would end the program if it went on.
  void misaligned(std::string what) {
    if (!current) {
      fmt::print(stderr, "{}\n", what);
      std::abort();
    }
    wrong(std::exchange(what, {}));
  }

  static std::string outside(const std::vector<Range> *ranges, const void *address, uint64_t bytes, bool writes) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const Range *nearest = nullptr;
    uint64_t least = UINT64_MAX;
    for (const Range &range : ranges ? *ranges : kNone) {
      const auto begin = reinterpret_cast<uintptr_t>(range.begin);
      const uint64_t away = at < begin ? begin - at : at - begin < range.bytes ? 0 : at - begin - range.bytes;
      if (away < least)
        least = away, nearest = &range;
    }
    const std::string what = fmt::format("{} of {} bytes ", writes ? "a write" : "a read", bytes);
    if (!nearest || least > 1 << 20)
      return what + "that is of no operand";
    const auto place = static_cast<int64_t>(at - reinterpret_cast<uintptr_t>(nearest->begin));
    if (least == 0 && writes && !nearest->writable)
      return what + fmt::format("at byte {} of {}, which is only read", place, nearest->name);
    return what + fmt::format("at byte {} of {}, which has {}", place, nearest->name, nearest->bytes);
  }

  /// What was wrong in a launch; false.
  bool note(const std::string &what) {
    if (found.empty())
      found = fmt::format("{}{}: {}", symbol, place, what);
    return false;
  }

  std::mutex mutex;
  std::minstd_rand random{1};
  std::string found;
  std::map<std::string, uint64_t> counts;

private:
  Machine() : fibers(kMostThreads) {
    void *memory =
        mmap(nullptr, kStacksBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      std::abort();
    stacks = static_cast<std::byte *>(memory);
    for (unsigned i = 0; i < kMostThreads; ++i) {
      fibers[i].stack = stacks + i * kStackBytes;
      idle.push_back(&fibers[i]);
    }
  }

  std::vector<Fiber> fibers;
  std::byte *stacks = nullptr;
  Fiber *current = nullptr;
  Place main = {};
  bool wasWrong = false;
  std::function<void()> run;
  std::string symbol, place, pending;
  const std::vector<Range> *ranges = nullptr;
  const uintptr_t programBegin = reinterpret_cast<uintptr_t>(&__executable_start),
                  dataBegin = reinterpret_cast<uintptr_t>(&__data_start), dataEnd = reinterpret_cast<uintptr_t>(&_end);

  // Of the block that runs.
  std::vector<unsigned> waiting; ///< threads that have not begun
  std::vector<Fiber *> ready, atBarrier, idle;
  std::array<Fiber *, kMostThreads> byThread = {}; ///< of those that have begun and not returned
  unsigned alive = 0, threads = 0;
  int barrierSum = 0;
  uint32_t interval = 0, blockBegin = 0, launchBegin = 0;
  uint32_t firstThread = 0; ///< of the launch's threads, from 1 on

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  std::pair<uintptr_t, Page *> recent = {};

  static std::string refused(const Geometry &geometry, uint64_t bytes) {
    const auto &[blocks, threads] = geometry;
    if (blocks.count() == 0 || threads.count() == 0)
      return "a launch without threads";
    if (threads.count() > kMostThreads || threads.z > 64)
      return fmt::format("a block of {} threads", threads.count());
    if (blocks.x > INT32_MAX || blocks.y > UINT16_MAX || blocks.z > UINT16_MAX)
      return fmt::format("a launch of {} x {} x {} blocks", blocks.x, blocks.y, blocks.z);
    return bytes > kMostParameterBytes ? fmt::format("{} bytes of parameters", bytes) : "";
  }

  static Index split(uint64_t index, const Index &sizes) {
    return {static_cast<unsigned>(index % sizes.x), static_cast<unsigned>(index / sizes.x % sizes.y),
            static_cast<unsigned>(index / sizes.x / sizes.y)};
  }

  bool runBlock(uint64_t number) {
    builtins.block = split(number, builtins.blocks);
    threads = alive = static_cast<unsigned>(builtins.threads.count());
    firstThread = static_cast<uint32_t>(number * threads) + 1;
    blockBegin = ++interval;
    waiting.resize(threads);
    for (unsigned i = 0; i < threads; ++i)
      waiting[i] = i;
    std::ranges::shuffle(waiting, random);
    ready.clear();
    for (;;) {
      const size_t choices = ready.size() + (waiting.empty() ? 0 : 1);
      if (choices == 0) {
        if (alive == 0)
          return true;
        if (!openBarrier())
          return abandon(stuck());
        continue;
      }
      const size_t chosen = choices == 1 ? 0 : random() * choices >> 31; // it has 31 bits
      Fiber *fiber;
      if (chosen < ready.size()) {
        std::swap(ready[chosen], ready.back());
        fiber = ready.back();
        ready.pop_back();
      } else {
        fiber = idle.back();
        idle.pop_back();
      }
      if (!resume(*fiber))
        return abandon({});
    }
  }

  /// Everybody is there: on.
  bool openBarrier() {
    if (atBarrier.size() != threads)
      return false;
    barrierSum = 0;
    ++interval;
    for (Fiber *fiber : std::exchange(atBarrier, {})) {
      barrierSum += fiber->value;
      wake(*fiber);
    }
    return true;
  }
  void wake(Fiber &fiber) {
    fiber.state = Fiber::ready;
    ready.push_back(&fiber);
  }

  /// Whether the current thread was the last to come; then all lanes get what they want.
  bool completesShuffle() {
    const unsigned warp = current->thread / kWarp, mask = current->mask;
    std::array<Fiber *, kWarp> lanes = {};
    for (unsigned i = 0; i < kWarp; ++i)
      if (Fiber *fiber = byThread[warp * kWarp + i]; fiber && (fiber == current || fiber->state == Fiber::atShuffle)) {
        lanes[i] = fiber;
        if (fiber->mask != mask)
          wrong(fmt::format("a shuffle of lanes {:08x} while lane {} shuffles with {:08x}", mask, i, fiber->mask));
      } else if (mask >> i & 1) {
        return false;
      }
    std::array<uint64_t, kWarp> brought = {};
    for (unsigned i = 0; i < kWarp; ++i)
      brought[i] = lanes[i] ? lanes[i]->bits : 0;
    for (Fiber *fiber : lanes)
      if (fiber) {
        fiber->bits = brought[static_cast<size_t>(fiber->from)];
        if (fiber != current)
          wake(*fiber);
      }
    return true;
  }

  /// Why no thread can go on.
  std::string stuck() {
    for (const Fiber &shuffles : fibers)
      for (unsigned i = 0; i < kWarp && shuffles.state == Fiber::atShuffle; ++i) {
        const unsigned thread = shuffles.thread / kWarp * kWarp + i;
        if (const Fiber *there = byThread[thread];
            shuffles.mask >> i & 1 && (!there || there->state != Fiber::atShuffle))
          return fmt::format("thread {} waits in a shuffle for lane {}, which {}", shuffles.thread, i,
                             thread >= threads ? "the block has not"
                             : there           ? "waits at a barrier"
                                               : "has returned");
      }
    return fmt::format("{} threads of {} wait at a barrier, and {} have returned", atBarrier.size(), threads,
                       threads - alive);
  }

  bool abandon(const std::string &what) {
    if (!what.empty())
      note(what);
    atBarrier.clear(), idle.clear(), byThread.fill(nullptr);
    for (Fiber &fiber : fibers) {
      fiber.fresh = fiber.fresh || fiber.state != Fiber::idle;
      fiber.state = Fiber::idle;
      idle.push_back(&fiber);
    }
    current = nullptr;
    pending.clear();
    return false;
  }

  //-- fibers --------------------------------------------------------------------------------------------------------

  /// Lets a fiber run until it waits or has nothing left to do. False: what it did was wrong.
  [[gnu::noinline]] bool resume(Fiber &fiber) {
    current = &fiber;
    if (fiber.state == Fiber::ready)
      builtins.thread = fiber.index;
    fiber.state = Fiber::running;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&mainFake, fiber.stack, kStackBytes);
#endif
    wasWrong = false;
    if (__builtin_setjmp(main) == 0) {
      if (!current->fresh)
        goTo(current->place);
      current->fresh = false;
      getcontext(&current->context);
      current->context.uc_stack = {current->stack, 0, kStackBytes};
      current->context.uc_link = nullptr;
      makecontext(
          &current->context, [] { instance().work(); }, 0);
      setcontext(&current->context);
    }
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(mainFake, nullptr, nullptr);
#endif
    current = nullptr;
    return !wasWrong;
  }

  /// What each fiber does: thread after thread, as long as some have not begun.
  [[noreturn]] void work() {
    arrive();
    for (;;) {
      while (!waiting.empty()) {
        current->thread = waiting.back();
        waiting.pop_back();
        byThread[current->thread] = current;
        current->accesses = 0;
        builtins.thread = current->index = split(current->thread, builtins.threads);
        run();
        if (!pending.empty())
          wrong(std::exchange(pending, {}));
        byThread[current->thread] = nullptr;
        --alive;
      }
      idle.push_back(current);
      leave(Fiber::idle);
    }
  }
  void block(Fiber::State state) {
    if (!pending.empty())
      wrong(std::exchange(pending, {}));
    if (state == Fiber::atBarrier)
      atBarrier.push_back(current);
    leave(state);
  }
  /// Back to resume(), and from there on again at some time.
  [[gnu::noinline]] void leave(Fiber::State state) {
    current->state = state;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&current->fake, mainStack, mainStackBytes);
#endif
    if (__builtin_setjmp(current->place) == 0)
      goTo(main);
    arrive();
  }
  void arrive() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(std::exchange(current->fake, nullptr), &mainStack, &mainStackBytes);
#endif
  }
#ifdef __SANITIZE_ADDRESS__
  void *mainFake = nullptr;
  const void *mainStack = nullptr;
  size_t mainStackBytes = 0;
#endif

  void wrong(std::string what) {
    const auto &[x, y, z] = builtins.thread;
    place = fmt::format(", block {}, thread {}", builtins.block.x,
                        y || z ? fmt::format("({}, {}, {})", x, y, z) : std::to_string(x));
    note(std::exchange(what, {})); // it is not destroyed
    wasWrong = true;
    leave(Fiber::running); // and never on again
  }

  //-- accesses ------------------------------------------------------------------------------------------------------

  /// Stacks, and what this machine tells threads.
  bool isOwn(uintptr_t at) const {
    return at - reinterpret_cast<uintptr_t>(stacks) < kStacksBytes ||
           at - reinterpret_cast<uintptr_t>(&builtins) < sizeof builtins;
  }

  const Range *rangeOf(const void *address, uint64_t bytes, bool writes) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    for (const Range &range : ranges ? *ranges : kNone) {
      const auto begin = reinterpret_cast<uintptr_t>(range.begin);
      if (at >= begin && at - begin <= range.bytes && bytes <= range.bytes - (at - begin) &&
          (range.writable || !writes))
        return &range;
    }
    return nullptr;
  }

  Page &pageOf(uintptr_t at) {
    const uintptr_t number = at / kPageBytes;
    if (!recent.second || recent.first != number) {
      std::unique_ptr<Page> &page = pages[number];
      if (!page)
        page = std::make_unique<Page>();
      recent = {number, page.get()};
    }
    return *recent.second;
  }

  /// Whether an access of another thread in that interval is not ordered with one that is made now.
  bool conflicts(uint32_t other, uint32_t then, bool inShared) const {
    if (then < (inShared ? blockBegin : launchBegin))
      return false;
    return then < blockBegin || (then == interval && other != firstThread + current->thread);
  }

  void mark(uintptr_t begin, uint64_t bytes, bool writes, bool inShared, const std::string &where) {
    const uint32_t self = firstThread + current->thread;
    for (uintptr_t at = begin; at < begin + bytes;) {
      Page &page = pageOf(at);
      page.fit(begin | bytes);
      Cell &cell = page.cells[at % kPageBytes >> page.shift];
      at += uintptr_t{1} << page.shift;
      if (inShared && !writes && cell.written < blockBegin)
        wrong(fmt::format("a read of {} that nothing of the block wrote", where));
      if (conflicts(cell.writer, cell.written, inShared))
        wrong(fmt::format("{} where {} wrote, without a barrier between: {}", writes ? "a write" : "a read",
                          threadName(cell.writer, cell.written), where));
      if (writes && conflicts(cell.reader, cell.read, inShared))
        wrong(fmt::format("a write where {} read, without a barrier between: {}", threadName(cell.reader, cell.read),
                          where));
      if (writes) {
        cell.writer = self, cell.written = interval;
      } else if (inShared || cell.read < launchBegin || cell.read >= blockBegin) { // one of another block stays
        cell.reader = cell.read == interval && cell.reader != self ? kSeveral : self;
        cell.read = interval;
      }
    }
  }
  std::string threadName(uint32_t thread, uint32_t then) const {
    if (thread == kSeveral)
      return "several threads";
    return then < blockBegin ? fmt::format("block {}", (thread - 1) / threads)
                             : fmt::format("thread {}", thread - firstThread);
  }
};

} // namespace

Scope::Scope(std::vector<Range> list) : ranges(std::move(list)), before(std::exchange(scopeOfThread, &ranges)) {}
Scope::~Scope() { scopeOfThread = before; }

bool touches(const void *begin, uint64_t bytes, bool writes, const std::string &who) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (const Range &range : scopeOfThread ? *scopeOfThread : kNone)
    if (const auto from = reinterpret_cast<uintptr_t>(range.begin);
        at >= from && at - from <= range.bytes && bytes <= range.bytes - (at - from) && (range.writable || !writes))
      return true;
  Machine &machine = Machine::instance();
  std::lock_guard lock(machine.mutex);
  if (machine.found.empty())
    machine.found = who + ": " + Machine::outside(scopeOfThread, begin, bytes, writes);
  return false;
}

std::function<void(void *stream)> instead;
bool happensInstead(void *stream) {
  if (instead)
    instead(stream);
  return static_cast<bool>(instead);
}

void setSeed(uint64_t seed) {
  Machine &machine = Machine::instance();
  std::lock_guard lock(machine.mutex);
  machine.random.seed(static_cast<uint_fast32_t>(seed));
}

std::string problem() {
  Machine &machine = Machine::instance();
  std::lock_guard lock(machine.mutex);
  return std::exchange(machine.found, {});
}

std::map<std::string, uint64_t> launches() {
  Machine &machine = Machine::instance();
  std::lock_guard lock(machine.mutex);
  return machine.counts;
}

int barrier(int value) { return Machine::instance().barrier(value); }
uint64_t shuffle(unsigned mask, uint64_t bits, int from) { return Machine::instance().shuffle(mask, bits, from); }
int lane() { return Machine::instance().lane(); }
bool launch(const Geometry &geometry, const void *code, uint64_t bytes, const void *thread, void (*run)(const void *)) {
  return Machine::instance().launch(geometry, code, bytes, thread, run);
}

} // namespace mt::simt

extern "C" void __ubsan_on_report() {
  const char *kind, *message, *file;
  unsigned line, column;
  char *address;
  __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
  mt::simt::Machine::instance().undefined(fmt::format("{} ({}, line {})", message, file, line));
}

/// In place of the sanitizer's own function, with what the compiler gives that.
extern "C" void __ubsan_handle_type_mismatch_v1(const void *data, uintptr_t address) {
  struct Mismatch {
    const char *file;
    uint32_t line, column;
    const struct {
      uint16_t kind, info;
      char name[1];
    } * type;
    unsigned char alignment, kind; ///< the alignment's logarithm
  };
  const auto &mismatch = *static_cast<const Mismatch *>(data);
  const uint64_t alignment = uint64_t{1} << mismatch.alignment;
  mt::simt::Machine::instance().misaligned(
      fmt::format("{} address {:#x} for {}, which is aligned to {} bytes ({}, line {})",
                  address == 0          ? "the null"
                  : address % alignment ? "misaligned"
                                        : "too little memory at",
                  address, mismatch.type->name, alignment, mismatch.file, mismatch.line));
}

#ifndef __SANITIZE_ADDRESS__
// What the compiler calls for -fsanitize=thread.
extern "C" {
#define MT_SIMT_ACCESS(bytes)                                                                                          \
  void __tsan_read##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, false); }                        \
  void __tsan_write##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, true); }                        \
  void __tsan_unaligned_read##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, false); }              \
  void __tsan_unaligned_write##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, true); }              \
  void __tsan_volatile_read##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, false); }               \
  void __tsan_volatile_write##bytes(void *at) { mt::simt::Machine::instance().access(at, bytes, true); }
MT_SIMT_ACCESS(1)
MT_SIMT_ACCESS(2)
MT_SIMT_ACCESS(4)
MT_SIMT_ACCESS(8)
MT_SIMT_ACCESS(16)
void __tsan_read_range(void *at, unsigned long bytes) { mt::simt::Machine::instance().access(at, bytes, false); }
void __tsan_write_range(void *at, unsigned long bytes) { mt::simt::Machine::instance().access(at, bytes, true); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void *) {}
}
#endif
