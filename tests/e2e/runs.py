"""Runs that are stopped by signals, started twice in one folder, or short of room on the disk: none is lost.

    PATH=build/bin:$PATH python3 tests/e2e/runs.py [NAME ...]
"""
import os
import re
import shlex
import signal
import struct
import subprocess
import zipfile

import faults
import tool

case = tool.Cases()
case_with_faults = case.unless_sanitized(faults.NOT_SANITIZED)


def expect(good, what, done):
    if not good:
        raise tool.Failure(f"{what}: exit {done.returncode}\n  {done.stdout[-800:]}\n  {done.stderr[-800:]}")


class Bench:
    """A folder with a plan, data, and a run that nothing disturbs."""

    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link("mlp", "model.onnx", "data.npz")
        scratch.run("mtc compile model.onnx -o plan.bin --batch 32 --loss cross-entropy --target cpu")
        self.train = "mtrun plan.bin --data data.npz --lr 0.01 --eval-data data.npz --eval-every 2 --checkpoint-every 2"
        scratch.run(f"{self.train} --steps 4 --out whole")
        self.want = self.result("whole")

    def result(self, name, step=4):
        return faults.result(self.scratch / name, step)

    def same(self, name):
        if difference := faults.different(self.result(name), self.want):
            raise tool.Failure(f"{name}: {difference}")

    def start(self, command):
        """A run without end that has done a step."""
        process = subprocess.Popen(shlex.split(f"{command} --steps 1000000000"), cwd=self.scratch.path, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not process.stdout.readline().startswith("step 1/"):
            if process.poll() is not None:
                raise tool.Failure(f"{command}: exit {process.returncode}: {process.stderr.read()}")
        return process

    def call(self, command, root, what):
        """The number of the first call that writes `what`."""
        record = self.scratch / "journal"
        record.unlink(missing_ok=True)
        expect((done := faults.attempt(self.scratch, command, root, journal=record)).returncode == 0, command, done)
        return next(i for i, (kind, _, _, _, data) in enumerate(faults.journal(record), 1) if kind == "write" and what in data)


@case
def a_signal_that_comes_twice(b):
    for number, first, second in ((1, signal.SIGTERM, signal.SIGTERM), (2, signal.SIGINT, signal.SIGTERM), (3, signal.SIGHUP, signal.SIGHUP)):
        process = b.start(f"{b.train} --out twice{number}")
        os.kill(process.pid, first)
        os.kill(process.pid, second)
        out, err = process.communicate()
        stopped = re.search(r"stopped after step (\d+) of \d+; the same command with --resume goes on from (\S+)", out)
        if process.returncode != 0 or not stopped or not faults.checkpoints(b.scratch / f"twice{number}").get(int(stopped.group(1))):
            raise tool.Failure(f"{first.name} and {second.name}: exit {process.returncode}: {out[-500:]}{err}")


@case_with_faults
def a_signal_during_evaluation(b):
    root = b.scratch / "evaluated"
    command = f"{b.train} --steps 4 --out evaluated/run"
    root.mkdir()
    at = b.call(command, root, b'"step":2,"epoch"')
    for kept in (root, root / "run"):
        b.scratch.run(f"rm -rf {kept}")
    root.mkdir()
    done = faults.attempt(b.scratch, command, root, at=at, kind="signal")
    expect(done.returncode == 0 and "stopped after step 2 of 4" in done.stdout, "a signal at step 2", done)
    expect("evaluation loss" not in done.stdout, "the evaluation was carried out all the same", done)
    b.scratch.run(command + " --resume")
    b.same("evaluated/run")


@case
def two_runs_in_one_folder(b):
    process = b.start(f"{b.train} --out shared")
    for option in ("", "--resume", "--overwrite"):
        done = b.scratch.attempt(f"{b.train} --steps 4 --out shared {option}")
        expect(done.returncode == 1 and f"another mtrun trains in it (process {process.pid} on " in done.stderr, "a second run", done)
    process.terminate()
    out, err = process.communicate()
    if process.returncode != 0 or "stopped after step" not in out:
        raise tool.Failure(f"the first run: exit {process.returncode}: {out[-500:]}{err}")


@case_with_faults
def no_room_for_checkpoints(b):
    command = f"{b.train} --steps 4 --out full"
    (b.scratch / "full").mkdir()
    done = faults.attempt(b.scratch, command, b.scratch / "full", free=10000)
    expect(done.returncode == 1, "a run without room", done)
    expect(re.search(r"warning: no checkpoint of step 2: --out full: a checkpoint needs .*, and the disk has .* free: make room", done.stderr),
           "the warning on the way", done)
    expect(re.search(r"error: step 4 could not be saved, and with it what was trained since the start: --out full: a checkpoint needs", done.stderr),
           "the error at the end", done)
    if faults.losses(b.scratch / "full/metrics.jsonl") != b.want[0]:
        raise tool.Failure("the run did not go on to its end")
    b.scratch.run(command + " --resume")
    b.same("full")


@case_with_faults
def no_room_for_metrics(b):
    root = b.scratch / "short"
    root.mkdir()
    command = f"{b.train} --steps 4 --out checkpoints --metrics short/metrics.jsonl"
    at = b.call(command, root, b'"step":2,"epoch"')
    (root / "metrics.jsonl").unlink()
    done = faults.attempt(b.scratch, command + " --overwrite", root, at=at, kind="enospc")
    expect(re.search(r"--metrics short/metrics.jsonl: the last \d+ bytes were never written", done.stderr), "the end of it", done)
    expect(done.returncode == 0 and "--metrics short/metrics.jsonl: No space left on device; the run goes on" in done.stderr,
           "a run whose metrics do not fit", done)
    expect(faults.state(b.scratch / "checkpoints/step-4") == b.want[1], "its weights", done)


@case_with_faults
def training_goes_on_beside_checkpoints(b):
    """While a checkpoint waits for its disk, steps are trained, and what it holds is its own step."""
    (b.scratch / "beside").mkdir()
    done = faults.attempt(b.scratch, f"{b.train} --steps 4 --out beside/run", b.scratch / "beside", hold=".writing-2/weight")
    expect(done.returncode == 0 and "checkpoints are written beside training, from a copy of the state of" in done.stdout, "a run", done)
    b.same("beside/run")
    b.scratch.run(f"{b.train} --steps 2 --out two")
    if faults.state(b.scratch / "beside/run/step-2") != faults.state(b.scratch / "two/step-2"):
        raise tool.Failure("the checkpoint of step 2 is not that of a run of two steps")


@case_with_faults
def memory_that_grows_on_demand(b):
    """A machine that says it has too little is taken at its word, with the number and where it is from, unless the user knows better."""
    b.scratch.run("mtmodel mlp --layers 3 --hidden 4096 -o grown.onnx")
    b.scratch.run("mtc compile grown.onnx -o grown.bin --batch 4 --loss cross-entropy")
    own_data(b.scratch / "points.npz")
    train = "ulimit -v 450000; exec mtrun grown.bin --data points.npz --steps 3 --threads 1 --dry-run"
    done = b.scratch.attempt(["bash", "-c", train])
    expect(done.returncode == 1 and "limited by ulimit -v" in done.stderr and "--host-memory-check off" in done.stderr, "too little memory", done)
    done = b.scratch.attempt(["bash", "-c", f"{train} --host-memory-check off"])
    expect(done.returncode == 0, "a machine that is not asked", done)


@case_with_faults
def checkpoints_without_room_for_a_copy(b):
    """The memory that a copy takes is asked for before; where it is not there, training rests as long."""
    b.scratch.run("mtmodel mlp --layers 3 --hidden 4096 -o wide.onnx")
    b.scratch.run("mtc compile wide.onnx -o wide.bin --batch 4 --loss cross-entropy")
    own_data(b.scratch / "points.npz")
    train = "mtrun wide.bin --data points.npz --steps 3 --checkpoint-every 2 --threads 1"
    def limited(mebibytes, folder):
        return b.scratch.attempt(["bash", "-c", f"ulimit -v {mebibytes << 10}; exec {train} --out {folder} --overwrite"])

    # What is mapped besides the arenas is the machine's affair: the least that trains, of which the copy takes 449 MiB.
    least, done = next((limit, done) for limit in range(600, 4000, 100) if (done := limited(limit, "narrow")).returncode == 0)
    expect(re.search(r"checkpoints are written with training at rest: a copy of the state to write from takes .*, and this machine has .* available, limited by ulimit -v", done.stdout),
           f"a run without room, {least} MiB", done)
    done = limited(least + 550, "enough")
    expect(done.returncode == 0 and "checkpoints are written beside training" in done.stdout, f"a run with room, {least} and 550 MiB", done)
    b.scratch.run(f"{train} --out wide")
    for step in (2, 3):
        if faults.state(b.scratch / f"wide/step-{step}") != faults.state(b.scratch / f"narrow/step-{step}"):
            raise tool.Failure(f"the checkpoints of step {step} differ")


@case
def data_that_end_a_run(b):
    """A token that no model has, beyond what is looked at before training: what came before it is kept."""
    b.scratch.run("mtmodel gpt2 --layers 1 --hidden 16 --heads 2 --vocab 256 --seq 32 -o lm.onnx")
    b.scratch.run("mtc compile lm.onnx -o lm.bin --batch 4 --seq 32 --target cpu")
    seen = (1 << 27) // 65 * 33  # tokens of the rows that are looked at
    with open(b.scratch / "tokens.bin", "wb") as tokens:
        tokens.truncate(2 * seen)  # zeros, without a place on the disk
        tokens.seek(2 * seen)
        tokens.write(struct.pack("<H", 300) * (seen // 10))
    train = "mtrun lm.bin --data tokens.bin --seed 1 --lr 0.01"
    done = b.scratch.attempt(f"{train} --steps 100 --out ended --checkpoint-every 1000")
    said = re.search(r"error: tokens.bin, token \d+: token 300 is outside the model's vocabulary of 256; step (\d+) is kept as ended/step-(\d+)\n", done.stderr)
    expect(done.returncode == 1 and said and int(said.group(1)) > 1 and said.group(1) == said.group(2), "a run with bad data", done)
    b.scratch.run(f"{train} --steps {said.group(1)} --out before")
    if faults.result(b.scratch / "ended", said.group(1)) != faults.result(b.scratch / "before", said.group(1)):
        raise tool.Failure("what was kept is not what was trained")
    done = b.scratch.attempt(f"{train} --steps 100 --out none --keep 0")
    expect(done.returncode == 1 and "token 300" in done.stderr and "kept" not in done.stderr and not faults.checkpoints(b.scratch / "none"),
           "a run that keeps nothing", done)
    (b.scratch / "tokens.bin").unlink()


@case
def frozen_weights_that_changed(b):
    b.scratch.run("mtmodel mlp --weights -o frozen.onnx")
    b.scratch.run("mtc compile frozen.onnx -o frozen.bin --batch 4 --loss cross-entropy --freeze 'layers.0.*'")
    own_data(b.scratch / "points.npz")
    train = "mtrun frozen.bin --data points.npz --out frozen"
    b.scratch.run(f"{train} --steps 2")
    b.scratch.run(f"{train} --steps 3 --resume")
    data = bytearray((b.scratch / "frozen.onnx.data").read_bytes())
    data[1] ^= 1  # in layers.0.weight
    (b.scratch / "frozen.onnx.data").write_bytes(data)
    for way in (f"{train} --steps 4 --resume", f"{train} --resume --dry-run", "mtrun eval frozen.bin --data points.npz"):
        done = b.scratch.attempt(way)
        expect(done.returncode == 1 and "at 0 are other bytes of 'layers.0.weight' than when the plan was compiled" in done.stderr, "a changed file", done)
    b.scratch.run("mtc compile frozen.onnx -o frozen.bin --batch 4 --loss cross-entropy --freeze 'layers.0.*'")
    done = b.scratch.attempt(f"{train} --steps 4 --resume")
    expect(done.returncode == 1 and "frozen/step-3 was trained beside other frozen weights" in done.stderr, "other frozen weights", done)
    done = b.scratch.attempt("mtrun eval frozen.bin --data points.npz --from frozen")
    expect(done.returncode == 0 and "beside other frozen weights" in done.stderr, "their evaluation", done)


@case
def trained_weights_that_are_gone(b):
    """A checkpoint has all that is trained: of the model's files nothing is read."""
    b.scratch.run("mtmodel mlp --weights -o gone.onnx")
    b.scratch.run("mtc compile gone.onnx -o gone.bin --batch 4 --loss cross-entropy")
    own_data(b.scratch / "points.npz")
    for run in ("gone", "kept"):
        b.scratch.run(f"mtrun gone.bin --data points.npz --steps 6 --checkpoint-every 3 --keep 9 --out {run} --quiet")
    b.scratch.run("bash -c 'rm -r gone/step-6 gone.onnx.data'")
    want = b.scratch.run("mtrun eval gone.bin --data points.npz --from gone/step-3")
    b.scratch.run("mtrun gone.bin --data points.npz --out gone --resume --poison --quiet")
    b.scratch.run("cmp gone/step-6/weight.safetensors kept/step-6/weight.safetensors")
    b.scratch.run("cmp gone/step-6/second_moment.safetensors kept/step-6/second_moment.safetensors")
    if (got := b.scratch.run("mtrun eval gone.bin --data points.npz --from kept/step-3")) != want:
        raise tool.Failure(f"the evaluation was {want} and is {got}")
    done = b.scratch.attempt("mtrun eval gone.bin --data points.npz")
    expect(done.returncode == 1 and "gone.onnx.data: cannot be opened" in done.stderr and "bring it back" in done.stderr, "missing weights", done)


def own_data(path):
    """Sixteen samples of input [16] and their labels, without numpy."""
    def array(kind, shape, data):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        head += " " * (63 - (10 + len(head)) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("input.npy", array("<f4", "(16, 16)", struct.pack("<256f", *(i % 7 for i in range(256)))))
        out.writestr("labels.npy", array("<i8", "(16,)", struct.pack("<16q", *(i % 5 for i in range(16)))))


@case_with_faults
def checkpoints_that_cannot_be_read(b):
    """What the system refuses to give is no damage: an error, and nothing is touched."""
    root = b.scratch / "refused"
    b.scratch.run(f"{b.train} --steps 4 --out refused")
    for fault, words in (("denied", "Permission denied"), ("broken", "Input/output error")):
        for part in ("step-4/meta.json", "step-4/weight", "step-4/second_moment"):
            for command in (f"{b.train} --steps 5 --out refused --resume", "mtrun eval plan.bin --data data.npz --from refused",
                            "mtrun export refused -o refused.safetensors"):
                if "second" in part and "--resume" not in command:
                    continue  # it is not read
                done = faults.attempt(b.scratch, command, root, **{fault: part})
                expect(done.returncode == 1 and re.search(f"error: .*{part}.*: {words}", done.stderr) and "warning" not in done.stderr,
                       f"{part} {fault}: {command}", done)
                if sorted(p.name for p in root.glob("*step*")) != ["step-2", "step-4"] or (b.scratch / "refused.safetensors").exists():
                    raise tool.Failure(f"{part} {fault}: {command}: it changed something")
    b.same("refused")


@case_with_faults
def too_few_threads(b):
    """Fewer threads do the same work, to the bit; without those that a run cannot do without it says so."""
    enough = set()
    for threads in range(12):
        done = faults.attempt(b.scratch, f"{b.train} --steps 4 --out threads-{threads} --threads 8", b.scratch / "none", threads=threads)
        if done.returncode == 0:
            enough.add(threads)
            b.same(f"threads-{threads}")
        else:
            expect(done.returncode == 1 and re.search(r"error: no thread for stream \d+: Resource temporarily unavailable: stop what else", done.stderr),
                   f"a run with {threads} threads", done)
    if not enough or 0 in enough:
        raise tool.Failure(f"runs that came to their end, by threads that there were: {sorted(enough)}")


@case_with_faults
def owners_that_do_not_exist(b):
    (b.scratch / "owned").mkdir()
    for _ in range(2):  # the second replaces the first
        done = faults.attempt(b.scratch, "mtc dump plan.bin -o owned/plan.txt", b.scratch / "owned", owners=1)
        expect(done.returncode == 0, "an output whose owner cannot be kept", done)


@case
def metrics_to_standard_output(b):
    """What is there already stays, whosever it is."""
    b.scratch.run(["bash", "-c", f"echo before > said; {b.train} --steps 4 --quiet --out said-run --metrics /dev/stdout >> said"])
    lines = (b.scratch / "said").read_text().splitlines()
    if lines[0] != "before" or sum('"loss"' in line for line in lines) != 4:
        raise tool.Failure(f"metrics to standard output: {lines}")


@case
def nobody_reads_any_more(b):
    b.scratch.run(["bash", "-c", f"set -o pipefail; {b.train} --steps 4 --out unread | true"])
    b.same("unread")
    b.scratch.run(["bash", "-c", f"{b.train} --steps 4 --out full-log > /dev/full"])
    b.same("full-log")


tool.main(lambda: case.run(Bench, "ways to lose a run lose none"))
