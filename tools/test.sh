#!/usr/bin/env bash
# Builds everything and runs every test; exits non-zero when one fails. usage: tools/test.sh [ctest arguments]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/build.sh "${OPC_PRESET:-release}"
dir=build
[ "${OPC_PRESET:-release}" = release ] || dir=build-$OPC_PRESET
# Sanitized builds: MLIR's archives are not instrumented, so its arenas may not poison memory (tests/fuzz/FuzzMain.cpp).
export ASAN_OPTIONS=${ASAN_OPTIONS:-allow_user_poisoning=0}
ctest --test-dir "$dir" --output-on-failure -j2 "$@"
