"""Random numbers in training: losses and gradients of small models are those that a few lines of Python compute with the same
masks and noise, step by step, for every micro-batch; evaluations drop nothing and draw the same whatever the step; a GPT-2
with dropout loses the same in micro-batches of one row as of all, and otherwise under another seed; equal layers share a
template.

    PATH=build/bin:$PATH python3 tests/e2e/dropout.py
"""
import json
import math
import re

import onnx_writer as onnx
import tool
from own_loss import arrays, write_data
from tool import expect

BATCH, PLACES, WIDTH = 4, 5, 3
ROW = PLACES * WIDTH
X = [[math.sin(1.3 * (r * ROW + i) + 1) for i in range(ROW)] for r in range(BATCH)]
W = [0.7, -1.1, 0.4]
SEED = (1 << 40) + 3
FIRST, SECOND = 0.25, 0.5  # ratios, which floats hold


#-- what is drawn ----------------------------------------------------------------------------------------------------


def words(counter, key):
    """Philox4x32-10: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011."""
    low = (1 << 32) - 1
    a, b, c, d = counter
    for i in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ (key[0] + 0x9E3779B9 * i & low), second & low, first >> 32 ^ d ^ (key[1] + 0xBB67AE85 * i & low), first & low
    return a, b, c, d


def word(element, draw, node, seed):
    return words((element // 4, 0, draw % (1 << 32), node), (seed % (1 << 32), seed >> 32))[element % 4]


def keeps(element, ratio, draw, node, seed):
    return draw < 0 or word(element, draw, node, seed) >= ratio * (1 << 32)


def normal(element, draw, node, seed):
    u, v = ((word(e, draw, node, seed)) for e in (element & ~1, element | 1))
    return math.sqrt(-2 * math.log(u / (1 << 32) + 1 / (1 << 33))) * (math.sin if element % 2 else math.cos)(2 * math.pi * v / (1 << 32))


def expected(draw, seed):
    """Loss, and gradient of w: two masks, the second of a transposed value, and noise."""
    gradient = [0.0] * WIDTH
    for r in range(BATCH):
        for p in range(PLACES):
            for i in range(WIDTH):
                element, turned = (r * PLACES + p) * WIDTH + i, (r * PLACES + p) * WIDTH + i  # rows first in both
                kept = keeps(element, FIRST, draw, 0, seed) and keeps(turned, SECOND, draw, 1, seed)
                scale = 1 if draw < 0 else 1 / (1 - FIRST) / (1 - SECOND)
                gradient[i] += X[r][p * WIDTH + i] * (kept * scale + normal(element, draw, 2, seed)) / (BATCH * ROW)
    return sum(g * w for g, w in zip(gradient, W)), gradient


def small_model():
    nodes = [onnx.node("Reshape", ["x", "shape"], ["cut"], "cut"),
             onnx.node("Dropout", ["cut", "first", "yes"], ["a"], "rows first"),
             onnx.node("Transpose", ["a"], ["t"], "turn", perm=[1, 0, 2]),
             onnx.node("Dropout", ["t", "second", "yes"], ["b"], "rows within"),
             onnx.node("Mul", ["b", "w"], ["c"], "weigh"), onnx.node("ReduceMean", ["c"], ["left"], "left", keepdims=0),
             onnx.node("RandomNormalLike", ["cut"], ["noise"], "noise"), onnx.node("Mul", ["cut", "noise"], ["d"], "noisy"),
             onnx.node("Mul", ["d", "w"], ["e"], "weigh noise"), onnx.node("ReduceMean", ["e"], ["right"], "right", keepdims=0),
             onnx.node("Add", ["left", "right"], ["loss"], "loss")]
    yes = onnx.field(2, 9) + onnx.field(8, "yes") + onnx.field(9, b"\1")  # a boolean
    return onnx.model(nodes, [onnx.info("x", onnx.FLOAT, ["batch", ROW])], [onnx.info("loss", onnx.FLOAT, [])],
                      [onnx.tensor("w", [WIDTH], W), onnx.integers("shape", [0, PLACES, WIDTH]), onnx.tensor("first", [], [FIRST]),
                       onnx.tensor("second", [], [SECOND]), yes], opset=17)


#-- the tests --------------------------------------------------------------------------------------------------------


def near(a, b):
    return abs(a - b) <= 2e-6 * max(1.0, abs(b))


def losses(path):
    return [float(loss) for _, loss, _ in tool.metrics(path)]


def check_small(scratch):
    (scratch / "model.onnx").write_bytes(small_model())
    write_data(scratch / "data.npz", x=X)
    want = [expected(step, SEED) for step in (1, 2, 3)]
    for micro_batch in (4, 2, 1):
        said = scratch.attempt(f"mtc compile model.onnx -o plan.bin --batch {BATCH} --micro-batch {micro_batch} --loss output:loss --optimizer sgd")
        expect(said.returncode == 0, said.stderr)
        remark = "remark: dropout in training form: 1 of ratio 0.25, 1 of ratio 0.5; on in training"
        expect(remark in said.stderr, f"mtc does not say '{remark}': {said.stderr}")
        scratch.run(f"mtrun plan.bin --data data.npz --shuffle off --steps 3 --lr 0 --seed {SEED} --out run-{micro_batch} --metrics metrics.jsonl "
                    "--overwrite --save-gradients gradients.npz --eval-data data.npz --eval-every 1")
        got = losses(scratch / "metrics.jsonl")
        for step, (loss, (wanted, _)) in enumerate(zip(got, want), 1):
            expect(near(loss, wanted), f"micro-batches of {micro_batch}, step {step}: loss {loss}, by the formulas {wanted}")
        gradient = arrays(scratch / "gradients.npz")["w.npy"]
        expect(all(near(a, b) for a, b in zip(gradient, want[0][1])), f"micro-batches of {micro_batch}: gradient {gradient}, by the formulas {want[0][1]}")
        check_evaluations(scratch, micro_batch)


def check_evaluations(scratch, micro_batch):
    """Of the run, after every step the same, of its checkpoint, and of the initial weights by the seed 0."""
    rows = [json.loads(line) for line in (scratch / "metrics.jsonl").read_text().splitlines()]
    seen = [row["eval_loss"] for row in rows if "eval_loss" in row]
    wanted = expected(-1, SEED)[0]
    expect(len(seen) == 3 and len(set(seen)) == 1 and near(seen[0], wanted), f"evaluations {seen}, by the formulas {wanted}")
    for source, seed in ((f"--from run-{micro_batch}", SEED), ("", 0)):
        told = scratch.run(f"mtrun eval plan.bin --data data.npz {source}")
        loss = float(re.match(r"loss (\S+)", told).group(1))
        expect(abs(loss - expected(-1, seed)[0]) < 2e-6, f"mtrun eval {source}: {told}, by the formulas {expected(-1, seed)[0]}")


def check_gpt2(scratch):
    compile, train = tool.case_commands("gpt2-dropout")
    scratch.link("gpt2-dropout", "model.onnx", "data.npz")
    train = tool.without(train, "--steps", "--metrics", "--seed")
    curves = {}
    for micro_batch, seed in ((4, 7), (2, 7), (1, 7), (4, 8)):
        scratch.run([*compile, "--micro-batch", micro_batch])
        scratch.run([*train, "--steps", 8, "--seed", seed, "--keep", 0, "--out", f"{micro_batch}-{seed}", "--metrics", f"{micro_batch}-{seed}.jsonl"])
        curves[micro_batch, seed] = losses(scratch / f"{micro_batch}-{seed}.jsonl")
    for micro_batch in (2, 1):
        for a, b in zip(curves[4, 7], curves[micro_batch, 7]):
            expect(abs(a - b) < 2e-5, f"micro-batches of {micro_batch}: losses {curves[micro_batch, 7]}, of the whole batch {curves[4, 7]}")
    apart = [abs(a - b) for a, b in zip(curves[4, 7], curves[4, 8])]
    expect(min(apart) > 0 and max(apart) > 1e-2, f"seeds 7 and 8 lose the same: {curves[4, 7]} and {curves[4, 8]}")
    dumped = tool.plan(scratch, "plan.bin")
    step = next(program for program in dumped["programs"] if program["kind"] == "step")
    forward = [command for command in step["commands"] if re.fullmatch(r"forward layer [0-9]+ mb 0", command["label"])]
    used = {command["label"]: command["run"]["template_index"] for command in forward}
    expect(len(used) > len(set(used.values())), f"equal layers have templates of their own: {used}")


def test():
    with tool.Scratch() as scratch:
        check_small(scratch)
    with tool.Scratch() as scratch:
        check_gpt2(scratch)
    print("masks and noise are those of the formulas, for every micro-batch")


if __name__ == "__main__":
    tool.main(test)
