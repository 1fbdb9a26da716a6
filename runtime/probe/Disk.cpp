#include "runtime/probe/Disk.h"

#include "runtime/base/Sizes.h"
#include "runtime/host/Arena.h"
#include "runtime/host/FileSpace.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace mt::probe {
namespace {

constexpr uint64_t kBytes = uint64_t(2) << 30, kRun = uint64_t(256) << 20;
constexpr size_t kRounds = 3;

/// Moves all bytes of the file in runs, from memory or to it.
Status moveAll(host::FileSpace &file, std::span<std::byte> memory, bool writes) {
  for (uint64_t at = 0; at < file.bytes(); at += memory.size())
    MT_TRY(writes ? file.write(at, memory) : file.read(at, memory));
  return {};
}

Result<double> secondsOf(const std::function<Status()> &work) {
  std::array<double, kRounds> tries;
  for (double &seconds : tries) {
    const auto begin = std::chrono::steady_clock::now();
    MT_TRY(work());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::ranges::sort(tries);
  return tries[kRounds / 2];
}

} // namespace

Result<DiskRates> probeDisk(const std::string &folder) {
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    return fail("--disk {}: {}", folder, std::strerror(errno));
  const uint64_t free = static_cast<uint64_t>(::geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
  const uint64_t bytes = std::min(kBytes, free / 4 / kRun * kRun);
  if (bytes == 0)
    return fail("--disk {}: {} are free, and measuring takes at least {}", folder, formatSize(free),
                formatSize(4 * kRun));
  MT_ASSIGN(const std::unique_ptr<host::FileSpace> file, host::FileSpace::make(folder, bytes, "probe"));
  MT_ASSIGN(const host::Arena from, host::Arena::reserve(kRun, "what is written", true));
  MT_ASSIGN(const host::Arena to, host::Arena::reserve(kRun, "what is read", true));
  std::mt19937_64 random(1); // nothing that a disk could make smaller
  for (uint64_t at = 0; at < kRun; at += sizeof(uint64_t)) {
    const uint64_t value = random();
    std::memcpy(from.data() + at, &value, sizeof(value));
  }
  const std::span<std::byte> written(from.data(), kRun), read(to.data(), kRun);
  MT_TRY(moveAll(*file, written, true)); // the first time it makes room
  MT_ASSIGN(const double writing, secondsOf([&] { return moveAll(*file, written, true); }));
  MT_ASSIGN(const double reading, secondsOf([&] { return moveAll(*file, read, false); }));
  const uint64_t half = bytes / 2 / kRun * kRun; // both at once, each in a half of its own
  double together = 1;
  if (half > 0) {
    Status other;
    MT_ASSIGN(const double both, secondsOf([&] {
                std::jthread writer([&] {
                  for (uint64_t at = 0; at < half && other.ok(); at += kRun)
                    other = file->write(at, written);
                });
                Status own;
                for (uint64_t at = half; at < 2 * half && own.ok(); at += kRun)
                  own = file->read(at, read);
                writer.join();
                return own.ok() ? other : own;
              }));
    together = both / (std::max(writing, reading) * static_cast<double>(half) / static_cast<double>(bytes));
  }
  const auto size = static_cast<double>(bytes);
  return DiskRates{free / 10 * 9, size / reading, size / writing, std::max(1.0, together), file->isDirect()};
}

} // namespace mt::probe
