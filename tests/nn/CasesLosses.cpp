// Cases of losses: as the loss itself, scaled, and with more made of it.
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

SmallVector<Value> one(Value value) { return {value}; }
std::string flag(bool set, const char *name) { return set ? std::string(" ") + name : ""; }

/// A loss in three places: the whole step's, one that a coefficient scales, and one that the model goes on with.
void addLoss(Cases &cases, const std::string &group, const Case &loss, const std::function<Value(Graph)> &build) {
  Case made = loss;
  made.body = [build](Graph g) { return one(build(g)); };
  cases[group].push_back(made);
  made.isLoss = true;
  made.name += ", the step's";
  cases[group].push_back(made);
  made.isLoss = false;
  made.name = loss.name + ", squared";
  made.body = [build](Graph g) {
    Value value = build(g);
    return one(g.make<MulOp>(value, value));
  };
  cases[group].push_back(made);
}

/// What a loss has besides: label smoothing, z-loss; 0: none.
using Terms = std::pair<double, double>;
constexpr Terms kTerms[] = {{0, 0}, {0.1, 0}, {0, 0.03}, {0.2, 0.01}, {1, 0}};
FloatAttr term(double value) { return value > 0 ? Builder(&caseContext()).getF64FloatAttr(value) : FloatAttr(); }
std::string name(const Terms &terms) { return flag(terms.first > 0, "smoothed") + flag(terms.second > 0, "z-loss"); }

void addCrossEntropies(Cases &cases) {
  for (const Terms &terms : kTerms)
    for (int64_t rows : {1, 4})
      for (int64_t ignored : {0, -1})
        addLoss(cases, "cross_entropy",
                {std::to_string(rows) + " rows" + flag(ignored < 0, "of which some do not count") + name(terms),
                 {real({rows, 5}), rows == 1 ? integers({1}, 2, 3) : integers({rows}, ignored, 2), scalars()},
                 {}},
                [terms](Graph g) {
                  return g.make<CrossEntropyOp>(g.in[0], g.in[1], g.in[2], term(terms.first), term(terms.second));
                });
}

void addHeads(Cases &cases, const Terms &terms) {
  for (bool transposed : {false, true})
    for (bool biased : {false, true})
      for (double scale : {1.0, 0.4})
        for (double cap : {0.0, 1.3})
          for (int64_t chunk : {0, 2, 3}) {
            Case made{"scale " + std::to_string(scale) + " cap " + std::to_string(cap) + " chunk " +
                          std::to_string(chunk) + flag(transposed, "transposed") + flag(biased, "bias") + name(terms),
                      {real({5, 3}), real(transposed ? Index{3, 4} : Index{4, 3}), integers({5}, -1, 4), scalars()},
                      {}};
            if (biased)
              made.inputs.push_back(real({4}));
            addLoss(cases, "linear_cross_entropy", made, [=](Graph g) {
              return g.make<LinearCrossEntropyOp>(g.in[0], g.in[1], biased ? g.in[4] : Value(), g.in[2], g.in[3],
                                                  transposed, APFloat(scale), APFloat(cap), chunk, term(terms.first),
                                                  term(terms.second));
            });
          }
}

void addSquaredErrors(Cases &cases) {
  for (const Index &shape : std::vector<Index>{{}, {3}, {2, 3}, {2, 1, 3}})
    addLoss(cases, "squared_error", {"rank " + std::to_string(shape.size()), {real(shape), real(shape), scalars()}, {}},
            [](Graph g) { return g.make<SquaredErrorOp>(g.in[0], g.in[1], g.in[2]); });
}

} // namespace

void addLossCases(Cases &cases) {
  addCrossEntropies(cases);
  for (const Terms &terms : {kTerms[0], kTerms[3]})
    addHeads(cases, terms);
  addSquaredErrors(cases);
}

} // namespace mt::nn::test
