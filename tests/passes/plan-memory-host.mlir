// RUN: mtc-opt %s --mt-plan-memory=host-memory=1024 | FileCheck %s
// RUN: mtc-opt %s --mt-plan-memory=host-memory=1300 -o /dev/null
// RUN: not mtc-opt %s --mt-plan-memory=host-memory=1023 2>&1 | FileCheck %s --check-prefix=OVER
// One budget holds for all host spaces together. What one of them keeps is set aside before another's lifetimes are
// stretched: 256 bytes of state, and 768 of staging, packed tightly (as on the device in plan-memory.mlir), just fit.
// CHECK: {bytes = 768 : i64, device = 0 : i64, kind = "staging", name = "staging"}, {bytes = 256 : i64, device = 0 : i64, kind = "state", name = "state"}
// OVER: error: the plan needs 1.00 KiB (1024 B) of host memory, and --host-memory allows 1023 B; {{.*}} --host-memory 1024B
module attributes {schedule.spaces = [{device = 0 : i64, kind = "staging", name = "staging"}, {device = 0 : i64, kind = "state", name = "state"}],
                   schedule.streams = [{device = 0 : i64, kind = "host", name = "host"}]} {
  func.func @schedule() {
    %m = schedule.slot "moments" persistent : !schedule.slot<"state", 256>
    %a = schedule.slot "a" : !schedule.slot<"staging", 300>
    %b = schedule.slot "b" : !schedule.slot<"staging", 256>
    %c = schedule.slot "c" : !schedule.slot<"staging", 256>
    schedule.compute step 0 "fill a" kernel "copy"(%m, %a) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"state", 256>, !schedule.slot<"staging", 300>
    schedule.compute step 0 "use a" kernel "copy"(%a, %b) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"staging", 300>, !schedule.slot<"staging", 256>
    schedule.compute step 0 "use b" kernel "copy"(%b, %c) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"staging", 256>, !schedule.slot<"staging", 256>
    schedule.compute step 0 "use c" kernel "copy"(%c, %m) offsets [0, 0] effects [0, 1] {types = [tensor<64xf32>, tensor<64xf32>]} : !schedule.slot<"staging", 256>, !schedule.slot<"state", 256>
    return
  }
}
