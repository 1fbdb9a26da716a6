// Operations of the nn dialect. One section a family; gradients of the fused ones stand beside them.
#ifndef MT_NN_OPS
#define MT_NN_OPS
include "compiler/nn/NnDialect.td"
include "compiler/nn/NnInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Nn_Float : AnyTypeOf<[F32, BF16, F16, F64]>;
def Nn_Tensor : StaticShapeTensorOf<[F32, BF16, F16, F64, I64, I32, I16, I8, UI8, I1]>;
def Nn_FloatTensor : StaticShapeTensorOf<[F32, BF16, F16, F64]>;
def Nn_IntTensor : StaticShapeTensorOf<[I64, I32]>;
def Nn_BoolTensor : StaticShapeTensorOf<[I1]>;
def Nn_ScalarsTensor : 1DTensorOf<[F64]>;

def Differentiable : DeclareOpInterfaceMethods<DifferentiableOpInterface>;
def Precise : DeclareOpInterfaceMethods<PrecisionOpInterface>;
def Rows : DeclareOpInterfaceMethods<RowsOpInterface>;
def RowWise : NativeOpTrait<"Elementwise"> { let cppNamespace = "::mt::nn"; }
def FullPrecision : NativeOpTrait<"FullPrecision"> { let cppNamespace = "::mt::nn"; }
def Movement : NativeOpTrait<"Movement"> { let cppNamespace = "::mt::nn"; }
def Flat : NativeOpTrait<"Flat"> { let cppNamespace = "::mt::nn"; }

class Nn_Op<string mnemonic, list<Trait> traits = []> : Op<Nn_Dialect, mnemonic, !listconcat(traits, [Pure])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
// Result types follow from operands and attributes; `infer` lives in NnTypes.cpp.
class Nn_InferredOp<string mnemonic, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat(traits, [InferTypeOpAdaptor])>;
// The same, but a result may have another floating-point type than the inferred one: sums of bf16 in 32 bits.
class Nn_MixedOp<string mnemonic, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat(traits, [InferTypeOpAdaptorWithIsCompatible])>;

//===-- elementwise -----------------------------------------------------------------------------------------===//

// Operands broadcast as NumPy's do; the element type is that of the operands.
class Nn_BinaryOp<string mnemonic, string text, list<Trait> traits = []>
    : Nn_InferredOp<mnemonic, !listconcat(traits, [RowWise])> {
  let summary = text;
  let arguments = (ins Nn_Tensor:$lhs, Nn_Tensor:$rhs);
  let results = (outs Nn_Tensor:$result);
}
def Nn_AddOp : Nn_BinaryOp<"add", "lhs + rhs, broadcast.", [Differentiable, Commutative]> { let hasFolder = 1; }
def Nn_SubOp : Nn_BinaryOp<"sub", "lhs - rhs, broadcast.", [Differentiable]> { let hasFolder = 1; }
def Nn_MulOp : Nn_BinaryOp<"mul", "lhs * rhs, broadcast.", [Differentiable, Commutative]> { let hasFolder = 1; }
def Nn_DivOp : Nn_BinaryOp<"div", "lhs / rhs, broadcast; integers truncate.", [Differentiable, Precise]> { let hasFolder = 1; }
def Nn_PowOp : Nn_BinaryOp<"pow", "lhs to the power of rhs, broadcast.", [Differentiable, FullPrecision]> { let hasFolder = 1; }
def Nn_MaximumOp : Nn_BinaryOp<"maximum", "The larger of both, broadcast.", [Differentiable, Commutative]>;
def Nn_MinimumOp : Nn_BinaryOp<"minimum", "The smaller of both, broadcast.", [Differentiable, Commutative]>;
def Nn_ModOp : Nn_BinaryOp<"mod", "Remainder with the divisor's sign, broadcast.", [Differentiable]>;
def Nn_AndOp : Nn_BinaryOp<"and", "Both, broadcast.", [Commutative]>;
def Nn_OrOp : Nn_BinaryOp<"or", "Either, broadcast.", [Commutative]>;
def Nn_XorOp : Nn_BinaryOp<"xor", "One of both, broadcast.", [Commutative]>;
def Nn_CompareOp : Nn_InferredOp<"compare", [RowWise]> {
  let summary = "Comparison, broadcast: eq, ne, lt, le, gt or ge.";
  let arguments = (ins Nn_Tensor:$lhs, Nn_Tensor:$rhs, StrAttr:$predicate);
  let results = (outs Nn_BoolTensor:$result);
}
def Nn_SelectOp : Nn_InferredOp<"select", [Differentiable, RowWise]> {
  let summary = "lhs where the condition holds, else rhs; all broadcast.";
  let arguments = (ins Nn_BoolTensor:$condition, Nn_Tensor:$lhs, Nn_Tensor:$rhs);
  let results = (outs Nn_Tensor:$result);
}

class Nn_UnaryOp<string mnemonic, string text, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat(traits, [SameOperandsAndResultType, RowWise])> {
  let summary = text;
  let arguments = (ins Nn_Tensor:$operand);
  let results = (outs Nn_Tensor:$result);
}
def Nn_NegOp : Nn_UnaryOp<"neg", "-x", [Differentiable]> { let hasFolder = 1; }
def Nn_AbsOp : Nn_UnaryOp<"abs", "|x|", [Differentiable]>;
def Nn_SignOp : Nn_UnaryOp<"sign", "-1, 0 or 1", [Flat]>;
def Nn_ExpOp : Nn_UnaryOp<"exp", "e^x", [Differentiable, FullPrecision]>;
def Nn_LogOp : Nn_UnaryOp<"log", "Natural logarithm.", [Differentiable, FullPrecision]>;
def Nn_SqrtOp : Nn_UnaryOp<"sqrt", "Square root.", [Differentiable, FullPrecision]> { let hasFolder = 1; }
def Nn_RsqrtOp : Nn_UnaryOp<"rsqrt", "1 / sqrt(x)", [Differentiable, FullPrecision]> { let hasFolder = 1; }
def Nn_ReciprocalOp : Nn_UnaryOp<"reciprocal", "1 / x", [Differentiable, FullPrecision]> { let hasFolder = 1; }
def Nn_TanhOp : Nn_UnaryOp<"tanh", "Hyperbolic tangent.", [Differentiable, FullPrecision]>;
def Nn_SigmoidOp : Nn_UnaryOp<"sigmoid", "1 / (1 + e^-x)", [Differentiable, FullPrecision]>;
def Nn_SoftplusOp : Nn_UnaryOp<"softplus", "log(1 + e^x)", [Differentiable]>;
def Nn_ErfOp : Nn_UnaryOp<"erf", "Error function.", [Differentiable, FullPrecision]>;
def Nn_SinOp : Nn_UnaryOp<"sin", "Sine.", [Differentiable, FullPrecision]>;
def Nn_CosOp : Nn_UnaryOp<"cos", "Cosine.", [Differentiable, FullPrecision]>;
def Nn_AtanOp : Nn_UnaryOp<"atan", "Inverse of the tangent.", [Differentiable, FullPrecision]>;
def Nn_FloorOp : Nn_UnaryOp<"floor", "Largest integer not above x.", [Flat]>;
def Nn_CeilOp : Nn_UnaryOp<"ceil", "Smallest integer not below x.", [Flat]>;
def Nn_RoundOp : Nn_UnaryOp<"round", "Nearest integer, halves to even.", [Flat]>;
def Nn_DetachOp : Nn_UnaryOp<"detach", "x, through which no gradient goes. mt-differentiate takes it away.", [Flat]>;
def Nn_ReluOp : Nn_UnaryOp<"relu", "max(x, 0)", [Differentiable]>;
def Nn_SiluOp : Nn_UnaryOp<"silu", "x * sigmoid(x)", [Differentiable]>;
def Nn_NotOp : Nn_UnaryOp<"not", "Logical negation of booleans.">;
def Nn_IsNanOp : Nn_Op<"is_nan", [SameOperandsAndResultShape, InferTypeOpAdaptor, RowWise]> {
  let summary = "Whether x is not a number.";
  let arguments = (ins Nn_FloatTensor:$operand);
  let results = (outs Nn_BoolTensor:$result);
}
def Nn_GeluOp : Nn_Op<"gelu", [Differentiable, SameOperandsAndResultType, RowWise]> {
  let summary = "x * Phi(x): form `erf` exact, `tanh` its approximation, `sigmoid` x * sigmoid(1.702 x).";
  let arguments = (ins Nn_FloatTensor:$operand, DefaultValuedStrAttr<StrAttr, "erf">:$form);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
// d(op)/dx * dy in one pass, from the operand x: for gelu, silu, softplus and the like.
def Nn_ActivationGradOp : Nn_Op<"activation_grad", [AllTypesMatch<["operand", "gradient", "result"]>]> {
  let summary = "Gradient of an activation from its input: relu, silu, gelu_erf, gelu_tanh, gelu_sigmoid, softplus.";
  let arguments = (ins Nn_FloatTensor:$operand, Nn_FloatTensor:$gradient, StrAttr:$activation);
  let results = (outs Nn_FloatTensor:$result);
}
// What gated feed-forward layers compute between their products.
def Nn_GatedProductOp : Nn_InferredOp<"gated_product", [Differentiable, AllTypesMatch<["gate", "up"]>, RowWise]> {
  let summary = "activation(gate) * up; activation: silu, gelu_erf, gelu_tanh, gelu_sigmoid, relu, sigmoid.";
  let arguments = (ins Nn_FloatTensor:$gate, Nn_FloatTensor:$up, StrAttr:$activation);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_GatedProductGradOp : Nn_InferredOp<"gated_product_grad", [AllTypesMatch<["gate", "up", "gradient"]>]> {
  let summary = "Gradients of both factors of a gated product.";
  let arguments = (ins Nn_FloatTensor:$gate, Nn_FloatTensor:$up, Nn_FloatTensor:$gradient, StrAttr:$activation);
  let results = (outs Nn_FloatTensor:$dgate, Nn_FloatTensor:$dup);
}

// What mt-fuse-elementwise makes of operations, after they are differentiated.
def Nn_ElementwiseOp : Nn_Op<"elementwise", [RowWise]> {
  let summary = "Several elementwise operations in one pass: `expression`, as kernels/Expression.h writes them.";
  let arguments = (ins Variadic<Nn_Tensor>:$inputs, StrAttr:$expression);
  let results = (outs Variadic<Nn_Tensor>:$results);
}
def Nn_ElementwiseSumsOp : Nn_Op<"elementwise_sums"> {
  let summary = "The same, and sums or means over `axes` of its last `sums` values in place of those.";
  let arguments = (ins Variadic<Nn_Tensor>:$inputs, StrAttr:$expression, I64Attr:$sums, StrAttr:$kind, DenseI64ArrayAttr:$axes);
  let results = (outs Variadic<Nn_Tensor>:$results);
}

//===-- structure -------------------------------------------------------------------------------------------===//

def Nn_ConstantOp : Nn_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "A constant of at most 65,536 elements, or a splat of any shape.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Nn_IotaOp : Nn_Op<"iota"> {
  let summary = "start + step * index along one dimension.";
  let arguments = (ins I64Attr:$dimension, DefaultValuedAttr<F64Attr, "0.0">:$start, DefaultValuedAttr<F64Attr, "1.0">:$step);
  let results = (outs Nn_Tensor:$result);
}
def Nn_ReshapeOp : Nn_Op<"reshape", [Differentiable, Movement, Rows]> {
  let summary = "The same elements in row-major order under another shape; a view.";
  let arguments = (ins Nn_Tensor:$operand);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Nn_CastOp : Nn_Op<"cast", [Differentiable, SameOperandsAndResultShape, Precise, RowWise]> {
  let summary = "Converts the element type; floats to integers truncate, anything non-zero is true.";
  let arguments = (ins Nn_Tensor:$operand);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
}
def Nn_DequantizeOp : Nn_Op<"dequantize", [Differentiable, Precise, Rows]> {
  let summary = "(value - zero) * scale, or levels[value] * scale: whole numbers of `bits` bits, packed into bytes, as reals; a scale for `block` entries along `axis`.";
  let arguments = (ins StaticShapeTensorOf<[I8, UI8]>:$values, Nn_FloatTensor:$scales, Optional<Nn_FloatTensor>:$zeros, I64Attr:$bits,
                       DefaultValuedAttr<BoolAttr, "false">:$isSigned, DefaultValuedAttr<I64Attr, "0">:$zero,
                       DefaultValuedAttr<I64Attr, "0">:$axis, DefaultValuedAttr<I64Attr, "1">:$block,
                       OptionalAttr<DenseF64ArrayAttr>:$levels);
  let results = (outs Nn_FloatTensor:$result);
  let extraClassDeclaration = [{
    /// Whether it reads arguments and constants alone, as stored weights are: then it is made again rather than kept.
    bool isOfStored() {
      return llvm::all_of(getOperation()->getOperands(), [](mlir::Value operand) {
        return mlir::isa<mlir::BlockArgument>(operand) || operand.getDefiningOp<ConstantOp>();
      });
    }
  }];
}
def Nn_CopyOp : Nn_UnaryOp<"copy", "The same elements in a place of their own, where a view will not do.">;
def Nn_TransposeOp : Nn_InferredOp<"transpose", [Differentiable, Movement, Rows]> {
  let summary = "Dimension i of the result is dimension permutation[i] of the operand.";
  let arguments = (ins Nn_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
}
def Nn_BroadcastOp : Nn_Op<"broadcast", [Differentiable, Movement, Rows]> {
  let summary = "Repeats dimensions of size one, and adds leading ones, as NumPy's broadcast_to does.";
  let arguments = (ins Nn_Tensor:$operand);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Nn_SliceOp : Nn_InferredOp<"slice", [Differentiable, Movement, Rows]> {
  let summary = "result[i] = operand[starts + i * strides], `sizes` elements a dimension; strides may be negative.";
  let arguments = (ins Nn_Tensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Nn_PadOp : Nn_InferredOp<"pad", [Differentiable, Movement, Rows]> {
  let summary = "`value` around the operand, and `interior` of it between its elements: the reverse of a slice.";
  let arguments = (ins Nn_Tensor:$operand, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior,
                       DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs Nn_Tensor:$result);
}
def Nn_ConcatOp : Nn_InferredOp<"concat", [Differentiable, Movement, Rows]> {
  let summary = "The operands one after another along `axis`.";
  let arguments = (ins Variadic<Nn_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Nn_Tensor:$result);
  let hasFolder = 1;
}
def Nn_ReduceOp : Nn_MixedOp<"reduce", [Differentiable, FullPrecision, Rows]> {
  let summary = "sum, mean, max, min or prod over `axes` (ascending), which go or stay as ones. Of equal elements the "
                "`first` along the one axis has the gradient, else they share it.";
  let arguments = (ins Nn_Tensor:$operand, StrAttr:$kind, DenseI64ArrayAttr:$axes, BoolAttr:$keepDims,
                       DefaultValuedAttr<BoolAttr, "false">:$first);
  let results = (outs Nn_Tensor:$result);
}
def Nn_CumsumOp : Nn_InferredOp<"cumsum", [Differentiable, FullPrecision, Rows]> {
  let summary = "Running sum along `axis`.";
  let arguments = (ins Nn_Tensor:$operand, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$exclusive,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Nn_Tensor:$result);
}
def Nn_GatherOp : Nn_InferredOp<"gather", [Differentiable, Movement, Rows]> {
  let summary = "ONNX Gather: entries of `data` along `axis` at `indices`; negative indices count from the end.";
  let arguments = (ins Nn_Tensor:$data, Nn_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Nn_Tensor:$result);
}
def Nn_GatherGradOp : Nn_Op<"gather_grad"> {
  let summary = "Gradient of gather for its data: sums `gradient` into the places it came from, in index order.";
  let arguments = (ins Nn_IntTensor:$indices, Nn_FloatTensor:$gradient, I64Attr:$axis);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_GatherNdOp : Nn_InferredOp<"gather_nd", [Differentiable, Movement, Rows]> {
  let summary = "ONNX GatherND: slices of `data` at index tuples; the first `batchDims` dimensions run together.";
  let arguments = (ins Nn_Tensor:$data, Nn_IntTensor:$indices, DefaultValuedAttr<I64Attr, "0">:$batchDims);
  let results = (outs Nn_Tensor:$result);
}
def Nn_GatherElementsOp : Nn_InferredOp<"gather_elements", [Differentiable, Movement, Rows]> {
  let summary = "ONNX GatherElements: result[i][j] = data[i][indices[i][j]] along `axis`.";
  let arguments = (ins Nn_Tensor:$data, Nn_IntTensor:$indices, I64Attr:$axis);
  let results = (outs Nn_Tensor:$result);
}
def Nn_ScatterOp : Nn_InferredOp<"scatter", [Differentiable, FullPrecision, Rows]> {
  let summary = "`data` with entries `updates` put (none), added, multiplied or compared (max, min) at `indices` along `axis`, in their order.";
  let arguments = (ins Nn_Tensor:$data, Nn_IntTensor:$indices, Nn_Tensor:$updates, I64Attr:$axis,
                       DefaultValuedStrAttr<StrAttr, "none">:$kind);
  let results = (outs Nn_Tensor:$result);
}
def Nn_ScatterElementsOp : Nn_InferredOp<"scatter_elements", [Differentiable, FullPrecision, Rows]> {
  let summary = "ONNX ScatterElements: `data`, but result[i][indices[i][j]] takes updates[i][j] as in scatter.";
  let arguments = (ins Nn_Tensor:$data, Nn_IntTensor:$indices, Nn_Tensor:$updates, I64Attr:$axis,
                       DefaultValuedStrAttr<StrAttr, "none">:$kind);
  let results = (outs Nn_Tensor:$result);
}
def Nn_TopKOp : Nn_InferredOp<"top_k", [Rows]> {
  let summary = "Places of the `k` largest (or smallest) elements along the last dimension, in that order; equal ones by place.";
  let arguments = (ins Nn_Tensor:$operand, I64Attr:$k, DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs Nn_IntTensor:$result);
}

def Nn_StepSumOp : Nn_Op<"step_sum", [SameOperandsAndResultType, FullPrecision]> {
  let summary = "The sum of a number over the micro-batches of a step, which each of them sees: what a step's mean is divided by.";
  let arguments = (ins Nn_Tensor:$operand);
  let results = (outs Nn_Tensor:$result);
}

//===-- products --------------------------------------------------------------------------------------------===//

def Nn_MatmulOp : Nn_MixedOp<"matmul", [Differentiable, Precise, Rows]> {
  let summary = "Matrix product over the last two dimensions, either side transposed, plus an optional bias row.";
  let description = [{
    lhs is [batch.., M, K] ([batch.., K, M] with `transposeLhs`), rhs [batch.., K, N] ([batch.., N, K] with
    `transposeRhs`) with the same batch dimensions, or without any: then it serves all of them. bias is [N].
    The result is [batch.., M, N]. Sums are in 32 bits at least.
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, Optional<Nn_FloatTensor>:$bias,
                       DefaultValuedAttr<BoolAttr, "false">:$transposeLhs, DefaultValuedAttr<BoolAttr, "false">:$transposeRhs);
  let results = (outs Nn_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs, "bool":$transposeLhs, "bool":$transposeRhs)>];
}

// What products become with the operations beside them (mt-fuse-epilogues): devices may compute both at once.
def Nn_MatmulAddOp : Nn_InferredOp<"matmul_add", [Differentiable]> {
  let summary = "A matrix product as of matmul, and a sum with it: `addend` has the result's type.";
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, Nn_FloatTensor:$addend, Optional<Nn_FloatTensor>:$bias,
                       DefaultValuedAttr<BoolAttr, "false">:$transposeLhs, DefaultValuedAttr<BoolAttr, "false">:$transposeRhs);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_MatmulGeluOp : Nn_InferredOp<"matmul_gelu", [Differentiable]> {
  let summary = "gelu, form tanh, of a matrix product as of matmul; `input` is the product itself.";
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, Optional<Nn_FloatTensor>:$bias,
                       DefaultValuedAttr<BoolAttr, "false">:$transposeLhs, DefaultValuedAttr<BoolAttr, "false">:$transposeRhs);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$input);
}
def Nn_MatmulGeluGradOp : Nn_Op<"matmul_gelu_grad", [AllTypesMatch<["input", "result"]>]> {
  let summary = "A matrix product times the derivative of gelu, form tanh, at `input`.";
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, Nn_FloatTensor:$input,
                       DefaultValuedAttr<BoolAttr, "false">:$transposeLhs, DefaultValuedAttr<BoolAttr, "false">:$transposeRhs);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_MatmulSumsOp : Nn_Op<"matmul_sums"> {
  let summary = "A matrix product, and the sums of lhs [K, M] or rhs [K, N] over K: the gradients of a weight and its bias.";
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs, DefaultValuedAttr<BoolAttr, "false">:$sumsOfLhs,
                       DefaultValuedAttr<BoolAttr, "false">:$transposeLhs, DefaultValuedAttr<BoolAttr, "false">:$transposeRhs);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$sums);
}

// Products of rows with the matrix that each of them names: what mixtures of experts are made of.
def Nn_ExpertMatmulOp : Nn_MixedOp<"expert_matmul", [Differentiable, Precise, Rows]> {
  let summary = "Row i of the result is row i of lhs times matrix experts[i] of weight.";
  let description = [{
    lhs is [R, K], weight [E, K, N] ([E, N, K] with `transposed`), experts [R] with entries in [0, E); the result is [R, N].
    Work and memory are those of R rows, whatever E: each expert multiplies its own rows, in their order.
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$weight, Nn_IntTensor:$experts,
                       DefaultValuedAttr<BoolAttr, "false">:$transposed);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_ExpertMatmulGradOp : Nn_Op<"expert_matmul_grad"> {
  let summary = "Gradient of the weight: each expert's matrix the sum over its rows, in order; zero where it has none.";
  let arguments = (ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$lhs, Nn_IntTensor:$experts,
                       DefaultValuedAttr<BoolAttr, "false">:$transposed);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- convolution, pooling --------------------------------------------------------------------------------===//
// Windows of one to three dimensions behind batch and channels; place p of a kernel sees element
// output * stride + p * dilation - low of its dimension. `low` and `high` are zeros around the operand.

class Nn_WindowOp<string mnemonic, list<Trait> traits = []> : Nn_MixedOp<mnemonic, traits>;
defvar Nn_WindowAttributes = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low,
                                  DenseI64ArrayAttr:$high);
def Nn_ConvOp : Nn_WindowOp<"conv", [Differentiable, Precise, Rows]> {
  let summary = "Convolution of an image [N, C, ..] with a kernel [M, C / groups, ..], plus an optional bias [M]: [N, M, ..].";
  let arguments = !con((ins Nn_FloatTensor:$image, Nn_FloatTensor:$kernel, Optional<Nn_FloatTensor>:$bias), Nn_WindowAttributes,
                       (ins DefaultValuedAttr<I64Attr, "1">:$groups));
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_ConvDataGradOp : Nn_Op<"conv_data_grad", [Differentiable, Precise, Rows]> {
  let summary = "Gradient of a convolution's image from that of its result [N, M, ..]; the transposed convolution.";
  let arguments = !con((ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$kernel), Nn_WindowAttributes,
                       (ins DefaultValuedAttr<I64Attr, "1">:$groups));
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_ConvWeightGradOp : Nn_Op<"conv_weight_grad"> {
  let summary = "Gradient of a convolution's kernel, summed over images and places.";
  let arguments = !con((ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$image), Nn_WindowAttributes,
                       (ins DefaultValuedAttr<I64Attr, "1">:$groups));
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_PoolOp : Nn_InferredOp<"pool", [Differentiable, Rows]> {
  let summary = "Largest element (max), sum or mean of what each window of `size` places sees; what lies around counts for none.";
  let arguments = !con((ins Nn_FloatTensor:$operand, StrAttr:$kind, DenseI64ArrayAttr:$size), Nn_WindowAttributes);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_PoolGradOp : Nn_Op<"pool_grad"> {
  let summary = "Gradient of a pool's operand, which max alone reads: the first of equal largest elements takes all.";
  let arguments = !con((ins Nn_FloatTensor:$gradient, Optional<Nn_FloatTensor>:$operand, StrAttr:$kind,
                            DenseI64ArrayAttr:$size), Nn_WindowAttributes);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- embedding, normalization, softmax -------------------------------------------------------------------===//

def Nn_EmbeddingOp : Nn_InferredOp<"embedding", [Differentiable, Movement, Rows]> {
  let summary = "Rows of `table` [V, D] at `ids` [..]: [.., D]. No gradient comes to the row that is named `padding`.";
  let arguments = (ins Nn_FloatTensor:$table, Nn_IntTensor:$ids, OptionalAttr<I64Attr>:$padding);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_EmbeddingGradOp : Nn_Op<"embedding_grad"> {
  let summary = "Gradient of the table: each row the sum of the gradients of its uses, in order; zero where unused.";
  let arguments = (ins Nn_IntTensor:$ids, Nn_FloatTensor:$gradient);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_LayerNormOp : Nn_MixedOp<"layer_norm", [Differentiable, AttrSizedOperandSegments, Precise, Rows]> {
  let summary = "(x - mean) * rstd * gain + bias over the last dimension; mean and rstd are statistics in 32 bits.";
  let arguments = (ins Nn_FloatTensor:$operand, Optional<Nn_FloatTensor>:$gain, Optional<Nn_FloatTensor>:$bias, F64Attr:$epsilon);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$mean, Nn_FloatTensor:$rstd);
}
def Nn_LayerNormGradOp : Nn_Op<"layer_norm_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradients of x, plus `addend`, of gain and bias ([D] each).";
  let arguments = (ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$operand, Nn_FloatTensor:$mean, Nn_FloatTensor:$rstd,
                       Optional<Nn_FloatTensor>:$gain, Optional<Nn_FloatTensor>:$addend);
  let results = (outs Nn_FloatTensor:$doperand, Nn_FloatTensor:$dgain, Nn_FloatTensor:$dbias);
}
def Nn_RmsNormOp : Nn_MixedOp<"rms_norm", [Differentiable, Precise, Rows]> {
  let summary = "x * rstd * gain over the last dimension, rstd = 1 / sqrt(mean(x^2) + epsilon) in 32 bits.";
  let arguments = (ins Nn_FloatTensor:$operand, Optional<Nn_FloatTensor>:$gain, F64Attr:$epsilon);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$rstd);
}
def Nn_RmsNormGradOp : Nn_Op<"rms_norm_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradients of x, plus `addend`, and of gain ([D]).";
  let arguments = (ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$operand, Nn_FloatTensor:$rstd, Optional<Nn_FloatTensor>:$gain,
                       Optional<Nn_FloatTensor>:$addend);
  let results = (outs Nn_FloatTensor:$doperand, Nn_FloatTensor:$dgain);
}
def Nn_SoftmaxOp : Nn_Op<"softmax", [Differentiable, SameOperandsAndResultType, FullPrecision, Rows]> {
  let summary = "Softmax over the last dimension.";
  let arguments = (ins Nn_FloatTensor:$operand);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_SoftmaxGradOp : Nn_Op<"softmax_grad", [SameOperandsAndResultType]> {
  let summary = "y * (dy - sum(dy * y)) over the last dimension, from the result y.";
  let arguments = (ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$output);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_LogSoftmaxOp : Nn_Op<"log_softmax", [Differentiable, SameOperandsAndResultType, FullPrecision, Rows]> {
  let summary = "Logarithm of the softmax over the last dimension.";
  let arguments = (ins Nn_FloatTensor:$operand);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- recurrence ------------------------------------------------------------------------------------------===//

def Nn_RecurrenceOp : Nn_InferredOp<"recurrence", [Differentiable, AttrSizedOperandSegments, Precise, Rows]> {
  let summary = "A recurrent layer in one direction, from its products with the inputs: its states at every step.";
  let description = [{
    gates [S, B, G * H] is what comes from the inputs, biases included, weight [G * H, H] multiplies the state before,
    recurrentBias [G * H] is added to that product p; initialHidden, initialCell [B, H]: zeros if absent; peephole [3 * H]
    for i, o, f. Results: hidden and, of lstm, cell [S, B, H], in 32 bits. Activations f `gate`, g `candidate`, h `output`;
    each preactivation is kept within [-clip, clip] if clip > 0. ONNX's LSTM, GRU and RNN; gates in their order:

        lstm (i o f c)  i, f = f(gates + p + peephole * C_before), or f = 1 - i if `coupled`; C = f * C_before + i * g(..),
                        o = f(gates + p + peephole * C), H = o * h(C)
        gru (z r h)     z, r = f(gates + p), n = g(gates + r * p) if `linearBeforeReset`, else p is the product with
                        r * H_before; H = (1 - z) * n + z * H_before
        rnn             H = g(gates + p)

    Steps go from the first to the last, or with `reverse` from the last to the first. From step lengths[b] on, a row keeps
    the state that it has: going forward its last, in reverse the initial one.
  }];
  let arguments = (ins Nn_FloatTensor:$gates, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$recurrentBias,
                       Optional<Nn_FloatTensor>:$initialHidden, Optional<Nn_FloatTensor>:$initialCell,
                       Optional<Nn_IntTensor>:$lengths, Optional<Nn_FloatTensor>:$peephole, StrAttr:$kind,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse, DefaultValuedAttr<BoolAttr, "false">:$linearBeforeReset,
                       DefaultValuedAttr<BoolAttr, "false">:$coupled, DefaultValuedAttr<F64Attr, "0.0">:$clip,
                       DefaultValuedStrAttr<StrAttr, "sigmoid">:$gate, DefaultValuedStrAttr<StrAttr, "tanh">:$candidate,
                       DefaultValuedStrAttr<StrAttr, "tanh">:$output);
  let results = (outs Nn_FloatTensor:$hidden, Optional<Nn_FloatTensor>:$cell);
}
def Nn_RecurrenceGradOp : Nn_Op<"recurrence_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradients of gates, of the products with states, and of the initial states, from the last step to the first.";
  let arguments = (ins Nn_FloatTensor:$dhidden, Optional<Nn_FloatTensor>:$dcell, Nn_FloatTensor:$gates,
                       Nn_FloatTensor:$products, Nn_FloatTensor:$weight, Nn_FloatTensor:$before,
                       Optional<Nn_FloatTensor>:$cellBefore, Optional<Nn_IntTensor>:$lengths, Optional<Nn_FloatTensor>:$peephole,
                       StrAttr:$kind,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse, DefaultValuedAttr<BoolAttr, "false">:$linearBeforeReset,
                       DefaultValuedAttr<BoolAttr, "false">:$coupled, DefaultValuedAttr<F64Attr, "0.0">:$clip,
                       DefaultValuedStrAttr<StrAttr, "sigmoid">:$gate, DefaultValuedStrAttr<StrAttr, "tanh">:$candidate,
                       DefaultValuedStrAttr<StrAttr, "tanh">:$output);
  let results = (outs Nn_FloatTensor:$dgates, Nn_FloatTensor:$dproducts, Nn_FloatTensor:$dinitialHidden,
                      Optional<Nn_FloatTensor>:$dinitialCell);
}

//===-- attention -------------------------------------------------------------------------------------------===//

def Nn_AttentionOp : Nn_InferredOp<"attention", [Differentiable, AttrSizedOperandSegments, Precise, Rows]> {
  let summary = "Scaled dot-product attention with grouped heads and a mask predicate, never a mask tensor.";
  let description = [{
    query [B, Sq, H, D], key [B, Sk, G, D], value [B, Sk, G, Dv], H a multiple of G; result [B, Sq, H, Dv] and
    logsumexp [B, H, Sq] in 32 bits. scores = scale * q . k; with softCap c > 0, c * tanh(scores / c); plus bias
    [B or 1, H or 1, Sq or 1, Sk], or by distance [B or 1, H or 1, 1, Sq + Sk - 1], of which query q takes entry
    k - q + Sq - 1 for key k, or by place [B or 1, H or 1, 1, N], of which it takes entry keyPlace[k] - queryPlace[q]
    (tokens of pictures; the places of keys differ, the smallest of a query is 0); it may carry gradient. The predicate:
    query q of batch row b sees key k where

        (minDistance <= d and d <= maxDistance and d mod dilation == 0  or  k < prefix)   with d = q - k + offset
        and keyMask[b, k]  and  querySegment[b, q] == keySegment[b, k]  and  (chunk == 0 or q / chunk == k / chunk)

    for 0 <= b < B, 0 <= q < Sq, 0 <= k < Sk, whatever the head; an absent operand does not restrict. The prefix is an
    alternative to the whole window, never to one of its ends: `causal and (window or k < prefix)` is no predicate.
    Causal is minDistance 0, a window of w keys maxDistance w - 1; offset is 0 unless queries start later. With
    segmentBias c < 0 keys of another segment are seen, their scores c smaller. A sink [H] is a score of its head that
    takes part in the softmax and weighs no value: Xiao et al., arXiv 2309.17453. A query that sees no key gives zeros,
    where a softmax over finite hidden scores gives a mean of all values, and one over infinite ones no number.
  }];
  let arguments = (ins Nn_FloatTensor:$query, Nn_FloatTensor:$key, Nn_FloatTensor:$value, Optional<Nn_FloatTensor>:$bias,
                       Optional<Nn_BoolTensor>:$keyMask, Optional<Nn_IntTensor>:$querySegment, Optional<Nn_IntTensor>:$keySegment,
                       Optional<Nn_IntTensor>:$queryPlace, Optional<Nn_IntTensor>:$keyPlace, Optional<Nn_FloatTensor>:$sink,
                       F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "INT64_MIN">:$minDistance, DefaultValuedAttr<I64Attr, "INT64_MAX">:$maxDistance,
                       DefaultValuedAttr<I64Attr, "0">:$offset, DefaultValuedAttr<I64Attr, "0">:$prefix, DefaultValuedAttr<I64Attr, "0">:$chunk,
                       DefaultValuedAttr<I64Attr, "1">:$dilation, DefaultValuedAttr<F64Attr, "0.0">:$segmentBias,
                       DefaultValuedAttr<F64Attr, "0.0">:$softCap);
  let results = (outs Nn_FloatTensor:$result, Nn_FloatTensor:$logsumexp);
}
def Nn_AttentionGradOp : Nn_Op<"attention_grad", [AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "Gradients of query, key, value (bias, sink), scores recomputed by blocks from the logsumexp.";
  let arguments = (ins Nn_FloatTensor:$gradient, Nn_FloatTensor:$query, Nn_FloatTensor:$key, Nn_FloatTensor:$value,
                       Optional<Nn_FloatTensor>:$bias, Optional<Nn_BoolTensor>:$keyMask, Optional<Nn_IntTensor>:$querySegment,
                       Optional<Nn_IntTensor>:$keySegment, Optional<Nn_IntTensor>:$queryPlace, Optional<Nn_IntTensor>:$keyPlace,
                       Optional<Nn_FloatTensor>:$sink, Nn_FloatTensor:$output, Nn_FloatTensor:$logsumexp,
                       F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "INT64_MIN">:$minDistance, DefaultValuedAttr<I64Attr, "INT64_MAX">:$maxDistance,
                       DefaultValuedAttr<I64Attr, "0">:$offset, DefaultValuedAttr<I64Attr, "0">:$prefix, DefaultValuedAttr<I64Attr, "0">:$chunk,
                       DefaultValuedAttr<I64Attr, "1">:$dilation, DefaultValuedAttr<F64Attr, "0.0">:$segmentBias,
                       DefaultValuedAttr<F64Attr, "0.0">:$softCap);
  let results = (outs Nn_FloatTensor:$dquery, Nn_FloatTensor:$dkey, Nn_FloatTensor:$dvalue, Optional<Nn_FloatTensor>:$dbias,
                     Optional<Nn_FloatTensor>:$dsink);
}
def Nn_RotaryOp : Nn_InferredOp<"rotary", [Differentiable, Precise, Rows]> {
  let summary = "Rotary position embedding of x [B, S, H, D] by cos, sin [B or 1, S, R/2], R <= D; the rest passes through.";
  let description = [{
    Pairs (x[i], x[i + R/2]) for i < R/2, or (x[2i], x[2i + 1]) when `interleaved`, become
    (a cos - b sin, b cos + a sin); with `inverse` sin is negated. Su et al., RoFormer, arXiv 2104.09864.
  }];
  let arguments = (ins Nn_FloatTensor:$operand, Nn_FloatTensor:$cos, Nn_FloatTensor:$sin,
                       DefaultValuedAttr<BoolAttr, "false">:$interleaved, DefaultValuedAttr<BoolAttr, "false">:$inverse);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- losses ----------------------------------------------------------------------------------------------===//
// A loss is a scalar: the sum over its valid rows times scalars[kInverseValid] (kernels/Catalogue.h), so that the
// micro-batches of a step add up to the mean over the step's valid rows. Labels below zero do not count.
// Of a cross-entropy the share `labelSmoothing` is the mean over all classes in place of the label's (Szegedy et al.,
// arXiv 1512.00567, section 7), and `zLoss` times the square of the logsumexp is added (Chowdhery et al., PaLM, arXiv
// 2204.02311, section 5): of what is trained; evaluations have neither.

def Nn_CrossEntropyOp : Nn_InferredOp<"cross_entropy", [Differentiable, FullPrecision, Rows]> {
  let summary = "Cross-entropy of logits [N, V] against labels [N]; scalar.";
  let arguments = (ins Nn_FloatTensor:$logits, Nn_IntTensor:$labels, Nn_ScalarsTensor:$scalars,
                       OptionalAttr<F64Attr>:$labelSmoothing, OptionalAttr<F64Attr>:$zLoss);
  let results = (outs F32Tensor:$loss);
}
def Nn_CrossEntropyGradOp : Nn_InferredOp<"cross_entropy_grad"> {
  let summary = "The loss again, and the gradient of the logits: (softmax - onehot) * inverse valid without the attributes.";
  let arguments = (ins Nn_FloatTensor:$logits, Nn_IntTensor:$labels, Nn_ScalarsTensor:$scalars,
                       OptionalAttr<F64Attr>:$labelSmoothing, OptionalAttr<F64Attr>:$zLoss);
  let results = (outs F32Tensor:$loss, Nn_FloatTensor:$dlogits);
}
def Nn_LinearCrossEntropyOp : Nn_InferredOp<"linear_cross_entropy", [Differentiable, Precise, Rows]> {
  let summary = "Head product and cross-entropy, chunked over rows so that all logits never exist.";
  let description = [{
    hidden [N, D]; weight [V, D], or [D, V] with `transposed`; bias [V]. logits = logitScale * (hidden . weight + bias),
    with softCap c > 0 then c * tanh(logits / c). `chunk` rows at a time; 0 until kernels are selected.
  }];
  let arguments = (ins Nn_FloatTensor:$hidden, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$bias, Nn_IntTensor:$labels,
                       Nn_ScalarsTensor:$scalars, DefaultValuedAttr<BoolAttr, "false">:$transposed,
                       DefaultValuedAttr<F64Attr, "1.0">:$logitScale, DefaultValuedAttr<F64Attr, "0.0">:$softCap,
                       DefaultValuedAttr<I64Attr, "0">:$chunk, OptionalAttr<F64Attr>:$labelSmoothing,
                       OptionalAttr<F64Attr>:$zLoss);
  let results = (outs F32Tensor:$loss);
}
def Nn_LinearCrossEntropyGradOp : Nn_Op<"linear_cross_entropy_grad", []> {
  let summary = "The loss again, and gradients of hidden, weight and bias, chunk by chunk; 32-bit sums.";
  let arguments = (ins Nn_FloatTensor:$hidden, Nn_FloatTensor:$weight, Optional<Nn_FloatTensor>:$bias, Nn_IntTensor:$labels,
                       Nn_ScalarsTensor:$scalars, DefaultValuedAttr<BoolAttr, "false">:$transposed,
                       DefaultValuedAttr<F64Attr, "1.0">:$logitScale, DefaultValuedAttr<F64Attr, "0.0">:$softCap,
                       DefaultValuedAttr<I64Attr, "0">:$chunk, OptionalAttr<F64Attr>:$labelSmoothing,
                       OptionalAttr<F64Attr>:$zLoss);
  let results = (outs F32Tensor:$loss, Nn_FloatTensor:$dhidden, Nn_FloatTensor:$dweight, Optional<Nn_FloatTensor>:$dbias);
}
def Nn_SquaredErrorOp : Nn_InferredOp<"squared_error", [Differentiable, FullPrecision, Rows]> {
  let summary = "Sum of squared differences of same-shaped tensors, over elements, times inverse valid; scalar.";
  let arguments = (ins Nn_FloatTensor:$prediction, Nn_FloatTensor:$target, Nn_ScalarsTensor:$scalars);
  let results = (outs F32Tensor:$loss);
}
def Nn_SquaredErrorGradOp : Nn_InferredOp<"squared_error_grad"> {
  let summary = "The loss again, and the gradient of the prediction: 2 (p - t) * inverse valid.";
  let arguments = (ins Nn_FloatTensor:$prediction, Nn_FloatTensor:$target, Nn_ScalarsTensor:$scalars);
  let results = (outs F32Tensor:$loss, Nn_FloatTensor:$dprediction);
}

// What a batch normalization in training keeps: the gradient of `running` is its next value, which its update puts in its
// place (kernels/Optimizers.h, replace). Ioffe and Szegedy, Batch Normalization, arXiv 1502.03167.
def Nn_RunningStatisticOp : Nn_Op<"running_statistic", [Differentiable, Precise, AllTypesMatch<["own", "running", "result"]>]> {
  let summary = "Statistics that normalize: the batch's `own` in training, the `running` ones in an evaluation.";
  let description = [{
    After a step `running` is momentum * running + (1 - momentum) * own, the population's variance, as ONNX
    BatchNormalization has it.
  }];
  let arguments = (ins Nn_FloatTensor:$own, Nn_FloatTensor:$running, Nn_ScalarsTensor:$scalars, F64Attr:$momentum);
  let results = (outs Nn_FloatTensor:$result);
}

//===-- random numbers --------------------------------------------------------------------------------------===//
// Pure functions of the run's seed and the step, which `scalars` have, of `node`, a number that every such node of the
// model has for itself, and of an element's place in the whole batch: the same wherever and however often they are made
// (kernels/Random.h). Elements that belong to rows of the batch are numbered by the numbers of those, `rows`.

def Nn_DropoutOp : Nn_Op<"dropout", [Differentiable, Rows, AllTypesMatch<["operand", "result"]>]> {
  let summary = "Zero with probability `ratio`, else x / (1 - ratio); in an evaluation x.";
  let description = [{
    `rows` are the numbers in the step's batch of the rows that the operand, seen as [outer, rows, inner], has;
    mt-number-rows says them, and `outer`. Without, elements are numbered as they lie. The gradient is the same
    operation on the result's: no mask is kept. Srivastava et al., Dropout, JMLR 15, 2014.
  }];
  let arguments = (ins Nn_FloatTensor:$operand, Optional<1DTensorOf<[I64]>>:$rows, Nn_ScalarsTensor:$scalars, 0DTensorOf<[I64]>:$node,
                       F64Attr:$ratio, DefaultValuedAttr<I64Attr, "1">:$outer);
  let results = (outs Nn_FloatTensor:$result);
}
def Nn_RandomOp : Nn_Op<"random", [Rows, Precise]> {
  let summary = "Random numbers: uniform in [0, 1), normal, or keep: 1 where dropout by `ratio` keeps, else 0.";
  let description = [{
    `rows` and `outer` are as of dropout. Until mt-number-rows has said them, `rows` may be any value of the result's
    shape: the result's rows are where its are. `keep` is 1 everywhere in an evaluation.
  }];
  let arguments = (ins Optional<Nn_Tensor>:$rows, Nn_ScalarsTensor:$scalars, 0DTensorOf<[I64]>:$node, StrAttr:$kind,
                       DefaultValuedAttr<F64Attr, "0.0">:$ratio, DefaultValuedAttr<I64Attr, "1">:$outer);
  let results = (outs Nn_FloatTensor:$result);
}
#endif
