"""Frozen layers are layers: cut, streamed and computed like trained ones. Device bytes do not grow with depth whatever is
frozen; a frozen parameter is its streamed weight and nothing else; no layer below the lowest trained parameter runs in
backward; and what is trained gets the gradients that it gets when all is trained, to the bit.

    PATH=build/bin:$PATH python3 tests/e2e/frozen.py depth|towers|gradients
"""
import array
import json
import math
import re
import sys
import zipfile

import onnx_rewriter
import tool
from tool import expect

WIDTH = 128
LLAMA = f"llama --hidden {WIDTH} --intermediate 352 --heads 4 --kv-heads 2 --vocab 512"
TIES = 1e-2
PACKED = 1.02  # 8 KiB of 790 are lost or not, by the order that happens to be found
ADAPTED = r"self_attn\.[qo]_proj/MatMul$"


def write_llama(scratch, layers, adapted):
    """llama.onnx with adapters beside the products whose nodes match."""
    scratch.run(f"mtmodel {LLAMA} --layers {layers} -o llama.onnx")
    if adapted:
        model = scratch / "llama.onnx"
        model.write_bytes(onnx_rewriter.add_adapters(model.read_bytes(), adapted, 4, WIDTH, WIDTH))


def top(layers):
    return f"({layers - 1}|{layers - 2})"


def trained(kind, layers):
    """Options that leave a part to train, and the products that have adapters."""
    patterns, adapted = {
        "all": (None, None),
        "head": (["lm_head*"], None),
        "top two blocks": (["lm_head*", f"*layers.{layers - 1}.*", f"*layers.{layers - 2}.*"], None),
        "one block below": (["*layers.1.*"], None),
        "adapters at the top": (["*adapter*"], rf"layers\.{top(layers)}\.{ADAPTED}"),
        "adapters everywhere": (["*adapter*"], ADAPTED),
    }[kind]
    return "" if patterns is None else " ".join(["--freeze '*'", *(f"--train '{p}'" for p in patterns)]), adapted


def smallest_device_budget(scratch, command):
    refused = scratch.attempt(f"{command} --device-memory 4KiB")
    found = re.search(r"the smallest budget for these choices is --device-memory ([0-9]+)B", refused.stderr)
    expect(refused.returncode == 1 and found, f"--device-memory 4KiB: exit {refused.returncode}:\n{refused.stderr}")
    return int(found.group(1))


def plan_of(scratch):
    return json.loads(scratch.run("mtc dump plan.bin --format json"))


def device_bytes(plan):
    return sum(s["bytes"] for s in plan["spaces"] if str(s["kind"]).lower() == "device")


def depth():
    """In the least memory that it takes, and where there is enough of it."""
    for kind in ("all", "head", "top two blocks", "adapters at the top", "adapters everywhere"):
        for precision in ("fp32", "bf16"):
            sizes = {}
            for layers in (12, 24, 48):
                with tool.Scratch() as scratch:
                    options, adapted = trained(kind, layers)
                    write_llama(scratch, layers, adapted)
                    command = (f"mtc compile llama.onnx -o plan.bin --target cpu-discrete --batch 4 --micro-batch 2 --seq 32 "
                               f"--saved-activations input --residency none --precision {precision} {options}")
                    least = smallest_device_budget(scratch, command)
                    scratch.run(f"{command} --device-memory {least}B")
                    plan = plan_of(scratch)
                    taken = device_bytes(plan)
                    expect(taken <= least <= PACKED * taken, f"{taken} bytes with a budget of {least}")
                    expect(plan["model"]["layers"] == layers + 2, f"{plan['model']['layers']} layers of a model with {layers} blocks")
                    sizes[layers] = least
            expect(max(sizes.values()) <= PACKED * min(sizes.values()), f"{kind}, {precision}: device bytes by layers: {sizes}")
            print(f"{kind}, {precision}: {sizes[12]} bytes at every depth", flush=True)


def towers():
    """The stack of an encoder-decoder that is frozen beside the one that is trained; the embedding feeds both."""
    for kind, patterns in (("encoder", "--freeze 'encoder.*' --freeze 'shared*'"), ("decoder", "--freeze 'decoder.*'")):
        sizes = {}
        for layers in (6, 12, 24):
            with tool.Scratch() as scratch:
                scratch.run(f"mtmodel t5 --layers {layers} --hidden 64 --intermediate 160 --heads 4 --vocab 256 -o t5.onnx")
                command = (f"mtc compile t5.onnx -o plan.bin --target cpu-discrete --batch 2 --micro-batch 1 --seq 32 --loss causal-lm "
                           f"--saved-activations input --residency none {patterns}")
                sizes[layers] = smallest_device_budget(scratch, command)
                scratch.run(f"{command} --device-memory {sizes[layers]}B")
                labels = [c["label"] for c in commands_of(plan_of(scratch))]
                backward = {int(label.split()[2]) for label in labels if label.startswith("backward layer")}
                encoder = set(range(1, layers + 1))  # layer 0, of embeddings, makes the decoder's position bias too
                expect(encoder <= backward if kind == "decoder" else not encoder & backward,
                       f"{kind} frozen: backward of layers {sorted(backward)}")
        expect(len(set(sizes.values())) == 1, f"{kind} frozen: device bytes by layers: {sizes}")
        print(f"{kind} frozen: {sizes[6]} bytes at every depth", flush=True)


def arrays(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def distance(a, b):
    """Relative L2 of two .npy files of f32."""
    begin = 10 + int.from_bytes(a[8:10], "little")
    (a, b) = (array.array("f", file[begin:]) for file in (a, b))
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))


def check_gradients(what, got, whole, precision):
    """In bf16 a frozen weight is rounded to even where the master's half is rounded up: ties alone differ."""
    wrong = [name for name in got if got[name] != whole[name] and (precision == "fp32" or distance(got[name], whole[name]) > TIES)]
    expect(not wrong, f"{what}: gradients of {wrong} are not those of training all")


def commands_of(plan):
    return next(p for p in plan["programs"] if p["kind"] == "step")["commands"]


def check_commands(kind, plan, layers, micro_batches):
    """Which layers run how often, what comes up and goes out."""
    labels = [c["label"] for c in commands_of(plan)]
    count = lambda pattern: sum(1 for label in labels if re.fullmatch(pattern, label))
    lowest = {"head": layers + 1, "top two blocks": layers - 1, "one block below": 2, "adapters at the top": layers - 1,
              "adapters everywhere": 1}[kind]  # the layer of the embedding is layer 0
    trains = {"head": [layers + 1], "top two blocks": [layers - 1, layers, layers + 1], "one block below": [2],
              "adapters at the top": [layers - 1, layers], "adapters everywhere": list(range(1, layers + 1))}[kind]
    for layer in range(layers + 2):
        last = layer == layers + 1
        forward, backward = count(f"forward layer {layer} mb .*"), count(f"(backward|loss) layer {layer} mb .*")
        expect(forward == (0 if last else micro_batches), f"{kind}: layer {layer} runs forward {forward} times")
        expect(backward == (micro_batches if layer >= lowest else 0), f"{kind}: layer {layer} runs backward {backward} times")
        out = count(f"gradients layer {layer}")
        ways = {1, micro_batches} if layer in trains else {0}  # summed on the device, or by the host
        if any(re.fullmatch(rf"update .*layer {layer}\b.*", c["label"]) and plan["streams"][c["stream"]]["kind"] == "compute" for c in commands_of(plan)):
            ways = {0}  # its state fits the device
        expect(out in ways, f"{kind}: gradients of layer {layer} go out {out} times")


def check_parameters(kind, plan, width):
    for parameter in plan["parameters"]:
        roles = [part["name"] for part in parameter["parts"]]
        if not parameter["trainable"]:
            expect(roles == ["weight"], f"{kind}: {parameter['name']} is frozen and has {roles}")
            elements = 1
            for size in parameter["dims"]:
                elements *= size
            bytes_ = parameter["parts"][0]["span"]["bytes"]
            expect(bytes_ == width * elements or len(parameter["dims"]) == 1, f"{kind}: {parameter['name']} takes {bytes_} bytes")


def gradients():
    """Step 1 of a model of which a part is trained, against the same model trained whole."""
    layers = 5
    for adapted, kinds in ((None, ("head", "top two blocks", "one block below")),
                           (rf"layers\.{top(layers)}\.{ADAPTED}", ("adapters at the top",)), (ADAPTED, ("adapters everywhere",))):
        with tool.Scratch() as scratch:
            (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 200)
            write_llama(scratch, layers, adapted)
            for precision, width in (("fp32", 4), ("bf16", 2)):
                whole = None
                for kind in ("all", *kinds):
                    for target in ("cpu", "cpu-discrete --saved-activations input --residency none", "cpu-discrete --saved-activations all"):
                        scratch.run(f"mtc compile llama.onnx -o plan.bin --batch 4 --micro-batch 2 --seq 32 --precision {precision} "
                                    f"--target {target} {trained(kind, layers)[0]}")
                        scratch.run("mtrun plan.bin --data text.txt --shuffle off --steps 3 --lr 1e-3 --save-gradients gradients.npz --out run "
                                    "--metrics metrics.jsonl --overwrite")
                        got = arrays(scratch / "gradients.npz")
                        whole = whole or got
                        check_gradients(f"{kind}, {precision}, {target}", got, whole, precision)
                        if kind == "all":
                            continue
                        plan = plan_of(scratch)
                        expect(len(got) == sum(p["trainable"] for p in plan["parameters"]) < len(whole), f"{kind}: {len(got)} gradients")
                        check_parameters(kind, plan, width)
                        if target != "cpu":
                            check_commands(kind, plan, layers, 2)
                    print(f"{kind}, {precision}: {len(got)} gradients", flush=True)


tool.main({"depth": depth, "towers": towers, "gradients": gradients}[sys.argv[1]])
