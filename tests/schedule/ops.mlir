// The schedule dialect survives the textual form, the generic form and bytecode unchanged, placed or not.
// RUN: mtc-opt %s | mtc-opt | FileCheck %s
// RUN: mtc-opt %s > %t.text
// RUN: mtc-opt %s --mlir-print-op-generic | mtc-opt | diff %t.text -
// RUN: mtc-opt %s --emit-bytecode | mtc-opt | diff %t.text -

func.func private @block(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @schedule
func.func @schedule() {
  // CHECK: %[[W:.*]] = schedule.slot "weights layer 3" persistent at 256 {schedule.holds = array<i64: 0, 0, 0>} : <"staging", 4096>
  %w = schedule.slot "weights layer 3" persistent at 256 {schedule.holds = array<i64: 0, 0, 0>} : !schedule.slot<"staging", 4096>
  // CHECK: %[[D:.*]] = schedule.slot "device weights" : <"device", 4096>
  %d = schedule.slot "device weights" : !schedule.slot<"device", 4096>
  // CHECK: %[[X:.*]] = schedule.slot "x" at 0 : <"device", 64>
  %x = schedule.slot "x" at 0 : !schedule.slot<"device", 64>
  // CHECK: schedule.prefetch step 0 "weights" %[[W]][16] to %[[D]][0] bytes 4080 awaits [3, 1] {layer = 3 : i64, seconds = 1.500000e-06 : f64} : <"staging", 4096> to <"device", 4096>
  schedule.prefetch step 0 "weights" %w[16] to %d[0] bytes 4080 awaits [3, 1] {layer = 3 : i64, seconds = 1.5e-6 : f64} : !schedule.slot<"staging", 4096> to !schedule.slot<"device", 4096>
  // CHECK: schedule.compute step 1 "forward layer 3 mb 0" @block(%[[X]], %[[D]], %[[X]]) offsets [0, 32, 16] effects [0, 0, 1] awaits [0, 0] {layer = 3 : i64, microBatch = 0 : i64} : !schedule.slot<"device", 64>,
  schedule.compute step 1 "forward layer 3 mb 0" @block(%x, %d, %x) offsets [0, 32, 16] effects [0, 0, 1] awaits [0, 0] {layer = 3 : i64, microBatch = 0 : i64} : !schedule.slot<"device", 64>, !schedule.slot<"device", 4096>, !schedule.slot<"device", 64>
  // CHECK: schedule.compute finish 1 "sums" kernel "copy"(%[[X]], %[[X]], %[[X]], %[[X]]) offsets [0, 16, 32, 48] effects [0, 2, 0, 2] {groups = 2 : i64, types = [tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>]}
  schedule.compute finish 1 "sums" kernel "copy"(%x, %x, %x, %x) offsets [0, 16, 32, 48] effects [0, 2, 0, 2] {groups = 2 : i64, types = [tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>, !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  // CHECK: schedule.offload evaluate 2 "back" %[[X]][0] to %[[W]][0] bytes 64 : <"device", 64> to <"staging", 4096>
  schedule.offload evaluate 2 "back" %x[0] to %w[0] bytes 64 : !schedule.slot<"device", 64> to !schedule.slot<"staging", 4096>
  // CHECK: schedule.update step 3 "update" kernel "copy"(%[[W]], %[[W]]) offsets [0, 16] effects [0, 3] {parameters = array<i64: 7>, settings = {scale = 2.000000e+00 : f64}, types = [tensor<4xf32>, tensor<4xf32>]}
  schedule.update step 3 "update" kernel "copy"(%w, %w) offsets [0, 16] effects [0, 3] {parameters = array<i64: 7>, settings = {scale = 2.0 : f64}, types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"staging", 4096>, !schedule.slot<"staging", 4096>
  return
}
