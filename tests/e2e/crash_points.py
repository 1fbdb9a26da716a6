"""Every call that changes a file goes wrong once, in short runs with checkpoints, metrics, evaluation and export: the
process ends there, the disk is full, the call fails or is cut short, a signal comes, or power is lost and with it whatever
was not synced. What was complete before must be there, and the same command with --resume must come to the same weights
and losses, to the bit.

    PATH=build/bin:$PATH python3 tests/e2e/crash_points.py                       every call
    PATH=build/bin:$PATH python3 tests/e2e/crash_points.py --sample N [SEED]     N calls of each kind and scenario
    PATH=build/bin:$PATH python3 tests/e2e/crash_points.py SCENARIO [KIND [CALL]]    those

With TMPDIR on a file system in memory (/dev/shm) every call takes minutes, and longer where syncing is slow.
"""
import collections
import itertools
import random
import re
import shutil
import sys

import faults
import tool

KINDS = ("kill", "torn", "short", "enospc", "eio", "signal", "power")
STEPS = 4


class File:
    def __init__(self, data=b""):
        self.live, self.durable = bytearray(data), bytes(data)


class Folder:
    def __init__(self):
        self.live, self.durable = {}, {}


class Disk:
    """What a file system holds, and what of it would survive a loss of power: of a file what it was when it was last synced,
    of a folder the names that it had when it was last synced."""

    def __init__(self, before, root):
        self.prefix = str(root)
        self.root = self.read(before)

    def read(self, path):
        if not path.is_dir():
            return File(path.read_bytes())
        folder = Folder()
        folder.live = {entry.name: self.read(entry) for entry in path.iterdir()}
        folder.durable = dict(folder.live)
        return folder

    def split(self, path):
        parts = path[len(self.prefix):].strip("/").split("/")
        folder = self.root
        for part in parts[:-1]:
            folder = folder.live[part]
        return folder.live, parts[-1]

    def find(self, path):
        if path == self.prefix:
            return self.root
        names, last = self.split(path)
        return names.get(last)

    def apply(self, kind, path, other, offset, data):
        if path.endswith(" (deleted)") or kind == "open":
            return
        if kind in ("write", "grow", "resize", "truncate", "sync"):
            node = self.find(path)
            if node is None:
                return
            if kind == "sync":
                node.durable = bytes(node.live) if isinstance(node, File) else dict(node.live)
            elif kind == "truncate":
                del node.live[:]
            else:
                end = offset + len(data)
                node.live.extend(bytes(max(0, end - len(node.live))))
                node.live[offset:end] = data
                if kind == "resize":
                    del node.live[offset:]
            return
        names, last = self.split(path)
        if kind in ("create", "mkdir"):
            names[last] = File() if kind == "create" else Folder()
        elif kind == "unlink":
            names.pop(last, None)
        else:
            to, name = self.split(other)
            if kind == "exchange":
                names[last], to[name] = to[name], names[last]
            elif kind == "link":
                names[last] = to[name]
            else:
                to[name] = names.pop(last)


def write_tree(node, path, names, content):
    if isinstance(node, File):
        path.write_bytes(content(node))
        return
    path.mkdir()
    for name, entry in names(node).items():
        write_tree(entry, path / name, names, content)


def losses_of_power(before, root, records, seed):
    """Disks as a loss of power may leave them: all that was not synced is gone; names are there and what is in the files is
    not; names up to some moment after the last sync."""
    disk = Disk(before, root)
    for record in records:
        disk.apply(*record)
    durable = lambda file: file.durable
    yield "nothing unsynced is left", disk.root, lambda folder: folder.durable, durable
    yield "names without content", disk.root, lambda folder: folder.live, durable
    synced = max((i for i, record in enumerate(records) if record[0] == "sync"), default=-1) + 1
    partial = Disk(before, root)
    for record in records[:random.Random(seed).randint(synced, len(records))]:
        partial.apply(*record)
    yield "some names without content", partial.root, lambda folder: folder.live, durable


class Scenario:
    """A folder as it is before, the command that is disturbed in it, and the one that mends."""

    def __init__(self, bench, name, before, command, repair, **settings):
        self.bench, self.name, self.command, self.repair, self.settings = bench, name, command, repair, settings
        self.before = bench.scratch / f"before-{name}"
        shutil.copytree(before, self.before)
        self.reset()
        self.count = faults.calls(bench.scratch, command, bench.world, **settings)

    def reset(self):
        shutil.rmtree(self.bench.world, ignore_errors=True)
        shutil.copytree(self.before, self.bench.world)


class Bench:
    def __init__(self, scratch):
        self.scratch, self.world = scratch, scratch / "world"
        scratch.link("mlp", "model.onnx", "data.npz")
        scratch.run("mtc compile model.onnx -o plan.bin --batch 32 --loss cross-entropy --optimizer adamw --target cpu")
        train = f"mtrun plan.bin --data data.npz --lr 0.01 --threads 1 --steps {STEPS} --checkpoint-every 2 --eval-data data.npz " \
                "--eval-every 2 --keep-best --out world/run"
        export = "mtrun export world/run -o world/out.safetensors"
        self.world.mkdir()
        empty = self.keep("empty")
        scratch.run(train)
        self.want = faults.result(self.world / "run", STEPS)
        finished = self.keep("finished")
        scratch.run(export)
        self.exported = (self.world / "out.safetensors").read_bytes()
        exported = self.keep("exported")
        self.scenarios = [Scenario(self, "fresh", empty, train + " --resume", train + " --resume")]
        self.scenarios.append(Scenario(self, "at-rest", empty, train + " --resume --checkpoint-copy off", train + " --resume"))
        # In the middle: a checkpoint of step 2, metrics beyond it, a part of the next checkpoint.
        self.scenarios[0].reset()
        faults.attempt(scratch, train, self.world, at=self.scenarios[0].count * 3 // 5, kind="kill")
        middle = self.keep("middle")
        self.scenarios += [
            Scenario(self, "resumed", middle, train + " --resume", train + " --resume"),
            Scenario(self, "again", finished, train + " --overwrite", train + " --resume"),
            Scenario(self, "no-exchange", finished, train + " --overwrite", train + " --resume", no_exchange=1),
            Scenario(self, "export", exported, export, export),
        ]
        self.runs, self.lost, self.wrong = collections.Counter(), [], []

    def keep(self, name):
        folder = self.scratch / f"state-{name}"
        shutil.copytree(self.world, folder)
        return folder

    def complain(self, scenario, kind, call, what, lost=False):
        where = f"{scenario.name} {kind} {call}"
        print(f"{'lost' if lost else 'different'}: {where}: {what}\n  python3 tests/e2e/crash_points.py {where}", flush=True)
        (self.lost if lost else self.wrong).append(where)

    def check_kept(self, scenario, kind, call, published):
        """Every step that had a complete checkpoint, before or in this run, still has one, but for those pruned for newer ones."""
        there = faults.checkpoints(self.world / "run")
        had = set(faults.checkpoints(scenario.before / "run")) | published
        newest = max(had, default=0)
        if newest and newest not in there:
            self.complain(scenario, kind, call, f"step {newest} was complete, and there is {sorted(there)}", lost=True)

    def mend(self, scenario, kind, call):
        """Goes on, and compares what comes out."""
        newest = max(faults.checkpoints(self.world / "run"), default=0)
        done = self.scratch.attempt(scenario.repair)
        if done.returncode != 0:
            return self.complain(scenario, kind, call, f"exit {done.returncode}: {scenario.repair}: {done.stderr[-600:]}", lost=True)
        if scenario.name == "export":
            return self.compare(scenario, kind, call)
        said = re.search(r"going on from \S+, step (\d+)|starting at step (0)|nothing to do: \S+ is at step (\d+)", done.stdout)
        began = int(next(filter(None, said.groups()))) if said else -1
        replaced = "of an earlier run only" in done.stdout  # --overwrite had begun
        if began < newest and not (replaced or scenario.settings or scenario.name == "again"):
            self.complain(scenario, kind, call, f"went on from step {began}, and step {newest} was complete", lost=True)
        return self.compare(scenario, kind, call)

    def compare(self, scenario, kind, call):
        if scenario.name == "export":
            if (self.world / "out.safetensors").read_bytes() != self.exported:
                self.complain(scenario, kind, call, "the export differs")
            return
        if difference := faults.different(faults.result(self.world / "run", STEPS), self.want):
            self.complain(scenario, kind, call, difference)

    def disturb(self, scenario, kind, call):
        scenario.reset()
        self.runs[kind] += 1
        record = self.scratch / "journal"
        record.unlink(missing_ok=True)
        settings = dict(scenario.settings, at=call, kind="kill" if kind == "power" else kind, journal=record)
        done = faults.attempt(self.scratch, scenario.command, self.world, **settings)
        # A signal that comes before anything has begun ends the process as usual.
        expected = (faults.KILLED,) if kind in ("kill", "torn", "power") else (0, faults.TERMINATED) if kind == "signal" else (0, 1)
        if done.returncode not in expected:
            self.complain(scenario, kind, call, f"exit {done.returncode}: {done.stderr[-600:]}")
        records = faults.journal(record)
        if kind == "power":
            return self.lose_power(scenario, call, records)
        self.check_kept(scenario, kind, call, published(records))
        if scenario.name == "export" and kind != "signal" and (self.world / "out.safetensors").read_bytes() != self.exported:
            self.complain(scenario, kind, call, "the old export is gone", lost=True)
        if done.returncode == 0 and kind != "signal" and not re.search("bytes were never written|its evaluation is not noted", done.stderr):
            self.compare(scenario, kind, call)
        self.mend(scenario, kind, call)

    def lose_power(self, scenario, call, records):
        for what, root, names, content in list(losses_of_power(scenario.before, self.world, records, call)):
            shutil.rmtree(self.world)
            write_tree(root, self.world, names, content)
            self.check_kept(scenario, "power", call, published(records, durably=True))
            self.mend(scenario, "power", call)

    def run(self, chosen):
        for (scenario, kind), calls in itertools.groupby(chosen, lambda one: one[:2]):
            before = len(self.lost) + len(self.wrong)
            calls = [call for _, _, call in calls]
            for call in calls:
                self.disturb(scenario, kind, call)
            print(f"{scenario.name} {kind}: {len(calls)} calls, {len(self.lost) + len(self.wrong) - before} problems", flush=True)
        calls = ", ".join(f"{scenario.name} {scenario.count}" for scenario in self.scenarios)
        print(f"calls that change files: {calls}")
        print(f"disturbed: {', '.join(f'{kind} {count}' for kind, count in self.runs.items())}; {sum(self.runs.values())} runs in all")
        print(f"lost {len(self.lost)}, different {len(self.wrong)}")
        if self.lost or self.wrong:
            raise tool.Failure("; ".join(self.lost + self.wrong))


def published(records, durably=False):
    """The steps whose checkpoints got their name; durably: and the folder was synced after."""
    steps, waiting = set(), set()
    for kind, path, other, _, _ in records:
        if kind in ("rename", "exchange") and (found := re.search(r"/run/step-(\d+)$", other)):
            waiting.add(int(found.group(1)))
        if not durably or (kind == "sync" and path.endswith("/run")):
            steps |= waiting
            waiting = set()
    return steps


def choose(bench):
    words = sys.argv[1:]
    scenarios = {scenario.name: scenario for scenario in bench.scenarios}
    every = [(scenario, kind, range(1, scenario.count + 1)) for scenario, kind in itertools.product(bench.scenarios, KINDS)
             if not (scenario.name == "export" and kind == "signal")]
    if words and words[0] in scenarios:
        every = [(scenario, kind, [int(words[2])] if len(words) > 2 else calls) for scenario, kind, calls in every
                 if [scenario.name, kind][:len(words)] == words[:2]]
    if words[:1] == ["--sample"]:
        pick = random.Random(int(words[2]) if len(words) > 2 else 0)
        every = [(scenario, kind, sorted(pick.sample(calls, min(int(words[1]), len(calls))))) for scenario, kind, calls in every]
    return [(scenario, kind, call) for scenario, kind, calls in every for call in calls]


def test():
    tool.skip_if_sanitized(faults.NOT_SANITIZED)
    with tool.Scratch() as scratch:
        bench = Bench(scratch)
        bench.run(choose(bench))


tool.main(test)
