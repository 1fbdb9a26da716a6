#!/usr/bin/env bash
# The whole line in small: installs what is missing, builds, writes a model, compiles it for a device memory that its
# training state does not fit, trains it on sample text, and says whether the loss fell.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
run=runs/demo
steps=120

say() { printf '\n== %s\n' "$*"; }

say "setting up"
tools/setup.sh

say "building"
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target mtc mtrun mtmodel mtc-opt
export PATH="$PWD/build/bin:$PATH"

say "writing a model: a Llama of 6 layers with bytes as tokens"
rm -rf "$run"
mkdir -p "$run"
mtmodel llama --layers 6 --hidden 256 --intermediate 704 --heads 8 --kv-heads 4 --vocab 256 -o "$run/model.onnx"

say "compiling it for a device of 32 MiB, less than half of what its weights, gradients and moments take"
mtc compile "$run/model.onnx" -o "$run/plan.bin" --batch 8 --seq 128 --clip --target cpu-discrete \
  --device-memory 32MiB --report | grep -v '^considered'

say "training it on models/data/sample.txt"
mtrun "$run/plan.bin" --data models/data/sample.txt --steps "$steps" --lr 2e-3 --lr-schedule cosine --warmup 10 \
  --out "$run/training" --metrics "$run/metrics.jsonl" | awk 'NR <= 3 || NR % 10 == 0'

# Mean loss of the first and of the last five steps.
read -r first last count < <(sed -nE 's/.*"loss": *([-0-9.eE+]+).*/\1/p' "$run/metrics.jsonl" | awk '
  { loss[NR] = $1 }
  END { n = NR < 5 ? NR : 5; for (i = 1; i <= n; ++i) { a += loss[i]; b += loss[NR - i + 1] }
        if (n) print a / n, b / n, NR; else print 0, 0, 0 }')
echo
if awk -v a="$first" -v b="$last" -v n="$count" -v want="$steps" 'BEGIN { exit !(n == want && b < 0.8 * a) }'; then
  echo "demo: done: the loss fell from $first to $last in $count steps; everything is in $run"
else
  echo "demo: failed: the loss went from $first to $last in $count of $steps steps" >&2
  exit 1
fi
