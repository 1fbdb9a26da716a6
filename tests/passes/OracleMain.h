// The main function of an oracle of random cases: which of them to try stands on its command line.
#ifndef MT_TESTS_PASSES_ORACLEMAIN_H
#define MT_TESTS_PASSES_ORACLEMAIN_H
#include "llvm/ADT/StringRef.h"
#include <gtest/gtest.h>

#include <cstdio>

namespace mt::test {

/// Takes --seed=N and --CASES=N beside GoogleTest's options, and runs the tests; 2 for anything else.
inline int runOracle(int argc, char **argv, const char *cases, uint64_t &firstSeed, uint64_t &count) {
  testing::InitGoogleTest(&argc, argv);
  std::string countOption = std::string("--") + cases + "=";
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef option(argv[i]);
    bool known = (option.consume_front("--seed=") && !option.getAsInteger(10, firstSeed)) ||
                 (option.consume_front(countOption) && !option.getAsInteger(10, count));
    if (!known) {
      fprintf(stderr, "%s: %s: want --seed=N or --%s=N\n", argv[0], argv[i], cases);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

} // namespace mt::test
#endif
