"""From the least host memory up, with clipping and micro-batches that add up: no bit of a loss or a weight differs from those of
a plan with all the memory it wants, and none with checkpoints after every step, before which what is late is done.

    PATH=build/bin:$PATH python3 tests/e2e/host_budgets.py [MODEL]
"""
import json
import random
import re
import sys

import tool

MODELS = {"t5": "t5 --layers 2 --hidden 16 --intermediate 24 --heads 2 --vocab 32",
          "gpt2": "gpt2 --layers 3 --hidden 16 --heads 2 --vocab 64 --seq 8"}
SHARES = (1, 1.01, 1.02, 1.05, 1.1, 1.2)
STEPS = 4


def row(pick):
    return [pick.randrange(32) for _ in range(8)]


def test():
    with tool.Scratch() as scratch:
        differ, late = [], 0
        pick = random.Random(1)
        for name in sys.argv[1:] or MODELS:
            scratch.run(f"mtmodel {MODELS[name]} -o {name}.onnx")
            inputs = ("input_ids", "decoder_input_ids", "labels") if name == "t5" else ("tokens", "labels")
            (scratch / f"{name}.jsonl").write_text("".join(json.dumps({key: row(pick) for key in inputs}) + "\n" for _ in range(64)))
            for optimizer in ("sgd", "adamw"):
                compile_ = f"mtc compile {name}.onnx --batch 4 --micro-batch 1 --seq 8 --clip --target cpu-discrete --optimizer {optimizer}"

                def result(run, budget="", every=""):
                    scratch.run(f"{compile_} -o {run}.bin {budget}")
                    scratch.run(f"mtrun {run}.bin --data {name}.jsonl --steps {STEPS} --lr 0.1 --clip-norm 0.5 --threads 1 --overwrite --out {run} {every}")
                    scratch.run(f"mtrun export {run} -o {run}.safetensors")
                    return tool.metrics(scratch / run / "metrics.jsonl"), tool.safetensors(scratch / f"{run}.safetensors")

                want = result("free")
                refused = scratch.attempt(f"{compile_} -o least.bin --host-memory 1KiB").stderr
                least = int(re.search(r"--host-memory (\d+)B", refused).group(1))
                for share in SHARES:
                    for every in ("", "--checkpoint-every 1"):
                        got = result("tight", f"--host-memory {int(least * share)}", every)
                        late += json.loads(scratch.run("mtc dump tight.bin --format json"))["settings"]["updates"].find("late") >= 0
                        for a, b in zip(got, want):
                            if difference := tool.different(a, b):
                                differ.append(f"{name}, {optimizer}, {share} times the least, {every}: {difference}")
        print(f"{late} plans with late updates, {len(differ)} differ")
        if differ or not late:
            raise tool.Failure("\n".join(differ) or "no plan has late updates")


tool.main(test)
