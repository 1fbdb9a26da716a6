"""Layers that share one set of weights: their gradients add up in one place, so that bytes do not grow with the number of
uses, and weights that the last layer left on the device are not brought in again. Bits: bitwise.py --shared.

    PATH=build/bin:$PATH python3 tests/e2e/shared_weights.py
"""
import json
import re

import onnx_rewriter
import tool

BATCH, SEQ, WIDTH = 2, 32, 64


def expect(holds, message):
    if not holds:
        raise tool.Failure(message)


def plan_of(scratch, layers, options):
    scratch.run(f"mtmodel gpt2 --layers {layers} --hidden {WIDTH} --intermediate 256 --heads 4 --vocab 256 --seq {SEQ} -o model.onnx")
    model = scratch / "model.onnx"
    model.write_bytes(onnx_rewriter.rename_parameters(model.read_bytes(), r"\bh\.[0-9]+\.", "h.0."))
    command = (f"mtc compile model.onnx -o plan.bin --target cpu-discrete --batch {BATCH} --micro-batch 1 --seq {SEQ} "
               f"--saved-activations input {options}")
    refused = scratch.attempt(f"{command} --device-memory 4KiB").stderr
    least = re.search(r"--device-memory ([0-9]+)B", refused)
    expect(least, f"no smallest budget named:\n{refused}")
    scratch.run(f"{command} --device-memory {least.group(1)}B")
    return json.loads(scratch.run("mtc dump plan.bin --format json"))


def bytes_of(plan, *kinds):
    return sum(s["bytes"] for s in plan["spaces"] if str(s["kind"]).lower() in kinds)


def check(precision, clip):
    """For every layer more the host keeps a saved input more, at the most, and nothing else grows: but one micro-batch's, which
    may find room on the device with some numbers of layers and not with others, and what of one gradient waits for its sum."""
    fixed, staging = {}, []
    saved = BATCH * SEQ * WIDTH * (2 if precision == "bf16" else 4)
    for layers in (6, 12, 24, 48):
        with tool.Scratch() as scratch:
            plan = plan_of(scratch, layers, f"--residency none --precision {precision} {clip}")
            fixed[layers] = bytes_of(plan, "device"), bytes_of(plan, "state")
            staging.append(bytes_of(plan, "staging") - layers * saved)
            step = next(p for p in plan["programs"] if p["kind"] == "step")
            sums = sum(c["label"].startswith("sum gradients of") and ".h.0." in c["label"] for c in step["commands"])
            expect(sums == layers - 1, f"{layers} layers: {sums} sums of gradients")
    expect(len(set(fixed.values())) == 1, f"{precision} {clip}: bytes of device and state by layers: {fixed}")
    gradient = 4 * (12 * WIDTH * WIDTH + 13 * WIDTH)  # of a layer
    expect(max(staging) <= min(staging) + gradient and staging[-1] <= staging[-2] + saved // BATCH,
           f"{precision} {clip}: staging but for saved inputs, with 6 to 48 layers: {staging}")
    print(f"{precision} {clip}: {fixed[6]} and {staging} bytes with 6 to 48 uses", flush=True)


def check_resident():
    """The shared weights stay from layer to layer; between forward and backward, with the loss between them, where they are
    kept."""
    for residency, times in (("none", 2), ("weights", 1)):
        with tool.Scratch() as scratch:
            plan = plan_of(scratch, 6, f"--residency {residency}")
            step = next(p for p in plan["programs"] if p["kind"] == "step")
            up = [c["label"] for c in step["commands"] if "copy" in c and c["label"].startswith("weight") and c["layer"] in range(1, 7)]
            expect(len(up) == times, f"residency {residency}: weights of the shared layers come up as {up}")


def test():
    for precision in ("fp32", "bf16"):
        for clip in ("", "--clip"):
            check(precision, clip)
    check_resident()


tool.main(test)
