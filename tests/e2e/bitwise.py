"""Any change of schedule leaves every loss, gradient norm and final weight bit-identical: rungs, residency, parking,
prefetch distance, budgets, jitter, poison, tracing, threads, stopping, evaluating and resuming.

    PATH=build/bin:$PATH python3 tests/e2e/bitwise.py schedule|budget|disturbance|interruption [CASE] [--bf16] [--shared] [-- OPTION...]

--shared: all layers use the weights of the first (of a GPT-2). Options are added to mtc compile's.
"""
import itertools
import re
import sys

import onnx_rewriter
import tool

AT = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
GROUP, WORDS, OPTIONS = sys.argv[1], sys.argv[2:AT], sys.argv[AT + 1:]
if "--bf16" in WORDS:
    OPTIONS = ["--precision", "bf16", *OPTIONS]
CASE = next((word for word in WORDS if not word.startswith("--")), "gpt2")
STEPS = 10


class Runs:
    """Runs of one case at a fixed micro-batch, each compared with the first."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.compile, train = tool.case_commands(CASE)
        self.compile += OPTIONS
        at = train.index("--steps")
        self.train = train[:at] + train[at + 2:]
        at = self.train.index("--metrics")
        self.train = self.train[:at] + self.train[at + 2:]
        self.count, self.reference, self.wrong = 0, None, []
        scratch.link(CASE, "data.npz")
        model = (tool.GOLDEN / CASE / "model.onnx").read_bytes()
        if "--shared" in WORDS:
            model = onnx_rewriter.rename_parameters(model, r"\.h\.[0-9]+\.", ".h.0.")
        (scratch / "model.onnx").write_bytes(model)

    def plan(self, *options, target="cpu-discrete"):
        self.scratch.run(self.compile + ["--micro-batch", "2", "--target", target, *options])

    def result(self, name):
        """The steps and the weights that a run folder ended with."""
        self.scratch.run(f"mtrun export {name} -o {name}.safetensors")
        return tool.metrics(self.scratch / f"{name}.jsonl"), tool.safetensors(self.scratch / f"{name}.safetensors")

    def train_to(self, name, steps, *options, environment=None):
        self.scratch.run(self.train + ["--steps", str(steps), "--out", name, "--metrics", f"{name}.jsonl", *options], environment)

    def check(self, what, result):
        if self.reference is None:
            self.reference = result
            return
        self.count += 1
        for got, want in zip(result, self.reference):
            if difference := tool.different(got, want):
                self.wrong.append(f"{what}: {difference}")
                print(f"differs: {what}: {difference}", flush=True)

    def variant(self, what, *options):
        name = f"run{self.count}" if self.reference else "first"
        self.train_to(name, STEPS, *options)
        self.check(what, self.result(name))

    def finish(self):
        print(f"{self.count} variants of {' '.join([*WORDS, *OPTIONS]) or CASE} against the first, {len(self.wrong)} differ")
        if self.wrong:
            raise tool.Failure("\n".join(self.wrong))


def schedule(runs):
    runs.plan(target="cpu")
    runs.variant("cpu, unified")
    for rung, residency, distance, park in itertools.product(("input", "attention", "all"), ("none", "weights", "state"), (1, 2, 3), ("on", "off")):
        options = ["--saved-activations", rung, "--residency", residency, "--prefetch-distance", str(distance), "--park", park]
        runs.plan(*options)
        runs.variant(" ".join(options))


def smallest_budget(runs):
    """The device budget that the refusal of an impossible one names, in bytes."""
    refused = runs.scratch.attempt(runs.compile + ["--micro-batch", "2", "--target", "cpu-discrete", "--device-memory", "4KiB"])
    named = re.search(r"--device-memory ([0-9.]+ ?[KMGT]?i?B?)", refused.stderr)
    if refused.returncode != 1 or not named:
        raise tool.Failure(f"--device-memory 4KiB: exit {refused.returncode}, no smallest budget named:\n{refused.stderr}")
    return named.group(1).replace(" ", "")


def budget(runs):
    smallest = smallest_budget(runs)
    number, unit = re.fullmatch(r"([0-9.]+)(.*)", smallest).groups()
    runs.plan()
    runs.variant("ample")
    for what, size in (("smallest", smallest), ("twice the smallest", f"{2 * float(number)}{unit}" if "." in number else f"{2 * int(number)}{unit}")):
        runs.plan("--device-memory", size)
        runs.variant(f"{what} budget, {size}")


def disturbance(runs):
    for options in ([], ["--residency", "state"],
                    ["--saved-activations", "input", "--residency", "none", "--park", "on", "--prefetch-distance", "2"]):
        runs.plan(*options)
        where = " ".join(options) or "the planner's choice"
        runs.variant(where)
        for seed in range(1, 11):
            runs.variant(f"jitter {seed}, {where}", "--jitter", str(seed))
        runs.variant(f"poison, {where}", "--poison")
        runs.variant(f"poison and jitter, {where}", "--poison", "--jitter", "11")
        runs.variant(f"trace, {where}", "--trace", "trace.json")
        for threads in (1, 2, 4):
            runs.variant(f"{threads} threads, {where}", "--threads", str(threads))


def interruption(runs):
    runs.plan("--residency", "none")
    runs.variant("in one go")
    for residency in ("none", "state"):
        for stop in (1, 4, STEPS - 1):
            runs.plan("--residency", residency)
            name = f"{residency}{stop}"
            runs.train_to(name, stop)
            runs.scratch.run(f"mtrun export {name} -o between.safetensors")
            runs.scratch.run(f"mtrun eval plan.bin --data data.npz --from {name}")
            if stop == 4: # from state on the host to state on the device, and back
                runs.plan("--residency", "state" if residency == "none" else "none")
            runs.train_to(name, STEPS, "--resume")
            runs.check(f"{residency}: stopped, exported and evaluated after step {stop}, then resumed", runs.result(name))
        runs.plan("--residency", residency)
        runs.variant(f"{residency}: evaluating every step", "--eval-data", "data.npz", "--eval-every", "1")
        runs.variant(f"{residency}: a checkpoint every 3 steps", "--checkpoint-every", "3")


def test():
    with tool.Scratch() as scratch:
        runs = Runs(scratch)
        {"schedule": schedule, "budget": budget, "disturbance": disturbance, "interruption": interruption}[GROUP](runs)
        runs.finish()


tool.main(test)
