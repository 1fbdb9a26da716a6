"""Small ONNX files for tests of bad input, encoded by hand (https://protobuf.dev/programming-guides/encoding): what a
proper library would refuse to write. Field numbers are those of third_party/onnx/onnx-ml.proto."""
import struct

FLOAT, UINT8, INT64 = 1, 2, 7


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytearray([value]))


def field(number, value):
    """An integer, or text, bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    """A whole number, a list of them, a real one, text, a list of it, or a graph as bytes."""
    if isinstance(value, list):
        texts = isinstance(value[0], str)
        return field(1, name) + b"".join(field(9 if texts else 8, v) for v in value) + field(20, 8 if texts else 7)
    if isinstance(value, float):
        return field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, bytes):
        return field(1, name) + field(6, value) + field(20, 5)
    return field(1, name) + (field(3, value) + field(20, 2) if isinstance(value, int) else field(4, value) + field(20, 3))


def metadata(number, pairs):
    return b"".join(field(number, field(1, k) + field(2, v)) for k, v in pairs.items())


def traced(encoded, module, target, arguments):
    """A node with what torch.onnx writes down about it: the module it ran in, and its FX node."""
    return encoded + metadata(9, {"pkg.torch.onnx.name_scopes": f"['', '{module}', 'node']",
                                  "pkg.torch.onnx.fx_node": f"%node : call_function[target=torch.ops.{target}](args = ({arguments}), kwargs = {{}})"})


def node(op, inputs, outputs, name, domain="", **attributes):
    return b"".join([*(field(1, i) for i in inputs), *(field(2, o) for o in outputs), field(3, name), field(4, op),
                     *(field(5, attribute(k, v)) for k, v in attributes.items()), *([field(7, domain)] if domain else [])])


def info(name, element, dims):
    """A graph input or output; a dimension is a number or a symbol."""
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def tensor(name, dims, values=None, external=None):
    """A float initializer: its values, or entries of external data."""
    out = b"".join(field(1, d) for d in dims) + field(2, FLOAT) + field(8, name)
    if external is None:
        return out + field(9, struct.pack(f"<{len(values)}f", *values))
    return out + b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in external.items()) + field(14, 1)


def integers(name, values, scalar=False):
    """An initializer of 64-bit integers, of rank 1 or 0."""
    return (b"" if scalar else field(1, len(values))) + field(2, INT64) + field(8, name) + field(9, struct.pack(f"<{len(values)}q", *values))


def body(nodes, inputs, outputs):
    """A graph for an attribute; its inputs and outputs are names."""
    return b"".join([*(field(1, n) for n in nodes), field(2, "body"), *(field(11, field(1, i)) for i in inputs), *(field(12, field(1, o)) for o in outputs)])


def model(nodes, inputs, outputs, initializers=(), opset=20, parameters=None):
    """`parameters`: the graph signature of torch.export, as placeholder: name."""
    graph = b"".join([*(field(1, n) for n in nodes), field(2, "test"), *(field(5, t) for t in initializers),
                      *(field(11, i) for i in inputs), *(field(12, o) for o in outputs)])
    if parameters:
        lines = "".join(f"{k}: PARAMETER target='{v}'\n" for k, v in parameters.items())
        graph += metadata(16, {"pkg.torch.export.ExportedProgram.graph_signature": f"\n# inputs\n{lines}"})
    return field(1, 9) + field(7, graph) + field(8, field(2, opset))


def classifier(nodes=None, initializers=None, inputs=None):
    """x [batch, 4] times w [4, 3] gives logits; parts of it replaced."""
    return model(nodes or [node("MatMul", ["x", "w"], ["logits"], "product")],
                 inputs or [info("x", FLOAT, ["batch", 4])], [info("logits", FLOAT, ["batch", 3])],
                 [tensor("w", [4, 3], [0.1] * 12)] if initializers is None else initializers)


def fields(message):
    """(number, wire type, value, whole bytes) of every field of an encoded message."""
    at = 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        begin = at
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or number()
            value = message[at:at + size]
            at += size
        yield key >> 3, key & 7, value, message[begin:at]


def replace_initializer(data, name, replacement):
    """The model with one initializer replaced."""
    out = b""
    for number, _, value, whole in fields(data):
        if number == 7:
            whole = field(7, b"".join(field(5, replacement) if n == 5 and named(v, name) else w for n, _, v, w in fields(value)))
        out += whole
    return out


def named(initializer, name):
    return any(number == 8 and value.decode() == name for number, _, value, _ in fields(initializer))
