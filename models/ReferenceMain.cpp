// mt-checkpoint-reference PAGE: writes docs/checkpoints.md out of the table of architectures.
#include "models/Architectures.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    fmt::print(stderr, "error: usage: mt-checkpoint-reference docs/checkpoints.md\n");
    return 2;
  }
  std::ofstream page(argv[1]);
  page << mt::models::architecturesPage();
  page.close();
  if (!page) {
    fmt::print(stderr, "error: cannot write {}; is the folder there and writable?\n", argv[1]);
    return 1;
  }
  return 0;
}
