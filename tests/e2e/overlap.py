"""The planned timeline of a step: weights come in while other layers compute, and updates run while backward
goes on. And the measured one of mtrun --slow-copies --trace: its shares of overlap are those that its events give, counted here
moment by moment. The table of --calls has every call that the plan lists, as often as it was made.

    PATH=build/bin:$PATH python3 tests/e2e/overlap.py
"""
import collections
import json
import re

import tool


def shared(a, b):
    return min(a["ts"] + a["dur"], b["ts"] + b["dur"]) - max(a["ts"], b["ts"])


def check_planned(scratch):
    trace = json.loads(scratch.run("mtc dump plan.bin --format trace"))
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["pid"] == 0]
    compute = [e for e in events if e["name"].startswith(("forward", "loss", "backward", "sum gradients"))]
    backward = [e for e in events if e["name"].startswith("backward")]
    uploads = [e for e in events if e["name"].startswith("weights layer") and e["args"]["layer"] > 0]
    hidden = sum(max(0, shared(u, c)) for u in uploads for c in compute) / sum(u["dur"] for u in uploads)
    if hidden < 0.8: # what the first layers updated last wait for lies between steps
        raise tool.Failure(f"{hidden:.0%} of the time in which weights come in lies under compute")
    updates = [e for e in events if e["name"].startswith("update")]
    if not any(shared(u, b) > 1 for u in updates for b in backward):
        raise tool.Failure("no update lies under backward")


def shares(events):
    """Seconds from first to last, busy with compute, with copies, with updates, and of these two those under compute."""
    moments = sorted({t for e in events for t in (e["ts"], e["ts"] + e["dur"])})
    sums = {"compute": 0, "copy": 0, "update": 0, "copy hidden": 0, "update hidden": 0}
    running = {"compute": 0, "copy": 0, "update": 0}
    changes = {}
    for event in events:
        role = event["args"]["role"]
        work = "copy" if role in ("prefetch", "offload") else role
        if work in running:
            changes.setdefault(event["ts"], []).append((work, 1))
            changes.setdefault(event["ts"] + event["dur"], []).append((work, -1))
    for now, then in zip(moments, moments[1:]):
        for work, step in changes.get(now, []):
            running[work] += step
        for work in running:
            sums[work] += then - now if running[work] else 0
        for work in ("copy", "update"):
            sums[work + " hidden"] += then - now if running[work] and running["compute"] else 0
    return {"seconds": (moments[-1] - moments[0]) / 1e6, "computeBusy": sums["compute"] / (moments[-1] - moments[0]),
            "copySeconds": sums["copy"] / 1e6, "copiesHidden": sums["copy hidden"] / sums["copy"],
            "updateSeconds": sums["update"] / 1e6, "updatesHidden": sums["update hidden"] / sums["update"]}


def check_measured(scratch):
    done = scratch.attempt("mtrun plan.bin --data data.npz --shuffle off --steps 4 --out run --slow-copies 200MB "
                           "--trace trace.json")
    if done.returncode != 0 or "trace.json: compute is busy" not in done.stderr:
        raise tool.Failure(f"mtrun --trace does not say how much overlaps:\n{done.stderr}")
    trace = json.loads((scratch / "trace.json").read_text())
    streams = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    plan = json.loads(scratch.run("mtc dump plan.bin --format json"))
    pending = next(len(program["commands"]) for program in plan["programs"] if program["kind"] == "finish") # at the end, of no step
    events = sorted((e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1), key=lambda e: e["ts"])
    events = events[:len(events) - pending]
    # Feeding, norms and reports on host streams count as nothing.
    counted = [e for e in events if e["args"]["role"] == "update" or streams[e["tid"]] in ("upload", "compute", "download", "messages down", "messages up")]
    for name, expected in shares(counted).items():
        if abs(trace["otherData"][name] - expected) > 1e-4 * max(1, expected):
            raise tool.Failure(f"{name} is {trace['otherData'][name]}, and the events give {expected}")


STEPS = 4


def check_calls(scratch):
    """The plan's calls by kernel and kind of stream, against the table's."""
    plan = json.loads(scratch.run("mtc dump plan.bin --format json"))
    kinds = [stream["kind"] for stream in plan["streams"]]
    listed, last = collections.Counter(), collections.Counter()  # in a step, and at the end of a run
    for program, counter in (("step", listed), ("finish", last)):
        for command in next(p for p in plan["programs"] if p["kind"] == program)["commands"]:
            if "run" in command:
                code = plan["templates"][command["run"]["template_index"]]
                counter.update((kinds[command["stream"]], call["kernel"]) for call in code["calls"])
    done = scratch.attempt(f"mtrun plan.bin --data data.npz --shuffle off --steps {STEPS} --keep 0 --out calls --trace calls.json --calls")
    if done.returncode != 0:
        raise tool.Failure(done.stderr)
    trace = json.loads((scratch / "calls.json").read_text())
    rows = trace["otherData"]["calls"]
    made = collections.Counter()
    for row in rows:
        made[row["stream"], re.match(r"\w+", row["call"])[0]] += row["runs"]
    beside = ("flush", "load", "store", "update")  # programs run once
    for call, times in listed.items():
        if not STEPS * times <= made[call] <= (STEPS + len(beside)) * times:
            raise tool.Failure(f"{call}: {made[call]} calls in the table; {times} a step in the plan")
    if made.keys() != listed.keys() | last.keys():
        raise tool.Failure(f"the table has {made.keys() ^ (listed.keys() | last.keys())}, or lacks it")
    if any("parameter=" in row["call"] for row in rows):
        raise tool.Failure("updates of equal shapes are not one row")
    for kind in {row["stream"] for row in rows}:
        mine = [row for row in rows if row["stream"] == kind]
        if abs(sum(row["share"] for row in mine) - 1) > 1e-6:
            raise tool.Failure(f"shares of {kind} are {[row['share'] for row in mine]}")
        streams = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name" and kinds[e["tid"]] == kind}
        busy = sum(e["dur"] for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1 and e["tid"] in streams) / 1e6
        if sum(row["seconds"] for row in mine) > busy:
            raise tool.Failure(f"calls of {kind} took longer than its commands: {sum(row['seconds'] for row in mine)} s of {busy} s")
        if f"{kind}: " not in done.stderr or mine[0]["call"] not in done.stderr:
            raise tool.Failure(f"what takes longest on {kind} is not printed:\n{done.stderr}")
    if "TFLOP/s" not in done.stderr or " others" not in done.stderr:
        raise tool.Failure(f"the table is not printed:\n{done.stderr}")


def test():
    with tool.Scratch() as scratch:
        scratch.link("gpt2", "model.onnx", "data.npz")
        compile = ("mtc compile model.onnx -o plan.bin --batch 4 --seq 32 --micro-batch 1 --target cpu-discrete "
                   "--saved-activations input --residency none")
        scratch.run(compile)
        check_planned(scratch)
        check_measured(scratch)
        check_calls(scratch)


tool.main(test)
