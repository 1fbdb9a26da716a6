#include "runtime/train/DataFingerprint.h"

#include "runtime/base/MappedFile.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/CorpusForms.h"

#include <algorithm>

namespace mt::train {
namespace {

constexpr uint64_t kSamples = 64, kSampleBytes = 4096;

/// Size and samples of a file: all of it where that is no more, else samples from the first bytes to the last, evenly.
Status addFile(const std::string &path, std::vector<uint64_t> &sums) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  uint64_t size = file.size();
  sums.push_back(size);
  if (size <= kSamples * kSampleBytes) {
    sums.push_back(checksumOf(file.bytes()));
    return Status();
  }
  uint64_t last = size - kSampleBytes, stride = last / (kSamples - 1);
  for (uint64_t i = 0; i < kSamples; ++i)
    sums.push_back(checksumOf(file.bytes().subspan(i + 1 == kSamples ? last : i * stride, kSampleBytes)));
  return Status();
}

} // namespace

Result<std::string> dataFingerprint(const std::string &path, const std::string &tokenizer) {
  MT_ASSIGN(std::vector<std::string> files, corpusFiles(path));
  if (!tokenizer.empty())
    files.push_back(tokenizer);
  std::vector<uint64_t> sums;
  for (const std::string &file : files)
    MT_TRY(addFile(file, sums));
  return checksumText(checksumOf(std::as_bytes(std::span(sums))));
}

} // namespace mt::train
