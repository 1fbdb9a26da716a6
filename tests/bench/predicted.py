"""Measured steps over predicted ones, on this machine after `mtrun probe`: models of three sizes by batch, with one memory and
with a device apart, and with slow copies that the target knows of.

    PATH=build/bin:$PATH python3 tests/bench/predicted.py [--probed TARGET.json] [MODEL|bN|unified|discrete|slow ...]

Words narrow it down: `gpt2-18 b4 slow`. Each line: seconds that are predicted, the median of those measured and their range,
and the ratio; then the same at the machine's pace of the time: how fast a matrix product is right before and after the run,
against what the probe found. What else runs on the machine shows in both.
"""
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

MODELS = {"gpt2-18": "gpt2 --layers 6 --hidden 384 --heads 6 --vocab 20000", "gpt2-124": "gpt2",
          "llama-125": "llama --layers 12 --hidden 768 --heads 12 --kv-heads 4 --intermediate 2048 --vocab 32000",
          "llama-10": "llama --layers 6 --hidden 320 --heads 5 --kv-heads 5 --intermediate 896 --vocab 4096"}
SEQUENCES = {"llama-10": 1024}
BATCHES = (4, 8, 16)
DISCRETE_MEMORY = 4 << 30
SLOW = [(bandwidth, memory, clip) for bandwidth in (100e6, 300e6, 1e9) for memory in (150 << 20, 600 << 20) for clip in ("", "--clip")]


def run(folder, command):
    return subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, text=True).stdout


def pace(folder, probed):
    """How fast a product in 32 bits is now, against the probe."""
    run(folder, "mtrun probe --brief -o now.json")
    return json.loads((folder / "now.json").read_text())["fp32_flops"] / probed["fp32_flops"]


def ratio(folder, name, model, batch, target, options="", run_options="", steps=7):
    sequence = SEQUENCES.get(model, 256)
    (folder / "target.json").write_text(json.dumps(target))
    run(folder, f"mtc compile {model}.onnx -o plan.bin --target target.json --seq {sequence} --batch {batch} {options}")
    predicted = json.loads(run(folder, "mtc dump plan.bin --format json"))["prediction"]["step_seconds"]
    before = pace(folder, target)
    run(folder, f"mtrun plan.bin --data text.txt --steps {steps} --out run --overwrite --keep 0 --metrics metrics.jsonl {run_options}")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seconds = [batch * sequence / row["tokens_per_s"] for row in rows if "loss" in row][2:]
    measured = statistics.median(seconds)
    now = (before + pace(folder, target)) / 2
    print(f"{name:44} {predicted:8.3f} s predicted, {measured:8.3f} s measured ({min(seconds):.3f} to {max(seconds):.3f}): {measured / predicted:.3f}, "
          f"at a pace of {now:.3f}: {measured * now / predicted:.3f}", flush=True)
    return measured / predicted, measured * now / predicted


def main():
    words = sys.argv[1:]
    probed = None
    if "--probed" in words:
        at = words.index("--probed")
        probed = json.loads(pathlib.Path(words[at + 1]).read_text())
        del words[at:at + 2]
    wanted = lambda *have: all(word in have for word in words)
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text.txt").write_bytes(bytes(random.Random(0).choices(range(32, 127), k=3 << 20)))
        for model, shape in MODELS.items():
            run(folder, f"mtmodel {shape} --seq 1024 -o {model}.onnx")
        if not probed:
            run(folder, "mtrun probe -o probed.json")
            probed = json.loads((folder / "probed.json").read_text())
        discrete = {**probed, "unified": False, "device_memory": DISCRETE_MEMORY}
        for model in MODELS:
            for batch in BATCHES:
                for kind, target in (("unified", probed), ("discrete", discrete)):
                    if wanted(model, f"b{batch}", kind):
                        ratios.append(ratio(folder, f"{model} batch {batch} {kind}", model, batch, target))
        for bandwidth, memory, clip in SLOW:
            if wanted("gpt2-18", "b4", "slow"):
                # A copy that is slowed down sleeps: it takes nothing from others.
                target = {**discrete, "device_memory": memory, "upload_bandwidth": bandwidth, "download_bandwidth": bandwidth,
                          "contention": [line for line in probed["contention"] if line.startswith("compute host")]}
                ratios.append(ratio(folder, f"gpt2-18, {bandwidth / 1e6:.0f} MB/s, {memory >> 20} MiB {clip}", "gpt2-18", 4, target, clip,
                                    f"--slow-copies {bandwidth:.0f}"))
    for what, values in zip(("as it is", "at the pace of the probe"), zip(*ratios)):
        print(f"{what}: {len(values)} plans, median {statistics.median(values):.3f}, within 10 %: {sum(abs(r - 1) <= 0.1 for r in values)}")


main()
