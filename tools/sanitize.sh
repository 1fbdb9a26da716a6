#!/usr/bin/env bash
# Runs the fast suite and short trainings under a sanitizer: tools/sanitize.sh asan|tsan. Needs the release build, whose
# mtc compiles the plans; the last line says whether all was clean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:?usage: tools/sanitize.sh asan|tsan}
root=$PWD
cases=$root/tests/e2e/golden

cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"
ctest --preset "$preset" -LE slow -j "$(nproc)"

# As the test presets say.
export ASAN_OPTIONS=detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
for case in gpt2 gpt2-clip llama; do
  clip=
  [ $case != gpt2-clip ] || clip=--clip
  "$root/build/bin/mtc" compile "$cases/$case/model.onnx" -o plan.bin --batch 4 --micro-batch 2 --seq 32 $clip \
    --target cpu-discrete --saved-activations input --residency none --park on >/dev/null
  for seed in 1 2 3 4 5; do
    "$root/build-$preset/bin/mtrun" plan.bin --data "$cases/$case/data.npz" --shuffle off --steps 4 --quiet \
      --out "run-$case-$seed" --jitter $seed --poison
  done
done
echo "$preset: clean"
