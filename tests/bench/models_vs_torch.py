"""Training steps of mt against PyTorch - eager, torch.compile, and both under autocast to bf16 - on this machine, in this run,
one after another in turns: useful tokens a second, medians, peak memory. AdamW, clipping. Prints tables in Markdown for
docs/measurements.md.

    build/bin must hold the programs and kernels_bench; python must have torch, else this says so and does nothing:
    python tests/bench/models_vs_torch.py [gpt2 llama] [--precision fp32 bf16] [--steps 6] [--rounds 2] [--skip-compile] [--threads N]
"""
import argparse
import collections
import contextlib
import dataclasses
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

WARMUP = 2


@dataclasses.dataclass
class Model:
    """A decoder of causal language modelling; its graph is mtmodel's, its rival plain PyTorch of the same operations."""
    name: str
    batch: int
    seq: int
    vocab: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    positions: int

    @property
    def tokens(self):
        return self.batch * self.seq

    @property
    def mt(self):
        sizes = f"--layers {self.layers} --hidden {self.hidden} --heads {self.heads} --intermediate {self.intermediate} --vocab {self.vocab}"
        return f"gpt2 {sizes} --seq {self.positions}" if self.name == "gpt2" else f"llama {sizes} --kv-heads {self.heads}"

    @property
    def useful_flops(self):
        """Of a step, what the model needs: 6 per parameter of a product and token, and causal attention's two products, forward
        and twice backward, half of the square."""
        mlp = (2 if self.name == "gpt2" else 3) * self.hidden * self.intermediate
        return 6 * (self.layers * (4 * self.hidden**2 + mlp) + self.vocab * self.hidden + self.layers * self.seq * self.hidden) * self.tokens

    def torch(self):
        import torch
        from torch import nn
        from torch.nn import functional as F
        m, width = self, self.hidden // self.heads

        def split(x):
            return x.view(m.batch, m.seq, m.heads, width).transpose(1, 2)

        def join(x):
            return x.transpose(1, 2).reshape(m.batch, m.seq, m.hidden)

        class Gpt2Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.ln_1, self.ln_2 = nn.LayerNorm(m.hidden), nn.LayerNorm(m.hidden)
                self.attn, self.proj = nn.Linear(m.hidden, 3 * m.hidden), nn.Linear(m.hidden, m.hidden)
                self.fc, self.out = nn.Linear(m.hidden, m.intermediate), nn.Linear(m.intermediate, m.hidden)

            def forward(self, x, _):
                q, k, v = map(split, self.attn(self.ln_1(x)).split(m.hidden, 2))
                x = x + self.proj(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
                return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

        class LlamaBlock(nn.Module):
            def __init__(self):
                super().__init__()
                linear = lambda i, o: nn.Linear(i, o, bias=False)
                self.ln_1, self.ln_2 = nn.RMSNorm(m.hidden), nn.RMSNorm(m.hidden)
                self.q, self.k, self.v, self.o = (linear(m.hidden, m.hidden) for _ in range(4))
                self.gate, self.up, self.down = linear(m.hidden, m.intermediate), linear(m.hidden, m.intermediate), linear(m.intermediate, m.hidden)

            def forward(self, x, rotary):
                def turned(t):
                    a, b = t.chunk(2, -1)
                    return t * rotary[0] + torch.cat((-b, a), -1) * rotary[1]
                y = self.ln_1(x)
                mixed = F.scaled_dot_product_attention(turned(split(self.q(y))), turned(split(self.k(y))), split(self.v(y)), is_causal=True)
                x = x + self.o(join(mixed))
                y = self.ln_2(x)
                return x + self.down(F.silu(self.gate(y)) * self.up(y))

        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                gpt2 = m.name == "gpt2"
                self.wte, self.wpe = nn.Embedding(m.vocab, m.hidden), nn.Embedding(m.positions, m.hidden) if gpt2 else None
                self.blocks = nn.ModuleList((Gpt2Block if gpt2 else LlamaBlock)() for _ in range(m.layers))
                self.ln_f = nn.LayerNorm(m.hidden) if gpt2 else nn.RMSNorm(m.hidden)
                self.head = self.wte if gpt2 else nn.Embedding(m.vocab, m.hidden)
                angles = torch.outer(torch.arange(m.seq), 10000.0 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
                self.rotary = (angles.cos(), angles.sin())
                for p in self.parameters():
                    if p.ndim > 1:
                        nn.init.normal_(p, std=0.02)

            def forward(self, ids, labels):
                x = self.wte(ids)
                if self.wpe is not None:
                    x = x + self.wpe(torch.arange(m.seq))
                for block in self.blocks:
                    x = block(x, self.rotary)
                return F.cross_entropy((self.ln_f(x) @ self.head.weight.T).view(-1, m.vocab).float(), labels.reshape(-1))

        return Decoder()


MODELS = {m.name: m for m in (Model("gpt2", 4, 256, 50257, 12, 768, 12, 3072, 1024), Model("llama", 1, 1024, 32000, 12, 768, 12, 2048, 1024))}


def child_torch(model, precision, mode, steps, threads):
    """Steps of PyTorch; prints seconds of each after the warm-up."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module = model.torch()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss_of = torch.compile(module) if mode == "compile" else module
    narrow = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    seconds = []
    for _ in range(WARMUP + steps):
        ids = torch.randint(0, model.vocab, (model.batch, model.seq + 1))
        begin = time.perf_counter()
        with narrow:
            loss = loss_of(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds[WARMUP:]))


def measured(command, cwd=None):
    """Runs a command; its standard output and its peak resident bytes."""
    process = subprocess.Popen([str(w) for w in command], cwd=cwd, stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return out, usage.ru_maxrss * 1024


class Mt:
    name = "mt"

    def __init__(self, bin_, folder, model, precision, steps, threads):
        self.folder, self.steps = folder, steps
        values = random.Random(0)
        count = (model.seq + 1) * model.batch * (WARMUP + steps + 2)
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{count}H", *(values.randrange(model.vocab) for _ in range(count))))
        measured([bin_ / "mtmodel", *model.mt.split(), "-o", "model.onnx"], cwd=folder)
        out, _ = measured([bin_ / "mtc", "compile", "model.onnx", "-o", "plan.bin", "--batch", model.batch, "--seq", model.seq, "--clip",
                           "--precision", precision, "--target", "cpu"], cwd=folder)
        print(out.strip().splitlines()[-1], file=sys.stderr)
        self.train = [bin_ / "mtrun", "plan.bin", "--data", "tokens.bin", "--lr", 1e-4, "--weight-decay", 0.1, "--decay", "all", "--threads", threads,
                      "--steps", WARMUP + steps, "--out", "timed", "--metrics", "m.jsonl", "--overwrite"]

    def run(self):
        (self.folder / "m.jsonl").unlink(missing_ok=True)
        _, peak = measured(self.train, cwd=self.folder)
        rows = [r for r in map(json.loads, open(self.folder / "m.jsonl")) if "loss" in r and "step_ms" in r]
        return [r["step_ms"] / 1e3 for r in rows[WARMUP:]], peak


class Torch:
    def __init__(self, model, precision, mode, steps, threads):
        self.name = f"PyTorch {mode}" + (", autocast" if precision == "bf16" else "")
        self.command = [sys.executable, __file__, model.name, "--precision", precision, "--child", mode, "--steps", steps, "--threads", threads]

    def run(self):
        out, peak = measured(self.command)
        return json.loads(out.splitlines()[-1]), peak


def best_rate(bin_):
    """oneDNN's best sgemm rate on all cores, GFLOP/s, from kernels_bench; None where it is not built."""
    program = bin_ / "kernels_bench"
    if not program.exists():
        return None
    out, _ = measured([program, "--benchmark_filter=^sgemm/", "--benchmark_format=json", "--benchmark_min_time=0.5"])
    return max(row["GFLOP/s"] for row in json.loads(out)["benchmarks"])


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    flags = set(next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").split())
    has = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{names[0] if names else 'unknown processor'}, {len(names)} logical cores, {' '.join(has)}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", choices=[*MODELS, []], default=[])
    p.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    p.add_argument("--build", default=str(pathlib.Path(__file__).resolve().parents[2] / "build"))
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--rounds", type=int, default=2, help="in each of which all are run")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--skip-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--child", choices=["eager", "compile"], help=argparse.SUPPRESS)
    o = p.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: this compares with PyTorch, and torch is not installed here (pip install torch==2.13.0)")
        return
    models = [MODELS[name] for name in o.models or MODELS]
    if o.child:
        return child_torch(models[0], o.precision[0], o.child, o.steps, o.threads)
    bin_ = pathlib.Path(o.build).resolve() / "bin"
    print(f"Machine: {machine()}; {o.threads} threads. PyTorch {torch.__version__}; median of {o.rounds} times {o.steps} steps, in turns, each "
          f"after {WARMUP}.")
    if rate := best_rate(bin_):
        print(f"oneDNN's best sgemm: {rate:.0f} GFLOP/s.")
    for model in models:
        print(f"\n{model.name}, batch {model.batch}, sequence {model.seq}\n")
        print("| | precision | tokens/s | step | mt is faster by | useful GFLOP/s | peak memory | mt takes |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for precision in o.precision:
            with tempfile.TemporaryDirectory(prefix="mt-bench-") as folder:
                rivals = [Mt(bin_, pathlib.Path(folder), model, precision, o.steps, o.threads)]
                rivals += [Torch(model, precision, mode, o.steps, o.threads) for mode in (["eager"] if o.skip_compile else ["eager", "compile"])]
                seconds, peaks = collections.defaultdict(list), {}
                for _ in range(o.rounds):
                    for rival in rivals:
                        times, peak = rival.run()
                        seconds[rival.name] += times
                        peaks[rival.name] = max(peak, peaks.get(rival.name, 0))
            median = {name: statistics.median(times) for name, times in seconds.items()}
            for name, s in median.items():
                print(f"| {name} | {precision} | {model.tokens / s:.0f} | {s:.2f} s | {s / median['mt']:.2f} x | {model.useful_flops / s / 1e9:.0f} "
                      f"| {peaks[name] / 2**30:.2f} GiB | {100 * peaks['mt'] / peaks[name]:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
