"""Writes a model with thirteen dropouts that would drop more than there is, one after the other."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "e2e"))
import onnx_writer as onnx

nodes = [onnx.node("Dropout", [f"x{i}" if i else "x", "ratio", "yes"], [f"x{i + 1}"], f"drop{i}") for i in range(13)]
nodes.append(onnx.node("MatMul", ["x13", "w"], ["logits"], "product"))
yes = onnx.field(2, 9) + onnx.field(8, "yes") + onnx.field(9, b"\1")  # a boolean
ratio = onnx.tensor("ratio", [], [1.5])
pathlib.Path(sys.argv[1]).write_bytes(onnx.classifier(nodes, [onnx.tensor("w", [4, 3], [0.1] * 12), yes, ratio]))
