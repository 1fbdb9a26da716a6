#!/usr/bin/env bash
# Low-rank adapters for a checkpoint folder of Hugging Face: see README.md beside this. From the repository's folder, with
# build/bin on the path.
set -euo pipefail
out=runs/finetune here=examples/finetune
rm -rf "$out"
mkdir -p "$out"

# A base that knows the stories: a folder of random weights, trained whole, and written as a folder like it.
python3 $here/make_base.py "$out/random"
mtc compile "$out/random" -o "$out/base.bin" --batch 8 --seq 128 --target cpu
mtrun "$out/base.bin" --data models/data/sample.txt --tokenizer "$out/random" --steps 300 --lr 4e-3 --lr-schedule cosine \
  --warmup 20 --out "$out/base-run" | tail -n 1
mtrun export "$out/base-run" --like "$out/random" -o "$out/base"

# Adapters beside its weights, on prompts and completions. Your own: a folder and a .jsonl in the places of these.
python3 $here/make_data.py models/data/sample.txt "$out/train.jsonl" "$out/test.jsonl"
mtc compile "$out/base" -o "$out/plan.bin" --batch 8 --seq 256 --lora '*_proj.weight:rank=8,alpha=16' --target cpu
mtrun --recipe $here/recipe.toml | awk -F'[ /]' '!/^step [0-9]+\// || $2 % 25 == 0'
mtrun export "$out/run" --like "$out/base" -o "$out/adapter"
mtrun export "$out/run" --like "$out/base" --merge -o "$out/tuned"

held_back() {
  mtrun eval "$1" --data "$out/test.jsonl" --tokenizer "$out/base" "${@:2}" | grep -o 'loss [0-9.]*' | tail -n 1
}
before=$(held_back "$out/plan.bin")
after=$(held_back "$out/plan.bin" --from "$out/run")
echo "finetune: $before of completions held back before, $after after; adapter in $out/adapter, merged in $out/tuned"
