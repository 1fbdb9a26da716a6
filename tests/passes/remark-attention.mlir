// RUN: mtc-opt %s --mt-recover-ops --mt-remark-attention --split-input-file --verify-diagnostics

// A mask that no predicate can say, in two layers: remarks with what it costs, of equal text.
func.func @window_or_first(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %four = nn.constant dense<4> : tensor<i64>
  %two = nn.constant dense<2> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x8xi64>
  %causal = nn.compare %column, %row {predicate = "le"} : (tensor<1x8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %distance = nn.sub %row, %column : (tensor<8x1xi64>, tensor<1x8xi64>) -> tensor<8x8xi64>
  %near = nn.compare %distance, %four {predicate = "lt"} : (tensor<8x8xi64>, tensor<i64>) -> tensor<8x8xi1>
  %first = nn.compare %column, %two {predicate = "lt"} : (tensor<1x8xi64>, tensor<i64>) -> tensor<1x8xi1>
  %either = nn.or %near, %first : (tensor<8x8xi1>, tensor<1x8xi1>) -> tensor<8x8xi1>
  %seen = nn.and %causal, %either : (tensor<8x8xi1>, tensor<8x8xi1>) -> tensor<8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %s = nn.matmul %q, %k {transposeRhs = true} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %m = nn.add %s, %mask : (tensor<1x2x8x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8x8xf32>
  %p = nn.softmax %m : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  // expected-remark@+1 {{a mask stays a tensor of [1, 1, 8, 8], 256 bytes: what it says about positions is not one window of distances and a prefix, or leaves a query without keys}}
  %o = nn.matmul %p, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %s2 = nn.matmul %o, %k {transposeRhs = true} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %m2 = nn.add %s2, %mask : (tensor<1x2x8x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8x8xf32>
  %p2 = nn.softmax %m2 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  // expected-remark@+1 {{a mask stays a tensor of [1, 1, 8, 8], 256 bytes: what it says about positions is not one window of distances and a prefix, or leaves a query without keys}}
  %o2 = nn.matmul %p2, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %o2 : tensor<1x2x8x4xf32>
}

// -----

// Probabilities that something is done to before they meet the values.
func.func @scaled_probabilities(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %g: tensor<2x1x1xf32>) -> tensor<1x2x8x4xf32> {
  %s = nn.matmul %q, %k {transposeRhs = true} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  // expected-remark@+1 {{attention stays decomposed, its scores a tensor of [1, 2, 8, 8], 512 bytes: something lies between its softmax and the product with its values}}
  %p = nn.softmax %s : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %h = nn.mul %p, %g : (tensor<1x2x8x8xf32>, tensor<2x1x1xf32>) -> tensor<1x2x8x8xf32>
  %o = nn.matmul %h, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// A mask that goes through the soft cap hides nothing: all scores stay within the cap.
func.func @masked_inside_the_cap(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %pad: tensor<1x1x1x8xi1>) -> tensor<1x2x8x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-1.0e9> : tensor<f32>
  %cap = nn.constant dense<8.0> : tensor<f32>
  %mask = nn.select %pad, %zero, %low : (tensor<1x1x1x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x1x8xf32>
  %s = nn.matmul %q, %k {transposeRhs = true} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %m = nn.add %s, %mask : (tensor<1x2x8x8xf32>, tensor<1x1x1x8xf32>) -> tensor<1x2x8x8xf32>
  %d = nn.div %m, %cap : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x8x8xf32>
  %t = nn.tanh %d : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %c = nn.mul %t, %cap : (tensor<1x2x8x8xf32>, tensor<f32>) -> tensor<1x2x8x8xf32>
  // expected-remark@+1 {{attention stays decomposed, its scores a tensor of [1, 2, 8, 8], 512 bytes: a mask or bias lies inside its soft cap}}
  %p = nn.softmax %c : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %o = nn.matmul %p, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// A bias that hides nothing is no mask that got lost, and a float input may be one.
func.func @biases(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>, %learned: tensor<1x2x8x8xf32> {nn.parameter = "bias"},
                  %fed: tensor<1x1x8x8xf32> {nn.input = "mask"}) -> (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>) {
  %0, %l0 = nn.attention %q, %k, %v, %learned {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x2x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  // expected-remark@+1 {{a mask stays a tensor of [1, 1, 8, 8], 256 bytes: it is not made of zeros and very negative numbers alone}}
  %1, %l1 = nn.attention %q, %k, %v, %fed {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0, %1 : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
}
