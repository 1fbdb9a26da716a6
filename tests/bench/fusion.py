"""What fusing saves in a model's layers: calls, and bytes of elementwise work, of each layer's templates in both directions
(everything saved), as if every operation stood alone and as mtc fuses them. Prints a table in Markdown for docs/measurements.md.

    PATH=build/bin:$PATH python tests/bench/fusion.py NAME=MODEL.onnx [NAME=MODEL.onnx ...] [-- OPTIONS OF MTC COMPILE]

A fused call is counted as what it replaces: a product with an addend as the product and a sum that reads two values and writes
one, of which the fused call reads the addend alone. Sums over rows (biases' gradients) count as elementwise work, as do those that a chain
makes; sums on their own, norms, rotary embeddings, softmax and lookups do not.
"""
import collections
import math
import re
import subprocess
import sys

BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "u8": 1, "i1": 1, "bool": 1}
ELEMENTWISE = set("add sub mul div pow maximum minimum mod and or xor compare select neg abs sign exp log sqrt rsqrt reciprocal tanh sigmoid "
                  "softplus erf sin cos atan floor ceil round relu silu not is_nan gelu activation_grad gated_product gated_product_grad "
                  "cast".split())


def size(tensor):
    dims, element = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", tensor).groups()
    count = BYTES[element]
    for dim in dims.split("x")[:-1]:
        count *= int(dim)
    return count


def operations(text):
    """Templates by name: of each operation its kind, bytes of operands and of results, attributes, elements of the largest."""
    for function in re.split(r"\n  func\.func private ", text)[1:]:
        ops = []
        for line in function.splitlines():
            op = re.match(r"\s+%\S+(?:, %\S+)* = nn\.(\w+) (.*?)(?: \{(.*)\})? : \((.*)\) -> (.*)$", line)
            if op and op[1] != "reshape":
                read, written = ([size(t) for t in re.findall(r"tensor<[^>]*>", types)] for types in (op[4], op[5]))
                dims = re.findall(r"tensor<((?:\d+x)*)", op[4] + op[5])
                ops.append((op[1], read, written, op[3] or "", max(math.prod(map(int, each.split("x")[:-1])) for each in dims)))
        yield function[1:function.index("(")], ops


def expression(text, read, elements):
    """Calls of an expression (kernels/Expression.h), the bytes that they would move one after another, and those of each result."""
    values, calls, moved = list(read), 0, 0
    instructions, named = text.split(" -> ")
    for instruction in instructions.split(", "):
        call, element = instruction.rsplit(":", 1)
        name, *operands = call.split()
        if name == "constant":
            values.append(BYTES[element])
            continue
        results = 2 if name.startswith("gated_product_grad") else 1
        calls += 1
        moved += sum(values[int(o)] for o in operands) + results * elements * BYTES[element]
        values += results * [elements * BYTES[element]]
    return calls, moved, [values[int(value)] for value in named.split()]


def work(ops):
    """(calls, bytes) alone, and fused."""
    alone, fused = collections.Counter(), collections.Counter()
    for kind, read, written, attributes, elements in ops:
        fused["calls"] += 1
        alone["calls"] += 1
        result = written[0]
        if kind == "matmul_add":
            extra, rides = (1, 3 * result), result
        elif kind == "matmul_gelu":
            extra, rides = (1, 2 * result), result
        elif kind == "matmul_gelu_grad":
            extra, rides = (1, 3 * result), result
        elif kind == "matmul_sums":
            extra, rides = (1, read[0] + written[1]), written[1]
        elif kind in ("rms_norm_grad", "layer_norm_grad") and read.count(result) == 3:
            extra, rides = (1, 3 * result), result
        elif kind == "elementwise":
            calls, moved, _ = expression(re.search(r'expression = "([^"]*)"', attributes)[1], read, elements)
            extra, rides = (calls - 1, moved), sum(read) + sum(written)
        elif kind == "elementwise_sums":
            calls, moved, results = expression(re.search(r'expression = "([^"]*)"', attributes)[1], read, elements)
            sums = int(re.search(r"sums = (\d+)", attributes)[1])
            extra, rides = (calls - 1 + sums, moved + sum(results[-sums:]) + sum(written[-sums:])), sum(read) + sum(written)
        elif kind in ELEMENTWISE:
            extra, rides = (0, sum(read) + sum(written)), sum(read) + sum(written)
        else:
            continue
        alone["calls"] += extra[0]
        alone["bytes"] += extra[1]
        fused["bytes"] += rides
    return alone, fused


def main():
    given = sys.argv[1:]
    options = given[given.index("--") + 1:] if "--" in given else ["--batch", "4"]
    print("| model | precision | template | calls alone | fused | elementwise bytes alone | fused | less |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, path in (word.split("=", 1) for word in given[:given.index("--") if "--" in given else None]):
        for precision in ("fp32", "bf16"):
            done = subprocess.run(["mtc", "compile", path, "--emit=layers", "--precision", precision, *options], stdout=subprocess.PIPE, text=True)
            if done.returncode:
                sys.exit(done.returncode)  # mtc has said why
            text = done.stdout
            largest = max((len(ops), template) for template, ops in operations(text) if template.endswith(".backward.all"))[1].removesuffix(".backward.all")
            both = [collections.Counter(), collections.Counter()]
            for template, ops in operations(text):
                if template in (f"{largest}.forward.all", f"{largest}.backward.all"):
                    for sums, one in zip(both, work(ops)):
                        sums.update(one)
            alone, fused = both
            print(f"| {name} | {precision} | {largest} | {alone['calls']} | {fused['calls']} | {alone['bytes'] / 2**20:.1f} MiB | {fused['bytes'] / 2**20:.1f} MiB "
                  f"| {100 * (1 - fused['bytes'] / alone['bytes']):.0f} % |")


if __name__ == "__main__":
    main()
