"""Random decisions - rungs, kept weights, resident state, parts, parked values, late updates and late gradients of single layers, limits of memory - change no bit of
any loss or weight, under jitter and poison. They are written into the text of phase `layers`, which mtc-opt and mtc emit make
plans of; the same decisions, read back from the text of the schedule, give the same plan.

    PATH=build/bin:$PATH python3 tests/e2e/decisions.py [CASE] [COUNT] [SEED] [-- OPTION...]

Where OPTION names several devices or ranks, or a disk, they are compared with one, and with none.
"""
import random
import re
import sys

import tool

AT = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
WORDS, OPTIONS = sys.argv[1:AT], sys.argv[AT + 1:]
CASE = WORDS[0] if WORDS else "gpt2"
COUNT, SEED = (int(word) for word in (WORDS[1:] + ["40", "1"][len(WORDS[1:]):]))
STEPS = 4
FINISH = "--symbol-dce --mt-plan-memory --mt-place-events --mt-verify-schedule"


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        compile, train = tool.case_commands(CASE)
        scratch.link(CASE, "model.onnx", "data.npz")
        self.compile = [w for w in compile if w not in ("-o", "plan.bin")] + ["--target", "cpu-discrete", *OPTIONS]
        if "--micro-batch" not in OPTIONS:
            self.compile += ["--micro-batch", "2"]
        self.train = list(train)
        for option in ("--steps", "--metrics", "--out"):
            if option in self.train:
                at = self.train.index(option)
                self.train = self.train[:at] + self.train[at + 2:]
        alone = tool.without(self.compile, "--disk", "--ranks", "--network")
        if "--disk" in self.compile:
            self.train += ["--state-dir", "."]
        if "--devices" in alone:
            alone[alone.index("--devices") + 1] = "1"
        self.layers = scratch.run([*self.compile, "--emit", "layers"])
        self.calls = re.findall(r"call @\w+\([^)]*\) (?:\{[^}]*\} )?:", self.layers)
        self.launcher = []
        self.want = self.result("reference", scratch.run([*alone, "--emit", "layers"]))
        if "--ranks" in self.compile:
            tool.skip_without_mpi()
            self.launcher = tool.launcher(self.compile[self.compile.index("--ranks") + 1])

    def plan(self, text, name):
        (self.scratch / "layers.mlir").write_text(text)
        done = self.scratch.attempt(f"mtc-opt layers.mlir --mt-plan-templates --mt-build-schedule {FINISH} -o schedule.mlir")
        if done.returncode == 0:
            self.scratch.run(f"mtc emit schedule.mlir -o {name}")
        return done

    def result(self, name, text, *options):
        done = self.plan(text, "plan.bin")
        if done.returncode != 0:
            if re.search(r"decisions need \d+ bytes more", done.stderr):
                return None
            raise tool.Failure(f"{name}: {done.stderr[-2000:]}")
        self.scratch.run([*self.launcher, *self.train, "--steps", str(STEPS), "--out", name, "--metrics", f"{name}.jsonl", *options],
                         environment=tool.MPI)
        self.scratch.run(f"mtrun export {name} -o {name}.safetensors")
        return tool.metrics(self.scratch / f"{name}.jsonl"), tool.safetensors(self.scratch / f"{name}.safetensors")

    def decided(self, pick):
        """The text with decisions of `pick`, a random.Random; and them in words."""
        text, words = self.layers, []
        for number, call in enumerate(self.calls):
            last = number + 1 == len(self.calls)
            attributes = []
            if not last and "nn.backward" in call:
                attributes.append(f'mt.saved = "{pick.choice(("input", "attention", "all"))}"')
            attributes += [name for name in ("mt.kept", "mt.resident", "mt.state_streamed", "mt.speculative", "mt.state_in_file", "mt.gradient_in_file", "mt.parked_saved",
                                        "mt.exchanged_on_device", "mt.weights_in_file", "mt.parked_in_file") if pick.random() < 0.5]
            if pick.random() < 0.5:
                attributes.append(f"mt.parts = {pick.randint(1, 8)} : i64")
            if pick.random() < 0.5:
                attributes.append(f"mt.summed = {pick.choice((1, 2, 4))} : i64, mt.together = {pick.choice((2, 4, 8))} : i64")
            if pick.random() < 0.5:
                attributes.append(f"mt.late = {pick.randint(0, 4)} : i64")
            if pick.random() < 0.5:
                attributes.append(f"mt.late_down = {pick.randint(0, 4)} : i64") # without effect before what is late
            if not last and pick.random() < 0.5: # without effect where backward does not read it, or is right behind
                attributes.append("mt.parked = array<i64: 0>")
            words.append(f"{number}: {' '.join(attributes)}")
            changed = call.replace("{", "{" + ", ".join(attributes) + ", ", 1) if "{" in call else call[:-1] + "{" + ", ".join(attributes) + "} :"
            if attributes:
                text = text.replace(call, changed, 1)
        limits = [f"{name} = {pick.randint(low, high)} : i64" for name, low, high in
                  (("device", 1 << 20, 4 << 20), ("host", 3 << 20, 8 << 20), ("distance", 0, 4)) if pick.random() < 0.5]
        step = [f"mt.limits = {{{', '.join(limits)}}}"] + ["mt.batch_shared"] * (pick.random() < 0.5) # of one device without effect
        step += ["mt.speculative_first"] * (pick.random() < 0.5)
        return text.replace("module attributes {", f"module attributes {{{', '.join(step)}, ", 1), "; ".join(words + step)


def test():
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        compared, wrong = 0, []
        for seed in range(SEED, SEED + COUNT):
            text, words = bench.decided(random.Random(seed))
            got = bench.result(f"run{seed}", text, "--jitter", str(seed), "--poison")
            if got is None:
                continue
            compared += 1
            for a, b in zip(got, bench.want):
                if difference := tool.different(a, b):
                    wrong.append(f"seed {seed} ({words}): {difference}")
                    print("differs:", wrong[-1], flush=True)
            scratch.run(f"rm -rf run{seed} run{seed}.jsonl run{seed}.safetensors")
        print(f"{CASE}: {compared} of {COUNT} random vectors of decisions fit, {len(wrong)} differ")
        if wrong or compared < COUNT // 4:
            raise tool.Failure("\n".join(wrong) or "too few fit")


tool.main(test)
