"""Losses that are part of a model: with micro-batches of the whole batch, of a half and of single rows the same loss and
the same gradients, and the loss that a few lines of Python compute; short rows and labels that do not count; rows that see
each other keep the whole batch, and say why.

    PATH=build/bin:$PATH python3 tests/e2e/own_loss.py
"""
import ast
import json
import math
import struct
import zipfile

import onnx_writer as onnx
import tool

BATCH, SEQUENCE, CLASSES, WIDTH = 4, 5, 7, 3
TOLERANCE = 1e-6
TABLE = [math.sin(3.1 * i) for i in range(CLASSES * WIDTH)]
HEAD = [math.cos(1.7 * i) for i in range(WIDTH * CLASSES)]
TOKENS = [[(3 * r + 2 * s + r * s) % CLASSES for s in range(SEQUENCE)] for r in range(BATCH)]
LABELS = [[(r + 4 * s) % CLASSES if (r * s) % 3 < 2 and s < SEQUENCE - r else -100 for s in range(SEQUENCE)] for r in range(BATCH)]
CLASS_WEIGHTS = [0.25 + 0.5 * c for c in range(CLASSES)]
KINDS = [(2 * r) % 3 for r in range(BATCH)]


def npy(kind, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{'q' if kind == '<i8' else 'f'}", *values)


def arrays(path):
    """name -> values of an .npz of 32-bit floats."""
    found = {}
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            data = file.read(name)
            (length,) = struct.unpack("<H", data[8:10])
            assert ast.literal_eval(data[10:10 + length].decode())["descr"] == "<f4"
            found[name] = struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])
    return found


def write_data(path, rows=None, **inputs):
    with zipfile.ZipFile(path, "w") as out:
        for name, values in inputs.items():
            shape = [len(values)] + ([len(values[0])] if isinstance(values[0], list) else [])
            flat = [v for row in values for v in row] if len(shape) == 2 else values
            out.writestr(name + ".npy", npy("<i8" if isinstance(flat[0], int) else "<f4", shape, flat))


#-- what the losses are ----------------------------------------------------------------------------------------------


def scores(token):
    return [sum(TABLE[token * WIDTH + k] * HEAD[k * CLASSES + c] for k in range(WIDTH)) for c in range(CLASSES)]


def surprise(token, label):
    values = scores(token)
    return math.log(sum(math.exp(v) for v in values)) - values[label]


def terms(shift=0, ignored=-100):
    """Cross-entropies of the targets that count."""
    return [surprise(TOKENS[r][s], LABELS[r][s + shift]) for r in range(BATCH) for s in range(SEQUENCE - shift)
            if LABELS[r][s + shift] not in (-100, ignored)]


def mean(values):
    return sum(values) / len(values)


#-- the models -------------------------------------------------------------------------------------------------------


def language(tail, inputs=(), initializers=(), rows="batch"):
    """logits of every token, then `tail`, whose output is `loss`."""
    nodes = [onnx.node("Gather", ["table", "tokens"], ["hidden"], "embed"),
             onnx.node("MatMul", ["hidden", "head"], ["logits"], "product"), *tail]
    return onnx.model(nodes, [onnx.info("tokens", onnx.INT64, [rows, SEQUENCE]), *inputs], [onnx.info("loss", onnx.FLOAT, [])],
                      [onnx.tensor("table", [CLASSES, WIDTH], TABLE), onnx.tensor("head", [WIDTH, CLASSES], HEAD),
                       onnx.integers("flat", [-1, CLASSES]), onnx.integers("line", [-1]), *initializers], opset=18)


LABEL_INPUT = onnx.info("target", onnx.INT64, ["batch", SEQUENCE])


def entropy(logits, labels, name, out, weights=(), **attributes):
    return [onnx.node("Reshape", [logits, "flat"], [name + ".rows"], name + "/rows"),
            onnx.node("Reshape", [labels, "line"], [name + ".labels"], name + "/labels"),
            onnx.node("SoftmaxCrossEntropyLoss", [name + ".rows", name + ".labels", *weights], [out], name, **attributes)]


def shifted(out="loss"):
    """Labels shifted inside: the target of token s is label s + 1."""
    cut = [onnx.node("Slice", ["target", "one", "far", "one"], ["next"], "next"),
           onnx.node("Slice", ["logits", "zero", "last", "one"], ["seen"], "seen")]
    return cut + entropy("seen", "next", "lm", out, reduction="mean", ignore_index=-100)


BOUNDS = [onnx.integers("zero", [0]), onnx.integers("one", [1]), onnx.integers("last", [-1]), onnx.integers("far", [1 << 40])]


def counted_by_shape(out="loss"):
    """The sum over the batch divided by the number of its rows, which the graph computes from a shape."""
    return entropy("logits", "target", "ce", "sum", reduction="sum", ignore_index=-100) + [
        onnx.node("Shape", ["tokens"], ["sizes"], "sizes"), onnx.node("Gather", ["sizes", "zero"], ["rows"], "rows"),
        onnx.node("Cast", ["rows"], ["count"], "count", to=1), onnx.node("ReduceSum", ["count"], ["divisor"], "divisor", keepdims=0),
        onnx.node("Div", ["sum", "divisor"], [out], "per row")]


def counted_by_ones():
    """Weights of one for every target, added up: a number that follows from a shape alone, and whatever it is reshaped to."""
    return entropy("logits", "target", "ce", "each", reduction="none", ignore_index=-100) + [
        onnx.node("Shape", ["each"], ["sizes"], "sizes"), onnx.node("Expand", ["unit", "sizes"], ["ones"], "ones"),
        onnx.node("Mul", ["each", "ones"], ["weighted"], "weighted"), onnx.node("ReduceSum", ["weighted"], ["sum"], "sum", keepdims=0),
        onnx.node("Unsqueeze", ["ones", "zero"], ["row"], "row"), onnx.node("Transpose", ["row"], ["column"], "column", perm=[1, 0]),
        onnx.node("MatMul", ["row", "column"], ["count"], "count"), onnx.node("ReduceSum", ["count"], ["divisor"], "divisor", keepdims=0),
        onnx.node("Div", ["sum", "divisor"], ["loss"], "per target")]


def with_kinds():
    """Two losses with counts of their own, and a mean over all rows: 1 x + 1 y + 0.5 z."""
    return shifted("words") + [
        onnx.node("ReduceMean", ["logits", "one"], ["pooled"], "pool", keepdims=0),
        onnx.node("SoftmaxCrossEntropyLoss", ["pooled", "kind"], ["kinds"], "kinds", reduction="mean", ignore_index=-100),
        onnx.node("Mul", ["logits", "logits"], ["squares"], "squares"),
        onnx.node("ReduceMean", ["squares"], ["penalty"], "penalty", keepdims=0),
        onnx.node("Mul", ["penalty", "half"], ["scaled"], "scaled"), onnx.node("Add", ["words", "kinds"], ["both"], "both"),
        onnx.node("Add", ["both", "scaled"], ["loss"], "all")]


def masked_mean():
    """A mean over the places that a mask of the data leaves, divided by what is left, at least one."""
    return entropy("logits", "target", "ce", "each", reduction="none", ignore_index=-100) + [
        onnx.node("Reshape", ["mask", "line"], ["weights"], "weights"),
        onnx.node("Mul", ["each", "weights"], ["left"], "left"), onnx.node("ReduceSum", ["left"], ["sum"], "sum", keepdims=0),
        onnx.node("ReduceSum", ["weights"], ["count"], "count", keepdims=0), onnx.node("Max", ["count", "least"], ["divisor"], "divisor"),
        onnx.node("Div", ["sum", "divisor"], ["loss"], "masked")]


def contrast():
    """Every row against every row: no sum over rows."""
    return [onnx.node("ReduceMean", ["logits", "one"], ["pooled"], "pool", keepdims=0),
            onnx.node("Transpose", ["pooled"], ["turned"], "turned", perm=[1, 0]),
            onnx.node("MatMul", ["pooled", "turned"], ["pairs"], "pairs"),
            onnx.node("LogSoftmax", ["pairs"], ["chances"], "chances", axis=-1),
            onnx.node("ReduceMean", ["chances"], ["mean"], "mean", keepdims=0), onnx.node("Neg", ["mean"], ["loss"], "loss")]


MASK = [[1.0 if (r + s) % 4 else 0.25 for s in range(SEQUENCE)] for r in range(BATCH)]


def kind_terms():
    pooled = [[mean([scores(t)[c] for t in TOKENS[r]]) for c in range(CLASSES)] for r in range(BATCH)]
    return [math.log(sum(map(math.exp, p))) - p[k] for p, k in zip(pooled, KINDS)]


def cases():
    kind = onnx.info("kind", onnx.INT64, ["batch"])
    mask = onnx.info("mask", onnx.FLOAT, ["batch", SEQUENCE])
    number = lambda name, value: onnx.tensor(name, [], [value])
    yield ("mean", language(entropy("logits", "target", "ce", "loss", reduction="mean", ignore_index=-100), [LABEL_INPUT]), {}, mean(terms()))
    yield ("other-index", language(entropy("logits", "target", "ce", "loss", reduction="mean", ignore_index=3), [LABEL_INPUT]), {}, mean(terms(ignored=3)))
    weighed = [(CLASS_WEIGHTS[y], surprise(t, y)) for tokens, labels in zip(TOKENS, LABELS) for t, y in zip(tokens, labels) if y >= 0]
    yield ("class-weights", language(entropy("logits", "target", "ce", "loss", ["rarity"], reduction="mean", ignore_index=-100), [LABEL_INPUT],
                                     [onnx.tensor("rarity", [CLASSES], CLASS_WEIGHTS)]), {}, sum(w * x for w, x in weighed) / sum(w for w, _ in weighed))
    yield ("shifted", language(shifted(), [LABEL_INPUT], BOUNDS), {}, mean(terms(shift=1)))
    yield ("by-shape", language(counted_by_shape(), [LABEL_INPUT], BOUNDS), {}, sum(terms()) / BATCH)
    yield ("by-ones", language(counted_by_ones(), [LABEL_INPUT], BOUNDS + [number("unit", 1.0)]), {}, sum(terms()) / (BATCH * SEQUENCE))
    squares = mean([v * v for row in TOKENS for t in row for v in scores(t)])
    yield ("several", language(with_kinds(), [LABEL_INPUT, kind], BOUNDS + [number("half", 0.5)]), {"kind": KINDS},
           mean(terms(shift=1)) + mean(kind_terms()) + 0.5 * squares)
    weighted = sum(MASK[r][s] * surprise(TOKENS[r][s], LABELS[r][s]) for r in range(BATCH) for s in range(SEQUENCE) if LABELS[r][s] >= 0)
    yield ("masked", language(masked_mean(), [LABEL_INPUT, mask], [number("least", 1.0)]), {"mask": MASK}, weighted / sum(map(sum, MASK)))


#-- the tests --------------------------------------------------------------------------------------------------------


def near(a, b):
    return abs(a - b) <= TOLERANCE * max(1.0, abs(b))


def first_step(scratch, name, micro_batch):
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch {micro_batch} --loss output:loss")
    scratch.run(f"mtrun plan.bin --data data.npz --shuffle off --steps 1 --out {name}-{micro_batch} --metrics metrics.jsonl --overwrite --save-gradients gradients.npz --keep 0")
    return float(tool.metrics(scratch / "metrics.jsonl")[0][1]), arrays(scratch / "gradients.npz")


def check_case(scratch, name, model, inputs, expected):
    (scratch / "model.onnx").write_bytes(model)
    write_data(scratch / "data.npz", tokens=TOKENS, target=LABELS, **inputs)
    whole, gradients = first_step(scratch, name, BATCH)
    if set(gradients) != {"table.npy", "head.npy"}:
        raise tool.Failure(f"{name}: gradients of {sorted(gradients)}")
    for micro_batch in (BATCH, 2, 1):
        loss, parts = first_step(scratch, name, micro_batch)
        if not near(loss, expected):
            raise tool.Failure(f"{name}: loss {loss} at micro-batch {micro_batch}, and it is {expected}")
        for tensor, values in gradients.items():
            norm = math.sqrt(sum(v * v for v in values))
            error = math.sqrt(sum((v - w) ** 2 for v, w in zip(values, parts[tensor])))
            if error > TOLERANCE * norm:
                raise tool.Failure(f"{name}: the gradient of {tensor} at micro-batch {micro_batch} differs by {error / norm:.2g} from the whole batch's")


def check_short_rows(scratch):
    """Rows of three tokens, and an evaluation of five rows in batches of four: what is filled up does not count."""
    (scratch / "model.onnx").write_bytes(language(shifted(), [LABEL_INPUT], BOUNDS))
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss")
    rows = [r[:3] for r in TOKENS] + [TOKENS[0][:3]]
    targets = [[(r + s) % CLASSES for s in range(3)] for r in range(5)]
    write_data(scratch / "short.npz", tokens=rows, target=targets)
    expected = mean([surprise(t[s], y[s + 1]) for t, y in zip(rows, targets) for s in range(2)])
    words = scratch.run("mtrun eval plan.bin --data short.npz").split()
    if abs(float(words[1]) - expected) > 2e-6 or words[5] != "10":
        raise tool.Failure(f"short rows: {' '.join(words)}, and the loss is {expected} over 10 targets")
    (scratch / "stream.jsonl").write_text("".join(f'{{"tokens": {r}}}\n' for r in rows))
    expected = mean([surprise(t[s], t[s + 1]) for t in rows for s in range(2)])
    words = scratch.run("mtrun eval plan.bin --data stream.jsonl").split()
    if abs(float(words[1]) - expected) > 2e-6:
        raise tool.Failure(f"tokens alone: {' '.join(words)}, and the loss is {expected}: the model shifts its labels itself")


def check_loss_of_rows(scratch):
    """A loss that divides by no count of labels: rows weigh alike in its evaluation, whatever the batch and the labels that count."""
    (scratch / "model.onnx").write_bytes(language(counted_by_shape(), [LABEL_INPUT], BOUNDS))
    tokens, targets = [*TOKENS, TOKENS[1]], [LABELS[0], [-100] * SEQUENCE, *LABELS[2:], [-100] * (SEQUENCE - 1) + [2]]
    write_data(scratch / "data.npz", tokens=tokens, target=targets)
    expected = sum(surprise(t, y) for r, k in zip(tokens, targets) for t, y in zip(r, k) if y >= 0) / len(tokens)
    for batch in (1, 2, BATCH):
        scratch.run(f"mtc compile model.onnx -o plan.bin --batch {batch} --loss output:loss")
        words = scratch.run("mtrun eval plan.bin --data data.npz").split()
        if abs(float(words[1]) - expected) > 2e-6 or "perplexity" in words:
            raise tool.Failure(f"a loss of rows in batches of {batch}: {' '.join(words)}, and it is {expected}")
    squares = [onnx.node("ReduceSumSquare", ["head"], ["squares"], "squares", keepdims=0), onnx.node("Add", ["part", "squares"], ["loss"], "penalized")]
    (scratch / "model.onnx").write_bytes(language(counted_by_shape("part") + squares, [LABEL_INPUT], BOUNDS))
    evaluated = set()
    for batch in (1, 5):
        scratch.run(f"mtc compile model.onnx -o plan.bin --batch {batch} --loss output:loss")
        evaluated.add(scratch.run("mtrun eval plan.bin --data data.npz").split()[1])
    scratch.run("mtc compile model.onnx -o plan.bin --batch 2 --loss output:loss")
    words = scratch.run("mtrun eval plan.bin --data data.npz").split()
    if len(evaluated) != 1 or int(words[-2]) >= sum(y >= 0 for k in targets for y in k):
        raise tool.Failure(f"a penalty that rows do not make: {evaluated} in batches of one and of all; in batches of two {' '.join(words)}")


def check_no_index(scratch):
    """A loss without an ignore index counts every label: -100 and short rows are refused."""
    (scratch / "model.onnx").write_bytes(language(entropy("logits", "target", "ce", "loss", reduction="mean"), [LABEL_INPUT]))
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss")
    for tokens, labels in ((TOKENS, LABELS), ([r[:3] for r in TOKENS], [r[:3] for r in TOKENS])):
        write_data(scratch / "data.npz", tokens=tokens, target=labels)
        done = scratch.attempt("mtrun plan.bin --data data.npz --steps 1")
        if done.returncode != 1 or "no ignore index" not in done.stderr:
            raise tool.Failure(f"labels of a loss without an ignore index: exit {done.returncode}: {done.stderr}")


def check_narrow_labels(scratch):
    """Labels of a type that has no -100: each counts, and none is called that."""
    labels = [onnx.node("Cast", ["target", ], ["wide"], "widen", to=onnx.INT64)]
    model = language(labels + entropy("logits", "wide", "ce", "loss", reduction="mean", ignore_index=-100),
                     [onnx.info("target", onnx.UINT8, ["batch", SEQUENCE])])
    (scratch / "model.onnx").write_bytes(model)
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss")
    (target,) = [i for i in json.loads(scratch.run("mtc dump plan.bin --format json"))["inputs"] if i["name"] == "target"]
    if target["type"] != "u8" or target["ignored"] is not None:
        raise tool.Failure(f"labels of 8 bits: {target}")
    kept = [[max(v, 0) for v in r] for r in LABELS]
    write_data(scratch / "data.npz", tokens=TOKENS, target=kept)
    words = scratch.run("mtrun eval plan.bin --data data.npz").split()
    expected = mean([surprise(t, y) for r, k in zip(TOKENS, kept) for t, y in zip(r, k)])
    if abs(float(words[1]) - expected) > 2e-6 or words[5] != str(BATCH * SEQUENCE):
        raise tool.Failure(f"labels of 8 bits: {' '.join(words)}, and the loss is {expected}")


def check_weighed_class(scratch):
    """A class that a comparison weighs in another way is a class: no label of it is left out."""
    weighed = entropy("logits", "target", "ce", "each", reduction="none") + [
        onnx.node("Reshape", ["target", "line"], ["classes"], "classes"), onnx.node("Equal", ["classes", "three"], ["rare"], "rare"),
        onnx.node("Where", ["rare", "two", "once"], ["weights"], "weights"), onnx.node("Mul", ["each", "weights"], ["left"], "left"),
        onnx.node("ReduceMean", ["left"], ["loss"], "mean", keepdims=0)]
    values = [onnx.integers("three", [3]), onnx.tensor("two", [1], [2.0]), onnx.tensor("once", [1], [1.0])]
    (scratch / "model.onnx").write_bytes(language(weighed, [LABEL_INPUT], values))
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss")
    write_data(scratch / "data.npz", tokens=TOKENS, target=LABELS)
    done = scratch.attempt("mtrun plan.bin --data data.npz --steps 1")
    if done.returncode != 1 or "-100" not in done.stderr:
        raise tool.Failure(f"labels of -100 where every class counts: exit {done.returncode}: {done.stderr}")


def check_mixed(scratch):
    (scratch / "model.onnx").write_bytes(language(contrast(), [], BOUNDS))
    done = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss --report")
    for text in ("warning: node 'pairs': rows of the batch see each other: matmul combines rows with one another; the micro-batch is the whole batch", "micro-batch 4, forced: rows see each other"):
        if done.returncode != 0 or text not in done.stderr + done.stdout:
            raise tool.Failure(f"contrastive loss: no '{text}' in {done.stderr}{done.stdout}")
    done = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch 2 --loss output:loss")
    if done.returncode != 1 or "node 'pairs': rows of the batch see each other: matmul combines rows with one another, so that micro-batches do not add up" not in done.stderr:
        raise tool.Failure(f"contrastive loss in parts: exit {done.returncode}: {done.stderr}")
    done = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss output:loss --host-memory 1KiB")
    if done.returncode != 1 or "the micro-batch cannot be smaller than the batch, because rows see each other (node 'pairs'" not in done.stderr:
        raise tool.Failure(f"contrastive loss without memory: exit {done.returncode}: {done.stderr}")


def check_fixed_batch(scratch):
    """A graph that fixes its batch can be cut; for a larger batch, its own loss is refused: it may count its rows."""
    (scratch / "model.onnx").write_bytes(onnx.classifier(inputs=[onnx.info("x", onnx.FLOAT, [2, 4])]))
    scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch 2 --loss cross-entropy")
    done = scratch.attempt(f"mtc compile model.onnx -o same.bin --batch {BATCH} --loss cross-entropy")
    if done.returncode != 0 or f"the graph fixes its batch: of {BATCH} rows 2 are computed at once" not in done.stderr:
        raise tool.Failure(f"a batch that is not that of the graph: exit {done.returncode}: {done.stderr}")
    if (scratch / "plan.bin").read_bytes() != (scratch / "same.bin").read_bytes():
        raise tool.Failure("the graph's rows as micro-batch give another plan than --micro-batch")
    done = scratch.attempt(f"mtc compile model.onnx -o same.bin --batch {BATCH + 1} --loss cross-entropy")
    if done.returncode != 1 or "dimension 0 of input 'x' is 2 in the model" not in done.stderr:
        raise tool.Failure(f"a batch that is no multiple of the graph's: exit {done.returncode}: {done.stderr}")
    scratch.run("mtc compile model.onnx -o plan.bin --batch 2 --micro-batch 1 --loss cross-entropy")
    (scratch / "model.onnx").write_bytes(language(counted_by_shape(), [LABEL_INPUT], BOUNDS, rows=2))
    done = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch 2 --loss output:loss")
    if done.returncode != 1 or "the graph fixes its batch, 2 rows, and its loss may depend on that number" not in done.stderr or "--batch 2" not in done.stderr:
        raise tool.Failure(f"a loss of two rows: exit {done.returncode}: {done.stderr}")


def check_merged_rows(scratch):
    """Logits whose dimension 0 is batch x sequence have labels of [batch, sequence]."""
    nodes = [onnx.node("Gather", ["table", "tokens"], ["hidden"], "embed"), onnx.node("Reshape", ["hidden", "wide"], ["flat"], "flat"),
             onnx.node("MatMul", ["flat", "head"], ["logits"], "product")]
    (scratch / "model.onnx").write_bytes(onnx.model(
        nodes, [onnx.info("tokens", onnx.INT64, ["batch", SEQUENCE])], [onnx.info("logits", onnx.FLOAT, ["all", CLASSES])],
        [onnx.tensor("table", [CLASSES, WIDTH], TABLE), onnx.tensor("head", [WIDTH, CLASSES], HEAD), onnx.integers("wide", [-1, WIDTH])], opset=18))
    write_data(scratch / "data.npz", tokens=TOKENS, labels=LABELS)
    for micro_batch in (BATCH, 1):
        scratch.run(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch {micro_batch} --loss cross-entropy")
        scratch.run("mtrun plan.bin --data data.npz --shuffle off --steps 1 --metrics metrics.jsonl --out merged --overwrite --keep 0")
        loss = float(tool.metrics(scratch / "metrics.jsonl")[0][1])
        if not near(loss, mean(terms())):
            raise tool.Failure(f"merged rows: loss {loss} at micro-batch {micro_batch}, and it is {mean(terms())}")
    (scratch / "model.onnx").write_bytes(onnx.model(
        nodes + [onnx.node("Slice", ["logits", "zero", "three", "zero"], ["few"], "few")], [onnx.info("tokens", onnx.INT64, ["batch", SEQUENCE])],
        [onnx.info("few", onnx.FLOAT, ["some", CLASSES])],
        [onnx.tensor("table", [CLASSES, WIDTH], TABLE), onnx.tensor("head", [WIDTH, CLASSES], HEAD), onnx.integers("wide", [-1, WIDTH]),
         onnx.integers("zero", [0]), onnx.integers("three", [3])], opset=18))
    done = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --loss cross-entropy")
    if done.returncode != 1 or "dimension 0 of the output, 3, is no multiple of the batch of 4" not in done.stderr:
        raise tool.Failure(f"three rows of four: exit {done.returncode}: {done.stderr}")


def test():
    with tool.Scratch() as scratch:
        for name, model, inputs, expected in cases():
            check_case(scratch, name, model, inputs, expected)
        check_short_rows(scratch)
        check_loss_of_rows(scratch)
        check_no_index(scratch)
        check_narrow_labels(scratch)
        check_weighed_class(scratch)
        check_mixed(scratch)
        check_fixed_batch(scratch)
        check_merged_rows(scratch)


if __name__ == "__main__":
    tool.main(test)
