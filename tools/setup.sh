#!/usr/bin/env bash
# Installs what building and testing need on Debian 12 and fetches the ONNX schema out of a pinned package, checked by
# its hash. Works as root or with sudo; where everything is there already it only looks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ cmake ninja-build git
  llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools
  libdnnl-dev libhwy-dev
  libprotobuf-dev protobuf-compiler
  libfmt-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-pip python3-numpy
)
onnx_version=1.23.2
schema=third_party/onnx/onnx-ml.proto
schema_sha256=8f39d0a1ae1abef5ca648922cdb06716d6bd1573c9e972b42854c16e9e352c16

die() { echo "error: $*" >&2; exit 1; }

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

install_packages() {
  command -v apt-get >/dev/null || die "this script knows Debian's apt-get only; install by hand: $*"
  local run=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "installing needs root; run as root or install sudo. Missing: $*"
    run=(sudo)
  fi
  echo "setup: installing $*"
  "${run[@]}" apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

schema_is_right() { [ -f "$schema" ] && echo "$schema_sha256  $schema" | sha256sum --check --status; }

fetch_schema() {
  local aside
  aside=$(mktemp -d)
  trap 'rm -rf "$aside"' RETURN
  echo "setup: fetching the ONNX schema from the package onnx $onnx_version"
  /usr/bin/python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$aside" "onnx==$onnx_version" ||
    die "onnx==$onnx_version cannot be downloaded from the package index; check the network and pip's settings"
  mkdir -p "$(dirname "$schema")"
  /usr/bin/python3 - "$aside" "$schema" <<'PYTHON'
import glob, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/*.whl")
open(sys.argv[2], "wb").write(zipfile.ZipFile(wheel).read("onnx/onnx-ml.proto"))
PYTHON
  schema_is_right || { rm -f "$schema"; die "the schema of onnx $onnx_version has another hash than tools/setup.sh expects"; }
}

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
schema_is_right || fetch_schema
echo "setup: everything is there"
