"""The rival of tools/bundle/bench.py: the same Llama shapes in PyTorch with FSDP2 (fully_shard) on one GPU, parameters, gradients and
optimizer state on the CPU (CPUOffloadPolicy), fp32 master weights, bf16 compute, fp32 gradients, AdamW on the CPU, not compiled. Of
several ways to fit the batch it measures those that fit and takes the best; the file always holds the best so far, or
{"skipped": why} where the host's memory is too small. Needs a GPU and a torch whose FSDP2 has set_reshard_after_forward.

    python llama_vs_fsdp2.py 1b|3b|7b --batch N [--sequence 1024] [-o FILE.json] [--seconds 300] [--threads N]
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time

# As tools/bundle.sh gives them to mtmodel.
SHAPES = {
    "1b": dict(layers=22, hidden=2048, intermediate=5632, heads=32, kv_heads=4, vocabulary=32000),
    "3b": dict(layers=28, hidden=3072, intermediate=8192, heads=24, kv_heads=8, vocabulary=32000),
    "7b": dict(layers=32, hidden=4096, intermediate=11008, heads=32, kv_heads=32, vocabulary=32000),
}
WARMUP, STEPS = 1, 3
LOSS_ROWS = 4  # sequences whose logits exist at once


def build(torch, shape):
    """The model on the CPU in fp32, its layers to be sharded, and how a batch gives a loss."""
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    hidden, heads, kv_heads = shape["hidden"], shape["heads"], shape["kv_heads"]
    width = hidden // heads
    linear = lambda inner, outer: nn.Linear(inner, outer, bias=False)

    def turned(x, cosine, sine):
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat((-b, a), -1) * sine

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_mlp = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
            self.q, self.k, self.v = linear(hidden, hidden), linear(hidden, kv_heads * width), linear(hidden, kv_heads * width)
            self.o = linear(hidden, hidden)
            self.gate, self.up = linear(hidden, shape["intermediate"]), linear(hidden, shape["intermediate"])
            self.down = linear(shape["intermediate"], hidden)

        def forward(self, x, cosine, sine):
            rows, length, _ = x.shape
            split = lambda t, count: t.view(rows, length, count, width).transpose(1, 2)
            n = self.before_attention(x)
            q, k, v = turned(split(self.q(n), heads), cosine, sine), turned(split(self.k(n), kv_heads), cosine, sine), split(self.v(n), kv_heads)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads != heads)
            x = x + self.o(mixed.transpose(1, 2).reshape(rows, length, hidden))
            n = self.before_mlp(x)
            return x + self.down(F.silu(self.gate(n)) * self.up(n))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(shape["vocabulary"], hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm, self.head = nn.RMSNorm(hidden, eps=1e-5), linear(hidden, shape["vocabulary"])
            self.recompute = False

        def chunk_loss(self, x, labels):
            logits = self.head(self.norm(x)).float()
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")

        def forward(self, ids, labels):
            x = self.embedding(ids)
            length = ids.shape[1]
            frequencies = 10000.0 ** (-torch.arange(0, width, 2, device=ids.device, dtype=torch.float32) / width)
            angles = torch.outer(torch.arange(length, device=ids.device, dtype=torch.float32), frequencies).repeat(1, 2)
            cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
            for block in self.blocks:
                x = checkpoint(block, x, cosine, sine, use_reentrant=False) if self.recompute else block(x, cosine, sine)
            # Logits of a few rows at a time, made again in backward: all of them at once would not fit.
            total = sum(checkpoint(self.chunk_loss, some, wanted, use_reentrant=False)
                        for some, wanted in zip(x.split(LOSS_ROWS), labels.split(LOSS_ROWS)))
            return total / labels.numel()

    with torch.device("meta"):
        model = Llama()
    return model.to_empty(device="cpu")


def initialize(torch, model):
    """Values as good as any for speed: one block of random numbers, repeated; drawing 7 B of them takes a minute."""
    block = torch.randn(1 << 22) * 0.02
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.fill_(1)
                continue
            flat = parameter.view(-1)
            for begin in range(0, flat.numel(), block.numel()):
                piece = flat[begin:begin + block.numel()]
                piece.copy_(block[:piece.numel()])


def shard(torch, model):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    policy = dict(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
                  offload_policy=CPUOffloadPolicy(pin_memory=True))
    for block in model.blocks:
        fully_shard(block, **policy)
    fully_shard(model, **policy)


def optimizer_of(torch, model):
    """The fastest AdamW that takes sharded parameters of the CPU; tried on the smallest of them."""
    settings = dict(lr=1e-5, weight_decay=0.01)
    for options in (dict(fused=True), dict(foreach=True), dict(foreach=False)):
        try:
            model.norm.weight.grad = torch.zeros_like(model.norm.weight)
            torch.optim.AdamW([model.norm.weight], **settings, **options).step()
        except Exception as problem:  # whatever a version of torch says to what it does not support
            print(f"AdamW({options}): {problem}", file=sys.stderr)
            continue
        model.norm.weight.grad = None
        return torch.optim.AdamW(model.parameters(), **settings, **options), next(iter(options.items()))
    raise SystemExit("no AdamW takes these parameters")


def step(torch, model, optimizer, ids, micro):
    """One optimizer step over the batch in micro-batches, whose gradients are summed on the GPU and fetched once; its loss."""
    loss = 0.0
    pieces = list(zip(ids[:, :-1].split(micro), ids[:, 1:].split(micro)))
    for i, (inputs, labels) in enumerate(pieces):
        model.set_requires_gradient_sync(i == len(pieces) - 1)
        part = model(inputs, labels) * (inputs.shape[0] / ids.shape[0])
        part.backward()
        loss += part.detach()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def ways(batch):
    """Rows at a time, whether activations are computed again, and whether layers' weights stay on the GPU from forward to backward;
    what surely fits comes first. Weights cross the link once or twice for each micro-batch, so few large ones are best."""
    if batch > 32:
        yield batch // 2, True, False
    for recompute in (True, False):
        for stay in (False, True):
            yield batch, recompute, stay


def measure(torch, model, optimizer, batch, sequence, way, until):
    micro, model.recompute, stay = way
    for block in model.blocks:
        block.set_reshard_after_forward(not stay)
    seconds, losses = [], []
    torch.cuda.reset_peak_memory_stats()
    for i in range(WARMUP + STEPS):
        ids = torch.randint(0, 32000, (batch, sequence + 1), device="cuda")
        torch.cuda.synchronize()
        began = time.perf_counter()
        losses.append(step(torch, model, optimizer, ids, micro))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        if i >= WARMUP and time.monotonic() + seconds[-1] > until:
            break
    taken = seconds[WARMUP:]
    return {"step_seconds": statistics.median(taken), "tokens_per_s": batch * sequence / statistics.median(taken), "steps": len(taken),
            "micro_batch": micro, "recompute": model.recompute, "weights_stay": stay, "device_bytes": torch.cuda.max_memory_reserved(), "losses": losses}


def compare(torch, size, batch, sequence, until, keep):
    """The best way found by then. The first that runs out of memory ends it: it leaves FSDP in the middle of something."""
    model = build(torch, SHAPES[size])
    initialize(torch, model)
    shard(torch, model)
    optimizer, kind = optimizer_of(torch, model)
    tried, best = [], None
    for way in ways(batch):
        if best and time.monotonic() + (WARMUP + 1) * best["step_seconds"] > until:
            break
        name = f"micro-batch {way[0]}" + (", activations computed again" if way[1] else "") + (", weights stay for backward" if way[2] else "")
        try:
            result = measure(torch, model, optimizer, batch, sequence, way, until)
        except torch.OutOfMemoryError:
            tried.append(f"{name}: out of memory")
            if best:
                keep({**best, "tried": tried})
            break
        tried.append(f"{name}: {result['tokens_per_s']:.0f} tokens/s")
        print(tried[-1], flush=True)
        if not best or result["tokens_per_s"] > best["tokens_per_s"]:
            best = {**result, "how": f"eager, {name}, AdamW {kind[0]}={kind[1]}"}
        keep({**best, "tried": tried})
    if not best:
        raise SystemExit(f"nothing fits: {'; '.join(tried)}")


def host_bytes(shape):
    """Of master, gradient and two moments of every tensor in 32 bits. The first two are pinned, and torch's allocator of pinned
    memory rounds each to a power of two; some more for torch itself and what it starts."""
    hidden, kv = shape["hidden"], shape["hidden"] // shape["heads"] * shape["kv_heads"]
    block = [hidden] * 2 + [hidden * hidden] * 2 + [hidden * kv] * 2 + [hidden * shape["intermediate"]] * 3
    tensors = block * shape["layers"] + [hidden] + [shape["vocabulary"] * hidden] * 2
    return sum(tensors), sum(2 * (1 << (4 * n - 1).bit_length()) + 8 * n for n in tensors) + (4 << 30)


def free_memory():
    """Bytes of host memory that can be taken, by the machine and by the group of processes this one is in; MT_HOST_GIB where it is said."""
    if said := os.environ.get("MT_HOST_GIB"):
        return int(said) << 30
    available = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
    group = pathlib.Path("/sys/fs/cgroup")
    limit = (group / "memory.max").read_text().strip() if (group / "memory.max").exists() else "max"
    return available if limit == "max" else min(available, int(limit) - int((group / "memory.current").read_text()))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("size", choices=SHAPES)
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--sequence", type=int, default=1024)
    p.add_argument("--seconds", type=float, default=300, help="after which no other way is tried")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the CPU's part")
    p.add_argument("-o", metavar="FILE.json")
    o = p.parse_args()
    began = time.monotonic()
    parameters, needed = host_bytes(SHAPES[o.size])

    def keep(result):
        print(json.dumps(result))
        if o.o:
            with open(o.o + ".part", "w") as file:
                json.dump(result, file)
            os.replace(o.o + ".part", o.o)

    # More than the machine has ends in the system's killer.
    available = free_memory()
    if needed > available:
        keep({"skipped": f"FSDP2 needs {needed / 2**30:.0f} GiB of host memory for {parameters / 1e9:.2f} B parameters, and "
                         f"{available / 2**30:.0f} GiB are free"})
        return
    try:
        import torch
    except ImportError:
        raise SystemExit("torch is not installed here: nothing to compare with")
    if not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU")
    import torch.distributed as distributed
    torch.manual_seed(0)
    torch.cuda.set_device(0)
    torch.set_num_threads(o.threads)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")  # there is one process, and there may be no network

    def keep_measured(result):
        keep(result | {"size": o.size, "batch": o.batch, "sequence": o.sequence, "parameters": parameters, "torch": torch.__version__,
                       "host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})

    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            compare(torch, o.size, o.batch, o.sequence, began + o.seconds, keep_measured)
        finally:
            distributed.destroy_process_group()


if __name__ == "__main__":
    main()
