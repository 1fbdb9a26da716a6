"""What transformers makes of prompts, always taking the likeliest token: records tests/e2e/golden/greedy.json, which
e2e.sampling holds mt against. Needs torch and transformers.

    python3 tests/zoo/greedy.py
"""
import json
import pathlib
import tarfile
import tempfile

import torch
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "e2e" / "golden"
PROMPTS = "The ", "water; a"
SMALL = "\x05\x11\x03", "\x07 "  # of a vocabulary of 64
TOKENS = 20


def texts(folder, prompts):
    """The bytes of each continuation: tokens are bytes."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    made = []
    for prompt in prompts:
        ids = list(prompt.encode())
        for _ in range(TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        made.append(ids[len(prompt):])
    return dict(zip(prompts, made))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(HERE / "folders" / "gemma2.tar.xz") as archive:
            archive.extractall(scratch, filter="data")
        gemma = next(pathlib.Path(scratch).rglob("config.json")).parent
        recorded = {"llama": texts(GOLDEN / "llama" / "hf", PROMPTS), "gpt2": texts(GOLDEN / "gpt2" / "hf", PROMPTS), "gemma2": texts(gemma, SMALL)}
    (GOLDEN / "greedy.json").write_text(json.dumps(recorded) + "\n")
    print(recorded)


if __name__ == "__main__":
    main()
