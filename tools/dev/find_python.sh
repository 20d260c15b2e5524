#!/usr/bin/env bash
# Prints a Python 3 that has numpy. Debian's own comes first: another python3 earlier on PATH may not have numpy.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
for p in ${OPC_PYTHON:-} /usr/bin/python3 python3; do
  if "$p" -c 'import numpy' >/dev/null 2>&1; then
    echo "$p"
    exit 0
  fi
done
echo "no python3 with numpy: install python3-numpy (tools/dev/setup.sh does), or set OPC_PYTHON" >&2
exit 4
