#!/usr/bin/env bash
# A small classifier of rows of numbers: see README.md beside this. From the repository's folder, with build/bin on the path.
set -euo pipefail
out=runs/classifier
rm -rf "$out"
mkdir -p "$out"

python3 examples/classifier/make_data.py models/data/sample.txt "$out/train.npz" "$out/test.npz"
mtmodel mlp --layers 2 --hidden 64 --intermediate 26 --vocab 4 -o "$out/model.onnx" # 26 numbers in, 4 classes out
mtc compile "$out/model.onnx" -o "$out/plan.bin" --batch 32 --loss cross-entropy --target cpu
mtrun --recipe examples/classifier/recipe.toml | awk -F'[ /]' '!/^step [0-9]+\// || $2 % 100 == 0'
mtrun export "$out/run" --best -o "$out/trained.onnx"

loss() { mtrun eval "$out/plan.bin" --data "$out/test.npz" "$@" | grep -o 'loss [0-9.]*' | tail -n 1; }
before=$(loss) after=$(loss --from "$out/run" --best)
echo "classifier: $before of sentences held back before training, $after after; the model in $out/trained.onnx"
