#!/usr/bin/env bash
# Installs what is missing, builds the release preset into build/, runs every test: the fast ones, then those that
# train whole models. The last line counts them, after the reasons for which some were skipped; exit 1 if one failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

# To look at the pages of mtc dump and of runs with; for jobs of several processes; to have cuDNN's library judge our graphs, and ONNX's
# own cases our importer.
tools/setup.sh chromium libopenmpi-dev openmpi-bin --cudnn --onnx-cases
cmake --preset release
cmake --build --preset release --parallel "$jobs"

passed=0 skipped=0 failed=0
log=$(mktemp) reasons=$(mktemp)
trap 'rm -f "$log" "$reasons"' EXIT

# run_suite NAME JOBS CTEST_ARGUMENTS...: adds ctest's own counts to the totals.
run_suite() {
  local name=$1 jobs=$2 begin=$SECONDS summary
  shift 2
  ctest --test-dir build --output-on-failure --parallel "$jobs" "$@" 2>&1 | tee "$log" || true
  summary=$(grep -E '[0-9]+ tests? failed out of [0-9]+' "$log") || { echo "error: the $name suite ran no tests" >&2; exit 1; }
  local bad all left_out
  read -r bad all < <(sed -E 's/.*[^0-9]([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/' <<<"$summary")
  left_out=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log" || true) # of which ctest says that they passed
  passed=$((passed + all - bad - left_out)) skipped=$((skipped + left_out)) failed=$((failed + bad))
  [ "$left_out" = 0 ] || sed -nE 's/^skipped: //p; /^no CUDA device: /p' build/Testing/Temporary/LastTest.log >>"$reasons"
  echo "$name suite: $((all - bad - left_out)) passed, $left_out skipped, $bad failed in $((SECONDS - begin)) s"
}

run_suite fast "$jobs" --label-exclude slow
run_suite slow "$((jobs < 2 ? 1 : 3))" --label-regex slow # most of them fill one core at most
sort -u "$reasons" | sed 's/^/skipped: /'
echo "$passed passed, $skipped skipped, $failed failed"
[ "$failed" = 0 ]
