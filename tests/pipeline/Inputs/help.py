"""Reads every help page of every program and says what a reader would stumble over."""
import subprocess
import sys

PAGES = [["mtc"], *(["mtc", name] for name in "compile check fit dump diff emit target".split()), ["mtrun"],
         *(["mtrun", name] for name in "eval export probe".split()), ["mtmodel"],
         *(["mtmodel", name] for name in "gpt2 llama gemma t5 mlp skips from-hf".split())]
wrong = []
for page in PAGES:
    done = subprocess.run([*page, "--help"], capture_output=True, text=True)
    lines, name = done.stdout.splitlines(), " ".join(page)
    if done.returncode or not lines or lines[0].startswith("Usage"):
        wrong.append(f"{name}: status {done.returncode}, and its first line says no purpose")
    if "Example" not in done.stdout:
        wrong.append(f"{name}: no example")
    wrong += [f"{name}: {len(line)} columns: {line}" for line in lines if len(line) > 120]
    wrong += [f"{name}: {line}" for line in lines for noise in ("9223372036854775807", " in [", "TEXT:", "FLOAT:") if noise in line]
shared = {"--batch", "--seq", "--dim", "--loss", "--train", "--freeze", "--precision", "--optimizer", "--clip", "--target",
          "--device-memory", "--host-memory", "--micro-batch", "--saved-activations"}
for name in ("compile", "check", "fit"):
    text = subprocess.run(["mtc", name, "--help"], capture_output=True, text=True).stdout
    wrong += [f"mtc {name} lacks {flag}" for flag in sorted(shared) if flag + " " not in text]
print("\n".join(wrong))
sys.exit(bool(wrong))
