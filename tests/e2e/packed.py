"""A frozen base in four bits: bit for bit the run whose base has those numbers, half a byte a parameter in host memory and
over the link, any schedule the same bits, and what is refused.

    PATH=build/bin:$PATH python3 tests/e2e/packed.py
"""
import array
import bisect
import json
import math
import pathlib
import re
import shutil
import struct
import tarfile

import tool

case = tool.Cases()
BLOCK = 64
FOLDERS = pathlib.Path(__file__).resolve().parent.parent / "zoo/folders"
# Dettmers et al., QLoRA, arXiv 2305.14314, appendix E.
LEVELS = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
          -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
BETWEEN = [(a + b) / 2 for a, b in zip(LEVELS, LEVELS[1:])]
LORA = "*_proj.weight:rank=4,alpha=8"


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value):
    """The nearest number of 16 bits, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16))[0]


def rounded(values, row):
    """What rows of numbers are once they were packed."""
    result = []
    for line in range(0, len(values), row):
        for begin in range(line, line + row, BLOCK):
            block = values[begin:min(begin + BLOCK, line + row)]
            scale = bf16(max(map(abs, block)))
            result += [single(single(LEVELS[bisect.bisect_left(BETWEEN, single(v / scale))]) * scale) if scale else 0.0 for v in block]
    return result


def round_folder(source, target, pattern):
    """A checkpoint folder whose matrices of such names are what packing makes of them."""
    shutil.copytree(source, target)
    count = 0
    for file in target.glob("*.safetensors"):
        data = bytearray(file.read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:start]).items():
            if re.fullmatch(pattern, name):
                tool.expect(entry["dtype"] == "F32", f"{name} is {entry['dtype']}")
                begin, end = (start + offset for offset in entry["data_offsets"])
                data[begin:end] = array.array("f", rounded(array.array("f", bytes(data[begin:end])), entry["shape"][1])).tobytes()
                count += 1
        file.write_bytes(data)
    tool.expect(count > 0, f"{pattern} is no tensor's name")


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        scratch.link("llama", "hf", "data.npz")
        round_folder(tool.GOLDEN / "llama" / "hf", scratch / "rounded", r".*_proj\.weight")
        self.compile("hf", "packed.bin", "--base-bits 4")

    def compile(self, model, output, options="", target="cpu-discrete"):
        self.scratch.run(f"mtc compile {model} -o {output} --batch 4 --seq 32 --loss causal-lm --lora {LORA} --target {target} {options}")
        return output

    def train(self, plan, out, steps=6, options=""):
        self.scratch.run(f"mtrun {plan} --data data.npz --shuffle off --steps {steps} --lr 0.003 --out {out} {options}")
        return tool.metrics(self.scratch / out / "metrics.jsonl"), tool.safetensors(self.scratch / out / f"step-{steps}" / "weight.safetensors")

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


@case
def the_base_is_what_packing_makes_of_it(b):
    for precision in ("fp32", "bf16"):
        name = f"{precision}.bin"
        want = b.train(b.compile("rounded", name, f"--precision {precision}"), f"rounded-{precision}")
        got = b.train(b.compile("hf", name, f"--precision {precision} --base-bits 4"), f"packed-{precision}")
        tool.compare(want, got, precision)
    plain = b.train(b.compile("hf", "plain.bin"), "plain")
    tool.expect(plain[0] != b.train("packed.bin", "packed")[0], "nothing was packed")


@case
def half_a_byte_a_parameter(b):
    plans = {bits: tool.plan(b.scratch, b.compile("hf", "bytes.bin", f"--precision bf16 --residency none {option}"))
             for bits, option in ((16, ""), (4, "--base-bits 4"))}
    sizes = {}
    for bits, plan in plans.items():
        packed = [p for p in plan["parameters"] if re.search(r"_proj\.weight(\.scales)?$", p["name"])]
        tool.expect(all(not p["trainable"] and len(p["parts"]) == 1 for p in packed), "a part beside the weight")
        sizes[bits] = sum(p["parts"][0]["span"]["bytes"] for p in packed)
    elements = [p["dims"] for p in plans[16]["parameters"] if p["name"].endswith("_proj.weight")]
    tool.expect(sizes[4] == sum(rows * (columns / 2 + 2 * math.ceil(columns / BLOCK)) for rows, columns in elements), f"{sizes}")
    link = {bits: plan["prediction"]["weight_link_bytes"] for bits, plan in plans.items()}
    gradients = {bits: plan["prediction"]["gradient_link_bytes"] for bits, plan in plans.items()}
    # Forward and backward, all but the last layer, which stays between them.
    tool.expect(link[16] - link[4] >= 1.5 * (sizes[16] - sizes[4]), f"{link} bytes of weights cross the link, of {sizes}")
    tool.expect(gradients[4] == gradients[16], f"{gradients}")
    text = b.scratch.run("mtc dump bytes.bin")
    tool.expect(re.search(r"packed +21, .* parameters in 4.26 bits each, scales included", text), f"no line of what is packed: {text[:1500]}")


@case
def what_is_made_of_it_is_not_kept(b):
    """Nor are two there at once: rungs that keep activations keep none of the base."""
    for rung in ("input", "attention", "all"):
        plan = tool.plan(b.scratch, b.compile("hf", "rung.bin", f"--base-bits 4 --saved-activations {rung}"))
        for template in plan["templates"]:
            made = {}
            for at, call in enumerate(template["calls"]):
                for operand in filter(None, call["operands"]):
                    key = (operand["argument"], operand["offset"])
                    if call["kernel"] == "dequantize" and operand is call["operands"][-1]:
                        tool.expect(operand["argument"] == -1, f"{template['name']}: a weight is made outside of the workspace")
                        made[key] = at
                    elif key in made:
                        tool.expect(at == made.pop(key) + 1, f"{template['name']}: a weight is made long before it is used")


@case
def any_schedule_is_the_same_bits(b):
    want = b.train("packed.bin", "whole")
    for name, target, options, disturbance in (("streamed", "cpu-discrete", "--residency none --park on --saved-activations input", "--jitter 3 --poison"),
                                               ("kept", "cpu-discrete", "--saved-activations all", ""), ("unified", "cpu", "", ""),
                                               ("two", "cpu-discrete", "--devices 2", "")):
        tool.compare(want, b.train(b.compile("hf", "other.bin", f"--base-bits 4 --micro-batch 4 {options}", target), name, options=disturbance), name)


@case
def a_run_goes_on_and_its_adapters_fit_the_base(b):
    want = b.train("packed.bin", "straight", steps=8)
    b.train("packed.bin", "halves", steps=4)
    tool.compare(want[1:], b.train("packed.bin", "halves", steps=8, options="--resume")[1:], "resumed")
    b.compile("hf", "plain.bin")
    b.refuses("mtrun plain.bin --data data.npz --shuffle off --lr 0.003 --out halves --resume --steps 9",
              "trained with precision fp32, its base in 4 bits, and the plan has fp32")
    losses = [float(re.search(r"loss ([0-9.]+)", b.scratch.run(f"mtrun eval {plan} --data data.npz --from straight")).group(1))
              for plan in ("packed.bin", "plain.bin")]
    tool.expect(losses[0] != losses[1] and abs(losses[0] - losses[1]) < 0.05, f"{losses}")
    b.scratch.run("mtrun export straight --like hf -o adapter")
    tool.expect(len(tool.safetensors(b.scratch / "adapter" / "adapter_model.safetensors")) == 42, "not all adapters")
    b.scratch.run("mtrun export straight --like hf -o merged --merge")
    b.scratch.run("mtc compile merged -o merged.bin --batch 4 --seq 32 --target cpu-discrete")
    merged = float(re.search(r"loss ([0-9.]+)", b.scratch.run("mtrun eval merged.bin --data data.npz")).group(1))
    tool.expect(abs(merged - losses[1]) < 1e-4, f"{merged}, not {losses[1]}")


@case
def experts_that_a_checkpoint_has_apart(b):
    """Frozen, they are one parameter of a layer, whole or packed; of a layer of which one is trained they stay apart."""
    with tarfile.open(FOLDERS / "mixtral.tar.xz") as archive:
        archive.extractall(b.scratch / "archive", [m for m in archive.getmembers() if "checkpoint" in m.name])
    folder = next((b.scratch / "archive").rglob("config.json")).parent.rename(b.scratch / "mixtral")
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    (b.scratch / "tokens.jsonl").write_text("".join(json.dumps({"tokens": [(7 * i * i + 3 * row * i + row) % vocabulary for i in range(17)]}) + "\n"
                                                    for row in range(12)))
    round_folder(folder, b.scratch / "mixtral-rounded", r".*(_proj|\.w[123])\.weight")

    def compile(model, options):
        b.scratch.run(f"mtc compile {model} -o moe.bin --batch 4 --seq 16 --lora 'model.layers.*q_proj.weight:rank=2' --target cpu-discrete {options}")
        return tool.plan(b.scratch, "moe.bin")

    def train(out, data="--data tokens.jsonl --shuffle off"):
        b.scratch.run(f"mtrun moe.bin {data} --steps 5 --lr 0.01 --out {out}")
        return tool.metrics(b.scratch / out / "metrics.jsonl"), tool.safetensors(b.scratch / out / "step-5" / "weight.safetensors")

    one = "model.layers.1.block_sparse_moe.experts.2.w1.weight"
    apart = compile("mixtral", f"--train {one} --group '{one}:lr=0,decay=0'")
    names = [p["name"] for p in apart["parameters"]]
    tool.expect(one in names and "model.layers.1.block_sparse_moe.experts.*.w1.weight" not in names
                and "model.layers.0.block_sparse_moe.experts.*.w1.weight" in names, f"{names}")
    losses = [loss for _, loss, _ in train("apart")[0]]
    joined = compile("mixtral", "")
    stack = next(p for p in joined["parameters"] if p["name"] == "model.layers.1.block_sparse_moe.experts.*.w1.weight")
    tool.expect([p["name"] for p in stack["initial"]["pieces"]] == [one.replace(".2.", f".{i}.") for i in range(len(stack["initial"]["pieces"]))]
                and stack["dims"][0] == len(stack["initial"]["pieces"]) > 2, f"{stack}")
    tool.expect([loss for _, loss, _ in train("joined")[0]] == losses, "experts together give other losses than apart")
    packed = compile("mixtral", "--base-bits 4")
    names = [p["name"] for p in packed["parameters"] if "packing" in p["initial"]]
    tool.expect("model.layers.1.block_sparse_moe.experts.*.w2.weight.scales" in names and not any(".gate." in name for name in names), f"{names}")
    got = train("moe-packed")
    compile("mixtral-rounded", "")
    tool.compare(train("moe-rounded"), got, "experts in four bits")
    b.scratch.run("mtrun export moe-packed --like mixtral -o moe-merged --merge")
    (folder / "model-00005-of-00011.safetensors").unlink()
    done = b.scratch.attempt("mtrun moe.bin --data tokens.jsonl --steps 1 --out without")
    tool.expect(done.returncode == 0, f"the rounded one needs no file of the other: {done.stderr}")
    compile_again = b.scratch.attempt("mtc compile mixtral -o never.bin --batch 4 --seq 16")
    tool.expect(compile_again.returncode != 0 and "model-00005-of-00011.safetensors" in compile_again.stderr, f"{compile_again.stderr}")


@case
def a_file_of_a_piece_that_is_gone(b):
    (b.scratch / "gone.bin").unlink(missing_ok=True)
    b.scratch.run("mtc compile mixtral-rounded -o gone.bin --batch 4 --seq 16 --lora '*q_proj.weight:rank=2'")
    (b.scratch / "mixtral-rounded" / "model-00007-of-00011.safetensors").rename(b.scratch / "elsewhere")
    b.refuses("mtrun gone.bin --data tokens.jsonl --steps 1 --out never",
              r"model-00007-of-00011.safetensors: .*it holds the weights of 'model.layers.1.block_sparse_moe.experts.0.w1.weight'; bring it back")


@case
def weights_that_are_generated(b):
    b.scratch.run("mtmodel llama -o made.onnx --layers 2 --hidden 64 --heads 2 --kv-heads 2 --vocab 200")
    for number, options in enumerate(("", "--base-bits 4")):
        b.scratch.run(f"mtc compile made.onnx -o made-{number}.bin --batch 2 --freeze '*' --seq 32 --train '*norm*' {options}")
    text = b.scratch.run("mtc dump made-1.bin")
    tool.expect("packed " in text, f"nothing is packed: {text[:1000]}")


@case
def what_is_refused(b):
    b.refuses("mtc compile hf -o never.bin --base-bits 8", "--base-bits 8: must be 4", 2)
    b.refuses("mtc compile hf -o never.bin --base-bits 4", r"--base-bits 4: there is no frozen matrix .*; products take 'model\.layers.*--freeze PATTERN")
    name = "model.layers.1.mlp.up_proj.weight"
    data = bytearray((tool.GOLDEN / "llama" / "hf" / "model.safetensors").read_bytes())
    length = int.from_bytes(data[:8], "little")
    at = 8 + length + json.loads(data[8:8 + length])[name]["data_offsets"][0] + 4 * 70
    data[at:at + 4] = struct.pack("<f", float("inf"))
    (b.scratch / "broken").mkdir()
    (b.scratch / "broken" / "model.safetensors").write_bytes(data)
    (b.scratch / "broken" / "config.json").write_bytes((b.scratch / "hf" / "config.json").read_bytes())
    b.compile("broken", "broken.bin", "--base-bits 4")
    b.refuses("mtrun broken.bin --data data.npz --steps 1 --out never", f'parameter "{name}[a-z.]*": element 70 is inf: a weight that is packed must be finite')


if __name__ == "__main__":
    tool.main(lambda: case.run(Bench, "properties of a packed base hold"))
