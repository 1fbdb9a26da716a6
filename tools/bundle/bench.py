"""The measurements of a GPU: tokens/s of Llama-shaped models in bf16, compiled for what the probe has found, against the plan's own
bound and the machine's own product rate; how much of copies and updates lies under compute; device memory against the plan; clipping on and off; PyTorch
FSDP2 with CPU offload on the same shapes. Standard library only. Each measurement is kept in bench.json, and a call goes on
with those that are missing; bench.md is the table.

    bench.sh [-o DIR] [--fresh] [--again] [--only PATTERNS]    of names such as mt-7b-96, trace-1b-8, clip-3b-32, fsdp2-1b-8
"""
import argparse
import datetime
import fnmatch
import functools
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time


def processors():
    """That this process may use at once: those it is bound to, or fewer where its control group has a share of their time."""
    bound, limit = len(os.sched_getaffinity(0)), pathlib.Path("/sys/fs/cgroup/cpu.max")
    quota, period = limit.read_text().split() if limit.exists() else ("max", "")
    return bound if quota == "max" else max(1, min(bound, int(quota) // int(period)))


HERE = pathlib.Path(__file__).resolve().parent
SIZES, BATCHES = ("1b", "3b", "7b"), (8, 32, 96)
HIDDEN = {"1b": 2048, "3b": 3072, "7b": 4096}
CLIPPED = (("1b", 32), ("3b", 32))
SEQUENCE, VOCABULARY = 1024, 32000
THREADS = processors()  # of PyTorch
KERNEL_THREADS = THREADS if THREADS <= 2 else THREADS - max(1, THREADS // 8)  # as mtrun's own choice: some are left to who issues work to the GPU
SECONDS = float(os.environ.get("MT_BENCH_SECONDS", 460))  # of a call
HOST_GIB = int(os.environ.get("MT_HOST_GIB") or 0)
HOST_MEMORY = ["--host-memory", f"{HOST_GIB}GiB"] if HOST_GIB else []  # of plans, where the host says less than it gives
BRIEF = ["--brief"] if os.environ.get("MT_PROBE_BRIEF") else []  # the machine's rates in seconds, without its kernel calls
LEAST = {"1b": 40, "3b": 70, "7b": 150}  # seconds of a measurement, without which none is begun
LARGEST = 400                            # at most
WARMUP = 2                               # steps
TRACED = {"1b": 8, "3b": 8, "7b": 4}     # steps
CALLS = 24                               # of a trace, those that take longest
# KIND-SIZE-BATCH, the most wanted first: time with a GPU may end anywhere.
WANTED = ("roofline-7b-96 mt-1b-32 mt-3b-32 mt-7b-96 clip-1b-32 clip-3b-32 fsdp2-1b-32 fsdp2-3b-32 trace-7b-96 traceclip-1b-32 traceclip-3b-32").split()
NAMES = list(dict.fromkeys(WANTED + [f"{kind}-{size}-{batch}" for kind in ("mt", "fsdp2", "trace") for size in SIZES for batch in BATCHES] +
                           ["roofline-1b-32", "graphs-1b-8", "graphs-1b-32", "allcores-7b-8", "allcores-1b-32"]))


class Failed(Exception):
    pass


class CutOff(Failed):
    pass


def nvidia_smi(fields):
    done = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.strip():
        raise Failed(f"nvidia-smi: {done.stdout}{done.stderr}")
    return [value.strip() for value in done.stdout.splitlines()[0].split(",")]


def whole(text):
    """A number, or None for what nvidia-smi calls [N/A]."""
    return int(text) if text.isdigit() else None


def builtin_target(gpu, mib):
    """What mtc is told of a GPU that was not probed: rates of an H100 or H200, less memory than there is, for the driver and the system."""
    name = "h200" if "H200" in gpu or (mib or 0) > 100_000 else "h100"
    fields = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) << 10
    limit, used = (pathlib.Path("/sys/fs/cgroup") / file for file in ("memory.max", "memory.current"))
    if limit.exists() and limit.read_text().strip() != "max":
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    device = ["--device-memory", (mib << 20) - (4 << 30)] if mib else []
    return [str(word) for word in ("--target", name, *device, *(HOST_MEMORY or ("--host-memory", free // 8 * 7)))]


class DeviceMemory:
    """The most that is in use on the GPU while something runs, in bytes, above what was in use before; None if unknown."""

    def __enter__(self):
        self.seen = [self.used()]
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.bytes = None if None in self.seen else max(self.seen) - self.seen[0]

    @staticmethod
    def used():
        try:
            mib = whole(nvidia_smi("memory.used")[0])
        except (Failed, OSError, subprocess.SubprocessError):
            return None
        return None if mib is None else mib << 20

    def watch(self):
        while not self.stop.wait(5):  # seldom: nvidia-smi takes locks of the driver
            self.seen.append(self.used())


def run(command, seconds, log):
    """Runs a command with its output in a file; ends it, and what it started, when the time is up or this program ends."""
    group = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
    with open(log, "w") as out:
        process = subprocess.Popen([str(word) for word in command], cwd=HERE, stdout=out, stderr=subprocess.STDOUT, **group)
        try:
            status = process.wait(timeout=seconds)
        except BaseException as stopped:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(stopped, subprocess.TimeoutExpired):
                raise CutOff(f"not done after {seconds:.0f} s; see {log}") from None
            raise
    if status != 0:
        said = log.read_text(errors="replace").strip().splitlines()
        raise Failed(f"exit {status}: {said[-1] if said else 'nothing said'}; see {log}")


def median(rows, field):
    return statistics.median(row[field] for row in rows)


def expected_loss(size):
    """Of the first step: weights are N(0, 0.02), what the last product takes is normalized, and labels are random, so logits are
    N(0, 0.02 sqrt(hidden)), whose exponentials have the mean exp(0.0002 hidden)."""
    return math.log(VOCABULARY) + 0.0002 * HIDDEN[size]


class Bench:
    def __init__(self, out, patterns, fresh, again):
        self.out, self.patterns = out, patterns.split()
        out.mkdir(parents=True, exist_ok=True)
        self.file = out / "bench.json"
        self.results = json.loads(self.file.read_text()) if self.file.exists() else {}
        if "no_gpu" in self.results:
            self.results = {}
        for name in [name for name, result in self.results.items()
                     if self.asked(name) and (fresh or again and "failed" in result)]:
            del self.results[name]
        name, driver, total = nvidia_smi("name,driver_version,memory.total")
        self.builtin = builtin_target(name, whole(total))
        self.version = (HERE / "version").read_text().strip()
        self.results.setdefault("machine", {"gpu": name, "driver": driver, "memory_mib": whole(total), "processors": THREADS,
                                            "date": datetime.date.today().isoformat()})
        if self.results["machine"]["gpu"] != name:
            raise Failed(f"{self.file} is of {self.results['machine']['gpu']}, and this is {name}; use another -o, or --fresh")

    def asked(self, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.patterns)

    def keep(self, name, result):
        self.results[name] = result
        aside = self.file.with_suffix(".part")
        aside.write_text(json.dumps(self.results, indent=1))
        aside.replace(self.file)
        (self.out / "bench.md").write_text(table(self.results))

    def tokens(self, batch, steps):
        """Random tokens: losses mean nothing here but at the first step, and speed does not depend on them."""
        path = self.out / "tokens.bin"
        rows = batch * (steps + 1)
        need = 2 * (rows * (SEQUENCE + 1) + 1)
        if not path.exists() or path.stat().st_size < need:
            values = random.Random(0).choices(range(VOCABULARY), k=need // 2)
            path.write_bytes(struct.pack(f"<{len(values)}H", *values))
        return path

    # --- measurements: what they find, as a dictionary ------------------------------------------------------------------
    def probe(self, seconds):
        file, log = self.out / "probed.json", self.out / "probe.log"
        run([HERE / "bin/mtrun", "probe", "--device", "cuda", "--threads", KERNEL_THREADS, "-o", file, *HOST_MEMORY, *BRIEF], seconds, log)
        said = next((line for line in log.read_text().splitlines() if "GFLOP/s" in line), "")
        found = json.loads(file.read_text())
        found.pop("calls", None)
        return {**found, "said": said.split(": ", 1)[-1]}

    def plan(self, size, batch, seconds, variant):
        """A plan for what was probed here, or before that for the built-in description that is nearest: its file, and what it promises."""
        probed, compiled = self.out / "probed.json", self.out / "work/compiled"
        compiled.mkdir(parents=True, exist_ok=True)
        is_probed = "bf16_flops" in self.results.get("probe", {}) and probed.exists()
        target = ["--target", probed, *HOST_MEMORY] if is_probed else self.builtin
        key = hashlib.sha256((probed.read_bytes() if is_probed else b"") + " ".join(map(str, target)).encode()).hexdigest()
        name = f"{size}-{batch}" + (f"-{variant}" if variant else "")
        file, about = compiled / f"{name}.bin", compiled / f"{name}.json"
        planned = json.loads(about.read_text()) if about.exists() else {}
        if planned.get("for") == key:
            return file, planned
        began = time.monotonic()
        run([HERE / "bin/mtc", "compile", f"bench/{size}.onnx", "-o", file, "--precision", "bf16", "--batch", batch, "--seq", SEQUENCE, *target,
             *(["--clip"] if variant == "clip" else [])], seconds, compiled / f"{name}.log")
        took = time.monotonic() - began
        run([HERE / "bin/mtc", "dump", file, "--format", "json", "-o", compiled / "dump.json"], seconds, compiled / "dump.log")
        plan = json.loads((compiled / "dump.json").read_text())
        spaces = {}
        for space in plan["spaces"]:
            spaces[space["kind"]] = spaces.get(space["kind"], 0) + space["bytes"]
        planned = {"for": key, "target": plan["target"]["name"], "settings": plan["settings"], "prediction": plan["prediction"],
                   "spaces": spaces, "compile_seconds": round(took, 1)}
        about.write_text(json.dumps(planned))
        return file, planned

    def train(self, name, size, batch, seconds, variant="", arguments=(), steps=None):
        end = time.monotonic() + seconds
        plan, planned = self.plan(size, batch, seconds, variant)
        prediction = planned["prediction"]
        steps = steps or WARMUP + max(3, min(10, int(40 / prediction["step_seconds"])))
        metrics, log = self.out / f"{name}.jsonl", self.out / f"{name}.log"
        with DeviceMemory() as memory:
            run([HERE / "bin/mtrun", plan, "--data", self.tokens(batch, steps), "--steps", steps, "--lr", 1e-5, "--keep", 0,
                 "--device", "cuda", "--out", self.out / "run", "--metrics", metrics, "--overwrite", *(["--host-memory-check", "off"] if HOST_MEMORY else []),
                 *(arguments if "--threads" in arguments else ("--threads", KERNEL_THREADS, *arguments))], max(1, end - time.monotonic()), log)
        rows = [row for row in map(json.loads, open(metrics)) if "loss" in row]
        losses = [row["loss"] for row in rows]
        if len(rows) != steps or None in losses:
            raise Failed(f"{len(rows)} of {steps} steps, losses {losses}; see {metrics}")
        if abs(losses[0] - expected_loss(size)) > 0.1:
            raise Failed(f"the first loss is {losses[0]:.3f}, and of fresh weights it is {expected_loss(size):.3f}; see {metrics}")
        step = median(rows[WARMUP:], "step_ms") / 1e3
        said = log.read_text(errors="replace").splitlines()
        return {"tokens_per_s": median(rows[WARMUP:], "tokens_per_s"), "step_seconds": step, "steps": steps,
                "target": planned["target"], "compile_seconds": planned["compile_seconds"], "micro_batch": planned["settings"]["micro_batch"],
                "saved_activations": planned["settings"]["saved_activations"],
                "executed_flops_per_s": prediction["executed_flops"] / step, "useful_flops_per_s": prediction["useful_flops"] / step,
                "prediction": prediction, "planned_device_bytes": planned["spaces"]["device"], "device_bytes_in_use": memory.bytes,
                "context": next((found[0] for found in map(re.compile("its context .* libraries .*").search, said) if found), None),
                "host_bytes": rows[-1]["host_bytes"], "losses": losses, "warnings": [line for line in said if line.startswith("warning:")]}

    def trace(self, name, size, batch, seconds, variant=""):
        file = self.out / f"{name}.trace.json"
        trained = self.train(name, size, batch, seconds, variant, ("--trace", file, "--calls"), TRACED[size])
        with open(file) as trace:
            found = json.load(trace)["otherData"]
        return {**found, "calls": found["calls"][:CALLS], "steps": TRACED[size], "warnings": trained["warnings"],
                "traced_step_seconds": trained["step_seconds"], "prediction": trained["prediction"]}

    def roofline(self, name, size, batch, seconds):
        """How near each kernel call comes to what the GPU could do with it, without the model's weights: the shortest way to what is slow."""
        plan, planned = self.plan(size, batch, seconds, "")
        file = self.out / f"{name}.txt"
        run([HERE / "bin/mtrun", "probe", plan, "--roofline", "--device", "cuda", "--threads", KERNEL_THREADS, "-o", file, *HOST_MEMORY], seconds, self.out / f"{name}.log")
        head, *rows, said = file.read_text().splitlines()
        return {"rates": head, "roofline": rows[:1 + CALLS], "said": said, "target": planned["target"]}

    def fsdp2(self, name, size, batch, seconds):
        """The best way that was found, even if looking for a better one failed."""
        file = self.out / f"{name}.json"
        file.unlink(missing_ok=True)
        try:
            run([sys.executable, HERE / "llama_vs_fsdp2.py", size, "--batch", batch, "--sequence", SEQUENCE, "-o", file, "--threads", THREADS,
                 "--seconds", max(0, seconds - 20)], seconds, self.out / f"{name}.log")
        except Failed as failure:
            if not file.exists():
                raise
            return {**json.loads(file.read_text()), "cut_short": str(failure)}
        return json.loads(file.read_text())

    def jobs(self):
        """Name, seconds without which it is not begun, and what measures it within some seconds."""
        kinds = {"mt": self.train, "roofline": self.roofline, "clip": functools.partial(self.train, variant="clip"), "fsdp2": self.fsdp2,
                 "trace": self.trace, "traceclip": functools.partial(self.trace, variant="clip"),
                 "graphs": functools.partial(self.train, arguments=("--cuda-graphs",)),
                 "allcores": functools.partial(self.train, arguments=("--threads", THREADS))}
        yield "probe", 30 if BRIEF else 150, self.probe
        has_torch = importlib.util.find_spec("torch") is not None
        if not has_torch:
            print("fsdp2-*: skipped: this python3 has no torch")
        for name in NAMES:
            kind, size, batch = name.split("-")
            if kind != "fsdp2" or has_torch:
                yield name, LEAST["1b" if kind == "roofline" else size], functools.partial(kinds[kind], name, size, int(batch))

    def go(self, end):
        """Whether everything asked for is there. What is cut off because the call ends is done again by the next, which begins
        with it; if it was the first of its call, more time will not help."""
        first, done = os.environ.get("MT_FIRST") != "no", True  # no: visit.sh has done something in this call
        for name, least, measure in self.jobs():
            if name in self.results or not self.asked(name):
                continue
            left = end - time.monotonic() - 10
            if left < least and not first:
                done = False  # something smaller may still fit
                continue
            began = time.monotonic()
            try:
                result = measure(seconds=max(1, min(LARGEST, left)))
            except CutOff as failure:
                if left < LARGEST and not first:
                    return False
                result = {"failed": str(failure)}
            except Failed as failure:
                result = {"failed": str(failure)}
            except Exception as failure:  # one measurement's fault is not the others'
                result = {"failed": f"{type(failure).__name__}: {failure}"}
            first = False
            self.keep(name, {**result, "wall_seconds": round(time.monotonic() - began, 1), "version": self.version})
            print(f"{name}: {describe(self.results[name])}", flush=True)
        return done


def describe(result):
    for why in ("failed", "skipped"):
        if why in result:
            return f"{why}: {result[why]}"
    if "tokens_per_s" in result:
        return f"{result['tokens_per_s']:.0f} tokens/s, {result['step_seconds']:.3f} s a step ({result['wall_seconds']:.0f} s)"
    if "computeBusy" in result:
        return (f"compute is busy {result['computeBusy']:.0%}; copies hidden {result['copiesHidden']:.0%}, updates {result['updatesHidden']:.0%}; "
                f"{result['traced_step_seconds']:.3f} s a step with events around its calls ({result['wall_seconds']:.0f} s)")
    return result.get("said", "measured")


# --- the table --------------------------------------------------------------------------------------------------------
def bound(prediction):
    """Seconds of a step if the plan's slowest resource were busy all the time."""
    return max(prediction[kind + "_seconds"] for kind in ("compute", "upload", "download", "host"))


def why_not(result):
    return result.get("failed") or result.get("skipped") or ""


def hidden(trace):
    if "computeBusy" not in trace:
        return why_not(trace)
    return f"{trace['computeBusy']:.0%} / {trace['copiesHidden']:.0%} / {trace['updatesHidden']:.0%}"


def device_memory(mt):
    """What was planned, what nvidia-smi saw, and what the second has beside the first."""
    planned, used = mt["planned_device_bytes"], mt["device_bytes_in_use"]
    measured = ("unknown", "unknown") if used is None else (f"{used / 2**30:.2f}", f"{(used - planned) / 2**30:.2f}")
    return " / ".join([f"{planned / 2**30:.2f}", *measured])


def row(results, size, batch):
    mt, trace, rival = (results.get(f"{kind}-{size}-{batch}", {}) for kind in ("mt", "trace", "fsdp2"))
    if "tokens_per_s" not in mt:
        return [size, batch, why_not(mt) or "not measured"] + [""] * 9
    rate = results.get("probe", {}).get("bf16_flops")
    cells = [size, batch, f"{mt['tokens_per_s']:,.0f}", f"{mt['step_seconds']:.3f} s", f"{mt['executed_flops_per_s'] / 1e12:.0f}",
             f"{mt['executed_flops_per_s'] / rate:.0%}" if rate else "",
             f"{bound(mt['prediction']) / mt['step_seconds']:.0%} ({mt['prediction']['bound']})",
             hidden(trace), device_memory(mt), f"{mt['host_bytes'] / 2**30:.1f}"]
    if "tokens_per_s" in rival:
        return cells + [f"{rival['tokens_per_s']:,.0f}", f"{mt['tokens_per_s'] / rival['tokens_per_s']:.2f} x"]
    return cells + [why_not(rival), ""]


def compared(results):
    """A line for each way of doing the same step."""
    for size, batch in CLIPPED:
        other, plain, trace = (results.get(f"{kind}-{size}-{batch}", {}) for kind in ("clip", "mt", "traceclip"))
        if "step_seconds" in other and "step_seconds" in plain:
            overlap = f"; compute busy / copies hidden / updates hidden: {hidden(trace)}" if trace else ""
            yield f"- {size}, batch {batch}, with clipping: {other['step_seconds'] / plain['step_seconds'] - 1:+.1%} time a step{overlap}"
    for name, other in results.items():
        kind, _, which = name.partition("-")
        plain, how = results.get(f"mt-{which}", {}), {"graphs": "with CUDA graphs", "allcores": f"with all {THREADS} cores for the kernels of the host"}
        if kind in how and "step_seconds" in other and "step_seconds" in plain:
            yield f"- {which}, {how[kind]}: {other['step_seconds'] / plain['step_seconds'] - 1:+.1%} time a step"


def calls(results):
    """A table for each trace: where its time goes."""
    for name, trace in results.items():
        if not trace.get("calls"):
            continue
        yield f"\n{name}: kernel calls that take longest, in a step\n"
        yield "| stream | share | calls | ms a call | TFLOP/s | GB/s | call |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |"
        for call in trace["calls"]:
            seconds = call["seconds"] or math.inf
            yield (f"| {call['stream']} | {call['share']:.1%} | {call['runs'] / trace['steps']:.0f} | {call['seconds'] / call['runs'] * 1e3:.3f} | "
                   f"{call['flops'] / seconds / 1e12:.1f} | {call['bytes'] / seconds / 1e9:.0f} | `{call['call']}` |")


def rooflines(results):
    """What was found of each plan's calls, as `mtrun probe --roofline` prints it."""
    for name, result in results.items():
        if "roofline" in result:
            yield "\n".join([f"\n{name}: {result['rates']}; {result['said']}", "```", *result["roofline"], "```"])


def notes(results):
    """What a reader of the numbers must know."""
    for key, what in (("target", "plans for"), ("context", "of the GPU's memory,"), ("version", "measured with")):
        names = {}
        for name, result in results.items():
            if result.get(key):
                names.setdefault(result[key], []).append(name)
        for value, where in names.items():
            yield f"- {what} {value}" + (f": {', '.join(where)}" if len(names) > 1 else "")
    warned = {}
    for name, result in results.items():
        for line in dict.fromkeys(result.get("warnings", ())):
            warned.setdefault(line, []).append(name)
    for line, where in warned.items():
        yield f"- {line}: {', '.join(where)}"
    for name, result in results.items():
        if why_not(result):
            yield f"- {name}: {why_not(result)}"
        if "how" in result:
            yield f"- {name}: {result['how']}, torch {result['torch']}" + (f"; cut short: {result['cut_short']}" if "cut_short" in result else "")


def table(results):
    machine = results["machine"]
    lines = [f"{machine['gpu']}, driver {machine['driver']}, {machine['processors']} processors, {machine['date']}; `bench.sh`.",
             f"Llama-shaped, bf16, sequence {SEQUENCE}, AdamW; medians after {WARMUP} steps. {results.get('probe', {}).get('said', '')}", ""]
    head = ["model", "batch", "tokens/s", "step", "executed TFLOP/s", "of the product rate", "of the plan's bound",
            "compute busy / copies hidden / updates hidden", "device GiB: planned / in use / beside the plan (context, libraries)", "host GiB",
            "FSDP2 tokens/s", "mt is faster by"]
    rows = [head, ["---"] * len(head), *(row(results, size, batch) for size in SIZES for batch in BATCHES)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |" for cells in rows]
    return "\n".join([*lines, "", *compared(results), *notes(results), *calls(results), *rooflines(results)]) + "\n"


def main():
    end = time.monotonic() + SECONDS
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what runs is ended too
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", type=pathlib.Path, default=HERE / "results/bench")
    p.add_argument("--fresh", action="store_true", help="measure everything that matches once more")
    p.add_argument("--again", action="store_true", help="measure what failed, and matches, once more")
    p.add_argument("--only", default="*", metavar="PATTERNS")
    o = p.parse_args()
    try:
        bench = Bench(o.o.resolve(), o.only, o.fresh, o.again)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    done = bench.go(end)
    print()
    print(table(bench.results))
    if not done:
        print("not done yet: the same command goes on, without --fresh and --again")
        return 3
    return 1 if any("failed" in result for name, result in bench.results.items() if bench.asked(name)) else 0


if __name__ == "__main__":
    sys.exit(main())
