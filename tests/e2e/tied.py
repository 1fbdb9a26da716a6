"""Weights that stand in a model under several names: every export of a run has the trained value under each of them, in the
layout that it has there, and an exported model is the trained one: compiled again, its loss is the run's to the bit.

    PATH=build/bin:$PATH python3 tests/e2e/tied.py [CASE]
"""
import ast
import math
import struct
import zipfile

import onnx_writer as onnx
import tool

VOCAB, WIDTH = 64, 32
TABLE = [math.sin(1 + i * i % 9973) / 4 for i in range(VOCAB * WIDTH)]
SQUARE = [math.cos(2 + i * i % 9967) / 4 for i in range(WIDTH * WIDTH)]

case = tool.Cases()


def transpose(values, rows, columns):
    return [values[i * columns + j] for j in range(columns) for i in range(rows)]


def turn(name, result):
    return onnx.node("Transpose", [name], [result], "turn " + name, perm=[1, 0])


def graph(middle, head, initializers, parameters=None, look_up="table"):
    """Tokens, what `middle` makes of them, and the product with a head."""
    nodes = [onnx.traced(onnx.node("Gather", [look_up, "ids"], ["x"], "look up"), "net.embed", "aten.embedding.default", "%p_head, %ids"),
             *middle, onnx.node("MatMul", ["h", head], ["logits"], "head")]
    return onnx.model(nodes, [onnx.info("ids", onnx.INT64, ["batch", "seq"])], [onnx.info("logits", onnx.FLOAT, ["batch", "seq", VOCAB])],
                      initializers, parameters=parameters)


def layer(weight, result="h", inner="x"):
    return [onnx.traced(onnx.node("MatMul", [inner, weight], [result + "0"], "layer " + weight), "net.layer", "aten.linear.default", f"%{inner}, %p_layer"),
            onnx.node("Tanh", [result + "0"], [result], "tanh " + result)]


class Bench:
    def __init__(self, _):
        self.data = struct.pack("<600H", *((7 * i + i * i // 5) % VOCAB for i in range(600)))

    def loss(self, plan, *options):
        return self.scratch.run(["mtrun", "eval", plan, "--data", "data.bin", *options]).splitlines()[-1]

    def check(self, model, names, copies, precision="fp32"):
        """`names`: of each trained tensor, its names and whether they are transposed, the parameter's first. `copies`: names that
        are initializers of the model."""
        with tool.Scratch() as scratch:
            self.scratch = scratch
            for name, content in {**model, "data.bin": self.data}.items():
                (scratch / name).write_bytes(content)
            options = f"--batch 4 --seq 16 --target cpu-discrete --precision {precision}"
            scratch.run(f"mtc compile model.onnx -o plan.bin {options}")
            scratch.run("mtrun plan.bin --data data.bin --steps 3 --lr 0.02 --out run --quiet")
            for ending in ("safetensors", "npz", "onnx"):
                scratch.run(f"mtrun export run -o out.{ending}")
            tensors = tool.safetensors(scratch / "out.safetensors")
            self.same_arrays({name: tensors[name] for name in copies})
            self.expect(set(tensors) == {n for group in names for n in group}, f"exported are {sorted(tensors)}")
            for group in names:
                (_, dims, first), *_ = (tensors[n] for n in group)
                for name, transposed in group.items():
                    values = struct.unpack(f"<{len(first) // 4}f", first)
                    want = transpose(values, *dims) if transposed else values
                    self.expect(tensors[name][1:] == (dims[::-1] if transposed else dims, struct.pack(f"<{len(want)}f", *want)), f"{name} is not {next(iter(group))}")
            trained = self.loss("plan.bin", "--from", "run")
            self.expect(trained != self.loss("plan.bin"), "nothing was learned")
            scratch.run(f"mtc compile out.onnx -o again.bin {options}")
            self.expect(trained == self.loss("again.bin"), f"exported: {self.loss('again.bin')}, trained: {trained}")
            self.same_in_model(tensors, copies)

    def same_arrays(self, tensors):
        with zipfile.ZipFile(self.scratch / "out.npz") as file:
            arrays = {}
            for name in file.namelist():
                data = file.read(name)
                end = 10 + struct.unpack("<H", data[8:10])[0]
                arrays[name.removesuffix(".npy")] = ("F32", ast.literal_eval(data[10:end].decode())["shape"], data[end:])
        self.expect(tool.different(tensors, arrays) is None, f".npz: {tool.different(tensors, arrays)}")

    def same_in_model(self, tensors, copies):
        """Every copy in the file and in what lies beside it."""
        content = (self.scratch / "out.onnx").read_bytes()
        beside = self.scratch / "out.onnx.data"
        content += beside.read_bytes() if beside.exists() else b""
        for name in copies:
            self.expect(tensors[name][2] in content, f"out.onnx: {name} is not what was trained")

    def expect(self, holds, message):
        if not holds:
            raise tool.Failure(message)


@case
def one_initializer_of_many_names(bench):
    """What torch.onnx writes of ties: one initializer, all names in the signature."""
    model = graph([*layer("turned"), turn("head.weight", "t")], "t",
                  [onnx.tensor("head.weight", [VOCAB, WIDTH], TABLE), onnx.tensor("turned", [WIDTH, WIDTH], SQUARE)],
                  {"p_embed": "net.embed.weight", "p_layer": "net.layer.weight", "p_head": "head.weight"}, "head.weight")
    for precision in ("fp32", "bf16"):
        bench.check({"model.onnx": model}, [{"head.weight": 0, "net.embed.weight": 0}, {"turned": 0, "net.layer.weight": 1}],
                    ["head.weight", "turned"], precision)


@case
def transposed_copy(bench):
    """What exporters that fold constants write of a head that is the embedding."""
    model = graph(layer("w"), "head", [onnx.tensor("table", [VOCAB, WIDTH], TABLE), onnx.tensor("w", [WIDTH, WIDTH], SQUARE),
                                       onnx.tensor("head", [WIDTH, VOCAB], transpose(TABLE, VOCAB, WIDTH))])
    bench.check({"model.onnx": model}, [{"table": 0, "head": 1}, {"w": 0}], ["table", "head", "w"])


@case
def transposed_copy_in_external_data(bench):
    beside = struct.pack(f"<{2 * len(TABLE)}f", *TABLE, *transpose(TABLE, VOCAB, WIDTH))
    def external(name, dims, offset):
        return onnx.tensor(name, dims, external={"location": "model.data", "offset": offset, "length": 4 * len(TABLE)})
    model = graph(layer("w"), "head", [external("table", [VOCAB, WIDTH], 0), onnx.tensor("w", [WIDTH, WIDTH], SQUARE),
                                       external("head", [WIDTH, VOCAB], 4 * len(TABLE))])
    bench.check({"model.onnx": model, "model.data": beside}, [{"table": 0, "head": 1}, {"w": 0}], ["table", "head", "w"])


@case
def twins_in_external_data(bench):
    """Two initializers that are one range of a file."""
    def twin(name):
        return onnx.tensor(name, [VOCAB, WIDTH], external={"location": "model.data", "offset": 64, "length": 4 * len(TABLE)})
    model = graph([*layer("w"), turn("head", "t")], "t", [twin("table"), onnx.tensor("w", [WIDTH, WIDTH], SQUARE), twin("head")])
    bench.check({"model.onnx": model, "model.data": bytes(64) + struct.pack(f"<{len(TABLE)}f", *TABLE)},
                [{"table": 0, "head": 0}, {"w": 0}], ["table", "head", "w"])


@case
def copies_of_one_parameter(bench):
    """A layer used twice, its matrix stored for each use."""
    model = graph([*layer("val_1", "g"), *layer("val_2", "h", "g")], "head",
                  [onnx.tensor("table", [VOCAB, WIDTH], TABLE), onnx.tensor("head", [WIDTH, VOCAB], [v / 2 for v in TABLE]),
                   onnx.tensor("val_1", [WIDTH, WIDTH], SQUARE), onnx.tensor("val_2", [WIDTH, WIDTH], SQUARE)],
                  {"p_layer": "net.layer.weight", "p_table": "table", "p_head": "head"})
    bench.check({"model.onnx": model}, [{"val_1": 0, "val_2": 0, "net.layer.weight": 1}, {"table": 0}, {"head": 0}], ["val_1", "val_2", "table", "head"])


tool.main(lambda: case.run(Bench, "kinds of tied weights are exported under every name"))
