"""LSTM, GRU and RNN in every form, and recurrences written as Loop and Scan: the loss that a few lines of Python compute,
whatever the micro-batch, and then the same gradients.

    PATH=build/bin:$PATH python3 tests/e2e/recurrence.py
"""
import math

import onnx_writer as onnx
import tool
from own_loss import arrays, near, write_data

BATCH, STEPS, INPUTS, WIDTH = 3, 4, 2, 3
INT32 = 6
X = [[[math.sin(1.3 * b + 0.7 * s + 2.1 * i) for i in range(INPUTS)] for s in range(STEPS)] for b in range(BATCH)]
LENGTHS = [4, 1, 2]
FUNCTIONS = {"Sigmoid": lambda x: 1 / (1 + math.exp(-x)), "Tanh": math.tanh, "Relu": lambda x: max(x, 0.0)}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def numbers(count, phase):
    return [0.6 * math.sin(1.9 * i + phase) for i in range(count)]


class Form:
    """A node with its weights; `states`, `lengths` and `peephole` say what it has, attributes what it is told."""

    def __init__(self, op, direction="forward", batch_first=False, lengths=False, states=False, bias=True, peephole=False, **attributes):
        self.op, self.direction, self.batch_first, self.attributes = op, direction, batch_first, attributes
        self.directions, self.gates, self.lengths, self.states = 1 + (direction == "bidirectional"), GATES[op], lengths, states
        line = self.gates * WIDTH
        self.w, self.r = numbers(self.directions * line * INPUTS, 0.1), numbers(self.directions * line * WIDTH, 0.2)
        self.b = numbers(self.directions * 2 * line, 0.3) if bias else None
        self.p = numbers(self.directions * 3 * WIDTH, 0.4) if peephole else None
        self.h, self.c = ([numbers(self.directions * WIDTH, 0.5 + 3 * k + b) for b in range(BATCH)] for k in range(2))
        self.name = " ".join([op, direction] + [word for word, there in (("batch-first", batch_first), ("lengths", lengths), ("states", states),
                                                                         ("peephole", peephole), ("no bias", not bias)) if there] + [f"{k}={v}" for k, v in attributes.items()])

    #-- what it is -----------------------------------------------------------------------------------------------------

    def step(self, d, x, h, c):
        """The states after a step."""
        line, functions = self.gates * WIDTH, self.attributes.get("activations", DEFAULT[self.op] * self.directions)[d * len(DEFAULT[self.op]):]
        clip = self.attributes.get("clip", math.inf)
        f = lambda which, z: FUNCTIONS[functions[which]](min(max(z, -clip), clip))
        bias = lambda i: self.b[d * 2 * line + i] if self.b else 0.0
        ofx = lambda g, j: sum(self.w[(d * line + g * WIDTH + j) * INPUTS + i] * x[i] for i in range(INPUTS)) + bias(g * WIDTH + j)
        ofh = lambda g, j, h: sum(self.r[(d * line + g * WIDTH + j) * WIDTH + i] * h[i] for i in range(WIDTH)) + bias(line + g * WIDTH + j)
        z = lambda g, j, more=0.0: ofx(g, j) + ofh(g, j, h) + more
        peep = lambda g, j: self.p[(d * 3 + g) * WIDTH + j] if self.p else 0.0
        if self.op == "RNN":
            return [f(0, z(0, j)) for j in range(WIDTH)], c
        if self.op == "GRU":
            reset = [f(0, z(1, j)) for j in range(WIDTH)]
            linear = self.attributes.get("linear_before_reset", 0)
            left = lambda j: reset[j] * ofh(2, j, h) if linear else ofh(2, j, [r * v for r, v in zip(reset, h)])
            update = [f(0, z(0, j)) for j in range(WIDTH)]
            return [(1 - update[j]) * f(1, ofx(2, j) + left(j)) + update[j] * h[j] for j in range(WIDTH)], c
        inputs = [f(0, z(0, j, peep(0, j) * c[j])) for j in range(WIDTH)]
        forget = [1 - inputs[j] if self.attributes.get("input_forget") else f(0, z(2, j, peep(2, j) * c[j])) for j in range(WIDTH)]
        cell = [forget[j] * c[j] + inputs[j] * f(1, z(3, j)) for j in range(WIDTH)]
        return [f(0, z(1, j, peep(1, j) * cell[j])) * FUNCTIONS[functions[2]](cell[j]) for j in range(WIDTH)], cell

    def walk(self, b, d):
        """Y of a row [steps][width], zeros behind its end, and its last states."""
        backwards, end = d == 1 or self.direction == "reverse", LENGTHS[b] if self.lengths else STEPS
        own = slice(d * WIDTH, (d + 1) * WIDTH)
        h, c = (self.h[b][own], self.c[b][own]) if self.states else ([0.0] * WIDTH, [0.0] * WIDTH)
        rows = [[0.0] * WIDTH for _ in range(STEPS)]
        for s in reversed(range(end)) if backwards else range(end):
            h, c = self.step(d, X[b][s], h, c)
            rows[s] = h
        return rows, h, c

    def loss(self):
        """The mean over rows of results times numbers by their places."""
        total, each, last = 0.0, numbers(STEPS * self.directions * WIDTH, 0.7), numbers(self.directions * WIDTH, 0.8)
        for b in range(BATCH):
            for d in range(self.directions):
                rows, h, c = self.walk(b, d)
                total += sum(rows[s][j] * each[(s * self.directions + d) * WIDTH + j] for s in range(STEPS) for j in range(WIDTH)) / len(each)
                total += sum((h[j] + (c[j] if self.op == "LSTM" else 0.0)) * last[d * WIDTH + j] for j in range(WIDTH)) / len(last)
        return total / BATCH

    #-- as ONNX --------------------------------------------------------------------------------------------------------

    def turned(self, value, axes, nodes):
        """`value` with the batch in front, or, on its way in, where the node wants it."""
        if not self.batch_first:
            nodes.append(onnx.node("Transpose", [value], [value + "_turned"], value + "_turned", perm=axes))
        return value if self.batch_first else value + "_turned"

    def model(self):
        line, count = self.gates * WIDTH, self.directions
        tensors = [onnx.tensor("W", [count, line, INPUTS], self.w), onnx.tensor("R", [count, line, WIDTH], self.r),
                   onnx.tensor("each", [1, STEPS, count, WIDTH], numbers(STEPS * count * WIDTH, 0.7)), onnx.tensor("last", [1, count, WIDTH], numbers(count * WIDTH, 0.8)),
                   onnx.integers("sequence", [0, STEPS, INPUTS]), onnx.integers("state", [0, count, WIDTH])]
        tensors += [onnx.tensor("B", [count, 2 * line], self.b)] if self.b else []
        tensors += [onnx.tensor("P", [count, 3 * WIDTH], self.p)] if self.p else []
        inputs, nodes = [onnx.info("x", onnx.FLOAT, ["batch", STEPS * INPUTS])], [onnx.node("Reshape", ["x", "sequence"], ["rows"], "rows")]
        words = [self.turned("rows", [1, 0, 2], nodes), "W", "R", "B" if self.b else "", ""]
        if self.lengths:
            inputs.append(onnx.info("lengths", onnx.INT64, ["batch"]))
            nodes.append(onnx.node("Cast", ["lengths"], ["ends"], "ends", to=INT32))
            words[4] = "ends"
        for state in ["h", "c"][:1 + (self.op == "LSTM")]:
            if self.states:
                inputs.append(onnx.info(state, onnx.FLOAT, ["batch", count * WIDTH]))
                nodes.append(onnx.node("Reshape", [state, "state"], [state + "0"], state + "0"))
            words.append(self.turned(state + "0", [1, 0, 2], nodes) if self.states else "")
        words += ["P"] if self.p else []
        results = ["Y", "Yh"] + (["Yc"] if self.op == "LSTM" else [])
        nodes.append(onnx.node(self.op, words, results, "layer", hidden_size=WIDTH, direction=self.direction, layout=int(self.batch_first), **self.attributes))
        for result in results:
            value = self.turned(result, [2, 0, 1, 3] if result == "Y" else [1, 0, 2], nodes)
            nodes += [onnx.node("Mul", [value, "each" if result == "Y" else "last"], [result + "_part"], result + "_part"),
                      onnx.node("ReduceMean", [result + "_part"], [result + "_sum"], result + "_sum", keepdims=0)]
        nodes.append(onnx.node("Sum", [result + "_sum" for result in results], ["loss"], "loss"))
        return onnx.model(nodes, inputs, [onnx.info("loss", onnx.FLOAT, [])], tensors, opset=22)

    def data(self):
        given = {"x": [[v for row in rows for v in row] for rows in X]}
        given |= {"lengths": LENGTHS} if self.lengths else {}
        return given | ({"h": self.h} | ({"c": self.c} if self.op == "LSTM" else {}) if self.states else {})


class Written(Form):
    """An RNN without bias, its steps written as the body of a Loop or a Scan: Y alone."""

    def __init__(self, loop):
        super().__init__("RNN", states=True, bias=False)
        self.loop, self.name = loop, loop

    def model(self):
        step = [onnx.node("MatMul", ["part", "W"], ["ofx"], "ofx"), onnx.node("MatMul", ["before", "R"], ["ofh"], "ofh"),
                onnx.node("Add", ["ofx", "ofh"], ["sum"], "sum"), onnx.node("Tanh", ["sum"], ["after"], "after"), onnx.node("Identity", ["after"], ["stacked"], "stacked")]
        turned = lambda values, rows, columns: [values[i * columns + j] for j in range(columns) for i in range(rows)]
        tensors = [onnx.tensor("W", [INPUTS, WIDTH], turned(self.w, WIDTH, INPUTS)), onnx.tensor("R", [WIDTH, WIDTH], turned(self.r, WIDTH, WIDTH)),
                   onnx.tensor("each", [1, STEPS, WIDTH], numbers(STEPS * WIDTH, 0.7)), onnx.tensor("last", [1, WIDTH], numbers(WIDTH, 0.8)),
                   onnx.integers("sequence", [0, STEPS, INPUTS]), onnx.integers("second", [1], scalar=True)]
        nodes = [onnx.node("Reshape", ["x", "sequence"], ["rows"], "rows")]
        if self.loop == "Loop":
            step = [onnx.node("Gather", ["rows", "i"], ["part"], "part", axis=1), onnx.node("Identity", ["on"], ["still"], "still")] + step
            nodes += [onnx.node("Shape", ["rows"], ["shape"], "shape"), onnx.node("Gather", ["shape", "second"], ["count"], "count", axis=0),
                      onnx.node("Loop", ["count", "", "h"], ["end", "states"], "loop", body=onnx.body(step, ["i", "on", "before"], ["still", "after", "stacked"])),
                      onnx.node("Transpose", ["states"], ["Y"], "Y", perm=[1, 0, 2])]
        else:
            nodes.append(onnx.node("Scan", ["h", "rows"], ["end", "Y"], "scan", num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
                                   body=onnx.body(step, ["before", "part"], ["after", "stacked"])))
        for value, by in (("Y", "each"), ("end", "last")):
            nodes += [onnx.node("Mul", [value, by], [value + "_part"], value + "_part"), onnx.node("ReduceMean", [value + "_part"], [value + "_sum"], value + "_sum", keepdims=0)]
        nodes.append(onnx.node("Add", ["Y_sum", "end_sum"], ["loss"], "loss"))
        inputs = [onnx.info("x", onnx.FLOAT, ["batch", STEPS * INPUTS]), onnx.info("h", onnx.FLOAT, ["batch", WIDTH])]
        return onnx.model(nodes, inputs, [onnx.info("loss", onnx.FLOAT, [])], tensors, opset=22)


def forms():
    for op in GATES:
        yield Form(op, states=True)
        yield Form(op, "reverse", lengths=True, bias=False)
        yield Form(op, "bidirectional", batch_first=True, lengths=True, states=True)
    yield Form("GRU", "bidirectional", linear_before_reset=1, lengths=True, states=True)
    yield Form("GRU", linear_before_reset=1, activations=["Sigmoid", "Relu"], clip=0.5)
    yield Form("LSTM", "bidirectional", peephole=True, states=True, clip=0.4)
    yield Form("LSTM", "reverse", peephole=True, input_forget=1, batch_first=True, activations=["Tanh", "Relu", "Sigmoid"])
    yield Written("Loop")
    yield Written("Scan")


def first_step(scratch, micro_batch):
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch {micro_batch} --loss output:loss")
    scratch.run("mtrun plan.bin --data data.npz --shuffle off --steps 1 --out run --metrics metrics.jsonl --overwrite --save-gradients gradients.npz --keep 0")
    return float(tool.metrics(scratch / "metrics.jsonl")[0][1]), arrays(scratch / "gradients.npz")


def check(scratch, form):
    (scratch / "model.onnx").write_bytes(form.model())
    write_data(scratch / "data.npz", **form.data())
    expected, found = form.loss(), [first_step(scratch, rows) for rows in (BATCH, 1)]
    for loss, _ in found:
        if not near(loss, expected):
            raise tool.Failure(f"{form.name}: loss {loss}, and it is {expected}")
    (_, whole), (_, parts) = found
    for name, values in whole.items():
        error = math.dist(values, parts[name])
        if error > 1e-5 * (math.hypot(*values) + 1e-3):
            raise tool.Failure(f"{form.name}: the gradient of {name} differs by {error:.2g} between micro-batches")


def test():
    with tool.Scratch() as scratch:
        for form in forms():
            check(scratch, form)
            print(f"ok: {form.name}")


if __name__ == "__main__":
    tool.main(test)
