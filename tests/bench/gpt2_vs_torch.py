"""GPT-2 124 M, batch 4, sequence 256, fp32, AdamW, clipping: mt against PyTorch eager and torch.compile, on this machine, in
this run, and against the matrix rates of oneDNN and PyTorch. Prints a table in Markdown for docs/measurements.md.

    build/bin must hold the programs and kernels_bench; python must have torch, else this says so and does nothing:
    python tests/bench/gpt2_vs_torch.py [--build build] [--steps 8] [--skip-compile]
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BATCH, SEQ, VOCAB, LAYERS, HIDDEN, HEADS, POSITIONS = 4, 256, 50257, 12, 768, 12, 1024
TOKENS = BATCH * SEQ
WARMUP = 2
# Of a step, what the model needs: 6 per parameter of a product and token, and causal attention's two products, forward
# and twice backward, half of the square.
MATRIX_PARAMETERS = LAYERS * 12 * HIDDEN * HIDDEN + VOCAB * HIDDEN
USEFUL_FLOPS = 6 * MATRIX_PARAMETERS * TOKENS + 6 * LAYERS * SEQ * HIDDEN * TOKENS
PRODUCT = (1024, 3072, 768)  # rows, columns, depth: the MLP's first product at 1024 tokens


def torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.attn, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.fc, self.out = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            heads = lambda t: t.view(BATCH, SEQ, HEADS, -1).transpose(1, 2)
            q, k, v = map(heads, self.attn(self.ln_1(x)).split(HIDDEN, 2))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(mixed.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN))
            return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(POSITIONS, HIDDEN)
            self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
            for p in self.parameters():
                if p.ndim > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, ids, labels):
            x = self.wte(ids) + self.wpe(torch.arange(SEQ))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy((self.ln_f(x) @ self.wte.weight.T).view(-1, VOCAB), labels.reshape(-1))

    return Gpt2()


def child_torch(mode, steps):
    """Steps of PyTorch; prints seconds of each after the warm-up."""
    import torch
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(0)
    model = torch_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if mode == "compile" else model
    seconds = []
    for _ in range(WARMUP + steps):
        ids = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
        begin = time.perf_counter()
        loss = loss_of(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds[WARMUP:]))


def child_sgemm():
    """PyTorch's best rate at the product, GFLOP/s."""
    import torch
    torch.set_num_threads(os.cpu_count())
    m, n, k = PRODUCT
    a, b = torch.randn(m, k), torch.randn(k, n)
    best = math.inf
    for _ in range(30):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    print(json.dumps(2 * m * n * k / best / 1e9))


def measured(command, cwd=None, **options):
    """Runs a command; its standard output and its peak resident bytes."""
    process = subprocess.Popen([str(w) for w in command], cwd=cwd, stdout=subprocess.PIPE, text=True, **options)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return out, usage.ru_maxrss * 1024


def run_torch(mode, steps):
    out, peak = measured([sys.executable, __file__, "--child", mode, "--steps", steps])
    return statistics.median(json.loads(out.splitlines()[-1])), peak


def write_tokens(path, count):
    values = random.Random(0)
    path.write_bytes(struct.pack(f"<{count}H", *(values.randrange(VOCAB) for _ in range(count))))


def run_mt(bin_, folder, steps):
    """Median step seconds, peak bytes, device and host bytes planned, seconds by kind of command (with a trace, another run)."""
    write_tokens(folder / "tokens.bin", (SEQ + 1) * BATCH * (WARMUP + steps + 2))
    measured([bin_ / "mtmodel", "gpt2", "--seq", POSITIONS, "--vocab", VOCAB, "-o", "gpt2.onnx"], cwd=folder)
    out, _ = measured([bin_ / "mtc", "compile", "gpt2.onnx", "-o", "plan.bin", "--batch", BATCH, "--seq", SEQ, "--clip", "--target", "cpu"], cwd=folder)
    print(out.strip().splitlines()[-1], file=sys.stderr)
    train = [bin_ / "mtrun", "plan.bin", "--data", "tokens.bin", "--lr", 1e-4, "--weight-decay", 0.1, "--decay", "all"]
    _, peak = measured([*train, "--steps", WARMUP + steps, "--out", "timed", "--metrics", "m.jsonl"], cwd=folder)
    rows = [r for r in map(json.loads, open(folder / "m.jsonl")) if "loss" in r]
    measured([*train, "--steps", 4, "--out", "traced", "--trace", "trace.json"], cwd=folder)
    return statistics.median(r["step_ms"] for r in rows[WARMUP:]) / 1e3, peak, rows[-1], split(folder / "trace.json", 4)


def split(trace, steps):
    """Milliseconds a step by kind of command, measured; and bytes of updates."""
    kinds = collections.defaultdict(lambda: [0.0, 0])
    for event in json.load(open(trace))["traceEvents"]:
        if event.get("ph") == "X" and event.get("pid") == 1:
            kind = kinds[event["cat"]]
            kind[0] += event["dur"] / 1e3 / steps
            kind[1] += event["args"].get("bytes", 0) / steps
    return dict(kinds)


def run_kernels_bench(bin_):
    """oneDNN's best sgemm rate in GFLOP/s, and copy and update rates in GB/s, from kernels_bench; empty where it is not built."""
    program = bin_ / "kernels_bench"
    if not program.exists():
        return {}
    best = collections.defaultdict(float)
    out, _ = measured([program, "--benchmark_filter=^(sgemm/|memcpy|adamw)", "--benchmark_format=json", "--benchmark_min_time=0.5"])
    for row in json.loads(out)["benchmarks"]:
        kind = row["name"].split("/")[0]
        best[kind] = max(best[kind], row["GFLOP/s" if kind == "sgemm" else "GB/s"])
    return best


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0]}, {len(names)} logical cores" if names else "unknown processor"


def table(mt, rivals, rates, torch_sgemm, versions):
    seconds, peak, row, kinds = mt
    rate = lambda s: TOKENS / s
    print(f"Machine: {machine()}. {versions}\n")
    print("| | tokens/s | step | mt is faster by | useful GFLOP/s | peak memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, s, p in [("mt", seconds, peak), *rivals]:
        print(f"| {name} | {rate(s):.0f} | {s:.2f} s | {s / seconds:.2f} x | {USEFUL_FLOPS / s / 1e9:.0f} | {p / 2**30:.2f} GiB |")
    print()
    if sgemm := rates.get("sgemm"):
        kind = "below" if torch_sgemm < 0.6 * sgemm else "above"
        print(f"sgemm {PRODUCT}: oneDNN {sgemm:.0f} GFLOP/s, PyTorch {torch_sgemm:.0f} GFLOP/s ({kind} 60 % of oneDNN's); "
              f"mt's useful rate is {100 * USEFUL_FLOPS / seconds / 1e9 / sgemm:.0f} % of oneDNN's.")
    else:
        print(f"sgemm {PRODUCT}: PyTorch {torch_sgemm:.0f} GFLOP/s; kernels_bench is not built, so oneDNN's rate was not measured.")
    print(f"Planned: device {row['device_bytes'] / 2**20:.1f} MiB, host {row['host_bytes'] / 2**20:.1f} MiB.\n")
    print("| kind of command | ms a step |\n| --- | ---: |")
    for kind, (ms, _) in sorted(kinds.items(), key=lambda k: -k[1][0]):
        print(f"| {kind} | {ms:.0f} |")
    if rates:
        print(f"\nAdamW moves {rates['adamw']:.1f} GB/s against {rates['memcpy']:.1f} GB/s of a plain copy on one thread.")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build"))
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--skip-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--child", choices=["eager", "compile", "sgemm"], help=argparse.SUPPRESS)
    o = p.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: this compares with PyTorch, and torch is not installed here (pip install torch==2.13.0)")
        return
    if o.child:
        return child_sgemm() if o.child == "sgemm" else child_torch(o.child, o.steps)
    bin_ = pathlib.Path(o.build).resolve() / "bin"
    torch_sgemm = json.loads(measured([sys.executable, __file__, "--child", "sgemm"])[0])
    rates = run_kernels_bench(bin_)
    with tempfile.TemporaryDirectory(prefix="mt-bench-") as folder:
        mt = run_mt(bin_, pathlib.Path(folder), o.steps)
    modes = ["eager"] if o.skip_compile else ["eager", "compile"]
    rivals = [(f"PyTorch {mode}", *run_torch(mode, o.steps)) for mode in modes]
    table(mt, rivals, rates, torch_sgemm, f"PyTorch {torch.__version__}; median of {o.steps} steps after {WARMUP}.")


if __name__ == "__main__":
    main()
