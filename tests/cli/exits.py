# Runs a command and demands one exit code: exits.py CODE COMMAND...   (lit's `not` accepts any non-zero code.)
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

wanted = int(sys.argv[1])
code = subprocess.run(sys.argv[2:]).returncode
if code != wanted:
    print(f"exits.py: exit code {code}, expected {wanted}: {' '.join(sys.argv[2:])}", file=sys.stderr)
    sys.exit(1)
