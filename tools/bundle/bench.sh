#!/bin/sh
# Measures training of Llama-shaped models of 1, 3 and 7 B parameters on this machine's GPU and writes bench.json and
# bench.md. A call ends within eight minutes; the next goes on where it stopped. Without a GPU it says so, and measures
# a tiny model on the CPU, to show that it would run. Arguments go to bench.py, which explains them.
#
#   bench.sh [-o DIR] [--fresh] [--again] [--only PATTERNS]     exit 0: done; 1: a measurement failed; 3: not done yet, call it again
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/libraries.sh"
if nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
  command -v python3 >/dev/null || { echo "error: bench.sh needs python3; install it" >&2; exit 1; }
  exec python3 "$here/bench.py" "$@"
fi
out=$here/results/bench
while [ $# -gt 0 ]; do
  case $1 in
  -o) out=${2:?-o needs a folder}; shift 2 ;;
  *) shift ;;
  esac
done
reason="no GPU: nvidia-smi is not there or finds none"
echo "$reason; the table of GPU measurements is skipped"
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here" || exit 1
# shellcheck disable=SC2046
bin/mtrun plans/gpt2-fp32-cpu.bin --data golden/gpt2/data.npz $(cat golden/gpt2/arguments) --steps 20 --keep 0 --quiet \
  --out "$work/run" --metrics "$work/metrics.jsonl" || exit 1
rate=$(sed -n 's/.*"tokens_per_s":\([0-9.e+]*\).*/\1/p' "$work/metrics.jsonl" | sort -g | awk '{ rate[NR] = $1 } END { printf "%.0f", rate[int((NR + 1) / 2)] }')
echo "cpu: a GPT-2 of 0.2 M parameters, batch 4, sequence 32: $rate tokens/s"
if [ -e "$out/bench.json" ] && ! grep -q '"no_gpu"' "$out/bench.json"; then
  echo "$out/bench.json is of a GPU, and stays as it is"
  exit 0
fi
printf '{"no_gpu": "%s", "version": "%s", "cpu": {"model": "gpt2", "batch": 4, "sequence": 32, "tokens_per_s": %s}}\n' \
  "$reason" "$(cat version)" "$rate" >"$out/bench.json"
