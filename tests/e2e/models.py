"""Every family that mtmodel writes compiles and trains: generated weights, both forms of attention, and checkpoint folders
whose weights stay where they are, in 16 bits too. The decomposed and the fused form of a model start from the same loss,
and bf16 from nearly the same.

    PATH=build/bin:$PATH python3 tests/e2e/models.py
"""
import json
import shutil
import struct
import zipfile

import tool

SMALL = "--layers 3 --hidden 64 --intermediate 160 --heads 4 --vocab 256 --seq 32"
STEPS = 12
BF16_BOUND = 0.01  # of the first loss; rounding is a few thousandths of it


def npy(kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def write_points(path, rows=64, width=16, classes=5):
    """Samples around `classes` corners, which a classifier learns at once."""
    values = [float((i % classes) == (j % classes)) + 0.01 * ((7 * i + j) % 10) for i in range(rows) for j in range(width)]
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("input.npy", npy("<f4", f"({rows}, {width})", struct.pack(f"<{len(values)}f", *values)))
        out.writestr("labels.npy", npy("<i8", f"({rows},)", struct.pack(f"<{rows}q", *(i % classes for i in range(rows)))))


def write_pairs(path, rows=64, seq=32):
    """Encoder input, decoder input shifted by one, and labels: the task is to copy."""
    source = [97 + (i * 7 + j * j) % 26 for i in range(rows) for j in range(seq)]
    shifted = [source[k - 1] if k % seq else 0 for k in range(len(source))]
    with zipfile.ZipFile(path, "w") as out:
        for name, values in (("input_ids", source), ("decoder_input_ids", shifted), ("labels", source)):
            out.writestr(f"{name}.npy", npy("<i8", f"({rows}, {seq})", struct.pack(f"<{len(values)}q", *values)))


def losses(scratch, model, data, options):
    """Trains a few steps on both targets, which must agree to the bit; returns the losses."""
    rows = []
    for target in ("cpu", "cpu-discrete"):
        scratch.run(f"mtc compile {model} -o plan.bin --batch 8 --micro-batch 4 --target {target} {options}")
        scratch.run(f"mtrun plan.bin --data {data} --shuffle off --steps {STEPS} --lr 3e-3 --out run-{target} --metrics {target}.jsonl")
        rows.append(tool.metrics(scratch / f"{target}.jsonl"))
        shutil.rmtree(scratch / f"run-{target}")
    if wrong := tool.different(*rows):
        raise tool.Failure(f"{model}: cpu and cpu-discrete differ: {wrong}")
    values = [float(loss) for _, loss, _ in rows[0]]
    if not values[-1] < values[0]:
        raise tool.Failure(f"{model}: the loss did not fall: {values}")
    return values


def check_family(scratch, family, sizes, data, options):
    first = []
    for opset in (20, 23):
        scratch.run(f"mtmodel {family} {sizes} --opset {opset} -o {family}-{opset}.onnx")
        first.append(losses(scratch, f"{family}-{opset}.onnx", data, options)[0])
    scratch.run(f"mtmodel {family} {sizes} --weights -o {family}-stored.onnx")
    first.append(losses(scratch, f"{family}-stored.onnx", data, options)[0])
    if max(first) - min(first) > 1e-5:
        raise tool.Failure(f"{family}: opset 20, opset 23 and stored weights start from other losses: {first}")
    narrow = losses(scratch, f"{family}-20.onnx", data, options + " --precision bf16")[0]
    if abs(narrow - first[0]) > BF16_BOUND * first[0]:
        raise tool.Failure(f"{family}: bf16 starts from {narrow}, fp32 from {first[0]}")
    print(f"{family}: starts at {first[0]:.5f}", flush=True)


def check_checkpoint(scratch, case):
    """A checkpoint folder trains as its exported model does."""
    shutil.copytree(tool.GOLDEN / case / "hf", scratch / case)
    scratch.run(f"mtmodel from-hf {case} -o {case}/model.onnx")
    scratch.link(case, "model.onnx", "data.npz")
    options = "--seq 32 --loss causal-lm"
    stored, exported = (losses(scratch, model, "data.npz", options) for model in (f"{case}/model.onnx", "model.onnx"))
    (scratch / "model.onnx").unlink()
    (scratch / "data.npz").unlink()
    if abs(stored[0] - exported[0]) > 1e-5 or abs(stored[-1] - exported[-1]) > 1e-4:
        raise tool.Failure(f"{case}: from-hf and the exported model differ: {stored} against {exported}")


def store_in_16_bits(path):
    """The upper halves of a safetensors file's 32-bit numbers in their place."""
    header, body, offset = {}, b"", 0
    for name, (kind, shape, data) in tool.safetensors(path).items():
        half = bytearray(len(data) // 2)
        half[0::2], half[1::2] = data[2::4], data[3::4]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(half)]}
        body, offset = body + half, offset + len(half)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def check_narrow_checkpoint(scratch, case):
    """A checkpoint stored in bf16 trains in both precisions, its weights as 32-bit parameters."""
    folder = shutil.copytree(tool.GOLDEN / case / "hf", scratch / f"{case}-bf16")
    store_in_16_bits(folder / "model.safetensors")
    scratch.run(f"mtmodel from-hf {folder.name} -o {folder.name}/model.onnx")
    full, narrow = (losses(scratch, f"{folder.name}/model.onnx", "text.txt", f"--seq 32 --loss causal-lm --precision {precision}")
                    for precision in ("fp32", "bf16"))
    if abs(narrow[0] - full[0]) > BF16_BOUND * full[0]:
        raise tool.Failure(f"{case} stored in bf16: starts from {narrow[0]} in bf16, {full[0]} in fp32")


def test():
    with tool.Scratch() as scratch:
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 200)
        write_points(scratch / "points.npz")
        write_pairs(scratch / "pairs.npz")
        for family in ("gpt2", "llama", "gemma"):
            check_family(scratch, family, SMALL, "text.txt", "--seq 32")
        check_family(scratch, "t5", SMALL, "pairs.npz", "--seq 32 --loss causal-lm")
        for family in ("mlp", "skips"):
            check_family(scratch, family, "", "points.npz", "--loss cross-entropy")
        for case in ("gpt2", "llama"):
            check_checkpoint(scratch, case)
            check_narrow_checkpoint(scratch, case)


tool.main(test)
