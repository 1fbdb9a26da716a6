"""Bad inputs: each ends with exit status 1 (2 for usage) and a message on standard error that starts with `error:`, says
what and where, and leaves nothing half-written.

    PATH=build/bin:$PATH python3 tests/e2e/bad_inputs.py [NAME ...]
"""
import json
import math
import pathlib
import re
import shutil
import struct
import zipfile

import onnx_writer as onnx
import tool

case = tool.Cases()


class Bench:
    """A folder with a good plan and good data in it, and the checks."""

    COMPILE = "mtc compile gpt2.onnx -o plan.bin --batch 4 --seq 32 --target cpu"

    def __init__(self, scratch):
        self.scratch = scratch
        shutil.copyfile(tool.GOLDEN / "gpt2/model.onnx", scratch / "gpt2.onnx")
        shutil.copyfile(tool.GOLDEN / "gpt2/data.npz", scratch / "data.npz")
        (scratch / "text.txt").write_text("All work and no play makes a dull test. " * 50)
        scratch.run(self.COMPILE)

    def write(self, name, data):
        (self.scratch / name).write_bytes(data)

    def read(self, name):
        return (self.scratch / name).read_bytes()

    def refuses(self, command, *patterns, status=1, leaves=()):
        """The command fails with `status`; its message matches every pattern; no file of `leaves` exists after it."""
        for name in leaves:
            (self.scratch / name).unlink(missing_ok=True)
        done = self.scratch.attempt(command)
        problems = []
        if done.returncode != status:
            problems.append(f"exit {done.returncode} instead of {status}")
        if not re.search(r"^error: ", done.stderr, re.MULTILINE):
            problems.append("no line starts with 'error: '")
        problems += [f"the message lacks /{p}/" for p in patterns if not re.search(p, done.stderr, re.IGNORECASE)]
        problems += [f"{name} was left behind" for name in leaves if (self.scratch / name).exists()]
        if aside := [p.name for p in self.scratch.path.glob("*.tmp.*")]:
            problems.append(f"half-written files: {aside}")
        if problems:
            raise tool.Failure(f"{command}\n  {'; '.join(problems)}\n  stderr: {done.stderr.strip()[:1500]}")

    def compile_refuses(self, data, *patterns, options="--loss cross-entropy", target="cpu"):
        self.write("bad.onnx", data)
        self.refuses(f"mtc compile bad.onnx -o bad.bin --batch 4 --target {target} {options}", *patterns, leaves=["bad.bin"])


@case
def missing_model(b):
    b.refuses("mtc compile nothing.onnx -o bad.bin", r"nothing\.onnx", leaves=["bad.bin"])


@case
def truncated_model(b):
    b.compile_refuses(b.read("gpt2.onnx")[:5000], r"bad\.onnx")


@case
def not_a_model(b):
    b.compile_refuses(b"this is a text and no protocol buffer at all", r"bad\.onnx")


@case
def element_types_without_code(b):
    """Known from kernels/Coverage.h, so that a plan that no device could load is not written."""
    nodes = [onnx.node("MatMul", ["x", "w"], ["y"], "product"), onnx.node("Cast", ["y"], ["wide"], "widen", to=11),
             onnx.node("Softmax", ["wide"], ["p"], "wide softmax"), onnx.node("Cast", ["p"], ["logits"], "narrow", to=1)]
    model = onnx.classifier(nodes=nodes)
    b.compile_refuses(model, r"node 'wide softmax'", r"softmax: operand 0 is f64, and the CPU", r"export the model in f32")
    b.compile_refuses(model, r"node 'wide softmax'", r"softmax: operand 0 is f64, and the GPU", target="h200")


@case
def missing_external_data(b):
    tensor = onnx.tensor("w", [4, 3], external=dict(location="gone.data", offset=0, length=48))
    b.compile_refuses(onnx.classifier(initializers=[tensor]), r"gone\.data", r"\bw\b")


@case
def short_external_data(b):
    b.write("short.data", bytes(20))
    tensor = onnx.tensor("w", [4, 3], external=dict(location="short.data", offset=0, length=48))
    b.compile_refuses(onnx.classifier(initializers=[tensor]), r"short\.data", r"48|20")


@case
def external_data_that_climbs_out(b):
    tensor = onnx.tensor("w", [4, 3], external=dict(location="../secret.data", offset=0, length=48))
    b.compile_refuses(onnx.classifier(initializers=[tensor]), r"\.\./secret\.data")


@case
def external_data_of_wrong_length(b):
    b.write("long.data", bytes(100))
    tensor = onnx.tensor("w", [4, 3], external=dict(location="long.data", offset=0, length=40))
    b.compile_refuses(onnx.classifier(initializers=[tensor]), r"\bw\b", r"48|40")


@case
def cyclic_graph(b):
    nodes = [onnx.node("Add", ["x", "two"], ["one"], "first"), onnx.node("Neg", ["one"], ["two"], "second"),
             onnx.node("MatMul", ["two", "w"], ["logits"], "product")]
    b.compile_refuses(onnx.classifier(nodes), r"cycl", r"first|second")


@case
def undefined_value(b):
    b.compile_refuses(onnx.classifier([onnx.node("MatMul", ["x", "nowhere"], ["logits"], "product")]), r"nowhere", r"product")


@case
def several_unknown_operators(b):
    nodes = [onnx.node("Frobnicate", ["x"], ["a"], "strange_one"), onnx.node("StringSplit", ["a"], ["b"], "strange_two"),
             onnx.node("MatMul", ["b", "w"], ["logits"], "product")]
    b.compile_refuses(onnx.classifier(nodes), "Frobnicate", "strange_one", r"\bStringSplit\b", "strange_two")


@case
def shapes_that_do_not_fit(b):
    b.compile_refuses(onnx.classifier(initializers=[onnx.tensor("w", [5, 3], [0.1] * 15)]), "product")


@case
def unbound_dimension(b):
    model = onnx.classifier(inputs=[onnx.info("x", onnx.FLOAT, ["batch", "width"])])
    b.compile_refuses(model, "width", r"--dim")


@case
def loss_that_is_unclear(b):
    b.compile_refuses(onnx.classifier(), r"--loss", "cross-entropy", options="")


@case
def unknown_loss(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --loss hinge", "hinge", status=2, leaves=["bad.bin"])


@case
def disk_without_rate(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --disk fast", "--disk fast", status=2, leaves=["bad.bin"])
    b.refuses("mtc compile gpt2.onnx -o bad.bin --disk 1GB,", "--disk 1GB,", status=2, leaves=["bad.bin"])
    b.refuses("mtc compile gpt2.onnx -o bad.bin --disk 1GB,1", "--disk: disk_write_bandwidth is 1", leaves=["bad.bin"])
    b.refuses("mtrun probe --brief -o bad.json --disk nowhere", "--disk nowhere: No such file or directory", leaves=["bad.json"])


@case
def unknown_target(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --seq 32 --target abacus", "abacus", leaves=["bad.bin"])


@case
def unknown_flag(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --frobnicate", "frobnicate", status=2, leaves=["bad.bin"])
    b.refuses("mtrun plan.bin --data data.npz --frobnicate", "frobnicate", status=2)


@case
def batch_of_nothing(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --batch 0", r"--batch", status=2, leaves=["bad.bin"])


@case
def batch_beyond_memory(b):
    b.scratch.run("mtmodel mlp -o points.onnx")
    for options in ("", "--target cpu-discrete --host-memory 8GiB"):
        b.refuses(f"mtc compile points.onnx -o bad.bin --batch 100000000000 --loss cross-entropy {options}",
                  r"the data of a step, 100000000000 rows of \d+ B, are more than the .* of memory: use a smaller --batch", leaves=["bad.bin"])


@case
def micro_batch_that_does_not_divide(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --seq 32 --batch 4 --micro-batch 3", r"micro-batch", r"\b3\b", leaves=["bad.bin"])


@case
def sequence_beyond_the_positions(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --seq 65 --batch 4", r"node_embedding", r"\b64 of 64\b.*--seq", leaves=["bad.bin"])


@case
def pattern_that_matches_nothing(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --seq 32 --freeze 'no.such.*'", r"no\.such\.\*", leaves=["bad.bin"])


@case
def device_too_small(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --batch 4 --seq 32 --target cpu-discrete --device-memory 16KiB", r"--device-memory \d",
              leaves=["bad.bin"])


@case
def host_too_small(b):
    b.refuses("mtc compile gpt2.onnx -o bad.bin --batch 4 --seq 32 --target cpu-discrete --host-memory 16KiB", r"--host-memory \d",
              leaves=["bad.bin"])


@case
def unwritable_plan(b):
    b.refuses("mtc compile gpt2.onnx -o no/such/folder/plan.bin --seq 32", r"no/such/folder/plan\.bin")


@case
def outputs_without_room(b):
    b.refuses("mtc dump plan.bin -o /dev/full", r"/dev/full: cannot be written: no space left")
    b.refuses("bash -c 'mtc dump plan.bin > /dev/full'", r"standard output: no space left")
    b.refuses("mtc compile gpt2.onnx -o /dev/full --batch 4 --seq 32 --target cpu", r"/dev/full: cannot be written")


@case
def outputs_on_standard_output(b):
    """What is said about an output that goes to standard output does not land in it."""
    b.scratch.run("bash -c 'mtmodel mlp -o /dev/stdout > piped.onnx && mtc compile piped.onnx --loss mse -o piped.bin'")
    piped = b.COMPILE.replace("plan.bin", "/dev/stdout --report")
    b.scratch.run(f"bash -c '{b.COMPILE} && {piped} | cmp - plan.bin'")


@case
def outputs_that_need_a_second_file(b):
    b.refuses("mtmodel mlp --weights -o /dev/null", r"--weights: .*/dev/null\.data", leaves=[])
    if pathlib.Path("/dev/null.data").exists() or not pathlib.Path("/dev/null").is_char_device():
        raise tool.Failure("mtmodel -o /dev/null wrote files into /dev")


@case
def outputs_that_are_inputs(b):
    """Nothing that is read is lost to what is written, by whatever name."""
    b.scratch.run("mtmodel mlp --weights -o kept.onnx")
    b.scratch.run("bash -c 'cp data.npz own.npz; ln -sf own.npz link.npz; cp plan.bin own.bin'")
    kept = {name: b.read(name) for name in ("kept.onnx", "kept.onnx.data", "own.npz", "own.bin")}
    compile_kept = "mtc compile kept.onnx --batch 4 --loss mse --target cpu -o"
    train = "mtrun own.bin --data own.npz --steps 1 --out lost --overwrite"
    b.refuses(f"{compile_kept} kept.onnx", r"-o kept\.onnx: this would overwrite the model, kept\.onnx: name another file")
    b.refuses(f"{compile_kept} ./kept.onnx.data", r"-o \./kept\.onnx\.data: this would overwrite the model's weights, ")
    b.refuses("mtc dump own.bin -o own.bin", r"-o own\.bin: this would overwrite the plan, own\.bin")
    for option in ("--metrics", "--trace", "--save-gradients"):
        b.refuses(f"{train} {option} link.npz", rf"{option} link\.npz: this would overwrite --data, own\.npz")
        b.refuses(f"{train} {option} own.bin", rf"{option} own\.bin: this would overwrite the plan, own\.bin")
    for command in ("mtrun own.bin --rehearse", "mtrun eval own.bin --data own.npz"):
        b.refuses(f"{command} --trace own.bin", r"--trace own\.bin: this would overwrite the plan, own\.bin")
    b.refuses("mtrun eval own.bin --data own.npz --trace link.npz", r"--trace link\.npz: this would overwrite --data, own\.npz")
    b.scratch.run("mtrun own.bin --data own.npz --steps 1 --out own-run --overwrite")
    checkpoint = "own-run/step-1/first_moment.safetensors"
    kept[checkpoint] = b.read(checkpoint)
    for command in ("mtrun eval own.bin --data own.npz --from own-run", "mtrun own.bin --data own.npz --steps 2 --out own-run --resume"):
        b.refuses(f"{command} --trace {checkpoint}", rf"--trace {checkpoint}: this would overwrite a file of a checkpoint, ")
    b.refuses("mtrun own.bin --data own.npz --steps 2 --out own-run --resume --trace own-run/metrics.jsonl", r"this would overwrite what the run goes on by, ")
    b.refuses(f"{train} --trace twice.json --metrics ./twice.json", r"--metrics \./twice\.json: --trace writes there, too: name two files", leaves=["twice.json"])
    (b.scratch / "own.toml").write_text("plan = 'own.bin'\ndata = 'own.npz'\nsteps = 1\n")
    kept["own.toml"] = b.read("own.toml")
    b.refuses("mtrun --recipe own.toml --out lost --overwrite --trace own.toml", r"--trace own\.toml: this would overwrite --recipe, own\.toml")
    for name, data in kept.items():
        if b.read(name) != data:
            raise tool.Failure(f"{name} changed")


@case
def missing_plan(b):
    b.refuses("mtrun nothing.bin --data data.npz", r"nothing\.bin")


@case
def damaged_plan(b):
    plan = bytearray(b.read("plan.bin"))
    plan[len(plan) // 2] ^= 1
    b.write("damaged.bin", plan)
    b.refuses("mtrun damaged.bin --data data.npz --steps 1 --out damaged-run", r"damaged\.bin", leaves=["damaged-run"])
    b.refuses("mtc dump damaged.bin", r"damaged\.bin")


@case
def truncated_plan(b):
    b.write("short.bin", b.read("plan.bin")[:1000])
    b.refuses("mtrun short.bin --data data.npz --steps 1", r"short\.bin")


@case
def plan_of_another_version(b):
    plan = bytearray(b.read("plan.bin"))
    plan[8:12] = struct.pack("<I", 99)
    b.write("newer.bin", plan)
    b.refuses("mtrun newer.bin --data data.npz --steps 1", r"newer\.bin", r"\b99\b")


@case
def not_a_plan(b):
    b.refuses("mtrun gpt2.onnx --data data.npz --steps 1", r"gpt2\.onnx")


@case
def missing_data(b):
    b.refuses("mtrun plan.bin --data nothing.txt --steps 1", r"nothing\.txt")


@case
def token_outside_the_vocabulary(b):
    b.write("tokens.bin", struct.pack("<400H", *([7] * 200 + [300] + [7] * 199)))
    b.refuses("mtrun plan.bin --data tokens.bin --steps 1 --shuffle off --out r1", r"tokens\.bin", r"\b300\b", r"\b256\b")


@case
def corpus_too_short(b):
    (b.scratch / "short.txt").write_text("too short")
    b.refuses("mtrun plan.bin --data short.txt --steps 1 --out r2", r"short\.txt", r"\b9\b|\b33\b|\b32\b")


@case
def array_of_another_name(b):
    with zipfile.ZipFile(b.scratch / "data.npz") as good, zipfile.ZipFile(b.scratch / "renamed.npz", "w") as bad:
        for name in good.namelist():
            bad.writestr(name.replace("input_ids", "tokens"), good.read(name))
    b.refuses("mtrun plan.bin --data renamed.npz --steps 1 --out r3", r"renamed\.npz", "tokens|input_ids")


@case
def truncated_array_file(b):
    b.write("cut.npz", b.read("data.npz")[:4000])
    b.refuses("mtrun plan.bin --data cut.npz --steps 1 --out r4", r"cut\.npz")


@case
def lines_that_are_not_json(b):
    (b.scratch / "bad.jsonl").write_text('{"tokens": [1, 2, 3], "labels": [2, 3, 4]}\n{"tokens": [1, 2\n')
    b.refuses("mtrun plan.bin --data bad.jsonl --steps 1 --out r5", r"bad\.jsonl", r"\b2\b")


@case
def rows_without_a_valid_label(b):
    row = json.dumps({"tokens": [1] * 32, "labels": [-100] * 32})
    (b.scratch / "masked.jsonl").write_text((row + "\n") * 4)
    b.refuses("mtrun plan.bin --data masked.jsonl --steps 1 --out r6", r"label|target|valid", r"row")
    good = json.dumps({"tokens": [1] * 32, "labels": [1] * 32})
    (b.scratch / "later.jsonl").write_text((good + "\n") * 8 + (row + "\n") * 5)
    b.refuses("mtrun plan.bin --data later.jsonl --steps 3 --shuffle off --out r6", r"error: step 3: no label of the 4 rows from later\.jsonl:9.* "
              r"to later\.jsonl:12.* counts", leaves=["r6/metrics.jsonl"])  # before it starts


@case
def clipping_without_a_plan_for_it(b):
    b.refuses("mtrun plan.bin --data data.npz --steps 1 --clip-norm 1.0 --out r7", r"--clip")


@case
def unwritable_output(b):
    b.refuses("mtrun plan.bin --data data.npz --steps 1 --out /proc/nowhere/run", r"/proc/nowhere/run")


@case
def no_checkpoint(b):
    b.refuses("mtrun export no-such-run -o weights.safetensors", r"no-such-run", leaves=["weights.safetensors"])


@case
def weight_file_gone_after_compiling(b):
    b.scratch.run("mtmodel mlp --weights -o moved.onnx")
    b.scratch.run("mtc compile moved.onnx -o moved.bin --batch 4 --loss cross-entropy")
    (b.scratch / "moved.onnx.data").unlink()
    b.refuses("mtrun moved.bin --dry-run --data data.npz", r"moved\.onnx\.data")


@case
def non_finite_weight(b):
    b.write("nan.onnx", onnx.classifier(initializers=[onnx.tensor("w", [4, 3], [0.1] * 5 + [math.nan] + [0.1] * 6)]))
    b.scratch.run("mtc compile nan.onnx -o nan.bin --batch 4 --loss cross-entropy")
    write_points(b.scratch / "points.npz")
    b.refuses("mtrun nan.bin --data points.npz --steps 1 --out r8", r"\bw\b", r"finite|nan")


def write_points(path):
    """Four samples of x [4] and a label, as .npz without numpy."""
    def array(kind, shape, data):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
        head += " " * (63 - (10 + len(head)) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("x.npy", array("<f4", "(4, 4)", struct.pack("<16f", *range(16))))
        out.writestr("labels.npy", array("<i8", "(4,)", struct.pack("<4q", 0, 1, 2, 1)))


@case
def impossible_model_sizes(b):
    b.refuses("mtmodel gpt2 --hidden 10 --heads 3 -o bad.onnx", r"--hidden 10", r"--heads 3", status=2, leaves=["bad.onnx"])
    b.refuses("mtmodel llama --layers 0 -o bad.onnx", r"--layers", status=2, leaves=["bad.onnx"])
    b.refuses("mtmodel gpt2 -o no/such/folder/m.onnx", r"no/such/folder/m\.onnx")
    b.refuses("mtmodel from-hf . -o bad.onnx", r"config\.json", leaves=["bad.onnx"])


@case.unless_sanitized("its shadow memory takes more addresses than the limit leaves")
def too_little_memory(b):
    b.write("long.jsonl", b'{"tokens": [' + b"1," * (32 << 20) + b"1]}\n")  # takes 16 bytes a number when it is read
    b.refuses(["bash", "-c", "ulimit -v 1000000; exec mtrun plan.bin --data long.jsonl --dry-run"], r"out of memory: free memory")


@case
def deeply_nested_json(b):
    deep = b"[" * 200000 + b"]" * 200000
    b.write("deep.jsonl", b'{"tokens": ' + deep + b"}\n")
    b.refuses("mtrun plan.bin --data deep.jsonl --dry-run", r"deep\.jsonl:1: .*nests deeper than 64 levels at line 1, column 75")
    b.write("deep.json", b'{"name": ' + deep + b"}")
    b.refuses("mtc compile gpt2.onnx -o bad.bin --target deep.json", r"deep\.json: .*nests deeper", leaves=["bad.bin"])
    (b.scratch / "deep").mkdir()
    b.write("deep/config.json", b'{"architectures": ' + deep + b"}")
    b.refuses("mtmodel from-hf deep -o deep/bad.onnx", r"deep/config\.json: .*nests deeper", leaves=["deep/bad.onnx"])


tool.main(lambda: case.run(Bench, "bad inputs are refused as they should be"))
