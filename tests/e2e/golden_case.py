"""One reference case on the targets cpu and cpu-discrete: the command lines of case.json, compared with PyTorch's losses,
gradients of step 1 and final weights; the losses of the two targets equal to the bit. With --bf16 compiled in that
precision, within bounds that follow from what PyTorch's autocast differs. With --cuda on the GPU alone, twice, equal to
the bit; where there is none it is skipped (exit 77), or fails if MT_REQUIRE_CUDA is 1 or there is an NVIDIA driver. With
--simt the first steps alone on a GPU that is none (tests/simt), which is slow; the second time with nothing kept on the
device, so that the processor updates, with random delays and poisoned memory.

    PATH=build/bin:$PATH python3 tests/e2e/golden_case.py CASE [--bf16] [--cuda]
    PATH=build/bin/simt:build/bin:$PATH python3 tests/e2e/golden_case.py CASE [--bf16] --simt
"""
import os
import subprocess
import sys

import tool

CASE = sys.argv[1]
BF16 = "--bf16" in sys.argv[2:]
SIMT = "--simt" in sys.argv[2:]
TARGETS = ("h100", "h100") if SIMT or "--cuda" in sys.argv[2:] else ("cpu", "cpu-discrete")


FIRST = 4 if SIMT else None  # steps
AGAIN = 2 if SIMT else None


STREAMED = ["--residency", "none", "--park", "on"]


def run(scratch, target, steps=None, decisions=(), disturbance=()):
    compile_, train = tool.case_commands(CASE)
    if steps:
        train[train.index("--steps") + 1] = str(steps)
    scratch.link(CASE, "model.onnx", "data.npz")
    scratch.run(compile_ + ["--target", target] + (["--precision", "bf16"] if BF16 else []) + [*decisions])
    scratch.run(train + ["--save-gradients", "gradients.npz", "--out", "run", *disturbance])
    if not SIMT:
        scratch.run("mtrun export run -o weights.npz")


def begin_of_case(scratch):
    """What is known of the case, with no more than the steps that are made."""
    folder = scratch / "case"
    folder.mkdir()
    for name in ("case.json", "grads.npz"):
        (folder / name).symlink_to(tool.GOLDEN / CASE / name)
    rows = [line for line in (tool.GOLDEN / CASE / "curve.jsonl").read_text().splitlines(keepends=True) if '"loss64"' in line]
    (folder / "curve.jsonl").write_text("".join(rows[:FIRST]))
    return folder


def compare(scratch, target):
    case = begin_of_case(scratch) if SIMT else tool.GOLDEN / CASE
    done = subprocess.run([sys.executable, tool.GOLDEN / "compare.py", case, scratch / "metrics.jsonl", "--gradients", scratch / "gradients.npz"]
                          + ([] if SIMT else ["--weights", scratch / "weights.npz"]) + (["--bf16"] if BF16 else []), capture_output=True, text=True)
    print(f"{CASE} on {target}\n{done.stdout}{done.stderr}", end="")
    return done.returncode == 0


def skip_without_gpu():
    required = os.environ.get("MT_REQUIRE_CUDA", "1" if os.path.exists("/dev/nvidiactl") else "0") == "1"
    with tool.Scratch() as scratch:
        probe = scratch.attempt("mtrun probe --brief --device cuda")
    if probe.returncode != 0 and not required:
        print(f"skipped: {probe.stderr.strip()}")
        sys.exit(77)


def test():
    if "h100" in TARGETS and not SIMT:
        skip_without_gpu()
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise tool.Failure(f"{sys.executable} has no numpy; tools/setup.sh installs python3-numpy")
    with tool.Scratch() as one, tool.Scratch() as other:
        good = True
        for scratch, target in zip((one, other), TARGETS):
            if SIMT and scratch is other:
                run(scratch, target, AGAIN, STREAMED, ["--jitter", "3", "--poison"])
                continue
            run(scratch, target, FIRST)
            good &= compare(scratch, target)
        if not good:
            raise tool.Failure(f"{CASE} differs from PyTorch; the bounds are above")
        if wrong := tool.different(tool.metrics(one / "metrics.jsonl")[:AGAIN], tool.metrics(other / "metrics.jsonl")):
            raise tool.Failure(f"{CASE}: {' and '.join(TARGETS)} differ: {wrong}")


tool.main(test)
