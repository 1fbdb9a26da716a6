"""Launches of the kernels of real plans that are on a GPU's stream at once: never more than the device allows, at the size
of 7 B, where a single call is hundreds of them. No kernel runs and no memory is there (tests/simt/LaunchesMain.cpp).

    PATH=build/bin:$PATH python3 tests/e2e/launches.py PROGRAM
"""
import re
import sys

import tool

LLAMA_7B = "llama --layers 32 --hidden 4096 --intermediate 11008 --heads 32 --vocab 32000"
LONG = "llama --layers 4 --hidden 4096 --intermediate 11008 --heads 32 --kv-heads 8 --vocab 128256"


def main():
    program, = sys.argv[1:]
    with tool.Scratch() as scratch:
        scratch.run(f"mtmodel {LLAMA_7B} --seq 1024 -o 7b.onnx")
        scratch.run(f"mtmodel {LONG} --seq 16384 -o long.onnx")
        plans = {"8.bin": "7b.onnx --batch 8 --seq 1024", "96-clip.bin": "7b.onnx --batch 96 --seq 1024 --clip",
                 "fp32.bin": "7b.onnx --batch 8 --seq 1024 --precision fp32", "long.bin": "long.onnx --batch 2 --seq 16384"}
        for plan, what in plans.items():
            precision = "" if "--precision" in what else "--precision bf16"
            scratch.run(f"mtc compile {what} {precision} --target h100 -o {plan}")
        done = scratch.attempt([program, *plans])
        print(done.stdout, done.stderr, sep="")
        launches = [int(count) for count in re.findall(r"compute: (\d+) launches", done.stdout)]
        allowed = {int(count) for count in re.findall(r"of (\d+) under way", done.stdout)}
        if done.returncode != 0 or max(allowed) > 1000 or len(launches) != len(plans) or min(launches) < 1000:
            raise tool.Failure("too many launches under way, or too few in all")
    print("ok")


if __name__ == "__main__":
    main()
