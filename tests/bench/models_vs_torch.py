"""Training steps of mt against PyTorch - eager, torch.compile, and both under autocast to bf16 - on this machine, in this run,
one after another in turns: useful tokens a second, medians, peak memory. AdamW, clipping. Prints tables in Markdown for
docs/measurements.md.

    build/bin must hold the programs and kernels_bench; python must have torch (and, for models that are exported, onnx and
    onnxscript), else this says so and does nothing:
    python tests/bench/models_vs_torch.py [gpt2 llama bert vit resnet convnext] [--precision fp32 bf16] [--steps 6] [--rounds 2] [--skip-compile] [--threads N] [--target NAME_OR_FILE] [--isa NAME]
"""
import argparse
import collections
import contextlib
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
DISK = "1GB"  # a second, of which plans with state in a file make use: any disk has it


class Decoder:
    """A decoder of causal language modelling; its graph is mtmodel's, its rival plain PyTorch of the same operations."""

    def __init__(self, name, batch, seq, vocab, layers, hidden, heads, intermediate, positions):
        self.name, self.batch, self.seq, self.vocab, self.layers = name, batch, seq, vocab, layers
        self.hidden, self.heads, self.intermediate, self.positions = hidden, heads, intermediate, positions
        self.what, self.unit, self.units = f"batch {batch}, sequence {seq}", "tokens", batch * seq

    def files(self, bin_, folder, steps):
        """Writes model and data; options of mtc and of mtrun."""
        values = random.Random(0)
        count = (self.seq + 1) * self.batch * (WARMUP + steps + 2)
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{count}H", *(values.randrange(self.vocab) for _ in range(count))))
        sizes = f"--layers {self.layers} --hidden {self.hidden} --heads {self.heads} --intermediate {self.intermediate} --vocab {self.vocab}"
        kind = f"gpt2 {sizes} --seq {self.positions}" if self.name == "gpt2" else f"llama {sizes} --kv-heads {self.heads}"
        measured([bin_ / "mtmodel", *kind.split(), "-o", "model.onnx"], cwd=folder)
        return ["--seq", self.seq], ["--data", "tokens.bin"]

    def feed(self, torch):
        ids = torch.randint(0, self.vocab, (self.batch, self.seq + 1))
        return (ids[:, :-1],), ids[:, 1:].reshape(-1)

    def module(self):
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

        class Whole(nn.Module):
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

            def forward(self, ids):
                x = self.wte(ids)
                if self.wpe is not None:
                    x = x + self.wpe(torch.arange(m.seq))
                for block in self.blocks:
                    x = block(x, self.rotary)
                return (self.ln_f(x) @ self.head.weight.T).view(-1, m.vocab)

        return Whole()


class Exported:
    """A model of plain PyTorch that mt gets as torch.onnx exports it."""

    def __init__(self, name, batch, what, unit, units, classes, module, inputs):
        self.name, self.batch, self.classes, self.inputs, self.module = name, batch, classes, inputs, module
        self.what, self.unit, self.units = f"batch {batch}, {what}", unit, units

    def feed(self, torch):
        x = self.inputs(torch, self.batch)
        return (x,), torch.randint(0, self.classes, x.shape if x.dtype == torch.int64 else x.shape[:1]).reshape(-1)

    def files(self, bin_, folder, steps):
        import numpy
        import torch
        torch.manual_seed(0)
        (x,), _ = self.feed(torch)
        name = "input_ids" if x.dtype == torch.int64 else "pixels"
        measured([sys.executable, __file__, self.name, "--child", "export", "--to", folder / "model.onnx"])
        rows = self.batch * (WARMUP + steps)
        labels = numpy.random.default_rng(0).integers(0, self.classes, (rows, *x.shape[1:]) if x.dtype == torch.int64 else rows)
        numpy.savez(folder / "data.npz", **{name: self.inputs(torch, rows).numpy(), "labels": labels})
        return ["--loss", "cross-entropy"], ["--data", "data.npz"]

    def export(self, path):
        import torch
        torch.manual_seed(0)
        (x,), _ = self.feed(torch)
        names = {"input_names": ["input_ids" if x.dtype == torch.int64 else "pixels"], "output_names": ["logits"]}
        if self.name != "resnet":
            dynamic = ({0: torch.export.Dim.DYNAMIC},)
            torch.onnx.export(self.module().eval(), (x,), path, dynamo=True, optimize=False, dynamic_shapes=dynamic, verbose=False, **names)
            return
        training = torch.onnx.TrainingMode.TRAINING  # normalization by the batch's statistics, which the newer exporter does not write
        torch.onnx.export(self.module().train(), (x,), path, dynamo=False, training=training, do_constant_folding=False, opset_version=17,
                          dynamic_axes={names["input_names"][0]: {0: "batch"}}, **names)


def encoder(torch, hidden, heads, layers, intermediate, before):
    """Layers of an encoder: norms before their branch, or behind the sum."""
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
            self.fc, self.out = nn.Linear(hidden, intermediate), nn.Linear(intermediate, hidden)

        def mix(self, x):
            heads_of = lambda t: t.view(t.shape[0], t.shape[1], heads, hidden // heads).transpose(1, 2)
            mixed = F.scaled_dot_product_attention(heads_of(self.q(x)), heads_of(self.k(x)), heads_of(self.v(x)))
            return self.o(mixed.transpose(1, 2).reshape(x.shape))

        def forward(self, x):
            if before:
                x = x + self.mix(self.ln_1(x))
                return x + self.out(F.gelu(self.fc(self.ln_2(x))))
            x = self.ln_1(x + self.mix(x))
            return self.ln_2(x + self.out(F.gelu(self.fc(x))))

    return nn.ModuleList(Block() for _ in range(layers))


def small(module):
    from torch import nn
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.02)
    return module


def bert():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.kinds = nn.Embedding(30522, 768), nn.Embedding(512, 768), nn.Embedding(2, 768)
            self.ln, self.blocks = nn.LayerNorm(768), encoder(torch, 768, 12, 12, 3072, before=False)
            self.dense, self.ln_head, self.bias = nn.Linear(768, 768), nn.LayerNorm(768), nn.Parameter(torch.zeros(30522))

        def forward(self, ids):
            x = self.ln(self.words(ids) + self.places(torch.arange(ids.shape[1])) + self.kinds(torch.zeros_like(ids)))
            for block in self.blocks:
                x = block(x)
            return self.ln_head(F.gelu(self.dense(x))) @ self.words.weight.T + self.bias

    return small(Bert())


def vit():
    import torch
    from torch import nn

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.first = nn.Conv2d(3, 768, 16, 16), nn.Parameter(torch.zeros(1, 1, 768))
            self.places, self.blocks = nn.Parameter(torch.zeros(1, 197, 768)), encoder(torch, 768, 12, 12, 3072, before=True)
            self.ln, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

        def forward(self, pixels):
            x = self.patches(pixels).flatten(2).transpose(1, 2)
            x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln(x)[:, 0])

    return small(Vit())


def resnet():
    import torch
    from torch import nn

    def normed(i, o, size, stride=1):
        return nn.Sequential(nn.Conv2d(i, o, size, stride, size // 2, bias=False), nn.BatchNorm2d(o))

    class Bottleneck(nn.Module):
        def __init__(self, i, width, stride):
            super().__init__()
            self.down, self.across, self.up = normed(i, width, 1), normed(width, width, 3, stride), normed(width, 4 * width, 1)
            self.short = normed(i, 4 * width, 1, stride) if stride > 1 or i != 4 * width else nn.Identity()

        def forward(self, x):
            y = self.up(torch.relu(self.across(torch.relu(self.down(x)))))
            return torch.relu(y + self.short(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, blocks, channels = normed(3, 64, 7, 2), [], 64
            for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
                for n in range(count):
                    blocks.append(Bottleneck(channels, width, 2 if n == 0 and width > 64 else 1))
                    channels = 4 * width
            self.pool, self.blocks, self.head = nn.MaxPool2d(3, 2, 1), nn.Sequential(*blocks), nn.Linear(2048, 1000)

        def forward(self, pixels):
            return self.head(self.blocks(self.pool(torch.relu(self.stem(pixels)))).mean((2, 3)))

    return ResNet()


def convnext():
    import torch
    from torch import nn

    class Last(nn.Module):
        """A module of the last dimension, which here are channels."""

        def __init__(self, *inner):
            super().__init__()
            self.inner = nn.Sequential(*inner)

        def forward(self, x):
            return self.inner(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.across = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.mixed = Last(nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.scale = nn.Parameter(torch.full((width, 1, 1), 0.1))

        def forward(self, x):
            return x + self.scale * self.mixed(self.across(x))

    class ConvNext(nn.Module):
        def __init__(self):
            super().__init__()
            parts, before = [nn.Conv2d(3, 96, 4, 4), Last(nn.LayerNorm(96, 1e-6))], 96
            for width, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
                if width > before:
                    parts += [Last(nn.LayerNorm(before, 1e-6)), nn.Conv2d(before, width, 2, 2)]
                parts += [Block(width) for _ in range(count)]
                before = width
            self.parts, self.ln, self.head = nn.Sequential(*parts), nn.LayerNorm(768, 1e-6), nn.Linear(768, 1000)

        def forward(self, pixels):
            return self.head(self.ln(self.parts(pixels).mean((2, 3))))

    return ConvNext()


def pictures(torch, rows):
    return torch.randn(rows, 3, 224, 224)


MODELS = {m.name: m for m in (
    Decoder("gpt2", 4, 256, 50257, 12, 768, 12, 3072, 1024), Decoder("llama", 1, 1024, 32000, 12, 768, 12, 2048, 1024),
    Exported("bert", 8, "sequence 128", "tokens", 8 * 128, 30522, bert, lambda torch, rows: torch.randint(0, 30522, (rows, 128))),
    Exported("vit", 8, "224 x 224", "pictures", 8, 1000, vit, pictures), Exported("resnet", 8, "224 x 224", "pictures", 8, 1000, resnet, pictures),
    Exported("convnext", 8, "224 x 224", "pictures", 8, 1000, convnext, pictures))}


def child_torch(model, precision, mode, steps, threads):
    """Steps of PyTorch; prints seconds of each after the warm-up."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module = model.module()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

    def loss(inputs, labels):
        logits = module(*inputs)
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels)

    loss_of = torch.compile(loss) if mode == "compile" else loss
    narrow = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    seconds = []
    for _ in range(WARMUP + steps):
        feed = model.feed(torch)
        begin = time.perf_counter()
        with narrow:
            value = loss_of(*feed)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        value.item()
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

    def __init__(self, bin_, folder, model, precision, steps, threads, target, isa):
        self.folder, self.steps = folder, steps
        compiling, running = model.files(bin_, folder, steps)
        self.compile = [bin_ / "mtc", "compile", "model.onnx", "-o", "plan.bin", "--batch", model.batch, *compiling, "--clip", "--precision", precision,
                        "--target", target]
        self.dump = [bin_ / "mtc", "dump", "plan.bin", "--format", "json"]
        out, _ = measured(self.compile, cwd=folder)
        print(out.strip().splitlines()[-1], file=sys.stderr)
        self.train = [bin_ / "mtrun", "plan.bin", *running, "--lr", 1e-4, "--weight-decay", 0.1, "--decay", "all", "--threads", threads,
                      "--steps", WARMUP + steps, "--out", "timed", "--metrics", "m.jsonl", "--overwrite", *(["--isa", isa] if isa else [])]

    def shrink(self, bytes_):
        """Another plan, with so much less memory for activations and gradients, or else in all, with state in a file;
        whether there is one."""
        out, _ = measured(self.dump, cwd=self.folder)
        spaces = [space for space in json.loads(out)["spaces"] if space["kind"] != "file"]
        device = next(space["bytes"] for space in spaces if space["kind"] == "device")
        whole = sum(space["bytes"] for space in spaces)
        (self.folder / "state").mkdir(exist_ok=True)
        ways = {"": (["--device-memory", f"{int(device - bytes_)}B"], []),
                ", state in a file": (["--host-memory", f"{int(whole - bytes_)}B", "--disk", DISK], ["--state-dir", "state"])}
        for what, (compiling, running) in ways.items():
            done = subprocess.run([str(w) for w in [*self.compile, *compiling]], cwd=self.folder, capture_output=True, text=True)
            print(done.stderr.strip() or done.stdout.strip().splitlines()[-1], file=sys.stderr)
            if done.returncode == 0:
                self.name, self.train = f"mt, in 60 % of the least of PyTorch's memory{what}", [*self.train, *running]
                return True
        return False

    def run(self):
        (self.folder / "m.jsonl").unlink(missing_ok=True)
        _, peak = measured(self.train, cwd=self.folder)
        records = [json.loads(line) for line in open(self.folder / "m.jsonl")]
        self.useful_flops = next(r["useful_flops"] for r in records if "useful_flops" in r)
        rows = [r for r in records if "loss" in r and "step_ms" in r]
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
    p.add_argument("--target", default="cpu", help="of mt's plans: a name, or a file that mtrun probe wrote on this machine")
    p.add_argument("--isa", help="instructions that mt is held to, as mtrun --isa")
    p.add_argument("--skip-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--child", choices=["eager", "compile", "export"], help=argparse.SUPPRESS)
    p.add_argument("--to", help=argparse.SUPPRESS)
    o = p.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: this compares with PyTorch, and torch is not installed here (pip install torch==2.13.0)")
        return
    models = [MODELS[name] for name in o.models or MODELS]
    if o.child == "export":
        return models[0].export(o.to)
    if o.child:
        return child_torch(models[0], o.precision[0], o.child, o.steps, o.threads)
    bin_ = pathlib.Path(o.build).resolve() / "bin"
    target = str(pathlib.Path(o.target).resolve()) if pathlib.Path(o.target).is_file() else o.target
    isa = o.isa or json.loads(measured([bin_ / "mtc", "target", target])[0]).get("isa")
    print(f"Machine: {machine()}; {o.threads} threads{f', mt held to {isa}' if isa else ''}. PyTorch {torch.__version__}; median of {o.rounds} times {o.steps} steps, in turns, each "
          f"after {WARMUP}.")
    if rate := best_rate(bin_):
        print(f"oneDNN's best sgemm: {rate:.0f} GFLOP/s.")
    for model in models:
        print(f"\n{model.name}, {model.what}\n")
        print(f"| | precision | {model.unit}/s | step | mt is faster by | useful GFLOP/s | peak memory | mt takes |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for precision in o.precision:
            with tempfile.TemporaryDirectory(prefix="mt-bench-") as folder:
                rivals = [Mt(bin_, pathlib.Path(folder), model, precision, o.steps, o.threads, target, o.isa)]
                rivals += [Torch(model, precision, mode, o.steps, o.threads) for mode in (["eager"] if o.skip_compile else ["eager", "compile"])]
                seconds, peaks = collections.defaultdict(list), {}
                for _ in range(o.rounds):
                    for rival in rivals:
                        times, peak = rival.run()
                        seconds[rival.name] += times
                        peaks[rival.name] = max(peak, peaks.get(rival.name, 0))
                spare = peaks["mt"] - 0.6 * min(peak for name, peak in peaks.items() if name != "mt")
                if spare > 0 and rivals[0].shrink(spare + (4 << 20)):
                    times, peak = rivals[0].run()
                    seconds[rivals[0].name], peaks[rivals[0].name] = times, peak
            median = {name: statistics.median(times) for name, times in seconds.items()}
            for name, s in median.items():
                print(f"| {name} | {precision} | {model.units / s:.{0 if model.units / s >= 100 else 2}f} | {s:.2f} s | {s / median['mt']:.2f} x | {rivals[0].useful_flops / s / 1e9:.0f} "
                      f"| {peaks[name] / 2**30:.2f} GiB | {100 * peaks['mt'] / peaks[name]:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
