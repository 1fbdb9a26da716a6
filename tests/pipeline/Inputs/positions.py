"""Writes a model of tokens with tables of positions, each ROWS:FIRST (its entries, and which one the first position takes);
with --encoder also a second input, whose mean is added to every token.

    positions.py MODEL.onnx [--encoder] ROWS:FIRST...
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "e2e"))
import onnx_writer as onnx

WIDTH, TOKENS = 8, 16


def integers(name, values, scalar=False):
    return (b"" if scalar else onnx.field(1, len(values))) + onnx.field(2, onnx.INT64) + onnx.field(8, name) + \
        onnx.field(9, struct.pack(f"<{len(values)}q", *values))


def floats(name, rows, width):
    return onnx.tensor(name, [rows, width], [(i * 7 % 13 - 6) / 10 for i in range(rows * width)])


path, *words = sys.argv[1:]
encoder = "--encoder" in words
tables = [tuple(map(int, word.split(":"))) for word in words if ":" in word]
nodes = [onnx.node("Shape", ["ids"], ["shape"], "shape"), onnx.node("Gather", ["shape", "one"], ["length"], "length"),
         onnx.node("Range", ["zero", "length", "one"], ["positions"], "positions"),
         onnx.node("Gather", ["embedding", "ids"], ["x"], "tokens")]
weights = [integers("zero", [0], True), integers("one", [1], True), floats("embedding", TOKENS, WIDTH), floats("head", WIDTH, TOKENS)]
last = "x"
for i, (rows, first) in enumerate(tables):
    weights += [integers(f"first{i}", [first], True), floats(f"table{i}", rows, WIDTH)]
    nodes += [onnx.node("Add", ["positions", f"first{i}"], [f"at{i}"], f"at{i}"),
              onnx.node("Gather", [f"table{i}", f"at{i}"], [f"p{i}"], f"p{i}"), onnx.node("Add", [last, f"p{i}"], [f"x{i}"], f"x{i}")]
    last = f"x{i}"
inputs = [onnx.info("ids", onnx.INT64, ["batch", "decoder" if encoder else "length"])]
if encoder:
    inputs.insert(0, onnx.info("source", onnx.INT64, ["batch", "encoder"]))
    weights.append(integers("axis", [1]))
    nodes += [onnx.node("Gather", ["embedding", "source"], ["s"], "source_tokens"),
              onnx.node("ReduceMean", ["s", "axis"], ["m"], "mean"), onnx.node("Add", [last, "m"], ["y"], "y")]
    last = "y"
nodes.append(onnx.node("MatMul", [last, "head"], ["logits"], "logits"))
outputs = [onnx.info("logits", onnx.FLOAT, ["batch", "length", TOKENS])]
pathlib.Path(path).write_bytes(onnx.model(nodes, inputs, outputs, weights))
