#!/usr/bin/env bash
# Writes every generated page of docs/ anew: nn, schedule and passes out of the .td files, kernels out of the catalogue,
# checkpoints out of models/, the table of operators in importing, and operators. With --check says which of them are stale
# instead, and fails if one is. kernels.md and checkpoints.md need a build (build/, or $MT_BUILD), of which they build what
# they need; without one they are left as they are. So is what operators.md says of lowerings, which needs ONNX's node cases
# too (tools/setup.sh --onnx-cases).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
llvm=/usr/lib/llvm-22
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

generate() { # PAGE TBLGEN_ARGUMENTS...
  local page=$1
  shift
  "$llvm/bin/mlir-tblgen" "$@" -I "$llvm/include" -I . | sed -E 's/[ \t]+$//' >>"$fresh/$page"
}

generate head -gen-dialect-doc -dialect=nn compiler/nn/NnOps.td
sed -i '/^## Operations/,$d' "$fresh/head"
"$llvm/bin/llvm-tblgen" --dump-json -I "$llvm/include" -I . compiler/nn/NnOps.td -o "$fresh/nn.json"
python3 tools/docs.py nn "$fresh/nn.json" "$fresh/head" >"$fresh/nn.md"
generate schedule.md -gen-dialect-doc -dialect=schedule compiler/schedule/ScheduleOps.td
printf '# Passes\n\nIn alphabetical order; the order they run in, and why, is in the pipeline (`compiler/pipeline`).\n\n' >"$fresh/passes.md"
generate passes.md -gen-pass-doc passes/Passes.td
python3 tools/docs.py operators docs/importing.md >"$fresh/importing.md"
build=${MT_BUILD:-build}
if [ "${1:-}" != --check ] && [ -e "$build/tests/onnx/cases/cases.json" ]; then
  cmake --build "$build" --target onnx-conformance >&2
  MT_WRITE_LOWERINGS=1 GTEST_BRIEF=1 "$build/bin/onnx-conformance" --gtest_filter='Lowerings.*' >&2
fi
python3 tools/docs.py standard >"$fresh/operators.md"
write() { # PAGE PROGRAM
  [ "$check" = --check ] || [ ! -e "$build/build.ninja" ] || cmake --build "$build" --target "$2" >&2
  if [ -x "$build/bin/$2" ]; then
    "$build/bin/$2" "$fresh/$1"
  elif [ "$check" != --check ]; then
    echo "docs/$1 is left as it is: there is no build in $build" >&2
  fi
}
check=${1:-}
write kernels.md mt-kernel-reference
write checkpoints.md mt-checkpoint-reference

if [ "${1:-}" != --check ]; then
  cp "$fresh"/*.md docs/
  exit
fi
stale=0
for page in "$fresh"/*.md; do
  cmp -s "$page" "docs/${page##*/}" || { echo "error: docs/${page##*/} is stale; run tools/docs.sh" >&2; stale=1; }
done
exit $stale
