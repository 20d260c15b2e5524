# Loads the address sanitizer into Python when the library under test is built with it: the runtime must come first.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import subprocess
import sys

if "address" in os.environ.get("OPC_SANITIZE", ""):
    if hasattr(ctypes.CDLL(None), "__asan_init"):
        del os.environ["LD_PRELOAD"]  # opc has the runtime inside
    else:
        name = f"libclang_rt.asan-{os.uname().machine}.so"
        runtime = subprocess.run([os.environ["OPC_CXX"], f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        # What Python keeps to its end is no leak of ours.
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], dict(os.environ, LD_PRELOAD=runtime, ASAN_OPTIONS=options))
