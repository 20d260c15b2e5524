# Memory over many runs and sessions, and two sessions on two threads, for the example networks.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")

with tempfile.TemporaryDirectory() as folder:
    for net in ("mlp", "cnn"):
        plan = os.path.join(folder, net + ".plan")
        subprocess.run([os.path.join(BIN, "opc"), "-q", "compile", os.path.join(DIGITS, net + ".pbtxt"), "-o", plan], check=True)
        for mode in ("runs", "sessions", "threads"):
            done = subprocess.run([os.path.join(BIN, "opc_endurance"), mode, plan], capture_output=True, text=True, timeout=500)
            print(net, done.stdout.strip(), done.stderr.strip())
            if done.returncode != 0:
                sys.exit(f"{net} {mode} failed")
