# Which lines of the PTX that ships the suite executes on the simulated GPU: by file, with the least share of each.
# SPDX-License-Identifier: Apache-2.0
"""usage: executed_lines.py [--table] [--missing FILE]      needs nvcc's kernels in the build (OPC_BUILD_DIR), python3 with numpy and mpmath

Runs the conformance suite, the cases of every op, all elementwise functions and the graphs of larger sizes on the simulator, and
counts lines of PTX that hold an instruction. --table prints a row for each file, --missing writes the lines that nothing executes. nvcc's
64-bit divisions have a second form for operands beyond 2^32, which takes larger tensors than any test has: counted apart, too.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from device_code import BUILD, OPC, SOURCE, executed_lines, lines, modules

INSTRUCTION = re.compile(r"(?:\{\s*)?(?:@!?%\w+\s+)?[a-z].*;")
EXECUTED, KERNELS = 0.6, 0.94  # the least shares, as they were reached; they may only grow
# Scripts that run graphs on the simulator, with options for it in OPC_TEST_SIM.
SCRIPTS = ("conformance/elementwise_on_gpu.py", "cli/device_kernels.py", "cli/gpu_ops.py")


def programs(report):
    """(command, environment) of what executes device code; `report` is an option of the simulator."""
    yield [OPC, "verify", "--all", "--device", "sim", "--no-cache"], {"CUDA_SIM": report}
    yield [sys.executable, os.path.join(SOURCE, "tests", "conformance", "driver.py"), "--sim", f"policy=late,{report}"], {}
    for script in SCRIPTS:
        yield [sys.executable, os.path.join(SOURCE, "tests", *script.split("/"))], {"OPC_TEST_SIM": report}


def executed():
    """{kernel: lines} of all programs, which must pass."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for command, environment in programs(f"report={folder}/%p.json"):
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=dict(os.environ, **environment))
            if done.returncode:
                raise AssertionError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    executed_lines([json.load(f)], found)
                os.remove(os.path.join(folder, name))
    return found


class Module:
    """The instructions of a file of PTX, and which of them were executed; lines of functions are told by the kernels that call them."""

    def __init__(self, path, found):
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.missing, self.all = [], 0  # missing: (line, function, instruction, whether operands are beyond 2^32)
        code = list(lines(path))
        self.kernels = {name for _, _, kind, name in code if kind == "entry"}
        self.silent = sorted(self.kernels - set(found))
        done = set().union(*(found.get(kernel, set()) for kernel in self.kernels))
        far = FarDivision()
        for number, text, _, function in code:
            isFar = far.at(text)
            if not INSTRUCTION.fullmatch(text):
                continue
            self.all += 1
            if number not in done:
                self.missing.append((number, function, text, isFar))


class FarDivision:
    """nvcc's 64-bit division asks whether both operands are below 2^32; tells the lines for those that are not."""

    def __init__(self):
        self.step = 0  # 1 to 3: mask, comparison, jump; then inside

    def at(self, text):
        if self.step == 3:
            if text.startswith("$"):
                self.step = 0
            return self.step == 3
        if "-4294967296" in text:
            self.step = 1
        elif self.step == 1 and text.startswith("setp"):
            self.step = 2
        elif self.step == 2 and text.startswith("@") and "bra" in text:
            self.step = 3
        elif self.step and text:
            self.step = 0
        return False


def table(found):
    """A row for each module, the elementwise ones together, and one for all."""
    rows = {}
    for m in found:
        for name in ("elementwise" if m.name.startswith("elementwise_") else m.name, "all"):
            row = rows.setdefault(name, [0] * 5)
            far = sum(is_far for *_, is_far in m.missing)
            for i, n in enumerate((len(m.kernels), len(m.kernels) - len(m.silent), m.all, m.all - len(m.missing), far)):
                row[i] += n
    text = ["| device code | kernels | executed | lines | executed | | divisions beyond 2^32 |", "|---|---|---|---|---|---|---|"]
    for name, (kernels, ran, all_, done, far) in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0].lower())):
        text.append(f"| {name} | {kernels} | {ran} | {all_:,} | {done:,} | {100 * done / all_:.1f} % | {far:,} |")
    return "\n".join(text)


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not modules():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")
        found = executed()
        cls.modules = [Module(path, found) for path in modules()]
        print(table(cls.modules))

    def test_kernels(self):
        silent, all_ = (sum(len(kernels) for kernels in group) for group in ([m.silent for m in self.modules], [m.kernels for m in self.modules]))
        self.assertGreaterEqual(1 - silent / all_, KERNELS)

    def test_lines(self):
        all_, missing = sum(m.all for m in self.modules), sum(len(m.missing) for m in self.modules)
        self.assertGreaterEqual(1 - missing / all_, EXECUTED)


def write_missing(path, found):
    with open(path, "w", encoding="utf-8") as f:
        for m in found:
            for number, function, text, is_far in m.missing:
                f.write(f"{m.name}.ptx:{number}: {function}: {text}{'  (beyond 2^32)' if is_far else ''}\n")


if __name__ == "__main__":
    options = sys.argv[1:]
    if options:
        everything = executed()
        everything = [Module(path, everything) for path in modules()]
        print(table(everything))
        if "--missing" in options:
            write_missing(options[options.index("--missing") + 1], everything)
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"])
