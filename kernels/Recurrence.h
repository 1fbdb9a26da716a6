// What a call of recurrence or recurrence_grad says, decoded, and the scratch that follows from it: what the catalogue
// and the kernels of both devices share. The formulas are in the catalogue (kernels/catalogue/Recurrence.cpp).
#ifndef MT_KERNELS_RECURRENCE_H
#define MT_KERNELS_RECURRENCE_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

struct Recurrence {
  enum class Kind : uint8_t { lstm, gru, rnn };
  enum class Activation : uint8_t { sigmoid, tanh, relu };
  /// Places of the gates in a row of [gates * width], ONNX's order.
  enum Lstm : int { kInput = 0, kOutput = 1, kForget = 2, kCell = 3 };
  enum Gru : int { kUpdate = 0, kReset = 1, kHidden = 2 };
  /// Places of the weights from the cell to the gates in a peephole.
  enum Peephole : int { kPeepInput = 0, kPeepOutput = 1, kPeepForget = 2 };
  static constexpr int kMostGates = 4;

  Kind kind = Kind::rnn;
  Activation gate = Activation::sigmoid, candidate = Activation::tanh, output = Activation::tanh;
  bool reverse = false, linearBeforeReset = false, coupled = false;
  float clip = 0; ///< 0: none
  int gates = 1;
  int64_t steps = 1, batch = 1, width = 1;

  static Recurrence of(const Signature &call);
  /// "lstm", "gru" or "rnn"; none of another name.
  static std::optional<int> gatesOf(std::string_view kind);

  /// Elements of a row of gates.
  int64_t line() const { return gates * width; }
  /// Whether the candidate's product takes what the reset gate leaves of the state, and so waits for that gate.
  bool waits() const { return kind == Kind::gru && !linearBeforeReset; }
  /// The step that comes as number `i`.
  int64_t step(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

/// Bytes of the parts of scratch, in their order. On the CPU everything is f32; on a GPU what a product reads has the
/// weight's type.
struct RecurrenceScratch {
  /// [batch, line]: going forward, products of a step in f32; going back, gradients of preactivations that products
  /// read.
  uint64_t gates;
  /// [batch, width] each: the state, or its gradient, in f32; the cell's; going forward, what products read; going
  /// back, where the candidate's product waits, the gradient of what the reset gate left.
  uint64_t hidden, cell, operand;
  uint64_t library; ///< on a GPU
  static RecurrenceScratch of(const Signature &call, Backend backend);
  uint64_t total() const;
};

} // namespace mt::kernels
#endif
