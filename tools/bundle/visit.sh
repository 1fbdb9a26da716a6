#!/bin/sh
# A visit to a machine with a GPU, in calls of less than nine minutes, the most wanted first: what the machine is, whether its
# device and kernels are right, how fast it trains. It runs steps of check.sh and bench.sh, and a call goes on where the one
# before stopped or was cut off. What was found lies in one file, new after every part; where the machine forgets its
# files between calls, put that file back.
#
#   visit.sh [RESULTS.tar.gz]      exit 0: done; 1: something failed; 3: not done yet, call it again
#
# RESULTS.tar.gz: results.tar.gz beside this script unless told. Four variables: MT_VISIT_SECONDS of a call, 500 unless told;
# MT_VISIT_PARTS, a file of other parts than those below; MT_HOST_GIB, what bench.sh takes the host's memory for;
# MT_PROBE_BRIEF=1, for a visit of minutes: the probe measures the machine's rates alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in -*) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
file=${1:-$here/results.tar.gz}
results=$here/results
end=$(($(date +%s) + ${MT_VISIT_SECONDS:-500}))
shortest=15 # seconds that a part must have to be begun

# --- one call at a time: what a call that was killed has left running ends first -----------------------------------------
if command -v flock >/dev/null 2>&1; then
  exec 9>"$here/.running"
  flock -w 60 9 || { echo "error: another visit.sh, or what it started, still runs here: end it (lsof $here/.running)" >&2; exit 1; }
fi

# --- results of an earlier call, on a machine that has forgotten them ------------------------------------------------------
if [ -e "$file" ] && [ ! -e "$results/visit" ]; then
  [ ! -e "$results" ] || { echo "error: there is $file, and $results that it does not know: remove one of them, or name another file" >&2; exit 1; }
  rm -rf "$here/restored"
  mkdir "$here/restored" && tar -xzf "$file" -C "$here/restored" && [ -d "$here/restored/results/visit" ] ||
    { echo "error: $file is not what visit.sh writes; remove it, or name another" >&2; exit 1; }
  mv "$here/restored/results" "$results" || exit 1
fi
mkdir -p "$results/visit" || exit 1
keep() {
  tar -czf "$file.part" -C "$here" --exclude='results/*/work*' --exclude='results/*/run' --exclude='results/*/tokens.bin' \
    results && mv "$file.part" "$file"
}
trap 'keep; exit 3' TERM INT HUP

# --- facts: what other numbers are to be read with ---------------------------------------------------------------------------
say() { # NAME COMMAND...: its output, or that there is none
  name=$1
  shift
  echo "## $name"
  "$@" 2>&1 || echo "not available: $*"
  echo
}
facts() {
  say version cat "$here/version"
  say date date -u
  say system uname -srm
  say processors sh -c 'nproc; grep -m 1 "model name" /proc/cpuinfo; cat /sys/fs/cgroup/cpu.max'
  say "memory, MiB" awk '/MemTotal|MemAvailable|SwapTotal|Hugepagesize/ { print $1, int($2 / 1024) }' /proc/meminfo
  say "memory as it is used: GiB, and seconds for the last one" timeout 20 python3 -c "
import mmap, time
for gib in range(1, 17):
    began = time.monotonic()
    taken = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 4096): taken[at] = 1
    globals()[f'kept{gib}'] = taken
    if gib in (1, 2, 4, 8, 16): print(gib, round(time.monotonic() - began, 2), open('/proc/meminfo').read().split('MemAvailable:')[1].split()[0], 'KiB available', flush=True)"
  say "memory limit of the control group" cat /sys/fs/cgroup/memory.max
  say "locked memory limit, KiB" sh -c 'ulimit -l'
  say disk df -m "$here"
  say gpu nvidia-smi -L
  say "driver, memory, clocks, power" nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,clocks.max.mem,power.limit,compute_mode,mig.mode.current --format=csv
  say "link, now and at most" nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max --format=csv
  say topology nvidia-smi topo -m
  say libraries sh -c 'ldconfig -p | grep -E "libcublasLt|libcudnn\.|libnvrtc\.|libnccl\.|libmpi\." ; python3 -c "
import glob, sys
for folder in sys.path:
    for file in sorted(glob.glob(folder + \"/nvidia/*/lib/lib*.so*\")):
        if any(name in file for name in (\"cublasLt\", \"libcudnn.\", \"libnvrtc.\", \"libnccl.\")): print(file)
try:
    import torch; print(\"torch\", torch.__version__, torch.version.cuda)
except Exception as failure: print(\"torch:\", failure)"'
}

# --- the parts, the most wanted first ------------------------------------------------------------------------------------
# SCRIPT PATTERNS. Sanitizers come last: what they look for was looked for without a GPU. Of check.sh as many steps run at once as
# a GPU and half the processors have room for: time is dear, and they measure nothing.
parts() {
  if [ -n "${MT_VISIT_PARTS:-}" ]; then
    cat "$MT_VISIT_PARTS"
  elif ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    printf 'bench *\ncheck *\n'
  else
    cat <<'PARTS'
check devices kernels.cuda* golden.llama.*.cuda
bench probe
bench roofline-7b-96
bench mt-1b-32
bench mt-7b-96
bench trace-7b-96
bench mt-7b-8
bench mt-3b-32
bench clip-3b-32
bench clip-1b-32
bench traceclip-3b-32
bench allcores-7b-8
bench fsdp2-1b-32
bench fsdp2-3b-32
bench mt-7b-32
check executor golden.*.cuda repeat.*.cuda several.*
check sanitizer.memcheck.*
bench *
check *
PARTS
  fi
}

echo "$(cat "$here/version"): a visit"
if [ ! -e "$results/visit/facts" ]; then
  facts >"$results/visit/facts.part" && mv "$results/visit/facts.part" "$results/visit/facts"
fi
jobs=$(($(nproc) / 2))
[ $jobs -ge 1 ] || jobs=1
[ $jobs -le 8 ] || jobs=8
first=yes failed=no unfinished=no
parts >"$results/visit/parts" || exit 1
while read -r script patterns <&3; do
  left=$((end - $(date +%s)))
  if [ "$left" -lt $shortest ]; then
    unfinished=yes
    break
  fi
  # A part that the call cuts off is no failure, unless it was the call's first: then more time will not help.
  set --
  [ "$script" != check ] || set -- --jobs $jobs
  MT_CHECK_SECONDS=$left MT_BENCH_SECONDS=$left MT_FIRST=$first "$here/$script.sh" --only "$patterns" "$@" >"$results/visit/output" 2>&1 3<&-
  status=$?
  case $status in
  0) ;;
  3) unfinished=yes ;;
  *) failed=yes ;;
  esac
  # What was done now; check.sh also names each failure of earlier calls, behind one space.
  grep -E '^(ok {5}|FAIL {3}|skipped) |^(mt|clip|graphs|allcores|trace|traceclip|fsdp2)-[^ ]*: |^probe: |^error: ' "$results/visit/output" | tee "$results/visit/said"
  [ -s "$results/visit/said" ] || continue
  first=no
  keep || exit 1
done 3<"$results/visit/parts"
rm -f "$results/visit/output" "$results/visit/said"
[ ! -e "$results/bench/bench.md" ] || { echo; cat "$results/bench/bench.md"; }
keep || exit 1
echo "$file"
[ $unfinished = no ] || { echo "not done yet: the same command goes on"; exit 3; }
[ $failed = no ]
