#!/usr/bin/env bash
# Fuzzes what reads files that others wrote: builds the preset `fuzz` into build-fuzz/ and runs one target or all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runtime_targets=(checkpoint config jinja jsonl metrics npz plan recipe safetensors target tokenizer tokens)
compiler_targets=(onnx)
limits=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536)

help() {
  cat <<TEXT
usage: tools/fuzz.sh TARGET|all|runtime SECONDS [LIBFUZZER-OPTION...]

Targets: ${runtime_targets[*]} (all of them: runtime), ${compiler_targets[*]}
A finding is a crash, a report of the address or undefined-behaviour sanitizer, a leak, an input of up to 64 KiB that takes
longer than 10 s, one allocation above 1 GiB, or more than 2 GiB resident. Each run begins from tests/fuzz/corpus/TARGET and
keeps what it discovers in build-fuzz/corpus/TARGET. A finding is written to build-fuzz/findings/TARGET-*; run it again by
  build-fuzz/bin/fuzz-TARGET FILE
make it small by
  build-fuzz/bin/fuzz-TARGET -minimize_crash=1 -runs=10000 FILE
and add it to tests/fuzz/corpus/TARGET when it is fixed: every build replays that (ctest -R fuzz.replay).
Exit status 1 where a target found something; the last line of each target says how many inputs it ran.
TEXT
}

die() { echo "error: $*" >&2; exit 2; }

[ $# -ge 2 ] || { help; [ "${1:-}" = --help ] && exit 0 || exit 2; }
wanted=$1 seconds=$2
shift 2
case $wanted in
  all) targets=("${runtime_targets[@]}" "${compiler_targets[@]}") ;;
  runtime) targets=("${runtime_targets[@]}") ;;
  *) targets=("$wanted") ;;
esac
[[ $seconds =~ ^[0-9]+$ ]] || die "SECONDS is '$seconds'; give a whole number"
for target in "${targets[@]}"; do
  [[ " ${runtime_targets[*]} ${compiler_targets[*]} " = *" $target "* ]] || die "no target '$target'; see tools/fuzz.sh --help"
done
command -v clang++-22 >/dev/null || die "clang++-22 is missing; run tools/setup.sh, which installs it"

# Only what compiles models needs MLIR and the compiler.
compiler=OFF
for target in "${targets[@]}"; do
  [[ " ${compiler_targets[*]} " != *" $target "* ]] || compiler=ON
done
cmake --preset fuzz -DMT_COMPILER=$compiler >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz-}"

# Libraries that are not instrumented hand over containers whose bounds are not marked, and allocate from arenas that
# what is instrumented of them has marked as free. Short stacks of allocations and a small quarantine: twice as many inputs
# a second; what runs one input again has long ones.
export ASAN_OPTIONS=detect_container_overflow=0:allow_user_poisoning=0:malloc_context_size=4:quarantine_size_mb=16:max_malloc_fill_size=0
export UBSAN_OPTIONS=print_stacktrace=1
mkdir -p build-fuzz/findings
failed=0
for target in "${targets[@]}"; do
  mkdir -p "build-fuzz/corpus/$target"
  log=build-fuzz/findings/$target.log
  more=()
  [ "$target" != onnx ] || more=(-entropic=0) # with 100,000 features it takes a fifth of the time
  if build-fuzz/bin/fuzz-"$target" "${limits[@]}" "${more[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="build-fuzz/findings/$target-" "$@" "build-fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    result="no finding"
  else
    result="FINDING, see $log"
    failed=1
    grep -E '^(SUMMARY|==[0-9]+==ERROR|artifact_prefix)|Test unit written' "$log" || tail -n 5 "$log"
  fi
  echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s: $result"
done
exit $failed
