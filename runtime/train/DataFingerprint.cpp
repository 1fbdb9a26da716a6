#include "runtime/train/DataFingerprint.h"

#include "runtime/base/MappedFile.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/CorpusForms.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace mt::train {
namespace {

constexpr uint64_t kSamples = 64, kSampleBytes = 4096, kWhole = uint64_t(512) << 20;

/// Size and checksums of a file: of its first `whole` bytes, every one, which are taken off `whole`; of a longer file
/// samples too, from the first bytes to the last, evenly.
Status addFile(const std::string &path, uint64_t &whole, std::vector<uint64_t> &sums) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  uint64_t size = file.size(), head = std::min(size, whole);
  whole -= head;
  sums.push_back(size);
  std::vector<Piece> pieces = piecesOf(std::span(&head, 1));
  size_t first = sums.size();
  sums.resize(first + pieces.size());
  MT_TRY(inParallel(pieces.size(), 0, [&](size_t i) {
    sums[first + i] = checksumOf(file.bytes().subspan(pieces[i].begin, pieces[i].bytes));
    return Status();
  }));
  uint64_t last = size - std::min(size, kSampleBytes), stride = last / (kSamples - 1);
  for (uint64_t i = 0; i < kSamples && head < size; ++i)
    sums.push_back(checksumOf(file.bytes().subspan(i + 1 == kSamples ? last : i * stride, std::min(size, kSampleBytes))));
  return Status();
}

Result<std::vector<uint64_t>> sumsOf(const std::vector<std::string> &files) {
  std::vector<uint64_t> sums;
  uint64_t whole = kWhole;
  for (const std::string &file : files)
    MT_TRY(addFile(file, whole, sums));
  return sums;
}

std::string fingerprint(const std::vector<uint64_t> &sums) {
  return checksumText(checksumOf(std::as_bytes(std::span(sums))));
}

} // namespace

Result<std::string> dataFingerprint(const std::string &path, const std::string &tokenizer) {
  MT_ASSIGN(std::vector<std::string> files, corpusFiles(path));
  MT_ASSIGN(std::vector<uint64_t> sums, sumsOf(files));
  if (!tokenizer.empty()) {
    MT_ASSIGN(std::vector<std::string> own, tokenizer::tokenizerFiles(tokenizer));
    MT_ASSIGN(std::vector<uint64_t> more, sumsOf(own)); // every byte of them, however long the data are
    sums.insert(sums.end(), more.begin(), more.end());
  }
  return fingerprint(sums);
}

std::string joinFingerprints(const std::vector<std::string> &all) {
  const std::string text = fmt::format("{}", fmt::join(all, " "));
  return all.size() == 1 ? text : checksumText(checksumOf(std::as_bytes(std::span(text))));
}

Result<std::string> tokenizerFingerprint(const std::string &tokenizer) {
  MT_ASSIGN(std::vector<std::string> files, tokenizer::tokenizerFiles(tokenizer));
  MT_ASSIGN(std::vector<uint64_t> sums, sumsOf(files));
  return fingerprint(sums);
}

} // namespace mt::train
