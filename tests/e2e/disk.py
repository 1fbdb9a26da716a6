"""What the planner keeps in a file changes no bit: plans for less and less memory of the host, with a disk, against one
without; runs go on from each other's checkpoints, the file leaves nothing behind, memory and bytes are those of the plan,
and disks that are full, broken, slow to the point of short answers, or written to by others end a run clearly, with its
last checkpoint whole.

    PATH=build/bin:$PATH python3 tests/e2e/disk.py bits CASE [-- OPTION...] | faults | memory
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/disk.py simt CASE [-- OPTION...]
"""
import json
import os
import re
import subprocess
import sys
import threading
import time

import faults
import tool
from tool import compare, expect

AT = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
WORDS, OPTIONS = sys.argv[1:AT], sys.argv[AT + 1:]
LLAMA = "mtmodel llama --layers 4 --hidden 256 --intermediate 704 --heads 4 --kv-heads 2 --vocab 256 -o m.onnx"
DISK = "--disk 2GB,1GB"


def least(scratch, command):
    """Bytes of the host that a plan takes at least, as the refusal of less says."""
    refused = scratch.attempt(f"{command} --host-memory 4KiB")
    found = re.search(r"--host-memory ([0-9]+)B", refused.stderr)
    expect(refused.returncode == 1 and found, f"--host-memory 4KiB: exit {refused.returncode}:\n{refused.stderr}")
    return int(found.group(1))


def bytes_of(plan, *kinds):
    return sum(s["bytes"] for s in plan["spaces"] if s["kind"] in kinds)


def step_of(plan):
    return next(p for p in plan["programs"] if p["kind"] == "step")["commands"]


class Bench:
    """A reference case, compiled and run in several ways."""

    def __init__(self, scratch, case, target, device):
        self.scratch, self.device = scratch, device
        scratch.link(case, "model.onnx", "data.npz")
        compile, train = tool.case_commands(case)
        batch = int(compile[compile.index("--batch") + 1])
        self.compile = tool.without(compile, "-o") + ["--micro-batch", str(batch // 2), "--target", target, *OPTIONS]
        self.train = tool.without(train, "--steps", "--metrics", "--out")[2:]

    def plan(self, name, *choices):
        self.scratch.run([*self.compile, "-o", name, *choices])
        return tool.plan(self.scratch, name)

    def run(self, plan, out, *options, steps):
        self.scratch.run(["mtrun", plan, *self.train, *self.device, "--steps", steps, "--out", out, "--metrics", f"{out}.jsonl",
                          "--state-dir", "state", *options])
        expect(not os.listdir(self.scratch / "state"), f"{out}: the run left {os.listdir(self.scratch / 'state')}")

    def result(self, out, step):
        return tool.metrics(self.scratch / f"{out}.jsonl"), faults.state(self.scratch / out / f"step-{step}")


def bits(case, target="cpu-discrete", device=(), steps=6):
    with tool.Scratch() as scratch:
        (scratch / "state").mkdir()
        bench = Bench(scratch, case, target, list(device))
        expect(bytes_of(bench.plan("memory.bin"), "file") == 0, "without a disk there is a file")
        bench.run("memory.bin", "memory", steps=steps)
        want = bench.result("memory", steps)
        command = " ".join([*bench.compile, "-o", "plan.bin", *DISK.split()])
        floor = least(scratch, command)
        expect(floor < least(scratch, command.replace(DISK, "")), "a disk does not lower what the host needs")
        files = []
        for name, choices in (("least", ["--host-memory", f"{floor}B"]), ("more", ["--host-memory", f"{floor + floor // 8}B"]),
                              ("resident", ["--host-memory", f"{floor + floor // 8}B", "--residency", "state", "--park", "off"]),
                              ("streamed", ["--host-memory", f"{floor + floor // 8}B", "--residency", "none"])):
            plan = bench.plan(f"{name}.bin", *DISK.split(), *choices)
            files.append(bytes_of(plan, "file"))
            if name == "least": # not even what is read twice a step
                expect("in a file" in plan["settings"]["weights"], f"weights of the least: {plan['settings']['weights']}")
            bench.run(f"{name}.bin", name, "--jitter", 1, "--poison", steps=steps)
            compare(want, bench.result(name, steps), name)
        expect(files[0] > 0, f"files of {files} bytes")
        bench.run("least.bin", "onward", steps=steps // 2)
        bench.run("memory.bin", "onward", "--resume", steps=steps)
        compare(want, bench.result("onward", steps), "from a disk to memory")
        bench.run("memory.bin", "back", steps=steps // 2)
        bench.run("resident.bin", "back", "--resume", "--poison", steps=steps)
        compare(want, bench.result("back", steps), "from memory to a disk")
        print(f"{case}: files of {files} bytes")


def small(scratch):
    """A plan with all its state in a file, one without, and data."""
    (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 400)
    (scratch / "state").mkdir()
    scratch.run(LLAMA)
    compile = "mtc compile m.onnx --batch 4 --micro-batch 2 --seq 64 --precision bf16 --target cpu-discrete"
    scratch.run(f"{compile} -o memory.bin")
    scratch.run(f"{compile} -o disk.bin {DISK} --host-memory {least(scratch, f'{compile} -o disk.bin {DISK}')}B")


RUN = "mtrun {}.bin --data text.txt --steps 6 --checkpoint-every 2 --metrics {}.jsonl --out {} --state-dir state"


def resumed(scratch, out, want):
    """Where a run stopped, it can go on from, and comes to the same."""
    scratch.run(RUN.format("disk", out, out) + " --resume")
    compare(want, (tool.metrics(scratch / f"{out}.jsonl"), faults.state(scratch / out / "step-6")), f"{out}, gone on with")


def disturbed():
    tool.skip_if_sanitized(faults.NOT_SANITIZED)
    with tool.Scratch() as scratch:
        small(scratch)
        scratch.run(RUN.format("memory", "memory", "memory"))
        want = tool.metrics(scratch / "memory.jsonl"), faults.state(scratch / "memory/step-6")
        for folder, said in (("nowhere", "No such file"), ("text.txt", "Not a directory"), (None, "say in which folder with --state-dir")):
            command = RUN.format("disk", "refused", "refused").replace("--state-dir state", f"--state-dir {folder}" if folder else "")
            refused = scratch.attempt(command)
            expect(refused.returncode == 1 and said in refused.stderr, f"{command}: exit {refused.returncode}:\n{refused.stderr}")
        run = RUN.format("disk", "counted", "counted")
        total = faults.calls(scratch, run, scratch / "state", no_uring=1)
        compare(want, (tool.metrics(scratch / "counted.jsonl"), faults.state(scratch / "counted/step-6")), "by threads")
        for number, (kind, at, said) in enumerate((("enospc", 2, "make room"), ("enospc", total - 20, "No space left"),
                                                   ("eio", total // 2, "Input/output error"), ("eio", total - 5, "Input/output error"),
                                                   ("short", total // 2, None), ("short", total - 9, None), ("kill", total - 15, ""))):
            out = f"{kind}-{number}"
            done = faults.attempt(scratch, RUN.format("disk", out, out), scratch / "state", kind=kind, at=at, no_uring=1)
            if said is None:
                expect(done.returncode == 0, f"{out}: exit {done.returncode}:\n{done.stderr}")
                compare(want, (tool.metrics(scratch / f"{out}.jsonl"), faults.state(scratch / out / "step-6")), out)
                continue
            failed = done.returncode == (faults.KILLED if kind == "kill" else 1)
            expect(failed and said in done.stderr and (kind == "kill" or "--state-dir state" in done.stderr),
                   f"{out}: exit {done.returncode}:\n{done.stderr}")
            expect(not os.listdir(scratch / "state"), f"{out}: the run left {os.listdir(scratch / 'state')}")
            if at > 2:
                resumed(scratch, out, want)
        done = faults.attempt(scratch, RUN.format("disk", "reads", "reads"), scratch / "state", broken="deleted", no_uring=1)
        expect(done.returncode == 1 and "Input/output error" in done.stderr, f"reads: exit {done.returncode}:\n{done.stderr}")
        changed(scratch, want)
        print(f"{total} calls; refusals, full and broken disks, short answers, a file that others write to")


def changed(scratch, want):
    """Somebody writes into the file while the run uses it."""
    command = RUN.format("disk", "changed", "changed").replace("--steps 6", "--steps 4000").split()
    process = subprocess.Popen(command, cwd=scratch.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            try:
                for link in os.listdir(f"/proc/{process.pid}/fd"):
                    path = f"/proc/{process.pid}/fd/{link}"
                    if str(scratch / "state") in os.readlink(path) and (scratch / "changed/step-2").exists():
                        with open(path, "r+b", buffering=0) as file:
                            for at in range(0, os.fstat(file.fileno()).st_size, 1 << 16):
                                os.pwrite(file.fileno(), b"somebody else", at)
            except OSError:
                pass
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
        stop.set()
        writer.join()
    expect(process.returncode == 1 and "are not those that were written there" in said, f"changed: exit {process.returncode}:\n{said}")
    scratch.run("mtrun export changed -o changed.safetensors")


def memory():
    """Memory and bytes are what the plan says; reading, writing and computing go on at once."""
    tool.skip_if_sanitized("its memory is no part of the plan")
    beside = 96 << 20  # the program, its libraries and the data
    steps = 3
    with tool.Scratch() as scratch:
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 400)
        (scratch / "state").mkdir()
        scratch.run("mtmodel llama --layers 12 --hidden 1024 --intermediate 2816 --heads 8 --kv-heads 4 --vocab 256 -o m.onnx")
        compile = "mtc compile m.onnx --batch 2 --micro-batch 1 --seq 64 --precision bf16 --target cpu-discrete --residency none --saved-activations input"
        floor = least(scratch, f"{compile} -o m.bin {DISK}")
        scratch.run(f"{compile} -o m.bin {DISK} --host-memory {floor}B --device-memory 200MiB")
        plan = tool.plan(scratch, "m.bin")
        run = "mtrun m.bin --data text.txt --steps {} --threads 2 --out run --keep 0 --overwrite --state-dir state"
        told = scratch.run(run.format(steps) + " --dry-run")
        expect(re.search(rf", disk .* \({bytes_of(plan, 'file'):,} bytes\)", told), f"the dry run does not say what the disk has:\n{told}")
        planned = bytes_of(plan, "device", "staging", "state") + int(re.search(r"scratch of kernels: .* \(([0-9,]+) bytes\)", told).group(1).replace(",", ""))
        files = {i for i, s in enumerate(plan["spaces"]) if s["kind"] == "file"}
        copies = [c["copy"] for c in step_of(plan) if "copy" in c]
        read = sum(c["from"]["bytes"] for c in copies if c["from"]["space"] in files)
        wrote = sum(c["to"]["bytes"] for c in copies if c["to"]["space"] in files)
        counted = []
        for count in (steps, 2 * steps):
            process = subprocess.Popen((run.format(count) + " --trace trace.json").split(), cwd=scratch.path, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            expect(status == 0, f"exit {os.waitstatus_to_exitcode(status)}")
            counted.append((512 * usage.ru_inblock, 512 * usage.ru_oublock))
            peak = usage.ru_maxrss * 1024
            expect(peak < planned + beside, f"{peak} bytes resident, and {planned} are planned")
        for name, said, few, many in (("read", read, counted[0][0], counted[1][0]), ("written", wrote, counted[0][1], counted[1][1])):
            expect(abs(many - few - steps * said) < 0.02 * steps * said, f"{name}: {(many - few) / steps:.0f} bytes a step, not {said}")
        overlaps(scratch / "trace.json")
        print(f"{planned} bytes of memory planned, {peak} taken; {read} read and {wrote} written a step; file of {bytes_of(plan, 'file')}")


def overlaps(path):
    events = json.loads(path.read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    spans = {}
    for event in events:
        if event.get("ph") == "X":
            spans.setdefault(names[event["pid"], event["tid"]], []).append((event["pid"], event["ts"], event["ts"] + event["dur"]))
    for stream in ("read", "write"):
        both = sum(any(p == q and a < d and c < b for q, c, d in spans["compute"]) for p, a, b in spans[stream])
        expect(both > 0, f"nothing of stream {stream} overlaps computing")


def test():
    if WORDS[0] == "bits":
        bits(WORDS[1])
    elif WORDS[0] == "simt":
        bits(WORDS[1], "rtx-4090", ("--device", "cuda"), 2)
    else:
        {"faults": disturbed, "memory": memory}[WORDS[0]]()


tool.main(test)
