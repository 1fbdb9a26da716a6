// Recurrent layers, step by step, and the way back. What does not wait for the step before - products with the inputs,
// and going back all products with states - is matmul's.
#include "kernels/Recurrence.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <cmath>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

/// Operands that both calls have.
struct Places {
  int gates, weight, lengths, peephole;
};
constexpr Places kForward = {0, 1, 5, 6}, kBackward = {2, 4, 7, 8};

/// The dimensions of states, [steps, batch, width]; what the attributes say must agree with the operands.
Dims checkForm(Checker &c, const Signature &call, const Places &at) {
  const Dims rows = c.at(at.gates).dims, states = {rows[0], rows[1], c.at(at.weight).dims[1]};
  const std::string kind = call.text("kind");
  const bool lstm = kind == "lstm";
  const double clip = call.real("clip");
  const int64_t line = c.at(at.weight).dims[0];
  c.require(line == *Recurrence::gatesOf(kind) * states[2], "weight must have a row for each gate and column")
      .dims(at.gates, {states[0], states[1], line})
      .integral(at.lengths)
      .dims(at.lengths, {states[1]})
      .floating(at.peephole)
      .dims(at.peephole, {3 * states[2]})
      .require(lstm || !c.at(at.peephole).present, "only lstm has a peephole")
      .require(lstm || call.integer("coupled") == 0, "only lstm couples gates")
      .require(kind == "gru" || call.integer("linearBeforeReset") == 0, "only gru has a reset gate")
      .require(std::isfinite(clip) && clip >= 0, "attribute clip must not be negative");
  return states;
}

std::string checkRecurrence(const Signature &call) {
  Checker checker(call);
  checker.floating(0).rank(0, 3).floating(1).rank(1, 2).then([&](Checker &c) {
    const Dims states = checkForm(c, call, kForward), row = {states[1], states[2]};
    const bool lstm = call.text("kind") == "lstm";
    c.floating(2).dims(2, {c.at(1).dims[0]}).floating(3).dims(3, row).floating(4).dims(4, row);
    c.require(lstm || (!c.at(4).present && !c.at(8).present), "only lstm has cells");
    c.sameTypeOrF32(7, 0).dims(7, states).sameTypeOrF32(8, 0).dims(8, states);
  });
  return checker.result();
}

std::string checkRecurrenceGrad(const Signature &call) {
  Checker checker(call);
  checker.floating(2).rank(2, 3).floating(4).rank(4, 2).then([&](Checker &c) {
    const Dims states = checkForm(c, call, kBackward), row = {states[1], states[2]};
    const bool lstm = call.text("kind") == "lstm";
    for (int operand : {0, 1, 5, 6})
      c.floating(operand).dims(operand, states);
    for (int operand : {3, 9, 10})
      c.floating(operand).sameDims(operand, 2);
    for (int operand : {11, 12})
      c.floating(operand).dims(operand, row);
    c.require(lstm == c.at(6).present, "lstm, and nothing else, needs the cells before each step");
    c.require(lstm || (!c.at(1).present && !c.at(12).present), "only lstm has cells");
  });
  return checker.result();
}

/// The products of all steps, and some twenty operations for each element of a gate.
double recurrenceFlops(const Signature &call) {
  const Recurrence shape = Recurrence::of(call);
  return static_cast<double>(shape.steps * shape.batch) * static_cast<double>(shape.line()) *
         (2.0 * static_cast<double>(shape.width) + 20);
}

/// The weight comes again at every step.
double recurrenceTraffic(const Signature &call) {
  const Recurrence shape = Recurrence::of(call);
  double sum = static_cast<double>(shape.steps - 1) *
               static_cast<double>(call.operands[call.kernel == "recurrence" ? 1 : 4].bytes());
  for (const OperandType &operand : call.operands)
    sum += operand.effect == Effect::scratch ? 0 : static_cast<double>(operand.bytes());
  return sum;
}

std::vector<double> recurrenceExtents(const Signature &call) {
  const Recurrence shape = Recurrence::of(call);
  return {static_cast<double>(shape.steps), static_cast<double>(shape.batch), static_cast<double>(shape.width)};
}

template <Backend kBackend> uint64_t recurrenceScratch(const Signature &call) {
  return RecurrenceScratch::of(call, kBackend).total();
}

constexpr AttributeSpec kAttributes[] = {
    {"kind", Kind::choice, true, "lstm|gru|rnn", "which gates: i o f c, z r h, or one"},
    {"reverse", Kind::flag, false, "", "the last step comes first"},
    {"linearBeforeReset", Kind::flag, false, "",
     "gru: the reset gate acts on the candidate's product, else on the state before it"},
    {"coupled", Kind::flag, false, "", "lstm: the forget gate is 1 - i"},
    {"clip", Kind::real, false, "", "c > 0: preactivations are kept within [-c, c]"},
    {"gate", Kind::choice, false, "sigmoid|tanh|relu", "f: of i, o, f, z, r"},
    {"candidate", Kind::choice, false, "tanh|sigmoid|relu", "g: of c and h, and of rnn"},
    {"output", Kind::choice, false, "tanh|sigmoid|relu", "h: of lstm's cells"}};

constexpr Extra kExtra = {.attributes = kAttributes,
                          .workspace = recurrenceScratch<Backend::cpu>,
                          .cudaWorkspace = recurrenceScratch<Backend::cuda>,
                          .traffic = recurrenceTraffic,
                          .extents = recurrenceExtents};

} // namespace

std::span<const Kernel> recurrenceKernels() {
  static const std::vector<Kernel> kernels = {
      entry(
          "recurrence", "gates weight recurrentBias? initialHidden? initialCell? lengths? peephole? -> hidden cell",
          "A recurrent layer in one direction: its states at every step.",
          "gates [S, B, G * H] is what comes from the inputs, weight [G * H, H], p = H_before . weight^T + "
          "recurrentBias. "
          "lstm: i, f = f(gates + p + peephole * C_before), C = f * C_before + i * g(gates + p), o = f(gates + p + "
          "peephole "
          "* C), H = o * h(C). gru: z, r = f(gates + p), n = g(gates + r * p) or, not linear before reset, p from r * "
          "H_before; H = (1 - z) * n + z * H_before. rnn: H = g(gates + p). From step lengths[b] on a row keeps the "
          "state that "
          "it has. ONNX operators LSTM, GRU, RNN. Types: each floating-point operand f32, bf16 or f16; states inside "
          "f32; "
          "hidden and cell of gates's or f32",
          recurrenceFlops, checkRecurrence, kExtra),
      entry("recurrence_grad",
            "dhidden dcell? gates products weight before cellBefore? lengths? peephole? -> dgates dproducts "
            "dinitialHidden "
            "dinitialCell",
            "Gradients of a recurrent layer, from the last step to the first.",
            "products is p of every step, bias included, before and cellBefore the states that steps begin with; "
            "dgates is the "
            "gradient of gates, dproducts that of p, of which sums over steps make the gradients of weight and "
            "recurrentBias. "
            "Types: each f32, bf16 or f16",
            recurrenceFlops, checkRecurrenceGrad, kExtra)};
  return kernels;
}

} // namespace mt::kernels
