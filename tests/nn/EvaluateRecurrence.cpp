// Recurrent layers, one element after another.
#include "tests/nn/Evaluate.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

enum { kI = 0, kO = 1, kF = 2, kC = 3, kZ = 0, kR = 1, kN = 2 };

double valueOf(StringRef name, double x) { return name == "tanh" ? std::tanh(x) : activation(name, x); }
double slopeOf(StringRef name, double x) {
  double t = std::tanh(x);
  return name == "tanh" ? 1 - t * t : slope(name, x);
}

/// What a recurrence and its gradient share: attributes, and one element of one row at one step.
template <typename Op> struct Cell {
  Op op;
  const Tensor &gates, &weight;
  const Tensor *lengths, *peephole;
  int64_t steps, batch, width, count;
  bool lstm, gru;

  Cell(Op op, const Operands &in)
      : op(op), gates(in[op.getGates()]), weight(in[op.getWeight()]), lengths(in.find(op.getLengths())),
        peephole(in.find(op.getPeephole())), steps(gates.dims[0]), batch(gates.dims[1]), width(weight.dims[1]),
        count(gates.dims[2] / weight.dims[1]), lstm(op.getKind() == "lstm"), gru(op.getKind() == "gru") {}

  int64_t stepAt(int64_t i) { return op.getReverse() ? steps - 1 - i : i; }
  bool reaches(int64_t s, int64_t b) { return !lengths || s < lengths->at({b}); }
  double clipped(double x) {
    double clip = op.getClip().convertToDouble();
    return clip > 0 ? std::min(std::max(x, -clip), clip) : x;
  }
  double x(int64_t s, int64_t b, int64_t gate, int64_t j) { return gates.at({s, b, gate * width + j}); }
  double peep(int64_t gate, int64_t j) { return peephole ? peephole->at({gate * width + j}) : 0; }

  double value(int64_t gate, double preactivation) { return valueOf(function(gate), clipped(preactivation)); }
  double slopeAt(int64_t gate, double preactivation) {
    double clip = op.getClip().convertToDouble();
    return clip > 0 && std::abs(preactivation) > clip ? 0 : slopeOf(function(gate), preactivation);
  }
  StringRef function(int64_t gate) {
    return (lstm ? gate == kC : gru ? gate == kN : true) ? op.getCandidate() : op.getGate();
  }
};

/// The sum of `row` times row `at` of the weight, and the bias.
double product(const Tensor &weight, const Tensor *bias, int64_t at, llvm::function_ref<double(int64_t)> row) {
  double sum = bias ? bias->at({at}) : 0;
  for (int64_t k = 0; k < weight.dims[1]; ++k)
    sum += row(k) * weight.at({at, k});
  return sum;
}

std::vector<Tensor> recurrence(RecurrenceOp op, const Operands &in) {
  Cell<RecurrenceOp> c(op, in);
  const Tensor *bias = in.find(op.getRecurrentBias()), *hidden0 = in.find(op.getInitialHidden()),
               *cell0 = in.find(op.getInitialCell());
  Tensor hidden = zeros(op.getHidden()), cells = hidden, h = hidden0 ? *hidden0 : zeros({c.batch, c.width}),
         state = cell0 ? *cell0 : zeros({c.batch, c.width});
  for (int64_t i = 0; i < c.steps; ++i) {
    int64_t s = c.stepAt(i);
    Tensor before = h, cellBefore = state;
    forEach(before.dims, [&](const Index &at) {
      int64_t b = at[0], j = at[1];
      auto p = [&](int64_t gate) {
        return product(c.weight, bias, gate * c.width + j, [&](int64_t k) { return before.at({b, k}); });
      };
      auto z = [&](int64_t gate, double more = 0) { return c.x(s, b, gate, j) + p(gate) + more; };
      if (c.reaches(s, b) && c.lstm) {
        double old = cellBefore.at(at), input = c.value(kI, z(kI, c.peep(0, j) * old));
        double forget = op.getCoupled() ? 1 - input : c.value(kF, z(kF, c.peep(2, j) * old));
        state.at(at) = forget * old + input * c.value(kC, z(kC));
        h.at(at) = c.value(kO, z(kO, c.peep(1, j) * state.at(at))) * valueOf(op.getOutput(), state.at(at));
      } else if (c.reaches(s, b) && c.gru) {
        auto reset = [&](int64_t k) {
          return c.value(kR, c.x(s, b, kR, k) + product(c.weight, bias, kR * c.width + k, [&](int64_t l) {
                               return before.at({b, l});
                             }));
        };
        double left =
            op.getLinearBeforeReset() ? reset(j) * p(kN) : product(c.weight, bias, kN * c.width + j, [&](int64_t k) {
              return reset(k) * before.at({b, k});
            });
        double update = c.value(kZ, z(kZ));
        h.at(at) = (1 - update) * c.value(kN, c.x(s, b, kN, j) + left) + update * before.at(at);
      } else if (c.reaches(s, b)) {
        h.at(at) = c.value(0, z(0));
      }
      hidden.at({s, b, j}) = h.at(at);
      cells.at({s, b, j}) = state.at(at);
    });
  }
  std::vector<Tensor> results{hidden};
  if (c.lstm)
    results.push_back(cells);
  return results;
}

/// One step backwards of one element: what its states send to its gates and to its own states before.
struct Back {
  Cell<RecurrenceGradOp> c;
  const Tensor &products, &before;
  const Tensor *cellBefore;
  Tensor dgates, dproducts, dh, dc;

  Back(RecurrenceGradOp op, const Operands &in)
      : c(op, in), products(in[op.getProducts()]), before(in[op.getBefore()]), cellBefore(in.find(op.getCellBefore())),
        dgates(zeros(op.getDgates())), dproducts(dgates), dh(zeros({c.batch, c.width})), dc(dh) {}

  double p(int64_t s, int64_t b, int64_t gate, int64_t j) { return products.at({s, b, gate * c.width + j}); }
  void send(int64_t s, int64_t b, int64_t gate, int64_t j, double slope, double factor = 1) {
    dgates.at({s, b, gate * c.width + j}) = slope;
    dproducts.at({s, b, gate * c.width + j}) = slope * factor;
  }

  void lstm(int64_t s, int64_t b, int64_t j) {
    double old = cellBefore->at({s, b, j});
    auto z = [&](int64_t gate, double more = 0) { return c.x(s, b, gate, j) + p(s, b, gate, j) + more; };
    double zi = z(kI, c.peep(0, j) * old), zf = z(kF, c.peep(2, j) * old), i = c.value(kI, zi), g = c.value(kC, z(kC));
    double f = c.op.getCoupled() ? 1 - i : c.value(kF, zf), cell = f * old + i * g, zo = z(kO, c.peep(1, j) * cell);
    double dhidden = dh.at({b, j}), dzo = dhidden * valueOf(c.op.getOutput(), cell) * c.slopeAt(kO, zo);
    double dcell = dc.at({b, j}) + dhidden * c.value(kO, zo) * slopeOf(c.op.getOutput(), cell) + dzo * c.peep(1, j);
    double dzi = dcell * (g - (c.op.getCoupled() ? old : 0)) * c.slopeAt(kI, zi);
    double dzf = c.op.getCoupled() ? 0 : dcell * old * c.slopeAt(kF, zf);
    send(s, b, kI, j, dzi);
    send(s, b, kO, j, dzo);
    send(s, b, kF, j, dzf);
    send(s, b, kC, j, dcell * i * c.slopeAt(kC, z(kC)));
    dc.at({b, j}) = dcell * f + dzi * c.peep(0, j) + dzf * c.peep(2, j);
    dh.at({b, j}) = 0;
  }
  void gru(int64_t s, int64_t b, int64_t j) {
    bool linear = c.op.getLinearBeforeReset();
    double zz = c.x(s, b, kZ, j) + p(s, b, kZ, j), zr = c.x(s, b, kR, j) + p(s, b, kR, j);
    double r = c.value(kR, zr), zn = c.x(s, b, kN, j) + (linear ? r : 1) * p(s, b, kN, j);
    double z = c.value(kZ, zz), dhidden = dh.at({b, j}), dzn = dhidden * (1 - z) * c.slopeAt(kN, zn);
    send(s, b, kZ, j, dhidden * (before.at({s, b, j}) - c.value(kN, zn)) * c.slopeAt(kZ, zz));
    send(s, b, kN, j, dzn, linear ? r : 1);
    send(s, b, kR, j, linear ? dzn * p(s, b, kN, j) * c.slopeAt(kR, zr) : 0);
    dh.at({b, j}) = dhidden * z;
  }
  /// Through the product with r * before.
  void reset(int64_t s, int64_t b, int64_t j) {
    double left = 0, zr = c.x(s, b, kR, j) + p(s, b, kR, j);
    for (int64_t k = 0; k < c.width; ++k)
      left += dproducts.at({s, b, kN * c.width + k}) * c.weight.at({kN * c.width + k, j});
    send(s, b, kR, j, left * before.at({s, b, j}) * c.slopeAt(kR, zr));
    dh.at({b, j}) += left * c.value(kR, zr);
  }
  void step(int64_t s, int64_t b) {
    for (int64_t j = 0; j < c.width; ++j) {
      if (c.lstm)
        lstm(s, b, j);
      else if (c.gru)
        gru(s, b, j);
      else
        send(s, b, 0, j, dh.at({b, j}) * c.slopeAt(0, c.x(s, b, 0, j) + p(s, b, 0, j)));
      if (!c.lstm && !c.gru)
        dh.at({b, j}) = 0;
    }
    bool waits = c.gru && !c.op.getLinearBeforeReset();
    for (int64_t j = 0; waits && j < c.width; ++j)
      reset(s, b, j);
    for (int64_t j = 0; j < c.width; ++j)
      for (int64_t k = 0; k < (waits ? 2 : c.count) * c.width; ++k)
        dh.at({b, j}) += dproducts.at({s, b, k}) * c.weight.at({k, j});
  }
};

std::vector<Tensor> recurrenceGrad(RecurrenceGradOp op, const Operands &in) {
  Back back(op, in);
  const Tensor &dhidden = in[op.getDhidden()], *dcell = in.find(op.getDcell());
  for (int64_t i = back.c.steps - 1; i >= 0; --i) {
    int64_t s = back.c.stepAt(i);
    forEach(back.dh.dims, [&](const Index &at) {
      back.dh.at(at) += dhidden.at({s, at[0], at[1]});
      back.dc.at(at) += dcell ? dcell->at({s, at[0], at[1]}) : 0;
    });
    for (int64_t b = 0; b < back.c.batch; ++b)
      if (back.c.reaches(s, b))
        back.step(s, b);
  }
  std::vector<Tensor> results{back.dgates, back.dproducts, back.dh};
  if (op.getDinitialCell())
    results.push_back(back.dc);
  return results;
}

} // namespace

void addRecurrenceRules(Rules &rules) {
  addRule<RecurrenceOp, recurrence>(rules);
  addRule<RecurrenceGradOp, recurrenceGrad>(rules);
}

} // namespace mt::nn::test
