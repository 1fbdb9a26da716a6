#!/usr/bin/env bash
# A small Llama from nothing on text: see README.md beside this. From the repository's folder, with build/bin on the path.
set -euo pipefail
out=runs/pretrain
rm -rf "$out"
mkdir -p "$out"

mtmodel llama --layers 4 --hidden 128 --intermediate 352 --heads 4 --kv-heads 2 --vocab 256 -o "$out/model.onnx"
mtc compile "$out/model.onnx" -o "$out/plan.bin" --batch 8 --seq 128 --clip --target cpu
mtrun --recipe examples/pretrain/recipe.toml | awk -F'[ /]' '!/^step [0-9]+\// || $2 % 25 == 0'
mtrun sample "$out/plan.bin" --from "$out/run" --best --prompt "It was a warm evening when" --tokens 96 --temperature 0.5

loss=$(mtrun eval "$out/plan.bin" --data models/data/sample.txt --from "$out/run" --best --split | grep -o 'loss [0-9.]*' | tail -n 1)
echo "pretrain: $loss on text held back; curves and samples in $out/run/report.html"
