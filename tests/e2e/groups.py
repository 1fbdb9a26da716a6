"""Groups of parameters: each is updated by its own rate, decay, numbers and optimizer, as a few lines of Python do it; the
others are updated as without groups, to the bit; schedules and resumed runs change no bit; what cannot be is refused.

    PATH=build/bin:$PATH python3 tests/e2e/groups.py [CASE]
"""
import fnmatch
import functools
import json
import struct

import tool

RATE, DECAY = 0.01, 0.1
SHAPE = "gpt2 --layers 2 --hidden 32 --intermediate 64 --heads 2 --vocab 64 --seq 16"
OPTIONS = "--batch 4 --seq 16"

case = tool.Cases()


def floats(tensor):
    kind, _, data = tensor
    assert kind == "F32"
    return struct.unpack(f"<{len(data) // 4}f", data)


def near(got, wanted, what):
    for a, b in zip(got, wanted):
        if abs(a - b) > 1e-6 + 1e-5 * abs(b):
            raise tool.Failure(f"{what}: {a}, and by hand {b}")


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        (scratch / "data.bin").write_bytes(struct.pack("<800H", *((7 * i + i * i // 5) % 64 for i in range(800))))
        scratch.run(f"mtmodel {SHAPE} -o model.onnx")

    def compile(self, name, options=""):
        self.scratch.run(f"mtc compile model.onnx -o {name}.bin {OPTIONS} {options}")

    def train(self, name, options="", run=None, steps=1, data="data.bin"):
        """Steps of a run, its weights, and what it said."""
        run = run or name
        recipe = options if "--lr " in options else f"--lr {RATE} --weight-decay {DECAY} {options}"
        said = self.scratch.run(f"mtrun {name}.bin --data {data} --steps {steps} --out {run} --overwrite {recipe}")
        self.scratch.run(f"mtrun export {run} -o {run}.safetensors")
        return tool.metrics(self.scratch / run / "metrics.jsonl"), tool.safetensors(self.scratch / f"{run}.safetensors"), said

    @functools.cached_property
    def initial(self):
        """A rate of nothing leaves all as it was."""
        self.compile("still")
        return self.train("still", "--group '*:lr=0'")[1]

    @functools.cached_property
    def gradients(self):
        """Of the first step, from the update of SGD without momentum: it is the rate times the gradient."""
        self.compile("plain-sgd", "--optimizer sgd")
        _, moved, _ = self.train("plain-sgd", "--lr 1")
        return {name: [a - b for a, b in zip(floats(tensor), floats(moved[name]))] for name, tensor in self.initial.items()}

    @functools.cached_property
    def plain(self):
        """After a step without groups."""
        self.compile("plain")
        return self.train("plain")[1]


def is_matrix(tensor):
    return len(tensor[1]) >= 2


@case
def by_hand(bench):
    """AdamW at its first step: m / (1 - beta1) is the gradient, v / (1 - beta2) its square, whatever the betas."""
    initial, gradients, plain = bench.initial, bench.gradients, bench.plain
    _, grouped, _ = bench.train("plain", "--group '*ln_*:lr=0.5,decay=0.25,eps=0.01' --group '*ln_1*:lr=0.125'", run="grouped")
    touched = 0
    for name, tensor in grouped.items():
        inside = fnmatch.fnmatch(name, "*ln_*")
        rate = (0.125 if fnmatch.fnmatch(name, "*ln_1*") else 0.5) if inside else RATE
        decay = 0.25 if inside else DECAY if is_matrix(tensor) else 0
        epsilon = 0.01 if inside else 1e-8
        if not inside and tensor != plain[name]:
            raise tool.Failure(f"{name} is in no group, and differs")
        if inside:
            touched += 1
            near(floats(tensor), [w * (1 - rate * decay) - rate * g / (abs(g) + epsilon)
                                  for w, g in zip(floats(initial[name]), gradients[name])], name)
    if touched != 10:
        raise tool.Failure(f"{touched} parameters are in the group")


@case
def other_optimizer(bench):
    """What a plan trains with SGD has its state and its update; the rest is as without the group."""
    initial, gradients, plain = bench.initial, bench.gradients, bench.plain
    bench.compile("mixed", "--group '*.bias:optimizer=sgd,lr=0.25,decay=0.5'")
    plan = json.loads(bench.scratch.run("mtc dump mixed.bin --format json"))
    for parameter in plan["parameters"]:
        parts = [part["name"] for part in parameter["parts"]]
        wanted = ["weight", "first_moment"] + ([] if parameter["name"].endswith(".bias") else ["second_moment"])
        if parts != wanted or parameter["optimizer"] != ("sgd" if parameter["name"].endswith(".bias") else "adamw"):
            raise tool.Failure(f"{parameter['name']} has {parts} of {parameter['optimizer']}")
    _, mixed, _ = bench.train("mixed")
    for name, tensor in mixed.items():
        if not name.endswith(".bias"):
            if tensor != plain[name]:
                raise tool.Failure(f"{name} is in no group, and differs")
            continue
        near(floats(tensor), [w - 0.25 * (g + 0.5 * w) for w, g in zip(floats(initial[name]), gradients[name])], name)
    # what the plan says is the default of what the run says
    _, again, _ = bench.train("mixed", "--group '*.bias:lr=0'", run="again")
    if any(again[name] != initial[name] for name in initial if name.endswith(".bias")):
        raise tool.Failure("the run's group does not override the plan's")


@case
def later_groups(bench):
    """The last group that has a key counts, whatever those before it said: of the rate's course, too."""
    bench.compile("plan")
    course = f"--lr {RATE} --lr-schedule linear --min-lr {RATE / 2} --group '*.bias:lr=0.1'"
    after = bench.train("plan", course.replace("--group", "--group '*:lr=0' --group"), steps=3, run="after")
    alone = bench.train("plan", course + " --group '*.weight:lr=0'", steps=3, run="alone")
    for a, b in zip(after[:2], alone[:2]):
        if problem := tool.different(a, b):
            raise tool.Failure(problem)


@case
def schedules(bench):
    """Updates on either side, in parts and late, of several optimizers in one layer: the same bits."""
    for options in ("", "--clip", "--precision bf16 --clip"):
        wanted = None
        for place in ("--target cpu", "--target cpu-discrete --residency none", "--target cpu-discrete --residency state",
                      "--target cpu-discrete --device-memory 200KiB"):
            bench.compile("plan", f"{options} {place} --group '*.bias:optimizer=sgd,momentum=0.5' --group '*c_fc.weight:optimizer=lion,lr=1e-4' "
                          "--group '*wte*:beta1=0.5' --micro-batch 2")
            got = bench.train("plan", "--jitter 3 --poison --group '*ln_*:lr=0.1'", steps=4)[:2]
            wanted = wanted or got
            for a, b in zip(got, wanted):
                if problem := tool.different(a, b):
                    raise tool.Failure(f"{options} {place}: {problem}")


@case
def own_numbers(bench):
    """What is not said is as usual for each optimizer, in a repeated run too."""
    bench.compile("lion", "--optimizer lion --group '*.bias:optimizer=adamw'")
    own = bench.train("lion", "--lr 0.01", run="own", steps=3)
    said = bench.train("lion", "--lr 0.01 --group '*:beta2=0.99' --group '*.bias:beta2=0.999'", run="said", steps=3)
    bench.scratch.run("mtrun --recipe own/recipe.toml --out again --overwrite")
    bench.scratch.run("mtrun export again -o again.safetensors")
    for other in (said[1], tool.safetensors(bench.scratch / "again.safetensors")):
        if problem := tool.different(own[1], other):
            raise tool.Failure(problem)


@case
def other_groups_of_a_plan(bench):
    """A run goes on with its groups; that a plan has others is said."""
    bench.compile("plain")
    bench.train("plain", run="goes-on", steps=2)
    bench.compile("other", "--group '*.bias:lr=0.5'")
    done = bench.scratch.attempt("mtrun other.bin --data data.bin --steps 3 --out goes-on --resume")
    if done.returncode != 0 or "other.bin: its groups of parameters, *.bias:lr=0.5, are not the run's, none" not in done.stderr:
        raise tool.Failure(f"exit {done.returncode}: {done.stderr}")


@case
def resumed(bench):
    """A run that goes on keeps its groups; another plan may place the state elsewhere; what is changed is said."""
    groups = "--group '*.bias:lr=0.5,momentum=0.5' --lr-schedule cosine --min-lr 0.001 --warmup 2"
    bench.compile("plan", "--group '*.bias:optimizer=sgd'")
    whole = bench.train("plan", groups, run="whole", steps=6)
    bench.compile("other", "--group '*.bias:optimizer=sgd' --target cpu-discrete")
    line = "mtrun {}.bin --data data.bin --steps 6 --out half --resume"
    bench.scratch.run(f"mtrun plan.bin --data data.bin --steps 6 --out half --overwrite --lr {RATE} --weight-decay {DECAY} {groups} "
                      "--checkpoint-every 3 --keep 9")
    for later in bench.scratch.path.glob("half/step-*6"):
        for file in later.iterdir():
            file.unlink()
        later.rmdir()
    bench.scratch.run(line.format("other"))
    bench.scratch.run("mtrun export half -o half.safetensors")
    if problem := tool.different(tool.safetensors(bench.scratch / "half.safetensors"), whole[1]):
        raise tool.Failure(problem)
    said = bench.scratch.attempt(line.format("other").replace("6 --out", "7 --out") + " --group '*.bias:lr=0.1'")
    if "--group *.bias:optimizer=sgd *.bias:lr=0.1 (was *.bias:optimizer=sgd *.bias:lr=0.5,momentum=0.5)" not in said.stdout + said.stderr:
        raise tool.Failure(f"does not say what changed: {said.stdout}{said.stderr}")
    bench.compile("none")
    done = bench.scratch.attempt(line.format("none"))
    if done.returncode != 1 or "compile a plan with the same optimizer" not in done.stderr:
        raise tool.Failure(f"goes on with another optimizer: {done.stderr}")


@case
def refusals(bench):
    bench.compile("plan", "--group '*.bias:optimizer=sgd'")
    train = "mtrun plan.bin --data data.bin --steps 1 --out refused --overwrite --group "
    build = f"mtc compile model.onnx -o refused.bin {OPTIONS} --group "
    for command, status, message in (
            (train + "x", 2, "--group x: must be PATTERN:KEY=VALUE,... such as '*.bias:lr=0.01,decay=0'"),
            (train + ":lr=1", 2, "must be PATTERN:KEY=VALUE"),
            (train + "'*:lr'", 2, "'lr': must be KEY=VALUE with one of the keys lr, decay, beta1"),
            (train + "'*:rate=1'", 2, "'rate=1': must be KEY=VALUE"),
            (train + "'*:lr=1,lr=2'", 2, "'lr' is said twice"),
            (train + "'*:lr=-1'", 2, "lr=-1: must be a number, not negative"),
            (train + "'*:lr=nan'", 2, "lr=nan: must be a number, not negative"),
            (train + "'*:lr=1x'", 2, "lr=1x: must be a number"),
            (train + "'*:beta1=1'", 2, "beta1=1: must be a number, not negative and below 1"),
            (train + "'*:optimizer=adam'", 2, "optimizer=adam: must be adamw, sgd or lion"),
            (train + "'*:optimizer=sgd'", 1, "which optimizer parameters have, the plan says: compile it with this --group"),
            (train + "'*.scale:lr=1'", 1, "--group *.scale:lr=1: no trained parameter of the plan has such a name"),
            (train + "'*.bias:beta1=0.5'", 1, "beta1 is of adamw or lion, and none of these parameters is trained with that: leave it out"),
            (build + "'*.scale:lr=1'", 1, "--group *.scale:lr=1: no parameter of the model has such a name"),
            (build + "'*:momentum=0.5'", 1, "momentum is of sgd, and none of these parameters is trained with that"),
            (build + "'*:lr=1,optimizer=lamb'", 2, "optimizer=lamb: must be adamw, sgd or lion")):
        done = bench.scratch.attempt(command)
        if done.returncode != status or message not in done.stderr:
            raise tool.Failure(f"{command}: exit {done.returncode}, {done.stderr}")


tool.main(lambda: case.run(Bench, "cases of parameter groups hold"))
