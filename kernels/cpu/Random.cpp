// dropout and random: words of Philox in vectors, as many blocks at once as fill some, then what is made of them.
#include "kernels/Random.h"
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Random.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef MT_KERNELS_CPU_RANDOM_ONCE
#define MT_KERNELS_CPU_RANDOM_ONCE

namespace mt::kernels::cpu {
namespace {
/// Elements that are made at once, and room for their words: for all of the blocks that the elements touch, and for two
/// more vectors' of at most 64 lanes.
constexpr int64_t kRun = 2048, kRoom = kRun + 4 * (1 + 2 * 64);
} // namespace
} // namespace mt::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::ScalableTag<uint32_t>;
using Lane = hn::Vec<Lanes>;

/// Both halves of the products of all lanes with a factor.
HWY_INLINE void multiply(Lane a, uint32_t factor, Lane &low, Lane &high) {
  const Lanes d;
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{hn::GetLane(a)} * factor;
  low = hn::Set(d, static_cast<uint32_t>(product)), high = hn::Set(d, static_cast<uint32_t>(product >> 32));
#else
  const Lane by = hn::Set(d, factor);
  const Lane even = hn::BitCast(d, hn::MulEven(a, by)), odd = hn::BitCast(d, hn::MulEven(hn::DupOdd(a), by));
  low = hn::OddEven(hn::DupEven(odd), even);
  high = hn::OddEven(odd, hn::DupOdd(even));
#endif
}

/// A word of each of as many blocks as a vector has lanes.
struct Blocks {
  Lane a, b, c, e;
};
HWY_INLINE Blocks counted(const Draw &draw, uint64_t first) {
  const Lanes d;
  HWY_ALIGN uint32_t low[hn::MaxLanes(Lanes())], high[hn::MaxLanes(Lanes())];
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    low[i] = static_cast<uint32_t>(first + i), high[i] = static_cast<uint32_t>((first + i) >> 32);
  return {hn::Load(d, low), hn::Load(d, high), hn::Set(d, draw.draw), hn::Set(d, draw.node)};
}
HWY_INLINE Blocks roundOf(const Blocks &at, Lane key, Lane other) {
  Blocks next;
  Lane firstHigh, secondHigh;
  multiply(at.a, static_cast<uint32_t>(philox::kMultiply0), next.e, firstHigh);
  multiply(at.c, static_cast<uint32_t>(philox::kMultiply1), next.b, secondHigh);
  next.a = hn::Xor3(secondHigh, at.b, key);
  next.c = hn::Xor3(firstHigh, at.e, other);
  return next;
}

/// The words of so many blocks from `first` on, and maybe of some more. Vectors are made in twos: a round waits for the
/// one before it.
void makeWords(const Draw &draw, uint64_t first, int64_t blocks, uint32_t *out) {
  const Lanes d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t done = 0; done < blocks; done += 2 * lanes) {
    const uint64_t begin = first + static_cast<uint64_t>(done);
    Blocks one = counted(draw, begin), two = counted(draw, begin + static_cast<uint64_t>(lanes));
    uint32_t key = draw.low, other = draw.high;
    for (int round = 0; round < philox::kRounds; ++round, key += philox::kWeyl0, other += philox::kWeyl1) {
      const Lane low = hn::Set(d, key), high = hn::Set(d, other);
      one = roundOf(one, low, high), two = roundOf(two, low, high);
    }
    hn::StoreInterleaved4(one.a, one.b, one.c, one.e, d, out + 4 * done);
    hn::StoreInterleaved4(two.a, two.b, two.c, two.e, d, out + 4 * (done + lanes));
  }
}

// Loops that compilers make vectors of: the same sums and products in every instruction set.

/// to[i] = x[i] * scale where words[i] >= least, else 0.
void keep(const float *x, const uint32_t *words, uint32_t least, float scale, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = words[i] >= least ? x[i] * scale : 0.0f;
}
void uniforms(const uint32_t *words, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = uniformOf(words[i]);
}
/// Of whole pairs.
void normals(const uint32_t *words, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i += 2)
    normalsOf(words[i], words[i + 1], to[i], to[i + 1]);
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {
namespace {
HWY_EXPORT(makeWords);
HWY_EXPORT(keep);
HWY_EXPORT(uniforms);
HWY_EXPORT(normals);

/// Elements of a call, where the batch's rows are among them: runs of elements whose numbers follow each other.
struct Elements {
  int64_t total = 0, rows = 0; ///< rows 0: elements are numbered as they lie
  Numbering numbering;
  size_t operand = 0; ///< the first of row numbers, scalars, node

  Elements(const Signature &call, size_t operand, const OperandType &like) : total(like.elements()), operand(operand) {
    if (const OperandType &numbers = call.operands[operand]; numbers.present) {
      rows = numbers.dims[0];
      numbering.outer = call.integer("outer", 1);
      numbering.inner = total / numbering.outer / rows;
    }
  }

  Draw draw(const Launch &launch) const {
    return Draw::of(launch.at<const double>(operand + 1), *launch.at<const int64_t>(operand + 2));
  }

  /// Calls visit(place, number, count) for the elements [at, end).
  template <typename Visit> void eachRun(const Launch &launch, int64_t at, int64_t end, Visit visit) const {
    const auto *numbers = launch.at<const int64_t>(operand);
    while (at < end) {
      if (rows == 0)
        return visit(at, static_cast<uint64_t>(at), end - at);
      int64_t row = at / numbering.inner % rows, part = at / numbering.inner / rows, within = at % numbering.inner;
      const uint64_t number = numbering.first(part, numbers[row]) + static_cast<uint64_t>(within);
      int64_t count = numbering.inner - within;
      while (numbering.outer == 1 && count < end - at && numbers[row + 1] == numbers[row] + 1)
        count += numbering.inner, ++row;
      count = std::min(count, end - at);
      visit(at, number, count);
      at += count;
    }
  }

  /// The words of elements from `number` on; `room` has kRoom.
  static const uint32_t *words(const Draw &draw, uint64_t number, int64_t count, uint32_t *room) {
    const auto before = static_cast<int64_t>(number % 4);
    HWY_DYNAMIC_DISPATCH(makeWords)(draw, number / 4, ceilDivide(before + count, 4), room);
    return room + before;
  }

  /// Calls visit(first, end) for chunks of at most kRun elements, on all threads.
  template <typename Visit> void inChunks(const Launch &launch, Visit visit) const {
    launch.pool.parallelFor(ceilDivide(total, kRun),
                            [&](int64_t chunk) { visit(chunk * kRun, std::min(total, (chunk + 1) * kRun)); });
  }
};

void addTo(float *to, const float *terms, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += terms[i];
}

/// Writes what `make` makes of each run: make(place, number, count, room, to).
template <typename Make> void write(const Launch &launch, const Elements &elements, const RowOut &result, Make make) {
  elements.inChunks(launch, [&](int64_t begin, int64_t end) {
    auto *room = ThreadPool::scratchOf<float>(2 * kRun + kRoom);
    elements.eachRun(launch, begin, end, [&](int64_t place, uint64_t number, int64_t count) {
      float *made = result.adds(launch) ? room : result.place(launch, place, room);
      make(place, number, count, room + kRun, made);
      if (result.adds(launch))
        addTo(result.place(launch, place, room), made, count);
      result.finish(launch, place, count, made);
    });
  });
}

struct Dropout {
  Elements elements;
  uint64_t least;
  float scale;
  RowIn x;
  RowOut result;

  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(2 * kRun + kRoom)}; }

  Status operator()(const Launch &launch) const {
    const Draw draw = elements.draw(launch);
    write(launch, elements, result, [&](int64_t place, uint64_t number, int64_t count, float *room, float *to) {
      const float *in = x.at(launch, place, count, room);
      if (!draw.trains || least > UINT32_MAX) {
        for (int64_t i = 0; i < count; ++i)
          to[i] = draw.trains ? 0.0f : in[i];
        return;
      }
      const uint32_t *words = Elements::words(draw, number, count, reinterpret_cast<uint32_t *>(room + kRun));
      HWY_DYNAMIC_DISPATCH(keep)(in, words, static_cast<uint32_t>(least), scale, count, to);
    });
    return {};
  }
};

struct Random {
  enum Kind : uint8_t { uniform, normal, keep };
  Elements elements;
  Kind kind;
  uint64_t least;
  RowOut result;

  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(2 * kRun + kRoom)}; }

  /// Numbers of whole pairs, and then those that are asked for.
  static void normals(const Draw &draw, uint64_t number, int64_t count, float *room, float *to) {
    const auto before = static_cast<int64_t>(number % 2);
    const int64_t pairs = ceilDivide(before + count, 2) * 2;
    const uint32_t *words = Elements::words(draw, number - static_cast<uint64_t>(before), pairs,
                                            reinterpret_cast<uint32_t *>(room + kRun + 2));
    HWY_DYNAMIC_DISPATCH(normals)(words, pairs, room);
    std::copy_n(room + before, count, to);
  }

  Status operator()(const Launch &launch) const {
    const Draw draw = elements.draw(launch);
    write(launch, elements, result, [&](int64_t, uint64_t number, int64_t count, float *room, float *to) {
      if (kind == normal)
        return normals(draw, number, count, room, to);
      const uint32_t *words = Elements::words(draw, number, count, reinterpret_cast<uint32_t *>(room + kRun));
      if (kind == uniform)
        HWY_DYNAMIC_DISPATCH(uniforms)(words, count, to);
      else
        for (int64_t i = 0; i < count; ++i)
          to[i] = !draw.trains || words[i] >= least ? 1.0f : 0.0f;
    });
    return {};
  }
};

Result<Run> prepareDropout(const Signature &call) {
  const double ratio = call.real("ratio");
  return Run(Dropout{Elements(call, 1, call.operands[0]), dropBelow(ratio), keptScale(ratio), RowIn(call, 0),
                     RowOut(call, 4)});
}

Result<Run> prepareRandom(const Signature &call) {
  const std::string kind = call.text("kind");
  return Run(Random{Elements(call, 0, call.operands[3]),
                    kind == "normal" ? Random::normal
                    : kind == "keep" ? Random::keep
                                     : Random::uniform,
                    dropBelow(call.real("ratio")), RowOut(call, 3)});
}

constexpr Entry kEntries[] = {{"dropout", prepareDropout}, {"random", prepareRandom}};

} // namespace

std::span<const Entry> randomEntries() { return kEntries; }

} // namespace mt::kernels::cpu
#endif
