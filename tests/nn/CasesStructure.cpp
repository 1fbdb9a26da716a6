// Cases of operations that move, repeat, sum and look up elements.
#include "tests/nn/GradientCheck.h"

#include <numeric>

using namespace mlir;

namespace mt::nn::test {
namespace {

std::string textOf(const Index &values) {
  std::string text = "[";
  for (int64_t value : values)
    text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}
SmallVector<Value> one(Value value) { return {value}; }
using Shapes = std::vector<std::pair<Index, Index>>;

template <typename Op> void addViews(Cases &cases, const std::string &group, const Shapes &shapes) {
  for (const auto &[from, to] : shapes)
    cases[group].push_back({textOf(from) + " to " + textOf(to), {real(from)}, [to = to](Graph g) {
                              return one(g.make<Op>(tensorOf(to, getElementTypeOrSelf(g.in[0].getType())), g.in[0]));
                            }});
}

/// Every permutation of up to four dimensions.
void addTransposes(Cases &cases) {
  const Index sizes{2, 3, 1, 4};
  for (size_t rank = 0; rank <= 4; ++rank) {
    Index order(rank), shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    do
      cases["transpose"].push_back({textOf(order), {real(shape)}, [order](Graph g) {
                                      return one(g.make<TransposeOp>(g.in[0], ArrayRef<int64_t>(order)));
                                    }});
    while (std::next_permutation(order.begin(), order.end()));
  }
}

struct Range {
  int64_t start, size, stride;
};
void addSlice(Cases &cases, const Index &shape, const std::vector<Range> &ranges) {
  Index starts, sizes, strides;
  for (const Range &range : ranges) {
    starts.push_back(range.start);
    sizes.push_back(range.size);
    strides.push_back(range.stride);
  }
  bool empty = llvm::is_contained(sizes, 0);
  cases["slice"].push_back(
      {textOf(shape) + " from " + textOf(starts) + " by " + textOf(strides) + " of " + textOf(sizes),
       {real(shape)},
       [=](Graph g) {
         return one(
             g.make<SliceOp>(g.in[0], ArrayRef<int64_t>(starts), ArrayRef<int64_t>(sizes), ArrayRef<int64_t>(strides)));
       },
       false,
       empty});
}
void addSlices(Cases &cases) {
  const std::vector<Range> ranges = {{0, 7, 1},  {2, 3, 1},  {6, 1, 1},  {0, 4, 2},  {1, 3, 2}, {1, 2, 3},
                                     {6, 7, -1}, {5, 3, -2}, {0, 1, -1}, {4, 2, -4}, {3, 1, 5}, {3, 0, 1}};
  for (const Range &first : ranges) {
    addSlice(cases, {7}, {first});
    for (const Range &second : ranges)
      addSlice(cases, {7, 7}, {first, second});
  }
  addSlice(cases, {}, {});
  addSlice(cases, {2, 7, 3}, {{1, 1, 1}, {6, 3, -3}, {0, 2, 2}});
}

void addPad(Cases &cases, const Index &shape, const Index &low, const Index &high, const Index &interior) {
  for (double value : {0.0, 1.5})
    cases["pad"].push_back({textOf(shape) + " low " + textOf(low) + " high " + textOf(high) + " interior " +
                                textOf(interior) + " with " + std::to_string(value),
                            {real(shape)},
                            [=](Graph g) {
                              return one(g.make<PadOp>(g.in[0], ArrayRef<int64_t>(low), ArrayRef<int64_t>(high),
                                                       ArrayRef<int64_t>(interior), APFloat(value)));
                            }});
}
void addPads(Cases &cases) {
  addPad(cases, {}, {}, {}, {});
  for (int64_t low : {0, 1, 2})
    for (int64_t high : {0, 3})
      for (int64_t interior : {0, 1, 2}) {
        addPad(cases, {3}, {low}, {high}, {interior});
        addPad(cases, {1}, {low}, {high}, {interior});
        addPad(cases, {2, 3}, {1, low}, {high, 0}, {0, interior});
        addPad(cases, {2, 3}, {low, 0}, {1, high}, {interior, 1});
      }
}

void addConcats(Cases &cases) {
  auto add = [&](const std::vector<Index> &shapes, int64_t axis) {
    Case made{"along " + std::to_string(axis), {}, [axis](Graph g) {
                return one(g.make<ConcatOp>(SmallVector<Value>(g.in), axis));
              }};
    for (const Index &shape : shapes) {
      made.inputs.push_back(llvm::is_contained(shape, 0) ? fixed(shape) : real(shape));
      made.name += " " + textOf(shape);
    }
    cases["concat"].push_back(made);
  };
  add({{2}}, 0);
  add({{2}, {3}, {1}}, 0);
  for (int64_t axis : {0, 1, 2}) {
    Index first{2, 3, 2}, second = with(first, axis, 1), third = with(first, axis, 4), none = with(first, axis, 0);
    add({first, second}, axis);
    add({first, second, third}, axis);
    add({first, none, third}, axis);
  }
  cases["concat"].push_back({"of one thing twice", {real({2, 3})}, [](Graph g) {
                               return one(g.make<ConcatOp>(SmallVector<Value>{g.in[0], g.in[0]}, int64_t(1)));
                             }});
}

/// Every set of axes of up to three dimensions.
void addReductions(Cases &cases) {
  const Index sizes{2, 3, 4};
  for (StringRef kind : {"sum", "mean", "max", "min", "prod"})
    for (size_t rank = 0; rank <= 3; ++rank)
      for (unsigned set = 0; set < 1u << rank; ++set)
        for (bool keep : {false, true}) {
          Index shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank)), axes;
          for (size_t d = 0; d < rank; ++d)
            if (set >> d & 1)
              axes.push_back(int64_t(d));
          cases["reduce"].push_back(
              {kind.str() + " of " + textOf(shape) + " along " + textOf(axes) + (keep ? " kept" : ""),
               {apart(shape)},
               [=](Graph g) { return one(g.make<ReduceOp>(g.in[0], kind, ArrayRef<int64_t>(axes), keep)); }});
        }
  for (StringRef kind : {"sum", "mean", "max", "min", "prod"})
    cases["reduce"].push_back({kind.str() + " in 32 bits", {apart({2, 3})}, [=](Graph g) {
                                 return one(in32Bits(g.make<ReduceOp>(g.in[0], kind, ArrayRef<int64_t>{1}, false)));
                               }});
  for (StringRef kind : {"max", "min"})
    for (int64_t axis : {0, 1, 2})
      cases["reduce"].push_back(
          {"first " + kind.str() + " along " + std::to_string(axis), {apart(sizes)}, [=](Graph g) {
             return one(g.make<ReduceOp>(g.in[0], kind, ArrayRef<int64_t>{axis}, axis == 1, true));
           }});
  // One zero, and two, among the factors.
  for (bool keep : {false, true})
    cases["reduce"].push_back(
        {std::string("prod with zeros") + (keep ? " kept" : ""),
         {given({3, 3}, {0.5, 0, -2, 0, 1.5, 0, 1.2, 0.3, -0.7})},
         [=](Graph g) { return one(g.make<ReduceOp>(g.in[0], "prod", ArrayRef<int64_t>{1}, keep)); }});
}

void addCumsums(Cases &cases) {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true})
      for (const Index &shape : std::vector<Index>{{5}, {2, 3}, {2, 3, 2}})
        for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
          cases["cumsum"].push_back(
              {textOf(shape) + " along " + std::to_string(axis) + (exclusive ? " exclusive" : "") +
                   (reverse ? " reverse" : ""),
               {real(shape)},
               [=](Graph g) { return one(g.make<CumsumOp>(g.in[0], axis, exclusive, reverse)); }});
}

/// Indices that repeat, count from the end, and leave entries out.
void addLookups(Cases &cases) {
  for (const Index &indices : std::vector<Index>{{}, {1}, {5}, {2, 3}, {1, 2, 2}}) {
    for (const Index &shape : std::vector<Index>{{4}, {4, 3}, {2, 4, 3}})
      for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
        for (int64_t low : {int64_t(0), -shape[axis]})
          cases["gather"].push_back({textOf(shape) + " along " + std::to_string(axis) + " at " + textOf(indices) +
                                         (low < 0 ? " from the end" : ""),
                                     {real(shape), integers(indices, low, low < 0 ? 0 : shape[axis])},
                                     [=](Graph g) { return one(g.make<GatherOp>(g.in[0], g.in[1], axis)); }});
    cases["embedding"].push_back({"rows at " + textOf(indices), {real({4, 3}), integers(indices, 0, 4)}, [](Graph g) {
                                    return one(g.make<EmbeddingOp>(g.in[0], g.in[1], IntegerAttr()));
                                  }});
  }
}

/// Operations without gradient: what they give, against their kernels.
void addFlats(Cases &cases) {
  for (int64_t axis : {0, 1})
    cases["iota"].push_back({"along " + std::to_string(axis), {fixed({2, 3})}, [=](Graph g) {
                               Value line = g.make<IotaOp>(g.in[0].getType(), axis, APFloat(-0.5), APFloat(1.5));
                               return one(g.make<MulOp>(g.in[0], line));
                             }});
  cases["copy"].push_back({"of a matrix", {fixed({2, 3})}, [](Graph g) { return one(g.make<CopyOp>(g.in[0])); }});
  cases["constant"].push_back({"of three", {fixed({3})}, [](Graph g) {
                                 auto type = cast<RankedTensorType>(g.in[0].getType());
                                 SmallVector<Attribute> values;
                                 for (double value : {0.5, -2.0, 4.0})
                                   values.push_back(FloatAttr::get(type.getElementType(), value));
                                 Value three = g.make<ConstantOp>(DenseElementsAttr::get(type, values));
                                 return one(g.make<MulOp>(g.in[0], three));
                               }});
}

} // namespace

/// Numbers of every width, with one scale, one for each entry of an axis, and one for blocks of it, the last cut short.
void addDequantizes(Cases &cases) {
  struct Scales {
    Index shape;
    int64_t axis, block;
  };
  for (int64_t bits : {2, 4, 8})
    for (const Scales &s : {Scales{{}, 0, 1}, Scales{{3}, 0, 1}, Scales{{5}, 1, 1}, Scales{{3, 2, 3}, 1, 3},
                            Scales{{2, 5, 3}, 0, 2}, Scales{{3, 5, 2}, 2, 2}})
      for (bool zeros : {false, true}) {
        Input numbers = integers({(3 * 5 * 3 * bits + 7) / 8}, 0, 256);
        numbers.element = IntegerType::get(&caseContext(), 8, IntegerType::Unsigned);
        std::vector<Input> inputs{numbers, real(s.shape)};
        if (zeros)
          inputs.push_back(real(s.shape));
        cases["dequantize"].push_back(
            {std::to_string(bits) + " bits, scales " + textOf(s.shape) + (zeros ? ", zeros" : ""), inputs,
             [=](Graph g) {
               Type element = getElementTypeOrSelf(g.in[1].getType());
               return one(g.make<DequantizeOp>(tensorOf({3, 5, 3}, element), g.in[0], g.in[1],
                                               zeros ? g.in[2] : Value(), bits, bits != 8, int64_t(zeros ? 0 : 1),
                                               s.axis, s.block, nullptr));
             }});
      }
  for (int64_t bits : {2, 4}) {
    Input numbers = integers({(3 * 5 * 3 * bits + 7) / 8}, 0, 256);
    numbers.element = IntegerType::get(&caseContext(), 8, IntegerType::Unsigned);
    cases["dequantize"].push_back(
        {std::to_string(bits) + " bits, levels", {numbers, real({3, 5, 2})}, [=](Graph g) {
           llvm::SmallVector<double> levels;
           for (int64_t i = 0; i < int64_t(1) << bits; ++i)
             levels.push_back(static_cast<double>(i * i) / 16 - 1);
           return one(g.make<DequantizeOp>(tensorOf({3, 5, 3}, getElementTypeOrSelf(g.in[1].getType())), g.in[0], g.in[1],
                                           Value(), bits, false, int64_t(0), int64_t(2), int64_t(2),
                                           DenseF64ArrayAttr::get(&caseContext(), levels)));
         }});
  }
}

void addStructureCases(Cases &cases) {
  // What running statistics get is their next value, no slope: the reference case `normalized` holds it.
  cases["running_statistic"].push_back({"of a batch", {real({5}), fixed({5}), scalars()}, [](Graph g) {
                                          return one(
                                              g.make<RunningStatisticOp>(g.in[0], g.in[1], g.in[2], APFloat(0.9)));
                                        }});
  addDequantizes(cases);
  addViews<ReshapeOp>(cases, "reshape",
                      {{{2, 3}, {3, 2}}, {{6}, {2, 3}}, {{2, 3}, {6}}, {{1}, {}}, {{}, {1, 1}}, {{2, 3}, {2, 1, 3}}});
  addViews<BroadcastOp>(cases, "broadcast",
                        {{{}, {3}},
                         {{3}, {2, 3}},
                         {{2, 1}, {2, 3}},
                         {{1, 3}, {2, 3}},
                         {{1, 1}, {2, 3}},
                         {{2, 1, 3}, {2, 2, 2, 3}},
                         {{2, 3}, {2, 3}},
                         {{1}, {1, 1}}});
  addTransposes(cases);
  addSlices(cases);
  addPads(cases);
  addConcats(cases);
  addReductions(cases);
  addCumsums(cases);
  addLookups(cases);
  addFlats(cases);
}

} // namespace mt::nn::test
