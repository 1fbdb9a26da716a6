// RUN: mtc-opt %s --split-input-file --verify-diagnostics
// Every message of the verification of schedule operations (compiler/schedule/Schedule.cpp). Slots hold 64 bytes.

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{copies 65 bytes that do not lie in both slots}}
  schedule.prefetch step 0 "copy" %s[0] to %d[0] bytes 65 : !schedule.slot<"staging", 64> to !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{copies 32 bytes that do not lie in both slots}}
  schedule.prefetch step 0 "copy" %s[40] to %d[0] bytes 32 : !schedule.slot<"staging", 64> to !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{copies 32 bytes that do not lie in both slots}}
  schedule.prefetch step 0 "copy" %s[0] to %d[40] bytes 32 : !schedule.slot<"staging", 64> to !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{copies 0 bytes that do not lie in both slots}}
  schedule.offload step 0 "copy" %d[0] to %s[0] bytes 0 : !schedule.slot<"device", 64> to !schedule.slot<"staging", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{must copy between two spaces}}
  schedule.offload step 0 "copy" %d[0] to %d[32] bytes 8 : !schedule.slot<"device", 64> to !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs an offset and an effect for each operand}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs an offset and an effect for each operand}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs a parameter, and a first element if any, for each group}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>], parameters = array<i64: 0>, firsts = array<i64: 0, 4>} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{runs either a template or a kernel}}
  schedule.compute step 0 "run" (%d) offsets [0] effects [0] : !schedule.slot<"device", 64>
  return
}

// -----

func.func private @block(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32>
func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{runs either a template or a kernel}}
  schedule.compute step 0 "run" @block kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs a type for each operand of its kernels, and as many operands for each}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs a type for each operand of its kernels, and as many operands for each}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs a type for each operand of its kernels, and as many operands for each}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] {groups = 3 : i64, types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{needs a type for each operand of its kernels, and as many operands for each}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 1] {groups = 0 : i64, types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{operand 1 does not lie in its slot}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 52] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{operand 0 does not lie in its slot}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [-4, 16] effects [0, 1] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func private @block(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32>
func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{operand 2 does not lie in its slot}}
  schedule.compute step 0 "run" @block(%d, %d, %d) offsets [0, 16, 60] effects [0, 0, 1] : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{operand 1 has no such effect}}
  schedule.compute step 0 "run" kernel "copy"(%d, %d) offsets [0, 16] effects [0, 4] {types = [tensor<4xf32>, tensor<4xf32>]} : !schedule.slot<"device", 64>, !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{names no layer template 'blocks'}}
  schedule.compute step 0 "run" @blocks(%d) offsets [0] effects [0] : !schedule.slot<"device", 64>
  return
}

// -----

func.func @schedule() {
  %s = schedule.slot "s" : !schedule.slot<"staging", 64>
  %d = schedule.slot "d" : !schedule.slot<"device", 64>
  // expected-error @+1 {{names no layer template 'blocks'}}
  schedule.update step 0 "update" @blocks(%s) offsets [0] effects [3] : !schedule.slot<"staging", 64>
  return
}
