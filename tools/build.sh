#!/usr/bin/env bash
# Installs what is missing, configures one preset (release unless named) and builds it.
# usage: tools/build.sh [PRESET] [TARGET...]     OPC_SKIP_SETUP=1 leaves packages alone, OPC_JOBS=N sets the jobs
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
[ $# -gt 0 ] && shift
if [ "$preset" = -h ] || [ "$preset" = --help ]; then
  sed -n '2,3s/^# //p' "tools/build.sh"
  exit 0
fi
case "$preset" in
  release) dir=build ;;
  dev | asan | tsan | fuzz | coverage | portable) dir=build-$preset ;;
  *)
    echo "build: unknown preset '$preset'; there are release, dev, asan, tsan, fuzz, coverage, portable" >&2
    exit 2
    ;;
esac

[ -n "${OPC_SKIP_SETUP:-}" ] || tools/dev/setup.sh

# A compiler process on MLIR headers takes up to 1.5 GB: never more jobs than the memory holds.
jobs=${OPC_JOBS:-}
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  available_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  fits=$((${available_kb:-4000000} / 2000000))
  [ "$fits" -ge 1 ] || fits=1
  [ "$jobs" -le "$fits" ] || jobs=$fits
fi

if [ ! -f "$dir/build.ninja" ]; then
  echo "build: configuring preset $preset in $dir" >&2
  mkdir -p "$dir"
  if ! cmake --preset "$preset" >"$dir/configure.log" 2>&1; then
    cat "$dir/configure.log" >&2
    exit 4
  fi
fi
echo "build: building $dir with $jobs jobs" >&2
cmake --build "$dir" -j "$jobs" ${1:+--target "$@"}
