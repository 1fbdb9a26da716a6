"""What PEFT does with the adapters that mt begins with: records tests/e2e/golden/adapters.json, which e2e.adapters holds mt
against. Needs torch, transformers, peft and bitsandbytes, and mt's programs on the path.

    PATH=build/bin:$PATH python3 tests/zoo/peft_curve.py
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from bitsandbytes.functional import get_4bit_type
from peft import PeftModel
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import adapters  # noqa: E402  the cases, and how they are compiled and trained


def pack(model):
    """The weights of linear layers but the head as 4-bit NormalFloats with 16-bit scales of 64 of a row stand for them."""
    levels = get_4bit_type("nf4", device="cpu").numpy().astype(numpy.float32)
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        weight = module.weight.detach().float().numpy()
        for begin in range(0, weight.shape[1], 64):
            block = weight[:, begin:begin + 64]
            scale = torch.tensor(numpy.abs(block).max(1, keepdims=True)).bfloat16().float().numpy()
            block[:] = levels[numpy.abs(levels - (block / scale)[..., None]).argmin(-1)] * scale
        module.weight.data = torch.tensor(weight).double()


def losses(case, folder):
    """Fifty steps of PEFT from the adapter in a folder, in 64 bits, without dropout; and what is lost after them."""
    base = AutoModelForCausalLM.from_pretrained(adapters.tool.GOLDEN / case.model / "hf", dtype=torch.float64, attn_implementation="eager")
    if case.options:
        pack(base)
    model = PeftModel.from_pretrained(base, folder, is_trainable=True).double()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    data = numpy.load(adapters.tool.GOLDEN / case.model / "data.npz")
    ids, labels = torch.tensor(data["input_ids"]), torch.tensor(data["labels"])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=adapters.RATE, weight_decay=adapters.DECAY)

    def loss_of(step):
        rows = (numpy.arange(case.batch) + step * case.batch) % len(ids)
        logits = model(input_ids=ids[rows]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[rows].flatten(), ignore_index=-100)

    curve = []
    for step in range(adapters.STEPS):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


def main():
    recorded = {}
    for case in adapters.CURVES:
        with tempfile.TemporaryDirectory() as folder:
            scratch = pathlib.Path(folder)
            for command in case.begin(scratch):
                subprocess.run(command, cwd=scratch, check=True)
            recorded[case.name] = losses(case, scratch / "begun")
    out = adapters.tool.GOLDEN / "adapters.json"
    out.write_text(json.dumps(recorded, indent=0) + "\n")
    print(f"{out}: {', '.join(recorded)}")


if __name__ == "__main__":
    main()
