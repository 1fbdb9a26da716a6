#!/usr/bin/env bash
# Packs what checks and measures this project on a machine that has nothing of it: programs and tests with their shared
# libraries, models and plans, reference data, check.sh and bench.sh. glibc, libstdc++ and the GPU's libraries are the
# machine's. Needs a finished build.
#
#   tools/bundle.sh [--build DIR] [-o FILE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build file=""
usage="usage: tools/bundle.sh [--build DIR] [-o FILE]"
programs=(mtc mtrun device_test executor_test mt_kernel_tests)
cuda_programs=(cuda_kernel_tests)      # where the build has CUDA
cases=(gpt2 gpt2-clip llama llama-opset23 mlp pictures)
golden_targets=(cpu cpu-discrete h100) # the last is run on any GPU
bench_sizes=(1b 3b 7b)
largest=$((40 << 20))

die() { echo "error: $*" >&2; exit 1; }

model_options() { # SIZE
  case $1 in
  1b) echo --layers 22 --hidden 2048 --intermediate 5632 --heads 32 --kv-heads 4 --vocab 32000 ;;
  3b) echo --layers 28 --hidden 3072 --intermediate 8192 --heads 24 --kv-heads 8 --vocab 32000 ;;
  7b) echo --layers 32 --hidden 4096 --intermediate 11008 --heads 32 --kv-heads 32 --vocab 32000 ;;
  esac
}

while [ $# -gt 0 ]; do
  case $1 in
  --build) build=${2:?--build needs a folder}; shift 2 ;;
  -o) file=${2:?-o needs a file}; shift 2 ;;
  *) die "unknown argument $1; $usage" ;;
  esac
done
file=${file:-$build/mt-bundle.tar.xz}
[ -x "$build/bin/mtc" ] || die "$build/bin has no mtc; build the project first: tools/test.sh, or see CONTRIBUTING.md"
bin=$(cd "$build" && pwd)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/bundle
mkdir -p "$root"/{bin,lib,golden,plans,bench}

# copy_program NAME: stripped, with the libraries that glibc and GCC's runtime do not bring.
copy_program() {
  local name path
  [ -x "$bin/$1" ] || die "$bin/$1 is missing; build it: cmake --build $build --target $1"
  # The text of the section, not all of readelf: with pipefail an early match would look like a failure.
  [[ $(readelf -d "$bin/$1") == *'(RPATH)'*'$ORIGIN/../lib'* ]] ||
    die "$bin/$1 does not look for libraries in ../lib; build it again: cmake --build $build --target $1"
  strip -o "$root/bin/$1" "$bin/$1"
  ldd "$bin/$1" | awk '$2 == "=>" && $3 ~ "^/" { print $1, $3 }' | while read -r name path; do
    case $name in
    ld-linux*|libc.so.*|libm.so.*|libpthread.so.*|libdl.so.*|librt.so.*|libstdc++.so.*|libgcc_s.so.*) ;;
    *) [ -e "$root/lib/$name" ] || strip --strip-unneeded -o "$root/lib/$name" "$path" ;;
    esac
  done
}

# compile_plan MODEL PATH_IN_BUNDLE PLAN OPTIONS...: the plan names its model by that path, so that the folder can lie
# anywhere; programs run in it.
compile_plan() {
  local model=$1 path=$2 plan=$3
  shift 3
  "$bin/mtc" compile "$model" --emit schedule -o "$work/schedule.mlir" "$@" || return
  sed -i "s#\"$model\"#\"$path\"#g" "$work/schedule.mlir"
  "$bin/mtc" emit "$work/schedule.mlir" -o "$root/$plan"
}

add_case() { # NAME
  local name=$1 precision target options
  mkdir "$root/golden/$name"
  cp tests/e2e/golden/"$name"/{model.onnx,data.npz,case.json,curve.jsonl,grads.npz,final.npz} "$root/golden/$name"
  # Of the two command lines: what mtc needs besides the target, and what mtrun needs besides files.
  options=$(python3 - "$root/golden/$name" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
compile_, train = (c.split() for c in json.loads((folder / "case.json").read_text())["commands"])
(folder / "arguments").write_text(" ".join(w for w, before in zip(train[2:], train[1:])
                                            if not {w, before} & {"--data", "--metrics", "--steps"}) + "\n")
options = " ".join(w for w, before in zip(compile_[3:], compile_[2:]) if not {w, before} & {"-o"})
(folder / "compile").write_text(options + "\n")
print(options)
PYTHON
  )
  for precision in fp32 bf16; do
    for target in "${golden_targets[@]}"; do
      # shellcheck disable=SC2086 # words
      compile_plan "$root/golden/$name/model.onnx" "golden/$name/model.onnx" "plans/$name-$precision-$target.bin" \
        --precision "$precision" --target "$target" $options
    done
  done
}

for program in "${programs[@]}"; do copy_program "$program"; done
if [[ $("$bin/mtrun" --version) != *'without CUDA'* ]]; then
  for program in "${cuda_programs[@]}"; do copy_program "$program"; done
fi
[ ! -e "$bin/libmt_mpi.so" ] || strip -o "$root/bin/libmt_mpi.so" "$bin/libmt_mpi.so" # MPI is the machine's
for name in "${cases[@]}"; do add_case "$name"; done
cp tests/e2e/golden/compare.py "$root/golden/"
for size in "${bench_sizes[@]}"; do
  # shellcheck disable=SC2046
  "$bin/mtmodel" llama $(model_options "$size") -o "$root/bench/$size.onnx"
done
cp tools/bundle/{check.sh,bench.sh,bench.py,visit.sh,libraries.sh} tests/bench/llama_vs_fsdp2.py "$root/"
"$root/bin/mtrun" --version >"$root/version"

mkdir -p "$(dirname "$file")"
# A window wide enough to see that programs share their kernels.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c bundle | xz --lzma2=preset=1,dict=96MiB >"$file.part"
mv "$file.part" "$file"
bytes=$(stat -c %s "$file")
[ "$bytes" -lt "$largest" ] || die "$file has $bytes bytes, and a bundle must stay below $largest"
echo "$file: $((bytes >> 10)) KiB, $(find "$root" -name '*.bin' | wc -l) plans; unpack it anywhere, then bundle/check.sh and bundle/bench.sh, or bundle/visit.sh for both"
