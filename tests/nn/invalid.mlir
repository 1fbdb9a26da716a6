// RUN: mtc-opt %s --split-input-file --verify-diagnostics
// Every message of shape inference and verification of nn operations (compiler/nn/NnTypes.cpp), each from the smallest
// operation that earns it. An operation whose types cannot be inferred gets a second error from MLIR itself.

func.func @case(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+2 {{shapes 'tensor<2x3xf32>' and 'tensor<2x4xf32>' do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.add %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  // expected-error @+2 {{element types 'f32' and 'i64' differ}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.mul %a, %b : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+2 {{predicate must be eq, ne, lt, le, gt or ge}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.compare %a, %b {predicate = "lesser"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----

func.func @case(%a: tensor<2xf32>, %b: tensor<2xi64>) {
  // expected-error @+2 {{compares different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.compare %a, %b {predicate = "lt"} : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xi1>
  return
}

// -----

func.func @case(%c: tensor<2xi1>, %a: tensor<2xf32>, %b: tensor<2xi64>) {
  // expected-error @+2 {{chooses between different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.select %c, %a, %b : (tensor<2xi1>, tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{cannot view 'tensor<2x3xf32>' as 'tensor<7xf32>'}}
  %y = nn.reshape %a : (tensor<2x3xf32>) -> tensor<7xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{cannot view 'tensor<2x3xf32>' as 'tensor<6xi32>'}}
  %y = nn.reshape %a : (tensor<2x3xf32>) -> tensor<6xi32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{cannot repeat 'tensor<2x3xf32>' to 'tensor<2x6xf32>'}}
  %y = nn.broadcast %a : (tensor<2x3xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{permutation does not permute 2 dimensions}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.transpose %a {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{permutation has 1 entries for 2 dimensions}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.transpose %a {permutation = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{slices 1 dimensions of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.slice %a {starts = array<i64: 0, 0>, sizes = array<i64: 2>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{needs a start, a size and a stride for each dimension}}
  %y = nn.slice %a {starts = array<i64: 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<8xf32>) {
  // expected-error @+1 {{reaches from 2 to 8 in a dimension of 8}}
  %y = nn.slice %a {starts = array<i64: 2>, sizes = array<i64: 4>, strides = array<i64: 2>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<8xf32>) {
  // expected-error @+1 {{reaches from 2 to -1 in a dimension of 8}}
  %y = nn.slice %a {starts = array<i64: 2>, sizes = array<i64: 4>, strides = array<i64: -1>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<8xf32>) {
  // expected-error @+1 {{reaches from 0 to 0 in a dimension of 8}}
  %y = nn.slice %a {starts = array<i64: 0>, sizes = array<i64: 4>, strides = array<i64: 0>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{needs low, high and interior padding for each dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.pad %a {low = array<i64: 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @case() {
  // expected-error @+2 {{joins nothing}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.concat {axis = 0 : i64} : () -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2xf32>) {
  // expected-error @+2 {{axis 1 is not a dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.concat %a {axis = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2xf32>, %b: tensor<1x2xf32>) {
  // expected-error @+2 {{joins 'tensor<1x2xf32>' and 'tensor<2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.concat %a, %b {axis = 0 : i64} : (tensor<2xf32>, tensor<1x2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+2 {{joins 'tensor<2x4xf32>' and 'tensor<2x3xf32>' along 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.concat %a, %b {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{kind must be sum, mean, max, min or prod}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.reduce %a {kind = "average", axes = array<i64: 1>, keepDims = false} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{axis -1 is not a dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.reduce %a {kind = "sum", axes = array<i64: -1>, keepDims = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{axes must ascend}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.reduce %a {kind = "sum", axes = array<i64: 1, 0>, keepDims = false} : (tensor<2x3xf32>) -> tensor<f32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{axis 2 is not a dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.cumsum %a {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{axis 2 is not a dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.gather %a, %i {axis = 2 : i64} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error @+2 {{index tuples of 'tensor<4x3xi64>' do not fit 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.gather_nd %a, %i : (tensor<2x3xf32>, tensor<4x3xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{updates 'tensor<2x3xf32>' do not fit 'tensor<2x3xf32>' and the indices}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.scatter %a, %i, %a {axis = 1 : i64} : (tensor<2x3xf32>, tensor<4xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{axis 2 is not a dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.scatter %a, %i, %a {axis = 2 : i64} : (tensor<2x3xf32>, tensor<4xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{data and indices have different ranks}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.scatter_elements %a, %i, %a {axis = 1 : i64} : (tensor<2x3xf32>, tensor<4xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4x3xi64>, %u: tensor<4x3xf32>) {
  // expected-error @+2 {{indices 'tensor<4x3xi64>' exceed 'tensor<2x3xf32>' in dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.scatter_elements %a, %i, %u {axis = 1 : i64} : (tensor<2x3xf32>, tensor<4x3xi64>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{k = 4 is more than 'tensor<2x3xf32>' has along its last dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.top_k %a {k = 4 : i64} : (tensor<2x3xf32>) -> tensor<2x4xi64>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %w: tensor<4x5x6xf32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{rows 'tensor<2x3xf32>', matrices 'tensor<4x5x6xf32>' and experts 'tensor<2xi64>' do not fit}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.expert_matmul %a, %w, %i : (tensor<2x3xf32>, tensor<4x5x6xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  return
}

// -----

func.func @case(%a: tensor<1x3x8xf32>, %k: tensor<4x2x3xf32>) {
  // expected-error @+2 {{a kernel 'tensor<4x2x3xf32>' in 1 groups does not fit 'tensor<1x3x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.conv %a, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x3x8xf32>, tensor<4x2x3xf32>) -> tensor<1x4x6xf32>
  return
}

// -----

func.func @case(%a: tensor<1x2x8xf32>, %k: tensor<4x2x3xf32>, %b: tensor<5xf32>) {
  // expected-error @+2 {{bias 'tensor<5xf32>' has not one entry for each of 4 filters}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.conv %a, %k, %b {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x2x8xf32>, tensor<4x2x3xf32>, tensor<5xf32>) -> tensor<1x4x6xf32>
  return
}

// -----

func.func @case(%a: tensor<1x2x2xf32>, %k: tensor<4x2x3xf32>) {
  // expected-error @+2 {{the window is larger than the padded image in dimension 0, or moves by nothing}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.conv %a, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x2x2xf32>, tensor<4x2x3xf32>) -> tensor<1x4x1xf32>
  return
}

// -----

func.func @case(%a: tensor<1x2x8xf32>) {
  // expected-error @+2 {{the windows have not one size, stride, dilation and pad for each dimension of the image}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.pool %a {kind = "max", size = array<i64: 2, 2>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x2x8xf32>) -> tensor<1x2x7xf32>
  return
}

// -----

func.func @case(%a: tensor<2x8xf32>) {
  // expected-error @+2 {{needs batch, channels and at least one more dimension, not 'tensor<2x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.pool %a {kind = "max", size = array<i64: 2>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x8xf32>) -> tensor<2x7xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+2 {{data and indices have different ranks}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.gather_elements %a, %i {axis = 0 : i64} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @case(%a: tensor<2xf32>, %b: tensor<2x3xf32>) {
  // expected-error @+2 {{needs matrices, not 'tensor<2xf32>' and 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.matmul %a, %b : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3x4xf32>, %b: tensor<5x4x3xf32>) {
  // expected-error @+2 {{batch dimensions of 'tensor<2x3x4xf32>' and 'tensor<5x4x3xf32>' differ}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.matmul %a, %b : (tensor<2x3x4xf32>, tensor<5x4x3xf32>) -> tensor<2x3x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @+2 {{contracts dimensions of different size: 3 and 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.matmul %a, %b {transposeRhs = true} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<3xf32>) {
  // expected-error @+2 {{bias 'tensor<3xf32>' is not one row of 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.matmul %a, %b, %c : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @case(%a: tensor<8xf32>, %i: tensor<2xi64>) {
  // expected-error @+2 {{table must be a matrix, not 'tensor<8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.embedding %a, %i : (tensor<8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %g: tensor<2xf32>) {
  // expected-error @+2 {{gain 'tensor<2xf32>' does not fit the last dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %m, %r = nn.layer_norm %a, %g {epsilon = 1.0e-5, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>) {
  // expected-error @+2 {{bias 'tensor<1x3xf32>' does not fit the last dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %m, %r = nn.layer_norm %a, %b {epsilon = 1.0e-5, operandSegmentSizes = array<i32: 1, 0, 1>} : (tensor<2x3xf32>, tensor<1x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @case(%a: tensor<f32>) {
  // expected-error @+2 {{needs at least one dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %r = nn.rms_norm %a {epsilon = 1.0e-5} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>, %g: tensor<4xf32>) {
  // expected-error @+2 {{gain 'tensor<4xf32>' does not fit the last dimension of 'tensor<2x3xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %r = nn.rms_norm %a, %g {epsilon = 1.0e-5} : (tensor<2x3xf32>, tensor<4xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error @+2 {{kind must be lstm, gru or rnn}}
  // expected-error @+1 {{failed to infer returned types}}
  %a = nn.recurrence %g, %w {kind = "mlp", operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>) -> tensor<5x2x3xf32>
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error @+2 {{activations must be sigmoid, tanh or relu}}
  // expected-error @+1 {{failed to infer returned types}}
  %a, %b = nn.recurrence %g, %w {kind = "lstm", gate = "elu", operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x4xf32>, %h: tensor<2x3xf32>) {
  // expected-error @+2 {{only lstm has cells, a peephole and coupled gates}}
  // expected-error @+1 {{failed to infer returned types}}
  %a = nn.recurrence %g, %w {kind = "gru", coupled = true, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x4xf32>) -> tensor<5x2x4xf32>
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>) {
  // expected-error @+2 {{only gru has a reset gate}}
  // expected-error @+1 {{failed to infer returned types}}
  %a, %b = nn.recurrence %g, %w {kind = "lstm", linearBeforeReset = true, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x4xf32>, %h: tensor<2x3xf32>) {
  // expected-error @+2 {{gates 'tensor<5x2x12xf32>' and weight 'tensor<12x4xf32>' are not [steps, batch, 4 * width] and [4 * width, width]}}
  // expected-error @+1 {{failed to infer returned types}}
  %a, %b = nn.recurrence %g, %w {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x4xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<3x3xf32>) {
  // expected-error @+2 {{an initial state 'tensor<3x3xf32>' is not [batch, width] of 'tensor<5x2x12xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %a, %b = nn.recurrence %g, %w, %h {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<3x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  return
}

// -----

func.func @case(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<11xf32>) {
  // expected-error @+2 {{recurrent bias, peephole or lengths do not fit 'tensor<5x2x12xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %a, %b = nn.recurrence %g, %w, %h {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<11xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>) {
  // expected-error @+2 {{query, key and value need four dimensions: batch, position, head, channel}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x4x8xf32>, %v: tensor<2x5x4x8xf32>) {
  // expected-error @+2 {{query 'tensor<2x4x6x8xf32>', key 'tensor<2x5x4x8xf32>' and value 'tensor<2x5x4x8xf32>' do not fit}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %b: tensor<2x6x4x4xf32>) {
  // expected-error @+2 {{bias 'tensor<2x6x4x4xf32>' does not broadcast to the scores}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %b {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x6x4x4xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %m: tensor<2x4xi1>) {
  // expected-error @+2 {{key mask 'tensor<2x4xi1>' is not [batch, keys]}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %m {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x4xi1>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %s: tensor<2x4xi64>) {
  // expected-error @+2 {{needs segments of both queries and keys, or of neither}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %s {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0, 0, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x4xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %a: tensor<4xi64>, %b: tensor<5xi64>) {
  // expected-error @+2 {{needs places of both queries and keys and a bias, or of neither}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %a, %b {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 1, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<4xi64>, tensor<5xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %x: tensor<1x6x1x9xf32>, %a: tensor<5xi64>, %b: tensor<5xi64>) {
  // expected-error @+2 {{places are not [queries] and [keys]}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %x, %a, %b {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 1, 1, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<1x6x1x9xf32>, tensor<5xi64>, tensor<5xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %x: tensor<1x6x4x5xf32>, %a: tensor<4xi64>, %b: tensor<5xi64>) {
  // expected-error @+2 {{bias 'tensor<1x6x4x5xf32>' does not broadcast to the scores}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %x, %a, %b {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 1, 1, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<1x6x4x5xf32>, tensor<4xi64>, tensor<5xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %s: tensor<3xf32>) {
  // expected-error @+2 {{sink 'tensor<3xf32>' is not [heads]}}
  // expected-error @+1 {{failed to infer returned types}}
  %y, %l = nn.attention %q, %k, %v, %s {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<3xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  return
}

// -----

func.func @case(%x: tensor<2x4x6x8xf32>, %c: tensor<1x5x4xf32>) {
  // expected-error @+2 {{tables 'tensor<1x5x4xf32>' do not fit 'tensor<2x4x6x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.rotary %x, %c, %c : (tensor<2x4x6x8xf32>, tensor<1x5x4xf32>, tensor<1x5x4xf32>) -> tensor<2x4x6x8xf32>
  return
}

// -----

func.func @case(%x: tensor<4x6xf32>, %l: tensor<3xi64>, %s: tensor<16xf64>) {
  // expected-error @+2 {{logits 'tensor<4x6xf32>' and labels 'tensor<3xi64>' do not fit}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.cross_entropy %x, %l, %s : (tensor<4x6xf32>, tensor<3xi64>, tensor<16xf64>) -> tensor<f32>
  return
}

// -----

func.func @case(%x: tensor<4x6xf32>, %w: tensor<6x9xf32>, %l: tensor<4xi64>, %s: tensor<16xf64>) {
  // expected-error @+2 {{hidden 'tensor<4x6xf32>', weight 'tensor<6x9xf32>' and labels 'tensor<4xi64>' do not fit}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.linear_cross_entropy %x, %w, %l, %s : (tensor<4x6xf32>, tensor<6x9xf32>, tensor<4xi64>, tensor<16xf64>) -> tensor<f32>
  return
}

// -----

func.func @case(%x: tensor<4x6xf32>, %t: tensor<4xf32>, %s: tensor<16xf64>) {
  // expected-error @+2 {{compares 'tensor<4x6xf32>' with 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.squared_error %x, %t, %s : (tensor<4x6xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return
}

// -----

func.func @case(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x1xf32>' are incompatible with return type(s) of operation 'tensor<2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %y = nn.reduce %a {kind = "sum", axes = array<i64: 1>, keepDims = true} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}
