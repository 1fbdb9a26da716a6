#!/usr/bin/env bash
# Formats the lines of C++ and CUDA that differ from a revision (HEAD unless told), and no others: tools/format.sh [REVISION]
# (clang-format 14 or later with git-clang-format; .clang-format).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in -*) sed -n 's/^# //p' "$0"; exit 2 ;; esac
git clang-format --extensions h,cpp,cu,cuh "${1:-HEAD}"
