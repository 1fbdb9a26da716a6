"""A step whose gradient is not finite is skipped to the bit: with --non-finite skip, masters, what the optimizer keeps and
running statistics after it are those before it, for every optimizer, wherever it updates, whatever is deferred to the next
step, and on several devices and ranks; what follows does not depend on where the run was stopped. Where every gradient is
finite the option changes no bit.

    PATH=build/bin:$PATH python3 tests/e2e/non_finite.py [CASE...]
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/non_finite.py --simt [CASE...]

The second runs plans for GPUs on simulated ones (tests/simt).
"""
import json
import math
import re
import struct
import sys

import faults
import tool
from tool import expect

SIMT = sys.argv[1:2] == ["--simt"]
CASES = sys.argv[2 if SIMT else 1:] or ["mlp", "normalized"]
BAD, STEPS = 3, 6
ROWS = {"mlp": 32, "normalized": 8}  # of a step
OPTIMIZERS = ["sgd"] if SIMT else ["adamw", "sgd", "lion"]
PLANS = {"chosen": ["--target", "h100", "--ema"], "streamed": ["--target", "h100", "--residency", "none", "--park", "on", "--ema"]} if SIMT else {
    "unified": ["--target", "cpu"], "discrete": ["--target", "cpu-discrete"],
    "streamed": ["--target", "cpu-discrete", "--residency", "none", "--park", "on"], "bf16": ["--target", "cpu-discrete", "--precision", "bf16", "--ema"],
    "devices": ["--target", "cpu-discrete", "--devices", "2"]}


class Bench:
    def __init__(self, scratch, case):
        self.scratch, self.case, self.rows = scratch, case, ROWS[case]
        scratch.link(case, "model.onnx", "data.npz")
        faults.poison(scratch / "data.npz", scratch / "bad.npz", [(BAD - 1) * self.rows + 5])
        faults.poison(scratch / "data.npz", scratch / "hopeless.npz", range(BAD * self.rows, 30 * self.rows))

    def compile(self, optimizer, options):
        words = tool.without(tool.case_commands(self.case)[0], "-o", "--optimizer")
        self.scratch.run([*[w for w in words if w != "--clip"], "--clip", "--optimizer", optimizer, "-o", "plan.bin", *options])

    def attempt(self, out, *options, data="bad.npz", steps=STEPS, launcher=()):
        self.scratch.run(["rm", "-rf", *([] if "--resume" in options else [out])])
        return self.scratch.attempt([*launcher, "mtrun", "plan.bin", "--data", data, "--shuffle", "off", "--lr", "0.01", "--steps", steps, "--out", out,
                                     *(["--device", "cuda"] if SIMT else []), *options], environment=tool.MPI)

    def run(self, out, *options, **more):
        done = self.attempt(out, *options, **more)
        expect(done.returncode == 0, f"{done.args}: exit {done.returncode}\n{done.stderr[-4000:]}")
        return done.stdout

    def state(self, out, step):
        return faults.state(self.scratch / out / f"step-{step}")

    def same(self, one, other, what):
        if difference := tool.different(one, other):
            raise tool.Failure(f"{self.case}, {what}: {difference}")

    def skips(self, what, ranks=1):
        launcher = tool.launcher(ranks) if ranks > 1 else []
        said = self.run("each", "--non-finite", "skip", "--checkpoint-every", 1, "--keep", STEPS, "--eval-data", "data.npz", "--eval-every", BAD, launcher=launcher)
        expect(re.search(rf"step {BAD}/{STEPS}  loss \S+  grad -?(nan|inf) skipped", said), f"{what}: it is not said: {said}")
        lines = [json.loads(line) for line in open(self.scratch / "each/metrics.jsonl")]
        skipped = {line["step"]: line.get("skipped", False) for line in lines if "loss" in line}
        expect(skipped == {step: step == BAD for step in range(1, STEPS + 1)}, f"{what}: in the metrics, {skipped}")
        self.same(self.state("each", BAD), self.state("each", BAD - 1), f"{what}: the step that is skipped")
        moved = self.state("each", BAD + 1)
        expect(all(math.isfinite(x) for _, _, data in moved.values() for x in struct.unpack(f"<{len(data) // 4}f", data)), f"{what}: it is not finite")
        expect(tool.different(moved, self.state("each", BAD)), f"{what}: nothing moves after it")
        self.run("across", "--non-finite", "skip", "--jitter", 3, "--poison", launcher=launcher)  # what is deferred is deferred
        self.same(self.state("across", STEPS), self.state("each", STEPS), f"{what}: without checkpoints on the way")
        self.scratch.run(["rm", "-rf", *(f"each/step-{step}" for step in range(BAD + 1, STEPS + 1))])
        self.run("each", "--resume", launcher=launcher)
        self.same(self.state("across", STEPS), self.state("each", STEPS), f"{what}: going on after it")

    def others(self):
        """What is finite has the same bits either way; a run stops at what is not, or after ten of it."""
        for mode in ("skip", "stop"):
            self.run(mode, "--non-finite", mode, data="data.npz")
        self.same(self.state("skip", STEPS), self.state("stop", STEPS), "where all is finite")
        done = self.attempt("stop", "--checkpoint-every", 1)
        expect(done.returncode == 1 and "not finite" in done.stderr, f"a run that stops: exit {done.returncode}: {done.stderr}")
        expect(sorted(faults.checkpoints(self.scratch / "stop")) == [1, BAD - 1], "its checkpoints are not those before it")
        done = self.attempt("hopeless", "--non-finite", "skip", "--checkpoint-every", 1, data="hopeless.npz", steps=29)
        expect(done.returncode == 1 and f"step {BAD + 10}: 10 steps in a row were skipped, as their gradients are not finite" in done.stderr,
               f"a run that learns nothing: exit {done.returncode}: {done.stderr}")


def test():
    count = 0
    for case in CASES:
        with tool.Scratch() as scratch:
            bench = Bench(scratch, case)
            for optimizer in OPTIMIZERS:
                for name, options in PLANS.items():
                    bench.compile(optimizer, options)
                    bench.skips(f"{optimizer}, {name}")
                    count += 1
            bench.others()
            if case != "normalized" and not SIMT and tool.has_mpi():  # whose rows see each other: they cannot be shared
                bench.compile("adamw", ["--target", "cpu-discrete", "--ranks", "2", "--network", "10GB"])
                bench.skips("two ranks", ranks=2)
                count += 1
    print(f"{count} plans skip what is not finite")


tool.main(test)
