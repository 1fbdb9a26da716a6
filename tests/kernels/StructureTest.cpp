// Kernels that move elements, against loops over indices.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mt::kernels::test {
namespace {

using Index = std::vector<int64_t>;

/// Calls visit(index) for every index of `dims` in row-major order.
template <typename Visit> void each(const Dims &dims, Visit visit) {
  Index index(dims.size(), 0);
  while (true) {
    visit(index);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

double at(const Tensor &tensor, const Index &index) {
  int64_t place = 0;
  for (size_t i = 0; i < index.size(); ++i)
    place = place * tensor.dims[i] + index[i];
  return tensor.values[static_cast<size_t>(place)];
}

template <typename Source> Values build(const Dims &dims, Source source) {
  Values out;
  each(dims, [&](const Index &index) { out.push_back(source(index)); });
  return out;
}

TEST(Structure, ConstantAndIota) {
  using I = std::vector<int64_t>;
  expectResults({"constant", {{"value", int64_t{3}}}, {}, {{DType::f32, {5, 7}}}}, {Values(35, 3)}, 0);
  expectResults({"constant", {{"value", 0.5}}, {}, {{DType::f64, {}}}}, {{0.5}}, 0);
  expectResults({"constant", {{"value", I{4, -5, 6}}}, {}, {{DType::i64, {3}}}}, {{4, -5, 6}}, 0);
  expectResults({"constant", {{"value", I{1, 0, 1}}}, {}, {{DType::boolean, {3}}}}, {{1, 0, 1}}, 0);
  expectResults({"iota", {{"dimension", int64_t{1}}}, {}, {{DType::i64, {2, 3, 2}}}},
                {{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}}, 0);
  expectResults({"iota", {{"dimension", int64_t{0}}, {"start", 1.5}, {"step", -0.5}}, {}, {{DType::f32, {4}}}},
                {{1.5, 1, 0.5, 0}}, 0);
  for (DType type : {DType::f32, DType::f64}) {
    expectResults({"constant", {{"value", std::vector<double>{0.5, -2}}}, {}, {{type, {2}}}}, {{0.5, -2}}, 0);
    expectResults({"iota", {{"dimension", int64_t{0}}, {"start", 1.5}, {"step", -0.5}}, {}, {{type, {4}}}},
                  {{1.5, 1, 0.5, 0}}, 0);
  }
}

TEST(Structure, CastRoundsAndTruncates) {
  const double inf = std::numeric_limits<double>::infinity();
  Tensor x = tensor(DType::f32, {8}, {1.75, -1.75, 0, 300, -0.25, 1e30, -1e30, std::nan("")});
  expectResults({"cast", {}, {x}, {{DType::i32, {8}}}}, {{1, -1, 0, 300, 0, 2147483647, -2147483648.0, 0}}, 0);
  expectResults({"cast", {}, {x}, {{DType::boolean, {8}}}}, {{1, 1, 0, 1, 1, 1, 1, 1}}, 0);
  Tensor y = tensor(DType::f32, {6}, {1.00390625, 1.01171875, 3.4e38, -inf, 1e-40, 65519});
  expectResults({"cast", {}, {y}, {{DType::bf16, {6}}}}, {{1, 1.015625, inf, -inf, 1e-40, 65536}}, 1e-5);
  expectResults({"cast", {}, {y}, {{DType::f16, {6}}}}, {{1.00390625, 1.01171875, inf, -inf, 0, 65504}}, 0);
  for (DType type : {DType::f16, DType::bf16, DType::f64, DType::i64, DType::i16, DType::i8, DType::u8}) {
    Tensor small = integers({3001}, 0, 120, 3, DType::f32);
    expectResults({"cast", {}, {small}, {{type, {3001}}}}, {small.values}, 0);
    expectResults({"copy", {}, {tensor(type, {3001}, small.values)}, {{DType::f32, {3001, 1}}}}, {small.values}, 0);
  }
}

/// Halves of every kind, against the compiler's own conversion.
TEST(Structure, HalfPrecisionConversions) {
  Values all;
  for (double scale : {1e-9, 3e-8, 1e-6, 6e-5, 1e-3, 1.0, 1e3, 7e4})
    for (double value : random({500}, 9, scale).values)
      all.push_back(value);
  Values expected;
  for (double value : all)
    expected.push_back(static_cast<double>(static_cast<_Float16>(static_cast<float>(value))));
  Tensor x = tensor(DType::f32, {static_cast<int64_t>(all.size())}, all);
  expectResults({"cast", {}, {x}, {{DType::f16, x.dims}}}, {expected}, 0);
  expectResults({"cast", {}, {tensor(DType::f16, x.dims, expected)}, {{DType::f32, x.dims}}}, {expected}, 0);
}

TEST(Structure, Copy) {
  Tensor x = random({100003}, 1);
  expectResults({"copy", {}, {x}, {{DType::f32, {100003}}}}, {x.values}, 0);
}

void testTranspose(const Tensor &x, const Index &permutation) {
  Dims dims;
  for (int64_t from : permutation)
    dims.push_back(x.dims[static_cast<size_t>(from)]);
  Values expected = build(dims, [&](const Index &index) {
    Index from(index.size());
    for (size_t i = 0; i < index.size(); ++i)
      from[static_cast<size_t>(permutation[i])] = index[i];
    return at(x, from);
  });
  expectResults({"transpose", {{"permutation", permutation}}, {x}, {{x.type, dims}}}, {expected}, 0);
}

TEST(Structure, Transpose) {
  for (const Index &permutation : {Index{0, 1, 2, 3}, Index{0, 2, 1, 3}, Index{3, 2, 1, 0}, Index{0, 1, 3, 2}})
    for (DType type : {DType::f32, DType::i64})
      testTranspose(integers({3, 5, 7, 129}, -99, 99, 1, type), permutation);
  for (DType type : {DType::u8, DType::bf16, DType::f32, DType::i64}) // tiles of every size
    testTranspose(integers({3, 65, 40}, 0, 99, 1, type), {0, 2, 1});
}

/// Small dimensions beside large ones: rows and columns of several, elements that stay together.
TEST(Structure, TransposePatches) {
  for (DType type : {DType::u8, DType::bf16, DType::f32, DType::i64})
    for (int64_t side : {1, 2, 3, 4}) {
      const Tensor image = integers({2, 19, 5, side, 7, side}, 0, 99, 1, type),
                   patches = integers({2, 5, 7, 19, side, side}, 0, 99, 1, type);
      testTranspose(image, {0, 2, 4, 1, 3, 5});
      testTranspose(patches, {0, 3, 1, 4, 2, 5});
    }
}

/// Every order of dimensions of several sizes.
TEST(Structure, TransposeInEveryOrder) {
  Index permutation = {0, 1, 2, 3, 4};
  const Tensor bytes = integers({3, 2, 9, 2, 5}, 0, 99, 1, DType::u8),
               halves = integers({2, 17, 1, 3, 4}, 0, 99, 1, DType::bf16),
               words = integers({2, 3, 2, 33, 2}, 0, 99, 1, DType::f32);
  do
    for (const Tensor &x : {bytes, halves, words})
      testTranspose(x, permutation);
  while (std::ranges::next_permutation(permutation).found);
}

TEST(Structure, Broadcast) {
  Tensor x = random({3, 1, 5}, 1);
  Values expected = build({2, 3, 300, 5}, [&](const Index &i) { return at(x, {i[1], 0, i[3]}); });
  expectResults({"broadcast", {}, {x}, {{DType::f32, {2, 3, 300, 5}}}}, {expected}, 0);
  expectResults({"broadcast", {}, {tensor(DType::i32, {}, {4})}, {{DType::i32, {2, 2}}}}, {{4, 4, 4, 4}}, 0);
}

TEST(Structure, Slice) {
  Tensor x = random({6, 50, 9}, 1);
  Index starts = {1, 49, 2}, sizes = {2, 25, 3}, strides = {3, -2, 1};
  Values expected = build(sizes, [&](const Index &i) {
    return at(x, {starts[0] + i[0] * strides[0], starts[1] + i[1] * strides[1], starts[2] + i[2] * strides[2]});
  });
  expectResults({"slice", {{"starts", starts}, {"sizes", sizes}, {"strides", strides}}, {x}, {{DType::f32, sizes}}},
                {expected}, 0);
}

/// Elements of one, two, four and eight bytes, in rows that are whole packs of 16 bytes and in some that are not.
template <typename Visit> void eachWidth(Visit visit) {
  for (DType type : {DType::boolean, DType::bf16, DType::f32, DType::i64, DType::f64})
    for (int64_t inner : {32, 33})
      visit(type, inner);
}

TEST(Structure, PadOfEveryWidth) {
  eachWidth([](DType type, int64_t inner) {
    Tensor x = integers({3, inner}, 0, 2, 1, type);
    Values expected = build({5, inner}, [&](const Index &i) {
      return i[0] == 0 || i[0] == 4 ? 1 : at(x, {i[0] - 1, i[1]});
    });
    Attributes attributes = {{"low", Index{1, 0}}, {"high", Index{1, 0}}, {"interior", Index{0, 0}}, {"value", 1.0}};
    expectResults({"pad", attributes, {x}, {{type, {5, inner}}}}, {expected}, 0);
    expectResults({"constant", {{"value", 1.0}}, {}, {{type, {5, inner}}}}, {Values(static_cast<size_t>(5 * inner), 1)},
                  0);
  });
}

TEST(Structure, Pad) {
  Tensor x = random({4, 60, 5}, 1);
  Index low = {1, 0, 3}, high = {0, 2, 1}, interior = {0, 2, 1};
  Dims dims = {5, 60 + 59 * 2 + 2, 5 + 4 + 4};
  Values expected = build(dims, [&](const Index &i) {
    Index from(3);
    for (size_t d = 0; d < 3; ++d) {
      int64_t place = i[d] - low[d], step = interior[d] + 1;
      if (place < 0 || place % step != 0 || place / step >= x.dims[d])
        return -2.5;
      from[d] = place / step;
    }
    return at(x, from);
  });
  Attributes attributes = {{"low", low}, {"high", high}, {"interior", interior}, {"value", -2.5}};
  expectResults({"pad", attributes, {x}, {{DType::f32, dims}}}, {expected}, 0);
}

TEST(Structure, Concat) {
  for (DType type : {DType::f32, DType::boolean}) {
    int64_t high = type == DType::boolean ? 2 : 90;
    Tensor a = integers({3, 40, 7}, 0, high, 1, type), b = integers({3, 1, 7}, 0, high, 2, type),
           c = integers({3, 99, 7}, 0, high, 3, type);
    Values expected = build({3, 140, 7}, [&](const Index &i) {
      return i[1] < 40 ? at(a, i) : i[1] < 41 ? at(b, {i[0], 0, i[2]}) : at(c, {i[0], i[1] - 41, i[2]});
    });
    expectResults({"concat", {{"axis", int64_t{1}}}, {a, b, c}, {{type, {3, 140, 7}}}}, {expected}, 0);
  }
}

double reduced(const std::string &kind, const Values &values) {
  double result = kind == "prod" ? 1 : kind == "max" ? -INFINITY : kind == "min" ? INFINITY : 0;
  for (double value : values)
    result = kind == "prod"  ? result * value
             : kind == "max" ? std::max(result, value)
             : kind == "min" ? std::min(result, value)
                             : result + value;
  return kind == "mean" ? result / static_cast<double>(values.size()) : result;
}

void testReduce(const Tensor &x, const Index &axes, const std::string &kind, bool keep, double tolerance) {
  SCOPED_TRACE(kind);
  Dims small, shown;
  std::map<Index, Values> groups;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    bool gone = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
    small.push_back(gone ? 1 : x.dims[i]);
    if (!gone || keep)
      shown.push_back(small.back());
  }
  each(x.dims, [&](const Index &index) {
    Index group = index;
    for (int64_t axis : axes)
      group[static_cast<size_t>(axis)] = 0;
    groups[group].push_back(at(x, index));
  });
  Values expected = build(small, [&](const Index &index) { return reduced(kind, groups[index]); });
  expectResults({"reduce", {{"kind", kind}, {"axes", axes}, {"keepDims", int64_t{keep}}}, {x}, {{x.type, shown}}},
                {expected}, tolerance);
}

TEST(Structure, Reduce) {
  for (const char *kind : {"sum", "mean", "max", "min", "prod"})
    for (const Index &axes :
         {Index{}, Index{0}, Index{1}, Index{2}, Index{0, 2}, Index{1, 2}, Index{0, 1, 2}, Index{0, 1}})
      for (bool keep : {false, true}) {
        testReduce(random({5, 37, 23}, 1, 1.1), axes, kind, keep, 1e-6);
        testReduce(random({5, 7, 9}, 1, 1.1, DType::f64), axes, kind, keep, 1e-12);
      }
  testReduce(integers({4, 5, 6}, -3, 4, 1), {1}, "sum", false, 0);
  testReduce(integers({4, 5, 6}, -3, 4, 1), {0, 2}, "max", true, 0);
  testReduce(random({1024, 700}, 2), {0}, "sum", false, 1e-6);
  testReduce(random({3, 100000}, 2), {1}, "mean", false, 1e-6);
  for (auto [type, tolerance] : {std::pair{DType::f32, 1e-6}, {DType::bf16, 0x1p-8}}) { // columns in several chunks
    testReduce(random({6000, 16}, 2, 1, type), {0}, "sum", false, tolerance);
    testReduce(random({2, 3000, 24}, 2, 1, type), {1}, "mean", false, tolerance);
    testReduce(random({2, 3000, 24}, 2, 1, type), {1}, "max", false, 0);
  }
}

TEST(Structure, Cumsum) {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true})
      for (DType type : {DType::f32, DType::f64, DType::i64}) {
        Tensor x = integers({3, 11, 300}, -5, 6, 1, type);
        Values expected = build(x.dims, [&](const Index &index) {
          double sum = 0;
          for (int64_t i = 0; i < 11; ++i)
            if (reverse ? i > index[1] - !exclusive : i < index[1] + !exclusive)
              sum += at(x, {index[0], i, index[2]});
          return sum;
        });
        Attributes attributes = {
            {"axis", int64_t{1}}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}};
        expectResults({"cumsum", attributes, {x}, {{type, x.dims}}}, {expected}, 0);
      }
}

TEST(Indexing, Gather) {
  for (DType width : {DType::i64, DType::i32})
    for (int64_t axis : {0, 1, 2}) {
      Tensor data = random({5, 6, 70}, 1);
      int64_t size = data.dims[static_cast<size_t>(axis)];
      Tensor indices = integers({3, 4}, -size, size, 2, width);
      Dims dims(data.dims.begin(), data.dims.begin() + axis);
      dims.insert(dims.end(), {3, 4});
      dims.insert(dims.end(), data.dims.begin() + axis + 1, data.dims.end());
      size_t a = static_cast<size_t>(axis);
      auto source = [&](const Index &i) {
        Index from(i.begin(), i.begin() + axis);
        int64_t index = static_cast<int64_t>(at(indices, {i[a], i[a + 1]}));
        from.push_back(index < 0 ? index + size : index);
        from.insert(from.end(), i.begin() + axis + 2, i.end());
        return from;
      };
      Values expected = build(dims, [&](const Index &i) { return at(data, source(i)); });
      expectResults({"gather", {{"axis", axis}}, {data, indices}, {{DType::f32, dims}}}, {expected}, 0);
      Tensor gradient = random(dims, 3);
      std::map<Index, double> sums;
      each(dims, [&](const Index &i) { sums[source(i)] += at(gradient, i); });
      Values back = build(data.dims, [&](const Index &i) { return sums[i]; });
      expectResults({"gather_grad", {{"axis", axis}}, {indices, gradient}, {{DType::f32, data.dims}}}, {back}, 1e-6);
    }
}

TEST(Indexing, RowsOfEveryWidth) {
  eachWidth([](DType type, int64_t inner) {
    Tensor data = integers({5, inner}, 0, 2, 1, type), rows = integers({7}, -5, 5, 2),
           places = integers({7, 1}, 0, 5, 3);
    auto row = [&](const Tensor &from, int64_t i) {
      return (static_cast<int64_t>(from.values[static_cast<size_t>(i)]) + 5) % 5;
    };
    Dims dims = {7, inner};
    expectResults({"gather", {{"axis", int64_t{0}}}, {data, rows}, {{type, dims}}},
                  {build(dims,
                         [&](const Index &i) {
                           return at(data, {row(rows, i[0]), i[1]});
                         })},
                  0);
    expectResults({"gather_nd", {{"batchDims", int64_t{0}}}, {data, places}, {{type, dims}}},
                  {build(dims,
                         [&](const Index &i) {
                           return at(data, {row(places, i[0]), i[1]});
                         })},
                  0);
    Tensor each = integers(dims, -5, 5, 4);
    expectResults({"gather_elements", {{"axis", int64_t{0}}}, {data, each}, {{type, dims}}},
                  {build(dims,
                         [&](const Index &i) {
                           return at(data, {row(each, i[0] * inner + i[1]), i[1]});
                         })},
                  0);
  });
}

/// Numbers of each width, whose runs begin and end within bytes and blocks, by scales of every form.
TEST(Dequantize, IsTheFormula) {
  const Dims dims = {3, 70, 37};
  struct Form {
    Dims scales;
    int64_t axis, block;
  };
  for (int64_t bits : {2, 4, 8})
    for (const Form &form :
         {Form{{}, 0, 1}, Form{{70}, 1, 1}, Form{{3, 18, 37}, 1, 4}, Form{{3, 70, 3}, 2, 16}, Form{{7}, 1, 10}})
      for (int64_t isSigned : {0, 1})
        for (DType type : {DType::f32, DType::bf16}) {
          int64_t total = 3 * 70 * 37, low = int64_t{1} << (bits - 1);
          Tensor bytes = integers({(total * bits + 7) / 8}, 0, 255, 1, DType::u8), scales = random(form.scales, 2),
                 zeros = integers(form.scales, 0, 9, 3, DType::f32);
          bool given = isSigned == 0;
          int64_t next = 0;
          Values expected = build(dims, [&](const Index &i) {
            int64_t bit = next++ * bits;
            int64_t number =
                static_cast<int64_t>(bytes.values[static_cast<size_t>(bit / 8)]) >> (bit % 8) & (2 * low - 1);
            if (isSigned && number >= low)
              number -= 2 * low;
            Index from;
            if (form.scales.size() == 3)
              from = i, from[static_cast<size_t>(form.axis)] /= form.block;
            else if (form.scales.size() == 1)
              from = {i[static_cast<size_t>(form.axis)] / form.block};
            return (static_cast<double>(number) - (given ? at(zeros, from) : 3)) * at(scales, from);
          });
          expectResults({"dequantize",
                         {{"bits", bits},
                          {"isSigned", isSigned},
                          {"zero", int64_t{3}},
                          {"axis", form.axis},
                          {"block", form.block}},
                         {bytes, scales, given ? zeros : absent()},
                         {{type, dims}}},
                        {expected}, type == DType::bf16 ? 8e-3 : 1e-6);
        }
}

TEST(Dequantize, LooksUpLevels) {
  const Dims dims = {5, 67};
  for (int64_t bits : {2, 4})
    for (DType type : {DType::f32, DType::bf16}) {
      Tensor bytes = integers({(5 * 67 * bits + 7) / 8}, 0, 255, 1, DType::u8), scales = random({5, 3}, 2);
      std::vector<double> levels(size_t(1) << bits);
      for (size_t i = 0; i < levels.size(); ++i)
        levels[i] = static_cast<double>(i * i) / 16 - 1;
      int64_t next = 0;
      Values expected = build(dims, [&](const Index &i) {
        const int64_t bit = next++ * bits;
        const int64_t number =
            static_cast<int64_t>(bytes.values[static_cast<size_t>(bit / 8)]) >> (bit % 8) & ((1 << bits) - 1);
        return levels[static_cast<size_t>(number)] * at(scales, {i[0], i[1] / 32});
      });
      expectResults({"dequantize",
                     {{"bits", bits}, {"axis", int64_t{1}}, {"block", int64_t{32}}, {"levels", levels}},
                     {bytes, scales, absent()},
                     {{type, dims}}},
                    {expected}, type == DType::bf16 ? 8e-3 : 1e-6);
    }
}

TEST(Indexing, GatherNdAndElements) {
  Tensor data = random({2, 5, 6, 33}, 1), indices = integers({2, 4, 2}, -5, 5, 2);
  Values expected = build({2, 4, 33}, [&](const Index &i) {
    auto wrap = [](double index, int64_t size) { return static_cast<int64_t>(index) + (index < 0 ? size : 0); };
    return at(data, {i[0], wrap(at(indices, {i[0], i[1], 0}), 5), wrap(at(indices, {i[0], i[1], 1}), 6), i[2]});
  });
  expectResults({"gather_nd", {{"batchDims", int64_t{1}}}, {data, indices}, {{DType::f32, {2, 4, 33}}}}, {expected}, 0);
  Tensor table = random({7, 9}, 3), places = integers({4, 8}, -7, 7, 4);
  Values picked = build({4, 8}, [&](const Index &i) {
    int64_t index = static_cast<int64_t>(at(places, i));
    return at(table, {index < 0 ? index + 7 : index, i[1]});
  });
  expectResults({"gather_elements", {{"axis", int64_t{0}}}, {table, places}, {{DType::f32, {4, 8}}}}, {picked}, 0);
}

TEST(Indexing, Embedding) {
  Tensor table = random({50, 129}, 1), ids = integers({3, 41}, 0, 50, 2), gradient = random({3, 41, 129}, 3);
  Values rows = build({3, 41, 129}, [&](const Index &i) {
    return at(table, {static_cast<int64_t>(at(ids, {i[0], i[1]})), i[2]});
  });
  expectResults({"embedding", {}, {table, ids}, {{DType::f32, {3, 41, 129}}}}, {rows}, 0);
  Values sums(50 * 129, 0);
  each(gradient.dims, [&](const Index &i) {
    sums[static_cast<size_t>(static_cast<int64_t>(at(ids, {i[0], i[1]})) * 129 + i[2])] += at(gradient, i);
  });
  expectResults({"embedding_grad", {}, {ids, gradient}, {{DType::f32, {50, 129}}}}, {sums}, 1e-6);
}

void testEmbeddingGrad(const Tensor &ids, int64_t size, int64_t width) {
  Tensor gradient = random({ids.elements(), width}, 3);
  Values sums(static_cast<size_t>(size * width), 0);
  each(gradient.dims, [&](const Index &i) {
    sums[static_cast<size_t>(static_cast<int64_t>(at(ids, {i[0]})) * width + i[1])] += at(gradient, i);
  });
  expectResults({"embedding_grad", {}, {ids, gradient}, {{DType::f32, {size, width}}}}, {sums}, 1e-5);
  gradient = random(gradient.dims, 4, 1, DType::bf16);
  for (DType result : {DType::f32, DType::bf16})
    expectNarrow({"embedding_grad", {}, {ids, gradient}, {{result, {size, width}}}}, 1, 1e-4);
}

/// More ids than a GPU's block sorts; rows of more than one tile; and one id that is half of all.
TEST(Indexing, EmbeddingGradOfManyIds) {
  testEmbeddingGrad(integers({1500}, 0, 20, 4), 20, 264);
  Tensor ids = integers({2000}, 0, 50, 5, DType::i32);
  for (size_t i = 0; i < ids.values.size(); i += 2)
    ids.values[i] = 7;
  testEmbeddingGrad(ids, 50, 24);
}

TEST(Indexing, OutOfRange) {
  Tensor table = random({5, 3}, 1), bad = tensor(DType::i64, {2}, {1, 5}), negative = tensor(DType::i64, {2}, {1, -1});
  EXPECT_EQ(runError({"embedding", {}, {table, bad}, {{DType::f32, {2, 3}}}}), "index 5 at place 1 is outside [0, 5)");
  EXPECT_EQ(runError({"embedding", {}, {table, negative}, {{DType::f32, {2, 3}}}}),
            "index -1 at place 1 is outside [0, 5)");
  EXPECT_EQ(runError({"gather", {{"axis", int64_t{0}}}, {table, bad}, {{DType::f32, {2, 3}}}}),
            "index 5 at place 1 is outside [-5, 5)");
}

} // namespace
} // namespace mt::kernels::test
