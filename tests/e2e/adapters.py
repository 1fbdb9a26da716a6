"""Low-rank adapters: 50 steps as PEFT's (golden/adapters.json, of tests/zoo/peft_curve.py), the base without gradients or
state, any schedule the same bits, exports in PEFT's format and merged, and what is refused.

    PATH=build/bin:$PATH python3 tests/e2e/adapters.py
"""
import dataclasses
import json
import re
import shlex

import tool

case = tool.Cases()
STEPS, RATE, DECAY = 50, 0.003, 0.1
TRAIN = f"--data data.npz --shuffle off --weight-decay {DECAY} --decay all"


@dataclasses.dataclass
class Curve:
    name: str
    model: str    # a reference case
    graph: str    # its .onnx, or its checkpoint folder
    lora: str
    batch: int = 4
    options: str = ""

    def compile(self, output="plan.bin", options="", target="cpu-discrete"):
        return shlex.split(f"mtc compile {self.graph} -o {output} --batch {self.batch} --seq 32 --loss causal-lm --lora '{self.lora}' "
                           f"--target {target} {self.options} {options}")

    def begin(self, scratch):
        """Commands after which the folder `begun` has the adapters as they are before the first step."""
        for name in ("model.onnx", "data.npz", "hf"):
            (scratch / name).symlink_to(tool.GOLDEN / self.model / name)
        return [self.compile(), shlex.split("mtrun plan.bin --data data.npz --shuffle off --steps 1 --lr 0 --out start"),
                shlex.split("mtrun export start --like hf -o begun")]


CURVES = [Curve("llama-folder", "llama", "hf", "*_proj.weight:rank=4,alpha=8"),
          Curve("llama-graph", "llama", "model.onnx", "model.*_proj.weight:rank=4,alpha=8"),
          Curve("gpt2-folder", "gpt2", "hf", "*attn.c_attn.weight:rank=3,alpha=16,seed=7"),
          Curve("llama-packed", "llama", "hf", "*_proj.weight:rank=4,alpha=8", options="--base-bits 4")]


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        self.curve = CURVES[0]
        for command in self.curve.begin(scratch):
            scratch.run(command)

    def train(self, out, steps=8, plan="plan.bin", options="", rate=RATE):
        self.scratch.run(f"mtrun {plan} {TRAIN} --lr {rate} --steps {steps} --out {out} {options}")
        return tool.metrics(self.scratch / out / "metrics.jsonl"), tool.safetensors(self.scratch / out / f"step-{steps}" / "weight.safetensors")

    def compile(self, options, output="other.bin", target="cpu-discrete"):
        self.scratch.run(self.curve.compile(output, options, target))
        return output

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


@case
def fifty_steps_are_those_of_peft(b):
    want = json.loads((tool.GOLDEN / "adapters.json").read_text())
    for curve in CURVES:
        with tool.Scratch() as scratch:
            for command in curve.begin(scratch):
                scratch.run(command)
            scratch.run(f"mtrun plan.bin {TRAIN} --lr {RATE} --steps {STEPS} --out run")
            got = [float(loss) for _, loss, _ in tool.metrics(scratch / "run" / "metrics.jsonl")]
        tool.expect(len(got) == len(want[curve.name]) == STEPS, f"{curve.name}: {len(got)} steps")
        worst = max(abs(g - w) / w for g, w in zip(got, want[curve.name]))
        tool.expect(worst < 2e-6, f"{curve.name}: losses differ by {worst:.2g}")


@case
def the_base_has_no_gradient_and_no_state(b):
    for precision, size in (("fp32", 4), ("bf16", 2)):
        plan = tool.plan(b.scratch, b.compile(f"--precision {precision} --residency none"))
        numel = lambda p: p["dims"][0] * (p["dims"][1] if len(p["dims"]) > 1 else 1)
        for p in plan["parameters"]:
            parts = {part["name"]: part["span"]["bytes"] for part in p["parts"]}
            tool.expect(p["trainable"] == (".lora_" in p["name"]), f"{p['name']}: trainable is {p['trainable']}")
            if not p["trainable"] and len(p["dims"]) == 2:
                tool.expect(parts == {"weight": size * numel(p)}, f"{precision}: {p['name']} takes {parts}")
        trained = sum(numel(p) for p in plan["parameters"] if p["trainable"])
        tool.expect(plan["prediction"]["gradient_link_bytes"] <= 4 * trained + 64 * len(plan["parameters"]),
                    f"{plan['prediction']['gradient_link_bytes']} bytes of gradients for {trained} trained elements")
        tool.expect(len(plan["adapters"]) == 21, f"{len(plan['adapters'])} adapters")


@case
def any_schedule_is_the_same_bits(b):
    want = b.train("whole")
    for name, target, options, disturbance in (("streamed", "cpu-discrete", "--residency none --park on --saved-activations input", "--jitter 3 --poison"),
                                               ("unified", "cpu", "", ""), ("two", "cpu-discrete", "--devices 2", "")):
        tool.compare(want, b.train(name, plan=b.compile(options + " --micro-batch 4", target=target), options=disturbance), name)


@case
def a_run_that_goes_on_is_the_same_bits(b):
    want = b.train("straight", steps=6)
    b.train("halves", steps=3)
    tool.compare(want[1:], b.train("halves", steps=6, options="--resume")[1:], "resumed")
    b.compile("--lora '*_proj.weight:rank=4,alpha=16'", "wider.bin")
    b.refuses(f"mtrun wider.bin {TRAIN} --steps 9 --lr {RATE} --out halves --resume", "trained on another graph")


@case
def adapters_of_zeros_change_nothing(b):
    b.scratch.run("mtc compile hf -o base.bin --batch 4 --seq 32 --loss causal-lm --target cpu-discrete")
    want = b.scratch.run("mtrun eval base.bin --data data.npz")
    tool.expect(b.scratch.run("mtrun eval plan.bin --data data.npz --from start") == want, "the loss is another")
    b.scratch.run("mtrun export start --like hf -o same --merge")
    for f in (b.scratch / "hf").iterdir():
        tool.expect((b.scratch / "same" / f.name).read_bytes() == f.read_bytes(), f"{f.name} changed")


@case
def merged_weights_are_the_run(b):
    b.train("run", steps=20, rate=0.05)
    want = float(re.search(r"loss ([0-9.]+)", b.scratch.run("mtrun eval plan.bin --data data.npz --from run")).group(1))
    b.scratch.run("mtrun export run --like hf -o merged --merge")
    b.scratch.run("mtc compile merged -o merged.bin --batch 4 --seq 32 --loss causal-lm --target cpu-discrete")
    got = float(re.search(r"loss ([0-9.]+)", b.scratch.run("mtrun eval merged.bin --data data.npz")).group(1))
    tool.expect(abs(got - want) < 2e-6 * want, f"{got} and {want}")
    graph = CURVES[1]
    b.scratch.run(graph.compile("graph.bin"))
    b.train("graph-run", steps=5, plan="graph.bin", rate=0.05)
    want = b.scratch.run("mtrun eval graph.bin --data data.npz --from graph-run")
    b.scratch.run("mtrun export graph-run -o merged.onnx --merge")
    b.scratch.run("mtc compile merged.onnx -o merged.bin --batch 4 --seq 32 --loss causal-lm --target cpu-discrete")
    got = b.scratch.run("mtrun eval merged.bin --data data.npz")
    number = lambda text: float(re.search(r"loss ([0-9.]+)", text).group(1))
    tool.expect(abs(number(got) - number(want)) < 2e-6 * number(want), f"{got} and {want}")


@case
def a_folder_in_the_format_of_peft(b):
    config = json.loads((b.scratch / "begun" / "adapter_config.json").read_text())
    tool.expect((config["r"], config["lora_alpha"], config["task_type"], config["fan_in_fan_out"]) == (4, 8, "CAUSAL_LM", False), f"{config}")
    tool.expect(config["target_modules"] == [f"{n}_proj" for n in ("down", "gate", "k", "o", "q", "up", "v")], f"{config['target_modules']}")
    tensors = tool.safetensors(b.scratch / "begun" / "adapter_model.safetensors")
    tool.expect(len(tensors) == 42 and tensors["base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"][:2] == ("F32", (4, 64)), f"{sorted(tensors)[:3]}")
    tool.expect(set(tensors["base_model.model.model.layers.2.mlp.up_proj.lora_B.weight"][2]) == {0}, "lora_B is not zero")
    options = b.curve.compile("some.bin")
    options[options.index("--lora") + 1] = "*layers.1.*q_proj.weight:rank=4,alpha=8"
    b.scratch.run(options + ["--lora", "*layers.1.*up_proj.weight:rank=2,alpha=2"])
    b.train("some", steps=1, plan="some.bin")
    b.scratch.run("mtrun export some --like hf -o part")
    config = json.loads((b.scratch / "part" / "adapter_config.json").read_text())
    up = "model.layers.1.mlp.up_proj"
    tool.expect(config["target_modules"] == ["model.layers.1.self_attn.q_proj", up] and config["rank_pattern"] == {up: 2} and config["alpha_pattern"] == {up: 2},
                f"{config}")


@case
def names_of_a_module_that_the_files_shorten(b):
    """GPT-2's files lack the `transformer.` that its module has."""
    folder = b.scratch / "short"
    folder.mkdir()
    source = tool.GOLDEN / "gpt2" / "hf"
    data = (source / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8:8 + length].decode().replace('"transformer.', '"')
    header += " " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode() + data[8 + length:])
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    b.scratch.run("mtc compile short -o short.bin --batch 4 --seq 32 --lora 'h.*c_attn.weight:rank=2' --target cpu-discrete")
    b.train("short-run", steps=1, plan="short.bin")
    b.scratch.run("mtrun export short-run --like short -o short-adapter")
    names = tool.safetensors(b.scratch / "short-adapter" / "adapter_model.safetensors")
    tool.expect("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight" in names, f"{sorted(names)[:2]}")


@case
def dropout_is_of_the_input(b):
    plain = b.train("plain", steps=3)
    options = b.curve.compile("dropped.bin")
    options[options.index("--lora") + 1] += ",dropout=0.2"
    b.scratch.run(options)
    dropped = b.train("dropped", steps=3, plan="dropped.bin")
    tool.expect(dropped[0][0][1] == plain[0][0][1], "with zeros behind what is dropped the first loss is another")
    tool.expect(dropped[0][2] != plain[0][2], "nothing was dropped")
    b.scratch.run("mtrun export dropped --like hf -o dropped-adapter")
    tool.expect(json.loads((b.scratch / "dropped-adapter" / "adapter_config.json").read_text())["lora_dropout"] == 0.2, "not written down")


@case
def what_is_trained_besides(b):
    options = b.curve.compile("more.bin") + ["--train", "model.norm.weight"]
    b.scratch.run(options)
    _, weights = b.train("more", steps=2, plan="more.bin")
    tool.expect("model.norm.weight" in weights and len(weights) == 43, f"{len(weights)} tensors")
    b.refuses("mtrun export more --like hf -o never", "trained 1 parameters beside its adapters.*--merge")
    b.scratch.run("mtrun export more --like hf -o both --merge")
    was, now = (tool.safetensors(b.scratch / f / "model.safetensors") for f in ("hf", "both"))
    tool.expect(was["model.norm.weight"] != now["model.norm.weight"], "the norm is as it was")


@case
def what_is_refused(b):
    compile_ = lambda lora, more="": ["mtc", "compile", "hf", "-o", "never.bin", "--lora", lora, *shlex.split(more)]
    for lora, pattern in (("*.weight", "such as '\\*_proj.weight:rank=16,alpha=32'"), ("*:rank=0", "rank=0: must be a whole number of at least 1"),
                          ("*:alpha=2", "does not say the rank"), ("*:rank=2,alpha=0", "alpha=0: must be a positive number"),
                          ("*:rank=2,dropout=1", "dropout=1: must be a number from 0 to below 1"), ("*:rank=2,seed=-1", "seed=-1: must be a whole number"),
                          ("*:rank=2,beta=1", "the keys are rank, alpha, dropout and seed"), ("*:rank", "must be KEY=VALUE")):
        b.refuses(compile_(lora), pattern, 2)
    b.refuses(compile_("nothing*:rank=2"), r"--lora nothing\*:rank=2: no parameter of the model has such a name")
    b.refuses(compile_("*norm*:rank=2"), "nothing is a matrix that a product takes as it is; those are 'model.layers")
    b.refuses(compile_("*q_proj.weight:rank=2", "--train '*layers.0*'"), "'model.layers.0.self_attn.q_proj.weight' is trained itself, by --train")
    done = b.scratch.attempt(compile_("*:rank=2"))
    tool.expect("without an adapter stay" in done.stderr + done.stdout and "lm_head.weight" in done.stderr + done.stdout, f"no word about the head: {done.stderr}")
    b.refuses("mtrun export start -o never.onnx", "has adapters, which the model has no place for.*--merge.*--like FOLDER")
    b.refuses("mtrun export start -o never.safetensors --merge", "--merge: is for a model with all of its weights")
    b.scratch.run("mtc compile hf -o plain.bin --batch 4 --seq 32 --target cpu-discrete")
    b.train("plain-run", steps=1, plan="plain.bin")
    b.refuses("mtrun export plain-run --like hf -o never --merge", "--merge: .* has no adapters: leave it out")
    b.refuses("mtrun export start --like begun -o never", "holds no|has no tensor")


if __name__ == "__main__":
    tool.main(lambda: case.run(Bench, "uses of adapters do what they should"))
