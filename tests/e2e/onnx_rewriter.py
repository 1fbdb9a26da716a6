"""Models changed for tests, on encoded bytes (onnx_writer.py): layers that share one set of weights, and low-rank adapters
beside products."""
import re

import onnx_writer as onnx

GRAPH, NODE, INITIALIZER = 7, 1, 5  # fields of a model and of its graph
NODE_INPUT, NODE_OUTPUT, NODE_NAME, TENSOR_NAME = 1, 2, 3, 8


def change_graph(data, change):
    """The model after `change` of the list of its graph's fields (number, value)."""
    def changed(graph):
        return b"".join(onnx.field(n, v) for n, v in change([(n, v) for n, _, v, _ in onnx.fields(graph)]))
    return b"".join(onnx.field(GRAPH, changed(value)) if number == GRAPH else whole
                    for number, _, value, whole in onnx.fields(data))


def texts(message, number):
    return [value.decode() for n, _, value, _ in onnx.fields(message) if n == number]


def replace_text(message, number, change):
    return b"".join(onnx.field(n, change(value.decode())) if n == number else whole
                    for n, _, value, whole in onnx.fields(message))


def rename_parameters(data, pattern, name):
    """Nodes read parameters under the names that re.sub gives them; those that nothing reads any more are left out."""
    def change(graph):
        parameters = {texts(v, TENSOR_NAME)[0] for n, v in graph if n == INITIALIZER}
        rename = lambda text: re.sub(pattern, name, text) if text in parameters else text
        graph = [(n, replace_text(v, NODE_INPUT, rename) if n == NODE else v) for n, v in graph]
        read = {text for n, v in graph if n == NODE for text in texts(v, NODE_INPUT)}
        return [(n, v) for n, v in graph if n != INITIALIZER or texts(v, TENSOR_NAME)[0] in read]
    return change_graph(data, change)


def add_adapters(data, pattern, rank, width_in, width_out):
    """y = x W becomes x W + (x A) B for every product whose node's name matches: A [width_in, rank], B [rank, width_out]."""
    def made(name, dims):
        values = {"location": "adapters", "offset": 0, "length": 4 * dims[0] * dims[1], "mt.generator": "normal",
                  "mt.seed": 1, "mt.deviation": 0.05}
        return INITIALIZER, onnx.tensor(name, dims, external=values)

    def change(graph):
        out = []
        for n, v in graph:
            name = texts(v, NODE_NAME)[0] if n == NODE else ""
            if not re.search(pattern, name):
                out.append((n, v))
                continue
            operand, result = texts(v, NODE_INPUT)[0], texts(v, NODE_OUTPUT)[0]
            a, b = name.strip("/").rsplit("/", 1)[0] + ".adapter_a", name.strip("/").rsplit("/", 1)[0] + ".adapter_b"
            out += [(NODE, replace_text(v, NODE_OUTPUT, lambda text: text + "/base")),
                    (NODE, onnx.node("MatMul", [operand, a], [a + "/down"], name + "/down")),
                    (NODE, onnx.node("MatMul", [a + "/down", b], [b + "/up"], name + "/up")),
                    (NODE, onnx.node("Add", [result + "/base", b + "/up"], [result], name + "/sum")),
                    made(a, [width_in, rank]), made(b, [rank, width_out])]
        return out
    return change_graph(data, change)
