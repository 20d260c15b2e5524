# What a test of kernels for GPUs asks of the build: that it has some, and a simulated device to run them.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import unittest


def without_simulator():
    """Why this build cannot run kernels on the simulated GPU; nothing when it can."""
    opc = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
    facts = json.loads(subprocess.run([opc, "doctor", "--json"], capture_output=True, text=True).stdout)
    if not facts["device_kernels"]:
        return "this build has no kernels for GPUs (nvcc)"
    if not next(d["available"] for d in facts["devices"] if d["name"] == "sim"):
        return "this build has no GPU simulator"
    return None


def need_simulator():
    """Skips the test, the class or the script that calls it where there is none."""
    if reason := without_simulator():
        raise unittest.SkipTest(reason)
