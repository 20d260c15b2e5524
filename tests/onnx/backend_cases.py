# Every case of ONNX's own backend tests (Debian's libonnx-testdata) through opc run, against its outputs under its tolerances.
# failing_cases.txt names each case that fails, and why; one that starts to pass must leave the list.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from messages import ports, tensors  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DATA = os.environ.get("OPC_ONNX_TESTDATA", "/usr/share/libonnx-testdata/data")
LIST = os.path.join(os.path.dirname(__file__), "failing_cases.txt")
# The runner of ONNX's tests compares with these.
TOLERANCES = ["--rtol", "1e-3", "--atol", "1e-7", "--nan", "equal"]


def cases():
    found = []
    for suite in sorted(os.listdir(DATA)):
        for case in sorted(os.listdir(os.path.join(DATA, suite))):
            if os.path.exists(os.path.join(DATA, suite, case, "model.onnx")):
                found.append(suite + "/" + case)
    return found


def run(case):
    """The first line of the error; None for a case that passes."""
    folder = os.path.join(DATA, case)
    path = os.path.join(folder, "model.onnx")
    with open(path, "rb") as f:
        inputs, outputs = ports(f.read())
    command = [OPC, "run", path, "--quiet"] + TOLERANCES
    with tempfile.TemporaryDirectory(prefix="onnx_case") as scratch:
        for role, list_ in (("input", inputs), ("output", outputs)):
            for i, (name, type_) in enumerate(list_):
                with open(f"{folder}/test_data_set_0/{role}_{i}.pb", "rb") as f:
                    values = tensors(name, type_, f.read())
                for k, (part, message) in enumerate(values):
                    file = f"{scratch}/{role}_{i}_{k}.pb"
                    with open(file, "wb") as f:
                        f.write(message)
                    command += ["--" + ("input" if role == "input" else "expect"), f"{part}=@{file}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, errors="replace")
        except subprocess.TimeoutExpired:
            return "no answer in 60 s"
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return f"exit {done.returncode}: " + (lines[0] if lines else "")


def main():
    if not os.path.isdir(DATA):
        raise unittest.SkipTest(f"libonnx-testdata is not installed ({DATA})")
    all_cases = cases()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip(all_cases, pool.map(run, all_cases)))
    if "--list" in sys.argv: # what failing_cases.txt would be, for people
        for case, error in results.items():
            if error:
                print(f"{case}: {error}")
        return 0
    with open(LIST, encoding="utf-8") as f:
        listed = {line.split(": ")[0] for line in f if line.strip() and not line.startswith("#")}
    wrong = 0
    for case, error in results.items():
        if error and case not in listed:
            wrong += 1
            print(f"{case} fails: {error}")
        if not error and case in listed:
            wrong += 1
            print(f"{case} passes: take it out of failing_cases.txt")
    for case in sorted(listed - set(all_cases)):
        wrong += 1
        print(f"{case} is in failing_cases.txt, and no case of {DATA}")
    passed = sum(1 for e in results.values() if e is None)
    print(f"{passed} of {len(results)} cases pass")
    return 1 if wrong or not results else 0


sys.exit(main())
