#!/usr/bin/env bash
# Formats the C++ sources that git tracks, or with --check says which ones need it.  usage: tools/dev/format.sh [--check] [FILE...]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
format=$(command -v clang-format-22 || command -v clang-format || true)
if [ -z "$format" ]; then
  echo "format: no clang-format-22; install the package clang-format-22" >&2
  exit 4
fi
check=
if [ "${1:-}" = --check ]; then
  check=1
  shift
fi
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh'); fi
if [ -n "$check" ]; then
  "$format" --dry-run -Werror "${files[@]}"
else
  "$format" -i "${files[@]}"
fi
