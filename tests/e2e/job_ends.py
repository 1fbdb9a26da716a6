"""How a job of several ranks ends: whatever happens to one - killed, stopped, hanging, out of room, started with another
plan, other data, another recipe or in too small a number - the job is over within half a minute, one line says which rank
and why, nothing is left running, the newest checkpoint is whole, and a run of another number of ranks goes on from it to
the bits of one that was never disturbed.

    PATH=build/bin:$PATH python3 tests/e2e/job_ends.py refused | stopped | interrupted | differ | kills [COUNT [SEED]]
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/job_ends.py --simt stopped | interrupted | kills [COUNT [SEED]]

The second is of jobs whose GPUs, simulated ones (tests/simt), exchange by what stands in for NCCL.
"""
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import faults
import tool
from tool import compare, expect

LIMIT = 30  # seconds, from what goes wrong to the end
LAUNCHER = 15  # that mpirun may outlive all ranks: Open MPI 4.1's hangs now and then when a rank dies just as it first reports to it
SIMT = "--simt" in sys.argv
COMPILE = f"mtc compile m.onnx --batch 8 --micro-batch 1 --seq 32 --target {'h100' if SIMT else 'cpu-discrete'} --clip"
NETWORK = "1GB,2GB" if SIMT else "1GB"
TRAIN = ["--data", "text.txt", "--threads", "1", "--checkpoint-every", "2", "--keep", "2", *(["--device", "cuda"] if SIMT else [])]


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 400)
        (scratch / "other.txt").write_text("the quick brown cat jumps over the lazy dog; " * 400)
        scratch.run("mtmodel llama --layers 3 --hidden 64 --intermediate 128 --heads 4 --kv-heads 2 --vocab 256 -o m.onnx")
        for ranks in (1, 2, 4):
            scratch.run(f"{COMPILE} -o plan-{ranks}.bin" + (f" --ranks {ranks} --network {NETWORK}" if ranks > 1 else ""))

    def command(self, ranks, out, *options, steps=12):
        return [*(tool.launcher(ranks) if ranks > 1 else []), "mtrun", f"plan-{ranks}.bin", *TRAIN, "--out", out, "--steps", str(steps),
                *options]

    def start(self, command):
        """A job; what it says goes to a file, which takes all of it."""
        with open(self.scratch / "said.txt", "w") as said:
            return subprocess.Popen(command, cwd=self.scratch.path, stdout=said, stderr=said, env={**os.environ, **tool.MPI},
                                    start_new_session=True)

    def said(self):
        return (self.scratch / "said.txt").read_text(errors="replace")

    def ranks_of(self, job):
        """rank -> process."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                if os.getsid(int(entry.name)) != job.pid and f"PWD={self.scratch.path}" not in environment:
                    continue
                name = (entry / "comm").read_text().strip()
                rank = [line for line in environment if line.startswith("OMPI_COMM_WORLD_RANK=")]
                if name == "mtrun" and rank and os.readlink(entry / "cwd") == str(self.scratch.path):
                    found[int(rank[0].partition("=")[2])] = int(entry.name)
            except (OSError, ValueError):
                continue
        return found

    def ended(self, job, what, begin):
        """What a job said that has to end by itself, in time, with none of its processes left."""
        seen = begin  # when a rank was last there
        while job.poll() is None:
            now = time.monotonic()
            seen = now if self.ranks_of(job) else seen
            if now - seen < LAUNCHER and now - begin < LIMIT:
                time.sleep(0.05)
                continue
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            expect(now - begin < LIMIT, f"{what}: still running after {now - begin:.0f} s:\n{self.said()}")
        took, said = time.monotonic() - begin, self.said()
        for _ in range(50):
            left = self.ranks_of(job)
            if not left:
                break
            time.sleep(0.1)
        expect(not left, f"{what}: ranks {left} are left running")
        return said

    def result(self, out, step):
        return tool.metrics(self.scratch / out / "metrics.jsonl"), faults.state(self.scratch / out / f"step-{step}")


def lines_that(said, pattern):
    return [line for line in said.splitlines() if re.search(pattern, line)]


def refused():
    """What differs between ranks, or does not fit the launcher, is named before the first step."""
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        scratch.run(f"{COMPILE} -o bf16.bin --precision bf16 --ranks 2 --network 1GB")
        scratch.run(f"{COMPILE} -o more.bin --ranks 2 --network 1GB --saved-activations all")
        common = ["mtrun", "plan-2.bin", *TRAIN, "--out", "out", "--steps", "4"]

        def other(*words):
            return ["mpirun", "-n", "1", *common, ":", "-n", "1", *words]

        copy = scratch / "bin"
        copy.mkdir()
        program = pathlib.Path(shutil.which("mtrun"))
        shutil.copy(program, copy / "mtrun")
        shutil.copy(program.parent / "libmt_mpi.so", copy)
        with open(copy / "mtrun", "ab") as file:
            file.write(b"another version")
        cases = [
            (other("mtrun", "more.bin", *common[2:]), r"rank 1 has another plan than rank 0"),
            (other("mtrun", "bf16.bin", *common[2:]), r'rank 1 has another precision than rank 0 \("bf16" there, and "fp32" here\)'),
            (other(str(copy / "mtrun"), *common[1:]), r"rank 1 has another version of mtrun than rank 0"),
            (other(*[w.replace("text", "other") for w in common]), r"rank 1 has another --data than rank 0"),
            (other(*common, "--lr", "0.5"), r"rank 1 has another recipe than rank 0"),
            (other(*[w.replace("text", "no") for w in common]), r"rank 1: .*no\.txt"),
            (["mpirun", "-n", "4", *common], r"the plan is for 2 ranks, and 4 processes were started"),
            (common, r"the plan is for 2 ranks, and this is one process alone: start it with mpirun -n 2"),
            (["mpirun", "-n", "2", *[w.replace("plan-2", "plan-1") for w in common]], r"2 processes were started, and the plan is for one"),
            ([*tool.launcher(2), *common, "--save-gradients", "g.npz"], r"--save-gradients: each rank of the plan has but a share"),
        ]
        for command, pattern in cases:
            begin = time.monotonic()
            job = bench.start(command)
            said = bench.ended(job, pattern, begin)
            expect(job.returncode != 0 and lines_that(said, "^error: .*" + pattern), f"{' '.join(command)}: exit {job.returncode}, wanted {pattern}:\n{said}")
            expect(not (scratch / "out").exists() or not faults.checkpoints(scratch / "out"), f"{pattern}: it has trained")
        for flags, pattern in (("--ranks 2", "give bytes per second that each can send, such as --network 25GB"),
                               ("--ranks 3 --network 1GB", "--batch 8: must be a multiple of the number of ranks, 3"),
                               ("--ranks 2 --network 1GB --micro-batch 8", "a batch of 8 rows does not divide into micro-batches of 8 on each of 2"),
                               ("--ranks 2 --network 1GB --batch 12 --micro-batch 2", "6 micro-batches of 2 rows are 3 for each of 2 ranks")):
            batch = "" if "--batch" in flags else "--batch 8"
            done = scratch.attempt(f"mtc compile m.onnx {batch} --seq 32 -o no.bin {flags}")
            expect(done.returncode == 1 and pattern in done.stderr, f"{flags}: exit {done.returncode}:\n{done.stderr}")
        print(f"{len(cases)} jobs that differ, refused")


def disturbed(bench, out, when, disturb, ranks=2, options=()):
    """A job that is disturbed once it is at a checkpoint, and what it said."""
    job = bench.start(bench.command(ranks, out, *options, steps=4000))
    begin = time.monotonic()
    while not (bench.scratch / out / when).exists():
        expect(job.poll() is None and time.monotonic() - begin < 60, f"{out}: it does not train:\n{bench.said()}")
        time.sleep(0.01)
    found = bench.ranks_of(job)
    expect(len(found) == ranks, f"{out}: {len(found)} ranks are there")
    begin = time.monotonic()
    disturb(found)
    return bench.ended(job, out, begin), job.returncode


def stopped():
    """A rank that is stopped, or that hangs while it lives, is named by the others."""
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        scratch.run(bench.command(1, "one"))
        want = bench.result("one", 12)
        said, status = disturbed(bench, "stop", "step-4", lambda found: os.kill(found[1], signal.SIGSTOP))
        expect(status != 0 and len(lines_that(said, "^error: rank 1 has given no sign")) == 1, f"exit {status}:\n{said}")
        said, status = disturbed(bench, "first", "step-4", lambda found: os.kill(found[0], signal.SIGSTOP))
        expect(status != 0 and len(lines_that(said, "^error: rank 0 has given no sign")) == 1, f"exit {status}:\n{said}")
        for out in ("stop", "first"):
            step = max(faults.checkpoints(scratch / out))
            scratch.run(["mtrun", "export", out, "-o", f"{out}.safetensors"])
            scratch.run(bench.command(1, f"{out}-as-one", steps=step))
            compare(bench.result(f"{out}-as-one", step)[1:], (faults.state(scratch / out / f"step-{step}"),), out)
        print("stopped ranks, named")


def interrupted():
    """A wish to stop that reaches one rank stops all after the same step, and a run of any number goes on from there."""
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        for out, which, wish in (("first", 0, signal.SIGTERM), ("last", 1, signal.SIGTERM), ("usr1", 1, signal.SIGUSR1)):
            said, status = disturbed(bench, out, "step-4", lambda found: os.kill(found[which], wish))
            expect(status == 0 and "the same command with --resume goes on" in said, f"{out}: exit {status}:\n{said}")
            step = max(faults.checkpoints(scratch / out)) + 2
            for ranks in (4, 1):
                copy = f"{out}-{ranks}"
                shutil.copytree(scratch / out, scratch / copy)
                scratch.run(bench.command(ranks, copy, "--resume", steps=step), environment=tool.MPI)
            compare(bench.result(f"{out}-1", step), bench.result(f"{out}-4", step), out)
        print("interrupted jobs went on")


def flip(process, pattern):
    """Changes a byte of what a process holds where it has those bytes; returns in how many places."""
    places = 0
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        for line in open(f"/proc/{process}/maps"):
            where, access, *_ = line.split()
            begin, end = (int(word, 16) for word in where.split("-"))
            if not access.startswith("rw") or end - begin > 1 << 30:
                continue
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except (OSError, ValueError, OverflowError):
                continue
            at = data.find(pattern)
            while at >= 0:
                memory.seek(begin + at)
                memory.write(bytes([pattern[0] ^ 1]))
                places += 1
                at = data.find(pattern, at + 1)
    return places


def differ():
    """A weight that is another on one rank ends the job, and no checkpoint is made of it."""
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        name = tool.plan(scratch, "plan-1.bin")["parameters"][0]["name"]
        scratch.run([*shlex.split(COMPILE), "-o", "plan-2.bin", "--ranks", "2", "--network", "1GB", "--freeze", name])
        scratch.run(bench.command(1, "start", "--lr", "0", steps=1))
        scratch.run("mtrun export start -o start.safetensors")
        _, _, data = tool.safetensors(scratch / "start.safetensors")[name]
        for number, option in enumerate((("--verify-every", "1"), ())):
            def disturb(found):
                expect(flip(found[1], data[:64]) > 0, "the weight is nowhere")
            out = f"out-{number}"
            said, status = disturbed(bench, out, "step-4", disturb, options=option)
            found = re.search(r"error: .*rank 1 has another weight '(.*)' after step (\d+) than rank 0", said)
            expect(status != 0 and found and found[1] == name, f"exit {status}:\n{said}")
            expect(max(faults.checkpoints(scratch / out)) < int(found[2]), f"step {found[2]} was saved")
        print("weights that differ, found")


def newest(out):
    """The step of the newest checkpoint of a run that goes on: by names alone, as files come and go."""
    return max((int(name[5:]) for name in (os.listdir(out) if out.exists() else ()) if re.fullmatch(r"step-\d+", name)), default=0)


def kills(count, seed):
    """One rank is killed at a random moment, in training or while a checkpoint is written; another number of ranks goes on."""
    steps = 10 if SIMT else 30
    pick = random.Random(seed)
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        scratch.run(bench.command(1, "one", steps=steps))
        want = bench.result("one", steps)
        hit, writing = 0, 0
        for number in range(count):
            ranks, out = pick.choice((2, 4)), f"run{number}"
            what = f"kill {number} of seed {seed}"
            job = bench.start(bench.command(ranks, out, steps=steps))
            first = pick.randrange(0, steps - 6, 2)  # the checkpoint after which it is hit, or its start
            while job.poll() is None and (len(bench.ranks_of(job)) < ranks if first == 0 else newest(scratch / out) < first):
                time.sleep(0.002)
            time.sleep(pick.uniform(0, 0.5 if first == 0 else 0.05))
            found = bench.ranks_of(job)
            begin = time.monotonic()
            if found:
                writing += any((scratch / out).glob(".writing-*"))
                rank = pick.choice(sorted(found))
                os.kill(found[rank], signal.SIGKILL)
            said = bench.ended(job, what, begin)
            if job.returncode != 0:
                hit += 1
                expect(re.search(rf"rank {rank}\b", said), f"{what}: nothing names rank {rank}:\n{said}")
            others = pick.choice([n for n in (1, 2, 4) if n != ranks])
            scratch.run(bench.command(others, out, "--resume", steps=steps), environment=tool.MPI)
            compare(want, bench.result(out, steps), f"{what}: {ranks} ranks, gone on with on {others}")
            shutil.rmtree(scratch / out)
        expect(hit >= count // 2, f"only {hit} of {count} jobs were hit")
        print(f"{hit} of {count} jobs lost a rank, {writing} while a checkpoint was written; all went on to the same bits")


tool.skip_without_mpi()
WHAT, *NUMBERS = [word for word in sys.argv[1:] if word != "--simt"]
if WHAT == "kills":
    COUNT, SEED = (int(word) for word in (NUMBERS + ["8", "1"][len(NUMBERS):]))
    tool.main(lambda: kills(COUNT, SEED))
else:
    tool.main({"refused": refused, "stopped": stopped, "interrupted": interrupted, "differ": differ}[WHAT])
