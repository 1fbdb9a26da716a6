"""tools/bundle.sh makes an archive below 40 MiB, and what is in it starts where there is nothing but a shell, glibc and libstdc++: in a
root of its own, check.sh stops when its time is up and goes on, runs its CPU part, and says by name and reason what it skipped;
bench.sh says that there is no GPU.

    PATH=build/bin:$PATH python3 tests/e2e/bundle.py SOURCE BUILD
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import tool

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
SKIPPED = 77
LARGEST = 40 << 20
TOOLS = ("sh awk basename cat cmp cut date dirname grep head ls mkdir mktemp mv rm sed sort tail tee timeout tr uname").split()
SYSTEM = re.compile(r"(ld-linux|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)[.-]")
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def libraries(program):
    """Name and path of every shared library that the program loads here."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {pathlib.Path(path).name: path for path in re.findall(r"(/\S+) \(0x", said)}


def copy(root, path):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        shutil.copy(path, place)


def make_root(root):
    """A shell with the tools that check.sh names, what they load, and what GCC's runtime brings."""
    for name in TOOLS:
        path = shutil.which(name)
        if not path:
            raise tool.Failure(f"this machine has no {name}, which check.sh needs")
        (root / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), root / "bin" / name)
        for library in libraries(path).values():
            copy(root, library)
    for name, path in libraries(BUILD / "bin/mtrun").items():
        if SYSTEM.match(name):
            copy(root, path)
    for name in ("dev", "proc", "tmp"):
        (root / name).mkdir()


def inside(root, command, seconds):
    enter = 'mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" /bin/sh "$@"'
    done = subprocess.run([*NAMESPACE, "sh", "-c", enter, root, *command], capture_output=True, text=True, timeout=1500,
                          env={"PATH": "/bin:/usr/bin:/usr/sbin:/sbin", "MT_CHECK_SECONDS": str(seconds)})
    print(done.stdout + done.stderr)
    return done


def check(good, what):
    if not good:
        raise tool.Failure(what)


def check_the_check(root):
    begun = inside(root, ["/bundle/check.sh"], 125)
    check(begun.returncode == 3 and "the same command goes on" in begun.stdout, f"check.sh with little time ends with {begun.returncode}, not 3")
    results = root / "bundle/results/check"
    first = {path: path.stat().st_mtime_ns for path in results.glob("*.result")}
    check(first, "check.sh with little time did nothing")
    done = inside(root, ["/bundle/check.sh"], 100_000)
    check(done.returncode == 0, f"check.sh ends with {done.returncode}")
    check(all(path.stat().st_mtime_ns == when for path, when in first.items()), "check.sh did again what was done")
    report = json.loads((results / "check.json").read_text())
    steps = {step["name"]: step for step in report["steps"]}
    check(report["finished"] and report["no_gpu"] == "nvidia-smi is not there", f"check.json says {report}")
    for name in ("devices", "executor", "kernels.cpu", "probe", "repeat.llama.bf16.cpu-discrete",
                 *(f"golden.{case}.{precision}.{device}" for case in ("mlp", "gpt2", "gpt2-clip", "llama") for precision in ("fp32", "bf16")
                   for device in ("cpu", "cpu-discrete", "same"))):
        check(steps[name]["result"] == "ok", f"{name}: {steps[name]}")
    for name in ("kernels.cuda", "golden.llama.bf16.cuda", "repeat.gpt2-clip.fp32.cuda", "sanitizer.memcheck.training"):
        check(steps[name]["result"] == "skipped" and steps[name]["detail"], f"{name}: {steps[name]}")


def test():
    with tool.Scratch() as scratch:
        archive = scratch / "mt-bundle.tar.xz"
        print(scratch.run(["bash", SOURCE / "tools/bundle.sh", "--build", BUILD, "-o", archive]))
        check(archive.stat().st_size < LARGEST, f"the archive has {archive.stat().st_size} bytes")
        if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0:
            print("skipped: this user may not make a mount namespace, so the bundle was made and not run in a root of its own")
            sys.exit(SKIPPED)
        root = scratch / "root"
        make_root(root)
        own = {path.name for path in root.rglob("*.so*")}
        scratch.run(["tar", "-xf", archive, "-C", root])
        both = own & {path.name for path in (root / "bundle/lib").iterdir()}
        check(not both, f"the root brings libraries that the bundle must: {both}")
        check_the_check(root)
        bench = inside(root, ["/bundle/bench.sh"], 400)
        check(bench.returncode == 0 and "no GPU" in bench.stdout and "tokens/s" in bench.stdout, f"bench.sh ends with {bench.returncode}")


tool.main(test)
