#include "kernels/Recurrence.h"

#include "kernels/DeviceScratch.h"

#include <array>

namespace mt::kernels {
namespace {

bool isGradient(const Signature &call) { return call.kernel == "recurrence_grad"; }

Recurrence::Activation activationOf(const Signature &call, std::string_view attribute, std::string_view otherwise) {
  std::string text = call.text(attribute, otherwise);
  return text == "sigmoid" ? Recurrence::Activation::sigmoid
         : text == "relu"  ? Recurrence::Activation::relu
                           : Recurrence::Activation::tanh;
}

} // namespace

std::optional<int> Recurrence::gatesOf(std::string_view kind) {
  return kind == "lstm"  ? std::optional(4)
         : kind == "gru" ? std::optional(3)
         : kind == "rnn" ? std::optional(1)
                         : std::nullopt;
}

Recurrence Recurrence::of(const Signature &call) {
  Recurrence made;
  std::string kind = call.text("kind");
  made.kind = kind == "lstm" ? Kind::lstm : kind == "gru" ? Kind::gru : Kind::rnn;
  made.gates = gatesOf(kind).value_or(1);
  made.gate = activationOf(call, "gate", "sigmoid");
  made.candidate = activationOf(call, "candidate", "tanh");
  made.output = activationOf(call, "output", "tanh");
  made.reverse = call.integer("reverse") != 0;
  made.linearBeforeReset = call.integer("linearBeforeReset") != 0;
  made.coupled = call.integer("coupled") != 0;
  made.clip = static_cast<float>(call.real("clip"));
  const Dims &rows = call.operands[isGradient(call) ? 2 : 0].dims;
  made.steps = rows[0], made.batch = rows[1], made.width = call.operands[isGradient(call) ? 4 : 1].dims[1];
  return made;
}

RecurrenceScratch RecurrenceScratch::of(const Signature &call, Backend backend) {
  Recurrence shape = Recurrence::of(call);
  bool backward = isGradient(call), cuda = backend == Backend::cuda;
  uint64_t states = static_cast<uint64_t>(shape.batch * shape.width),
           lines = static_cast<uint64_t>(shape.batch * shape.line());
  uint64_t narrow = cuda ? byteSize(call.operands[backward ? 4 : 1].type) : sizeof(float);
  RecurrenceScratch made = {};
  made.gates = lines * (backward ? narrow : sizeof(float));
  made.hidden = states * sizeof(float);
  made.cell = shape.kind == Recurrence::Kind::lstm ? states * sizeof(float) : 0;
  made.operand = backward ? (shape.waits() ? states * sizeof(float) : 0) : states * narrow;
  made.library = cuda ? productScratch(shape.batch * (backward ? shape.width : shape.line())) : 0;
  return made;
}

uint64_t RecurrenceScratch::total() const { return scratchOf(std::array{gates, hidden, cell, operand, library}); }

} // namespace mt::kernels
