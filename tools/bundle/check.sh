#!/bin/sh
# Checks this machine with the bundle it lies in: devices and kernels by their own tests, training against PyTorch's
# numbers, repeated runs bit by bit, the GPU's sanitizer. Prints a line a step and a summary, writes check.json. A call
# ends within eight minutes; the next goes on where it stopped. Without a GPU the steps that need one are skipped, by
# name and reason. Needs a shell, coreutils, awk, grep and sed; with python3 and numpy gradients and weights are compared too.
#
#   check.sh [-o DIR] [--fresh] [--again] [--only PATTERNS] [--jobs N]
#
# --only: the steps whose names match one of the words, as the shell matches files. Of those, --fresh does all once more, --again
# what failed. --jobs: so many steps at once, where none waits for another and none measures.
# Exit 0: nothing failed; 1: something did; 3: not done yet, call it again.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$here/results/check
self=$here/$(basename "$0")
end=$(($(date +%s) + ${MT_CHECK_SECONDS:-450}))
skipped=77

. "$here/libraries.sh"

usage() { echo "error: unknown argument $1; usage: check.sh [-o DIR] [--fresh] [--again] [--only PATTERNS] [--jobs N]" >&2; exit 2; }

# --- what this machine has -------------------------------------------------------------------------------------------
why_no_gpu() {
  command -v nvidia-smi >/dev/null 2>&1 || { echo "nvidia-smi is not there"; return; }
  nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || echo "nvidia-smi finds no GPU"
}
no_gpu=${MT_CHECK_NO_GPU-$(why_no_gpu)}
if [ -z "$no_gpu" ]; then MT_REQUIRE_CUDA=1; else MT_REQUIRE_CUDA=0; fi
export MT_REQUIRE_CUDA MT_CHECK_NO_GPU="$no_gpu"
has_numpy() { command -v python3 >/dev/null 2>&1 && python3 -c 'import numpy' 2>/dev/null; }
find_sanitizer() { command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null; }

# skip WHY, need_gpu: the step's last line and status.
skip() { echo "skipped: $*"; exit $skipped; }
need_gpu() { [ -z "$no_gpu" ] || skip "no GPU: $no_gpu"; }
need_program() { [ -x "$here/bin/$1" ] || skip "the bundle has no $1: it was built without CUDA"; }
problem() { echo "FAIL: $*"; exit 1; }

# --- steps: each runs in a process of its own, and its last line says what came of it ---------------------------------
# tests PROGRAM [ARGUMENTS...]: a test program; what it skipped goes into STEP.skipped. Where there is a GPU no test may miss it;
# others are of what a processor or a backend has.
tests() {
  program=$1 log=$out/$MT_STEP.output left=$out/$MT_STEP.skipped
  shift
  need_program "$program"
  "$here/bin/$program" "$@" >"$log" 2>&1
  status=$?
  grep -v '^\[ RUN\|^\[       OK' "$log"
  sed -n '/SKIPPED.*listed below/,$s/^\[  SKIPPED \] \([^ ]*\)$/\1/p' "$log" >"$left"
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")
  left_out=$(grep -c . "$left")
  [ $status -eq 0 ] || problem "exit $status, $(grep 'FAILED TEST' "$log" || tail -n 1 "$log"): see $log"
  reason=$(sed -n 's/^.*\(no CUDA device: .*\)$/\1/p' "$log" | head -n 1)
  [ -z "$reason" ] || [ -n "$no_gpu" ] || problem "tests were skipped with a GPU: $reason; see $log"
  reason=${reason:-$(sed -n '/: Skipped$/{n;p;}' "$log" | sort -u | head -n 1)}
  [ "${passed:-0}" -gt 0 ] || skip "all $left_out tests: ${reason:-no reason given}"
  echo "$passed tests passed$([ "$left_out" -eq 0 ] || echo ", $left_out skipped (${reason:-no reason given}): $(cut -c 1-70 "$left" | head -n 3 | tr '\n' ' ')... see $MT_STEP.skipped")"
}

# train CASE PRECISION DEVICE FOLDER STEPS [ARGUMENTS...]: a run of a reference case.
train() {
  case_=$1 precision=$2 device=$3 folder=$4 steps=$5
  shift 5
  rm -rf "$folder"
  mkdir -p "$folder"
  target=$device
  [ "$device" != cuda ] || target=h100
  cd "$here" || exit 1
  # shellcheck disable=SC2046
  bin/mtrun "plans/$case_-$precision-$target.bin" --data "golden/$case_/data.npz" $(cat "golden/$case_/arguments") --steps "$steps" \
    --device "${device%%-*}" --metrics "$folder/metrics.jsonl" --out "$folder/run" --quiet "$@" 2>"$folder/stderr" ||
    problem "mtrun: $(tail -n 1 "$folder/stderr")"
}

# Step, loss and gradient norm as text: the numbers read back to the same bits.
numbers() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([^,}]*\).*"grad_norm":\([^,}]*\).*/\1 \2 \3/p' "$1"; }

# losses CASE PRECISION METRICS: against PyTorch's, within the bounds of golden/compare.py.
losses() {
  bf16_bound() { sed -n "s/.*\"$2\": *\([-+.0-9e]*\).*/\1/p" "$here/golden/$1/case.json"; }
  sed -n 's/.*"step": *\([0-9]*\),.*"loss64": *\([^,}]*\), *"grad_norm": *\([^,}]*\)}.*/\1 \2 \3/p' "$here/golden/$1/curve.jsonl" >"$3.wanted"
  numbers "$3" | awk -v precision="$2" -v first="$(bf16_bound "$1" loss_max_first_10)" -v mean="$(bf16_bound "$1" loss_mean)" \
    -v wanted="$3.wanted" '
    function off(a, b) { return a > b ? a - b : b - a }
    function number(text) { if (text !~ /^-?[0-9]/) wrong = wrong " step " $1 " has " text ";"; return text + 0 }
    function check(what, value, bound) { if (!(value <= bound)) wrong = wrong " " what " " value " above " bound ";" }
    BEGIN { while ((getline line < wanted) > 0) { split(line, part, " "); loss[++steps] = part[2]; norm[steps] = part[3] } }
    {
      ++seen
      difference = off(number($2), loss[seen]); sum += difference
      if (seen <= 10 && difference > early) early = difference
      if (difference / loss[seen] > relative) relative = difference / loss[seen]
      if (seen <= 10 && off(number($3), norm[seen]) / norm[seen] > norms) norms = off($3, norm[seen]) / norm[seen]
    }
    END {
      if (steps == 0 || seen != steps) wrong = wrong " " seen + 0 " steps, and the reference has " steps + 0 ";"
      if (precision == "bf16") { check("loss, first 10 steps,", early, 1.5 * first); check("mean loss", sum / (seen + !seen), 1.5 * mean) }
      else { check("loss, first 10 steps,", early, 1e-5); check("relative loss", relative, 2e-5); check("gradient norm", norms, 2e-5) }
      if (wrong != "") { print "differs from PyTorch:" wrong; exit 1 }
      printf "losses of %d steps: %.1e off in the first 10, %.1e relative in all", seen, early, relative
    }'
}

# vendors DEVICE FOLDER: on a GPU attention of 16 bits and convolutions are cuDNN's, else what follows shows nothing of it. What
# cuDNN leaves to us because it is an old one is said, and is no problem.
vendors() {
  [ "$1" = cuda ] || return 0
  other=$(grep 'goes .*, which is slower: ' "$2/stderr") || return 0
  wrong=$(echo "$other" | grep -m 1 -v 'multiples of 128') && problem "this is not cuDNN's: $wrong"
  echo "; not cuDNN's: $(echo "$other" | head -n 1)"
}

golden() { # CASE PRECISION DEVICE
  [ "$3" != cuda ] || { need_gpu; need_program cuda_kernel_tests; }
  folder=$out/work/$1-$2-$3
  flag=
  [ "$2" != bf16 ] || flag=--bf16
  train "$1" "$2" "$3" "$folder" "$(grep -c loss64 "$here/golden/$1/curve.jsonl")" --save-gradients "$folder/gradients.npz"
  said=$(losses "$1" "$2" "$folder/metrics.jsonl") || problem "$said"
  other=$(vendors "$3" "$folder") || problem "${other#FAIL: }"
  if has_numpy; then
    "$here/bin/mtrun" export "$folder/run" -o "$folder/weights.npz" >/dev/null || problem "the weights cannot be exported"
    # shellcheck disable=SC2086
    python3 "$here/golden/compare.py" "$here/golden/$1" "$folder/metrics.jsonl" --gradients "$folder/gradients.npz" \
      --weights "$folder/weights.npz" $flag >"$folder/compared" 2>&1 || { cat "$folder/compared"; problem "gradients or weights differ from PyTorch's: $(grep -m 1 -v '^ok' "$folder/compared")"; }
    cat "$folder/compared"
    said="$said; gradients and weights too"
  else
    said="$said; gradients and weights not compared: no python3 with numpy"
  fi
  rm -rf "$folder/run" "$folder"/*.npz
  echo "$said$other"
}

same_on_both() { # CASE PRECISION: cpu and cpu-discrete
  for device in cpu cpu-discrete; do
    [ -f "$out/work/$1-$2-$device/metrics.jsonl" ] || problem "golden.$1.$2.$device left no metrics"
    numbers "$out/work/$1-$2-$device/metrics.jsonl" >"$out/work/$1-$2-$device/numbers"
  done
  cmp "$out/work/$1-$2-cpu/numbers" "$out/work/$1-$2-cpu-discrete/numbers" || problem "losses differ"
  echo "losses and norms of $(grep -c . "$out/work/$1-$2-cpu/numbers") steps are equal to the bit"
}

repeat() { # CASE PRECISION DEVICE: again, disturbed, and on a GPU with graphs; losses, norms and weights bit by bit
  [ "$3" != cuda ] || { need_gpu; need_program cuda_kernel_tests; }
  ways="plain again disturbed"
  [ "$3" != cuda ] || ways="$ways graphs"
  for way in $ways; do
    extra=
    [ "$way" != disturbed ] || extra="--jitter 7 --poison"
    [ "$way" != graphs ] || extra=--cuda-graphs
    folder=$out/work/repeat-$1-$2-$3/$way
    # shellcheck disable=SC2086
    train "$1" "$2" "$3" "$folder" 20 $extra
    numbers "$folder/metrics.jsonl" >"$folder/numbers"
    [ "$(grep -c . "$folder/numbers")" -eq 20 ] || problem "$way: not 20 steps"
    "$here/bin/mtrun" export "$folder/run" -o "$folder/weights.safetensors" >/dev/null || problem "$way: no weights"
    for what in numbers weights.safetensors; do
      cmp "$out/work/repeat-$1-$2-$3/plain/$what" "$folder/$what" || problem "$what of the run \"$way\" differ from the first's"
    done
  done
  rm -rf "$out/work/repeat-$1-$2-$3"
  echo "losses, norms and weights of 20 steps are equal to the bit: $ways"
}

several() { # CASE PRECISION: on all GPUs, four at most, layers in turn, the batch shared, a process each, against one of them
  need_gpu
  need_program cuda_kernel_tests
  gpus=$(nvidia-smi -L | grep -c '^GPU ')
  [ "$gpus" -gt 1 ] || skip "there is one GPU"
  [ "$gpus" -le 4 ] || gpus=4
  cd "$here" || exit 1
  words=$(cat "golden/$1/compile")
  batch=$(echo "$words" | sed -n 's/.*--batch \([0-9]*\).*/\1/p')
  ranks="" launcher="" also=", layers in turn and the batch shared"
  if [ -e bin/libmt_mpi.so ] && command -v mpirun >/dev/null 2>&1; then # gradients go from GPU to GPU, by NCCL
    ranks=$((gpus > 3 ? 4 : 2))
    also="$also; and $ranks processes with one each"
  fi
  for way in 1-layers "$gpus-layers" "$gpus-batch" ${ranks:+"$ranks-ranks"}; do
    folder=$out/work/several-$1-$2/$way
    rm -rf "$folder"
    mkdir -p "$folder"
    # shellcheck disable=SC2046,SC2086
    bin/mtc compile "golden/$1/model.onnx" -o "$folder/plan.bin" $words --precision "$2" --target h100 --micro-batch $((batch / 4)) \
      $([ "${way#*-}" = ranks ] && echo "--ranks ${way%-*} --network 10GB,20GB" || echo "--devices ${way%-*} --placement ${way#*-}") \
      >"$folder/compiled" 2>&1 || problem "mtc: $(tail -n 1 "$folder/compiled")"
    [ "${way#*-}" != ranks ] || launcher="env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n $ranks"
    # shellcheck disable=SC2046,SC2086
    $launcher bin/mtrun "$folder/plan.bin" --data "golden/$1/data.npz" $(cat "golden/$1/arguments") --steps 20 --device cuda --jitter 7 \
      --metrics "$folder/metrics.jsonl" --out "$folder/run" --quiet 2>"$folder/stderr" || problem "$way: mtrun: $(tail -n 1 "$folder/stderr")"
    numbers "$folder/metrics.jsonl" >"$folder/numbers"
    bin/mtrun export "$folder/run" -o "$folder/weights.safetensors" >/dev/null || problem "$way: no weights"
    for what in numbers weights.safetensors; do
      cmp "$out/work/several-$1-$2/1-layers/$what" "$folder/$what" || problem "$what of $way differ from those of one GPU"
    done
  done
  rm -rf "$out/work/several-$1-$2"
  echo "losses, norms and weights of 20 steps on $gpus GPUs are those of one, to the bit$also"
}

sanitize() { # TOOL PROGRAM FILTER
  need_gpu
  need_program cuda_kernel_tests
  sanitizer=$(find_sanitizer) || skip "compute-sanitizer is neither on the path nor in /usr/local/cuda/bin"
  cd "$here" || exit 1
  log=$out/work-$1-$2.log
  options="--tool $1 --error-exitcode 9"
  # Libraries ask for what a driver may lack, and handle that it does: no error of ours.
  [ "$1" != memcheck ] || options="$options --report-api-errors no"
  # shellcheck disable=SC2046,SC2086
  if [ "$2" = mtrun ]; then
    mkdir -p "$out/work"
    rm -f "$out/work/sanitized.jsonl"
    "$sanitizer" $options bin/mtrun plans/"$3"-h100.bin --data golden/"${3%-*}"/data.npz $(cat golden/"${3%-*}"/arguments) \
      --steps 2 --keep 0 --out "$out/work/sanitized" --metrics "$out/work/sanitized.jsonl" --quiet
  else
    "$sanitizer" $options "bin/$2" --gtest_brief=1 --gtest_filter="$3"
  fi >"$log" 2>&1
  tail -n 40 "$log"
  ! grep -q 'Device not supported' "$log" || skip "compute-sanitizer does not support this device"
  # Without its summary a tool did not come to its end; the first of its lines is its name.
  grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' "$log" ||
    problem "$1: $(grep -m 1 ' SUMMARY: ' "$log" || echo no summary), first $(grep '^=========' "$log" | grep -m 1 -v 'COMPUTE-SANITIZER\|SUMMARY'): see $log"
  ! grep -q '^\[  FAILED  \]\|^error:' "$log" || problem "$1 is clean, but: $(grep -m 1 '^\[  FAILED  \]\|^error:' "$log")"
  if [ "$2" = mtrun ]; then
    [ "$(numbers "$out/work/sanitized.jsonl" | grep -c .)" -eq 2 ] || problem "$1 is clean, but mtrun did not do 2 steps: see $log"
    echo "$1: no errors in 2 steps"
  else
    passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")
    [ "${passed:-0}" -gt 0 ] || problem "$1 is clean, but no test passed: see $log"
    echo "$1: no errors in $passed tests"
  fi
}

probe() {
  device=cpu
  [ -n "$no_gpu" ] || device=cuda
  cd "$out" || exit 1
  "$here/bin/mtrun" probe --brief --device $device -o "probed-$device.json"
}

# --- the list of steps, and how they are run --------------------------------------------------------------------------
# asked NAME: whether --only means it.
asked() {
  set -f
  for pattern in $only; do
    # shellcheck disable=SC2254 # a pattern
    case $1 in $pattern) set +f; return 0 ;; esac
  done
  set +f
  return 1
}

# step NAME LEAST LIMIT FUNCTION [ARGUMENTS...]: unless it is done, not asked for, or another job's. It is begun if LEAST seconds
# are left, and ended after LIMIT. Cut off sooner, because the call ends, it is done again by the next, which begins with it; if it was the
# first of its call, more time will not help.
step() {
  name=$1 least=$2 limit=$3
  shift 3
  asked "$name" || return 0
  [ ! -f "$out/$name.result" ] || return 0
  began=$(date +%s)
  left=$((end - began))
  if [ $unfinished = yes ] || { [ $first = no ] && [ $least -gt $left ]; }; then
    unfinished=yes
    return 0
  fi
  [ -z "$taken" ] || mkdir "$taken/$name" 2>/dev/null || return 0
  [ $limit -le $left ] || limit=$left
  MT_STEP=$name timeout -k 5 "$limit" sh "$self" -o "$out" --run "$@" >"$out/$name.log" 2>&1
  status=$?
  took=$(($(date +%s) - began))
  detail=$(tail -n 1 "$out/$name.log" | tr -d '\000-\037\\"')
  case $status in
  0) result=ok ;;
  $skipped) result=skipped detail=${detail#skipped: } ;;
  124 | 137)
    if [ "$limit" -eq $left ] && [ $first = no ]; then
      unfinished=yes
      return 0
    fi
    result=FAIL detail="not done after $limit s: $detail"
    ;;
  *) result=FAIL detail=${detail#FAIL: } ;;
  esac
  [ $took -eq 0 ] || first=no
  printf '%s\t%s\t%s\t%s\n' "$name" $result $took "$detail" >"$out/$name.part"
  mv "$out/$name.part" "$out/$name.result"
  grep -qx "$name" "$out/order" 2>/dev/null || echo "$name" >>"$out/order"
  printf '%-7s %-34s %4d s  %s\n' $result "$name" $took "$detail"
}

# golden_steps, repeat_steps DEVICE LIMIT
golden_steps() {
  for case_name in mlp pictures gpt2 gpt2-clip llama llama-opset23; do
    for precision_name in fp32 bf16; do step "golden.$case_name.$precision_name.$1" 20 "$2" golden $case_name $precision_name "$1"; done
  done
}
repeat_steps() {
  for precision_name in fp32 bf16; do
    for case_name in gpt2-clip llama; do step "repeat.$case_name.$precision_name.$1" 30 "$2" repeat $case_name $precision_name "$1"; done
  done
}

# A process for each group of the GPU's kernel tests: after an access that the GPU refuses a process can do nothing more on it.
kernel_steps() {
  if [ -n "$no_gpu" ] || [ ! -x "$here/bin/cuda_kernel_tests" ]; then
    step kernels.cuda 0 430 tests cuda_kernel_tests
    return
  fi
  for suite in $("$here/bin/cuda_kernel_tests" --gtest_list_tests | sed -n 's/^\([A-Za-z].*\)\.\( .*\)*$/\1/p'); do
    step "kernels.cuda.$(echo "$suite" | tr / _)" 20 430 tests cuda_kernel_tests --gtest_filter="$suite.*"
  done
}

# What needs a GPU comes first: time with one is dear. Of these steps none waits for another.
independent_steps() {
  step devices 40 430 tests device_test
  step executor 40 430 tests executor_test
  kernel_steps
  golden_steps cuda 240
  repeat_steps cuda 240
  for precision_name in fp32 bf16; do
    for case_name in gpt2-clip llama; do step "several.$case_name.$precision_name" 60 240 several $case_name $precision_name; done
  done
  step sanitizer.memcheck.kernels 120 430 sanitize memcheck cuda_kernel_tests '*Norm*:*Softmax*:*Rotary*:*Indexing*:Loss.*:Structure.*:AttentionBlocks.*:*Matmul*'
  step sanitizer.memcheck.training 120 430 sanitize memcheck mtrun llama-bf16
  step sanitizer.racecheck.kernels 120 430 sanitize racecheck cuda_kernel_tests '*Norm.*:Softmax.*:Indexing.Embedding:Loss.CrossEntropy:Structure.Reduce:Structure.Transpose'
  step sanitizer.synccheck.kernels 120 430 sanitize synccheck cuda_kernel_tests '*Norm.*:Softmax.*:Indexing.Embedding:Loss.CrossEntropy:Structure.Reduce:Structure.Transpose'
  step kernels.cpu 60 200 tests mt_kernel_tests --gtest_filter=-Catalogue.PageIsFresh:Coverage.TheGpusSources*
  golden_steps cpu 90
  golden_steps cpu-discrete 90
  repeat_steps cpu-discrete 90
}

steps() {
  if [ "$jobs" -gt 1 ]; then
    taken=$out/taken
    rm -rf "$taken"
    mkdir "$taken" || exit 1
    job=0 running=
    while [ $job -lt "$jobs" ]; do
      (independent_steps; [ $unfinished = no ] || exit 3) &
      running="$running $!"
      job=$((job + 1))
    done
    for job in $running; do wait "$job" || unfinished=yes; done
    rm -rf "$taken"
    taken= first=no
  else
    independent_steps
  fi
  step probe 60 180 probe
  for case_name in mlp pictures gpt2 gpt2-clip llama llama-opset23; do
    for precision_name in fp32 bf16; do step "golden.$case_name.$precision_name.same" 5 10 same_on_both $case_name $precision_name; done
  done
}

json() {
  awk -F '\t' -v version="$(cat "$here/version")" -v machine="$(uname -srm)" -v gpu="$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)" \
    -v no_gpu="$no_gpu" -v finished="$([ $unfinished = no ] && echo true || echo false)" '
    BEGIN { printf "{\"version\": \"%s\", \"machine\": \"%s\", \"gpu\": \"%s\", \"no_gpu\": \"%s\", \"finished\": %s, \"steps\": [", version, machine, gpu, no_gpu, finished }
    { printf "%s\n  {\"name\": \"%s\", \"result\": \"%s\", \"seconds\": %d, \"detail\": \"%s\"}", (NR > 1 ? "," : ""), $1, $2, $3, $4 }
    END { print "\n]}" }' "$out/all" >"$out/check.json"
}

fresh=no again=no only='*' jobs=1 run= taken=
while [ $# -gt 0 ]; do
  case $1 in
  -o) out=${2:?-o needs a folder}; shift 2 ;;
  --fresh) fresh=yes; shift ;;
  --again) again=yes; shift ;;
  --only) only=${2:?--only needs patterns}; shift 2 ;;
  --jobs)
    jobs=${2:?--jobs needs a number}
    case $jobs in *[!0-9]* | 0) echo "error: --jobs $jobs: a number from 1 is needed" >&2; exit 2 ;; esac
    shift 2
    ;;
  --run) run=yes; shift; break ;; # for this script itself: one step
  *) usage "$1" ;;
  esac
done
if [ -n "$run" ]; then
  "$@"
  exit
fi

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
if [ $fresh = yes ] || [ $again = yes ]; then
  for file in "$out"/*.result; do
    name=${file##*/}
    if asked "${name%.result}" && { [ $fresh = yes ] || grep -q "$(printf '\tFAIL\t')" "$file"; }; then rm -f "$file"; fi
  done
fi
unfinished=no first=${MT_FIRST:-yes} # no: visit.sh has done something in this call
cat "$here/version"
if [ -z "$no_gpu" ]; then nvidia-smi -L; else echo "no GPU: $no_gpu; what needs one is skipped"; fi
steps
: >"$out/all"
if [ -f "$out/order" ]; then
  while read -r name; do cat "$out/$name.result" 2>/dev/null; done <"$out/order" >"$out/all"
fi
json
failed=$(awk -F '\t' '$2 == "FAIL"' "$out/all" | grep -c .)
echo
awk -F '\t' '{ ++count[$2] } END { printf "%d ok, %d skipped, %d failed", count["ok"], count["skipped"], count["FAIL"] }' "$out/all"
echo "; $out/check.json"
awk -F '\t' '$2 == "FAIL" { print "FAIL " $1 ": " $4 } $2 == "ok" && /not cuDNN/ { print "note " $1 ": " $4 }' "$out/all"
if [ $unfinished = yes ]; then
  echo "not done yet: the same command goes on, without --fresh and --again"
  exit 3
fi
[ "$failed" -eq 0 ]
