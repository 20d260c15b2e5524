# ONNX's own cases (Debian's libonnx-testdata) in, out as ONNX again, and in: every sixth of them, against its outputs.
# SPDX-License-Identifier: Apache-2.0
import collections
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from messages import fields, ports, tensors  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DATA = os.environ.get("OPC_ONNX_TESTDATA", "/usr/share/libonnx-testdata/data")
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "failing_cases.txt")
EVERY, AT_LEAST = 6, 130
TOLERANCES = ["--rtol", "1e-3", "--atol", "1e-7", "--nan", "equal"]


def cases():
    with open(LIST, encoding="utf-8") as f:
        failing = {line.split(": ")[0] for line in f if not line.startswith("#")}
    found = [f"{suite}/{case}" for suite in sorted(os.listdir(DATA)) for case in sorted(os.listdir(os.path.join(DATA, suite)))
             if os.path.exists(os.path.join(DATA, suite, case, "model.onnx"))]
    return [c for c in found if c not in failing][::EVERY]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def run(case):
    """"" for a case that passes; "left out" where values of the run decide shapes or are no tensors; else the error."""
    folder = os.path.join(DATA, case)
    inputs, outputs = ports(read(os.path.join(folder, "model.onnx")))
    if any(next((n for n, _ in fields(type_)), 1) != 1 for _, type_ in inputs + outputs):
        return "left out"
    with tempfile.TemporaryDirectory(prefix="onnx_export_backend") as scratch:
        out = os.path.join(scratch, "out.onnx")
        done = subprocess.run([OPC, "compile", os.path.join(folder, "model.onnx"), "--emit", "onnx", "-o", out, "--quiet"],
                              capture_output=True, text=True, errors="replace", timeout=120)
        if done.returncode:
            return "left out" if "must be known while the model is imported" in done.stderr else done.stderr
        kept = {name for name, _ in ports(read(out))[0]}
        command = [OPC, "run", out, "--quiet"] + TOLERANCES
        for role, flag, list_ in (("input", "--input", inputs), ("output", "--expect", outputs)):
            for k, (name, type_) in enumerate(list_):
                if role == "output" or name in kept:
                    file = os.path.join(scratch, f"{role}{k}.pb")
                    with open(file, "wb") as f:
                        f.write(tensors(name, type_, read(f"{folder}/test_data_set_0/{role}_{k}.pb"))[0][1])
                    command += [flag, f"{name}=@{file}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
        return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"


def main():
    if not os.path.isdir(DATA):
        raise unittest.SkipTest(f"libonnx-testdata is not installed ({DATA})")
    all_cases = cases()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip(all_cases, pool.map(run, all_cases)))
    for case, error in results.items():
        if error not in ("", "left out"):
            print(f"FAIL {case}: {error[:500]}")
    counts = collections.Counter("passes" if not e else "left out" if e == "left out" else "fails" for e in results.values())
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if counts["fails"] or counts["passes"] < AT_LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
