"""Training on chats: .jsonl of messages by the template of the tokenizer's folder, also in a mixture, with rows held back and
packed, killed and resumed to the bit; answers sampled; what is refused.

    PATH=build/bin:$PATH python3 tests/e2e/chats.py
"""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

import tool

case = tool.Cases()
TESTS = pathlib.Path(__file__).resolve().parents[1]
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|endoftext|>' }}{% endgeneration %}"
            "{% else %}{{ m.content + '<|endoftext|>' }}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
PLAIN = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        self.folder("tokenizer", TEMPLATE)
        words = "red green blue one two three cat dog bird sun moon".split()
        talk = lambda i: [{"role": "user", "content": f"say {words[i % 11]}"}, {"role": "assistant", "content": words[i % 11]}] * (1 + i % 2)
        self.write("chats.jsonl", [{"messages": talk(i)} for i in range(44)])
        self.write("pairs.jsonl", [{"prompt": f"{words[i % 11]} ", "completion": words[(i + 1) % 11]} for i in range(40)])
        scratch.run("mtmodel llama --layers 1 --hidden 32 --intermediate 48 --heads 2 --kv-heads 1 --vocab 512 -o model.onnx")
        scratch.run("mtc compile model.onnx -o plan.bin --batch 4 --seq 48 --clip --target cpu-discrete")

    def folder(self, name, template):
        folder = self.scratch / name
        folder.mkdir()
        shutil.copy(TESTS / "tokenizer" / "cases" / "qwen2.json", folder / "tokenizer.json")
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "chat_template": template}))

    def write(self, name, rows):
        (self.scratch / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def train(self, out, options, steps=8):
        self.scratch.run(f"mtrun plan.bin --tokenizer tokenizer --lr 3e-3 --steps {steps} --out {out} {options}")
        return tool.metrics(self.scratch / out / "metrics.jsonl"), tool.safetensors(self.scratch / out / f"step-{steps}" / "weight.safetensors")

    def refuses(self, command, pattern, status=1):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == status and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


def tokens(scratch, run):
    return sum(r["tokens"] for r in map(json.loads, open(scratch / run / "metrics.jsonl")) if "tokens" in r)


@case
def what_the_assistant_says_is_learned(b):
    """The words and the token that ends a turn, whether the template marks them or they are found."""
    b.folder("unmarked", PLAIN)
    marked = b.train("marked", "--data chats.jsonl")
    b.scratch.run("mtrun plan.bin --data chats.jsonl --tokenizer unmarked --lr 3e-3 --steps 8 --out found")
    found = tool.metrics(b.scratch / "found" / "metrics.jsonl"), tool.safetensors(b.scratch / "found" / "step-8" / "weight.safetensors")
    tool.compare(marked, found, "without marks")
    words = [sum(len(m["content"]) for m in json.loads(line)["messages"] if m["role"] == "assistant") for line in open(b.scratch / "chats.jsonl")]
    tool.expect(0 < tokens(b.scratch, "marked") < sum(words), f"{tokens(b.scratch, 'marked')} tokens count of {sum(words)} letters")
    b.scratch.run("mtrun plan.bin --data chats.jsonl --tokenizer tokenizer --lr 1e-2 --steps 120 --out learned --quiet")
    losses = [float(loss) for _, loss, _ in tool.metrics(b.scratch / "learned" / "metrics.jsonl")]
    tool.expect(losses[-1] < 0.5 * losses[0], f"{losses[0]} -> {losses[-1]}")
    out = b.scratch.run("mtrun sample plan.bin --from learned --tokenizer tokenizer --chat --prompt 'say red' --temperature 0 --tokens 12")
    tool.expect(out.strip() and "<|im_start|>" not in out, f"an answer of {out!r}")


@case
def killed_and_resumed_to_the_bit(b):
    """In every form that data may have, and in all of them at once."""
    for name, options in (("chats", "--data chats.jsonl"), ("mixture", "--data chats.jsonl:0.7 --data pairs.jsonl:0.3"),
                          ("split", "--data chats.jsonl --eval-split 0.2 --eval-every 3"),
                          ("all", "--data chats.jsonl:2 --data pairs.jsonl:1 --eval-split 0.1 --group '*norm*:lr=0.01' --lr-schedule cosine --warmup 2 --keep-best --eval-every 4")):
        want = b.train(f"{name}-whole", options, steps=12)
        out = f"{name}-killed"
        run = subprocess.Popen(["bash", "-c", f"exec mtrun plan.bin --tokenizer tokenizer --lr 3e-3 --steps 12 --out {out} --checkpoint-every 2 --jitter 1 {options}"],
                               cwd=b.scratch.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while run.poll() is None and not list((b.scratch / out).glob("step-*")):
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
        run.wait()
        got = b.train(out, f"{options} --resume --checkpoint-every 2", steps=12)
        tool.compare(want, got, name)


def with_vocabulary(source, folder, size):
    """The checkpoint folder with so many tokens: its rows again and again."""
    folder.mkdir()
    tensors = tool.safetensors(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    header, body = {}, b""
    for name, (kind, shape, data) in tensors.items():
        if shape[0] == config["vocab_size"]:
            shape, data = (size, *shape[1:]), data * (size // shape[0])
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": size}))


@case
def chats_share_rows(b):
    """The losses of the first step, of all samples in few rows and in a row each."""
    with_vocabulary(tool.GOLDEN / "llama" / "hf", b.scratch / "base", 512)
    for each in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(b.scratch / "tokenizer" / each, b.scratch / "base" / each)
    b.scratch.run("mtc compile base -o apart.bin --batch 44 --seq 128 --target cpu-discrete")
    b.scratch.run("mtrun apart.bin --data chats.jsonl --tokenizer base --steps 1 --out apart")
    said = b.scratch.run("mtc compile base -o packed.bin --batch 1 --seq 128 --pack --target cpu-discrete") and b.scratch.run(
        "mtrun packed.bin --data chats.jsonl --tokenizer base --pack --dry-run")
    rows = int(re.search(r"44 samples .*?([0-9]+) rows", said).group(1))
    tool.expect(rows <= 22, f"{rows} rows")
    b.scratch.run(f"mtc compile base -o packed.bin --batch {rows} --seq 128 --pack --target cpu-discrete")
    b.scratch.run("mtrun packed.bin --data chats.jsonl --tokenizer base --pack --steps 1 --out packed")
    apart, packed = (tool.metrics(b.scratch / run / "metrics.jsonl")[0] for run in ("apart", "packed"))
    tool.expect(tokens(b.scratch, "apart") == tokens(b.scratch, "packed"), "other tokens count")
    tool.expect(all(abs(float(x) / float(y) - 1) < 1e-5 for x, y in zip(apart[1:], packed[1:])), f"{apart} and {packed}")


@case
def what_is_refused(b):
    b.refuses("mtrun plan.bin --data chats.jsonl --out never", 'chats.jsonl:1: "messages" is text, and no tokens: say which --tokenizer')
    b.refuses("mtrun tokenize chats.jsonl --tokenizer tokenizer -o never", "samples - prompts and completions, or chats -")
    (b.scratch / "bare").mkdir()
    shutil.copy(b.scratch / "tokenizer" / "tokenizer.json", b.scratch / "bare" / "tokenizer.json")
    b.refuses("mtrun plan.bin --data chats.jsonl --tokenizer bare --out never", "--tokenizer bare: has no chat template")
    b.refuses("mtrun sample plan.bin --prompt a --chat", "--chat: which model's template")
    b.refuses("mtrun sample plan.bin --prompt a --chat --tokenizer bare", "has no chat template")
    b.refuses("mtrun plan.bin --data chats.jsonl --tokenizer tokenizer --chat", "--chat is of --prompt", 2)
    (b.scratch / "bad.jsonl").write_text((b.scratch / "chats.jsonl").read_text() + '{"messages": [{"role": "user"}]}\n')
    b.refuses("mtrun plan.bin --data bad.jsonl --tokenizer tokenizer --out never", "bad.jsonl:45: ")
    shutil.copytree(b.scratch / "tokenizer", b.scratch / "broken")
    (b.scratch / "broken" / "chat_template.jinja").write_text("{% for m in messages %}")
    b.refuses("mtrun plan.bin --data chats.jsonl --tokenizer broken --out never", r"broken/chat_template.jinja: ")


if __name__ == "__main__":
    tool.main(lambda: case.run(Bench, "properties of training on chats hold"))
