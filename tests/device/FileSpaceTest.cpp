// Bytes in a file: ranges of every alignment come back as they were written, through io_uring and by threads; what was
// changed behind its back is noticed; a folder or a disk that will not do is an error that says so.
#include "runtime/host/FileSpace.h"
#include "runtime/host/Arena.h"
#include "runtime/host/HostBytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <random>
#include <unistd.h>

namespace mt::host {
namespace {

constexpr uint64_t kBytes = (24 << 20) + 12345;

std::string folder() {
  std::string path = testing::TempDir() + "file-space-" + std::to_string(::getpid());
  std::filesystem::create_directories(path);
  return path;
}

class FileSpaces : public testing::TestWithParam<FileSpace::Requests> {
protected:
  std::unique_ptr<FileSpace> file = std::move(*FileSpace::make(folder(), kBytes, "file", GetParam()));
  std::vector<std::byte> known = std::vector<std::byte>(kBytes); ///< what should be there

  static std::vector<std::byte> noise(uint64_t bytes, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> made(bytes);
    for (std::byte &each : made)
      each = static_cast<std::byte>(random());
    return made;
  }
};

TEST_P(FileSpaces, BeginAsZerosAndAreInNoFolder) {
  std::vector<std::byte> all(kBytes, std::byte{1});
  ASSERT_TRUE(file->read(0, all).ok());
  EXPECT_EQ(all, known);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  EXPECT_EQ(file->bytes(), kBytes);
}

TEST_P(FileSpaces, KeepRangesOfEveryAlignment) {
  const Arena memory = std::move(*Arena::reserve(kBytes + (1 << 20), "memory", false));
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const uint64_t unit = std::array<uint64_t, 4>{1, 256, kFileAlignment, kFileAlignment}[random() % 4];
    const uint64_t most = i % 10 == 0 ? kBytes : 1 << 18;
    const uint64_t bytes = 1 + random() % most / unit * unit, offset = random() % (kBytes - bytes + 1) / unit * unit;
    const uint64_t length = std::min(bytes, kBytes - offset);
    // Now and then memory lies as the file does, else anywhere.
    const std::span<std::byte> place(memory.data() + (i % 3 ? offset % kFileAlignment : random() % kFileAlignment),
                                     length);
    std::ranges::copy(noise(length, random()), place.begin());
    ASSERT_EQ(file->write(offset, place).message(), "");
    std::ranges::copy(place, known.begin() + static_cast<std::ptrdiff_t>(offset));
    const uint64_t begin = random() % kBytes, count = random() % (kBytes - begin);
    const std::span<std::byte> back(memory.data() + begin % kFileAlignment, count);
    ASSERT_EQ(file->read(begin, back).message(), "");
    ASSERT_TRUE(std::ranges::equal(back, std::span(known).subspan(begin, count))) << i;
  }
}

TEST_P(FileSpaces, NoticeWhatChangesBehindThem) {
  const Arena memory = std::move(*Arena::reserve(8 << 20, "memory", false));
  const std::span<std::byte> bytes(memory.data(), 8 << 20);
  std::ranges::copy(noise(bytes.size(), 1), bytes.begin());
  ASSERT_TRUE(file->write(kFileAlignment, bytes).ok());
  ASSERT_TRUE(file->read(kFileAlignment, bytes).ok());
  bool changed = false;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error).string().starts_with(folder())) {
      const int other = ::open(entry.path().c_str(), O_RDWR);
      changed = changed || ::pwrite(other, "x", 1, 5 << 20) == 1;
      ::close(other);
    }
  }
  ASSERT_TRUE(changed);
  EXPECT_THAT(file->read(kFileAlignment, bytes).message(), testing::HasSubstr("are not those that were written there"));
}

TEST_P(FileSpaces, RefuseWhatIsBeyondThem) {
  std::vector<std::byte> bytes(100);
  EXPECT_THAT(file->read(kBytes - 99, bytes).message(), testing::HasSubstr("leave its"));
  EXPECT_THAT(file->write(UINT64_MAX, bytes).message(), testing::HasSubstr("leave its"));
}

TEST_P(FileSpaces, LookLikeMemoryToWhatLoadsAndSaves) {
  const HostBytes bytes = HostBytes(*file, 1000, 5000).part(24, 4000);
  const std::vector<std::byte> content = noise(4000, 3);
  ASSERT_TRUE(bytes
                  .set([&](std::span<std::byte> to) {
                    std::ranges::copy(content, to.begin());
                    return Status();
                  })
                  .ok());
  std::vector<std::byte> buffer, copy(4000);
  EXPECT_TRUE(std::ranges::equal(*bytes.get(buffer), content));
  EXPECT_TRUE(bytes.copyTo(copy).ok());
  EXPECT_EQ(copy, content);
  EXPECT_EQ(file->read(1024, copy).message(), "");
  EXPECT_EQ(copy, content);
}

INSTANTIATE_TEST_SUITE_P(All, FileSpaces, testing::Values(FileSpace::Requests::best, FileSpace::Requests::threads),
                         [](const auto &each) { return each.param == FileSpace::Requests::best ? "best" : "threads"; });

TEST(FileSpace, SaysWhyAFolderWillNotDo) {
  EXPECT_THAT(FileSpace::make("/nowhere/at/all", 1 << 20, "file").status().message(),
              testing::AllOf(testing::HasSubstr("--state-dir /nowhere/at/all"), testing::HasSubstr("choose a folder")));
  EXPECT_THAT(FileSpace::make(folder(), uint64_t{1} << 50, "file").status().message(),
              testing::AllOf(testing::HasSubstr("needs 1024.0 TiB"), testing::HasSubstr("make room")));
}

} // namespace
} // namespace mt::host
