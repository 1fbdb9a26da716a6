#!/usr/bin/env bash
# Writes the generated reference pages docs/{nn,schedule,passes}.md out of the .td files; with --check says which of them
# are stale instead, and fails if one is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tblgen=/usr/lib/llvm-22/bin/mlir-tblgen
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

generate() { # PAGE TBLGEN_ARGUMENTS...
  local page=$1
  shift
  "$tblgen" "$@" -I /usr/lib/llvm-22/include -I . | sed -E 's/[ \t]+$//' >>"$fresh/$page"
}

generate nn.md -gen-dialect-doc -dialect=nn compiler/nn/NnOps.td
generate schedule.md -gen-dialect-doc -dialect=schedule compiler/schedule/ScheduleOps.td
printf '# Passes\n\nIn alphabetical order; the order they run in, and why, is in the pipeline (`compiler/pipeline`).\n\n' >"$fresh/passes.md"
generate passes.md -gen-pass-doc passes/Passes.td

if [ "${1:-}" != --check ]; then
  cp "$fresh"/*.md docs/
  exit
fi
stale=0
for page in "$fresh"/*.md; do
  cmp -s "$page" "docs/${page##*/}" || { echo "error: docs/${page##*/} is stale; run tools/docs.sh" >&2; stale=1; }
done
exit $stale
