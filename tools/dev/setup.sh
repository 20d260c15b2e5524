#!/usr/bin/env bash
# Installs the Debian 12 packages that opc is built from. Idempotent: it says what is missing and installs only that.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

# Keep in step with docs/dependencies.md, which says what each one is for.
packages=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 lld-22 libclang-rt-22-dev
  libprotobuf-dev protobuf-compiler libcli11-dev libspdlog-dev libfmt-dev catch2 nlohmann-json3-dev
  zlib1g-dev libzstd-dev libdnnl-dev ccache ninja-build cmake g++ binutils make python3 python3-numpy pkg-config git
  libopenmpi-dev openmpi-bin toulbar2
)

usage() {
  cat <<TEXT
usage: tools/dev/setup.sh [--check | --list]
  (no option)  install what is missing; needs root or sudo only when something is
  --check      say what is missing, install nothing; exit 1 when something is
  --list       print the packages, one a line
TEXT
}

mode=install
case "${1:-}" in
  "") ;;
  --check) mode=check ;;
  --list) printf '%s\n' "${packages[@]}"; exit 0 ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  say "this is not a Debian system (no dpkg or apt-get). Install the equivalents of: ${packages[*]}"
  exit 4
fi

missing=()
for p in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true)
  [ "${state:0:2}" = ii ] || missing+=("$p")
done

if [ ${#missing[@]} -eq 0 ]; then
  say "all ${#packages[@]} packages are there, nothing to do"
  exit 0
fi
say "missing: ${missing[*]}"
[ "$mode" = install ] || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
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

say "installing ${#missing[@]} packages"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
say "done"
