// RUN: mtc-opt %s --mt-plan-memory=slack=0 | FileCheck %s
// RUN: sed 's/, end = [0-9.]* : f64//g' %s | mtc-opt --mt-plan-memory=slack=0 | FileCheck %s --check-prefix=ALONE
// Bytes are free when a command ends, not when it would if it had the host's memory to itself: the way down of `a` takes a
// second alone, and two beside an update, so that `b`, which comes after 2.5 seconds, must lie elsewhere, and `c`, which comes
// after 3, need not.
// CHECK: bytes = 512 : i64, device = 0 : i64, kind = "device"
// CHECK-DAG: schedule.slot "a" at [[A:[0-9]+]] :
// CHECK-DAG: schedule.slot "c" at [[A]] :
// ALONE: bytes = 512 : i64, device = 0 : i64, kind = "device"
// ALONE-DAG: schedule.slot "a" at [[A:[0-9]+]] :
// ALONE-DAG: schedule.slot "b" at [[A]] :
module attributes {schedule.period = 10.0 : f64,
                   schedule.spaces = [{device = 0 : i64, kind = "device", name = "device"}, {device = 0 : i64, kind = "staging", name = "staging"}],
                   schedule.streams = [{device = 0 : i64, kind = "upload", name = "upload"}, {device = 0 : i64, kind = "compute", name = "compute"}, {device = 0 : i64, kind = "download", name = "download"}]} {
  func.func @schedule() {
    %w = schedule.slot "w" persistent : !schedule.slot<"staging", 256>
    %a = schedule.slot "a" : !schedule.slot<"device", 256>
    %b = schedule.slot "b" : !schedule.slot<"device", 256>
    %c = schedule.slot "c" : !schedule.slot<"device", 256>
    schedule.prefetch step 0 "load a" %w[0] to %a[0] bytes 256 {seconds = 1.0 : f64, start = 0.0 : f64, end = 1.0 : f64} : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.offload step 2 "store a" %a[0] to %w[0] bytes 256 {seconds = 1.0 : f64, start = 1.0 : f64, end = 3.0 : f64} : !schedule.slot<"device", 256> to !schedule.slot<"staging", 256>
    schedule.prefetch step 0 "load b" %w[0] to %b[0] bytes 256 {seconds = 0.5 : f64, start = 2.5 : f64, end = 3.0 : f64} : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.prefetch step 0 "load c" %w[0] to %c[0] bytes 256 {seconds = 1.0 : f64, start = 3.0 : f64, end = 4.0 : f64} : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.compute step 1 "use b" kernel "copy"(%b, %c) offsets [0, 0] effects [0, 2] {types = [tensor<64xf32>, tensor<64xf32>], seconds = 1.0 : f64, start = 4.0 : f64, end = 5.0 : f64} : !schedule.slot<"device", 256>, !schedule.slot<"device", 256>
    return
  }
}
