#!/usr/bin/env bash
# Builds everything and runs every test; exits non-zero when one fails. usage: tools/test.sh [ctest arguments]
# OPC_PRESET=asan tests that build; OPC_SKIP_BUILD=1 tests what is built.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Without the programs that only tests use, the tests that need them are skipped by name.
if [ -z "${OPC_SKIP_SETUP:-}" ]; then
  tools/dev/setup.sh --tests || echo "test: some programs of tests are missing here" >&2
fi
[ -n "${OPC_SKIP_BUILD:-}" ] || tools/build.sh "${OPC_PRESET:-release}"
dir=build
[ "${OPC_PRESET:-release}" = release ] || dir=build-$OPC_PRESET
# Sanitized builds: MLIR's archives are not instrumented, so its arenas may not poison memory (tests/fuzz/FuzzMain.cpp).
export ASAN_OPTIONS=${ASAN_OPTIONS:-allow_user_poisoning=0}
ctest --test-dir "$dir" --output-on-failure -j2 "$@"
