"""Writes a checkpoint folder as Hugging Face has them: a Llama of two layers whose weights are random, and a tokenizer of
the 256 bytes. Standard library only.

    python3 make_base.py FOLDER
"""
import json
import pathlib
import random
import struct
import sys

WIDTH, INNER, LAYERS, HEADS, KV_HEADS, BYTES = 96, 256, 2, 4, 2, 256
END = BYTES  # the token that ends a text

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": BYTES + 1, "hidden_size": WIDTH,
    "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 512, "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "tie_word_embeddings": True, "eos_token_id": END, "torch_dtype": "float32",
}


def tensors():
    """name -> (shape, deviation); without one, all are 1."""
    yield "model.embed_tokens.weight", (BYTES + 1, WIDTH), 0.02
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        rows = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (WIDTH * KV_HEADS // HEADS, WIDTH),
                "self_attn.v_proj": (WIDTH * KV_HEADS // HEADS, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
                "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}
        for part, shape in rows.items():
            yield f"{name}{part}.weight", shape, 0.05
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}{norm}.weight", (WIDTH,), None
    yield "model.norm.weight", (WIDTH,), None


def write_weights(path):
    draw, header, body = random.Random(0), {}, bytearray()
    for name, shape, deviation in tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [draw.gauss(0, deviation) if deviation else 1.0 for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 4 * count]}
        body += struct.pack(f"<{count}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def letters():
    """The character that stands for each byte in GPT-2's tokenizers: itself where it can be seen, else one from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unseen = [byte for byte in range(BYTES) if byte not in seen]
    return [chr(byte if byte in seen else BYTES + unseen.index(byte)) for byte in range(BYTES)]


def tokenizer():
    end = {"id": END, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {letter: byte for byte, letter in enumerate(letters())}, "merges": []}}


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
(folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
(folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
write_weights(folder / "model.safetensors")
