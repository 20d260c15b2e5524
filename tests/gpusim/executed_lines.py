# Which lines of the PTX that ships the suite executes on the simulated GPU: by file, with the least share of each.
# SPDX-License-Identifier: Apache-2.0
"""usage: executed_lines.py [--table] [--missing FILE] [--reports FOLDER]      needs nvcc's kernels in the build (OPC_BUILD_DIR), python3
with numpy and mpmath

Runs the conformance suite, the cases of every op, all elementwise functions and the graphs of larger sizes on the simulator, and
counts lines of PTX that hold an instruction: all of them, and those that differ. nvcc writes one piece of source many times, unrolled,
inlined and for each type. In a kernel, and in kernels whose names differ in their types alone, instructions of one place in the source
(.loc, with the place that it was inlined at) that differ in registers, labels and offsets only are one line; of elementwise kernels, which
have no such places, blocks between labels and jumps that are the same in this sense. It is executed when one of its copies is.

--table prints a row for each file, --missing writes the different lines that nothing executes, --reports reads what the simulator wrote
there instead of running anything. nvcc's 64-bit divisions have a second form for operands beyond 2^32, which takes larger tensors than any
test has: tests/gpusim/unexecuted.txt has these and what else is not executed, with the reason.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from device_code import OPC, SOURCE, executed_lines, lines, modules
from reasons import reasons

INSTRUCTION = re.compile(r"(?:\{\s*)?(?:@!?%\w+\s+)?[a-z].*;")
# The least shares, as they were reached; they may only grow.
DIFFERENT, ALL = 0.953, 0.8
TYPE = r"(?:f16|bf16|f32|f64|[iu](?:8|16|32|64)|bool|stored)"
# Scripts that run graphs on the simulator, with options for it in OPC_TEST_SIM.
SCRIPTS = ("conformance/elementwise_on_gpu.py", "conformance/larger_on_gpu.py", "cli/device_kernels.py", "cli/gpu_ops.py",
           "cli/gpu_types.py", "cli/tf32.py", "cli/updates_on_gpu.py")


def programs(report):
    """(command, environment) of what executes device code; `report` is an option of the simulator."""
    yield [OPC, "verify", "--all", "--device", "sim", "--no-cache"], {"CUDA_SIM": report}
    yield [sys.executable, os.path.join(SOURCE, "tests", "conformance", "driver.py"), "--sim", f"policy=late,{report}"], {}
    for script in SCRIPTS:
        yield [sys.executable, os.path.join(SOURCE, "tests", *script.split("/"))], {"OPC_TEST_SIM": report}


def executed():
    """{kernel: lines} of all programs, which must pass."""
    found = {}
    for command, environment in programs("report={}/%p.json"):
        with tempfile.TemporaryDirectory() as folder:
            command, environment = ([part.replace("{}", folder) for part in command], {k: v.replace("{}", folder) for k, v in environment.items()})
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=dict(os.environ, **environment))
            if done.returncode:
                raise AssertionError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            reported(folder, found)
    return found


def reported(folder, found):
    """Adds what the reports in a folder say."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            executed_lines([json.load(f)], found)
    return found


def family(function):
    """The name of a kernel without its types, and of elementwise ones without the hash."""
    return re.sub(rf"_{TYPE}(?=_|$)", "", re.sub(rf"^ew_[0-9a-f]+_{TYPE}_{TYPE}_", "ew_", function))


def shape(text):
    """An instruction without the numbers of registers and labels, and without offsets."""
    text = re.sub(r"%([a-z]+)\d+", r"%\1", text)
    text = re.sub(r"\$L_\w+", "$L", text)
    return re.sub(r"\+-?\d+\]", "]", re.sub(r"\s+", " ", text))


class Code:
    """Pieces of device code: {what they are: [lines of the first copy, whether one was executed, file, function, row of the table]}"""

    def __init__(self, found):
        self.found, self.pieces, self.silent, self.modules = found, {}, [], {}
        for path in modules():
            self.add(path)

    def add(self, path):
        name, code = os.path.splitext(os.path.basename(path))[0], list(lines(path))
        kernels = {function for _, _, kind, function in code if kind == "entry"}
        self.silent += sorted(kernels - set(self.found))
        # Lines of functions are told by the kernels that call them.
        inside = set().union(*(self.found.get(kernel, set()) for kernel in kernels))
        row = self.modules.setdefault("elementwise" if name.startswith("elementwise_") else name, [0] * 6)
        row[0] += len(kernels)
        row[1] += len(kernels & set(self.found))
        block, far, last, place = [], FarDivision(), None, None
        for number, text, kind, function in [*code, (0, "$end", "", "")]:
            is_far = far.at(text)
            if (function != last or text.startswith("$")) and block:
                self.piece(row, name, last, block)
                block = []
            place = text if text.startswith(".loc") else place if function == last else None
            last = function
            if INSTRUCTION.fullmatch(text):
                done = number in (self.found.get(function, ()) if kind == "entry" else inside)
                row[2] += 1
                row[3] += done
                if place:
                    self.piece(row, name, function, [(number, text, done, is_far)], re.sub(r"\$L_\w+", "", place))
                    continue
                block.append((number, text, done, is_far))
                if re.search(r"\b(bra|ret|exit|brx)\b", text):
                    self.piece(row, name, function, block)
                    block = []

    def piece(self, row, module, function, block, place=""):
        """Takes a block, or an instruction of a place in the source."""
        key = (family(function), place, *(shape(text) for _, text, _, _ in block))
        known = self.pieces.setdefault(key, [block, False, module, function, row])
        if known[0] is block:
            row[4] += len(block)
        if not known[1] and any(done for _, _, done, _ in block):
            known[1] = True
            known[4][5] += len(block)

    def missing(self):
        """(module, function, line, instruction, whether operands are beyond 2^32)"""
        for block, done, module, function, _ in self.pieces.values():
            if not done:
                for number, text, _, is_far in block:
                    yield module, function, number, text, is_far


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


def table(code):
    """A row for each module, the elementwise ones together, and one for all."""
    rows = dict(code.modules, all=[sum(column) for column in zip(*code.modules.values())])
    text = ["| device code | kernels | executed | lines | executed | different lines | executed | |", "|---|---|---|---|---|---|---|---|"]
    for name, (kernels, ran, all_, done, different, reached) in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0].lower())):
        text.append(f"| {name} | {kernels} | {ran} | {all_:,} | {done:,} | {different:,} | {reached:,} | {100 * reached / max(1, different):.1f} % |")
    return "\n".join(text)


def listed():
    """[(pattern of functions, the most lines, reason)] of the different lines that may not be executed"""
    return [(what.split()[0], int(what.split()[1]), reason) for what, reason in reasons("unexecuted.txt")]


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not modules():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")
        cls.code = Code(executed())
        print(table(cls.code))

    def test_kernels(self):
        self.assertEqual(self.code.silent, [], "kernels that nothing executes")

    def test_lines(self):
        _, _, all_, done, different, reached = (sum(column) for column in zip(*self.code.modules.values()))
        self.assertGreaterEqual(done / all_, ALL)
        self.assertGreaterEqual(reached / different, DIFFERENT)

    def test_the_rest_is_listed(self):
        """Each line of the list says how many at most, and the first that fits counts."""
        known = listed()
        counted = {pattern: 0 for pattern, _, _ in known}
        for _, function, number, text, is_far in self.code.missing():
            name = "far" if is_far else family(function)
            pattern = next((p for p, _, _ in known if fnmatch.fnmatchcase(name, p)), None)
            self.assertIsNotNone(pattern, f"{function}, line {number}: {text}: not executed, and not in tests/gpusim/unexecuted.txt")
            counted[pattern] += 1
        for pattern, most, reason in known:
            self.assertGreaterEqual(len(reason), 20)
            self.assertLessEqual(counted[pattern], most, f"lines of {pattern} that are not executed")


def write_missing(path, code):
    with open(path, "w", encoding="utf-8") as f:
        for module, function, number, text, is_far in code.missing():
            f.write(f"{module}.ptx:{number}: {function}: {text}{'  (beyond 2^32)' if is_far else ''}\n")


if __name__ == "__main__":
    options = sys.argv[1:]
    if options:
        everything = Code(reported(options[options.index("--reports") + 1], {}) if "--reports" in options else executed())
        print(table(everything))
        print(" ".join(everything.silent))
        if "--missing" in options:
            write_missing(options[options.index("--missing") + 1], everything)
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"])
