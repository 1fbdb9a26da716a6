"""One reference case on the targets cpu and cpu-discrete: the command lines of case.json, compared with PyTorch's losses,
gradients of step 1 and final weights; the losses of the two targets equal to the bit. With --bf16 compiled in that
precision, within bounds that follow from what PyTorch's autocast differs. With --cuda on the GPU alone, twice, equal to
the bit; where there is none it is skipped (exit 77), or fails if MT_REQUIRE_CUDA is 1 or there is an NVIDIA driver.

    PATH=build/bin:$PATH python3 tests/e2e/golden_case.py CASE [--bf16] [--cuda]
"""
import os
import subprocess
import sys

import tool

CASE = sys.argv[1]
BF16 = "--bf16" in sys.argv[2:]
TARGETS = ("h100", "h100") if "--cuda" in sys.argv[2:] else ("cpu", "cpu-discrete")


def run(scratch, target):
    compile_, train = tool.case_commands(CASE)
    scratch.link(CASE, "model.onnx", "data.npz")
    scratch.run(compile_ + ["--target", target] + (["--precision", "bf16"] if BF16 else []))
    scratch.run(train + ["--save-gradients", "gradients.npz", "--out", "run"])
    scratch.run("mtrun export run -o weights.npz")


def compare(scratch, target):
    done = subprocess.run([sys.executable, tool.GOLDEN / "compare.py", tool.GOLDEN / CASE, scratch / "metrics.jsonl",
                           "--gradients", scratch / "gradients.npz", "--weights", scratch / "weights.npz"] + (["--bf16"] if BF16 else []),
                          capture_output=True, text=True)
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
    if "h100" in TARGETS:
        skip_without_gpu()
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise tool.Failure(f"{sys.executable} has no numpy; tools/setup.sh installs python3-numpy")
    with tool.Scratch() as one, tool.Scratch() as other:
        good = True
        for scratch, target in zip((one, other), TARGETS):
            run(scratch, target)
            good &= compare(scratch, target)
        if not good:
            raise tool.Failure(f"{CASE} differs from PyTorch; the bounds are above")
        if wrong := tool.different(tool.metrics(one / "metrics.jsonl"), tool.metrics(other / "metrics.jsonl")):
            raise tool.Failure(f"{CASE}: {' and '.join(TARGETS)} differ: {wrong}")


tool.main(test)
