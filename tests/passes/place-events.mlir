// RUN: mtc-opt %s --mt-plan-memory=slack=0 --mt-place-events | FileCheck %s
// RUN: mtc-opt %s --mt-plan-memory=slack=8 --mt-place-events | FileCheck %s --check-prefix=ROOM
// RUN: mtc-opt %s --mt-plan-memory=slack=0 --mt-place-events --mt-verify-schedule -o /dev/null
// RUN: not mtc-opt %s --mt-place-events 2>&1 | FileCheck %s --check-prefix=UNPLACED
// Awaits, computed from the bytes that commands touch, as pairs (command, iterations back).

// Slots a and c share bytes here (plan-memory.mlir). "load a" writes where the step before still reads c in command 3,
// on another stream: one iteration back. "use a" reads what 0 wrote. "use b" follows it on its stream: nothing to await.
// "store c" reads what 2 wrote; what it writes, v, its own stream wrote last.
// CHECK: schedule.prefetch step 0 "load a" {{.*}} bytes 300 awaits [3, 1] :
// CHECK: schedule.compute step 1 "use a" {{.*}} effects [0, 1] awaits [0, 0] {
// CHECK: schedule.compute step 1 "use b" {{.*}} effects [0, 1] {
// CHECK: schedule.offload step 2 "store c" {{.*}} bytes 256 awaits [2, 0] :

// With slots apart, "load a" waits only for the last reader of a, and "use b" for the last reader of c: the step before's.
// ROOM: schedule.prefetch step 0 "load a" {{.*}} bytes 300 awaits [1, 1] :
// ROOM: schedule.compute step 1 "use a" {{.*}} effects [0, 1] awaits [0, 0] {
// ROOM: schedule.compute step 1 "use b" {{.*}} effects [0, 1] awaits [3, 1] {
// ROOM: schedule.offload step 2 "store c" {{.*}} bytes 256 awaits [2, 0] :

// UNPLACED: error: {{.*}}uses a slot without an offset in a declared space; run mt-plan-memory
module attributes {schedule.spaces = [{device = 0 : i64, kind = "device", name = "device"}, {device = 0 : i64, kind = "staging", name = "staging"}],
                   schedule.streams = [{device = 0 : i64, kind = "upload", name = "upload"}, {device = 0 : i64, kind = "compute", name = "compute"}, {device = 0 : i64, kind = "download", name = "download"}]} {
  func.func @schedule() {
    %w = schedule.slot "w" persistent : !schedule.slot<"staging", 300>
    %v = schedule.slot "v" persistent : !schedule.slot<"staging", 256>
    %a = schedule.slot "a" : !schedule.slot<"device", 300>
    %b = schedule.slot "b" : !schedule.slot<"device", 256>
    %c = schedule.slot "c" : !schedule.slot<"device", 256>
    schedule.prefetch step 0 "load a" %w[0] to %a[0] bytes 300 : !schedule.slot<"staging", 300> to !schedule.slot<"device", 300>
    schedule.compute step 1 "use a" kernel "copy"(%a, %b) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"device", 300>, !schedule.slot<"device", 256>
    schedule.compute step 1 "use b" kernel "copy"(%b, %c) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"device", 256>, !schedule.slot<"device", 256>
    schedule.offload step 2 "store c" %c[0] to %v[0] bytes 256 : !schedule.slot<"device", 256> to !schedule.slot<"staging", 256>
    return
  }
}
