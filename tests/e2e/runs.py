"""Runs that are stopped by signals, started twice in one folder, or short of room on the disk: none is lost.

    PATH=build/bin:$PATH python3 tests/e2e/runs.py [NAME ...]
"""
import os
import re
import shlex
import signal
import subprocess

import faults
import tool

case = tool.Cases()


def case_with_faults(function):
    if faults.usable():
        case(function)
    else:
        print(f"left out, mtrun is built with a sanitizer: {function.__name__}")
    return function


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


@case
def nobody_reads_any_more(b):
    b.scratch.run(["bash", "-c", f"set -o pipefail; {b.train} --steps 4 --out unread | true"])
    b.same("unread")
    b.scratch.run(["bash", "-c", f"{b.train} --steps 4 --out full-log > /dev/full"])
    b.same("full-log")


tool.main(lambda: case.run(Bench, "ways to lose a run lose none"))
