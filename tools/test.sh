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
# Sanitized builds: MLIR, protobuf and oneDNN come from packages and are not instrumented, so containers and arenas that
# they fill for us are not marked (tests/fuzz/FuzzMain.cpp). What is found aborts: exit code 1 is one that tests know.
suppressions=$PWD/tests/sanitizers
export ASAN_OPTIONS=${ASAN_OPTIONS:-allow_user_poisoning=0:detect_container_overflow=0:strict_string_checks=1:abort_on_error=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$suppressions/lsan.txt:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:abort_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:suppressions=$suppressions/tsan.txt:print_suppressions=0:history_size=4:atexit_sleep_ms=0}
# Frames of unoptimized code with red zones are several times as large: depths that we allow are to fit.
[ -z "${OPC_PRESET:-}" ] || [ "$OPC_PRESET" = release ] || ulimit -s 262144 2>/dev/null || true
# libomp stands in for libgomp (third_party/Dependencies.cmake), whose barriers the thread sanitizer does not see.
[ "${OPC_PRESET:-}" != tsan ] || export OMP_TOOL_LIBRARIES=${OMP_TOOL_LIBRARIES:-/usr/lib/llvm-22/lib/libarcher.so}
ctest --test-dir "$dir" --output-on-failure -j2 "$@"
