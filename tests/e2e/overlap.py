"""The planned timeline of a step on a device with slow copies: the weights of layer n + 1 come in while layer n computes,
and updates run while backward goes on. (mtrun --slow-copies --trace shows the same, measured.)

    PATH=build/bin:$PATH python3 tests/e2e/overlap.py
"""
import json

import tool


def shared(a, b):
    return min(a["ts"] + a["dur"], b["ts"] + b["dur"]) - max(a["ts"], b["ts"])


def test():
    with tool.Scratch() as scratch:
        scratch.link("gpt2", "model.onnx")
        scratch.run("mtc compile model.onnx -o plan.bin --batch 4 --seq 32 --micro-batch 1 --target cpu-discrete "
                    "--saved-activations input --residency none --prefetch-distance 1")
        trace = json.loads(scratch.run("mtc dump plan.bin --format trace"))
    events = [e for e in (trace["traceEvents"] if isinstance(trace, dict) else trace) if e.get("ph") == "X"]
    forward = {e["args"]["layer"]: e for e in events if e["name"].startswith("forward")}
    backward = [e for e in events if e["name"].startswith("backward")]
    uploads = {}
    for event in events:
        if event["name"].startswith("weights layer"):
            uploads.setdefault(event["args"]["layer"], []).append(event)
    hidden = [n for n, compute in forward.items() if any(shared(compute, u) > 0 for u in uploads.get(n + 1, []))]
    if not hidden:
        raise tool.Failure("no upload of layer n + 1 lies under the forward of layer n")
    updates = [e for e in events if e["name"].startswith("update")]
    if not any(shared(u, b) > 0 for u in updates for b in backward):
        raise tool.Failure("no update lies under backward")


tool.main(test)
