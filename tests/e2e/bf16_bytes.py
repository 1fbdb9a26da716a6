"""Bytes of bf16 plans, a parameter and a step: 2 up for forward and 2 for backward, 4 out for every sum of
micro-batches that the device makes, 12 on the host and 16 with clipping, whatever the number of micro-batches; the same
for a model of 8 B parameters as for GPT-2.

    PATH=build/bin:$PATH python3 tests/e2e/bf16_bytes.py

Exceptions, all below these numbers or named: the last layer's weights come up once, for its forward and backward are one
phase, and so do the first's, tables whose gradient does not need them; a tied weight belongs to the first layer that uses it, and comes up and goes out once more for the other; gains and
biases of norms, which have 32 bits (4 up, no remainder); gaps between parameters, which begin at multiples of 256 bytes.
"""
import json
import math
import re

import tool
from tool import expect

ALIGNMENT = 256
LLAMA = "llama --layers 32 --hidden 4096 --intermediate 14336 --heads 32 --kv-heads 8 --vocab 128256"


def is_exact(parameter):
    return parameter["trainable"] and parameter["parts"][0]["type"] == "f32"


class Plan:
    """What the test asks of a plan: its parameters by owner, the copies of a step, the slots of the host."""

    def __init__(self, scratch, command):
        self.command = command
        self.report = scratch.run(command)
        plan = json.loads(scratch.run("mtc dump plan.bin --format json"))
        self.parameters = plan["parameters"]
        self.copies = [(c["label"], c["copy"]["from"]["bytes"]) for p in plan["programs"] if p["kind"] == "step"
                       for c in p["commands"] if "copy" in c]
        self.gradients = [(c["label"], c.get("micro_batch"), c["copy"]["from"]["bytes"]) for p in plan["programs"] if p["kind"] == "step"
                          for c in p["commands"] if c["label"].startswith("gradient") and "copy" in c]
        self.sources = {}  # by label: what its copies read, from where to where; a layer may come in parts
        for command in (c for p in plan["programs"] if p["kind"] == "step" for c in p["commands"] if "copy" in c):
            source = command["copy"]["from"]
            self.sources.setdefault(command["label"], []).append((source["offset"], source["offset"] + source["bytes"]))
        self.micro_batches = plan["settings"]["batch"] // plan["settings"]["micro_batch"]
        self.trained = sum(math.prod(p["dims"]) for p in self.parameters if p["trainable"])
        self.exact = sum(math.prod(p["dims"]) for p in self.parameters if is_exact(p))  # those of 32 bits
        self.frozen = sum(p["parts"][0]["span"]["bytes"] for p in self.parameters if not p["trainable"])
        self.gaps = ALIGNMENT * len(self.parameters)

    def extent(self, label):
        """Bytes that copies of a label read, each counted once."""
        read, until = 0, 0
        for begin, end in sorted(self.sources[label]):
            read += max(0, end - max(begin, until))
            until = max(until, end)
        return read

    def by_micro_batch(self, prefix):
        """Bytes that go out of gradients, by label and by the micro-batch that was last in the sum."""
        sizes = {}
        for label, micro_batch, size in self.gradients:
            if label.startswith(prefix):
                of = sizes.setdefault(label, {})
                of[micro_batch] = of.get(micro_batch, 0) + size
        return sizes

    def copied(self, pattern):
        return [(label, size) for label, size in self.copies if re.match(pattern, label)]

    def sum(self, pattern):
        return sum(size for _, size in self.copied(pattern))

    def within(self, what, got, wanted, slack):
        expect(wanted <= got <= wanted + slack, f"{what}: {got} bytes, not {wanted} (and gaps of at most {slack}); {self.command}")


def check(plan, clip):
    """Parts of the host, weights in, gradients out."""
    for parameter in plan.parameters:
        elements = math.prod(parameter["dims"])
        if not parameter["trainable"]:
            expect([part["name"] for part in parameter["parts"]] == ["weight"], f"{parameter['name']} is frozen and has {parameter['parts']}")
            continue
        parts = {part["name"]: (part["type"], part["span"]["bytes"]) for part in parameter["parts"]}
        wanted = {"weight": ("bf16", 2 * elements), "remainder": ("i16", 2 * elements),
                  "first_moment": ("f32", 4 * elements), "second_moment": ("f32", 4 * elements)}
        if is_exact(parameter):
            expect(len(parameter["dims"]) == 1, f"{parameter['name']} has 32 bits and {parameter['dims']}")
            wanted = {role: part for role, part in wanted.items() if role != "remainder"} | {"weight": ("f32", 4 * elements)}
        expect(parts == wanted, f"{parameter['name']} of {elements} elements has {parts}; {plan.command}")
    # Weights: every layer's once for forward; once more for backward, but for the last's and the first's.
    uploads = plan.copied("weights layer")
    layers = {label for label, _ in uploads}
    last = max(layers, key=lambda label: int(label.split()[-1]))
    each = {label: plan.extent(label) for label in layers}
    plan.within("weights of all layers", sum(each.values()), 2 * plan.trained + 2 * plan.exact + plan.frozen, plan.gaps)
    for label in layers:
        times = round(sum(size for other, size in uploads if other == label) / plan.extent(label), 2)
        once = label in (last, "weights layer 0")
        expect(times == (1 if once else 2), f"'{label}' comes up {times} times; {plan.command}")
    # Gradients: every parameter's once, in 32 bits; where the host adds up what micro-batches give, each of their sums.
    gradients = plan.by_micro_batch("gradients layer")
    once = sum(next(iter(sizes.values())) for sizes in gradients.values())
    plan.within("gradients", once, 4 * plan.trained, 2 * plan.gaps)
    for label, sizes in gradients.items():
        expect(plan.micro_batches % len(sizes) == 0 and len(set(sizes.values())) == 1, f"'{label}' goes out as {sizes}; {plan.command}")
    summed = re.search(r"gradients of ([0-9]+) layers summed by the host", plan.report)
    expect((int(summed.group(1)) if summed else 0) == sum(len(sizes) > 1 for sizes in gradients.values()),
           f"the report does not say who sums gradients:\n{plan.report}")
    # The report says the same: what is streamed twice, and the host's share.
    host = float(re.search(r"([0-9.]+) B on the host", plan.report).group(1))
    expect(host == (16 if clip else 12), f"{host} bytes on the host, not {16 if clip else 12}:\n{plan.report}")
    return each[last] + each["weights layer 0"]


def bytes_of(text):
    number, unit = re.match(r"([0-9.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def check_activations(plan):
    """The report's line of activations: each amount named, together what the step copies beside weights and gradients."""
    line = re.search(r"^activations +(.*) a step|^activations +(.*)$", plan.report, re.M).group(0)
    amounts = re.findall(r"[0-9.]+ (?:B|KiB|MiB|GiB)", line)
    copied = sum(size for label, size in plan.copies if not re.match("weight|gradient", label))
    said = sum(bytes_of(amount) for amount in amounts)
    expect(len(amounts) >= 3 and abs(said - copied) <= 0.01 * copied, f"{copied} bytes beside weights and gradients are copied:\n{line}")


def gpt2(scratch):
    """The tied embedding is layer 0's; the head brings it up once more, and its gradient is one more part."""
    scratch.run("mtmodel gpt2 -o model.onnx")  # 124 M parameters
    for clip in ("", " --clip"):
        weights = set()
        for micro_batch in (4, 2, 1):
            plan = Plan(scratch, f"mtc compile model.onnx -o plan.bin --precision bf16 --batch 4 --seq 256 --micro-batch {micro_batch} --report "
                                 f"--target cpu-discrete --saved-activations input --residency none --prefetch-distance 1{clip}")
            expect(plan.micro_batches == 4 // micro_batch, "another number of micro-batches")
            check(plan, clip)
            check_activations(plan)
            tied = 50257 * 768
            expect([size for _, size in plan.copied("weight ")] == [2 * tied], f"the tied weight: {plan.copied('weight ')}")
            expect({size for _, size in plan.copied("gradient ")} == {4 * tied}, f"its gradient: {plan.copied('gradient ')}")
            weights.add(plan.sum("weight"))
        expect(len(weights) == 1, f"bytes depend on the number of micro-batches: {weights}")


def llama(scratch):
    """4 bytes in but for the embedding and the head, whose 2 bytes come up once; 4 out."""
    scratch.run(f"mtmodel {LLAMA} -o llama.onnx")
    for clip in ("", " --clip"):
        for micro_batch in (4, 2, 1):
            plan = Plan(scratch, f"mtc compile llama.onnx -o plan.bin --precision bf16 --batch 4 --seq 512 --micro-batch {micro_batch} --report "
                                 f"--target h200 --device-memory 40GiB --host-memory 1TiB --saved-activations input --residency none --prefetch-distance 1{clip}")
            once = check(plan, clip)
            check_activations(plan)
            plan.within("weights in", plan.sum("weight"), 4 * plan.trained + 4 * plan.exact + 2 * plan.frozen - once, 2 * plan.gaps)


def test():
    with tool.Scratch() as scratch:
        gpt2(scratch)
        llama(scratch)


tool.main(test)
