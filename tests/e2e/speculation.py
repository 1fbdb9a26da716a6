"""Updates that begin before the norm of the gradient is known change no bit: whether every step is clipped, none, or some;
where a step is skipped because its gradient is not finite; wherever the run was stopped; with every optimizer, precision and an
average; whether they end in their step or in the next, whole or in parts.

    PATH=build/bin:$PATH python3 tests/e2e/speculation.py [CASE...]
"""
import math
import re
import struct
import sys

import faults
import tool
from tool import expect

STEPS = 6
FINISH = "--symbol-dce --mt-plan-memory --mt-place-events --mt-verify-schedule"
CASES = {"gpt2-clip": [[], ["--ema"]], "llama": [["--precision", "bf16"], ["--optimizer", "sgd", "--precision", "bf16", "--ema"]],
         "mlp": [["--optimizer", "lion"]]}
SPECULATIVE = {"": "mt.speculative", ", in parts": "mt.speculative, mt.parts = 3 : i64", ", late": "mt.speculative, mt.late = 0 : i64",
               ", in parts, some late": "mt.speculative, mt.parts = 4 : i64, mt.late = 2 : i64"}


class Bench:
    def __init__(self, scratch, case, options):
        self.scratch, self.what = scratch, " ".join([case, *options])
        scratch.link(case, "model.onnx", "data.npz")
        compile, train = tool.case_commands(case)
        words = tool.without(compile, "-o", *[o for o in options if o.startswith("--") and o != "--ema"])
        self.compile = [*[w for w in words if w != "--clip"], "--clip", "--target", "cpu-discrete", "--micro-batch", "2", *options]
        kept = tool.without(train, "--steps", "--metrics", "--out", "--clip-norm", "--beta1", "--beta2", "--eps", "--momentum", "--data")
        self.train = [w for w in kept if w not in ("mtrun", "plan.bin")]
        self.layers = scratch.run([*self.compile, "--emit", "layers"])

    def plan(self, name, attributes):
        """With attributes on every call: their decisions; without any, everything waits for the norm."""
        text = self.layers
        for call in re.findall(r"call @\w+\([^)]*\) (?:\{[^}]*\} )?:", text):
            if attributes and "nn.backward" in call:
                text = text.replace(call, call.replace("{", "{" + attributes + ", ", 1), 1)
        (self.scratch / "layers.mlir").write_text(text.replace("module attributes {", "module attributes {mt.limits = {}, ", 1))
        self.scratch.run(f"mtc-opt layers.mlir --mt-plan-templates --mt-build-schedule {FINISH} -o schedule.mlir")
        self.scratch.run(f"mtc emit schedule.mlir -o {name}.bin")

    def run(self, plan, out, *options, norm, data="data.npz"):
        if "--resume" not in options:
            self.scratch.run(["rm", "-rf", out])
        self.scratch.run(["mtrun", f"{plan}.bin", *self.train, "--data", data, "--clip-norm", norm, "--steps", STEPS, "--out", out, *options])
        return tool.metrics(self.scratch / out / "metrics.jsonl"), faults.state(self.scratch / out / f"step-{STEPS}")

    def same(self, got, want, what):
        for a, b in zip(got, want):
            if difference := tool.different(a, b):
                raise tool.Failure(f"{self.what}{what}: {difference}")

    def compare(self):
        self.plan("waiting", "")
        norms = [float(norm) for _, _, norm in self.run("waiting", "out", norm=1e9)[0]]
        some = sorted(norms)[len(norms) // 2] * 0.999
        for name, attributes in SPECULATIVE.items():
            self.plan("speculative", attributes)
            confirms = len(re.findall(r"'?confirm layer", self.scratch.run("mtc dump speculative.bin")))
            expect(confirms > 0, f"{self.what}{name}: nothing speculates")
            for norm in (1e9, some, min(norms) / 100):
                want = self.run("waiting", "want", norm=norm)
                self.same(self.run("speculative", "got", "--jitter", "5", "--poison", norm=norm), want, f"{name}, norm {norm}")
                if norm != some:
                    continue
                self.run("speculative", "part", "--checkpoint-every", "1", "--keep", str(STEPS), norm=norm)
                self.scratch.run(["rm", "-rf", *(f"part/step-{step}" for step in range(4, STEPS + 1))])
                self.same(self.run("speculative", "part", "--resume", norm=norm)[1:], want[1:], f"{name}, norm {norm}, resumed")

    def skip(self):
        """A step whose gradient is not finite, where labels and inputs are floats: what has begun is put back."""
        faults.poison(self.scratch / "data.npz", self.scratch / "bad.npz", [2 * 32 + 5])
        for name, attributes in SPECULATIVE.items():
            self.plan("speculative", attributes)
            for norm in (1e9, 1e-3):
                options = ["--non-finite", "skip"]
                want = self.run("waiting", "want", *options, norm=norm, data="bad.npz")
                skipped = [step for step, _, norm in want[0] if norm is None]
                expect(skipped == [3], f"{self.what}: skipped {skipped} of {want[0]}")
                self.same(self.run("speculative", "got", *options, "--jitter", "3", "--poison", norm=norm, data="bad.npz"), want, f"{name}, skipped")
        done = self.scratch.attempt(["mtrun", "speculative.bin", *self.train, "--data", "bad.npz", "--steps", STEPS, "--out", "stops"])
        expect(done.returncode == 1 and "not finite" in done.stderr, f"{self.what}: {done.stderr}")


def test():
    plans = 0
    for case in sys.argv[1:] or CASES:
        for options in CASES[case]:
            with tool.Scratch() as scratch:
                bench = Bench(scratch, case, options)
                bench.compare()
                if case == "mlp":
                    bench.skip()
                plans += len(SPECULATIVE)
    print(f"{plans} plans speculate and change no bit")


tool.main(test)
