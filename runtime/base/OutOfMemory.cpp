#include "runtime/base/OutOfMemory.h"

#include <cstring>
#include <new>
#include <unistd.h>

namespace mt {
namespace {

const char *remedyOfProgram = "free memory on this machine, or work on less at a time";

void say(const char *text) {
  for (size_t left = std::strlen(text); left > 0;) {
    ssize_t count = ::write(STDERR_FILENO, text, left);
    if (count <= 0)
      return;
    text += count;
    left -= static_cast<size_t>(count);
  }
}

} // namespace

void explainOutOfMemory(const char *remedy) {
  remedyOfProgram = remedy;
  std::set_new_handler(endForMemory);
}

void endForMemory() {
  say("error: out of memory: ");
  say(remedyOfProgram);
  say("\n");
  ::_exit(1);
}

} // namespace mt
