#include "models/Experts.h"

namespace mt::models {
namespace {

/// The matrices [count, out, in] of all experts; each is a parameter of its own.
Value stacked(GraphBuilder &b, const Experts &experts, const std::string &name, const std::string &part,
              const Dims &dims, const Generator &fresh) {
  std::vector<Value> matrices;
  for (int64_t i = 0; i < experts.count && b.ok(); ++i) {
    Value matrix = b.parameter(fmt::format("{}.experts.{}.{}.weight", name, i, part), dims, fresh);
    matrices.push_back(b.node("Unsqueeze", {matrix, b.ints({0})}));
  }
  return b.node("Concat", matrices, {{"axis", int64_t(0)}});
}

/// Row i of x [rows, 1, in] times the transpose of matrix chosen[i] of `matrices` [count, out, in].
Value chosenProduct(GraphBuilder &b, const Value &x, const Value &matrices, const Value &chosen) {
  Value own = b.node("Gather", {matrices, chosen}, {{"axis", int64_t(0)}});
  return b.node("MatMul", {x, b.node("Transpose", {own}, {{"perm", Dims{0, 2, 1}}})});
}

/// What each expert makes of its rows [rows, 1, hidden].
Value expertRows(GraphBuilder &b, const Experts &e, const GatedMlp &mlp, const Value &x, const Value &chosen,
                 const std::string &name) {
  GraphBuilder::Scope scope(b, "experts");
  const Dims in = {e.width, mlp.hidden}, out = {mlp.hidden, e.width};
  if (!e.fusedGate.empty()) {
    Value matrices = b.parameter(name + "." + e.fusedGate + ".weight", {e.count, 2 * e.width, mlp.hidden}, mlp.fresh);
    std::vector<Value> halves = b.nodes("Split", {chosenProduct(b, x, matrices, chosen), b.ints({e.width, e.width})},
                                        {{"axis", int64_t(-1)}}, 2);
    Value inner = b.node("Mul", {activate(b, halves[0], mlp.activation), halves[1]});
    matrices = b.parameter(name + "." + e.fusedDown + ".weight", {e.count, mlp.hidden, e.width}, mlp.residual);
    return chosenProduct(b, inner, matrices, chosen);
  }
  Value gate = chosenProduct(b, x, stacked(b, e, name, e.gate, in, mlp.fresh), chosen);
  gate = activate(b, gate, mlp.activation);
  Value up = chosenProduct(b, x, stacked(b, e, name, e.up, in, mlp.fresh), chosen);
  return chosenProduct(b, b.node("Mul", {gate, up}), stacked(b, e, name, e.down, out, mlp.residual), chosen);
}

/// Weights and numbers [tokens, perToken] of the experts that the router picks for x [tokens, hidden].
std::vector<Value> picked(GraphBuilder &b, const Experts &e, const GatedMlp &mlp, const Value &x,
                          const std::string &name) {
  Value scores = linear(b, x, name + "." + e.router, mlp.hidden, e.count, false, mlp.fresh);
  Value shares = b.node("Softmax", {scores}, {{"axis", int64_t(-1)}});
  std::vector<Value> top = b.nodes("TopK", {shares, b.ints({e.perToken})}, {{"axis", int64_t(-1)}}, 2);
  if (e.normalized)
    top[0] = b.node("Div", {top[0], b.node("ReduceSum", {top[0], b.ints({-1})}, {{"keepdims", int64_t(1)}})});
  return top;
}

Value sharedExpert(GraphBuilder &b, const Experts &e, GatedMlp mlp, const Value &x, const std::string &name) {
  mlp.width = e.sharedWidth;
  Value inner = gatedMlp(b, mlp, x, name + ".shared_expert");
  Value open = b.node("Sigmoid", {linear(b, x, name + ".shared_expert_gate", mlp.hidden, 1, false, mlp.fresh)});
  return b.node("Mul", {open, inner});
}

} // namespace

Value gatedMlp(GraphBuilder &b, const GatedMlp &mlp, const Value &x, const std::string &name) {
  auto project = [&](const std::string &part, int64_t out) {
    return linear(b, x, name + part, mlp.hidden, out, mlp.bias, mlp.fresh);
  };
  Value gate, up;
  if (mlp.fusedGate) {
    Value both = project(".gate_up_proj", 2 * mlp.width);
    std::vector<Value> halves = b.nodes("Split", {both, b.ints({mlp.width, mlp.width})}, {{"axis", int64_t(-1)}}, 2);
    gate = activate(b, halves[0], mlp.activation);
    up = halves[1];
  } else {
    gate = activate(b, project(".gate_proj", mlp.width), mlp.activation);
    up = project(".up_proj", mlp.width);
  }
  return linear(b, b.node("Mul", {gate, up}), name + ".down_proj", mlp.width, mlp.hidden, mlp.bias, mlp.residual);
}

Value routedMlp(GraphBuilder &b, const Experts &e, const GatedMlp &mlp, const Value &x, const std::string &name) {
  GraphBuilder::Scope scope(b, name);
  Value tokens = b.node("Reshape", {x, b.ints({-1, mlp.hidden})});
  std::vector<Value> top = picked(b, e, mlp, tokens, name);
  Value chosen = b.node("Reshape", {top[1], b.ints({-1})});
  Value rows = b.node("Expand", {b.node("Unsqueeze", {tokens, b.ints({1})}), b.ints({1, e.perToken, 1})});
  rows = expertRows(b, e, mlp, b.node("Reshape", {rows, b.ints({-1, 1, mlp.hidden})}), chosen, name);
  rows = b.node("Reshape", {rows, b.ints({-1, e.perToken, mlp.hidden})});
  Value weighted = b.node("Mul", {rows, b.node("Unsqueeze", {top[0], b.ints({-1})})});
  Value sum = b.node("ReduceSum", {weighted, b.ints({1})}, {{"keepdims", int64_t(0)}});
  if (e.sharedWidth > 0)
    sum = b.node("Add", {sum, sharedExpert(b, e, mlp, tokens, name)});
  return b.node("Reshape", {sum, b.node("Shape", {x})});
}

} // namespace mt::models
