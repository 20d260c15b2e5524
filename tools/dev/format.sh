#!/usr/bin/env bash
# Formats the C++ sources that git tracks, or with --check says which ones need it.  usage: tools/dev/format.sh [--check] [FILE...]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# One version for all: another one breaks lines elsewhere, and two people would undo each other's formatting.
format=${OPC_CLANG_FORMAT:-$(command -v clang-format-22 || command -v clang-format || true)}
found=$([ -n "$format" ] && "$format" --version 2>/dev/null || echo "no clang-format")
if [[ ! $found =~ "version 22." ]]; then
  echo "format: clang-format 22 is needed, and here is: $found; tools/dev/setup.sh installs clang-format-22" >&2
  exit 4
fi
check=
if [ "${1:-}" = --check ]; then
  check=1
  shift
fi
sources() { git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' 2>/dev/null || true; }
files=()
if [ $# -eq 0 ]; then mapfile -t files < <(sources); fi
for f in "$@"; do # clang-format takes any file for C++
  case "$f" in *.cpp | *.h | *.cu | *.cuh) files+=("$f") ;; *) echo "format: $f is no C++ source, and stays as it is" >&2 ;; esac
done
if [ ${#files[@]} -eq 0 ]; then
  echo "format: git lists no sources here; name the files" >&2
  exit 0
fi
if [ -n "$check" ]; then
  printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P "$(nproc)" "$format" --dry-run -Werror
else
  "$format" -i "${files[@]}"
fi
