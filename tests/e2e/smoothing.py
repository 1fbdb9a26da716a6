"""Label smoothing and z-loss: evaluations have the plain loss, of 0 nothing is left in a plan, any schedule gives the same
bits, and a run goes on with the loss that it began with. What they are, golden.gpt2-smoothed knows.

    PATH=build/bin:$PATH python3 tests/e2e/smoothing.py
"""
import re

import tool

STEPS = 6
TERMS = "--label-smoothing 0.1 --z-loss 0.001"
COMPILE = "mtc compile model.onnx --batch 4 --seq 16 --loss causal-lm --target cpu-discrete"
TRAIN = "--data data.npz --shuffle off --lr 0.003"

case = tool.Cases()


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link("gpt2-smoothed", "model.onnx", "data.npz")
        self.compile("plain")
        self.compile("smoothed", TERMS)

    def compile(self, name, options=""):
        self.scratch.run(f"{COMPILE} -o {name}.bin {options}")

    def train(self, name, options="", run=None):
        run = run or name
        self.scratch.run(f"mtrun {name}.bin {TRAIN} --steps {STEPS} --out {run} {options}")
        self.scratch.run(f"mtrun export {run} -o {run}.safetensors")
        return tool.metrics(self.scratch / run / "metrics.jsonl"), tool.safetensors(self.scratch / f"{run}.safetensors")

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


@case
def evaluations_have_the_plain_loss(b):
    plain, smoothed = b.train("plain"), b.train("smoothed")
    tool.expect(plain[0][0] != smoothed[0][0], "training has the plain loss, too")
    for run in ("plain", "smoothed"):
        said = [b.scratch.run(f"mtrun eval {plan}.bin --data data.npz --from {run}") for plan in ("plain", "smoothed")]
        tool.expect(said[0] == said[1], f"evaluations differ: {said}")


@case
def nothing_is_left_of_zeros(b):
    b.compile("zeros", "--label-smoothing 0 --z-loss 0")
    tool.expect((b.scratch / "zeros.bin").read_bytes() == (b.scratch / "plain.bin").read_bytes(), "the plan is another")


@case
def any_schedule_is_the_same_bits(b):
    want = b.train("smoothed", run="want")
    for name, options, disturbance in (("streamed", "--residency none --park on --saved-activations input", "--jitter 3 --poison"),
                                       ("two", "--devices 2", "")):
        b.compile(name, f"{TERMS} {options}")
        tool.compare(want, b.train(name, disturbance), name)


@case
def micro_batches_add_up(b):
    want, _ = b.train("smoothed", run="whole")
    b.compile("rows", TERMS + " --micro-batch 1")
    got, _ = b.train("rows")
    for (step, one, _), (_, other, _) in zip(want, got):
        tool.expect(abs(float(one) - float(other)) < 2e-6 * float(one), f"step {step}: {one} and {other}")


@case
def a_run_goes_on_with_its_loss(b):
    want = b.train("smoothed", run="straight")
    b.scratch.run(f"mtrun smoothed.bin {TRAIN} --steps 3 --out halves")
    tool.compare(want[1:], b.train("smoothed", "--resume", "halves")[1:], "resumed")
    for name, options, said in (("plain", "", "causal-lm:"), ("half", "--z-loss 0.001", "causal-lm with z-loss 0.001:"),
                                ("other", "--label-smoothing 0.2", "causal-lm with label smoothing 0.2:")):
        b.compile(name, options)
        b.refuses(f"mtrun {name}.bin {TRAIN} --steps 9 --out halves --resume",
                  f"was trained with loss causal-lm with label smoothing 0.1 and z-loss 0.001, and the plan has {said} compile a plan with the same loss")


@case
def what_cannot_be_is_refused(b):
    b.refuses(f"{COMPILE} -o no.bin --label-smoothing 1.5", "--label-smoothing 1.5: must be a number from 0 to 1", 2)
    for text in ("-1", "nan", "inf", "x", ""):
        b.refuses(["mtc", "compile", "model.onnx", "-o", "no.bin", "--z-loss=" + text], "z-loss", 2)
    b.refuses("mtc compile model.onnx -o no.bin --loss mse --z-loss 0.1", "--z-loss is of the losses causal-lm and cross-entropy, and --loss mse has no classes: leave it out")
    said = b.scratch.run("mtc dump smoothed.bin")
    tool.expect("loss causal-lm with label smoothing 0.1 and z-loss 0.001" in said, said[:500])
    said = b.scratch.attempt("mtc diff plain.bin smoothed.bin").stdout
    tool.expect("loss: causal-lm -> causal-lm with label smoothing 0.1 and z-loss 0.001" in said, said)


tool.main(lambda: case.run(Bench, "cases of label smoothing and z-loss hold"))
