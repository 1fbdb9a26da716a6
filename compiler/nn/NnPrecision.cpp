// What operations compute in where activations are bf16: PrecisionOpInterface of those that neither follow their
// operands nor always have 32 bits. docs/nn.md states the rules.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

// A product that sums nothing is elementwise: rotary angles are made so, position by frequency.
static Precision productPrecision(MatmulOp op) {
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
  return lhs[lhs.size() - (op.getTransposeLhs() ? 2 : 1)] == 1 ? Precision::joined : Precision::narrow;
}
Precision MatmulOp::operandPrecision(unsigned) { return productPrecision(*this); }
Precision MatmulOp::resultPrecision(unsigned) { return productPrecision(*this); }

Precision ExpertMatmulOp::operandPrecision(unsigned) { return Precision::narrow; }
Precision ExpertMatmulOp::resultPrecision(unsigned) { return Precision::narrow; }
Precision ConvOp::operandPrecision(unsigned) { return Precision::narrow; }
Precision ConvOp::resultPrecision(unsigned) { return Precision::narrow; }
Precision ConvDataGradOp::operandPrecision(unsigned) { return Precision::narrow; }
Precision ConvDataGradOp::resultPrecision(unsigned) { return Precision::narrow; }

Precision AttentionOp::operandPrecision(unsigned index) { return index < 3 ? Precision::narrow : Precision::any; }
Precision AttentionOp::resultPrecision(unsigned index) { return index == 0 ? Precision::narrow : Precision::full; }

Precision LinearCrossEntropyOp::operandPrecision(unsigned) { return Precision::narrow; }
Precision LinearCrossEntropyOp::resultPrecision(unsigned) { return Precision::full; }

Precision LayerNormOp::operandPrecision(unsigned index) { return index == 0 ? Precision::any : Precision::exact; }
Precision LayerNormOp::resultPrecision(unsigned index) { return index == 0 ? Precision::narrow : Precision::full; }
Precision RmsNormOp::operandPrecision(unsigned index) { return index == 0 ? Precision::any : Precision::exact; }
Precision RmsNormOp::resultPrecision(unsigned index) { return index == 0 ? Precision::narrow : Precision::full; }

// The product with the states is one of bf16; states, and sums over steps, have 32 bits.
Precision RecurrenceOp::operandPrecision(unsigned index) {
  return index == 0 ? Precision::any : index == 1 ? Precision::narrow : Precision::exact;
}
Precision RecurrenceOp::resultPrecision(unsigned) { return Precision::full; }

Precision RunningStatisticOp::operandPrecision(unsigned index) {
  return index == 1 ? Precision::exact : Precision::full;
}
Precision RunningStatisticOp::resultPrecision(unsigned) { return Precision::full; }

// Scales and zeros stay as they are; what becomes of them is rounded once.
Precision DequantizeOp::operandPrecision(unsigned) { return Precision::exact; }
Precision DequantizeOp::resultPrecision(unsigned) { return Precision::narrow; }

Precision RotaryOp::operandPrecision(unsigned index) { return index == 0 ? Precision::joined : Precision::full; }
Precision RotaryOp::resultPrecision(unsigned) { return Precision::joined; }

Precision RandomOp::operandPrecision(unsigned) { return Precision::any; }
Precision RandomOp::resultPrecision(unsigned) { return Precision::full; }

// By a number, a division is a product.
static Precision quotientPrecision(DivOp op) { return splatValue(op.getRhs()) ? Precision::joined : Precision::full; }
Precision DivOp::operandPrecision(unsigned) { return quotientPrecision(*this); }
Precision DivOp::resultPrecision(unsigned) { return quotientPrecision(*this); }

Precision CastOp::operandPrecision(unsigned) { return Precision::any; }
Precision CastOp::resultPrecision(unsigned) { return Precision::full; }
