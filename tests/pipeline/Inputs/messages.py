"""Writes a model of a newer opset than is known, with two outputs and a parameter beside its logits."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "e2e"))
import onnx_writer as onnx

nodes = [onnx.node("MatMul", ["x", "w"], ["h"], "first"), onnx.node("MatMul", ["h", "v"], ["logits"], "head"),
         onnx.node("MatMul", ["h", "p"], ["a"], "pool1"), onnx.node("Tanh", ["a"], ["b"], "pool2"),
         onnx.node("Neg", ["b"], ["c"], "pool3")]
outputs = [onnx.info(name, onnx.FLOAT, ["batch", width]) for name, width in (("logits", 3), ("b", 4), ("c", 4))]
weights = [onnx.tensor(name, [4, width], [0.1] * 4 * width) for name, width in (("w", 4), ("v", 3), ("p", 4))]
data = onnx.model(nodes, [onnx.info("x", onnx.FLOAT, ["batch", 4])], outputs, weights, opset=99)
pathlib.Path(sys.argv[1]).write_bytes(data)
