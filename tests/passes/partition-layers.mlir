// RUN: mtc-opt %s --mt-partition-layers --duplicate-function-elimination --symbol-dce --split-input-file | FileCheck %s
// Where a graph is cut, and which layers share a template. Shapes are the smallest that tell the cases apart.

// Three equal blocks with one carried value each make one template; each call brings its own weight.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x4xf32> {nn.input = "x"}, %[[A:[^ ]*]]: tensor<4x4xf32> {nn.parameter = "a", nn.trainable}, %[[B:[^ ]*]]: tensor<4x4xf32> {nn.parameter = "b", nn.trainable}, %[[C:[^ ]*]]: tensor<4x4xf32>
// CHECK-NEXT: %[[Y:.*]] = call @[[T:.*]](%[[X]], %[[A]])
// CHECK-NEXT: %[[Z:.*]] = call @[[T]](%[[Y]], %[[B]])
// CHECK-NEXT: %[[W:.*]] = call @[[T]](%[[Z]], %[[C]])
// CHECK-NEXT: %[[L:.*]] = call @[[LOSS:.*]](%[[W]], %{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NEXT: return %[[L]]
// CHECK: func.func private @[[T]](%[[P:[^ ]*]]: tensor<2x4xf32>, %[[Q:[^ ]*]]: tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[M:.*]] = nn.matmul %[[P]], %[[Q]]
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[M]]
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @[[LOSS]](
// CHECK-NOT: func.func
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a: tensor<4x4xf32> {nn.parameter = "a", nn.trainable},
                %b: tensor<4x4xf32> {nn.parameter = "b", nn.trainable}, %c: tensor<4x4xf32> {nn.parameter = "c", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.matmul %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = nn.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %c : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = nn.relu %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = nn.matmul %5, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %7 = nn.cross_entropy %6, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %7 : tensor<f32>
}

// -----

// A block with two places that carry one value: the period of two atoms is the layer, not either atom.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[Y:.*]] = call @[[T:.*]](%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: %[[Z:.*]] = call @[[T]](%[[Y]], %arg4, %arg5, %arg6)
// CHECK-NEXT: %[[W:.*]] = call @[[T]](%[[Z]], %arg7, %arg8, %arg9)
// CHECK-NEXT: call @[[LOSS:.*]](%[[W]], %arg10, %arg11, %arg12)
// CHECK: func.func private @[[T]](
// CHECK: nn.tanh
// CHECK: nn.add
// CHECK: nn.relu
// CHECK: nn.add
// CHECK-NEXT: return
// CHECK: func.func private @[[LOSS]](
// CHECK-NOT: func.func
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a0: tensor<4x4xf32> {nn.parameter = "a0", nn.trainable},
                %b0: tensor<4x8xf32> {nn.parameter = "b0", nn.trainable},
                %c0: tensor<8x4xf32> {nn.parameter = "c0", nn.trainable},
                %a1: tensor<4x4xf32> {nn.parameter = "a1", nn.trainable},
                %b1: tensor<4x8xf32> {nn.parameter = "b1", nn.trainable},
                %c1: tensor<8x4xf32> {nn.parameter = "c1", nn.trainable},
                %a2: tensor<4x4xf32> {nn.parameter = "a2", nn.trainable},
                %b2: tensor<4x8xf32> {nn.parameter = "b2", nn.trainable},
                %c2: tensor<8x4xf32> {nn.parameter = "c2", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.tanh %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.add %x, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.matmul %2, %b0 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %4 = nn.relu %3 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = nn.matmul %4, %c0 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %6 = nn.add %2, %5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = nn.matmul %6, %a1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %8 = nn.tanh %7 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = nn.add %6, %8 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.matmul %9, %b1 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %11 = nn.relu %10 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %12 = nn.matmul %11, %c1 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %13 = nn.add %9, %12 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = nn.matmul %13, %a2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %15 = nn.tanh %14 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %16 = nn.add %13, %15 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %17 = nn.matmul %16, %b2 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %18 = nn.relu %17 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %19 = nn.matmul %18, %c2 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %20 = nn.add %16, %19 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %21 = nn.matmul %20, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %22 = nn.cross_entropy %21, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %22 : tensor<f32>
}

// -----

// Attribute values do not make the period: four layers, not two twice as long. They do tell templates apart.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]] = call @[[T:.*]](%arg0, %arg1)
// CHECK-NEXT: %[[B:.*]] = call @[[U:.*]](%[[A]], %arg2)
// CHECK-NEXT: %[[C:.*]] = call @[[T]](%[[B]], %arg3)
// CHECK-NEXT: %[[D:.*]] = call @[[U]](%[[C]], %arg4)
// CHECK-NEXT: call @[[LOSS:.*]](%[[D]],
// CHECK: func.func private @[[T]](
// CHECK: nn.gelu %{{[0-9]+}} :
// CHECK: func.func private @[[U]](
// CHECK: nn.gelu %{{[0-9]+}} {form = "tanh"}
// CHECK: func.func private @[[LOSS]](
// CHECK-NOT: func.func
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a0: tensor<4x4xf32> {nn.parameter = "a0", nn.trainable},
                %a1: tensor<4x4xf32> {nn.parameter = "a1", nn.trainable},
                %a2: tensor<4x4xf32> {nn.parameter = "a2", nn.trainable},
                %a3: tensor<4x4xf32> {nn.parameter = "a3", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.gelu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.add %x, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.matmul %2, %a1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.gelu %3 {form = "tanh"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = nn.add %2, %4 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = nn.matmul %5, %a2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %7 = nn.gelu %6 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = nn.add %5, %7 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = nn.matmul %8, %a3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %10 = nn.gelu %9 {form = "tanh"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = nn.add %8, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = nn.matmul %11, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %13 = nn.cross_entropy %12, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %13 : tensor<f32>
}

// -----

// An encoder, and a decoder whose every layer uses the encoder's output %[[M]]: shared, so it does not count as carried,
// and the four decoder layers are one template with it as an argument.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[X:.*]] = call @[[EMBED:.*]](%arg0, %arg2)
// CHECK-NEXT: %[[E:.*]] = call @[[ENCODE:.*]](%[[X]], %arg3)
// CHECK-NEXT: %[[M:.*]] = call @[[ENCODE]](%[[E]], %arg4)
// CHECK-NEXT: %[[Y:.*]] = call @[[EMBED]](%arg1, %arg5)
// CHECK-NEXT: %[[A:.*]] = call @[[DECODE:.*]](%[[Y]], %arg6, %[[M]], %arg7, %arg8)
// CHECK-NEXT: %[[B:.*]] = call @[[DECODE]](%[[A]], %arg9, %[[M]], %arg10, %arg11)
// CHECK-NEXT: %[[C:.*]] = call @[[DECODE]](%[[B]], %arg12, %[[M]], %arg13, %arg14)
// CHECK-NEXT: %[[D:.*]] = call @[[DECODE]](%[[C]], %arg15, %[[M]], %arg16, %arg17)
// CHECK-NEXT: call @{{.*}}(%[[D]], %arg18,
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %y: tensor<2x4xf32> {nn.input = "y"},
                %u: tensor<4x4xf32> {nn.parameter = "u", nn.trainable},
                %e0: tensor<4x4xf32> {nn.parameter = "e0", nn.trainable},
                %e1: tensor<4x4xf32> {nn.parameter = "e1", nn.trainable},
                %v: tensor<4x4xf32> {nn.parameter = "v", nn.trainable},
                %a0: tensor<4x4xf32> {nn.parameter = "a0", nn.trainable},
                %k0: tensor<4x4xf32> {nn.parameter = "k0", nn.trainable},
                %q0: tensor<4x4xf32> {nn.parameter = "q0", nn.trainable},
                %a1: tensor<4x4xf32> {nn.parameter = "a1", nn.trainable},
                %k1: tensor<4x4xf32> {nn.parameter = "k1", nn.trainable},
                %q1: tensor<4x4xf32> {nn.parameter = "q1", nn.trainable},
                %a2: tensor<4x4xf32> {nn.parameter = "a2", nn.trainable},
                %k2: tensor<4x4xf32> {nn.parameter = "k2", nn.trainable},
                %q2: tensor<4x4xf32> {nn.parameter = "q2", nn.trainable},
                %a3: tensor<4x4xf32> {nn.parameter = "a3", nn.trainable},
                %k3: tensor<4x4xf32> {nn.parameter = "k3", nn.trainable},
                %q3: tensor<4x4xf32> {nn.parameter = "q3", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %u : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %e0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.add %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %e1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = nn.tanh %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = nn.add %3, %5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = nn.matmul %y, %v : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %8 = nn.matmul %7, %a0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = nn.relu %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.add %7, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = nn.matmul %6, %k0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %12 = nn.matmul %10, %q0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %13 = nn.mul %11, %12 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = nn.add %10, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = nn.matmul %14, %a1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %16 = nn.relu %15 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %17 = nn.add %14, %16 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %18 = nn.matmul %6, %k1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %19 = nn.matmul %17, %q1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %20 = nn.mul %18, %19 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %21 = nn.add %17, %20 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.matmul %21, %a2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %23 = nn.relu %22 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %24 = nn.add %21, %23 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %25 = nn.matmul %6, %k2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %26 = nn.matmul %24, %q2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %27 = nn.mul %25, %26 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %28 = nn.add %24, %27 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %29 = nn.matmul %28, %a3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %30 = nn.relu %29 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %31 = nn.add %28, %30 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %32 = nn.matmul %6, %k3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %33 = nn.matmul %31, %q3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %34 = nn.mul %32, %33 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %35 = nn.add %31, %34 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %36 = nn.matmul %35, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %37 = nn.cross_entropy %36, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %37 : tensor<f32>
}

// -----

// Skip connections: between the two ends of the outer one no place carries a single value. There the cuts lie where the
// fewest bytes are carried: one layer a level, skips as further arguments.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[X:.*]] = call @{{.*}}(%arg0, %arg1)
// CHECK-NEXT: %[[A0:.*]] = call @[[T:.*]](%[[X]], %arg2)
// CHECK-NEXT: %[[A1:.*]] = call @[[T]](%[[A0]], %arg3)
// CHECK-NEXT: %[[A:.*]] = call @[[T]](%[[A1]], %arg4)
// CHECK-NEXT: %[[B:.*]] = call @{{.*}}(%[[A]], %arg5, %arg6, %arg7)
// CHECK-NEXT: %[[C:.*]] = call @{{.*}}(%[[B]], %arg8, %arg9, %arg10)
// CHECK-NEXT: %[[D:.*]] = call @{{.*}}(%[[C]], %arg11, %arg12, %arg13, %[[B]])
// CHECK-NEXT: %[[E:.*]] = call @{{.*}}(%[[D]], %arg14, %arg15, %arg16, %[[A]], %arg17)
// CHECK-NEXT: call @{{.*}}(%[[E]], %arg18,
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %in: tensor<4x8xf32> {nn.parameter = "in", nn.trainable},
                %a0: tensor<8x8xf32> {nn.parameter = "a0", nn.trainable},
                %a1: tensor<8x8xf32> {nn.parameter = "a1", nn.trainable},
                %a2: tensor<8x8xf32> {nn.parameter = "a2", nn.trainable},
                %b0: tensor<8x4xf32> {nn.parameter = "b0", nn.trainable},
                %b1: tensor<4x4xf32> {nn.parameter = "b1", nn.trainable},
                %b2: tensor<4x4xf32> {nn.parameter = "b2", nn.trainable},
                %c0: tensor<4x2xf32> {nn.parameter = "c0", nn.trainable},
                %c1: tensor<2x2xf32> {nn.parameter = "c1", nn.trainable},
                %c2: tensor<2x2xf32> {nn.parameter = "c2", nn.trainable},
                %d0: tensor<2x4xf32> {nn.parameter = "d0", nn.trainable},
                %d1: tensor<4x4xf32> {nn.parameter = "d1", nn.trainable},
                %d2: tensor<4x4xf32> {nn.parameter = "d2", nn.trainable},
                %e0: tensor<4x8xf32> {nn.parameter = "e0", nn.trainable},
                %e1: tensor<8x8xf32> {nn.parameter = "e1", nn.trainable},
                %e2: tensor<8x8xf32> {nn.parameter = "e2", nn.trainable},
                %out: tensor<8x4xf32> {nn.parameter = "out", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %in : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %1 = nn.relu %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = nn.matmul %1, %a0 : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %3 = nn.relu %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = nn.matmul %3, %a1 : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %5 = nn.relu %4 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = nn.matmul %5, %a2 : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %7 = nn.relu %6 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %8 = nn.matmul %7, %b0 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %9 = nn.relu %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.matmul %9, %b1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %11 = nn.relu %10 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = nn.matmul %11, %b2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %13 = nn.relu %12 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = nn.matmul %13, %c0 : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %15 = nn.relu %14 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %16 = nn.matmul %15, %c1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %17 = nn.relu %16 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %18 = nn.matmul %17, %c2 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %19 = nn.relu %18 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %20 = nn.matmul %19, %d0 : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %21 = nn.relu %20 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.matmul %21, %d1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %23 = nn.relu %22 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %24 = nn.matmul %23, %d2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %25 = nn.relu %24 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %26 = nn.add %25, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %27 = nn.matmul %26, %e0 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %28 = nn.relu %27 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %29 = nn.matmul %28, %e1 : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %30 = nn.relu %29 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %31 = nn.matmul %30, %e2 : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %32 = nn.relu %31 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %33 = nn.add %32, %7 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %34 = nn.matmul %33, %out : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %35 = nn.relu %34 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %36 = nn.matmul %35, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %37 = nn.cross_entropy %36, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %37 : tensor<f32>
}

// -----

// Norms behind the residual: the layer ends with them, their statistics stay inside.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]] = call @[[T:.*]](%arg0, %arg1, %arg2)
// CHECK-NEXT: %[[B:.*]] = call @[[T]](%[[A]], %arg3, %arg4)
// CHECK-NEXT: %[[C:.*]] = call @[[T]](%[[B]], %arg5, %arg6)
// CHECK-NEXT: call @{{.*}}(%[[C]], %arg7,
// CHECK: func.func private @[[T]]({{.*}}) -> tensor<2x4xf32>
// CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm
// CHECK-NEXT: return %[[N]] :
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a0: tensor<4x4xf32> {nn.parameter = "a0", nn.trainable},
                %g0: tensor<4xf32> {nn.parameter = "g0", nn.trainable},
                %a1: tensor<4x4xf32> {nn.parameter = "a1", nn.trainable},
                %g1: tensor<4xf32> {nn.parameter = "g1", nn.trainable},
                %a2: tensor<4x4xf32> {nn.parameter = "a2", nn.trainable},
                %g2: tensor<4xf32> {nn.parameter = "g2", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.tanh %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.add %x, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3, %4 = nn.rms_norm %2, %g0 {epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  %5 = nn.matmul %3, %a1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %6 = nn.tanh %5 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = nn.add %3, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8, %9 = nn.rms_norm %7, %g1 {epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  %10 = nn.matmul %8, %a2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %11 = nn.tanh %10 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = nn.add %8, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13, %14 = nn.rms_norm %12, %g2 {epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  %15 = nn.matmul %13, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %16 = nn.cross_entropy %15, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %16 : tensor<f32>
}

// -----

// What depends on no trainable parameter is no layer of its own: tables from constants go to the only layer that uses
// them, or to the first one and from there to the others; constants are made again where they are used.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]]:2 = call @{{.*}}(%arg2, %arg0, %arg1)
// CHECK-NEXT: %[[B:.*]] = call @{{.*}}(%[[A]]#{{[01]}}, %arg3, %[[A]]#{{[01]}})
// CHECK-NEXT: call @{{.*}}(%[[B]], %arg4,
// CHECK: func.func private
// CHECK-DAG: nn.constant
// CHECK-DAG: nn.sin
// CHECK: func.func private
// CHECK-NOT: nn.sin
// CHECK: nn.constant
// CHECK-NOT: nn.sin
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a: tensor<4x4xf32> {nn.parameter = "a", nn.trainable},
                %f: tensor<4xf32> {nn.parameter = "frequencies", nn.buffer}, %b: tensor<4x4xf32> {nn.parameter = "b", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %t = nn.sin %f : (tensor<4xf32>) -> tensor<4xf32>
  %0 = nn.matmul %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.mul %0, %t : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = nn.mul %1, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = nn.matmul %2, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.mul %3, %t : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %5 = nn.mul %4, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %6 = nn.matmul %5, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %7 = nn.cross_entropy %6, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %7 : tensor<f32>
}

// -----

// A view before the head belongs to the head: a block that ends in a parameter is still equal to the others.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[Y:.*]] = call @[[T:.*]](%arg0, %arg1)
// CHECK-NEXT: %[[Z:.*]] = call @[[T]](%[[Y]], %arg2)
// CHECK-NEXT: %[[W:.*]] = call @[[T]](%[[Z]], %arg3)
// CHECK-NEXT: call @[[LOSS:.*]](%[[W]],
// CHECK: func.func private @[[T]](
// CHECK-NOT: nn.reshape
// CHECK: func.func private @[[LOSS]](
// CHECK: nn.reshape
func.func @main(%x: tensor<1x2x4xf32> {nn.input = "x"}, %a: tensor<4xf32> {nn.parameter = "a", nn.trainable},
                %b: tensor<4xf32> {nn.parameter = "b", nn.trainable}, %c: tensor<4xf32> {nn.parameter = "c", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0, %r0 = nn.rms_norm %x, %a {epsilon = 1.0e-6 : f64} : (tensor<1x2x4xf32>, tensor<4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2xf32>)
  %1, %r1 = nn.rms_norm %0, %b {epsilon = 1.0e-6 : f64} : (tensor<1x2x4xf32>, tensor<4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2xf32>)
  %2, %r2 = nn.rms_norm %1, %c {epsilon = 1.0e-6 : f64} : (tensor<1x2x4xf32>, tensor<4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2xf32>)
  %3 = nn.reshape %2 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.linear_cross_entropy %3, %h, %l, %s {transposed = true} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// Frozen layers are cut like trained ones and share their template; a buffer is no weight: the table that is computed from it
// and the input goes to the first layer and from there to the others.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]]:2 = call @{{.*}}(%arg0, %arg1, %arg2)
// CHECK-NEXT: %[[B:.*]] = call @[[T:.*]](%[[A]]#1, %arg3, %[[A]]#0)
// CHECK-NEXT: %[[C:.*]] = call @[[T]](%[[B]], %arg4, %[[A]]#0)
// CHECK-NEXT: %[[D:.*]] = call @[[T]](%[[C]], %arg5, %[[A]]#0)
// CHECK-NEXT: call @{{.*}}(%[[D]], %arg6,
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %f: tensor<4xf32> {nn.parameter = "frequencies", nn.buffer},
                %e: tensor<4x4xf32> {nn.parameter = "e"}, %a: tensor<4x4xf32> {nn.parameter = "a"},
                %b: tensor<4x4xf32> {nn.parameter = "b"}, %c: tensor<4x4xf32> {nn.parameter = "c", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h"}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %angle = nn.mul %x, %f : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %t = nn.sin %angle : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = nn.matmul %x, %e : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.mul %1, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.matmul %2, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = nn.mul %3, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = nn.matmul %4, %c : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %6 = nn.mul %5, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = nn.matmul %6, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %8 = nn.cross_entropy %7, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %8 : tensor<f32>
}

// -----

// A frozen tower beside the model that is trained on what both give: both are cut.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]] = call @[[T:.*]](%arg1, %arg2)
// CHECK-NEXT: %[[B:.*]] = call @[[T]](%[[A]], %arg3)
// CHECK-NEXT: %[[C:.*]] = call @[[T]](%[[B]], %arg4)
// CHECK-NEXT: %[[D:.*]] = call @[[U:.*]](%arg0, %arg5, %[[C]])
// CHECK-NEXT: %[[E:.*]] = call @[[V:.*]](%[[D]], %arg6)
// CHECK-NEXT: %[[F:.*]] = call @[[V]](%[[E]], %arg7)
// CHECK-NEXT: call @{{.*}}(%[[F]], %arg8,
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %y: tensor<2x4xf32> {nn.input = "y"},
                %a: tensor<4x4xf32> {nn.parameter = "a"}, %b: tensor<4x4xf32> {nn.parameter = "b"},
                %c: tensor<4x4xf32> {nn.parameter = "c"}, %p: tensor<4x4xf32> {nn.parameter = "p", nn.trainable},
                %q: tensor<4x4xf32> {nn.parameter = "q", nn.trainable}, %r: tensor<4x4xf32> {nn.parameter = "r", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %y, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.matmul %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = nn.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %c : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = nn.relu %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = nn.matmul %x, %p : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %7 = nn.add %6, %5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = nn.matmul %7, %q : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = nn.tanh %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.matmul %9, %r : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %11 = nn.tanh %10 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = nn.matmul %11, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %13 = nn.cross_entropy %12, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %13 : tensor<f32>
}

// -----

// Low-rank adapters make a block of many more operations with weights, of hardly more bytes: it stays one layer.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[A:.*]] = call @[[T:.*]](%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: %[[B:.*]] = call @[[T]](%[[A]], %arg4, %arg5, %arg6)
// CHECK-NEXT: %[[C:.*]] = call @[[T]](%[[B]], %arg7, %arg8, %arg9)
// CHECK-NEXT: %[[D:.*]] = call @[[U:.*]](%[[C]], %arg10,
// CHECK-NEXT: %[[E:.*]] = call @[[U]](%[[D]], %arg19,
// CHECK-NEXT: call @{{.*}}(%[[E]], %arg28,
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a0: tensor<4x4xf32> {nn.parameter = "a0"},
                %b0: tensor<4x4xf32> {nn.parameter = "b0"}, %c0: tensor<4x4xf32> {nn.parameter = "c0"},
                %a1: tensor<4x4xf32> {nn.parameter = "a1"}, %b1: tensor<4x4xf32> {nn.parameter = "b1"},
                %c1: tensor<4x4xf32> {nn.parameter = "c1"}, %a2: tensor<4x4xf32> {nn.parameter = "a2"},
                %b2: tensor<4x4xf32> {nn.parameter = "b2"}, %c2: tensor<4x4xf32> {nn.parameter = "c2"},
                %a3: tensor<4x4xf32> {nn.parameter = "a3"},
                %da3: tensor<4x1xf32> {nn.parameter = "da3", nn.trainable},
                %ua3: tensor<1x4xf32> {nn.parameter = "ua3", nn.trainable},
                %b3: tensor<4x4xf32> {nn.parameter = "b3"},
                %db3: tensor<4x1xf32> {nn.parameter = "db3", nn.trainable},
                %ub3: tensor<1x4xf32> {nn.parameter = "ub3", nn.trainable},
                %c3: tensor<4x4xf32> {nn.parameter = "c3"},
                %dc3: tensor<4x1xf32> {nn.parameter = "dc3", nn.trainable},
                %uc3: tensor<1x4xf32> {nn.parameter = "uc3", nn.trainable},
                %a4: tensor<4x4xf32> {nn.parameter = "a4"},
                %da4: tensor<4x1xf32> {nn.parameter = "da4", nn.trainable},
                %ua4: tensor<1x4xf32> {nn.parameter = "ua4", nn.trainable},
                %b4: tensor<4x4xf32> {nn.parameter = "b4"},
                %db4: tensor<4x1xf32> {nn.parameter = "db4", nn.trainable},
                %ub4: tensor<1x4xf32> {nn.parameter = "ub4", nn.trainable},
                %c4: tensor<4x4xf32> {nn.parameter = "c4"},
                %dc4: tensor<4x1xf32> {nn.parameter = "dc4", nn.trainable},
                %uc4: tensor<1x4xf32> {nn.parameter = "uc4", nn.trainable}, %h: tensor<4x6xf32> {nn.parameter = "h"},
                %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %x, %b0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.matmul %x, %c0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = nn.mul %0, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.add %3, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = nn.matmul %4, %a1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %6 = nn.matmul %4, %b1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %7 = nn.matmul %4, %c1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %8 = nn.mul %5, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = nn.add %8, %7 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.matmul %9, %a2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %11 = nn.matmul %9, %b2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %12 = nn.matmul %9, %c2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %13 = nn.mul %10, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = nn.add %13, %12 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = nn.matmul %14, %a3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %16 = nn.matmul %14, %da3 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %17 = nn.matmul %16, %ua3 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %18 = nn.add %15, %17 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %19 = nn.matmul %14, %b3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %20 = nn.matmul %14, %db3 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %21 = nn.matmul %20, %ub3 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %22 = nn.add %19, %21 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %23 = nn.matmul %14, %c3 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %24 = nn.matmul %14, %dc3 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %25 = nn.matmul %24, %uc3 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %26 = nn.add %23, %25 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %27 = nn.mul %18, %22 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %28 = nn.add %27, %26 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %29 = nn.matmul %28, %a4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %30 = nn.matmul %28, %da4 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %31 = nn.matmul %30, %ua4 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %32 = nn.add %29, %31 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %33 = nn.matmul %28, %b4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %34 = nn.matmul %28, %db4 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %35 = nn.matmul %34, %ub4 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %36 = nn.add %33, %35 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %37 = nn.matmul %28, %c4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %38 = nn.matmul %28, %dc4 : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
  %39 = nn.matmul %38, %uc4 : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %40 = nn.add %37, %39 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %41 = nn.mul %32, %36 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %42 = nn.add %41, %40 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %43 = nn.matmul %42, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %44 = nn.cross_entropy %43, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %44 : tensor<f32>
}

// -----

// Three blocks of one kind and one that does something else with equal weights, twice: eight layers, two templates.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[E:.*]] = call @{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: %[[V0:.*]] = call @[[T:[a-z0-9_]+]](%[[E]],
// CHECK-NEXT: %[[V1:.*]] = call @[[T]](%[[V0]],
// CHECK-NEXT: %[[V2:.*]] = call @[[T]](%[[V1]],
// CHECK-NEXT: %[[V3:.*]] = call @[[U:[a-z0-9_]+]](%[[V2]],
// CHECK-NEXT: %[[V4:.*]] = call @[[T]](%[[V3]],
// CHECK-NEXT: %[[V5:.*]] = call @[[T]](%[[V4]],
// CHECK-NEXT: %[[V6:.*]] = call @[[T]](%[[V5]],
// CHECK-NEXT: %[[V7:.*]] = call @[[U]](%[[V6]],
// CHECK-NEXT: call @{{.*}}(%[[V7]], %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) :
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w0: tensor<4x4xf32> {nn.parameter = "w0", nn.trainable},
                %w1: tensor<4x4xf32> {nn.parameter = "w1", nn.trainable},
                %w2: tensor<4x8xf32> {nn.parameter = "w2", nn.trainable},
                %w3: tensor<8x4xf32> {nn.parameter = "w3", nn.trainable},
                %w4: tensor<4x4xf32> {nn.parameter = "w4", nn.trainable},
                %w5: tensor<4x8xf32> {nn.parameter = "w5", nn.trainable},
                %w6: tensor<8x4xf32> {nn.parameter = "w6", nn.trainable},
                %w7: tensor<4x4xf32> {nn.parameter = "w7", nn.trainable},
                %w8: tensor<4x8xf32> {nn.parameter = "w8", nn.trainable},
                %w9: tensor<8x4xf32> {nn.parameter = "w9", nn.trainable},
                %w10: tensor<4x4xf32> {nn.parameter = "w10", nn.trainable},
                %w11: tensor<4x8xf32> {nn.parameter = "w11", nn.trainable},
                %w12: tensor<8x4xf32> {nn.parameter = "w12", nn.trainable},
                %w13: tensor<4x4xf32> {nn.parameter = "w13", nn.trainable},
                %w14: tensor<4x8xf32> {nn.parameter = "w14", nn.trainable},
                %w15: tensor<8x4xf32> {nn.parameter = "w15", nn.trainable},
                %w16: tensor<4x4xf32> {nn.parameter = "w16", nn.trainable},
                %w17: tensor<4x8xf32> {nn.parameter = "w17", nn.trainable},
                %w18: tensor<8x4xf32> {nn.parameter = "w18", nn.trainable},
                %w19: tensor<4x4xf32> {nn.parameter = "w19", nn.trainable},
                %w20: tensor<4x8xf32> {nn.parameter = "w20", nn.trainable},
                %w21: tensor<8x4xf32> {nn.parameter = "w21", nn.trainable},
                %w22: tensor<4x4xf32> {nn.parameter = "w22", nn.trainable},
                %w23: tensor<4x8xf32> {nn.parameter = "w23", nn.trainable},
                %w24: tensor<8x4xf32> {nn.parameter = "w24", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %w1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.add %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %w2 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %5 = nn.relu %4 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = nn.matmul %5, %w3 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %7 = nn.add %3, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = nn.matmul %7, %w4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = nn.tanh %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.add %7, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = nn.matmul %10, %w5 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %12 = nn.relu %11 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %13 = nn.matmul %12, %w6 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %14 = nn.add %10, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = nn.matmul %14, %w7 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %16 = nn.tanh %15 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %17 = nn.add %14, %16 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %18 = nn.matmul %17, %w8 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %19 = nn.relu %18 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %20 = nn.matmul %19, %w9 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %21 = nn.add %17, %20 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.matmul %21, %w10 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %23 = nn.sin %22 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %24 = nn.add %21, %23 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %25 = nn.matmul %24, %w11 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %26 = nn.relu %25 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %27 = nn.matmul %26, %w12 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %28 = nn.add %24, %27 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %29 = nn.matmul %28, %w13 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %30 = nn.tanh %29 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %31 = nn.add %28, %30 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %32 = nn.matmul %31, %w14 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %33 = nn.relu %32 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %34 = nn.matmul %33, %w15 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %35 = nn.add %31, %34 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %36 = nn.matmul %35, %w16 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %37 = nn.tanh %36 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %38 = nn.add %35, %37 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %39 = nn.matmul %38, %w17 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %40 = nn.relu %39 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %41 = nn.matmul %40, %w18 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %42 = nn.add %38, %41 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %43 = nn.matmul %42, %w19 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %44 = nn.tanh %43 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %45 = nn.add %42, %44 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %46 = nn.matmul %45, %w20 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %47 = nn.relu %46 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %48 = nn.matmul %47, %w21 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %49 = nn.add %45, %48 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %50 = nn.matmul %49, %w22 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %51 = nn.sin %50 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %52 = nn.add %49, %51 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %53 = nn.matmul %52, %w23 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %54 = nn.relu %53 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %55 = nn.matmul %54, %w24 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %56 = nn.add %52, %55 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %57 = nn.matmul %56, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %58 = nn.cross_entropy %57, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %58 : tensor<f32>
}

// -----

// Widths that alternate: the mixing atom recurs within the period of four atoms, so the layers are two of them each.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[E:.*]] = call @{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: %[[V0:.*]] = call @[[T:[a-z0-9_]+]](%[[E]],
// CHECK-NEXT: %[[V1:.*]] = call @[[U:[a-z0-9_]+]](%[[V0]],
// CHECK-NEXT: %[[V2:.*]] = call @[[T]](%[[V1]],
// CHECK-NEXT: %[[V3:.*]] = call @[[U]](%[[V2]],
// CHECK-NEXT: call @{{.*}}(%[[V3]], %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) :
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w0: tensor<4x4xf32> {nn.parameter = "w0", nn.trainable},
                %w1: tensor<4x4xf32> {nn.parameter = "w1", nn.trainable},
                %w2: tensor<4x8xf32> {nn.parameter = "w2", nn.trainable},
                %w3: tensor<8x4xf32> {nn.parameter = "w3", nn.trainable},
                %w4: tensor<4x4xf32> {nn.parameter = "w4", nn.trainable},
                %w5: tensor<4x12xf32> {nn.parameter = "w5", nn.trainable},
                %w6: tensor<12x4xf32> {nn.parameter = "w6", nn.trainable},
                %w7: tensor<4x4xf32> {nn.parameter = "w7", nn.trainable},
                %w8: tensor<4x8xf32> {nn.parameter = "w8", nn.trainable},
                %w9: tensor<8x4xf32> {nn.parameter = "w9", nn.trainable},
                %w10: tensor<4x4xf32> {nn.parameter = "w10", nn.trainable},
                %w11: tensor<4x12xf32> {nn.parameter = "w11", nn.trainable},
                %w12: tensor<12x4xf32> {nn.parameter = "w12", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %w1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.add %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %w2 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %5 = nn.relu %4 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = nn.matmul %5, %w3 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %7 = nn.add %3, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = nn.matmul %7, %w4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = nn.tanh %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.add %7, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = nn.matmul %10, %w5 : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
  %12 = nn.relu %11 : (tensor<2x12xf32>) -> tensor<2x12xf32>
  %13 = nn.matmul %12, %w6 : (tensor<2x12xf32>, tensor<12x4xf32>) -> tensor<2x4xf32>
  %14 = nn.add %10, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = nn.matmul %14, %w7 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %16 = nn.tanh %15 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %17 = nn.add %14, %16 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %18 = nn.matmul %17, %w8 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %19 = nn.relu %18 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %20 = nn.matmul %19, %w9 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %21 = nn.add %17, %20 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.matmul %21, %w10 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %23 = nn.tanh %22 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %24 = nn.add %21, %23 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %25 = nn.matmul %24, %w11 : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
  %26 = nn.relu %25 : (tensor<2x12xf32>) -> tensor<2x12xf32>
  %27 = nn.matmul %26, %w12 : (tensor<2x12xf32>, tensor<12x4xf32>) -> tensor<2x4xf32>
  %28 = nn.add %24, %27 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %29 = nn.matmul %28, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %30 = nn.cross_entropy %29, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %30 : tensor<f32>
}

// -----

// Nothing repeats but for sizes: a layer is still a block, each with a template of its own.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[E:.*]] = call @{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: %[[V0:.*]] = call @[[T:[a-z0-9_]+]](%[[E]],
// CHECK-NEXT: %[[V1:.*]] = call @[[U:[a-z0-9_]+]](%[[V0]],
// CHECK-NEXT: %[[V2:.*]] = call @[[V:[a-z0-9_]+]](%[[V1]],
// CHECK-NEXT: %[[V3:.*]] = call @[[W:[a-z0-9_]+]](%[[V2]],
// CHECK-NEXT: call @{{.*}}(%[[V3]], %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) :
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w0: tensor<4x4xf32> {nn.parameter = "w0", nn.trainable},
                %w1: tensor<4x4xf32> {nn.parameter = "w1", nn.trainable},
                %w2: tensor<4x8xf32> {nn.parameter = "w2", nn.trainable},
                %w3: tensor<8x4xf32> {nn.parameter = "w3", nn.trainable},
                %w4: tensor<4x4xf32> {nn.parameter = "w4", nn.trainable},
                %w5: tensor<4x12xf32> {nn.parameter = "w5", nn.trainable},
                %w6: tensor<12x4xf32> {nn.parameter = "w6", nn.trainable},
                %w7: tensor<4x4xf32> {nn.parameter = "w7", nn.trainable},
                %w8: tensor<4x16xf32> {nn.parameter = "w8", nn.trainable},
                %w9: tensor<16x4xf32> {nn.parameter = "w9", nn.trainable},
                %w10: tensor<4x4xf32> {nn.parameter = "w10", nn.trainable},
                %w11: tensor<4x20xf32> {nn.parameter = "w11", nn.trainable},
                %w12: tensor<20x4xf32> {nn.parameter = "w12", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %w1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.add %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %3, %w2 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %5 = nn.relu %4 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = nn.matmul %5, %w3 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %7 = nn.add %3, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = nn.matmul %7, %w4 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = nn.tanh %8 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = nn.add %7, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = nn.matmul %10, %w5 : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
  %12 = nn.relu %11 : (tensor<2x12xf32>) -> tensor<2x12xf32>
  %13 = nn.matmul %12, %w6 : (tensor<2x12xf32>, tensor<12x4xf32>) -> tensor<2x4xf32>
  %14 = nn.add %10, %13 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = nn.matmul %14, %w7 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %16 = nn.tanh %15 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %17 = nn.add %14, %16 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %18 = nn.matmul %17, %w8 : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
  %19 = nn.relu %18 : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %20 = nn.matmul %19, %w9 : (tensor<2x16xf32>, tensor<16x4xf32>) -> tensor<2x4xf32>
  %21 = nn.add %17, %20 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.matmul %21, %w10 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %23 = nn.tanh %22 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %24 = nn.add %21, %23 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %25 = nn.matmul %24, %w11 : (tensor<2x4xf32>, tensor<4x20xf32>) -> tensor<2x20xf32>
  %26 = nn.relu %25 : (tensor<2x20xf32>) -> tensor<2x20xf32>
  %27 = nn.matmul %26, %w12 : (tensor<2x20xf32>, tensor<20x4xf32>) -> tensor<2x4xf32>
  %28 = nn.add %24, %27 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %29 = nn.matmul %28, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %30 = nn.cross_entropy %29, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %30 : tensor<f32>
}

// -----

// Gains behind both halves of a block are atoms without a matrix: that they recur makes no layers of halves.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[E:.*]] = call @{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: %[[V0:.*]] = call @[[T:[a-z0-9_]+]](%[[E]],
// CHECK-NEXT: %[[V1:.*]] = call @[[T]](%[[V0]],
// CHECK-NEXT: %[[V2:.*]] = call @[[T]](%[[V1]],
// CHECK-NEXT: call @{{.*}}(%[[V2]], %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) :
// CHECK-NEXT: return
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w0: tensor<4x4xf32> {nn.parameter = "w0", nn.trainable},
                %w1: tensor<4x4xf32> {nn.parameter = "w1", nn.trainable},
                %w2: tensor<4xf32> {nn.parameter = "w2", nn.trainable},
                %w3: tensor<4x8xf32> {nn.parameter = "w3", nn.trainable},
                %w4: tensor<8x4xf32> {nn.parameter = "w4", nn.trainable},
                %w5: tensor<4xf32> {nn.parameter = "w5", nn.trainable},
                %w6: tensor<4x4xf32> {nn.parameter = "w6", nn.trainable},
                %w7: tensor<4xf32> {nn.parameter = "w7", nn.trainable},
                %w8: tensor<4x8xf32> {nn.parameter = "w8", nn.trainable},
                %w9: tensor<8x4xf32> {nn.parameter = "w9", nn.trainable},
                %w10: tensor<4xf32> {nn.parameter = "w10", nn.trainable},
                %w11: tensor<4x4xf32> {nn.parameter = "w11", nn.trainable},
                %w12: tensor<4xf32> {nn.parameter = "w12", nn.trainable},
                %w13: tensor<4x8xf32> {nn.parameter = "w13", nn.trainable},
                %w14: tensor<8x4xf32> {nn.parameter = "w14", nn.trainable},
                %w15: tensor<4xf32> {nn.parameter = "w15", nn.trainable},
                %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.matmul %0, %w1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.add %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.mul %3, %w2 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %5 = nn.matmul %4, %w3 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %6 = nn.relu %5 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %7 = nn.matmul %6, %w4 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %8 = nn.add %4, %7 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = nn.mul %8, %w5 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %10 = nn.matmul %9, %w6 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %11 = nn.tanh %10 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = nn.add %9, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = nn.mul %12, %w7 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %14 = nn.matmul %13, %w8 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %15 = nn.relu %14 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %16 = nn.matmul %15, %w9 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %17 = nn.add %13, %16 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %18 = nn.mul %17, %w10 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %19 = nn.matmul %18, %w11 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %20 = nn.tanh %19 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %21 = nn.add %18, %20 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %22 = nn.mul %21, %w12 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %23 = nn.matmul %22, %w13 : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %24 = nn.relu %23 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %25 = nn.matmul %24, %w14 : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %26 = nn.add %22, %25 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %27 = nn.mul %26, %w15 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %28 = nn.matmul %27, %h : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  %29 = nn.cross_entropy %28, %l, %s : (tensor<2x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %29 : tensor<f32>
}
