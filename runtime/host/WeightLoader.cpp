#include "runtime/host/WeightLoader.h"

#include "kernels/Optimizers.h"
#include "kernels/Quantized.h"
#include "runtime/base/Threads.h"
#include "runtime/host/Convert.h"
#include "runtime/host/Generator.h"
#include "runtime/plan/Ranks.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sys/stat.h>
#include <unistd.h>

namespace mt::host {
namespace {

using kernels::DType;
using plan::Parameter;
using plan::Part;

constexpr uint64_t kChunkElements = 1 << 18;
constexpr std::string_view kRemedy =
    "put the model's files back where they were when it was compiled, or compile it again with mtc";

/// The files that initial values come from, open while weights are loaded.
class Files {
public:
  Files() = default;
  Files(const Files &) = delete;
  ~Files() {
    for (const auto &[path, file] : open)
      ::close(file.descriptor);
  }

  /// Opens the parameter's file if it is not yet, and checks its length.
  Status add(const plan::Initial &initial) {
    auto [found, fresh] = open.try_emplace(initial.path);
    File &file = found->second;
    if (fresh) {
      file.descriptor = ::open(initial.path.c_str(), O_RDONLY | O_CLOEXEC);
      if (file.descriptor < 0)
        return fail("{}: cannot be opened: {}; {}", initial.path, std::strerror(errno), kRemedy);
      struct stat status = {};
      if (::fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return fail("{}: not a regular file; {}", initial.path, kRemedy);
      file.bytes = static_cast<uint64_t>(status.st_size);
    }
    if (initial.offset > file.bytes || initial.length > file.bytes - initial.offset)
      return fail("{}: has {} bytes, its {} bytes at offset {} are not all there: the file is truncated; {}",
                  initial.path, file.bytes, initial.length, initial.offset, kRemedy);
    return {};
  }

  Status read(const std::string &path, uint64_t offset, std::span<std::byte> to) const {
    int descriptor = open.at(path).descriptor;
    while (!to.empty()) {
      ssize_t count = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR)
        continue;
      if (count <= 0)
        return fail("{}: cannot be read at offset {}: {}", path, offset, count ? std::strerror(errno) : "end of file");
      to = to.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return {};
  }

private:
  struct File {
    int descriptor = -1;
    uint64_t bytes = 0;
  };
  std::map<std::string, File> open;
};

/// Of its initial value.
uint64_t elementsOf(const Parameter &parameter) {
  uint64_t elements = 1;
  for (const int64_t size : parameter.modelDims())
    elements *= static_cast<uint64_t>(size);
  return elements;
}

/// Elements of a parameter that are loaded at once. Of a packed one whole rows, an even number of them, so that what
/// they become is whole bytes and whole blocks: as many as are whole runs of checksums, unless that is too much.
uint64_t chunkOf(const Parameter &parameter) {
  constexpr uint64_t kMostElements = uint64_t(1) << 24;
  if (!parameter.initial.packing)
    return kChunkElements;
  const auto row = static_cast<uint64_t>(parameter.initial.packing->dims.back());
  const uint64_t whole = std::lcm(kChunkElements, 2 * row);
  return whole <= kMostElements ? whole : std::max<uint64_t>(2, kChunkElements / row / 2 * 2) * row;
}

/// What a parameter's numbers come from, or the numbers of one of its pieces.
struct Source {
  const Parameter *parameter = nullptr;
  const plan::Initial *initial = nullptr;
  const std::string *name = nullptr; ///< of the model's parameter
  uint64_t begin = 0, count = 0;     ///< its elements among the parameter's
};

std::vector<Source> sourcesOf(const Parameter &parameter) {
  const std::vector<plan::Piece> &pieces = parameter.initial.pieces;
  const uint64_t total = elementsOf(parameter);
  if (pieces.empty())
    return {{&parameter, &parameter.initial,
             parameter.holdsScales() ? &parameter.initial.packing->codes : &parameter.name, 0, total}};
  std::vector<Source> sources;
  for (const plan::Piece &piece : pieces)
    sources.push_back(
        {&parameter, &piece.initial, &piece.name, sources.size() * (total / pieces.size()), total / pieces.size()});
  return sources;
}

/// Whether stored bytes are the weight's bytes, and nothing is asked of their values.
bool isTakenAsIs(const Source &source) {
  return !source.parameter->trainable && !source.initial->path.empty() && !source.parameter->initial.packing &&
         source.initial->type == source.parameter->part(plan::kWeight)->type;
}

/// Whether it is made of one whole number: what tells apart nodes that draw random numbers.
bool isWhole(const Source &source) {
  return !source.parameter->trainable && !source.parameter->initial.packing && source.initial->generator == "constant" &&
         std::abs(source.initial->value) < 0x1p63 && source.parameter->part(plan::kWeight)->type == DType::i64;
}

/// Elements [first, first + count) of one parameter, all of one source.
struct Chunk {
  Source source;
  uint64_t first = 0, count = 0;
  uint64_t inSource() const { return first - source.begin; }
};

uint64_t checksumOf(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

/// Of each run of kChunkElements, so that they are the same however many are loaded at once.
std::vector<uint64_t> checksumsOf(std::span<const std::byte> bytes, uint64_t elementBytes) {
  std::vector<uint64_t> all;
  for (const uint64_t run = kChunkElements * elementBytes; !bytes.empty();
       bytes = bytes.subspan(std::min<uint64_t>(run, bytes.size())))
    all.push_back(checksumOf(bytes.first(std::min<uint64_t>(run, bytes.size()))));
  return all;
}

class ChunkLoader {
public:
  ChunkLoader(const plan::Plan &plan, const Files &files, const Place &place, uint32_t rank)
      : plan(plan), files(files), place(place), rank(rank) {}

  /// `checksums` receives those of the bytes in the file, if they come from one.
  Status load(const Chunk &chunk, std::vector<uint64_t> &checksums) const {
    const Part &weight = *chunk.source.parameter->part(plan::kWeight);
    for (const Part &part : chunk.source.parameter->parts)
      if (part.name != plan::kWeight && part.name != plan::kRemainder && part.name != kernels::kAverage)
        MT_TRY(shareOf(part, chunk).clear());
    const plan::Initial &initial = *chunk.source.initial;
    if (isTakenAsIs(chunk.source)) {
      return bytesOf(weight, chunk).set([&](std::span<std::byte> bytes) {
        Status done =
            files.read(initial.path, initial.offset + chunk.inSource() * kernels::byteSize(initial.type), bytes);
        if (done.ok())
          checksums = checksumsOf(bytes, kernels::byteSize(initial.type));
        return done;
      });
    }
    if (isWhole(chunk.source))
      return bytesOf(weight, chunk).set([&](std::span<std::byte> bytes) {
        std::ranges::fill(std::span(reinterpret_cast<int64_t *>(bytes.data()), chunk.count),
                          static_cast<int64_t>(initial.value));
        return Status();
      });
    const auto memory = std::make_unique_for_overwrite<float[]>(chunk.count);
    const std::span<float> values(memory.get(), chunk.count);
    MT_TRY(make(chunk, values, checksums));
    if (chunk.source.parameter->initial.packing)
      return storePacked(chunk, weight, values);
    if (chunk.source.parameter->trainable)
      MT_TRY(checkFinite(chunk, values));
    if (const Part *average = chunk.source.parameter->part(kernels::kAverage))
      MT_TRY(storeOwned(chunk, *average, values));
    return store(chunk, weight, values);
  }

private:
  const plan::Plan &plan;
  const Files &files;
  const Place &place;
  const uint32_t rank;

  HostBytes bytesOf(const Part &part, const Chunk &chunk) const {
    uint64_t size = kernels::byteSize(part.type);
    return place(part.span).part(chunk.first * size, chunk.count * size);
  }

  /// What of a part goes with a chunk, where an entry may be for several elements: all chunks' together are all of it.
  HostBytes shareOf(const Part &part, const Chunk &chunk) const {
    const auto at = [&, total = elementsOf(*chunk.source.parameter)](uint64_t element) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(part.span.bytes) * element / total);
    };
    const uint64_t begin = at(chunk.first);
    return place(part.span).part(begin, at(chunk.first + chunk.count) - begin);
  }

  /// Scales, or codes, of a chunk's rows.
  Status storePacked(const Chunk &chunk, const Part &weight, std::span<const float> values) const {
    const plan::Packing &packing = *chunk.source.parameter->initial.packing;
    if (const auto bad = std::ranges::find_if_not(values, kernels::splits); bad != values.end())
      return fail("element {} is {}: a weight that is packed must be finite; compile it again without --base-bits",
                  chunk.inSource() + static_cast<uint64_t>(bad - values.begin()), *bad);
    const std::vector<float> scales = scalesOf(values, packing);
    if (!packing.codes.empty()) {
      const uint64_t row = static_cast<uint64_t>(packing.dims.back());
      const uint64_t first = chunk.first / row * static_cast<uint64_t>(packing.scaleDims().back());
      return place(weight.span).part(first * sizeof(kernels::Bf16), scales.size() * sizeof(kernels::Bf16))
          .set([&](std::span<std::byte> to) -> Status {
            fromFloat(DType::bf16, scales, to.data());
            return {};
          });
    }
    return place(weight.span).part(chunk.first / 2, (chunk.count + 1) / 2).set([&](std::span<std::byte> to) -> Status {
      packCodes(values, scales, packing, to);
      return {};
    });
  }

  /// The largest magnitude of each block, in bf16.
  static std::vector<float> scalesOf(std::span<const float> values, const plan::Packing &packing) {
    const auto row = static_cast<size_t>(packing.dims.back()), block = std::min(row, static_cast<size_t>(packing.block));
    std::vector<float> scales;
    for (size_t line = 0; line < values.size(); line += row)
      for (size_t at = 0; at < row; at += block) {
        float most = 0;
        for (const float value : values.subspan(line + at, std::min(block, row - at)))
          most = std::max(most, std::abs(value));
        scales.push_back(kernels::widen(kernels::nearest(most)));
      }
    return scales;
  }

  /// The level that is nearest to each value over its scale, two to a byte.
  static void packCodes(std::span<const float> values, const std::vector<float> &scales, const plan::Packing &packing,
                        std::span<std::byte> to) {
    const auto row = static_cast<size_t>(packing.dims.back()), block = std::min(row, static_cast<size_t>(packing.block));
    std::array<float, kernels::kNormalFloat4.size() - 1> between; // two levels, half way
    for (size_t i = 0; i < between.size(); ++i)
      between[i] = static_cast<float>((kernels::kNormalFloat4[i] + kernels::kNormalFloat4[i + 1]) / 2);
    std::ranges::fill(to, std::byte{0});
    std::vector<float> shares(block);
    std::vector<int32_t> codes(block);
    for (size_t begin = 0, next = 0; begin < values.size(); ++next) {
      const size_t count = std::min(block, row - begin % row);
      const float scale = scales[next];
      for (size_t i = 0; i < count; ++i)
        shares[i] = scale > 0 ? values[begin + i] / scale : 0;
      std::ranges::fill(codes, 0);
      for (const float limit : between) // loops that compilers make vectors of
        for (size_t i = 0; i < count; ++i)
          codes[i] += shares[i] > limit ? 1 : 0;
      for (size_t i = 0; i < count; ++i)
        to[(begin + i) / 2] |= static_cast<std::byte>(codes[i] << ((begin + i) % 2 * 4));
      begin += count;
    }
  }

  Status make(const Chunk &chunk, std::span<float> values, std::vector<uint64_t> &checksums) const {
    const plan::Initial &initial = *chunk.source.initial;
    const uint64_t first = chunk.inSource();
    if (!initial.path.empty()) {
      uint64_t size = kernels::byteSize(initial.type);
      std::vector<std::byte> stored(chunk.count * size);
      MT_TRY(files.read(initial.path, initial.offset + first * size, stored));
      if (!chunk.source.parameter->trainable)
        checksums = checksumsOf(stored, size);
      toFloat(initial.type, stored.data(), values);
    } else if (!generate({initial.generator, generatorKey(*chunk.source.name, initial.seed), initial.value,
                          initial.deviation},
                         first, values)) {
      return fail("{}: there is no generator '{}'", *chunk.source.name, initial.generator);
    }
    return {};
  }

  Status checkFinite(const Chunk &chunk, std::span<const float> values) const {
    bool isSplit = chunk.source.parameter->part(plan::kRemainder) != nullptr;
    auto holds = [&](float value) { return isSplit ? kernels::splits(value) : std::isfinite(value); };
    int32_t largest = 0; // magnitude as bits, which order as values do; first in a loop that compilers make vectors of
    for (float value : values)
      largest = std::max(largest, std::bit_cast<int32_t>(value) & std::numeric_limits<int32_t>::max());
    if (holds(std::bit_cast<float>(largest)))
      return {};
    auto found = std::ranges::find_if_not(values, holds);
    const plan::Initial &initial = *chunk.source.initial;
    uint64_t element = chunk.inSource() + static_cast<uint64_t>(found - values.begin());
    return fail("{}: element {} is {}: a trainable weight must be finite{}; export the model again",
                initial.path.empty() ? "generator " + initial.generator : initial.path, element, *found,
                std::isfinite(*found) ? " in bf16 too" : "");
  }

  Status store(const Chunk &chunk, const Part &weight, std::span<const float> values) const {
    const Part *remainder = chunk.source.parameter->part(plan::kRemainder);
    return bytesOf(weight, chunk).set([&](std::span<std::byte> to) -> Status {
      if (!remainder) {
        fromFloat(weight.type, values, to.data());
        return {};
      }
      auto *upper = reinterpret_cast<kernels::Bf16 *>(to.data());
      if (plan.ranks == 1)
        return bytesOf(*remainder, chunk).set([&](std::span<std::byte> lower) -> Status {
          splitMaster(values, upper, reinterpret_cast<int16_t *>(lower.data()));
          return {};
        });
      std::vector<int16_t> lower(values.size());
      splitMaster(values, upper, lower.data());
      return storeOwned(chunk, *remainder, std::span<const int16_t>(lower));
    });
  }

  /// What the rank has of a chunk's values of a part.
  template <typename T> Status storeOwned(const Chunk &chunk, const Part &part, std::span<T> values) const {
    for (const plan::Owned &owned : plan::ownedBy(plan::sharesOf(plan, *chunk.source.parameter), rank, false)) {
      const auto first = static_cast<int64_t>(chunk.first), end = first + static_cast<int64_t>(chunk.count);
      const int64_t from = std::max(owned.first, first), to = std::min(owned.first + owned.count, end);
      if (from >= to)
        continue;
      const std::span<const std::byte> bytes =
          std::as_bytes(values.subspan(static_cast<size_t>(from - first), static_cast<size_t>(to - from)));
      const auto at = static_cast<uint64_t>(owned.place + from - owned.first) * sizeof(T);
      MT_TRY(place(part.span).part(at, bytes.size()).set([&](std::span<std::byte> there) -> Status {
        std::ranges::copy(bytes, there.begin());
        return {};
      }));
    }
    return {};
  }
};

/// Whether the initial value can become the weight at all.
Status checkTypes(const Source &source) {
  const Parameter &parameter = *source.parameter;
  DType weight = parameter.part(plan::kWeight)->type;
  bool stored = !source.initial->path.empty();
  bool converts = (weight == DType::f32 || weight == DType::bf16 || parameter.initial.packing) && (!stored || isFloat(source.initial->type));
  if (!converts && !isTakenAsIs(source) && !isWhole(source))
    return fail("a weight of type {} cannot be made from {}; {}", kernels::name(weight),
                stored ? fmt::format("{} in {}", kernels::name(source.initial->type), source.initial->path)
                       : "generator " + source.initial->generator,
                "compile the model again with this version of mtc");
  return {};
}

std::string placeOf(const Source &source) {
  return fmt::format("parameter \"{}\"",
                     source.parameter->initial.pieces.empty() ? source.parameter->name : *source.name);
}

/// Runs all chunks; keeps the error of the first in order that fails.
Status loadAll(const std::vector<Chunk> &chunks, const ChunkLoader &loader, int threads,
               std::vector<std::vector<uint64_t>> &checksums) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failedAt = std::numeric_limits<size_t>::max();
  Status failure;
  auto work = [&] {
    for (size_t i = next++; i < chunks.size(); i = next++)
      if (Status status = loader.load(chunks[i], checksums[i]); !status.ok()) {
        std::lock_guard lock(mutex);
        if (i < failedAt) {
          failedAt = i;
          failure = status.within(placeOf(chunks[i].source));
        }
        next = chunks.size();
      }
  };
  onThreads(static_cast<uint64_t>(std::max(threads, 1)), work);
  return failure;
}

/// Of the frozen parameters by name, so that it does not depend on their order in the plan.
uint64_t fingerprintOf(const std::vector<Chunk> &chunks, const std::vector<std::vector<uint64_t>> &checksums) {
  std::map<std::string_view, std::vector<uint64_t>> frozen;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Parameter &parameter = *chunks[i].source.parameter;
    if (parameter.trainable || parameter.holdsScales())
      continue;
    std::vector<uint64_t> &own = frozen[*chunks[i].source.name];
    const plan::Initial &initial = *chunks[i].source.initial;
    if (initial.path.empty() && own.empty())
      own = {checksumOf(std::as_bytes(std::span(initial.generator))), initial.seed,
             std::bit_cast<uint64_t>(initial.deviation), std::bit_cast<uint64_t>(initial.value)};
    else if (!initial.path.empty())
      own.insert(own.end(), checksums[i].begin(), checksums[i].end());
  }
  std::vector<uint64_t> all;
  for (const auto &[name, own] : frozen) {
    all.push_back(checksumOf(std::as_bytes(std::span(name))));
    all.push_back(checksumOf(std::as_bytes(std::span(own))));
  }
  return all.empty() ? 0 : checksumOf(std::as_bytes(std::span(all)));
}

} // namespace

Result<uint64_t> loadWeights(const plan::Plan &plan, const Place &place, int threads, uint32_t rank, bool frozenAlone) {
  Files files;
  std::vector<Chunk> chunks;
  for (const Parameter &parameter : plan.parameters) {
    if (frozenAlone && parameter.trainable)
      continue;
    for (const Source &source : sourcesOf(parameter)) {
      MT_TRY(checkTypes(source).within(placeOf(source)));
      if (!source.initial->path.empty())
        MT_TRY(files.add(*source.initial).within(placeOf(source)));
      const uint64_t most = chunkOf(parameter);
      for (uint64_t first = 0; first < source.count; first += most)
        chunks.push_back({source, source.begin + first, std::min(most, source.count - first)});
    }
  }
  std::vector<std::vector<uint64_t>> checksums(chunks.size());
  MT_TRY(loadAll(chunks, ChunkLoader(plan, files, place, rank), threads, checksums));
  return fingerprintOf(chunks, checksums);
}

} // namespace mt::host
