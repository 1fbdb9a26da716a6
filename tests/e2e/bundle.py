"""tools/bundle.sh makes an archive below 40 MiB, and what is in it starts where there is nothing but a shell, glibc and libstdc++: in a
root of its own, check.sh stops when its time is up and goes on, runs its CPU part, and says by name and reason what it skipped;
bench.sh says that there is no GPU. With a GPU that is faked (fake_gpu.py) what check.sh and bench.sh do there is tested too.

    PATH=build/bin:$PATH python3 tests/e2e/bundle.py SOURCE BUILD
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import fake_gpu
import tool

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
SKIPPED = 77
LARGEST = 40 << 20
CASES = ("mlp", "pictures", "gpt2", "gpt2-clip", "llama", "llama-opset23")
PROBED = {"name": "probed", "device": "cuda", "unified": False, "device_memory": 137 << 30, "host_memory": 512 << 30,
          "upload_bandwidth": 50e9, "download_bandwidth": 50e9, "host_bandwidth": 200e9, "device_bandwidth": 4e12, "fp32_flops": 50e12,
          "bf16_flops": 700e12, "kernel_overhead_seconds": 4e-6, "copy_overhead_seconds": 8e-6}
BRIEFLY = {"MT_PROBE_BRIEF": "1"}  # the rates of a machine that is none take no time
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
    begun = inside(root, ["/bundle/check.sh"], 55)
    check(begun.returncode == 3 and "the same command goes on" in begun.stdout, f"check.sh with little time ends with {begun.returncode}, not 3")
    results = root / "bundle/results/check"
    first = {path: path.stat().st_mtime_ns for path in results.glob("*.result")}
    check(first, "check.sh with little time did nothing")
    done = inside(root, ["/bundle/check.sh", "--jobs", "2"], 100_000)
    check(done.returncode == 0, f"check.sh ends with {done.returncode}")
    check(all(path.stat().st_mtime_ns == when for path, when in first.items()), "check.sh did again what was done")
    report = json.loads((results / "check.json").read_text())
    steps = {step["name"]: step for step in report["steps"]}
    check(report["finished"] and report["no_gpu"] == "nvidia-smi is not there", f"check.json says {report}")
    for name in ("devices", "executor", "kernels.cpu", "probe", "repeat.llama.bf16.cpu-discrete",
                 *(f"golden.{case}.{precision}.{device}" for case in CASES for precision in ("fp32", "bf16")
                   for device in ("cpu", "cpu-discrete", "same"))):
        check(steps[name]["result"] == "ok", f"{name}: {steps[name]}")
    for name in ("kernels.cuda", "golden.llama.bf16.cuda", "repeat.gpt2-clip.fp32.cuda", "several.llama.fp32", "sanitizer.memcheck.training"):
        check(steps[name]["result"] == "skipped" and steps[name]["detail"], f"{name}: {steps[name]}")


def check_again(root):
    """A step that failed, and that one only, is done once more."""
    results = root / "bundle/results/check"
    failed, other = results / "golden.mlp.fp32.cpu.result", results / "golden.mlp.bf16.cpu.result"
    failed.write_text("golden.mlp.fp32.cpu\tFAIL\t1\tby hand\n")
    when = other.stat().st_mtime_ns
    done = inside(root, ["/bundle/check.sh", "--again", "--only", "repeat.* golden.mlp.*"], 100_000)
    check(done.returncode == 0 and "\tok\t" in failed.read_text(), f"check.sh --again ends with {done.returncode}")
    check(other.stat().st_mtime_ns == when, "check.sh --again did more than what failed")


def check_no_gpu(root):
    bench = inside(root, ["/bundle/bench.sh"], 400)
    check(bench.returncode == 0 and "no GPU" in bench.stdout and "tokens/s" in bench.stdout, f"bench.sh ends with {bench.returncode}")
    report = json.loads((root / "bundle/results/bench/bench.json").read_text())
    check("no GPU" in report["no_gpu"] and report["cpu"]["tokens_per_s"] > 0, f"bench.json says {report}")


def check_compiler(root):
    """Plans are compiled there, for what was probed."""
    (root / "probed.json").write_text(json.dumps(PROBED))
    done = inside(root, ["-c", "/bundle/bin/mtc compile /bundle/bench/7b.onnx -o /7b.bin --precision bf16 --batch 8 --seq 1024 --target /probed.json"], 400)
    check(done.returncode == 0 and "34 layers" in done.stdout, f"mtc in the bundle ends with {done.returncode}")


class Faked:
    """The bundle on a machine that looks as if it had a GPU."""

    def __init__(self, scratch, archive):
        self.scratch = scratch
        scratch.run(["mkdir", "faked"])
        scratch.run(["tar", "-xf", archive, "-C", "faked"])
        self.bundle = scratch / "faked/bundle"
        self.rival = self.bundle.joinpath("llama_vs_fsdp2.py").read_text()
        self.environment = {**fake_gpu.install(self.bundle, scratch / "faked/programs"), **BRIEFLY}

    def call(self, script, *arguments, seconds=100_000, faults="", host=""):
        done = self.scratch.attempt([self.bundle / script, *arguments], {**self.environment, "MT_CHECK_SECONDS": str(seconds), "MT_HOST_GIB": host,
                                                                         "MT_BENCH_SECONDS": str(seconds), "MT_FAKE": faults})
        print(done.stdout + done.stderr)
        return done.returncode

    def bench(self, *arguments, want, folder="bench", **how):
        out = self.scratch / "faked" / folder
        status = self.call("bench.sh", "-o", out, *arguments, **how)
        check(status == want, f"bench.sh {arguments} {how} ends with {status}, not {want}")
        return json.loads((out / "bench.json").read_text())

    def check(self, only, want, step, says, **how):
        """Runs steps of check.sh; one of them must end as wanted and say something."""
        out = self.scratch / "faked/check"
        self.call("check.sh", "-o", out, "--fresh", "--only", only, **how)
        found = {one["name"]: one for one in json.loads((out / "check.json").read_text())["steps"]}[step]
        check(found["result"] == want and says in found["detail"], f"{how}: {found}")


def check_faked_check(faked):
    fused = "golden.llama.bf16.cuda"
    faked.check(fused, "ok", fused, "losses of")
    faked.check(fused, "ok", fused, "not cuDNN's: warning: attention_grad", faults="attention=old")
    faked.check(fused, "FAIL", fused, "this is not cuDNN's", faults="attention=missing")
    faked.check("kernels.cuda.Softmax", "FAIL", "kernels.cuda.Softmax", "FAILED TESTS")
    faked.check("repeat.llama.bf16.cuda", "ok", "repeat.llama.bf16.cuda", "graphs")
    faked.check("several.llama.fp32", "skipped", "several.llama.fp32", "there is one GPU")
    faked.check("several.llama.fp32", "ok", "several.llama.fp32", "on 2 GPUs are those of one, to the bit, layers in turn"
                + (" and the batch shared; and 2 processes with one each" if tool.has_mpi() else ""), faults="gpus=2")
    kernels, training, races = (f"sanitizer.{name}" for name in ("memcheck.kernels", "memcheck.training", "racecheck.kernels"))
    faked.check("sanitizer.*", "ok", training, "no errors in 2 steps")
    for step in (kernels, races):
        faked.check(step, "ok", step, "no errors in 3 tests")
    faked.check(kernels, "FAIL", kernels, "first ========= Invalid __global__ read", faults="sanitizer=memcheck")
    faked.check(races, "FAIL", races, "1 hazards displayed", faults="sanitizer=racecheck")


def check_faked_bench(faked):
    begun = faked.bench(want=3, seconds=160)
    check("probe" in begun and "mt-7b-96" not in begun, f"bench.sh with little time did {sorted(begun)}")
    done = faked.bench(want=0)
    check(all(done[name] == result for name, result in begun.items()), "bench.sh did again what was done")
    wanted = {"machine", "probe", "clip-1b-32", "clip-3b-32", "traceclip-1b-32", "traceclip-3b-32", "roofline-1b-32", "roofline-7b-96", "graphs-1b-8", "graphs-1b-32", "allcores-7b-8", "allcores-1b-32",
              *(f"{kind}-{size}-{batch}" for kind in ("mt", "fsdp2", "trace") for size in ("1b", "3b", "7b") for batch in (8, 32, 96))}
    check(set(done) == wanted, f"bench.sh did {sorted(done)}")
    check("libraries 100 MiB" in done["mt-1b-32"]["context"] and done["mt-1b-32"]["target"] == "h100", f"mt-1b-32: {done['mt-1b-32']}")
    check("out of luck" in done["fsdp2-3b-96"]["cut_short"] and done["fsdp2-7b-8"]["skipped"], "the rival's ends are not told apart")
    table = (faked.scratch / "faked/bench/bench.md").read_text()
    models, *calls = re.split(r"\n(trace[-a-z0-9]*): kernel calls that take longest", table)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in models.splitlines() if line.startswith("|")]
    check(len(rows) == 11 and all(len(row) == 12 and row[2] and row[7].count("%") == 3 for row in rows[2:]), f"bench.md:\n{table}")
    check([row[-1].endswith(" x") for row in rows[2:]] == [True] * 6 + [False] * 3, f"bench.md compares wrongly:\n{table}")
    check({*calls[::2]} == {name for name in wanted if name.startswith("trace")} and all("| compute | " in rows and "`matmul" in rows for rows in calls[1::2]),
          f"bench.md's tables of calls:\n{table}")
    for line in ("- 1b, batch 32, with clipping: ", "- 1b-8, with CUDA graphs: ", "- 7b-8, with all ", "- warning: attention goes by blocks of queries: mt-1b-32, ",
                 "- fsdp2-7b-8: not enough memory", "cut short: exit 1: out of luck", "roofline-7b-96: cpu: sums move "):
        check(line in table, f"bench.md lacks \"{line}\":\n{table}")


def check_faked_faults(faked):
    """A measurement that fails is kept with what was wrong, does not stop the others, and is done again when that is asked for."""
    chosen = dict(folder="faults")
    broken = faked.bench("--only", "mt-*-8", want=1, faults="1b-8=crash 3b-8=loss memory=unknown", **chosen)
    check("the GPU is gone" in broken["mt-1b-8"]["failed"], f"crash: {broken['mt-1b-8']}")
    check("the first loss is 11.9" in broken["mt-3b-8"]["failed"], f"wrong loss: {broken['mt-3b-8']}")
    check("failed" not in broken["mt-7b-8"] and broken["mt-7b-8"]["device_bytes_in_use"] is None, f"mt-7b-8: {broken['mt-7b-8']}")
    again = faked.bench("--again", "--only", "mt-*-8", want=1, faults="3b-8=garble", **chosen)
    check("JSONDecodeError" in again["mt-3b-8"]["failed"] and "tokens_per_s" in again["mt-1b-8"], f"again: {again}")
    check(again["mt-7b-8"] == broken["mt-7b-8"], "bench.sh --again did more than what failed")
    grown = faked.bench("--fresh", "--only", "mt-1b-8 mt-3b-8", want=0, host="112", **chosen)
    check(grown["mt-7b-8"] == broken["mt-7b-8"] and "tokens_per_s" in grown["mt-3b-8"], f"a host whose memory grows: {grown}")
    late = faked.bench("--fresh", "--only", "mt-1b-8", want=1, faults="1b-8=hang", seconds=15, **chosen)
    check("not done after" in late["mt-1b-8"]["failed"], f"hang: {late['mt-1b-8']}")
    check(not fake_gpu.is_running((faked.bundle / "hangs").read_text()), "bench.sh left a process that what it ended had started")


VISIT = """check golden.mlp.*.cuda
bench mt-1b-32
check sanitizer.memcheck.*
bench clip-3b-32
bench fsdp2-1b-32
bench mt-1b-*
bench probe
"""


def kill_session(leader):
    """Kills all processes of a session, those in groups of their own, too, and returns when none is left: they may write."""
    while alive := [pid for pid, session, state in processes() if session == leader and state not in "ZX"]:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def processes():
    """Number, session and state of each."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            yield int(path.parent.name), int(session), state


def check_visit(scratch, archive, where="visited"):
    """Calls of visit.sh that are killed at random moments, with all that they started, lose nothing that was done: the next goes on,
    also where the folder is gone and only the file with the results was kept."""
    scratch.run(["mkdir", where])
    (scratch / "parts").write_text(VISIT)
    kept, bundle, chance, seen = scratch / "kept.tar.gz", scratch / where / "bundle", random.Random(5), {}

    def call(patience=None):
        environment = {**os.environ, **variables, "MT_VISIT_PARTS": str(scratch / "parts"), "MT_VISIT_SECONDS": "100000"}
        process = subprocess.Popen([bundle / "visit.sh", kept], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        try:
            out, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            kill_session(process.pid)
            out, _ = process.communicate()
        print(f"{sorted(results(bundle / 'results'))}: {process.returncode}\n{out}")
        return process.returncode, out

    def results(folder):
        steps = {path.name: path.read_text() for path in folder.glob("check/*.result")}
        file = folder / "bench/bench.json"
        return {**steps, **(json.loads(file.read_text()) if file.exists() else {})}

    for number in range(8):
        if number % 4 == 0:  # a machine that has nothing but the bundle and the file
            shutil.rmtree(scratch / where)
            scratch.run(["mkdir", where])
            if kept.exists():
                scratch.run(["tar", "-xzf", kept, "-C", where])
            seen = results(scratch / where / "results")
            shutil.rmtree(scratch / where / "results", ignore_errors=True)
            scratch.run(["tar", "-xf", archive, "-C", where])
            variables = {**fake_gpu.install(bundle, scratch / where / "programs"), **BRIEFLY}
        status, _ = call(patience=chance.uniform(0.1, 1))
        check(status in (-signal.SIGKILL, 0), f"visit.sh ends with {status}")
        now = results(bundle / "results")
        check(all(now.get(name) == result for name, result in seen.items()), f"lost or done again: {sorted(seen)}, now {sorted(now)}")
        check(not kept.exists() or subprocess.run(["tar", "-tzf", kept], capture_output=True).returncode == 0, "the file is broken")
        seen = now
    status, out = call()
    done = results(bundle / "results")
    wanted = {"golden.mlp.fp32.cuda.result", "golden.mlp.bf16.cuda.result", "sanitizer.memcheck.kernels.result", "sanitizer.memcheck.training.result",
              "machine", "probe", "mt-1b-8", "mt-1b-32", "mt-1b-96", "clip-3b-32", "fsdp2-1b-32"}
    check(status == 0 and set(done) == wanted, f"visit.sh ends with {status} and {sorted(done)}")
    check(all(done[name] == result for name, result in seen.items()), "visit.sh did again what was done")
    listed = scratch.run(["tar", "-tzf", kept])
    check("results/visit/facts" in listed and "results/bench/bench.md" in listed and "work" not in listed, f"the file has {listed}")
    facts = scratch.run(["tar", "-xzOf", kept, "results/visit/facts"])
    for what in ("## gpu\nGPU 0: x", "## link, now and at most", "## memory, MiB\nMemTotal", "## libraries"):
        check(what in facts, f"facts lack {what}: {facts}")
    check("| 1b | 32 |" in out, "visit.sh does not show the table")
    kept.write_text("no archive")
    shutil.rmtree(bundle / "results")
    status, out = call()
    check(status == 1 and "is not what visit.sh writes" in out, f"a broken file: {status}, {out}")
    (bundle / "results").mkdir()
    status, out = call()
    check(status == 1 and "that it does not know" in out, f"results beside the file: {status}, {out}")


def check_rival(faked):
    """What the host cannot hold is skipped before torch is asked for."""
    (faked.scratch / "rival.py").write_text(faked.rival)
    faked.scratch.run([sys.executable, "-c", "import rival, sys; rival.free_memory = lambda: 100 << 30; "
                       "sys.argv[1:] = ['7b', '--batch', '8', '-o', 'rival.json']; rival.main()"])
    skipped = json.loads((faked.scratch / "rival.json").read_text())["skipped"]
    check("needs 120 GiB of host memory for 6.74 B parameters, and 100 GiB are free" in skipped, skipped)


def make_bundle(scratch):
    archive = scratch / "mt-bundle.tar.xz"
    bundle = ["bash", SOURCE / "tools/bundle.sh", "-o", archive, "--build"]
    missing = scratch.attempt([*bundle, scratch / "nowhere"])
    check(missing.returncode == 1 and "has no mtc; build the project first" in missing.stderr, f"a folder that is not there: {missing.stderr}")
    print(scratch.run([*bundle, BUILD], timeout=1700))
    check(archive.stat().st_size < LARGEST, f"the archive has {archive.stat().st_size} bytes")
    return archive


def test():
    tool.skip_if_sanitized("a bundle is made of programs that are not: theirs are too large for one")
    with tool.Scratch() as scratch:
        archive = make_bundle(scratch)
        faked = Faked(scratch, archive)
        for part in (check_faked_check, check_faked_bench, check_faked_faults, check_rival):
            part(faked)
        check_visit(scratch, archive)
        if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0:
            print("skipped: this user may not make a mount namespace, so the bundle was not run in a root of its own")
            sys.exit(SKIPPED)
        root = scratch / "root"
        make_root(root)
        own = {path.name for path in root.rglob("*.so*")}
        scratch.run(["tar", "-xf", archive, "-C", root])
        both = own & {path.name for path in (root / "bundle/lib").iterdir()} - {"libpcre2-8.so.0"}  # which the root's own tools need, through libselinux
        check(not both, f"the root brings libraries that the bundle must: {both}")
        check_the_check(root)
        check_again(root)
        check_no_gpu(root)
        check_compiler(root)


tool.main(test)
