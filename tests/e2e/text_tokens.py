"""Training on tokens that mtrun tokenize made and on the text itself with --tokenizer: the same losses, to the bit, and so
when a run stops and goes on; and what an interrupted mtrun tokenize leaves.

    PATH=build/bin:$PATH python3 tests/e2e/text_tokens.py [CASE]
"""
import json
import pathlib
import re
import shlex
import signal
import subprocess
import time

import tool

CASES = pathlib.Path(__file__).resolve().parent.parent / "tokenizer/cases"
SAMPLE = pathlib.Path(__file__).resolve().parent.parent.parent / "models/data/sample.txt"

case = tool.Cases()


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        (scratch / "text").mkdir()
        sample = SAMPLE.read_text()
        for i in range(6):
            (scratch / f"text/{i}.txt").write_text(sample[3000 * i:3000 * (i + 1)])
        (scratch / "docs.jsonl").write_text("".join(json.dumps({"id": i, "text": sample[3000 * i:3000 * (i + 1)]}) + "\n" for i in range(6)))
        (scratch / "hf").mkdir()
        (scratch / "hf/tokenizer.json").symlink_to(CASES / "gpt2.json")
        (scratch / "hf/tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
        scratch.run("mtmodel gpt2 --layers 2 --hidden 32 --intermediate 64 --heads 2 --vocab 420 --seq 32 -o model.onnx")
        scratch.run("mtc compile model.onnx -o plan.bin --batch 4 --seq 32 --target cpu")
        scratch.run("mtrun tokenize text -o tokens --tokenizer hf --threads 2 --shard-size 8KiB")

    def train(self, data, run, steps=12, options=""):
        said = self.scratch.run(f"mtrun plan.bin --data {data} --out {run} --steps {steps} --lr 0.01 {options}")
        return tool.metrics(self.scratch / run / "metrics.jsonl"), said


@case
def text_and_its_tokens_train_alike(b):
    want, _ = b.train("tokens", "from-tokens")
    tool.expect(len(want) == 12 and want[0][1] != want[-1][1], "the run took no steps")
    for name, data in (("of-text", "text --tokenizer hf"), ("of-lines", "docs.jsonl --tokenizer hf")):
        got, _ = b.train(data, name)
        tool.compare([want], [got], name)


@case
def runs_that_stop_go_on_to_the_bit(b):
    want, _ = b.train("text --tokenizer hf", "whole", options="--eval-data docs.jsonl --eval-every 4")
    b.train("text --tokenizer hf", "parts", 5)
    got, said = b.train("text --tokenizer hf", "parts", options="--resume")
    tool.compare([want], [got], "resumed")
    tool.expect("warning" not in said, f"the same data are taken for others: {said}")
    other = b.scratch.attempt("mtrun plan.bin --data text --tokenizer hf/tokenizer.json --out parts --steps 13 --resume")
    tool.expect("data" in other.stderr, f"another tokenizer is not noticed: {other.stderr}{other.stdout}")


@case
def prompts_are_no_targets_and_samples_go_on_to_the_bit(b):
    sample = SAMPLE.read_text()
    (b.scratch / "samples.jsonl").write_text("".join(json.dumps({"prompt": sample[90 * i:90 * i + 40], "completion": sample[90 * i + 40:90 * i + 90 - i % 60]}) + "\n"
                                                     for i in range(60)))
    want, _ = b.train("samples.jsonl --tokenizer hf", "samples")
    b.train("samples.jsonl --tokenizer hf", "samples-parts", 7)
    got, _ = b.train("samples.jsonl --tokenizer hf", "samples-parts", options="--resume")
    tool.compare([want], [got], "resumed")
    (b.scratch / "prompts.jsonl").write_text(json.dumps({"prompt": "", "completion": sample[:200]}) + "\n" + json.dumps({"prompt": sample[:200], "completion": "x"}) + "\n")
    said = b.scratch.attempt("mtrun plan.bin --data prompts.jsonl --tokenizer hf --dry-run")
    tool.expect("2 of 2 samples are longer" in said.stderr, said.stderr)


@case
def mixtures_go_on_to_the_bit(b):
    """Parts of two forms, one of which is gone through three times, and weights that --resume need not be told."""
    (b.scratch / "few.txt").write_text(SAMPLE.read_text()[40000:42000])
    want, _ = b.train("tokens:0.6 --data few.txt:0.4 --tokenizer hf", "mixed", 20)
    b.train("tokens:6 --data few.txt:4 --tokenizer hf", "mixed-parts", 7)
    got, said = b.train("tokens --data few.txt --tokenizer hf", "mixed-parts", 20, "--resume")
    tool.compare([want], [got], "resumed")
    tool.expect("warning" not in said, f"the same data are taken for others: {said}")
    _, said = b.train("tokens:1 --data few.txt:2 --tokenizer hf", "mixed-parts", 21, "--resume")
    tool.expect("--data weights 1 2 (was 6 4)" in said, f"other weights are not said: {said}")
    done = b.scratch.attempt("mtrun plan.bin --data few.txt --tokenizer hf --out mixed-parts --steps 22 --resume")
    tool.expect(done.returncode == 1 and "of this run 2 parts have weights, 1, 2: give as many" in done.stderr, done.stderr)


@case
def rows_that_are_held_back_stay_so(b):
    """A run evaluates on them, goes on with them though nothing is said, and mtrun eval finds them again."""
    (b.scratch / "few.txt").write_text(SAMPLE.read_text()[40000:42000])
    data = "tokens:0.6 --data few.txt:0.4 --tokenizer hf"
    want, whole = b.train(data, "held", 20, "--eval-split 0.2 --eval-every 5 --seed 3")
    b.train(data, "held-parts", 7, "--eval-split 0.2 --eval-every 5 --seed 3")
    got, said = b.train("tokens --data few.txt --tokenizer hf", "held-parts", 20, "--resume --eval-every 5")
    tool.compare([want], [got], "resumed")
    loss, targets = re.findall(r"evaluation loss (\S+), perplexity \S+, over (\d+) targets", whole)[-1]
    tool.expect(re.findall(r"evaluation loss (\S+),", said)[-1] == loss, f"evaluations differ: {said}")
    of = b.scratch.run("mtrun eval plan.bin --data tokens --data few.txt --tokenizer hf --from held --split")
    tool.expect(f"over {targets} targets" in of and abs(float(of.split()[1]) - float(loss)) < 6e-5, of)
    def refused(command, words):
        done = b.scratch.attempt(command)
        tool.expect(done.returncode == 1 and words in done.stderr, done.stderr)
    train = "mtrun plan.bin --data tokens --data few.txt --tokenizer hf --resume --steps 21 --out"
    refused(f"{train} held --eval-split 0.3", "holds a share of 0.2 of the rows back for evaluation, and --eval-split 0.3 would hold back such")
    refused(f"{train} held --seed 4", "follows from its seed, 3: with --seed 4 it would train on them")
    b.scratch.run("mtc compile model.onnx -o short.bin --batch 4 --seq 16 --target cpu")
    refused("mtrun eval short.bin --data tokens --data few.txt --tokenizer hf --from held --split", "rows, and to this plan they are")
    b.train("tokens", "none-held", 2)
    refused("mtrun plan.bin --data tokens --resume --out none-held --eval-split 0.1", "holds none of the rows back")
    refused("mtrun plan.bin --data tokens --resume --out none-held --eval-every 1", "--eval-every needs --eval-data or --eval-split")
    refused("mtrun eval plan.bin --data tokens --from none-held --split", "holds no rows back for evaluation")
    refused("mtrun eval plan.bin --data few.txt --data few.txt --tokenizer hf --from held --split", "was trained on other data than --data few.txt, few.txt has")


@case
def parts_without_weights_are_one_corpus(b):
    files = " --data ".join(f"text/{i}.txt" for i in range(6))
    _, said = b.train(f"{files} --tokenizer hf --shuffle off", "parts-of-text", options="--eval-data text/0.txt --eval-data text/1.txt")
    tool.expect(re.search(r"over \d+ targets", said), said)
    rows = [int(re.search(r"(\d+) rows", b.scratch.run(f"mtrun plan.bin --data text/{i}.txt --tokenizer hf --dry-run")).group(1)) for i in range(6)]
    tool.expect(f"{sum(rows)} rows" in b.scratch.run(f"mtrun plan.bin --data {files} --tokenizer hf --dry-run"), "parts do not add up")
    one = b.scratch.run("mtrun eval plan.bin --data text/0.txt --data text/1.txt --tokenizer hf")
    targets = [int(re.search(r"over (\d+)", b.scratch.run(f"mtrun eval plan.bin --data text/{i}.txt --tokenizer hf")).group(1)) for i in (0, 1)]
    tool.expect(f"over {sum(targets)} targets" in one, one)


@case
def evaluations_read_text(b):
    of = [b.scratch.run(f"mtrun eval plan.bin --data {data}") for data in ("tokens", "text --tokenizer hf")]
    tool.expect(of[0] == of[1], f"evaluations differ: {of}")


@case
def text_and_tokens_may_stand_side_by_side(b):
    want, _ = b.train("tokens", "eval-tokens", options="--eval-data tokens --eval-every 6")
    got, _ = b.train("tokens", "eval-text", options="--eval-data text --eval-every 6 --tokenizer hf")
    tool.compare([want], [got], "evaluated on the text itself")
    done = b.scratch.attempt("mtrun plan.bin --data tokens --eval-data text/0.txt --dry-run")
    tool.expect(done.returncode == 1 and "say which --tokenizer" in done.stderr, done.stderr)


@case
def the_number_of_threads_changes_no_byte(b):
    for threads in (1, 3):
        b.scratch.run(f"mtrun tokenize docs.jsonl -o t{threads} --tokenizer hf --threads {threads} --shard-size 8KiB")
    for name in sorted(p.name for p in (b.scratch / "tokens").iterdir()):
        files = [(b.scratch / folder / name).read_bytes() for folder in ("tokens", "t1", "t3")]
        tool.expect(files[0] == files[1] == files[2], f"{name} differs")


@case
def what_is_interrupted_is_no_folder_of_tokens(b):
    text = SAMPLE.read_text()
    (b.scratch / "long.jsonl").write_text("".join(json.dumps({"text": text[i % 1000:i % 1000 + 40000]}) + "\n" for i in range(1500)))
    process = subprocess.Popen(shlex.split("mtrun tokenize long.jsonl -o long --tokenizer hf --shard-size 64KiB"), cwd=b.scratch.path,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(b.scratch.path.glob("long.tmp.*/tokens-*.bin")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    tool.expect(process.returncode == -signal.SIGKILL, "the program ended too early to be interrupted")
    tool.expect(not (b.scratch / "long").exists(), "an interrupted folder has its name")
    done = b.scratch.attempt("mtrun plan.bin --data long --dry-run")
    tool.expect(done.returncode == 1 and "no such file or folder" in done.stderr, done.stderr)


@case
def models_of_another_vocabulary_are_refused(b):
    b.scratch.run("mtmodel gpt2 --layers 1 --hidden 32 --intermediate 64 --heads 2 --vocab 300 --seq 32 -o small.onnx")
    b.scratch.run("mtc compile small.onnx -o small.bin --batch 4 --seq 32 --target cpu")
    done = b.scratch.attempt("mtrun small.bin --data text --tokenizer hf --dry-run")
    tool.expect(done.returncode == 1 and "is outside the model's vocabulary of 300" in done.stderr, done.stderr)


tool.main(lambda: case.run(Bench, "statements about text and tokens hold"))
