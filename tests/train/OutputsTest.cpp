// Outputs: what is replaced, followed or written to; files that grow; what becomes of errors.
#include "runtime/base/AppendedFile.h"
#include "runtime/base/AtomicFile.h"
#include "tests/train/TestFiles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <thread>
#include <unistd.h>

namespace mt::tests {
namespace {

namespace fs = std::filesystem;

std::string listing(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

void writeTo(const std::string &path, const std::string &text) {
  Status status = writeFileAtomically(path, text);
  ASSERT_TRUE(status.ok()) << status.message();
}

struct stat statusOf(const std::string &path) {
  struct stat status = {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

TEST(Outputs, AFileIsReplacedAndKeepsItsMode) {
  Folder folder;
  folder.write("out", "old");
  fs::permissions(folder / "out", fs::perms(0640));
  ino_t before = statusOf(folder / "out").st_ino;
  Result<AtomicFile> file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(std::as_bytes(std::span("new", 3))).ok());
  EXPECT_EQ(readFile(folder / "out"), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(readFile(folder / "out"), "new");
  EXPECT_EQ(statusOf(folder / "out").st_mode & 07777, 0640u);
  EXPECT_NE(statusOf(folder / "out").st_ino, before);
  EXPECT_EQ(listing(folder.path), "out");
}

TEST(Outputs, ALinkIsFollowed) {
  Folder folder;
  fs::create_directory(folder / "far");
  folder.write("far/target", "old");
  fs::create_symlink("far/target", folder / "link");
  fs::create_symlink(folder / "link", folder / "link-to-link");
  writeTo(folder / "link-to-link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "link-to-link"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "far/target")));
  EXPECT_EQ(readFile(folder / "far/target"), "new");
  EXPECT_EQ(listing(folder / "far"), "target");
}

TEST(Outputs, ALinkToNothingCreatesItsTarget) {
  Folder folder;
  fs::create_directory(folder / "far");
  fs::create_symlink("far/new", folder / "link");
  writeTo(folder / "link", "text");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(readFile(folder / "far/new"), "text");
  fs::create_symlink("circle", folder / "circle");
  EXPECT_ERROR(writeFileAtomically(folder / "circle", "text"), "too many links");
}

TEST(Outputs, ADeviceStaysOne) {
  Folder folder;
  writeTo("/dev/null", "text");
  EXPECT_TRUE(S_ISCHR(statusOf("/dev/null").st_mode));
  std::string own = folder / "null";
  if (::mknod(own.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) { // only root may
    writeTo(own, "text");
    EXPECT_TRUE(S_ISCHR(statusOf(own).st_mode));
    EXPECT_EQ(listing(folder.path), "null");
  }
  EXPECT_ERROR(writeFileAtomically("/dev/full", "text"), "/dev/full: cannot be written: No space left on device");
}

TEST(Outputs, APipeIsWrittenTo) {
  Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string text(1 << 20, 'x'), got;
  std::thread reader([&] { got = readFile(folder / "pipe"); });
  writeTo(folder / "pipe", text);
  reader.join();
  EXPECT_EQ(got, text);
  EXPECT_TRUE(S_ISFIFO(statusOf(folder / "pipe").st_mode));
  EXPECT_EQ(listing(folder.path), "pipe");
}

TEST(Outputs, AnOpenDescriptorIsWrittenWhereItStands) {
  Folder folder;
  int descriptor = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(descriptor, "before ", 7), 7);
  writeTo(fmt::format("/dev/fd/{}", descriptor), "text");
  ASSERT_EQ(::write(descriptor, " after", 6), 6);
  ::close(descriptor);
  EXPECT_EQ(readFile(folder / "log"), "before text after");
  EXPECT_EQ(listing(folder.path), "log");
}

TEST(Outputs, WithoutCommitNothingChanges) {
  Folder folder;
  folder.write("out", "old");
  {
    Result<AtomicFile> file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file->write(std::as_bytes(std::span("new", 3))).ok());
  }
  EXPECT_EQ(readFile(folder / "out"), "old");
  EXPECT_EQ(listing(folder.path), "out");
  EXPECT_ERROR(AtomicFile::create(folder.path).status(), "cannot be written: Is a directory");
  EXPECT_ERROR(AtomicFile::create(folder / "no/out").status(), "no/out: cannot be written");
}

TEST(Outputs, TwoFilesAreReplacedTogether) {
  Folder folder;
  folder.write("first", "old"), folder.write("last", "old");
  Result<AtomicFile> first = AtomicFile::create(folder / "first"), last = AtomicFile::create(folder / "last");
  ASSERT_TRUE(first.ok() && last.ok());
  ASSERT_TRUE(first->write(std::as_bytes(std::span("new", 3))).ok());
  ASSERT_TRUE(last->write(std::as_bytes(std::span("new", 3))).ok());
  ASSERT_TRUE(AtomicFile::commit(*first, *last).ok());
  EXPECT_EQ(readFile(folder / "first"), "new");
  EXPECT_EQ(readFile(folder / "last"), "new");
  EXPECT_EQ(listing(folder.path), "first last");
}

TEST(Outputs, WhatAnEarlierProcessLeftIsNotTouched) {
  Folder folder;
  std::string left = fmt::format("out.tmp.{}", ::getpid());
  folder.write(left, "of another");
  writeTo(folder / "out", "new");
  EXPECT_EQ(readFile(folder / "out"), "new");
  EXPECT_EQ(readFile(folder / left), "of another");
}

TEST(Outputs, GrowingFilesAppendAndFollowLinks) {
  Folder folder;
  folder.write("log", "one\n");
  fs::create_symlink("log", folder / "link");
  {
    Result<AppendedFile> file = AppendedFile::open(folder / "link", false);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->append("two\n").ok());
    EXPECT_TRUE(file->sync().ok());
    EXPECT_EQ(file->waitingBytes(), 0u);
  }
  EXPECT_EQ(readFile(folder / "log"), "one\ntwo\n");
  ASSERT_TRUE(AppendedFile::open(folder / "link", true).ok());
  EXPECT_EQ(readFile(folder / "log"), "");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(Outputs, WhatDoesNotFitWaits) {
  Result<AppendedFile> full = AppendedFile::open("/dev/full", true);
  ASSERT_TRUE(full.ok());
  EXPECT_ERROR(full->append("one\n"), "No space left on device");
  EXPECT_ERROR(full->append("two\n"), "No space left on device");
  EXPECT_EQ(full->waitingBytes(), 8u);
}

TEST(Outputs, OfTooMuchThatWaitsWholeRecordsGo) {
  Result<AppendedFile> full = AppendedFile::open("/dev/full", true);
  std::string record(1 << 20, 'x');
  for (size_t i = 0; i < 70; ++i) {
    std::string binary = record; // of which a byte may be anything
    binary[i * 1009] = '\n';
    EXPECT_FALSE(full->append(binary).ok());
    EXPECT_LE(full->waitingBytes(), uint64_t(64) << 20);
    EXPECT_EQ(full->waitingBytes() % record.size(), 0u);
  }
  EXPECT_GT(full->waitingBytes(), uint64_t(30) << 20);
}

} // namespace
} // namespace mt::tests
