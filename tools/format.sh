#!/usr/bin/env bash
# Formats every C++ file of ours in place (clang-format 14 or later; .clang-format).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git ls-files '*.h' '*.cpp' | xargs clang-format -i
