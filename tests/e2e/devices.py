"""However many devices a plan is for, no bit of a loss or a weight is another: reference cases with four micro-batches on 2, 3
and 4 devices of the CPU against one, under jitter and poison, with what the planner chooses, with everything streamed or
resident, and with the batch shared, with and without links between devices; and a run goes on with another number of devices from where it stopped.

    PATH=build/bin:$PATH python3 tests/e2e/devices.py CASE [COUNT...] [-- OPTION...]
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/devices.py --simt TARGET CASE [COUNT...] [-- OPTION...]

The second runs plans for GPUs on simulated ones, whose kernels run on the processor (tests/simt).
"""
import json
import sys

import tool
from tool import compare

AT = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
WORDS, OPTIONS = sys.argv[1:AT], sys.argv[AT + 1:]
TARGET, DEVICE = "cpu-discrete", []
if WORDS[0] == "--simt":
    TARGET, DEVICE, WORDS = WORDS[1], ["--device", "cuda"], WORDS[2:]
CASE, COUNTS = WORDS[0], [int(word) for word in WORDS[1:]] or [2, 3, 4]
CHOICES = {"chosen": [], "streamed": ["--residency", "none", "--saved-activations", "input"],
           "resident": ["--residency", "state", "--park", "off"], "batch": ["--placement", "batch"],
           "batch-streamed": ["--placement", "batch", "--residency", "none", "--saved-activations", "input"],
           "batch-peers": ["--placement", "batch", "--target", "peers.json"]}
if DEVICE:
    del CHOICES["batch-peers"] # a target has peers, or has none
STEPS = 4 if DEVICE else 8


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link(CASE, "model.onnx", "data.npz")
        compile, train = tool.case_commands(CASE)
        batch = int(compile[compile.index("--batch") + 1])
        target = json.loads(scratch.run(f"mtc target {TARGET}"))
        (scratch / "peers.json").write_text(json.dumps({**target, "peers": ["all 20e9"]}))
        self.compile = tool.without(compile, "-o") + ["--micro-batch", str(batch // 4), *OPTIONS]
        self.train = tool.without(train, "--steps", "--metrics", "--out")[2:]

    def plan(self, devices, *choices):
        name = f"plan-{devices}.bin"
        target = [] if "--target" in choices else ["--target", TARGET]
        self.scratch.run([*self.compile, "-o", name, *target, "--devices", devices, *choices])
        return name

    def result(self, out):
        self.scratch.run(f"mtrun export {out} -o {out}.safetensors")
        return tool.metrics(self.scratch / f"{out}.jsonl"), tool.safetensors(self.scratch / f"{out}.safetensors")

    def run(self, plan, out, *options, steps=STEPS):
        self.scratch.run(["mtrun", plan, *self.train, *DEVICE, "--steps", steps, "--out", out, "--metrics", f"{out}.jsonl", *options])


def test():
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        bench.run(bench.plan(1), "one")
        want = bench.result("one")
        for devices in COUNTS:
            for name, choices in CHOICES.items():
                out = f"{name}-{devices}"
                plan = bench.plan(devices, *choices)
                if f"device {devices - 1}" not in scratch.run(f"mtc dump {plan}"):
                    raise tool.Failure(f"{plan} is for fewer devices than {devices}")
                bench.run(plan, out, "--jitter", devices, "--poison")
                compare(want, bench.result(out), f"{devices} devices, {name}")
        bench.run(bench.plan(COUNTS[-1]), "resumed", steps=STEPS // 2)
        bench.run(bench.plan(1), "resumed", "--resume", steps=STEPS)
        compare(want[1:], bench.result("resumed")[1:], f"{COUNTS[-1]} devices, then one")
        print(f"{CASE}: {len(COUNTS) * len(CHOICES)} plans for several devices, and a run that went on with one")


tool.main(test)
