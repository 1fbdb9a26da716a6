// RUN: mtc-opt %s --mt-plan-memory=slack=0 | FileCheck %s
// RUN: mtc-opt %s --mt-plan-memory="slack=0 device-memory=768 host-memory=768" | FileCheck %s
// RUN: mtc-opt %s --mt-plan-memory="device-memory=768 host-memory=768" | FileCheck %s
// RUN: mtc-opt %s --mt-plan-memory=slack=8 | FileCheck %s --check-prefix=ROOM
// RUN: sed 's/step [02] /step 1 /' %s | mtc-opt --mt-plan-memory=slack=8 | FileCheck %s
// RUN: not mtc-opt %s --mt-plan-memory=device-memory=767 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not mtc-opt %s --mt-plan-memory=host-memory=767 2>&1 | FileCheck %s --check-prefix=HOST
// Offsets of slots, worked out by hand. On the device, alive by command: a (300 bytes) at 0 and 1, b (256) at 1 and 2,
// c (256) at 2 and 3: most at command 1. Slots take multiples of 256 bytes: 768, and c lies where a was.
// Persistent slots of the host lie one after another, aligned: 512 + 256.
// CHECK: schedule.spaces = [{bytes = 768 : i64, device = 0 : i64, kind = "device", name = "device"}, {bytes = 768 : i64,
// CHECK-DAG: schedule.slot "w" persistent at 0 :
// CHECK-DAG: schedule.slot "v" persistent at 512 :
// CHECK-DAG: schedule.slot "a" at 0 :
// CHECK-DAG: schedule.slot "b" at 512 :
// CHECK-DAG: schedule.slot "c" at 0 :

// With room, lifetimes are stretched, so that no slot waits for another: the three lie apart, 512 + 256 + 256 bytes.
// One stream waits for nothing: all commands on the same, they lie as without room.
// ROOM: schedule.spaces = [{bytes = 1024 : i64,
// ROOM-DAG: schedule.slot "a" at 0 :
// ROOM-DAG: schedule.slot "b" at 512 :
// ROOM-DAG: schedule.slot "c" at 768 :

// A byte too little: the message has the need, the moment, the largest slots, and the budget that the second RUN line uses.
// DEVICE: error: the plan needs 768 B (768 B) of device memory, and --device-memory allows 767 B; most is live at 'use a' (768 B), largest there: 'a' 300 B, 'b' 256 B
// DEVICE-SAME: the smallest budget for these choices is --device-memory 768B
// HOST: error: the plan needs 768 B (768 B) of host memory, and --host-memory allows 767 B;
// HOST-SAME: the smallest budget for these choices is --host-memory 768B
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
