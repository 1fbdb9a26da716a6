// What the execution of device code finds: each planted fault, by name, in every order of threads (the undefined
// behaviour sanitizer reports a line once); and that what is right passes with the right results.
#include "tests/simt/Simt.h"
#include "tests/simt/Planted.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <numeric>

namespace mt::simt {
namespace {

struct Outcome {
  cudaError_t error;
  std::string problem;
  std::vector<float> out;
};

Outcome run(PlantedCode code, uint64_t seed, dim3 threads = 64, unsigned blocks = 3) {
  setSeed(seed);
  const size_t count = 64 * size_t{blocks};
  std::vector<float> in(count), out(count, -1);
  std::iota(in.begin(), in.end(), 0.0f);
  const Scope scope(
      {{in.data(), count * 4, false, false, "operand 0"}, {out.data(), count * 4, true, false, "operand 1"}});
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  const cudaError_t error =
      cudaLaunchKernelEx(&config, code, Planted{in.data(), out.data(), static_cast<int64_t>(count)});
  return {error, problem(), out};
}

void expectFoundOnce(PlantedCode code, const char *what, uint64_t seed = 1, dim3 threads = 64, unsigned blocks = 3) {
  const Outcome outcome = run(code, seed, threads, blocks);
  EXPECT_NE(outcome.error, cudaSuccess);
  EXPECT_NE(outcome.problem.find(what), std::string::npos) << outcome.problem;
}

void expectFound(PlantedCode code, const char *what, dim3 threads = 64, unsigned blocks = 3) {
  for (uint64_t seed = 1; seed <= 5; ++seed)
    expectFoundOnce(code, what, seed, threads, blocks);
  // It can go on after that.
  EXPECT_EQ(run(reverseCode(), 1).error, cudaSuccess);
}

TEST(Simt, WhatIsRightPasses) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Outcome outcome = run(reverseCode(), seed);
    EXPECT_EQ(outcome.problem, "");
    for (size_t i = 0; i < outcome.out.size(); ++i)
      EXPECT_EQ(outcome.out[i], static_cast<float>(i / 64 * 64 + 63 - i % 64));
    outcome = run(warpSumsCode(), seed);
    EXPECT_EQ(outcome.problem, "");
    for (size_t i = 0; i < outcome.out.size(); ++i) {
      const auto first = static_cast<float>(i / 32 * 32), before = i % 32 > 0 ? static_cast<float>(i - 1) : 0;
      EXPECT_EQ(outcome.out[i], 32 * first + 496 + 1000 * first + 1000000 * before);
    }
    outcome = run(anyNegativeCode(), seed);
    EXPECT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome.out, std::vector<float>(outcome.out.size(), 0));
  }
}

#ifndef __SANITIZE_ADDRESS__ // accesses are that sanitizer's to judge
TEST(Simt, FindsAMissingBarrier) { expectFound(missingBarrierCode(), "without a barrier between: shared memory"); }
TEST(Simt, FindsAWriteWhereAnotherReads) {
  expectFound(overwritesWhatIsReadCode(), "without a barrier between: shared memory");
}
TEST(Simt, FindsTwoWriters) { expectFound(twoWritersCode(), "a write where thread"); }
TEST(Simt, FindsWhatWasNeverWritten) {
  expectFound(neverWrittenCode(), "a read of shared memory that nothing of the block wrote");
}
TEST(Simt, FindsAnIndexBeyondTheEnd) {
  expectFound(onePastTheEndCode(), "a read of 4 bytes at byte 768 of operand 0, which has 768");
}
TEST(Simt, FindsAnIndexBeforeTheBegin) {
  expectFound(oneBeforeTheBeginCode(), "a write of 4 bytes at byte -4 of operand 1, which has 768");
}
TEST(Simt, FindsAWriteToWhatIsRead) {
  expectFound(writesAnOperandThatIsReadCode(), "of operand 0, which is only read");
}
TEST(Simt, FindsAnAddressOfNothing) { expectFound(nullPointerCode(), "a read of 4 bytes that is of no operand"); }
TEST(Simt, FindsBlocksThatWriteOnePlace) { expectFound(blocksWriteOnePlaceCode(), "a write where block"); }
TEST(Simt, FindsABlockThatReadsAnothersResult) {
  expectFound(blockReadsAnothersCode(), "without a barrier between: operand 1");
}
TEST(Simt, FindsAThreadThatReadsAnothersResult) {
  expectFound(threadReadsAnothersCode(), "without a barrier between: operand 1");
}
TEST(Simt, FindsALoopWithoutEnd) {
  expectFound(withoutEndCode(), "thread 5: a thread that does not come to an end", 64, 1);
}
TEST(Simt, SaysWhereInWhichKernel) {
  EXPECT_EQ(run(onePastTheEndCode(), 1).problem, "mt::simt::(anonymous namespace)::onePastTheEnd(mt::simt::Planted), "
                                                 "block 2, thread 63: a read of 4 bytes at byte 768 of operand 0, "
                                                 "which has 768");
}

#endif
TEST(Simt, FindsAMisalignedPack) { expectFound(misalignedPackCode(), "misaligned address"); }
TEST(Simt, FindsAShuffleWithALaneThatReturned) {
  expectFound(shuffleWithAReturnedLaneCode(), "for lane 7, which has returned");
}
TEST(Simt, FindsAShuffleWithALaneThatIsNot) { expectFound(warpSumsCode(), "which the block has not", 40); }
TEST(Simt, FindsAShuffleOutsideItsMask) {
  expectFound(shuffleOutsideItsMaskCode(), "a shuffle by a lane that its mask leaves out");
}
TEST(Simt, FindsAShuffleFromOutsideItsMask) {
  expectFound(shuffleFromOutsideItsMaskCode(), "which its mask leaves out");
}
TEST(Simt, FindsABarrierInABranch) {
  expectFound(barrierInABranchCode(), "32 threads of 64 wait at a barrier, and 32 have returned");
}
TEST(Simt, FindsABarrierBesideAShuffle) { expectFound(barrierBesideAShuffleCode(), "which waits at a barrier"); }
TEST(Simt, FindsAnIndexBeyondASharedArray) { expectFoundOnce(beyondASharedArrayCode(), "Index 64 out of bounds"); }
TEST(Simt, FindsAShiftTooFar) { expectFoundOnce(shiftTooFarCode(), "Shift exponent"); }
TEST(Simt, FindsABlockOfTooManyThreads) { expectFound(reverseCode(), "a block of 1056 threads", 1056); }
TEST(Simt, FindsALaunchWithoutBlocks) { expectFound(reverseCode(), "a launch without threads", 64, 0); }

} // namespace
} // namespace mt::simt
