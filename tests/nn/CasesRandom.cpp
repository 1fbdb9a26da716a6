// Cases of random numbers and dropout: in training and not, with rows of the batch and without.
#include "kernels/Types.h"
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

SmallVector<Value> one(Value value) { return {value}; }

Input drawScalars(double draw) {
  return {Input::scalars, {kernels::Scalars::kCount}, [draw](Random &, size_t index, size_t) {
            return index == kernels::Scalars::kDraw ? draw : index == kernels::Scalars::kSeed ? 11.0 : 0.5;
          }};
}
Input node() { return integers({}, 0, 1000); }
/// Numbers of as many rows, not in order.
Input rows(int64_t count) {
  return {Input::integer, {count}, [](Random &, size_t index, size_t all) {
            return static_cast<double>(7 + (index + 1) % all);
          }};
}

struct Lie {
  const char *name;
  Index dims;
  int64_t rows, outer; ///< rows 0: none
};
const Lie kLies[] = {{"without rows", {3, 5}, 0, 1},
                     {"rows first", {3, 5}, 3, 1},
                     {"rows within", {2, 3, 4}, 3, 2},
                     {"rows merged", {6, 5}, 3, 1},
                     {"rows last", {4, 3}, 3, 4}};

void addDropouts(Cases &cases) {
  for (const Lie &lie : kLies)
    for (double draw : {5.0, -3.0})
      for (double ratio : {0.4, 1.0}) {
        std::vector<Input> inputs{real(lie.dims), drawScalars(draw), node()};
        if (lie.rows)
          inputs.push_back(rows(lie.rows));
        Case made{std::string(lie.name) + (draw > 0 ? ", training" : ", evaluating") + (ratio == 1 ? ", all" : ""),
                  inputs, [=](Graph g) {
                    return one(g.make<DropoutOp>(g.in[0], lie.rows ? g.in[3] : Value(), g.in[1], g.in[2],
                                                 APFloat(ratio), lie.outer));
                  }};
        made.mayVanish = ratio == 1;
        cases["dropout"].push_back(made);
      }
}

void addNumbers(Cases &cases) {
  for (const Lie &lie : kLies)
    for (const char *kind : {"uniform", "normal", "keep"})
      for (double draw : {5.0, -3.0}) {
        std::vector<Input> inputs{drawScalars(draw), node()};
        if (lie.rows)
          inputs.push_back(rows(lie.rows));
        cases["random"].push_back(
            {std::string(lie.name) + " " + kind + (draw > 0 ? ", training" : ", evaluating"), inputs, [=](Graph g) {
               return one(g.make<RandomOp>(tensorOf(lie.dims, g.builder.getF32Type()), lie.rows ? g.in[2] : Value(),
                                           g.in[0], g.in[1], StringRef(kind), APFloat(0.3), lie.outer));
             }});
      }
}

} // namespace

void addRandomCases(Cases &cases) {
  addDropouts(cases);
  addNumbers(cases);
}

} // namespace mt::nn::test
