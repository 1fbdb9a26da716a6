"""Large models and long sequences: planned from metadata in little memory, refused with the right number, equal to the byte
whatever the depth.

    PATH=build/bin:$PATH python3 tests/e2e/scale.py 119b|long-sequence|depth|mission|large-batch|memory [LAYERS HIDDEN]
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile

import onnx_writer as onnx
import tool

GIB = 1 << 30
BIG = "llama --layers 84 --hidden 12288 --intermediate 28672 --heads 96 --kv-heads 8 --vocab 128256"
BIG_PARAMETERS = 119420203008
HOST_BYTES_PER_PARAMETER = 12
LARGEST_CONSTANT = 64 * 1024


def peak_of(scratch, command):
    """Standard output and error, status, and the peak resident bytes of a command."""
    process = subprocess.Popen(command.split(), cwd=scratch.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    return out, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def expect(holds, message):
    if not holds:
        raise tool.Failure(message)


def expect_peak(peak, most, what):
    """Sanitizers keep memory of their own."""
    expect(tool.sanitized() or peak < most, f"{what}: {peak / GIB:.2f} GiB resident")


def size_named(text, pattern):
    """Bytes of the size that `pattern` captures, or an error."""
    found = re.search(pattern, text)
    expect(found, f"no size like /{pattern}/ in:\n{text}")
    number, unit = re.fullmatch(r"([0-9.]+) ?([KMGT]?i?B)", found.group(1)).groups()
    return float(number) * {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}[unit[0]]


def large():
    with tool.Scratch() as scratch:
        scratch.run(f"mtmodel {BIG} -o big.onnx")
        expect((scratch / "big.onnx").stat().st_size < 1 << 20, "the model's file is larger than a mebibyte")
        compile_ = "mtc compile big.onnx -o big.bin --target h200 --precision fp32 --batch 8 --seq 1024 --report --host-memory"
        out, status, peak = peak_of(scratch, f"{compile_} 1536GiB")
        expect(status == 0, f"exit {status}:\n{out}")
        expect_peak(peak, 2 * GIB, "compiling")
        host = size_named(out.splitlines()[-1], r"host ([0-9.]+ ?[KMGT]?i?B)")
        expect(host >= 0.999 * HOST_BYTES_PER_PARAMETER * BIG_PARAMETERS, f"host bytes cannot be right:\n{out.splitlines()[-1]}")
        dump = scratch.run("mtc dump big.bin")
        expect(dump.count("\n") > 84, "the dump is too short to hold every layer")
        (scratch / "big.bin").unlink()
        refused, status, _ = peak_of(scratch, f"{compile_} 1TiB --device-memory 20GiB")
        expect(status == 1 and not (scratch / "big.bin").exists(), f"1 TiB of host memory: exit {status}:\n{refused}")
        needed = re.search(r"--host-memory (\d+)B", refused).group(1)
        expect(0.999 * HOST_BYTES_PER_PARAMETER * BIG_PARAMETERS <= int(needed) <= host, f"refused with {needed} B, and a plan takes {host:.0f} B")
        out, status, _ = peak_of(scratch, f"{compile_} {needed} --device-memory 20GiB")
        expect(status == 0, f"{needed} B of host memory were to be enough: exit {status}:\n{out}")


def constants_are_small(text):
    for line in text.splitlines():
        if "nn.constant" not in line and "dense<" not in line:
            continue
        for dims in re.findall(r"tensor<((?:\d+x)+)\w+>", line):
            elements = 1
            for dim in dims.rstrip("x").split("x"):
                elements *= int(dim)
            expect(elements <= LARGEST_CONSTANT, f"a constant of {elements} elements: {line[:200]}")


def long_sequence():
    with tool.Scratch() as scratch:
        for case in ("gpt2", "llama"):
            model = (tool.GOLDEN / case / "model.onnx").read_bytes()
            if case == "gpt2":
                table = onnx.tensor("model.transformer.wpe.weight", [131072, 64], [0.01] * (131072 * 64))
                model = onnx.replace_initializer(model, "model.transformer.wpe.weight", table)
            (scratch / f"{case}.onnx").write_bytes(model)
            out, status, peak = peak_of(scratch, f"mtc compile {case}.onnx -o {case}.bin --seq 131072 --batch 8 --target h200")
            expect(status == 0, f"{case}: exit {status}:\n{out[-3000:]}")
            expect_peak(peak, GIB // 2, f"{case}: compiling")
            constants_are_small(scratch.run(f"mtc compile {case}.onnx --seq 131072 --batch 8 --target h200 --emit nn"))


def device_bytes(scratch, layers):
    """The least that it works in: what there is beyond is spent where it buys time."""
    scratch.run(f"mtmodel llama --layers {layers} --hidden 64 --intermediate 160 --heads 4 --kv-heads 2 --vocab 256 -o m.onnx")
    command = ("mtc compile m.onnx -o m.bin --batch 4 --micro-batch 2 --seq 32 --target cpu-discrete --saved-activations input "
               "--residency none --park on")
    scratch.run(f"{command} --device-memory {smallest_device_budget(scratch, command)}")
    spaces = json.loads(scratch.run("mtc dump m.bin --format json"))["spaces"]
    return [s["bytes"] for s in spaces if str(s["kind"]).lower() == "device"]


def depth():
    with tool.Scratch() as scratch:
        few, many = device_bytes(scratch, 8), device_bytes(scratch, 180)
        expect(few and few == many, f"device bytes are {few} for 8 layers and {many} for 180")


def smallest_device_budget(scratch, command):
    refused = scratch.attempt(f"{command} --device-memory 4KiB")
    found = re.search(r"--device-memory ([0-9.]+ ?[KMGT]?i?B?)", refused.stderr)
    expect(refused.returncode == 1 and found, f"--device-memory 4KiB: exit {refused.returncode}:\n{refused.stderr}")
    return found.group(1).replace(" ", "")


def train(scratch, name, rate):
    scratch.run(f"mtrun {name}.bin --data text.txt --steps 3 --shuffle off --lr {rate} --out {name} --metrics {name}.jsonl "
                f"--save-gradients {name}.npz", timeout=3600)
    return [float(loss) for _, loss, _ in tool.metrics(scratch / f"{name}.jsonl")]


def gradients(path):
    """Digests by name: the file has them in the order of their updates."""
    with zipfile.ZipFile(path) as file:
        return {name: hashlib.sha256(file.read(name)).digest() for name in file.namelist()}


def mission():
    """The mission in small: the smallest device budget is a fraction of the training state, and the first gradients are those
    of the unified run."""
    layers, hidden = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else (12, 512)
    with tool.Scratch() as scratch:
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 400)
        scratch.run(f"mtmodel llama --layers {layers} --hidden {hidden} --intermediate {hidden * 11 // 4} --heads {hidden // 64} "
                    f"--kv-heads {hidden // 128} --vocab 256 -o m.onnx")
        compile_ = "mtc compile m.onnx --batch 2 --micro-batch 1 --seq 128"
        budget = smallest_device_budget(scratch, f"{compile_} -o discrete.bin --target cpu-discrete")
        line = scratch.run(f"{compile_} -o discrete.bin --target cpu-discrete --device-memory {budget}").strip().splitlines()[-1]
        print(line)
        spaces = json.loads(scratch.run("mtc dump discrete.bin --format json"))["spaces"]
        device = sum(s["bytes"] for s in spaces if str(s["kind"]).lower() == "device")
        host = sum(s["bytes"] for s in spaces) - device
        expect(device < 0.15 * host * 16 / 12, f"the device takes {device} bytes of {host} on the host")
        losses = train(scratch, "discrete", 0.02 / hidden)
        expect(losses[-1] < losses[0], f"the loss did not fall: {losses}")
        scratch.run(f"{compile_} -o unified.bin --target cpu")
        train(scratch, "unified", 0.02 / hidden)
        expect(gradients(scratch / "discrete.npz") == gradients(scratch / "unified.npz"),
               "the first gradients of the discrete and the unified run differ")


def large_batch():
    """A step of a million tokens: what the last layers give to all micro-batches waits on the host, too."""
    with tool.Scratch() as scratch:
        scratch.run("mtmodel llama --layers 32 --hidden 4096 --intermediate 14336 --heads 32 --kv-heads 8 --vocab 128256 -o large.onnx")
        compile_ = "mtc compile large.onnx --target rtx-4090 --precision bf16 --clip --host-memory 512GiB --seq 2048 --micro-batch 8"
        steps = [float(re.search(r"step ([0-9.]+) s \(compute-bound\)", scratch.run(f"{compile_} --batch {batch} -o large.bin")).group(1)) for batch in (64, 512)]
        expect(steps[1] < 10 * steps[0], f"eight times the batch takes {steps[1] / steps[0]:.2f} times as long")


def memory():
    """What a run takes is what it says before: the plan's spaces, the scratch of its kernels, and a little that depends on
    neither."""
    tool.skip_if_sanitized("its memory is no part of the plan")
    beside = 96 << 20  # the program, its libraries and the data
    with tool.Scratch() as scratch:
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 400)
        scratch.run("mtmodel llama --layers 2 --hidden 256 --intermediate 704 --heads 4 --kv-heads 2 --vocab 50000 -o m.onnx")
        for precision in ("fp32", "bf16"):
            scratch.run(f"mtc compile m.onnx -o m.bin --batch 4 --micro-batch 2 --seq 256 --target cpu-discrete --precision {precision}")
            run = f"mtrun m.bin --data text.txt --steps 1 --threads 4 --out {precision}"
            told = scratch.run(f"{run} --dry-run")
            spaces = json.loads(scratch.run("mtc dump m.bin --format json"))["spaces"]
            scratches = int(re.search(r"scratch of kernels: .* \(([0-9,]+) bytes\)", told).group(1).replace(",", ""))
            planned = sum(s["bytes"] for s in spaces) + scratches
            out, status, peak = peak_of(scratch, run)
            expect(status == 0, f"exit {status}:\n{out}")
            print(f"{precision}: {planned} bytes planned, of which {scratches} of scratch; {peak} taken")
            expect(peak < planned + beside, f"{run}: {peak} bytes resident, and {planned} are planned")


tool.main({"119b": large, "long-sequence": long_sequence, "depth": depth, "mission": mission, "large-batch": large_batch, "memory": memory}[sys.argv[1]])
