"""What the planner predicts: the step of each plan over its busiest stream, for Llama shapes on targets, by batch, with and
without clipping, wherever it fits. With --hand also over the best of all plans that options allow by hand. Runs nothing.

    PATH=build/bin:$PATH python3 tests/bench/plans.py [--hand] [MODEL|TARGET|bN|clip|plain ...]

Words narrow it down: `3b h100 h200 b8 plain`. Each line: the ratio, the compilation's seconds, what was decided.
"""
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODELS = {"1b": (16, 2048, 8192, 32, 8, 128256), "3b": (28, 3072, 8192, 24, 8, 128256), "7b": (32, 4096, 11008, 32, 32, 32000),
          "14b": (48, 5120, 13824, 40, 8, 152064), "32b": (64, 5120, 27648, 40, 8, 152064), "70b": (80, 8192, 28672, 64, 8, 128256),
          "119b": (84, 12288, 28672, 96, 8, 128256)}
TARGETS = ("rtx-3080", "rtx-3090", "rtx-4090", "a100-80gb", "h100", "h200")
BATCHES = (1, 8, 32, 96)
HAND = [f"--saved-activations {rung} --residency {residency} --park {park} --prefetch-distance {distance}"
        for rung, residency, park, distance in itertools.product(("input", "attention", "all"), ("none", "weights", "state"), ("on", "off"), (1, 2, 4))]


def model_of(folder, name):
    path = folder / f"{name}.onnx"
    if not path.exists():
        sizes = zip(("layers", "hidden", "intermediate", "heads", "kv-heads", "vocab"), MODELS[name])
        subprocess.run(["mtmodel", "llama", "--seq", "1024", "-o", str(path)] + [word for what, size in sizes for word in (f"--{what}", str(size))],
                       check=True, capture_output=True)
    return path


def compiled(folder, job, options=""):
    """The plan as mtc's JSON, or None where it does not fit; and the seconds of the compilation."""
    name, target, batch, clip = job
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "plan.bin"
        begin = time.monotonic()
        done = subprocess.run(["mtc", "compile", str(model_of(folder, name)), "-o", str(out), "--target", target, "--batch", str(batch), "--seq", "1024",
                               "--precision", "bf16", *(["--clip"] if clip else []), *options.split()], capture_output=True, text=True)
        took = time.monotonic() - begin
        if done.returncode != 0:
            if not re.search(r"memory allows|the plan needs", done.stderr):
                sys.exit(f"{job} {options}: {done.stderr}")
            return None, took
        return json.loads(subprocess.run(["mtc", "dump", str(out), "--format", "json"], capture_output=True, text=True, check=True).stdout), took


def best_by_hand(folder, job):
    micro_batches = [m for m in (1, 2, 4, 8, 16, 32, 96) if job[2] % m == 0]
    plans = [(compiled(folder, job, f"{options} --micro-batch {m}")[0], f"{options} --micro-batch {m}") for options in HAND for m in micro_batches]
    return min(((plan["prediction"]["step_seconds"], options) for plan, options in plans if plan), default=(None, ""))


def line(folder, job, hand):
    plan, took = compiled(folder, job)
    if not plan:
        return job, None, took, "does not fit", None
    told, chosen = plan["prediction"], plan["settings"]
    loads = [told[f"{stream}_seconds"] for stream in ("compute", "upload", "download", "host")]
    step = told["step_seconds"]
    text = (f"{step:8.4g} s {told['bound']:13} compute/up/down/host {'/'.join(f'{load:.3g}' for load in loads)}; micro-batch {chosen['micro_batch']}; "
            f"saved {chosen['saved_activations']}; {chosen['weights']}; parked {chosen['parked']}; updates {chosen['updates']}; "
            f"{plan['spaces'][0]['bytes'] / 2**30:.1f} GiB")
    against = None
    if hand:
        by_hand, options = best_by_hand(folder, job)
        against = step / by_hand if by_hand else None
        text += f"; best by hand {by_hand:.4g} s ({options})" if by_hand else "; nothing by hand fits"
    return job, step / max(loads), took, text, against


def summary(what, ratios):
    if ratios:
        ratios.sort()
        print(f"{what}: {len(ratios)}, median {ratios[len(ratios) // 2]:.3f}, nine in ten {ratios[int(len(ratios) * 0.9)]:.3f}, "
              f"worst {ratios[-1]:.3f}; above 1.05: {sum(r > 1.05 for r in ratios)}, above 1.15: {sum(r > 1.15 for r in ratios)}")


def main():
    words = set(sys.argv[1:])
    hand = "--hand" in words
    chosen = lambda all_, spell=str: [one for one in all_ if spell(one) in words] or list(all_)
    clips = [clip for clip in (False, True) if not words & {"clip", "plain"} or ("clip" if clip else "plain") in words]
    jobs = list(itertools.product(chosen(MODELS), chosen(TARGETS), chosen(BATCHES, lambda b: f"b{b}"), clips))
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) // 2)) as pool: # each takes two
        folder = pathlib.Path(scratch)
        for name in {job[0] for job in jobs}:
            model_of(folder, name)
        found, refused = [], []
        for job, ratio, took, text, against in pool.map(lambda job: line(folder, job, hand), jobs):
            name, target, batch, clip = job
            beside = f" {against:.3f} of hand" if against else ""
            print(f"{name:>5} {target:>10} b{batch:<3}{' clip' if clip else '     '} {f'{ratio:.3f}' if ratio else '  -  '}{beside} {took:5.1f} s  {text}", flush=True)
            if ratio:
                found.append((job, ratio, took, against))
            else:
                refused.append(took)
    summary("step over the busiest stream", [ratio for _, ratio, _, _ in found])
    summary("without clipping", [ratio for job, ratio, _, _ in found if not job[3]])
    summary("step over the best by hand", [against for *_, against in found if against])
    print(f"slowest compilation {max((took for _, _, took, _ in found), default=0):.1f} s, refusal {max(refused, default=0):.1f} s")


if __name__ == "__main__":
    main()
