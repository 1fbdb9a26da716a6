"""However many processes train together, no bit of a loss, a norm, a weight or of what the optimizer keeps is another:
reference cases with four micro-batches on 2 and 4 ranks, with one and two devices each, against one alone, under jitter and
poison, with what the planner chooses, with everything streamed, and with a disk; a run goes on with another number of ranks
from where it stopped; every rank has its share of the state, and its spaces are the plan's.

    PATH=build/bin:$PATH python3 tests/e2e/ranks.py CASE [RANKS...] [-- OPTION...]
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/ranks.py --simt TARGET CASE [RANKS...] [-- OPTION...]

The second runs plans for GPUs on simulated ones (tests/simt), which exchange by what stands in for NCCL.
"""
import json
import re
import sys

import faults
import tool
from tool import compare, expect

AT = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
WORDS, OPTIONS = sys.argv[1:AT], sys.argv[AT + 1:]
SIMT = WORDS[:1] == ["--simt"]
if SIMT:
    OPTIONS, WORDS = ["--target", WORDS[1], *OPTIONS], WORDS[2:]
CASE, COUNTS = WORDS[0], [int(word) for word in WORDS[1:]] or [2, 4]
TARGET = [] if "--target" in OPTIONS else ["--target", "cpu-discrete"]
DEVICES = [] if "--target" in OPTIONS else ["--devices", "2"]
CHOICES = {"chosen": [], "streamed": ["--residency", "none", "--saved-activations", "input"], "devices": DEVICES,
           "batch": [*DEVICES, *(["--placement", "batch"] if DEVICES else [])],
           "between devices": [] if "--target" in OPTIONS else [*DEVICES, "--network", "100MB,10GB"],
           "disk": [] if "--target" in OPTIONS else ["--disk", "2GB,1GB", "--host-memory"]}
if SIMT:
    CHOICES = {"chosen": [], "between devices": ["--network", "100MB,10GB"], "between two devices": ["--devices", "2", "--network", "100MB,10GB"]}
STEPS = 4 if SIMT else 6


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link(CASE, "model.onnx", "data.npz")
        (scratch / "state").mkdir()
        compile, train = tool.case_commands(CASE)
        batch = int(compile[compile.index("--batch") + 1])
        given = ["--micro-batch", str(batch // 4)] if "--micro-batch" not in OPTIONS else []
        self.compile = tool.without(compile, "-o", *[w for w in OPTIONS if w == "--batch"]) + [*given, *TARGET, *OPTIONS]
        self.train = tool.without(train, "--steps", "--metrics", "--out")[2:]

    def plan(self, ranks, choices=()):
        name = f"plan-{ranks}.bin"
        command = [*self.compile, "-o", name, *(["--ranks", ranks] if ranks > 1 else []),
                   *(["--network", "10GB"] if ranks > 1 and "--network" not in choices else []), *choices]
        if choices and choices[-1] == "--host-memory":
            refused = self.scratch.attempt([*command, "4KiB"])
            least = re.search(r"--host-memory ([0-9]+)B", refused.stderr)
            expect(least, f"{command} 4KiB: {refused.stderr}")
            command.append(f"{int(least.group(1)) * 9 // 8}B")
        self.said = self.scratch.run([*command, "--report"])
        return name

    def run(self, ranks, out, *options, steps=STEPS):
        launcher = tool.launcher(ranks) if ranks > 1 else []
        done = self.scratch.attempt([*launcher, "mtrun", f"plan-{ranks}.bin", *self.train, "--threads", 1, "--steps", steps, "--out", out,
                                     "--metrics", f"{out}.jsonl", "--state-dir", "state", *options, *(["--device", "cuda"] if SIMT else [])], environment=tool.MPI)
        expect(done.returncode == 0, f"{done.args}: exit {done.returncode}\n{done.stderr[-4000:]}")
        return done.stderr

    def together(self, ranks):
        """What else ranks do: evaluate, rehearse with messages of the plan's sizes, write a trace each, refuse nothing alone."""
        if SIMT:
            return
        launcher, plan = tool.launcher(ranks), f"plan-{ranks}.bin"
        data = self.train[self.train.index("--data") + 1]
        alone = self.scratch.run(["mtrun", "eval", "plan-1.bin", "--data", data, "--from", "one"])
        of_all = self.scratch.run([*launcher, "mtrun", "eval", plan, "--data", data, "--from", "one", "--state-dir", "state"], environment=tool.MPI)
        expect(alone == of_all, f"evaluation by one: {alone}, by {ranks}: {of_all}")
        told = self.scratch.run([*launcher, "mtrun", plan, "--rehearse", "--steps", 2, "--trace", "rehearsed.json"], environment=tool.MPI)
        expect(told.count("rehearsed: ") == 1, f"rehearsal of {ranks} ranks: {told}")
        for rank in range(ranks):
            trace = json.loads((self.scratch / ("rehearsed.json" if rank == 0 else f"rehearsed.rank{rank}.json")).read_text())
            expect(any(e["name"].startswith("exchange gradients") for e in trace["traceEvents"]), f"rank {rank}'s trace has no exchange")
        expect("rehearsed: " in self.scratch.run(["mtrun", plan, "--rehearse", "--steps", 1]), "one of the ranks cannot be rehearsed alone")
        dry = self.scratch.run([*launcher, "mtrun", plan, *self.train, "--dry-run", "--state-dir", "state", "--out", "none"], environment=tool.MPI)
        expect(f"ranks: {ranks}, each with" in dry and dry.count("dry run: nothing was trained") == 1, f"dry run of {ranks} ranks: {dry}")

    def rounded(self, ranks, exact):
        """Gradients in 16 bits: half the bytes of them, the same whatever the schedule, near to those in 32, and said."""
        results = {}
        for name in [name for name in CHOICES if name == "chosen" or "between" in name]:
            choices = CHOICES[name]
            self.plan(ranks, ["--gradient-exchange", "bf16", *choices])
            self.run(ranks, f"rounded {name}", "--jitter", ranks, "--poison")
            results[name] = self.result(f"rounded {name}")
            compare(results["chosen"], results[name], f"{ranks} ranks, gradients in 16 bits, {name}")
        expect("gradients in 16 bits" in self.said, f"the report does not say how gradients are rounded: {self.said}")
        pairs = [(float(a[1]), float(b[1])) for a, b in zip(exact[0], results["chosen"][0])]
        expect(any(a != b for a, b in pairs), "gradients in 16 bits changed nothing")
        far = max(abs(a - b) / abs(a) for a, b in pairs)
        expect(far < 2e-3, f"gradients in 16 bits change a loss by {far:.1e} of it")
        warned = self.run(ranks, "onward", "--resume", steps=STEPS + 1)
        expect("results will differ in the last bits" in warned, f"a run goes on with rounded gradients, and nobody is told: {warned}")
        return far

    def result(self, out, step=STEPS):
        return tool.metrics(self.scratch / f"{out}.jsonl"), faults.state(self.scratch / out / f"step-{step}")


def state_bytes(scratch, plan):
    """Bytes of what updates alone use, and all of the weights."""
    parts = [part for p in tool.plan(scratch, plan)["parameters"] for part in p["parts"]]
    return sum(p["span"]["bytes"] for p in parts if p["name"] != "weight"), sum(p["span"]["bytes"] for p in parts if p["name"] == "weight")


def test():
    tool.skip_without_mpi()
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        bench.plan(1)
        bench.run(1, "one")
        want = bench.result("one")
        whole, weights = state_bytes(scratch, "plan-1.bin")
        shares = []
        for ranks in COUNTS:
            for name, choices in CHOICES.items():
                bench.plan(ranks, choices)
                share, all_weights = state_bytes(scratch, f"plan-{ranks}.bin")
                expect(all_weights == weights, f"{ranks} ranks have {all_weights} bytes of weights each, one has {weights}")
                shares.append(share * ranks / whole)
                if "--network" in choices:
                    expect(tool.commands_on(scratch, f"plan-{ranks}.bin", "device_network") > 0, f"{ranks} ranks, {name}: devices exchange nothing")
                bench.run(ranks, f"{name}-{ranks}", "--jitter", ranks, "--poison")
                compare(want, bench.result(f"{name}-{ranks}"), f"{ranks} ranks, {name}")
        bench.plan(COUNTS[-1])
        bench.together(COUNTS[-1])
        bench.run(COUNTS[-1], "onward", steps=STEPS // 2)
        bench.run(1, "onward", "--resume")
        compare(want, bench.result("onward"), f"{COUNTS[-1]} ranks, then one")
        bench.run(1, "back", steps=STEPS // 2)
        bench.run(COUNTS[0], "back", "--resume", "--poison")
        compare(want, bench.result("back"), f"one, then {COUNTS[0]} ranks")
        far = bench.rounded(COUNTS[0], want)
        print(f"{CASE}: {len(shares)} plans for several ranks; their state is {min(shares):.4f} to {max(shares):.4f} of a "
              f"share's; runs that went on with more and with fewer; gradients in 16 bits change losses by {far:.1e} at most")


tool.main(test)
