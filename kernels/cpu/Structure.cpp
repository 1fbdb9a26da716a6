// Kernels that move elements by position: constant, iota, cast, copy, transpose, broadcast, slice, pad, concat.
#include "kernels/cpu/Producer.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace mt::kernels::cpu {
namespace {

struct Unverified {
  Status verify(const Launch &) const { return {}; }
};

template <typename C> struct ViewSource : Unverified {
  View view;
  LoadRow<C> load;
  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    view.read(load, launch.operands[0], begin, count, out);
  }
};

Result<Run> prepareView(const Signature &call, const View &view) {
  DType type = call.operands[0].type;
  return withArithmetic(type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(call, ViewSource<C>{{}, view, loader<C>(type)});
  });
}

Result<Run> prepareCopy(const Signature &call) {
  int64_t elements = call.operands[0].elements();
  return prepareView(call, View({elements}, {1}));
}

Result<Run> prepareTranspose(const Signature &call) {
  Dims strides = rowMajor(call.operands[0].dims), dims, steps;
  for (int64_t from : call.integers("permutation")) {
    dims.push_back(call.operands[0].dims[static_cast<size_t>(from)]);
    steps.push_back(strides[static_cast<size_t>(from)]);
  }
  MT_ASSIGN(const Run moved, prepareView(call, View(dims, steps)));
  return byTiles(call, moved);
}

Result<Run> prepareBroadcast(const Signature &call) {
  return prepareView(call, View::broadcast(call.operands[0].dims, call.operands[1].dims));
}

Result<Run> prepareSlice(const Signature &call) {
  Dims own = rowMajor(call.operands[0].dims), starts = call.integers("starts"), strides = call.integers("strides");
  int64_t offset = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    offset += starts[i] * own[i];
    own[i] *= strides[i];
  }
  return prepareView(call, View(call.integers("sizes"), own, offset));
}

template <typename C> struct ConstantSource : Unverified {
  std::vector<C> values;
  void produce(const Launch &, int64_t begin, int64_t count, C *out) const {
    if (values.size() == 1)
      std::fill(out, out + count, values[0]);
    else
      std::copy(values.begin() + begin, values.begin() + begin + count, out);
  }
};

/// A number of an attribute; what an integer cannot hold becomes its nearest.
template <typename C> C number(double value) {
  constexpr double kMost = 9223372036854774784.0; // the largest double below 2^63
  if constexpr (std::is_floating_point_v<C>)
    return static_cast<C>(value);
  else
    return std::isnan(value) ? 0 : static_cast<C>(std::clamp(value, -kMost, kMost));
}

template <typename C> std::vector<C> numbers(const Attribute &value) {
  std::vector<C> list;
  if (auto one = std::get_if<int64_t>(&value))
    list.push_back(static_cast<C>(*one));
  if (auto one = std::get_if<double>(&value))
    list.push_back(number<C>(*one));
  if (auto many = std::get_if<std::vector<int64_t>>(&value))
    list.assign(many->begin(), many->end());
  if (auto many = std::get_if<std::vector<double>>(&value))
    for (double one : *many)
      list.push_back(number<C>(one));
  return list;
}

Result<Run> prepareConstant(const Signature &call) {
  return withArithmetic(call.operands[0].type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(call, ConstantSource<C>{{}, numbers<C>(call.attributes.find("value")->second)});
  });
}

template <typename C> struct IotaSource : Unverified {
  int64_t size, inner;
  double start, step;
  void produce(const Launch &, int64_t begin, int64_t count, C *out) const {
    for (int64_t i = 0; i < count; ++i)
      out[i] = number<C>(start + step * static_cast<double>((begin + i) / inner % size));
  }
};

Result<Run> prepareIota(const Signature &call) {
  const Dims &dims = call.operands[0].dims;
  size_t at = static_cast<size_t>(call.integer("dimension"));
  return withArithmetic(call.operands[0].type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    IotaSource<C> source{{}, dims[at], rowMajor(dims)[at], call.real("start"), call.real("step", 1)};
    return produceWith<C>(call, source);
  });
}

/// Rows of the last dimension: a row that no row of the operand falls on is all `value`.
template <typename C> struct PadSource : Unverified {
  Dims from, own, to, low, step; ///< operand dims and strides; result dims; first place and distance of elements
  C value;
  LoadRow<C> load;

  /// Offset of the operand's row that falls on `row` of the result; -1: none.
  int64_t operandRow(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = to.size() - 1; i-- > 0; row /= to[i]) {
      int64_t place = row % to[i] - low[i];
      if (place < 0 || place % step[i] != 0 || place / step[i] >= from[i])
        return -1;
      offset += place / step[i] * own[i];
      if (i == 0)
        break;
    }
    return offset;
  }

  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    std::fill(out, out + count, value);
    int64_t width = to.back(), gap = step.back();
    for (int64_t done = 0; done < count;) {
      int64_t column = (begin + done) % width, run = std::min(width - column, count - done);
      int64_t offset = operandRow((begin + done) / width);
      const auto before = [&](int64_t end) { // elements whose columns are before `end`
        return std::clamp<int64_t>(ceilDivide(std::max<int64_t>(0, end - low.back()), gap), 0, from.back());
      };
      if (offset >= 0)
        place(launch, offset, before(column), before(column + run), out + done + low.back() - column);
      done += run;
    }
  }

  /// Elements [first, last) of the operand's row that begins at `offset`, in a row of the result.
  void place(const Launch &launch, int64_t offset, int64_t first, int64_t last, C *row) const {
    constexpr int64_t kTogether = 64;
    C held[kTogether];
    const int64_t gap = step.back();
    for (int64_t i = first, many; i < last; i += many) {
      many = gap == 1 ? last - i : std::min(kTogether, last - i);
      load(launch.operands[0], offset + i, 1, many, gap == 1 ? row + i : held);
      for (int64_t j = 0; j < many && gap > 1; ++j)
        row[(i + j) * gap] = held[j];
    }
  }
};

Result<Run> preparePad(const Signature &call) {
  Dims dims = call.operands[0].dims, low = call.integers("low"), high = call.integers("high"),
       step = call.integers("interior"), to(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    to[i] = low[i] + high[i] + dims[i] + (dims[i] - 1) * step[i];
    ++step[i];
  }
  if (dims.empty())
    return prepareCopy(call);
  return withArithmetic(call.operands[0].type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    PadSource<C> source{
        {}, dims, rowMajor(dims), to, low, step, number<C>(call.real("value")), loader<C>(call.operands[0].type)};
    return produceWith<C>(call, source);
  });
}

/// The result as rows of all inputs' columns: a column is `axis` and everything inside it.
template <typename C> struct ConcatSource : Unverified {
  std::vector<int64_t> starts; ///< first column of each input, then their number
  LoadRow<C> load;
  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    int64_t width = starts.back();
    for (int64_t done = 0; done < count;) {
      int64_t row = (begin + done) / width, column = (begin + done) % width;
      size_t input = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), column) - starts.begin() - 1);
      int64_t own = starts[input + 1] - starts[input], run = std::min(starts[input + 1] - column, count - done);
      load(launch.operands[input], row * own + column - starts[input], 1, run, out + done);
      done += run;
    }
  }
};

Result<Run> prepareConcat(const Signature &call) {
  size_t axis = static_cast<size_t>(call.integer("axis"));
  std::vector<int64_t> starts = {0};
  for (size_t i = 0; i + 1 < call.operands.size(); ++i) {
    const Dims &dims = call.operands[i].dims;
    starts.push_back(starts.back() + dims[axis] * rowMajor(dims)[axis]);
  }
  return withArithmetic(call.operands[0].type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(call, ConcatSource<C>{{}, starts, loader<C>(call.operands[0].type)});
  });
}

constexpr Entry kEntries[] = {
    {"constant", prepareConstant},   {"iota", prepareIota},           {"cast", prepareCopy},   {"copy", prepareCopy},
    {"transpose", prepareTranspose}, {"broadcast", prepareBroadcast}, {"slice", prepareSlice}, {"pad", preparePad},
    {"concat", prepareConcat}};

} // namespace

std::span<const Entry> structureEntries() { return kEntries; }

} // namespace mt::kernels::cpu
