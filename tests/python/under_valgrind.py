"""Threads that run operators in Python, and their ends, under valgrind: errors and lost memory with a frame of opc in them.

usage: OPC_BUILD_DIR=build python3 tests/python/under_valgrind.py      needs valgrind; two minutes; it is no test of ctest"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["OPC_BUILD_DIR"], "python"))
from test_python_op_threads import program  # noqa: E402

#: Python and numpy keep much until the process ends; what is asked is what opc's frames have lost or touched.
VALGRIND = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=60", "--fair-sched=yes"]


def findings(log):
    """The reports that have a frame of opc's own."""
    blocks = re.split(r"\n==\d+== \n", log)
    return [b for b in blocks if re.search(r"(_core\.cpython|libopc)", b) and re.search(r"definitely lost|Invalid|uninitialised|Mismatched|overlap", b)]


def run(ending, folder):
    path, log = os.path.join(folder, "program.py"), os.path.join(folder, ending + ".log")
    with open(path, "w", encoding="utf-8") as f:
        f.write(program(ending, threads=16, rounds=10))
    env = {**os.environ, "PYTHONPATH": os.path.join(os.environ["OPC_BUILD_DIR"], "python"), "PYTHONMALLOC": "malloc", "GOMP_SPINCOUNT": "0"}
    start = time.monotonic()
    child = subprocess.Popen([*VALGRIND, "--log-file=" + log, sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    began = child.stdout.readline() in ("running\n", "all done\n")
    if ending == "interrupt":
        child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=1200)
    with open(log, encoding="utf-8", errors="replace") as f:
        found = findings(f.read())
    print(f"{ending}: exit code {child.returncode}, {time.monotonic() - start:.0f} s, {len(found)} findings", flush=True)
    for block in found[:5]:
        print(block)
    expected = {"return": 0, "end": 0, "exception": 1, "interrupt": -signal.SIGINT}[ending]
    right = began and child.returncode == expected
    if not right:
        print(out, errors[-3000:])
    return bool(found) or not right


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored, which children inherit
    with tempfile.TemporaryDirectory() as scratch:
        chosen = sys.argv[1:] or ["return", "end", "exception", "interrupt"]
        sys.exit(any([run(ending, scratch) for ending in chosen]))
