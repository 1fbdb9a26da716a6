"""--isa: kernels held to lesser vector instructions than the machine has. Of each set the same bits in every run and on any
number of threads; between sets losses within the golden bounds, and a run that goes on with another says so.

    PATH=build/bin:$PATH python3 tests/e2e/instruction_sets.py
"""
import json
import pathlib

import tool

case = tool.Cases()
STEPS = 6


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link("llama", "model.onnx", "data.npz")
        for precision in ("fp32", "bf16"):
            scratch.run(f"mtc compile model.onnx -o {precision}.bin --batch 4 --seq 32 --precision {precision} --target cpu")
        flags = next((line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "").split()
        needs = {"sse4": "sse4_1", "avx2": "avx2", "avx512": "avx512bw", "avx512-bf16": "avx512_bf16", "amx": "amx_bf16", "amx-f32": "amx_bf16"}
        self.there = [name for name, flag in needs.items() if flag in flags]
        self.lacking = [name for name in needs if name not in self.there]
        self.has_units = "avx512-bf16" in self.there  # whose sums differ in digits that are printed
        self.best = [name for name in self.there if name != "amx-f32"][-1]  # what is used without a name

    def train(self, precision, out, options="", steps=STEPS):
        self.scratch.run(f"mtrun {precision}.bin --data data.npz --shuffle off --steps {steps} --lr 0.003 --out {out} {options}")
        return tool.metrics(self.scratch / out / "metrics.jsonl"), tool.safetensors(self.scratch / out / f"step-{steps}" / "weight.safetensors")


@case
def each_set_has_bits_of_its_own(b):
    tool.expect(b.there, "this processor has none of the sets")
    for precision, bound in (("fp32", 1e-4), ("bf16", 2e-2)):
        runs = {}
        for name in b.there:
            runs[name] = b.train(precision, f"{precision}-{name}-1", f"--isa {name} --threads 1")
            for threads in (2, 4):
                tool.compare(runs[name], b.train(precision, f"{precision}-{name}-{threads}", f"--isa {name} --threads {threads}"),
                             f"{precision}, {name}, {threads} threads")
        losses = {name: [float(loss) for _, loss, _ in run[0]] for name, run in runs.items()}
        worst = max(abs(x - y) / y for one in losses.values() for x, y in zip(one, losses[b.there[0]]))
        tool.expect(worst <= bound, f"{precision}: losses of sets differ by {worst:.2g}")
        best = b.train(precision, f"{precision}-best")
        tool.compare(runs[b.best], best, f"{precision}: the best set is not what is used without a name")
        if "amx-f32" in runs:
            same = runs["amx-f32"][1] == runs["amx"][1]
            tool.expect(same == (precision == "bf16"), f"{precision}: amx-f32 has {'the same bits as' if same else 'other bits than'} amx")


@case
def a_run_that_goes_on_with_another_says_so(b):
    if len(b.there) < 2:
        return
    b.train("fp32", "moved", f"--isa {b.there[0]}", steps=3)
    command = "mtrun fp32.bin --data data.npz --shuffle off --lr 0.003 --out moved --resume"
    same = b.scratch.attempt(f"{command} --isa {b.there[0]} --steps 5")
    tool.expect(same.returncode == 0 and "last bits" not in same.stdout + same.stderr, f"warned of nothing: {same.stderr}")
    other = b.scratch.attempt(f"{command} --isa {b.there[-1]} --steps 6")
    tool.expect(other.returncode == 0 and "last bits" in other.stdout + other.stderr, f"no word about other bits: {other.stderr}{other.stdout}")


@case
def a_damaged_checkpoint_is_set_aside_under_one(b):
    (b.scratch / "held.json").write_text(json.dumps({**json.loads(b.scratch.run("mtc target cpu")), "isa": b.there[0]}))
    b.scratch.run("mtc compile model.onnx -o held.bin --batch 4 --seq 32 --target held.json")
    for plan, options in (("fp32", f"--isa {b.there[0]}"), ("held", "")):
        command = f"mtrun {plan}.bin --data data.npz --shuffle off --lr 0.003 --out broken-{plan} {options}"
        b.scratch.run(f"{command} --steps 4 --checkpoint-every 2")
        file = b.scratch / f"broken-{plan}" / "step-4" / "first_moment.safetensors"
        file.write_bytes(file.read_bytes()[:-8] + b"damaged!")
        done = b.scratch.attempt(f"{command} --resume --steps 6")
        said = done.stdout + done.stderr
        tool.expect(done.returncode == 0 and "damaged-step-4" in said and "last bits" not in said, f"{plan}: {done}")


@case
def a_target_names_one(b):
    """As a probe writes it: runs of its plans keep to it, unless they say otherwise or the machine lacks it."""
    target = json.loads(b.scratch.run("mtc target cpu"))
    least = b.there[0]
    for name in [least, *b.lacking[-1:]]:
        (b.scratch / f"{name}.json").write_text(json.dumps({**target, "isa": name}))
        b.scratch.run(f"mtc compile model.onnx -o of-{name}.bin --batch 4 --seq 32 --target {name}.json")
        tool.expect(f", {name})" in b.scratch.run(f"mtc dump of-{name}.bin"), f"the plan does not say {name}")
    tool.compare(b.train("fp32", "named", f"--isa {least}"), b.train(f"of-{least}", "of-target"), f"a target of {least}")
    tool.compare(b.train("fp32", "best"), b.train(f"of-{least}", "otherwise", f"--isa {b.best}"), "--isa against the target's")
    b.scratch.run(f"mtc compile model.onnx -o narrow.bin --batch 4 --seq 32 --precision bf16 --target {least}.json")
    b.train("bf16", "of-bf16")
    of_target, named, free = (b.scratch.run(f"mtrun eval {words} --data data.npz --from of-bf16") for words in ("narrow.bin", f"bf16.bin --isa {least}", "bf16.bin"))
    tool.expect(of_target == named, f"evaluated: {of_target} and {named}")
    tool.expect(of_target != free or not b.has_units, f"evaluated with {least} as with {b.best}: {free}")
    differ = b.scratch.attempt("mtc diff bf16.bin narrow.bin").stdout
    tool.expect(f"instruction set: the machine's -> {least}" in differ, f"mtc diff sees no other set: {differ}")
    refused = b.scratch.attempt(f"mtrun probe --roofline fp32.bin of-{least}.bin")
    tool.expect(refused.returncode == 1 and f"different instruction sets, '' and '{least}'" in refused.stderr, f"{refused}")
    for name in b.lacking[-1:]:
        tool.compare(b.train("fp32", "best-again"), b.train(f"of-{name}", "lacking"), f"a target of {name}, which is not there")
        done = b.scratch.attempt(f"mtrun of-{name}.bin --data data.npz --steps 1 --out warned")
        tool.expect(f"isa {name}: this machine's processor does not have it; kernels use the best" in done.stdout + done.stderr, f"no warning: {done}")


@case
def what_is_refused(b):
    done = b.scratch.attempt("mtrun fp32.bin --data data.npz --steps 1 --isa vax")
    tool.expect(done.returncode == 2 and "sse4" in done.stderr, f"{done.returncode}: {done.stderr}")
    for name in b.lacking:
        for command in ("mtrun fp32.bin --data data.npz --steps 1 --out never", "mtrun probe --brief -o never.json"):
            done = b.scratch.attempt(f"{command} --isa {name}")
            tool.expect(done.returncode == 1 and f"--isa: {name}: this machine's processor does not have it" in done.stderr, f"{done.stderr}")
    tool.expect(not (b.scratch / "never.json").exists(), "a target of instructions that are not there")


@case
def what_is_probed(b):
    """The calls of a plan as they run under a set, which the table of --roofline holds against the machine's rates; and what
    the target says: the set that was named, else whether f32 goes to tiles."""
    for name in b.there[:1] + b.there[-1:]:
        done = b.scratch.attempt(f"mtrun probe fp32.bin --brief --roofline --isa {name}")
        tool.expect(done.returncode == 0 and "matmul" in done.stdout, f"{name}: {done.returncode}: {done.stderr}{done.stdout}")
    b.scratch.run(f"mtrun probe --brief --isa {b.there[0]} -o named.json")
    said = b.scratch.run("mtrun probe --brief -o free.json")
    named, free = (json.loads((b.scratch / name).read_text()) for name in ("named.json", "free.json"))
    tool.expect(named["isa"] == b.there[0] and "f32_on_tiles" not in named["measured"], f"{named}")
    faster = free["measured"].get("f32_on_tiles")
    tool.expect((faster is not None) == ("amx" in b.there), f"{free['measured']}")
    tool.expect(("isa" in free) == (faster is not None and faster > 1.1) == ("(amx-f32)" in said), f"{faster}: {free.get('isa')}: {said}")
    b.scratch.run("mtc compile model.onnx -o free.bin --batch 4 --seq 32 --target free.json")


if __name__ == "__main__":
    tool.main(lambda: case.run(Bench, "statements about instruction sets hold"))
