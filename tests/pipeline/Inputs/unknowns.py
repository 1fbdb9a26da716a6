"""Writes a model with three nodes Frob, then one Quux."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "e2e"))
import onnx_writer as onnx

nodes = [onnx.node("Frob", [f"x{i}" if i else "x"], [f"x{i + 1}"], f"frob{i}") for i in range(3)]
nodes += [onnx.node("Quux", ["x3"], ["y"], "quux"), onnx.node("MatMul", ["y", "w"], ["logits"], "product")]
pathlib.Path(sys.argv[1]).write_bytes(onnx.classifier(nodes, [onnx.tensor("w", [4, 3], [0.1] * 12)]))
