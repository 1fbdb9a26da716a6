// RUN: not mtc-opt %s --mt-place-events --mt-verify-schedule 2>&1 | FileCheck %s
// RUN: sed '/"bring b"/d' %s | mtc-opt --mt-place-events --mt-verify-schedule -o /dev/null
// RUN: sed 's/"v" persistent at 256/"v" persistent at 128/; /"bring b"/d' %s | not mtc-opt --mt-place-events --mt-verify-schedule 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: {{.*}} reads bytes [128, 256) of slot 'w', which {{.*}} has written over
// What a step leaves in a slot is there until the program after it has read it. Slots a and b share bytes: the step uses a, of
// the step before, and then b; finish would bring b before it has used a.
// CHECK: error: {{.*}}'use a at last' reads bytes [0, 256) of slot 'a', which 'bring b' has written over
module attributes {schedule.spaces = [{bytes = 256 : i64, device = 0 : i64, kind = "device", name = "device"}, {bytes = 768 : i64, device = 0 : i64, kind = "staging", name = "staging"}],
                   schedule.streams = [{device = 0 : i64, kind = "upload", name = "upload"}, {device = 0 : i64, kind = "compute", name = "compute"}]} {
  func.func @schedule() {
    %w = schedule.slot "w" persistent at 0 : !schedule.slot<"staging", 256>
    %v = schedule.slot "v" persistent at 256 : !schedule.slot<"staging", 256>
    %a = schedule.slot "a" at 0 : !schedule.slot<"device", 256>
    %b = schedule.slot "b" at 0 : !schedule.slot<"device", 256>
    schedule.offload step 1 "use a" %a[0] to %v[0] bytes 256 : !schedule.slot<"device", 256> to !schedule.slot<"staging", 256>
    schedule.prefetch step 0 "load b" %w[0] to %b[0] bytes 256 : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.offload step 1 "use b" %b[0] to %v[0] bytes 256 : !schedule.slot<"device", 256> to !schedule.slot<"staging", 256>
    schedule.prefetch step 0 "load a" %w[0] to %a[0] bytes 256 : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.prefetch finish 0 "bring b" %w[0] to %b[0] bytes 256 : !schedule.slot<"staging", 256> to !schedule.slot<"device", 256>
    schedule.offload finish 1 "use a at last" %a[0] to %v[0] bytes 256 : !schedule.slot<"device", 256> to !schedule.slot<"staging", 256>
    return
  }
}
