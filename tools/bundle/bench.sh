#!/bin/sh
# Measures training of Llama-shaped models of 1, 3 and 7 B parameters on this machine's GPU and writes bench.json and
# bench.md. A call ends within eight minutes; the next goes on where it stopped. Without a GPU it says so and measures
# a tiny model on the CPU, to show that it would run. Arguments go to bench.py, which explains them.
#
#   bench.sh [-o DIR] [--fresh] [--only PATTERN]      exit 0: done; 1: a measurement failed; 3: not done yet, call it again
set -u
here=$(cd "$(dirname "$0")" && pwd)
if nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
  command -v python3 >/dev/null || { echo "error: bench.sh needs python3; install it" >&2; exit 1; }
  exec python3 "$here/bench.py" "$@"
fi
echo "no GPU: nvidia-smi is not there or finds none; the table of GPU measurements is skipped"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here" || exit 1
# shellcheck disable=SC2046
bin/mtrun plans/gpt2-fp32-cpu.bin --data golden/gpt2/data.npz $(cat golden/gpt2/arguments) --steps 20 --keep 0 --quiet \
  --out "$work/run" --metrics "$work/metrics.jsonl" || exit 1
sed -n 's/.*"tokens_per_s":\([0-9.e+]*\).*/\1/p' "$work/metrics.jsonl" | sort -g |
  awk '{ rate[NR] = $1 } END { printf "cpu: a GPT-2 of 0.2 M parameters, batch 4, sequence 32: %.0f tokens/s\n", rate[int((NR + 1) / 2)] }'
