# Compares the codes in the sources with those that `opc explain --list` knows.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
used = {}
for folder in ("compiler", "runtime", "kernels", "tools", "proto"):
    for d, _, names in os.walk(os.path.join(source, folder)):
        for n in names:
            if n.endswith((".cpp", ".h")):
                with open(os.path.join(d, n), encoding="utf-8") as f:
                    for code in re.findall(r'"(OPC0\d{3})"', f.read()):
                        used.setdefault(code, n)
known = set(re.findall(r"OPC\d{4}", subprocess.run(["opc", "explain", "--list"], capture_output=True, text=True, check=True).stdout))
unexplained = sorted(set(used) - known)
for code in unexplained:
    print(f"{code} ({used[code]}) has no section in docs/errors.md", file=sys.stderr)
sys.exit(1 if unexplained else 0)
