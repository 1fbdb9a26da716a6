"""A GPU that is not there, for the bundle's scripts: nvidia-smi, compute-sanitizer, torch and the rival as files that say what the
real ones say, and an mtrun that trains a tiny model on the CPU whatever it is asked to train. It shows that the scripts
read and keep what programs write; nothing about a GPU.

Faults are in the variable MT_FAKE, as words: SIZE-BATCH=crash|loss|garble|hang of a measurement; attention=old|missing,
memory=unknown, gpus=2 and sanitizer=TOOL, in which something is found.
"""
import pathlib
import sys

NVIDIA_SMI = """#!/bin/sh
case "$*" in
-L)
  echo "GPU 0: x"
  case "$MT_FAKE" in *gpus=2*) echo "GPU 1: x" ;; esac
  ;;
*memory.used*) case "$MT_FAKE" in *memory=unknown*) echo "[N/A]" ;; *) echo 1000 ;; esac ;;
*) echo "NVIDIA H100 80GB HBM3, 580, 81559" ;;
esac
"""

SANITIZER = """#!/bin/sh
tool=$2
shift 4
[ "$1" != --report-api-errors ] || shift 2
echo "========= COMPUTE-SANITIZER"
case $1 in
bin/mtrun) "$@" ;;
*) echo "[  PASSED  ] 3 tests." ;;
esac
errors=0
case "$MT_FAKE" in *sanitizer=$tool*) echo "========= Invalid __global__ read of size 4 bytes"; errors=1 ;; esac
case $tool in
racecheck) echo "========= RACECHECK SUMMARY: $errors hazards displayed ($errors errors, 0 warnings)" ;;
*) echo "========= ERROR SUMMARY: $errors errors" ;;
esac
"""

# Plans that bench.sh has compiled are one of the reference cases', those of reference cases are their own, or, in
# micro-batches, compiled for the CPU.
MTC = """#!PYTHON
import os, pathlib, shutil, subprocess, sys
root = pathlib.Path(__file__).resolve().parent.parent
if sys.argv[1] != "compile":
    sys.exit(subprocess.call([root / "bin/mtc.real", *sys.argv[1:]]))
assert (root / sys.argv[2]).exists() and {"--precision", "--batch", "--seq", "--target"} < {*sys.argv}, sys.argv
host = os.environ.get("MT_HOST_GIB")
assert not host or sys.argv[sys.argv.index("--host-memory") + 1] == f"{host}GiB", sys.argv
if "--micro-batch" in sys.argv:
    sys.exit(subprocess.call([root / "bin/mtc.real", *["cpu-discrete" if word == "h100" else word for word in sys.argv[1:]]]))
model, precision = pathlib.Path(sys.argv[2]), sys.argv[sys.argv.index("--precision") + 1]
case = f"{model.parent.name}-{precision}" if model.parent.parent.name == "golden" else "gpt2-bf16"
shutil.copy(root / f"plans/{case}-h100.bin", sys.argv[sys.argv.index("-o") + 1])
"""

# Of the bundle's plans for a GPU those of the reference cases are run as compiled for the CPU; all others are one of them.
MTRUN = """#!PYTHON
import json, math, os, pathlib, subprocess, sys, time
root = pathlib.Path(__file__).resolve().parent.parent
words, real = [word for word in sys.argv[1:] if word != "--cuda-graphs"], root / "bin/mtrun.real"
faults = dict(word.split("=") for word in os.environ.get("MT_FAKE", "").split())
after = lambda option: words.index(option) + 1
if "--device" in words:
    words[after("--device")] = "cpu"
if words[0] == "probe" and "--brief" not in words:
    words.append("--brief") # all calls of this machine tell nothing of the scripts
if "--roofline" in words:
    words[1] = "plans/gpt2-fp32-cpu.bin"
plan = pathlib.Path(words[0])
if plan.parent.name == "plans":
    words[0] = f"plans/{plan.name.replace('h100', 'cpu')}"
    why = {"old": "cuDNN 91002 needs keys in multiples of 128 for gradients", "missing": "cuDNN is not there"}.get(faults.get("attention"))
    if why:
        print(f"warning: attention_grad goes by blocks of queries, which is slower: {why}", file=sys.stderr)
if plan.parent.name != "compiled":
    sys.exit(subprocess.call([real, *words]))
size, batch = plan.stem.split("-")[:2]
fault = faults.get(f"{size}-{batch}")
if fault == "crash":
    sys.exit("error: the GPU is gone")
if fault == "hang":
    child = subprocess.Popen(["sleep", "1000"])
    (root / "hangs").write_text(str(child.pid))
    child.wait()
assert ("--host-memory-check" in words) == bool(os.environ.get("MT_HOST_GIB")), words
words[0] = "plans/gpt2-fp32-cpu.bin"
words[after("--data")] = "golden/gpt2/data.npz"
print("info: x: 78 GiB of 79 GiB free; its context and other programs take 600 MiB, libraries 100 MiB", file=sys.stderr)
print("warning: attention goes by blocks of queries", file=sys.stderr)
subprocess.run([real, *words], check=True)
metrics = pathlib.Path(words[after("--metrics")])
rows = [json.loads(line) for line in metrics.read_text().splitlines()]
off = math.log(32000) + 0.0002 * {"1b": 2048, "3b": 3072, "7b": 4096}[size] - rows[1]["loss"] + (fault == "loss")
rows = [{**row, "loss": row["loss"] + off} if "loss" in row else row for row in rows]
metrics.write_text("".join("{" if fault == "garble" else json.dumps(row) + "\\n" for row in rows))
"""

# The largest does not fit; the middle one fails after it found a way.
RIVAL = """
import json, sys
size, batch, file = sys.argv[1], int(sys.argv[3]), sys.argv[sys.argv.index("-o") + 1]
found = {"tokens_per_s": 100.0, "step_seconds": 10.24 * batch, "how": "eager", "torch": "2.11"}
json.dump({"skipped": "not enough memory"} if size == "7b" else found, open(file, "w"))
sys.exit("out of luck" if size == "3b" else 0)
"""


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("PYTHON", sys.executable))
    path.chmod(0o755)


def install(bundle, folder):
    """Makes the bundle's mtc, mtrun and rival fakes, and the rest in a folder; the variables that programs are to be run with."""
    for name, text in (("mtc", MTC), ("mtrun", MTRUN)):
        (bundle / f"bin/{name}").rename(bundle / f"bin/{name}.real")
        put(bundle / f"bin/{name}", text)
    if not (bundle / "bin/cuda_kernel_tests").exists():  # a build without CUDA; only the fake sanitizer is asked about it
        put(bundle / "bin/cuda_kernel_tests", "#!/bin/sh\n")
    put(bundle / "llama_vs_fsdp2.py", RIVAL)
    put(folder / "nvidia-smi", NVIDIA_SMI)
    put(folder / "compute-sanitizer", SANITIZER)
    put(folder / "python/torch/__init__.py", "")
    (folder / "python3").symlink_to(sys.executable)
    return {"PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": str(folder / "python")}


def is_running(pid):
    """Whether a process is there and not only waiting to be collected."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
