#!/usr/bin/env bash
# Installs the Debian 12 packages that opc is built from. Idempotent: it says what is missing and installs only that.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

# group | packages | version in Debian 12 | licence | what for. docs/dependencies.md shows this table (tools/dev/docs.py).
# The group "tests" is what only tests run: without it the build is whole, and the tests that need a program are skipped by name.
table() {
  cat <<'TABLE'
build | libmlir-22-dev mlir-22-tools | 22.1 | Apache-2.0 with LLVM exception | the dialect and its passes (linked statically into `opc` and `opc-opt`)
build | llvm-22-dev llvm-22-tools | 22.1 | Apache-2.0 with LLVM exception | LLVM's libraries; `FileCheck`, `lit`, `not` for the tests
build | clang-22 lld-22 libclang-rt-22-dev | 22.1 | Apache-2.0 with LLVM exception | compiler, linker, sanitizers
build | clang-format-22 clang-tidy-22 | 22.1 | Apache-2.0 with LLVM exception | `tools/dev/format.sh`, `tools/dev/tidy`; no other version is taken
build | libprotobuf-dev protobuf-compiler | 3.21 | BSD-3-Clause | graph and plan messages (linked statically)
build | libdnnl-dev | 2.6 | Apache-2.0 | oneDNN: matrix products, convolution, pooling, normalisation on the CPU
build | libcli11-dev | 2.1 | BSD-3-Clause | the command line
build | libtomlplusplus-dev | 3.3 | MIT | toml++: settings files (its headers alone)
build | libspdlog-dev libfmt-dev | 1.10, 9.1 | MIT | the log of the commands
build | nlohmann-json3-dev | 3.11 | MIT | JSON output, safetensors headers
build | zlib1g-dev libzstd-dev | 1.2, 1.5 | Zlib, BSD-3-Clause | npz; LLVM's own need
build | libopenmpi-dev openmpi-bin | 4.1 | BSD-3-Clause | ranks as processes: `libopc_mpi.so`, opened at run time; `mpirun`. Without it a build has ranks as threads only
build | catch2 | 2.13 | BSL-1.0 | unit tests
build | python3 python3-numpy | 3.11, 1.24 | PSF-2.0, BSD-3-Clause | tests, demo, example data
build | pybind11-dev python3-dev | 2.10, 3.11 | BSD-3-Clause, PSF-2.0 | the Python package `opc`; without them a build has none
build | toulbar2 | 1.1 | MIT | the test `planner_oracle`: an exact solver to compare the planner with
build | g++ binutils make | 12, 2.40 | GPL-3 (libgomp: with runtime exception) | libgomp, the process's one thread pool; plugins in tests are built with g++, as their authors do; `readelf`
build | cmake ninja-build ccache pkg-config git | 3.25, 1.11 | BSD-3-Clause, Apache-2.0, GPL | building
speed | libjemalloc-dev | 5.3 | BSD-2-Clause | the allocator of `opc` (linked statically): graphs of 100,000 ops compile in five sixths of the time; a build without it takes the C library's
tests | zsh fish | 5.9, 3.6 | MIT-like, GPL-2 | `completion` types into real shells
tests | chromium | 156 | BSD-3-Clause | `pages_in_browser` opens reports
tests | python3-onnx | 1.12 | Apache-2.0 | `onnx_files`: ONNX's own checker on what `opc show --as onnx` writes
tests | libonnx-testdata | 1.12 | Apache-2.0 | `onnx_backend`: the cases of ONNX's own backend tests
tests | python3-mpmath | 1.2 | BSD-3-Clause | `elementwise_sweep`, `elementwise_gradients`: exact values of elementwise operators
tests | python3-jsonschema | 4.10 | MIT | `json_documents` holds JSON against its schemas
tests | mypy | 1.0 | MIT | `python` checks the types that the package says
tests | python3-torch | 1.13 | BSD-3-Clause | `python`: gradients, optimizers, networks and a transformer beside PyTorch, step by step (826 MB with what it needs)
tests | man-db | 2.11 | GPL-2 | the manual pages are rendered
tests | locales | 2.36 | LGPL-2.1 | `checks` makes the locale of Turkish: an i without a dot, a comma in numbers
tests | iproute2 | 6.1 | GPL-2 | `two_hosts` makes two hosts of network namespaces
nightly | libomp-22-dev | 22.1 | Apache-2.0 with LLVM exception | OpenMP in place of libgomp under the thread sanitizer, with its tool archer
TABLE
}

usage() {
  cat <<TEXT
usage: tools/dev/setup.sh [--tests] [--nightly] [--check | --list | --table | --hooks]
  (no option)  install what the build needs and is missing; needs root or sudo only when something is
  --tests      what only tests need, too
  --nightly    what only .ci/nightly needs, too
  --check      say what is missing, install nothing; exit 1 when something is
  --list       print the packages, one a line
  --table      print the packages with versions, licences and purposes
  --hooks      make this clone check commit messages (tools/dev/commit-msg); install nothing
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mode=install
groups=build
for argument in "$@"; do
  case "$argument" in
    --tests | --nightly) groups="$groups|${argument#--}" ;;
    --check | --list | --table | --hooks) mode=${argument#--} ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
mapfile -t packages < <(table | awk -F' [|] ' -v groups="^($groups)\$" '$1 ~ groups { n = split($2, p, " "); for (i = 1; i <= n; i++) print p[i] }')

case "$mode" in
  list) printf '%s\n' "${packages[@]}"; exit 0 ;;
  table) table; exit 0 ;;
  hooks)
    cd "$root"
    ln -sf "$PWD/tools/dev/commit-msg" "$(git rev-parse --git-path hooks)/commit-msg"
    exit 0
    ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  say "this is not a Debian system (no dpkg or apt-get). Install the equivalents of: ${packages[*]}"
  exit 4
fi

missing=()
wanted=()
for p in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true)
  [ "${state:0:2}" = ii ] || missing+=("$p")
done

# What makes opc faster and is no condition: a machine that cannot have it builds without.
if [ "$mode" = install ]; then
  for p in $(table | awk -F' [|] ' '$1 == "speed" { print $2 }'); do
    state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true)
    [ "${state:0:2}" = ii ] || wanted+=("$p")
  done
fi

# What tests compare models with comes from npm, where there is one: without it they are skipped by name.
peers() {
  [ "$mode" = install ] && [[ "$groups" == *tests* ]] && command -v npm >/dev/null || return 0
  [ ! -d "$root/build/peers/node_modules/onnxruntime-node" ] || return 0
  say "fetching ONNX Runtime from npm"
  timeout 300 "$root/tools/dev/install_peers.sh" --runtime >&2 || say "going on without ONNX Runtime: its tests are skipped"
}

if [ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ]; then
  say "all ${#packages[@]} packages are there, nothing to do"
  peers
  exit 0
fi
say "missing: ${missing[*]} ${wanted[*]}"
[ "$mode" = install ] || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    [ ${#missing[@]} -ne 0 ] || exit 0 # only what is no condition
    say "not root and no sudo: run  apt-get install ${missing[*]}  as root, then this script again"
    exit 4
  fi
  as_root=(sudo)
fi

say "refreshing the package lists"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 || say "apt-get update failed; trying with the lists at hand"

unknown=()
for p in "${missing[@]}"; do
  candidate=$(apt-cache policy "$p" 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [ -z "$candidate" ] || [ "$candidate" = "(none)" ]; then unknown+=("$p"); fi
done
if [ ${#unknown[@]} -ne 0 ]; then
  say "no configured package source offers: ${unknown[*]}"
  say "LLVM 22 comes from Debian 12's security suite; /etc/apt/sources.list needs a line like"
  say "  deb http://deb.debian.org/debian-security bookworm-security main"
  exit 4
fi

install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >&2; }
say "installing ${#missing[@]} packages"
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
for p in "${wanted[@]}"; do
  install "$p" || say "going on without $p"
done
peers
say "done"
