"""Makes tiny checkpoint folders of every architecture that mtc reads (docs/checkpoints.md), with transformers, and notes what PyTorch does with
them in fp64: ten losses of SGD with momentum, and the gradient of the first step under the names of the checkpoint's tensors.

    pip install torch==2.13.0 transformers==5.23.0
    python folders.py make OUT [NAME ...]         OUT/NAME.tar.xz; globs work
    python folders.py names

What is made lies in folders/; `zoo.py prove folders NAME` proves a case without PyTorch, and tools/test.sh all of them (e2e.hf.*). A case holds
`checkpoint`, the folder (of some a hub's cache, whose revision it links to), data.npz, case.json and grads.json, as a case of the zoo. Parameters
keep seven bits. Some configurations are written as transformers 4 did (`old`); the reference is always what transformers 5 reads of the folder.
"""
import argparse, contextlib, copy, hashlib, io, json, os, pathlib, shutil, sys, tarfile, tempfile, types

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent / "e2e" / "golden")]
import zoo

zoo.STEPS = STEPS = 10
SEQ = 16
SMALL = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             max_position_embeddings=64, bos_token_id=0, eos_token_id=0, pad_token_id=None)
THREE = dict(SMALL, num_hidden_layers=3)
MIXED = dict(SMALL, intermediate_size=24, num_experts_per_tok=2)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=1.0)
LONG = dict(type="longrope", short_factor=[1.0, 1.1], long_factor=[1.5, 3.0])

# name: transformers' class, its configuration, and how the folder is written: dtype, shards, cache, old
CASES = {
    "gpt2": ("GPT2", dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0), {}),
    "gpt2-untied": ("GPT2", dict(vocab_size=64, n_embd=32, n_layer=1, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0, activation_function="relu",
                                 tie_word_embeddings=False), dict(dtype="float16")),
    "llama2": ("Llama", SMALL, dict(cache=True)),
    "llama3": ("Llama", dict(SMALL, head_dim=16, tie_word_embeddings=True), dict(
        dtype="bfloat16", shards=True, cache=True, old=dict(rope_theta=500000.0, rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)))),
    "llama-biases": ("Llama", dict(SMALL, attention_bias=True, mlp_bias=True, hidden_act="gelu"), dict(
        shards=True, old=dict(rope_theta=10000.0, rope_scaling=dict(type="linear", factor=4.0)))),
    "llama-dynamic": ("Llama", dict(SMALL, max_position_embeddings=8, num_key_value_heads=4), dict(
        old=dict(rope_theta=10000.0, rope_scaling=dict(type="dynamic", factor=2.0)))),
    "mistral": ("Mistral", dict(SMALL, sliding_window=6, head_dim=12), dict(dtype="bfloat16")),
    "qwen2": ("Qwen2", dict(THREE, use_sliding_window=True, sliding_window=5, max_window_layers=1, tie_word_embeddings=True), dict(
        shards=True, old=dict(rope_theta=10000.0))),
    "qwen3": ("Qwen3", dict(SMALL, head_dim=16, max_position_embeddings=256, rope_parameters=YARN), dict(dtype="bfloat16")),
    "gemma": ("Gemma", dict(SMALL, head_dim=16, num_key_value_heads=1), {}),
    "gemma2": ("Gemma2", dict(SMALL, head_dim=16, sliding_window=6, query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
               dict(dtype="float16", old=dict(rope_theta=10000.0))),
    "gemma3": ("Gemma3", dict(THREE, head_dim=16, sliding_window=6, query_pre_attn_scalar=24), dict(
        dtype="bfloat16", cache=True, old=dict(rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=3,
                                               rope_scaling=dict(rope_type="linear", factor=8.0)))),
    "phi3": ("Phi3", dict(SMALL, original_max_position_embeddings=64), {}),
    "phi3-short": ("Phi3", dict(SMALL, original_max_position_embeddings=32), dict(
        old=dict(rope_theta=10000.0, partial_rotary_factor=0.5, rope_scaling=LONG))),
    "phi3-long": ("Phi3", dict(SMALL, original_max_position_embeddings=8, sliding_window=7), dict(
        dtype="bfloat16", old=dict(rope_theta=10000.0, partial_rotary_factor=0.5, rope_scaling=LONG))),
    "smollm3": ("SmolLM3", dict(THREE, no_rope_layer_interval=3, tie_word_embeddings=True), dict(dtype="bfloat16", shards=True)),
    "olmo2": ("Olmo2", SMALL, {}),
    "granite": ("Granite", dict(SMALL, embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=3.0,
                                tie_word_embeddings=True), dict(dtype="bfloat16")),
    "mixtral": ("Mixtral", dict(MIXED, num_local_experts=4, sliding_window=None), dict(shards=True)),
    "qwen2-moe": ("Qwen2Moe", dict(MIXED, num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=20, mlp_only_layers=[0],
                                   norm_topk_prob=False), {}),
    "qwen3-moe": ("Qwen3Moe", dict(MIXED, head_dim=12, num_experts=4, decoder_sparse_step=2, use_sliding_window=True, sliding_window=6, moe_intermediate_size=16, norm_topk_prob=True), dict(dtype="bfloat16")),
    "olmoe": ("Olmoe", dict(MIXED, num_experts=4), dict(dtype="bfloat16")),
    "granite-moe": ("GraniteMoe", dict(MIXED, num_local_experts=4, embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.4,
                                       logits_scaling=3.0, tie_word_embeddings=True), {}),
}


def configured(kind, settings):
    import transformers
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(**settings)
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    return config


def classed(kind):
    import transformers
    return getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")


def write_old(folder, old):
    """The configuration as transformers 4 wrote it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name in ("rope_parameters", "layer_types", "dtype"):
        config.pop(name, None)
    path.write_text(json.dumps(config | old | dict(transformers_version="4.49.0"), indent=2) + "\n")


def in_cache(folder, root):
    """The folder as the hub's cache has it: a revision of links to blobs. Returns the revision's path in `root`."""
    model = root / "cache" / "models--tiny--checkpoint"
    revision = model / "snapshots" / ("0123456789" * 4)
    (model / "blobs").mkdir(parents=True)
    (model / "refs").mkdir()
    revision.mkdir(parents=True)
    (model / "refs" / "main").write_text(revision.name)
    for file in sorted(folder.iterdir()):
        name = hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.move(file, model / "blobs" / name)
        (revision / file.name).symlink_to(pathlib.Path("..") / ".." / "blobs" / name)
    folder.rmdir()
    return revision


def write_checkpoint(kind, settings, how, folder):
    import torch
    torch.manual_seed(0)
    model = classed(kind)(configured(kind, settings))
    with torch.no_grad():
        for p in model.parameters():
            p += 0.05 * torch.randn_like(p) if p.ndim < 2 else 0
            p.copy_(torch.from_numpy(zoo.few_bits((p if p.ndim < 2 else 4 * p).numpy())))
    model.to(getattr(torch, how.get("dtype", "float32"))).save_pretrained(folder, max_shard_size="12KB" if how.get("shards") else "1GB")
    (folder / "tokenizer.json").write_text("{}\n")  # as others lie beside
    if "old" in how:
        write_old(folder, how["old"])


def reference(kind, folder):
    """What transformers reads of the folder, in fp64, rotary angles too."""
    import torch, transformers
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    stored = classed(kind).from_pretrained(folder, dtype=torch.float64).state_dict()
    with zoo.wide_mode():
        model = classed(kind)(config).double().eval()
    model.load_state_dict(stored)
    return model


def logits_of(model):
    import torch

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, ids):
            return self.inner(input_ids=ids, use_cache=False).logits

    return Logits()


def under_stored_names(model, gradients):
    """The gradients, as the checkpoint names and cuts tensors: save_pretrained says how."""
    import torch
    from safetensors.torch import load_file
    model = copy.deepcopy(model)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for n, p in model.named_parameters():
            p.copy_(torch.from_numpy(gradients["inner." + n]))
        model.save_pretrained(folder)
        return {n: t.numpy().copy() for n, t in load_file(pathlib.Path(folder) / "model.safetensors").items()}


def make(name, out):
    import torch, transformers
    kind, settings, how = CASES[name]
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        folder = root / "checkpoint"
        write_checkpoint(kind, settings, how, folder)
        model = reference(kind, folder)
        if how.get("cache"):
            folder.parent.joinpath("checkpoint").rename(root / "plain")
            folder = in_cache(root / "plain", root)
        rows, rng = zoo.BATCH * STEPS, np.random.default_rng(1)
        ids = rng.integers(1, 64, (rows, SEQ + 1))
        data = dict(input_ids=ids[:, :-1].copy(), labels=ids[:, 1:].copy())
        case = types.SimpleNamespace(drops=0, train=False, lr=0.2, loss="causal-lm")
        inputs = dict(input_ids=data["input_ids"])
        losses, grads = zoo.pytorch(logits_of(model), case, inputs, data["labels"], True)
        losses32, grads32 = zoo.pytorch(logits_of(model).float(), case, inputs, data["labels"], False)
        want = {n: zoo.Gradient(n, g) for n, g in under_stored_names(model, grads).items()}
        info = dict(model=str(folder.relative_to(root)), batch=zoo.BATCH, loss=case.loss, lr=case.lr, seed=0, noise=False, dynamic=True,
                    mtc=["--batch", str(zoo.BATCH), "--optimizer", "sgd", "--seq", str(SEQ)],
                    mtrun=["--data", "data.npz", "--shuffle", "off", "--steps", str(STEPS), "--lr", str(case.lr), "--momentum", str(zoo.MOMENTUM),
                           "--weight-decay", "0"],
                    losses=losses, losses32=losses32, gradient32=zoo.worst_gradient(want, under_stored_names(model, grads32))[0],
                    onnxruntime=None, unmatched=[], parameters=sum(p.numel() for p in model.parameters()),
                    made_with=dict(torch=torch.__version__, transformers=transformers.__version__))
        np.savez_compressed(root / "data.npz", **data)
        (root / "case.json").write_text(json.dumps(info, indent=1) + "\n")
        (root / "grads.json").write_text(json.dumps({n: g.packed() for n, g in want.items()}))
        out.mkdir(parents=True, exist_ok=True)
        with tarfile.open(out / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            for file in sorted(root.rglob("*")):
                entry = archive.gettarinfo(file, str(file.relative_to(root)))
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
                archive.addfile(entry, file.open("rb") if entry.isreg() else None)
    size = (out / f"{name}.tar.xz").stat().st_size
    print(f"{name:16} {losses[0]:.5f} -> {losses[-1]:.5f}, fp32 {zoo.drift(losses, losses32)[1]:.1e} {info['gradient32']:.1e}; {size} bytes", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("make", "names"))
    p.add_argument("out", nargs="?", type=pathlib.Path)
    p.add_argument("names", nargs="*", help="names of cases, or globs over them")
    o = p.parse_args()
    if o.command == "names":
        return print(*CASES, sep="\n")
    for name in zoo.names_like(o.names, CASES):
        make(name, o.out)


main()
