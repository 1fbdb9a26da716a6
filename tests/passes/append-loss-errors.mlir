// Models that have no loss of the kind asked for: the message says what the output is and what would fit.
// RUN: mtc-opt %s --mt-append-loss=loss=causal-lm --split-input-file --verify-diagnostics
// RUN: not mtc-opt %s --mt-append-loss --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mtc-opt %s --mt-append-loss=loss=output:perplexity --split-input-file 2>&1 | FileCheck %s --check-prefix=NAMED

// NONE: error: cannot tell the loss of an output 'tensor<4x9xf32>'; give --loss causal-lm (logits [batch, sequence, vocabulary]), cross-entropy
// NAMED: error: --loss output:perplexity: the model has no such output; it has scores
// expected-error @+1 {{--loss causal-lm does not fit an output 'tensor<4x9xf32>'; give --loss causal-lm (logits [batch, sequence, vocabulary]), cross-entropy (logits [batch, .., classes]), mse (predictions of any shape) or output:NAME (an output that is the loss)}}
func.func @main(%x: tensor<4x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x9xf32> {nn.output = "scores"}) {
  %l = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  return %l : tensor<4x9xf32>
}

// -----

// NAMED: error: --loss output:perplexity names 'tensor<4xf32>', not a scalar
// expected-error @+1 {{the model's output is 'tensor<4xi64>', which no loss applies to}}
func.func @main(%x: tensor<4xi64> {nn.input = "x"}, %y: tensor<4xf32> {nn.input = "y"}) -> (tensor<4xi64> {nn.output = "ids"}, tensor<4xf32> {nn.output = "perplexity"}) {
  return %x, %y : tensor<4xi64>, tensor<4xf32>
}

// -----

// expected-error @+1 {{the model has no output to train on}}
func.func @main(%x: tensor<4xi64> {nn.input = "x"}) {
  return
}

// -----

// expected-error @+1 {{input 'scale' is a single number, and data have a value for each row of the batch: export the model with that number as a constant, or with a dimension for the batch}}
func.func @main(%x: tensor<4x5x6xf32> {nn.input = "x"}, %s: tensor<f32> {nn.input = "scale"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x5x9xf32> {nn.output = "scores"}) {
  %l = nn.matmul %x, %w : (tensor<4x5x6xf32>, tensor<6x9xf32>) -> tensor<4x5x9xf32>
  return %l : tensor<4x5x9xf32>
}

// -----

// expected-error @+1 {{input 'past' of type 'tensor<4x0x6xf32>' has no elements: export the model without it, or with a dynamic dimension that --dim gives a size}}
func.func @main(%x: tensor<4x5x6xf32> {nn.input = "x"}, %p: tensor<4x0x6xf32> {nn.input = "past"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x5x9xf32> {nn.output = "scores"}) {
  %l = nn.matmul %x, %w : (tensor<4x5x6xf32>, tensor<6x9xf32>) -> tensor<4x5x9xf32>
  return %l : tensor<4x5x9xf32>
}

// -----

// expected-error @+1 {{the model's output has no elements: there is no loss of it}}
func.func @main(%x: tensor<4x5x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x0x9xf32> {nn.output = "scores"}) {
  %s = nn.slice %x {starts = array<i64: 0, 0, 0>, sizes = array<i64: 4, 0, 6>, strides = array<i64: 1, 1, 1>} : (tensor<4x5x6xf32>) -> tensor<4x0x6xf32>
  %l = nn.matmul %s, %w : (tensor<4x0x6xf32>, tensor<6x9xf32>) -> tensor<4x0x9xf32>
  return %l : tensor<4x0x9xf32>
}
