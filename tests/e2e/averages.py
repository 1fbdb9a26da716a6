"""The exponential moving average of the weights: what Python makes of the weights after every step, for every optimizer and
precision; nothing else changes by a bit, nor does it by schedules, a disk, devices, ranks, or where a run was stopped; a step
that is skipped leaves it; exports, evaluations and samples use it, and what cannot be is refused.

    PATH=build/bin:$PATH python3 tests/e2e/averages.py
"""
import re
import struct

import faults
import tool
from tool import expect

STEPS, DECAY = 6, 0.75
COMPILE = "mtc compile model.onnx --batch 4 --seq 16 --loss causal-lm --micro-batch 1"
TRAIN = f"--data data.npz --shuffle off --lr 0.01 --ema-decay {DECAY}"

case = tool.Cases()


def floats(tensor):
    kind, _, data = tensor
    assert kind == "F32"
    return struct.unpack(f"<{len(data) // 4}f", data)


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link("gpt2-smoothed", "model.onnx", "data.npz")
        self.compile("plan", "--target cpu-discrete")
        self.compile("plain", "--target cpu-discrete", ema="")

    def compile(self, name, options="", ema="--ema"):
        self.scratch.run(f"{COMPILE} {ema} {options} -o {name}.bin")

    def train(self, plan, out, options="", steps=STEPS, recipe=TRAIN, launcher=()):
        self.scratch.run(["rm", "-rf", *([] if "--resume" in options else [out])])
        self.scratch.run([*launcher, "mtrun", f"{plan}.bin", *recipe.split(), "--steps", steps, "--out", out, *options.split()], environment=tool.MPI)
        return tool.metrics(self.scratch / out / "metrics.jsonl"), faults.state(self.scratch / out / f"step-{steps}")

    def weights(self, out, step):
        return tool.safetensors(self.scratch / out / f"step-{step}" / "weight.safetensors")

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


def follows(b, out, decay_of=lambda name: DECAY, steps=STEPS):
    """The average of a run with a checkpoint of every step is what the weights make of the initial ones."""
    for name, tensor in b.initial.items():
        average = floats(tensor)
        for step in range(1, steps + 1):
            keep = decay_of(name)
            average = [keep * a + (1 - keep) * w for a, w in zip(average, floats(b.weights(out, step)[name]))]
            got = floats(tool.safetensors(b.scratch / out / f"step-{step}" / "average.safetensors")[name])
            worst = max(abs(g - a) / (abs(a) + 1e-3) for g, a in zip(got, average))
            expect(worst < 2e-6, f"{out}, step {step}: {name} differs by {worst:.2g}")


def initial(b):
    b.train("plain", "still", "--lr 0 --weight-decay 0", 1, "--data data.npz")
    b.initial = b.weights("still", 1)


@case
def it_is_what_the_weights_make_it(b):
    initial(b)
    for optimizer, options in (("adamw", ""), ("sgd", "--clip"), ("lion", "--precision bf16"), ("adamw", "--precision bf16 --clip --residency none")):
        b.compile("each", f"--target cpu-discrete --optimizer {optimizer} {options}")
        b.train("each", "each", "--checkpoint-every 1 --keep 99")
        follows(b, "each")


@case
def groups_have_decays_of_their_own(b):
    initial(b)
    b.train("plan", "grouped", "--checkpoint-every 1 --keep 99 --group *.bias:ema-decay=0")
    follows(b, "grouped", lambda name: 0 if name.endswith(".bias") else DECAY)
    b.compile("compiled", "--target cpu-discrete --group *.bias:ema-decay=0,optimizer=sgd")
    b.train("compiled", "grouped", "--checkpoint-every 1 --keep 99")
    follows(b, "grouped", lambda name: 0 if name.endswith(".bias") else DECAY)


@case
def nothing_else_changes(b):
    losses, state = b.train("plan", "with")
    plain, without = b.train("plain", "without", recipe=TRAIN.replace(f"--ema-decay {DECAY}", ""))
    tool.compare((losses, {k: v for k, v in state.items() if not k.startswith("average/")}), (plain, without), "without an average")
    bytes_of = lambda name: sum(s["bytes"] for s in tool.plan(b.scratch, name)["spaces"] if s["kind"] != "device")
    trained = sum(len(data) for _, _, data in b.weights("with", STEPS).values())
    expect(bytes_of("plan.bin") - bytes_of("plain.bin") in range(trained, trained + 64 * len(state)), "an average takes other than 4 bytes a weight")


@case
def any_schedule_is_the_same_bits(b):
    for precision in ("", "--precision bf16"):
        for clip in ("", "--clip"):
            b.compile("want", f"--target cpu-discrete {precision} {clip}")
            want = b.train("want", "want")
            for name, options, more in (("unified", "--target cpu", ""), ("streamed", "--target cpu-discrete --residency none --park on", "--jitter 3 --poison"),
                                        ("state", "--target cpu-discrete --residency state", "--jitter 5 --poison"),
                                        ("devices", "--target cpu-discrete --devices 2", "--poison"), ("threads", "--target cpu-discrete", "--threads 1")):
                b.compile(name, f"{options} {precision} {clip}")
                tool.compare(want, b.train(name, name, more), f"{name} {precision} {clip}")


@case
def ranks_are_the_same_bits(b):
    if not tool.has_mpi():
        return
    want = b.train("plan", "alone")
    b.compile("ranks", "--target cpu-discrete --ranks 2 --network 10GB")
    tool.compare(want, b.train("ranks", "together", launcher=tool.launcher(2)), "two ranks")
    b.train("ranks", "changing", steps=3, launcher=tool.launcher(2))
    tool.compare(want, b.train("plan", "changing", "--resume", recipe="--data data.npz"), "then one")


@case
def a_run_goes_on(b):
    want = b.train("plan", "straight")
    b.train("plan", "halves", steps=3)
    tool.compare(want, b.train("plan", "halves", "--resume", recipe="--data data.npz"), "resumed, with the stored recipe")
    said = b.scratch.attempt(f"mtrun plan.bin --data data.npz --steps 8 --out halves --resume --ema-decay 0.5")
    expect(f"--ema-decay 0.5 (was {DECAY})" in said.stderr + said.stdout, f"a change is not said: {said.stderr}{said.stdout}")
    b.refuses(f"mtrun plain.bin --data data.npz --steps 9 --out halves --resume", "with optimizer adamw with an average of the weights, and the plan has adamw: compile")
    b.train("plain", "bare", recipe="--data data.npz")
    b.refuses(f"mtrun plan.bin --data data.npz --steps 9 --out bare --resume", "with optimizer adamw, and the plan has adamw with an average of the weights: compile")


@case
def exports_and_evaluations_use_it(b):
    b.train("plan", "run")
    average = {name[8:]: tensor for name, tensor in faults.state(b.scratch / "run" / f"step-{STEPS}").items() if name.startswith("average/")}
    for name in ("ema", "weights"):
        b.scratch.run(f"mtrun export run -o {name}.safetensors {'--ema' if name == 'ema' else ''}")
        b.scratch.run(f"mtrun export run -o {name}.onnx {'--ema' if name == 'ema' else ''}")
    got = tool.safetensors(b.scratch / "ema.safetensors")
    tool.compare(average, {name: got[name] for name in average}, "the export")
    expect(tool.different(got, tool.safetensors(b.scratch / "weights.safetensors")), "the weights are their average")
    for precision in ("", "--precision bf16"):
        if precision:
            for name, ema in (("plan", "--ema"), ("plain", "")):
                b.compile(name, f"--target cpu-discrete {precision}", ema)
            b.train("plan", "run")
            b.scratch.run("mtrun export run -o ema.onnx --ema")
            b.scratch.run("mtrun export run -o weights.onnx")
        said = {}
        for name, ema in (("ema", "--ema"), ("weights", "")):
            b.scratch.run(f"{COMPILE.replace('model.onnx', name + '.onnx')} --target cpu-discrete {precision} -o exported.bin")
            said[name] = b.scratch.run("mtrun eval exported.bin --data data.npz")
            for plan in ("plan", "plain"):
                got = b.scratch.run(f"mtrun eval {plan}.bin --data data.npz --from run {ema}")
                expect(got == said[name], f"{plan} {ema} {precision}: {got}, and of the exported model {said[name]}")
        expect(said["ema"] != said["weights"], "the average has the loss of the weights")
    texts = [b.scratch.run(f"mtrun sample plan.bin --from run --prompt abc --tokens 8 --temperature 0 {ema}") for ema in ("", "--ema")]
    expect(all(texts), f"samples: {texts}")
    b.compile("plan", "--target cpu-discrete")
    b.compile("plain", "--target cpu-discrete", "")


@case
def what_is_damaged_is_passed_over(b):
    b.train("plan", "torn", "--checkpoint-every 3")
    path = b.scratch / "torn" / f"step-{STEPS}" / "average.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    done = b.scratch.attempt("mtrun eval plain.bin --data data.npz --from torn --ema")
    expect(done.returncode == 0 and "an older checkpoint is used" in done.stderr, f"exit {done.returncode}: {done.stderr}")
    expect(done.stdout == b.scratch.run("mtrun eval plain.bin --data data.npz --from torn/step-3 --ema"), "another one was used")


@case
def what_cannot_be_is_refused(b):
    b.train("plain", "bare", recipe="--data data.npz")
    for command in ("eval plain.bin --data data.npz --from bare --ema", "export bare -o no.safetensors --ema", "sample plain.bin --from bare --prompt a --ema"):
        b.refuses(f"mtrun {command}", f"bare/step-{STEPS} has no average of the weights, which runs of plans of mtc compile --ema keep: leave --ema out")
    b.refuses("mtrun eval plan.bin --data data.npz --ema", "--ema requires --from", 2)
    b.refuses("mtrun plain.bin --data data.npz --ema-decay 0.9", "--ema-decay 0.9: the plan keeps no average of the weights: compile it with --ema")
    b.refuses("mtrun plan.bin --data data.npz --ema-decay 1", "--ema-decay", 2)
    b.refuses("mtrun plain.bin --data data.npz --group *:ema-decay=0.5", "ema-decay is of plans with --ema, and none of these parameters is trained with that: leave it out")
    b.refuses(f"{COMPILE} -o no.bin --optimizer adamw+average", "--optimizer", 2)
    b.refuses(f"{COMPILE} -o no.bin --group *:optimizer=adamw+average", "optimizer=adamw.average: must be adamw, sgd or lion", 2)


tool.main(lambda: case.run(Bench, "cases of averages hold"))
