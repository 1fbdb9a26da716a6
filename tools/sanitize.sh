#!/usr/bin/env bash
# Builds under a sanitizer and runs every test with it, the fast ones and those that train whole models:
# tools/sanitize.sh asan|tsan [CTEST_ARGUMENTS...], `-R NAME` for one test, say. The thread sanitizer is for the runtime,
# the planner and the packer: the release build's mtc compiles the plans. Takes hours; the last line says whether all was clean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-}
[ "$preset" = asan ] || [ "$preset" = tsan ] || { echo "usage: tools/sanitize.sh asan|tsan [CTEST_ARGUMENTS...]" >&2; exit 2; }
shift

if [ "$preset" = tsan ]; then
  cmake --preset release
  cmake --build --preset release --parallel "$(nproc)" --target mtc
fi
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"
ctest --preset "$preset" -j "$(nproc)" "$@"
echo "$preset: clean"
