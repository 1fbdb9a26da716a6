// mt-kernel-reference PAGE: writes docs/kernels.md out of the catalogue.
#include "kernels/Reference.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    fmt::print(stderr, "error: usage: mt-kernel-reference docs/kernels.md\n");
    return 2;
  }
  std::ofstream page(argv[1]);
  page << mt::kernels::referencePage();
  page.close();
  if (!page) {
    fmt::print(stderr, "error: cannot write {}; is the folder there and writable?\n", argv[1]);
    return 1;
  }
  return 0;
}
