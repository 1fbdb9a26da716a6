// Preloaded into a program under test: numbers the calls that change files below MT_FAULTS_ROOT, makes one of them go
// wrong, and keeps a journal from which tests/e2e/crash_points.py rebuilds what a loss of power would have left.
// Nothing of mt is linked here, and nothing of this into mt.
//
//   MT_FAULTS_ROOT=DIR      the calls that count: those on files and folders below it
//   MT_FAULTS_AT=N          the number, from 1, of the call that goes wrong
//   MT_FAULTS_KIND=kill     the process ends before the call
//                  torn     half of a write is done, then the process ends
//                  short    half of a write is done, and said so
//                  enospc   this call and all later ones that need room fail for want of it
//                  eio      the call fails
//                  signal   SIGTERM arrives before the call, twice
//   MT_FAULTS_JOURNAL=FILE  a record for every call that was done, its data included; outside of the root
//   MT_FAULTS_NO_EXCHANGE=1 the file system cannot exchange two names
//   MT_FAULTS_FREE=BYTES    the free space that the file system claims
//   MT_FAULTS_DENIED=PART   files below the root with PART in their path cannot be opened for reading (EACCES),
//   MT_FAULTS_BROKEN=PART   or cannot be read (EIO)
//   MT_FAULTS_OWNERS=1      no file can be given an owner (EINVAL)
//   MT_FAULTS_HOLD=PART     the first file with PART in its path is opened for writing only after a write to another
//   file;
//                           without one the process ends after a minute
//   MT_FAULTS_NO_URING=1    the kernel refuses io_uring, whose requests none of the above would see
//   MT_FAULTS_THREADS=N     the system gives N threads and no more, whatever the root
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mutex>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

struct Settings {
  std::string root = environment("MT_FAULTS_ROOT"), kind = environment("MT_FAULTS_KIND");
  long at = std::atol(environment("MT_FAULTS_AT").c_str());
  bool noExchange = !environment("MT_FAULTS_NO_EXCHANGE").empty();
  std::string free = environment("MT_FAULTS_FREE"), denied = environment("MT_FAULTS_DENIED"),
              broken = environment("MT_FAULTS_BROKEN"), hold = environment("MT_FAULTS_HOLD");
  bool noOwners = !environment("MT_FAULTS_OWNERS").empty();
  int journal = -1;
  Settings() {
    if (std::string path = environment("MT_FAULTS_JOURNAL"); !path.empty())
      journal = static_cast<int>(
          ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  }
};

Settings &settings() {
  static Settings *made = new Settings; // never destroyed: calls come until the very end
  return *made;
}

std::recursive_mutex &mutex() {
  static auto *made = new std::recursive_mutex;
  return *made;
}

__attribute__((constructor)) void refuseUring() {
  if (environment("MT_FAULTS_NO_URING").empty())
    return;
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter = {.len = sizeof(steps) / sizeof(steps[0]), .filter = steps};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    std::abort();
}

long count = 0;
bool full = false;

std::string folderPath(int folder) {
  char text[4096];
  std::string link = folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(folder);
  ssize_t length = ::readlink(link.c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "";
}

/// The absolute path, without "." and double slashes; links and ".." stay.
std::string absolute(int folder, const char *path) {
  std::string all = path[0] == '/' ? path : folderPath(folder) + "/" + path, clean;
  for (size_t at = 0; at < all.size();) {
    size_t end = all.find('/', at);
    end = end == std::string::npos ? all.size() : end;
    std::string part = all.substr(at, end - at);
    if (!part.empty() && part != ".")
      clean += "/" + part;
    at = end + 1;
  }
  return clean;
}

bool counts(const std::string &path) {
  const std::string &root = settings().root;
  return !root.empty() &&
         (path == root || (path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/'));
}

/// Whether a part is set, and in the path of a file below the root.
bool hits(const std::string &part, const std::string &path) {
  return !part.empty() && counts(path) && path.find(part) != std::string::npos;
}

void put(const void *data, size_t size) {
  for (const char *at = static_cast<const char *>(data); size > 0;) {
    ssize_t done = ::syscall(SYS_write, settings().journal, at, size);
    if (done <= 0)
      return;
    at += done;
    size -= static_cast<size_t>(done);
  }
}

/// One line of text fields, and the bytes that were written: "KIND\tPATH\tOTHER\tOFFSET\tBYTES\n" and so many bytes.
void journal(const char *kind, const std::string &path, const std::string &other = "", uint64_t offset = 0,
             const void *data = nullptr, size_t bytes = 0) {
  if (settings().journal < 0)
    return;
  std::string line = std::string(kind) + "\t" + path + "\t" + other + "\t" + std::to_string(offset) + "\t" +
                     std::to_string(bytes) + "\n";
  put(line.data(), line.size());
  put(data, bytes);
}

enum class Fate { asUsual, half, halfThenEnd, fails };

[[noreturn]] void end() {
  ::syscall(SYS_kill, ::getpid(), SIGKILL);
  for (;;)
    ::pause();
}

/// What becomes of the next call; errno is set where it fails. `grows`: it needs room.
Fate next(bool grows, bool isWrite) {
  const Settings &s = settings();
  bool now = ++count == s.at;
  if (now && s.kind == "enospc")
    full = true;
  if (full && grows) {
    errno = ENOSPC;
    return Fate::fails;
  }
  if (!now)
    return Fate::asUsual;
  if (s.kind == "kill" || (s.kind == "torn" && !isWrite))
    end();
  if (s.kind == "torn")
    return Fate::halfThenEnd;
  if (s.kind == "short" && isWrite)
    return Fate::half;
  if (s.kind == "eio") {
    errno = EIO;
    return Fate::fails;
  }
  if (s.kind == "signal") {
    ::kill(::getpid(), SIGTERM);
    ::kill(::getpid(), SIGTERM);
  }
  return Fate::asUsual;
}

template <typename F> F original(const char *name) { return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name)); }

bool forWriting(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

std::atomic<long> writes = 0;

void hold(const std::string &path) {
  static std::atomic<bool> held = false;
  if (!hits(settings().hold, path) || held.exchange(true))
    return;
  constexpr int kMost = 60000;
  long before = writes;
  for (int i = 0; writes == before; ++i) {
    if (i == kMost)
      end();
    ::usleep(1000);
  }
}

int openAt(int folder, const char *path, int flags, mode_t mode) {
  std::string where = absolute(folder, path);
  auto call = [&] { return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode)); };
  if (!forWriting(flags) && hits(settings().denied, where)) {
    errno = EACCES;
    return -1;
  }
  if (!forWriting(flags) || !counts(where))
    return call();
  hold(where);
  std::lock_guard lock(mutex());
  struct stat status = {};
  bool isNew = ::stat(where.c_str(), &status) != 0;
  if (next(isNew, false) == Fate::fails)
    return -1;
  int made = call();
  if (made >= 0) {
    journal(isNew ? "create" : flags & O_TRUNC ? "truncate" : "open", where);
  }
  return made;
}

template <typename Call> ssize_t readFrom(int file, const Call &call) {
  if (settings().broken.empty() || !hits(settings().broken, folderPath(file)))
    return call();
  errno = EIO;
  return -1;
}

template <typename Call> ssize_t writeTo(int file, const void *data, size_t bytes, int64_t offset, const Call &call) {
  std::string where = folderPath(file);
  if (!counts(where))
    return call(data, bytes);
  std::lock_guard lock(mutex());
  Fate fate = next(true, true);
  if (fate == Fate::fails)
    return -1;
  if (fate != Fate::asUsual && bytes > 1)
    bytes /= 2;
  if (offset < 0) { // where the file stands, or its end
    struct stat status = {};
    bool appends = (::fcntl(file, F_GETFL) & O_APPEND) != 0 && ::fstat(file, &status) == 0;
    offset = appends ? status.st_size : ::lseek(file, 0, SEEK_CUR);
  }
  ssize_t done = call(data, bytes);
  ++writes;
  if (done > 0)
    journal("write", where, "", static_cast<uint64_t>(offset), data, static_cast<size_t>(done));
  if (fate == Fate::halfThenEnd)
    end();
  return done;
}

/// A call on one or two paths that succeeds with 0.
template <typename Call>
int change(const char *kind, const std::string &path, const std::string &other, bool grows, const Call &call) {
  if (!counts(path))
    return call();
  std::lock_guard lock(mutex());
  if (next(grows, false) == Fate::fails)
    return -1;
  int result = call();
  if (result == 0)
    journal(kind, path, other);
  return result;
}

int resize(int file, const char *kind, off_t size, int (*call)(int, off_t)) {
  std::string where = folderPath(file);
  if (!counts(where))
    return call(file, size);
  std::lock_guard lock(mutex());
  if (next(true, false) == Fate::fails)
    return -1;
  int result = call(file, size);
  if (result == 0)
    journal(kind, where, "", static_cast<uint64_t>(size));
  return result;
}

int syncFile(int file, int (*call)(int)) {
  return change("sync", folderPath(file), "", false, [&] { return call(file); });
}

} // namespace

extern "C" {

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openAt(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openAt(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openAt(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return openAt(folder, path, flags, mode);
}
int creat(const char *path, mode_t mode) { return openAt(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

ssize_t read(int file, void *data, size_t bytes) {
  return readFrom(file, [&] { return ::syscall(SYS_read, file, data, bytes); });
}
ssize_t pread(int file, void *data, size_t bytes, off_t offset) {
  return readFrom(file, [&] { return ::syscall(SYS_pread64, file, data, bytes, offset); });
}
ssize_t pread64(int file, void *data, size_t bytes, off64_t offset) { return pread(file, data, bytes, offset); }

ssize_t write(int file, const void *data, size_t bytes) {
  return writeTo(file, data, bytes, -1,
                 [&](const void *from, size_t count) { return ::syscall(SYS_write, file, from, count); });
}
ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset) {
  return writeTo(file, data, bytes, offset,
                 [&](const void *from, size_t count) { return ::syscall(SYS_pwrite64, file, from, count, offset); });
}
ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t offset) { return pwrite(file, data, bytes, offset); }
ssize_t writev(int file, const struct iovec *parts, int number) {
  std::string all;
  for (int i = 0; i < number; ++i)
    all.append(static_cast<const char *>(parts[i].iov_base), parts[i].iov_len);
  return write(file, all.data(), all.size());
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to, unsigned flags) noexcept {
  if ((flags & RENAME_EXCHANGE) && settings().noExchange) {
    errno = EINVAL;
    return -1;
  }
  return change(flags & RENAME_EXCHANGE ? "exchange" : "rename", absolute(fromFolder, from), absolute(toFolder, to),
                false,
                [&] { return static_cast<int>(::syscall(SYS_renameat2, fromFolder, from, toFolder, to, flags)); });
}
int renameat(int fromFolder, const char *from, int toFolder, const char *to) noexcept {
  return renameat2(fromFolder, from, toFolder, to, 0);
}
int rename(const char *from, const char *to) noexcept { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int fromFolder, const char *from, int toFolder, const char *to, int flags) noexcept {
  return change("link", absolute(toFolder, to), absolute(fromFolder, from), true,
                [&] { return static_cast<int>(::syscall(SYS_linkat, fromFolder, from, toFolder, to, flags)); });
}
int link(const char *from, const char *to) noexcept { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *path, int flags) noexcept {
  return change("unlink", absolute(folder, path), "", false,
                [&] { return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags)); });
}
int unlink(const char *path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) noexcept {
  int result = unlinkat(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdirat(int folder, const char *path, mode_t mode) noexcept {
  return change("mkdir", absolute(folder, path), "", true,
                [&] { return static_cast<int>(::syscall(SYS_mkdirat, folder, path, mode)); });
}
int mkdir(const char *path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }

int fchown(int file, uid_t user, gid_t group) noexcept {
  if (settings().noOwners && counts(folderPath(file))) {
    errno = EINVAL;
    return -1;
  }
  return original<int (*)(int, uid_t, gid_t)>("fchown")(file, user, group);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) noexcept {
  static const std::string most = environment("MT_FAULTS_THREADS");
  static std::atomic<long> made = 0;
  if (!most.empty() && made++ >= std::atol(most.c_str()))
    return EAGAIN;
  using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  return original<Create>("pthread_create")(thread, attributes, run, argument);
}

int fsync(int file) { return syncFile(file, original<int (*)(int)>("fsync")); }
int fdatasync(int file) { return syncFile(file, original<int (*)(int)>("fdatasync")); }

int ftruncate(int file, off_t size) noexcept {
  return resize(file, "resize", size, original<int (*)(int, off_t)>("ftruncate"));
}
int ftruncate64(int file, off64_t size) noexcept { return ftruncate(file, size); }
int truncate(const char *path, off_t size) noexcept {
  int file = openAt(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  int result = file < 0 ? -1 : ftruncate(file, size);
  if (file >= 0)
    ::close(file);
  return result;
}
int fallocate(int file, int mode, off_t offset, off_t length) {
  return resize(file, "grow", offset + length, [](int, off_t) { return 0; }) == 0
             ? static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, length))
             : -1;
}
int fallocate64(int file, int mode, off64_t offset, off64_t length) { return fallocate(file, mode, offset, length); }
int posix_fallocate(int file, off_t offset, off_t length) {
  return fallocate(file, 0, offset, length) == 0 ? 0 : errno;
}

int statvfs(const char *path, struct statvfs *disk) noexcept {
  int result = original<int (*)(const char *, struct statvfs *)>("statvfs")(path, disk);
  if (result == 0 && !settings().free.empty() && counts(absolute(AT_FDCWD, path)))
    disk->f_bavail = disk->f_bfree = std::strtoull(settings().free.c_str(), nullptr, 10) / disk->f_frsize;
  return result;
}
int statvfs64(const char *path, struct statvfs64 *disk) noexcept {
  return statvfs(path, reinterpret_cast<struct statvfs *>(disk)); // the same where off_t has 64 bits
}

/// How many calls there were, for whoever runs every one of them.
__attribute__((destructor)) void report() {
  if (std::string path = environment("MT_FAULTS_COUNT"); !path.empty() && !settings().root.empty()) {
    std::string text = std::to_string(count) + "\n";
    int file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666));
    static_cast<void>(!::syscall(SYS_write, file, text.data(), text.size()));
  }
}
}
