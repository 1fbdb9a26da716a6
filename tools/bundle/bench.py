"""The measurements of a GPU: tokens/s of Llama-shaped models in bf16, against the plan's own bound and the machine's own
product rate; how much of copies and updates lies under compute; device memory against the plan; clipping on and off; PyTorch
FSDP2 with CPU offload on the same shapes. Standard library only. Each measurement is kept in bench.json, and a call goes on
with those that are missing; bench.md is the table.

    bench.sh [-o DIR] [--fresh] [--only PATTERN]     PATTERN: of names such as mt-7b-96, trace-1b-8, clip-3b-32, fsdp2-1b-8
"""
import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES, BATCHES = ("1b", "3b", "7b"), (8, 32, 96)
CLIPPED = (("1b", 32), ("3b", 32))
GRAPHS = (("1b", 8), ("1b", 32))
SEQUENCE, VOCABULARY = 1024, 32000
SECONDS = float(os.environ.get("MT_BENCH_SECONDS", 460))  # of a call
LARGEST = 400  # seconds of a measurement, at most
WARMUP = 2     # steps


class Failed(Exception):
    pass


def nvidia_smi(fields):
    done = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"nvidia-smi: {done.stdout}{done.stderr}")
    return [value.strip() for value in done.stdout.splitlines()[0].split(",")]


class DeviceMemory:
    """The most that is in use on the GPU while something runs, in bytes, above what was in use before."""

    def __enter__(self):
        self.before = self.most = self.used()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.bytes = self.most - self.before

    @staticmethod
    def used():
        return int(nvidia_smi("memory.used")[0]) << 20

    def watch(self):
        while not self.stop.wait(0.2):
            self.most = max(self.most, self.used())


def run(command, seconds, log):
    """Runs a command with its output in a file; ends it, and what it started, when the time is up."""
    with open(log, "w") as out:
        process = subprocess.Popen([str(word) for word in command], cwd=HERE, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(timeout=seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(stopped, KeyboardInterrupt):
                raise
            raise Failed(f"not done after {seconds:.0f} s; see {log}")
    if status != 0:
        said = log.read_text(errors="replace").strip().splitlines()
        raise Failed(f"exit {status}: {said[-1] if said else 'nothing said'}; see {log}")


def median(rows, field):
    return statistics.median(row[field] for row in rows)


class Bench:
    def __init__(self, out, fresh):
        self.out = out
        if fresh:
            shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True, exist_ok=True)
        self.file = out / "bench.json"
        self.results = json.loads(self.file.read_text()) if self.file.exists() else {}
        name, driver, total = nvidia_smi("name,driver_version,memory.total")
        self.target = "h200" if int(total) > 100_000 else "h100"
        self.has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
        self.results.setdefault("machine", {"gpu": name, "driver": driver, "memory_mib": int(total), "processors": os.cpu_count(),
                                            "date": datetime.date.today().isoformat(), "version": (HERE / "version").read_text().strip()})
        if self.results["machine"]["gpu"] != name:
            raise Failed(f"{self.file} is of {self.results['machine']['gpu']}, and this is {name}; use another -o, or --fresh")

    def keep(self, name, result):
        self.results[name] = result
        aside = self.file.with_suffix(".part")
        aside.write_text(json.dumps(self.results, indent=1))
        aside.replace(self.file)
        (self.out / "bench.md").write_text(table(self.results))

    def tokens(self, batch, steps):
        """Random tokens: losses mean nothing here, and speed does not depend on them."""
        path = self.out / "tokens.bin"
        rows = batch * (steps + 1)
        need = 2 * (rows * (SEQUENCE + 1) + 1)
        if not path.exists() or path.stat().st_size < need:
            values = random.Random(0).choices(range(VOCABULARY), k=need // 2)
            path.write_bytes(struct.pack(f"<{len(values)}H", *values))
        return path

    # --- measurements -------------------------------------------------------------------------------------------------
    def probe(self, _):
        file = self.out / "probed.json"
        run([HERE / "bin/mtrun", "probe", "--device", "cuda", "-o", file], 120, self.out / "probe.log")
        return {**json.loads(file.read_text()), "said": (self.out / "probe.log").read_text().strip().splitlines()[-1].split(": ", 1)[1]}

    def train(self, size, batch, seconds, variant="", arguments=(), steps=None):
        plan = f"{size}-{batch}-{self.target}" + (f"-{variant}" if variant else "")
        reason = HERE / f"bench/{plan}.txt"
        if reason.exists():
            raise Failed(reason.read_text().strip())
        planned = json.loads((HERE / f"bench/{plan}.json").read_text())
        predicted = planned["prediction"]["step_seconds"]
        steps = steps or WARMUP + max(3, min(10, int(40 / predicted)))
        label = plan + "".join(str(word).rsplit("/")[-1] for word in arguments)
        metrics = self.out / f"{label}.jsonl"
        with DeviceMemory() as memory:
            run([HERE / "bin/mtrun", f"bench/{plan}.bin", "--data", self.tokens(batch, steps), "--steps", steps, "--lr", 1e-5, "--keep", 0,
                 "--device", "cuda", "--out", self.out / "run", "--metrics", metrics, *arguments], seconds, self.out / f"{label}.log")
        rows = [row for row in map(json.loads, open(metrics)) if "loss" in row]
        if len(rows) != steps or any(row["loss"] is None for row in rows):
            raise Failed(f"{len(rows)} of {steps} steps, losses {[row['loss'] for row in rows]}; see {metrics}")
        step = median(rows[WARMUP:], "step_ms") / 1e3
        prediction = planned["prediction"]
        return {"tokens_per_s": median(rows[WARMUP:], "tokens_per_s"), "step_seconds": step, "steps": steps,
                "micro_batch": planned["settings"]["micro_batch"], "saved_activations": planned["settings"]["saved_activations"],
                "executed_flops_per_s": prediction["executed_flops"] / step, "useful_flops_per_s": prediction["useful_flops"] / step,
                "prediction": prediction, "device_bytes": rows[-1]["device_bytes"], "planned_device_bytes": planned["spaces"]["device"],
                "host_bytes": rows[-1]["host_bytes"], "device_bytes_in_use": memory.bytes, "losses": [row["loss"] for row in rows]}

    def trace(self, size, batch, seconds):
        file = self.out / f"trace-{size}-{batch}.json"
        self.train(size, batch, seconds, arguments=("--trace", file), steps=4)
        with open(file) as trace:
            return json.load(trace)["otherData"]

    def fsdp2(self, size, batch, seconds):
        file = self.out / f"fsdp2-{size}-{batch}.json"
        file.unlink(missing_ok=True)
        run([sys.executable, HERE / "llama_vs_fsdp2.py", size, "--batch", batch, "--sequence", SEQUENCE, "-o", file, "--seconds", seconds - 20],
            seconds, self.out / f"fsdp2-{size}-{batch}.log")
        return json.loads(file.read_text())

    def steps(self):
        """Name, seconds that it surely needs, and what measures it; the most wanted first."""
        yield "probe", 120, self.probe
        pairs = [(size, batch) for size in SIZES for batch in BATCHES]
        for size, batch in pairs:
            yield f"mt-{size}-{batch}", 90, lambda s, a=size, b=batch: self.train(a, b, s)
        for size, batch in CLIPPED:
            yield f"clip-{size}-{batch}", 90, lambda s, a=size, b=batch: self.train(a, b, s, variant="clip")
        if not self.has_torch:
            print("fsdp2-*: skipped: this python3 has no torch")
        for size, batch in pairs if self.has_torch else ():
            yield f"fsdp2-{size}-{batch}", 90, lambda s, a=size, b=batch: self.fsdp2(a, b, s)
        for size, batch in pairs:
            yield f"trace-{size}-{batch}", 90, lambda s, a=size, b=batch: self.trace(a, b, s)
        for size, batch in GRAPHS:
            yield f"graphs-{size}-{batch}", 60, lambda s, a=size, b=batch: self.train(a, b, s, arguments=("--cuda-graphs",))

    def go(self, pattern):
        """Whether everything asked for is there."""
        end = time.monotonic() + SECONDS
        for name, least, measure in self.steps():
            if name in self.results or not fnmatch.fnmatch(name, pattern):
                continue
            left = end - time.monotonic()
            # What was cut off once is given a whole call, and is then done, one way or the other.
            if left < least + 10:
                return False
            limit, whole = min(LARGEST, left - 10), left - 10 >= LARGEST
            began = time.monotonic()
            try:
                result = measure(limit)
            except (Failed, OSError, KeyError, ValueError) as failure:
                if "not done after" in str(failure) and not whole:
                    return False
                result = {"failed": str(failure) if isinstance(failure, Failed) else f"{type(failure).__name__}: {failure}"}
            result["seconds"] = round(time.monotonic() - began, 1)
            self.keep(name, result)
            print(f"{name}: {describe(result)}", flush=True)
        return True


def describe(result):
    if "failed" in result:
        return "FAILED: " + result["failed"]
    if "tokens_per_s" in result:
        return f"{result['tokens_per_s']:.0f} tokens/s, {result['step_seconds']:.3f} s a step ({result['seconds']:.0f} s)"
    if "computeBusy" in result:
        return f"compute is busy {result['computeBusy']:.0%}; copies hidden {result['copiesHidden']:.0%}, updates {result['updatesHidden']:.0%}"
    return result.get("said", "measured")


# --- the table --------------------------------------------------------------------------------------------------------
def bound(prediction):
    """Seconds of a step if the plan's slowest resource were busy all the time."""
    return max(prediction[kind + "_seconds"] for kind in ("compute", "upload", "download", "host"))


def row(results, size, batch):
    mt, trace, rival = (results.get(f"{kind}-{size}-{batch}", {}) for kind in ("mt", "trace", "fsdp2"))
    if "failed" in mt or not mt:
        return [size, batch, mt.get("failed", "not measured")] + [""] * 9
    rate = results.get("probe", {}).get("bf16_flops")
    cells = [size, batch, f"{mt['tokens_per_s']:,.0f}", f"{mt['step_seconds']:.3f} s", f"{mt['executed_flops_per_s'] / 1e12:.0f}",
             f"{mt['executed_flops_per_s'] / rate:.0%}" if rate else "",
             f"{bound(mt['prediction']) / mt['step_seconds']:.0%} ({mt['prediction']['bound']})"]
    cells += [f"{trace['computeBusy']:.0%} / {trace['copiesHidden']:.0%} / {trace['updatesHidden']:.0%}" if "computeBusy" in trace else trace.get("failed", "")]
    cells += [f"{mt['device_bytes'] / 2**30:.2f} / {mt['planned_device_bytes'] / 2**30:.2f} / {mt['device_bytes_in_use'] / 2**30:.2f}",
              f"{mt['host_bytes'] / 2**30:.1f}"]
    if "tokens_per_s" in rival:
        return cells + [f"{rival['tokens_per_s']:,.0f}", f"{mt['tokens_per_s'] / rival['tokens_per_s']:.2f} x"]
    return cells + [rival.get("failed", ""), ""]


def table(results):
    machine = results["machine"]
    lines = [f"{machine['gpu']}, driver {machine['driver']}, {machine['processors']} processors, {machine['date']}; {machine['version']}; `bench.sh`.",
             f"Llama-shaped, bf16, sequence {SEQUENCE}, AdamW; medians after {WARMUP} steps. {results.get('probe', {}).get('said', '')}", ""]
    head = ["model", "batch", "tokens/s", "step", "executed TFLOP/s", "of the product rate", "of the plan's bound",
            "compute busy / copies hidden / updates hidden", "device GiB: reserved / planned / in use", "host GiB", "FSDP2 tokens/s", "mt is faster by"]
    lines += ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in row(results, size, batch)) + " |" for size in SIZES for batch in BATCHES]
    lines.append("")
    for kind, pairs, what in (("clip", CLIPPED, "with clipping"), ("graphs", GRAPHS, "with CUDA graphs")):
        for size, batch in pairs:
            other, plain = results.get(f"{kind}-{size}-{batch}", {}), results.get(f"mt-{size}-{batch}", {})
            if "step_seconds" in other and "step_seconds" in plain:
                lines.append(f"- {size}, batch {batch}, {what}: {other['step_seconds'] / plain['step_seconds'] - 1:+.1%} time a step")
    lines += [f"- {name}: {result['failed']}" for name, result in results.items() if "failed" in result]
    rivals = [r for name, r in results.items() if name.startswith("fsdp2") and "how" in r]
    lines += [f"- FSDP2 {r['size']}, batch {r['batch']}: {r['how']}, torch {r['torch']}" for r in rivals]
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", type=pathlib.Path, default=HERE / "results/bench")
    p.add_argument("--fresh", action="store_true", help="measure everything again")
    p.add_argument("--only", default="*", metavar="PATTERN")
    o = p.parse_args()
    try:
        bench = Bench(o.o.resolve(), o.fresh)
        done = bench.go(o.only)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    print()
    print(table(bench.results))
    if not done:
        print("not done yet: the same command goes on")
        return 3
    return 1 if any("failed" in result for name, result in bench.results.items() if fnmatch.fnmatch(name, o.only)) else 0


if __name__ == "__main__":
    sys.exit(main())
