"""Texts that a model continues: the likeliest tokens are those of transformers (golden/greedy.json, of tests/zoo/greedy.py),
drawn ones as frequent as evaluations say, the same bits by any plan, and samples in training change nothing of it.

    PATH=build/bin:$PATH python3 tests/e2e/sampling.py
"""
import json
import math
import os
import re
import shlex
import subprocess
import tarfile

import tool

case = tool.Cases()
ZOO = tool.GOLDEN.parents[1] / "zoo" / "folders"


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        with tarfile.open(ZOO / "gemma2.tar.xz") as archive:
            archive.extractall(scratch / "zoo")
        self.folders = {"llama": tool.GOLDEN / "llama" / "hf", "gpt2": tool.GOLDEN / "gpt2" / "hf", "gemma2": scratch / "zoo" / "checkpoint"}
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 40)
        self.scratch.run("mtmodel llama --layers 1 --hidden 32 --intermediate 48 --heads 2 --kv-heads 1 --vocab 256 -o tiny.onnx")
        self.scratch.run("mtc compile tiny.onnx -o tiny.bin --batch 2 --seq 16 --target cpu-discrete")

    def chance(self, prompt, token):
        """Of a byte after a prompt, by its evaluated loss."""
        row = {"tokens": list(prompt), "labels": [-100] * (len(prompt) - 1) + [token]}
        (self.scratch / "row.jsonl").write_text(json.dumps(row) + "\n")
        found = re.search(r"loss ([0-9.]+)", self.scratch.run("mtrun eval one.bin --data row.jsonl"))
        return math.exp(-float(found.group(1)))

    def bytes_of(self, command):
        """Standard output as it is."""
        words = shlex.split(command) if isinstance(command, str) else command
        done = subprocess.run(words, cwd=self.scratch.path, capture_output=True, env=os.environ)
        tool.expect(done.returncode == 0, f"{words}: {done.stderr}")
        return done.stdout

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


@case
def the_likeliest_tokens_are_those_of_transformers(b):
    want = json.loads((tool.GOLDEN / "greedy.json").read_text())
    for name, folder in b.folders.items():
        b.scratch.run(f"mtc compile {folder} -o {name}.bin --batch 2 --seq 32 --target cpu-discrete")
        for prompt, made in want[name].items():
            got = b.bytes_of(["mtrun", "sample", f"{name}.bin", "--prompt", prompt, "--temperature", "0", "--tokens", "20"])
            tool.expect(got == prompt.encode() + bytes(made) + b"\n", f"{name}: {got} for {made}")


@case
def drawn_tokens_are_as_frequent_as_evaluations_say(b):
    """2,048 texts that begin alike, 256 at once, and the loss of the tokens that are drawn most."""
    prompt, rows, runs = b"The ", 256, 8
    b.scratch.run(f"mtc compile {b.folders['llama']} -o many.bin --batch {rows} --seq 8 --target cpu-discrete")
    counts = [0] * 256
    for seed in range(runs):
        out = b.bytes_of(["mtrun", "sample", "many.bin", "--tokens", "1", "--temperature", "1", "--seed", str(seed)] + ["--prompt", prompt] * rows)
        for text in re.split(rb"\n\n(?=The )", out[:-1]):
            counts[text[-1]] += 1
    tool.expect(sum(counts) == rows * runs, f"{sum(counts)} texts")
    b.scratch.run(f"mtc compile {b.folders['llama']} -o one.bin --batch 1 --seq 8 --target cpu-discrete")
    for token in sorted(range(256), key=lambda t: -counts[t])[:12]:
        share, chance = counts[token] / (rows * runs), b.chance(prompt, token)
        deviation = math.sqrt(chance * (1 - chance) / (rows * runs))
        tool.expect(abs(share - chance) < 5 * deviation, f"token {token}: {share} of the texts, and a probability of {chance}")


@case
def any_plan_draws_the_same(b):
    want = None
    for options in ("--target cpu", "--target cpu-discrete --micro-batch 2", "--target cpu-discrete --devices 2 --micro-batch 1 --residency none"):
        b.scratch.run(f"mtc compile {b.folders['llama']} -o same.bin --batch 4 --seq 24 {options}")
        got = b.bytes_of("mtrun sample same.bin --prompt abc --prompt 'to be' --tokens 12 --seed 5 --top-k 40 --top-p 0.95")
        tool.expect(want in (None, got), f"{options}: {got} and {want}")
        want = got


@case
def samples_change_nothing_of_training(b):
    train = "mtrun tiny.bin --data text.txt --steps 6 --out"
    b.scratch.run(f"{train} plain")
    b.scratch.run(f"{train} sampled --sample-every 2 --sample-tokens 5 --prompt 'the ' --prompt q")
    results = [(tool.metrics(b.scratch / run / "metrics.jsonl"), tool.safetensors(b.scratch / run / "step-6" / "weight.safetensors")) for run in ("plain", "sampled")]
    tool.compare(results[0], results[1], "with samples")
    rows = [json.loads(line) for line in open(b.scratch / "sampled" / "metrics.jsonl")]
    samples = [(r["step"], r["sample"]["prompt"]) for r in rows if "sample" in r]
    tool.expect(samples == [(s, p) for s in (2, 4, 6) for p in ("the ", "q")], f"{samples}")
    page = (b.scratch / "sampled" / "report.html").read_text()
    tool.expect(all(r["sample"]["prompt"] in page for r in rows if "sample" in r), "report.html has no samples")
    b.bytes_of("mtrun sample tiny.bin --from sampled --prompt 'the ' --tokens 3")


@case
def what_is_refused(b):
    b.refuses("mtrun sample tiny.bin --prompt ''", "--prompt: it is empty")
    b.refuses("mtrun sample tiny.bin --prompt a --prompt b --prompt c", "3 texts, and the plan's batch has 2 rows")
    b.refuses("mtrun sample tiny.bin --prompt 'sixteen letters!'", "it has 16 tokens, and a row has 16")
    b.refuses("mtrun sample tiny.bin", "--prompt is required", 2)
    b.refuses("mtrun sample tiny.bin --prompt a --top-p 1.5", "--top-p", 2)
    b.refuses("mtrun sample tiny.bin --prompt a --from nowhere", "--from: nowhere")
    b.refuses("mtrun tiny.bin --data text.txt --sample-every 3", "--sample-every and --prompt need each other", 2)
    b.refuses("mtrun tiny.bin --data text.txt --prompt a", "--sample-every and --prompt need each other", 2)
    b.refuses("mtrun tiny.bin --data text.txt --sample-every 1 --prompt '' --out never", "--sample-every: --prompt: it is empty")
    b.scratch.run("mtmodel mlp -o mlp.onnx")
    b.scratch.run("mtc compile mlp.onnx -o mlp.bin --batch 4 --loss cross-entropy")
    b.refuses("mtrun sample mlp.bin --prompt a", "mlp: it is no language model with a loss of mtc's")
    b.scratch.run("mtmodel llama --layers 1 --hidden 32 --intermediate 48 --heads 2 --kv-heads 1 --vocab 99 -o small.onnx")
    b.scratch.run("mtc compile small.onnx -o small.bin --batch 1 --seq 16")
    b.refuses("mtrun sample small.bin --prompt xyz", "token 120 .* is outside the model's vocabulary of 99")


if __name__ == "__main__":
    tool.main(lambda: case.run(Bench, "properties of sampled texts hold"))
