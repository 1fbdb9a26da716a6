"""Samples that share rows (mtrun --pack, of plans that mtc compile --pack makes) train as they do apart: the same loss, the
same gradients, whatever stands beside them.

    PATH=build/bin:$PATH python3 tests/e2e/packs.py [CASE]
    PATH=build/bin:$PATH python3 tests/e2e/packs.py architectures      every checkpoint folder of tests/zoo/folders
"""
import array
import json
import math
import pathlib
import random
import re
import sys
import tarfile
import zipfile

import tool

FOLDERS = pathlib.Path(__file__).resolve().parent.parent / "zoo/folders"
SEQUENCE = 24
case = tool.Cases()


def sample(random, length, vocabulary):
    """Tokens and their targets, some of which do not count."""
    tokens = [random.randrange(vocabulary) for _ in range(length)]
    labels = [random.randrange(vocabulary) if random.random() < 0.8 else -100 for _ in range(length)]
    return {"tokens": tokens, "labels": labels}


def samples(seed, vocabulary, count=21):
    """Of all lengths, those that fill a row included."""
    source = random.Random(seed)
    return [sample(source, length, vocabulary) for length in [SEQUENCE, 1, SEQUENCE - 1] + [source.randrange(2, 16) for _ in range(count - 3)]]


def arrays(path):
    """name -> floats of an .npz of 32-bit arrays."""
    found = {}
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            data = file.read(name)
            begin = 10 + int.from_bytes(data[8:10], "little")
            found[name] = array.array("f", data[begin:])
    return found


def norm(values):
    return math.sqrt(sum(v * v for v in values))


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch

    def write(self, name, rows):
        (self.scratch / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def rows(self, plan, data):
        """Rows that samples are packed into."""
        said = self.scratch.run(f"mtrun {plan} --data {data} --pack --dry-run")
        found = re.search(r"--data \S+: (\d+) samples in (\d+) rows, of whose places they fill (\d+\.\d) %", said)
        tool.expect(found, said)
        return int(found.group(2))

    def compile(self, folder, plan, batch, options=""):
        self.scratch.run(f"mtc compile {folder} -o {plan} --seq {SEQUENCE} --batch {batch} {options}")

    def step(self, plan, data, out, options=""):
        """Loss and gradients of a step."""
        self.scratch.run(f"mtrun {plan} --data {data} --steps 1 --out {out} --shuffle off --keep 0 --save-gradients {out}.npz {options}")
        (_, loss, _), = tool.metrics(self.scratch / out / "metrics.jsonl")
        return float(loss), arrays(self.scratch / f"{out}.npz")

    def compare(self, name, folder, vocabulary):
        """Samples in as few rows as they go into, and a row each."""
        all = samples(name, vocabulary)
        self.write(f"{name}.jsonl", all)
        self.compile(folder, f"{name}-one.bin", 1, "--pack")
        rows = self.rows(f"{name}-one.bin", f"{name}.jsonl")
        tool.expect(rows < len(all) / 2, f"{name}: {len(all)} samples make {rows} rows")
        self.compile(folder, f"{name}-packed.bin", rows, "--pack")
        self.compile(folder, f"{name}-apart.bin", len(all))
        loss, got = self.step(f"{name}-packed.bin", f"{name}.jsonl", f"{name}-packed", "--pack")
        wanted, want = self.step(f"{name}-apart.bin", f"{name}.jsonl", f"{name}-apart")
        tool.expect(abs(loss - wanted) <= 1e-5, f"{name}: loss {loss} of packed samples, {wanted} apart")
        whole = math.sqrt(sum(norm(values) ** 2 for values in want.values()))
        tool.expect(got.keys() == want.keys(), f"{name}: other gradients")
        for tensor, values in want.items():
            off = norm(a - b for a, b in zip(values, got[tensor])) / max(norm(values), 1e-6 * whole)
            tool.expect(off <= 1e-5, f"{name}: the gradient of {tensor} is off by {off:.1e}")


def checkpoint(scratch, name):
    """An architecture's folder, and its vocabulary."""
    with tarfile.open(FOLDERS / f"{name}.tar.xz") as archive:
        archive.extractall(scratch / name, [m for m in archive.getmembers() if "checkpoint" in m.name])
    folder = next((scratch / name).rglob("config.json")).parent
    return folder, json.loads((folder / "config.json").read_text())["vocab_size"]


@case
def packed_samples_train_as_they_do_apart(b):
    for name in ("gpt2", "llama"):
        b.compare(name, tool.GOLDEN / name / "hf", 256)
    folder, vocabulary = checkpoint(b.scratch, "gemma2")  # windows in every other layer
    b.compare("gemma2", folder, vocabulary)


@case
def neighbours_change_no_bit(b):
    """The samples before and behind one, of which no label counts, have other tokens."""
    b.compile(tool.GOLDEN / "llama" / "hf", "one.bin", 1, "--pack")
    source = random.Random(3)
    middle = sample(source, 8, 256)
    seen = []
    for _ in range(3):
        first, last = sample(source, 7, 256), sample(source, 6, 256)
        for other in (first, last):
            other["labels"] = [-100] * len(other["labels"])
        b.write("beside.jsonl", [first, middle, last])
        loss, gradients = b.step("one.bin", "beside.jsonl", f"beside-{len(seen)}", "--pack")
        seen.append((loss, {name: bytes(values) for name, values in gradients.items()}))
    tool.expect(all(one == seen[0] for one in seen), f"losses {[loss for loss, _ in seen]}, or gradients, differ")
    b.write("alone.jsonl", [middle])
    alone, _ = b.step("one.bin", "alone.jsonl", "alone")
    tool.expect(abs(alone - seen[0][0]) <= 1e-6, f"loss {seen[0][0]} beside others, {alone} alone")


@case
def runs_that_stop_go_on_to_the_bit(b):
    """Packing is of the recipe: --resume need not be told. Evaluations pack too, and give the loss of samples apart."""
    b.write("train.jsonl", samples(1, 256, 60))
    b.write("eval.jsonl", samples(2, 256, 30))
    b.compile(tool.GOLDEN / "llama" / "hf", "plan.bin", 4, "--pack")
    train = "mtrun plan.bin --data train.jsonl --lr 0.01 --eval-data eval.jsonl --eval-every 3"
    whole = b.scratch.run(f"{train} --pack --steps 15 --out whole")
    b.scratch.run(f"{train} --pack --steps 7 --out parts")
    said = b.scratch.run(f"{train} --steps 15 --out parts --resume")
    tool.compare([tool.metrics(b.scratch / "whole/metrics.jsonl")], [tool.metrics(b.scratch / "parts/metrics.jsonl")], "resumed")
    packed = re.findall(r"evaluation loss (\S+), perplexity \S+, over (\d+) targets", whole)[-1]
    tool.expect(re.findall(r"evaluation loss (\S+), perplexity \S+, over (\d+) targets", said)[-1] == packed, said)
    of = [b.scratch.run(f"mtrun eval plan.bin --data eval.jsonl --from whole {option}") for option in ("", "--pack")]
    for line in of:
        tool.expect(f"over {packed[1]} targets" in line and abs(float(line.split()[1]) - float(packed[0])) < 6e-5, f"{packed}: {of}")
    held = b.scratch.run(f"mtrun plan.bin --data train.jsonl --pack --eval-split 0.25 --steps 3 --out held")
    loss, targets = re.findall(r"evaluation loss (\S+), perplexity \S+, over (\d+) targets", held)[-1]
    line = b.scratch.run("mtrun eval plan.bin --data train.jsonl --from held --split")
    tool.expect(f"over {targets} targets" in line and abs(float(line.split()[1]) - float(loss)) < 6e-5, f"{loss}: {line}")


@case
def streams_suit_a_plan_that_packs_and_others_are_refused(b):
    (b.scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 40)
    b.compile(tool.GOLDEN / "llama" / "hf", "bytes.bin", 4, "--pack")
    b.compile(tool.GOLDEN / "llama" / "hf", "plain.bin", 4)
    losses = []
    for plan in ("bytes.bin", "plain.bin"):
        b.scratch.run(f"mtrun {plan} --data text.txt --steps 3 --lr 0.01 --out of-{plan}")
        losses.append([float(loss) for _, loss, _ in tool.metrics(b.scratch / f"of-{plan}/metrics.jsonl")])
    tool.expect(all(abs(x - y) <= 1e-5 for x, y in zip(*losses)), f"windows of a stream are a segment each: {losses}")
    said = b.scratch.run(f"mtc compile {tool.GOLDEN / 'gpt2' / 'hf'} --pack --emit nn")
    tool.expect("sequence = 64" in said, "the usual sequence is not as long as the table of positions")
    b.scratch.run("mtmodel gpt2 --layers 1 --hidden 16 --heads 2 --vocab 420 --seq 24 --weights -o gpt2.onnx")

    def refused(command, words):
        done = b.scratch.attempt(command)
        tool.expect(done.returncode == 1 and words in done.stderr, f"{command}: {done.stderr}")
    refused("mtc compile gpt2.onnx -o no.bin --pack", "gpt2.onnx: --pack is for checkpoint folders")
    refused("mtrun bytes.bin --data text.txt --pack --dry-run", "--data text.txt has no samples that are shorter than a row, and no documents that a token ends")
    b.write("few.jsonl", samples(4, 256))
    refused("mtrun plain.bin --data few.jsonl --pack --dry-run", "--pack: the plan has no input 'segment_ids'")
    refused("mtrun eval plain.bin --data few.jsonl --pack", "--pack: the plan has no input 'segment_ids'")


def architectures(b):
    for path in sorted(FOLDERS.glob("*.tar.xz")):
        name = path.name.removesuffix(".tar.xz")
        b.compare(name, *checkpoint(b.scratch, name))
        print(f"{name}: packed as apart")


if sys.argv[1:] == ["architectures"]:
    case.all = [architectures]
tool.main(lambda: case.run(Bench, "statements about packed samples hold"))
