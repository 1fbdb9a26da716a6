"""Running mtrun with tests/faults/Faults.cpp preloaded, and what lies in a run's folder. Shared by crash_points.py and
runs.py."""
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import zipfile

import tool

LIBRARY = pathlib.Path(shutil.which("mtrun") or "").resolve().parent.parent / "lib/libmt_faults.so"
KILLED, TERMINATED = -signal.SIGKILL, -signal.SIGTERM
NOT_SANITIZED = "it replaces the same calls as the preloaded library"
STATE = ("weight", "first_moment", "second_moment", "average")


def attempt(scratch, command, root, **settings):
    """Runs a command whose calls on files below `root` count; settings become MT_FAULTS_*."""
    if not LIBRARY.exists():
        raise tool.Failure(f"{LIBRARY} is missing: build the target mt_faults")
    environment = {f"MT_FAULTS_{name.upper()}": str(value) for name, value in settings.items()}
    return scratch.attempt(command, {**environment, "LD_PRELOAD": str(LIBRARY), "MT_FAULTS_ROOT": str(root)})


def calls(scratch, command, root, **settings):
    """How many calls the undisturbed command makes."""
    done = attempt(scratch, command, root, count=scratch / "count", **settings)
    if done.returncode != 0:
        raise tool.Failure(f"exit {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return int((scratch / "count").read_text())


def checkpoints(run):
    """step -> complete checkpoint folders of that step, under whatever names."""
    found = {}
    for folder in sorted(pathlib.Path(run).glob("*")) + sorted(pathlib.Path(run).glob(".*")):
        if not re.fullmatch(r"step-\d+|\.(writing|replaced)-.*", folder.name) or not (folder / "meta.json").exists():
            continue
        meta = json.loads((folder / "meta.json").read_text())
        sizes = [os.path.getsize(path) if (path := folder / f"{stem}.safetensors").exists() else -1 for stem in meta["files"]]
        if sizes == [about["bytes"] for about in meta["files"].values()]:
            found.setdefault(meta["step"], []).append(folder)
    return found


def losses(path):
    """Losses and evaluations of a metrics file, as text."""
    lines = [json.loads(line, parse_float=str) for line in open(path)]
    return [(row["step"], key, row[key], row.get("grad_norm")) for row in lines for key in ("loss", "eval_loss") if key in row]


def state(checkpoint):
    """The bytes of every tensor."""
    found = {}
    for stem in STATE:
        if (path := checkpoint / f"{stem}.safetensors").exists():
            found.update({f"{stem}/{name}": tensor for name, tensor in tool.safetensors(path).items()})
    return found


def result(run, step):
    """What a finished run has come to: losses, tensors, and what its checkpoint knows of evaluations."""
    evaluations = json.loads((run / f"step-{step}" / "meta.json").read_text())["evaluations"]
    return losses(run / "metrics.jsonl"), state(run / f"step-{step}"), evaluations


def different(got, want):
    """The first difference of two results, or None."""
    for a, b in zip(got, want):
        if a != b:
            return tool.different(a, b) or "they differ"
    return None


def journal(path):
    """The calls that were done: kind, path, other path, offset, data."""
    data, at, records = path.read_bytes() if path.exists() else b"", 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        kind, where, other, offset, count = data[at:end].decode().split("\t")
        at = end + 1 + int(count)
        records.append((kind, where, other, int(offset), data[end + 1:at]))
    return records


def poison(source, target, rows):
    """A copy of arrays in which a row of the first, of floats, has an infinity; in each of several."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for number, name in enumerate(old.namelist()):
            data = bytearray(old.read(name))
            (head,) = struct.unpack("<H", data[8:10])
            if number == 0:
                shape = eval(data[10:10 + head].decode())["shape"]
                for row in rows:
                    struct.pack_into("<f", data, 10 + head + 4 * row * math.prod(shape[1:]), math.inf)
            new.writestr(name, bytes(data))
