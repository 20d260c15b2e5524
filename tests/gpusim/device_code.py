# The device code of a build, and programs of the suite that execute it on the simulated GPU: for the tests of that code.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
RIGHT = {}  # the numbers of graphs
START = re.compile(r"(?:\.\w+ )*\.(entry|func)\s+(?:\([^)]*\)\s*)?(\w+)\s*\(")


def modules():
    """Paths of the PTX, without what is left over from sources that are gone."""
    folder = os.path.join(BUILD, "kernels", "cuda", "code")
    made = glob.glob(os.path.join(folder, "*.cu")) + glob.glob(os.path.join(SOURCE, "kernels", "ops", "*", "*.cu"))
    paths = [os.path.join(folder, os.path.basename(source).split(".")[0] + ".ptx") for source in made]
    return sorted(path for path in paths if os.path.exists(path))


def lines(path):
    """(number, the line without its comment, "entry" or "func", the function's name) of a file of PTX"""
    kind = name = ""
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            start = START.match(line)
            kind, name = start.groups() if start else (kind, name)
            yield number, line.split("//")[0].strip(), kind, name


def operators(of_modules):
    """Ops with a GPU kernel whose device code is in a folder of one of these modules (names without a suffix)."""
    folders = {os.path.relpath(os.path.dirname(path), SOURCE) for path in glob.glob(os.path.join(SOURCE, "kernels", "ops", "*", "*.cu"))
               if os.path.basename(path).split(".")[0] in of_modules}
    ops = json.loads(subprocess.run([OPC, "ops", "--json"], capture_output=True, text=True).stdout)["ops"]
    return [op["name"] for op in ops if any(k["device"] == "gpu" and os.path.dirname(k["source"]) in folders for k in op["kernels"])]


def script_tests(script, kind):
    """Test cases of a script of tests/cli, each a program of its own."""
    with open(os.path.join(SOURCE, "tests", "cli", script), encoding="utf-8") as f:
        return [f"{script} {kind}.{name}" for name in re.findall(r"def (test_\w+)\(", f.read())]


def graph_run(name, sim):
    """A graph of barrier_graphs.py, as a process; other numbers than those of the first run are a failure."""
    import barrier_graphs

    done, outputs = barrier_graphs.run(name, sim)
    bits = {key: value.tobytes() for key, value in outputs.items()}
    if done.returncode == 0 and RIGHT.setdefault(name, bits) != bits:
        done.returncode = 1
    return done


def execute(program, sim):
    """The process of an op's cases ("softmax"), of a graph ("graph attention") or of a test ("device_kernels.py DeviceKernels.test_x"),
    and its reports."""
    with tempfile.TemporaryDirectory() as folder:
        sim = ",".join(filter(None, [sim, f"report={folder}/%p.json"]))
        if program.startswith("graph "):
            done = graph_run(program.removeprefix("graph "), sim)
        elif " " in program:
            script, test = program.split()
            command = [sys.executable, "-m", "unittest", "-q", f"{os.path.splitext(script)[0]}.{test}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=os.path.join(SOURCE, "tests", "cli"),
                                  env=dict(os.environ, OPC_TEST_SIM=sim, PYTHONDONTWRITEBYTECODE="1"))
        else:
            done = subprocess.run([OPC, "verify", program, "--device", "sim", "--no-cache"], capture_output=True, text=True, timeout=600,
                                  env=dict(os.environ, CUDA_SIM=sim))
        reports = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                reports.append(json.load(f))
        return done, reports


def executed_lines(reports, into=None):
    """{kernel: lines of PTX that were executed}"""
    into = {} if into is None else into
    for report in reports:
        for name, kernel in report["kernels"].items():
            into.setdefault(name, set()).update(line["ptx_line"] for line in kernel["lines"])
    return into


def timed(program):
    """What a program executes, and the seconds that it takes; it must pass."""
    start = time.monotonic()
    done, reports = execute(program, "findings=warn")
    if done.returncode and reports:
        raise AssertionError(f"{program}: {done.stdout}{done.stderr}")
    return executed_lines(reports), time.monotonic() - start
