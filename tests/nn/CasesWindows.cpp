// Cases of convolutions, pooling, products with experts, and of what is put at computed places.
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

SmallVector<Value> one(Value value) { return {value}; }

struct Window {
  Index size, strides, dilations, low, high;
  std::string text;
};
const std::vector<Window> kWindows = {
    {{3}, {1}, {1}, {1}, {1}, "3"},
    {{2}, {2}, {1}, {0}, {0}, "2 by 2"},
    {{3}, {2}, {2}, {2}, {3}, "3 by 2 dilated"},
    {{1}, {1}, {1}, {0}, {0}, "1"},
    {{3, 2}, {1, 1}, {1, 1}, {1, 0}, {1, 1}, "3x2"},
    {{2, 3}, {2, 1}, {1, 2}, {0, 2}, {1, 2}, "2x3 by 2x1 dilated"},
    {{3, 3}, {3, 2}, {1, 1}, {0, 1}, {0, 0}, "3x3 by 3x2"},
    {{2, 2, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}, {1, 0, 0}, "2x2x2"},
};
Index imageOf(const Window &window, int64_t batch, int64_t channels) {
  Index image{batch, channels};
  const Index sizes = window.size.size() == 1 ? Index{11} : window.size.size() == 2 ? Index{6, 7} : Index{3, 4, 3};
  image.insert(image.end(), sizes.begin(), sizes.end());
  return image;
}

/// Groups, channels and filters of each.
struct Groups {
  int64_t groups, channels, filters;
};
constexpr Groups kGroups[] = {{1, 1, 1}, {1, 3, 4}, {2, 3, 4}, {3, 1, 1}, {3, 1, 2}, {2, 5, 1}};

Index kernelOf(const Window &window, const Groups &g) {
  Index kernel{g.groups * g.filters, g.channels};
  kernel.insert(kernel.end(), window.size.begin(), window.size.end());
  return kernel;
}
std::string textOf(const Window &window, const Groups &g) {
  return window.text + ", " + std::to_string(g.groups) + " groups of " + std::to_string(g.channels) + " to " +
         std::to_string(g.filters);
}

void addConvolutions(Cases &cases) {
  for (const Window &window : kWindows)
    for (const Groups &g : kGroups)
      for (bool biased : {false, true}) {
        if (biased && g.groups != 2)
          continue;
        std::vector<Input> inputs{real(imageOf(window, 2, g.groups * g.channels)), real(kernelOf(window, g))};
        if (biased)
          inputs.push_back(real({g.groups * g.filters}));
        cases["conv"].push_back(
            {textOf(window, g) + (biased ? ", bias" : ""), inputs, [=, groups = g.groups](Graph graph) {
               return one(graph.make<ConvOp>(graph.in[0], graph.in[1], biased ? graph.in[2] : Value(), window.strides,
                                             window.dilations, window.low, window.high, groups));
             }});
      }
}

/// The result of a convolution of `image`.
Index resultOf(const Window &window, const Index &image, int64_t filters) {
  Index result{image[0], filters};
  for (size_t d = 0; d < window.size.size(); ++d)
    result.push_back((image[d + 2] + window.low[d] + window.high[d] - (window.size[d] - 1) * window.dilations[d] - 1) /
                         window.strides[d] +
                     1);
  return result;
}
void addTransposedConvolutions(Cases &cases) {
  for (const Window &window : kWindows)
    for (const Groups &g : kGroups) {
      Index image = imageOf(window, 2, g.groups * g.channels);
      cases["conv_data_grad"].push_back(
          {textOf(window, g),
           {real(resultOf(window, image, g.groups * g.filters)), real(kernelOf(window, g))},
           [=, groups = g.groups](Graph graph) {
             Type type = tensorOf(image, getElementTypeOrSelf(graph.in[0].getType()));
             return one(graph.make<ConvDataGradOp>(type, graph.in[0], graph.in[1], window.strides, window.dilations,
                                                   window.low, window.high, groups));
           }});
    }
}

void addPools(Cases &cases) {
  for (const Window &window : kWindows)
    for (StringRef kind : {"max", "sum", "mean"})
      cases["pool"].push_back({kind.str() + " of " + window.text, {apart(imageOf(window, 2, 2))}, [=](Graph graph) {
                                 return one(graph.make<PoolOp>(graph.in[0], kind, window.size, window.strides,
                                                               window.dilations, window.low, window.high));
                               }});
}

void addExperts(Cases &cases) {
  for (bool transposed : {false, true})
    for (int64_t rows : {1, 7, 150})
      cases["expert_matmul"].push_back(
          {std::to_string(rows) + " rows" + (transposed ? " transposed" : ""),
           {real({rows, 5}), real(transposed ? Index{4, 3, 5} : Index{4, 5, 3}),
            integers({rows}, 0, rows > 1 ? 3 : 4)}, // one has no rows
           [=](Graph g) { return one(g.make<ExpertMatmulOp>(g.in[0], g.in[1], g.in[2], transposed)); },
           false,
           rows == 1});
}

void addLookups(Cases &cases) {
  using Two = std::array<Index, 2>;
  for (int64_t batch : {0, 1})
    for (const auto &[shape, indices] :
         std::vector<Two>{{{{2, 3, 4}, {2, 2, 1}}}, {{{2, 3, 4}, {2, 5, 2}}}, {{{2, 2}, {2, 1}}}})
      if (batch + indices.back() <= static_cast<int64_t>(shape.size()))
        cases["gather_nd"].push_back({"batch " + std::to_string(batch) + " tuples of " + std::to_string(indices.back()),
                                      {real(shape), integers(indices, -2, 2)},
                                      [=](Graph g) { return one(g.make<GatherNdOp>(g.in[0], g.in[1], batch)); }});
  for (int64_t axis : {0, 1, 2})
    for (int64_t length : {1, 5})
      cases["gather_elements"].push_back(
          {"along " + std::to_string(axis) + ", " + std::to_string(length),
           {real({2, 3, 4}), integers(with({2, 3, 4}, axis, length), -2, 2)},
           [=](Graph g) { return one(g.make<GatherElementsOp>(g.in[0], g.in[1], axis)); }});
}

/// Places that differ: what is put twice has no slope of its own.
Input places(Index dims, std::vector<double> values) { return Input{Input::integer, dims, given(dims, values).draw}; }

void addScatters(Cases &cases) {
  for (const char *kind : {"none", "add", "mul", "max", "min"}) {
    bool repeats = std::string(kind) != "none";
    for (int64_t axis : {0, 1, 2})
      cases["scatter"].push_back(
          {std::string(kind) + " along " + std::to_string(axis),
           {apart({3, 3, 3}), repeats ? places({4}, {1, -1, 0, 1}) : places({2}, {1, -1}),
            apart(with({3, 3, 3}, axis, repeats ? 4 : 2), 1)},
           [=](Graph g) { return one(g.make<ScatterOp>(g.in[0], g.in[1], g.in[2], axis, kind)); }});
    for (int64_t axis : {0, 1})
      cases["scatter_elements"].push_back(
          {std::string(kind) + " along " + std::to_string(axis),
           {apart({3, 4}),
            places({2, 2}, axis == 0 ? std::vector<double>{0, 2, -2, 1} : std::vector<double>{0, 3, 1, -2}),
            apart({2, 2}, 1)},
           [=](Graph g) { return one(g.make<ScatterElementsOp>(g.in[0], g.in[1], g.in[2], axis, kind)); }});
    if (repeats)
      cases["scatter_elements"].push_back(
          {std::string(kind) + " twice",
           {apart({2, 3}), places({2, 4}, {0, 0, 1, -1, 2, 1, 2, 2}), apart({2, 4}, 1)},
           [=](Graph g) { return one(g.make<ScatterElementsOp>(g.in[0], g.in[1], g.in[2], 1, kind)); }});
  }
  cases["scatter"].push_back({"mul of zeros",
                              {real({3, 2}), places({4}, {1, 1, 2, 2}), given({4, 2}, {0, 2, 3, 0.5, 0, 0, 0, 1.5})},
                              [](Graph g) { return one(g.make<ScatterOp>(g.in[0], g.in[1], g.in[2], 0, "mul")); }});
}

void addTopKs(Cases &cases) {
  for (bool largest : {false, true})
    for (int64_t k : {1, 3, 7})
      cases["top_k"].push_back(
          {std::to_string(k) + (largest ? " largest" : " smallest"), {fixed({3, 7})}, [=](Graph g) {
             Value places = g.make<TopKOp>(g.in[0], k, largest);
             return one(g.make<GatherElementsOp>(g.in[0], places, int64_t(1)));
           }});
}

} // namespace

void addWindowCases(Cases &cases) {
  addConvolutions(cases);
  addTransposedConvolutions(cases);
  addPools(cases);
  addExperts(cases);
  addLookups(cases);
  addScatters(cases);
  addTopKs(cases);
}

} // namespace mt::nn::test
