// Runs a fuzz target without a fuzzer, in any build: replay-TARGET [--mutate N] FOLDER-OR-FILE... Every file of a corpus
// is an input that crashed once, or one to begin from; with --mutate, N random changes of each too, the same every time.
// An input that crashes or takes longer than 10 s is written to crash-input.
#include "tests/fuzz/Bytes.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

extern "C" {
/// Of libFuzzer: a few bytes changed, removed or inserted.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
/// A target's own, if it has one.
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);
}

namespace {

constexpr unsigned kMostSeconds = 10;
std::mt19937 randomNumbers(1);
std::vector<uint8_t> current;

void keepInput(int signal) {
  if (int file = ::open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644); file >= 0) {
    (void)!::write(file, current.data(), current.size());
    ::close(file);
  }
  const char *said = signal == SIGALRM ? "error: too slow; see crash-input\n" : "error: a crash; see crash-input\n";
  (void)!::write(STDERR_FILENO, said, std::strlen(said));
  std::signal(signal, SIG_DFL);
  signal == SIGALRM ? ::_exit(1) : (void)std::raise(signal);
}

void run() {
  ::alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(current.data(), current.size());
  ::alarm(0);
}

std::vector<fs::path> filesOf(const fs::path &path) {
  std::vector<fs::path> files;
  if (!fs::is_directory(path))
    return {path};
  for (const fs::directory_entry &entry : fs::directory_iterator(path))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void mutate(const std::vector<uint8_t> &from, unsigned seed) {
  constexpr size_t kMost = 1 << 17;
  current = from;
  size_t size = current.size();
  current.resize(std::max(size, kMost));
  for (unsigned i = 0; i <= seed % 8; ++i) // as if found one after another
    size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(current.data(), size, current.size(), seed * 8 + i)
                                   : LLVMFuzzerMutate(current.data(), size, current.size());
  current.resize(size);
}

} // namespace

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
  for (size_t left = 1 + randomNumbers() % 4; left > 0; --left) {
    size_t at = size ? randomNumbers() % size : 0;
    if (randomNumbers() % 4 == 0 && size < most) {
      std::memmove(data + at + 1, data + at, size++ - at);
      data[at] = static_cast<uint8_t>(randomNumbers());
    } else if (randomNumbers() % 4 == 0 && size > 1) {
      std::memmove(data + at, data + at + 1, --size - at);
    } else if (size > 0) {
      data[at] = static_cast<uint8_t>(randomNumbers() % 2 ? data[at] ^ (1u << randomNumbers() % 8) : randomNumbers());
    }
  }
  return size;
}

int main(int argc, char **argv) {
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, keepInput);
  size_t count = 0, changes = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--mutate") == 0 && i + 1 < argc) {
      changes = std::strtoul(argv[++i], nullptr, 10);
      continue;
    }
    for (const fs::path &file : filesOf(argv[i])) {
      std::printf("%s %s\n", argv[0], file.c_str());
      std::fflush(stdout);
      std::ifstream stream(file, std::ios::binary);
      const std::vector<uint8_t> whole((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
      current = whole;
      run();
      for (size_t k = 0; k < changes; ++k) {
        mutate(whole, static_cast<unsigned>(k));
        run();
      }
      count += 1 + changes;
    }
  }
  std::printf("%zu inputs: no crash\n", count);
  return count > 0 ? 0 : 1;
}
