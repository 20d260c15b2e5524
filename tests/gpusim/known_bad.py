# Kernels with one error each are found at the line of the error, their correct twins are silent: known_bad.cu.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATOR = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-ptxsim")
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
SEEDS = (0, 1, 2, 3)


def kernels():
    """name -> (launch's words, {line: kinds}) from the source's comments."""
    found, launch, name, helper = {}, [], None, {}
    with open(os.path.join(HERE, "known_bad.cu"), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if m := re.match(r"// launch: (.*)", line):
                launch = m.group(1).split()
            if line.startswith("__device__"):
                name = None
            if m := re.match(r"KERNEL\((\w+)\)", line):
                name, words, launch = m.group(1), launch, []
                found[name] = (words or ["1", "64"], helper)
                helper = {}
            if m := re.search(r"// finding: ([\w |-]+)$", line):
                (found[name][1] if name else helper)[number] = m.group(1).strip().split("|")
    return found


class KnownBad(unittest.TestCase):
    def run_kernel(self, ptx, name, words, seed):
        with tempfile.TemporaryDirectory() as folder:
            given = os.path.join(folder, "in")
            with open(given, "wb") as f:
                f.write(struct.pack("<256i", *range(256)))
            command = [SIMULATOR, ptx, name, "out:1024:", "in:" + given, "i32:256", "--grid", words[0], "--block", words[1], "--seed", str(seed), "--limit", "20000"]
            if len(words) > 2:
                command += ["--shared", words[2]]
            return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def check(self, ptx, name, words, wanted, seed):
        done = self.run_kernel(ptx, name, words, seed)
        said = f"{name}, seed {seed}: {done.stdout}{done.stderr}"
        if name.startswith("good_"):
            return "" if done.returncode == 0 and not done.stdout else "finds what is not there: " + said
        got = re.findall(r"^([\w -]+) in (\w+), PTX line \d+ \(known_bad\.cu:(\d+)\), block \([\d,]+\), thread \([\d,]+\): .", done.stdout, re.M)
        if done.returncode != 1 or not got:
            return "finds nothing: " + said
        kind, kernel, line = got[0]
        if kernel != name or kind not in wanted.get(int(line), []):
            return f"expected {wanted}, found: {said}"
        return ""

    def check_all(self, ptx):
        tries = [(name, words, wanted, seed) for name, (words, wanted) in kernels().items() for seed in SEEDS]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [w for w in pool.map(lambda t: self.check(ptx, *t), tries) if w]
        self.assertFalse(wrong, "\n".join(wrong))

    def test_table(self):
        """Every bad kernel has a line that is marked, and a twin."""
        all_kernels = kernels()
        bad = [n for n in all_kernels if n.startswith("bad_")]
        self.assertGreaterEqual(len(bad), 30)
        self.assertEqual([n for n in bad if not all_kernels[n][1] or n.replace("bad_", "good_") not in all_kernels], [])

    def test_committed_ptx(self):
        self.check_all(os.path.join(HERE, "known_bad.ptx"))

    @unittest.skipUnless(NVCC, "nvcc is not installed")
    def test_fresh_ptx(self):
        with tempfile.TemporaryDirectory() as folder:
            ptx = os.path.join(folder, "known_bad.ptx")
            make_ptx(ptx)
            self.check_all(ptx)


def make_ptx(path):
    """The PTX with nothing of this machine in it. `python3 known_bad.py --write` makes the committed one anew."""
    subprocess.run([NVCC, "-ptx", "-lineinfo", "-arch=compute_80", "-o", path, "known_bad.cu"], cwd=HERE, check=True, capture_output=True)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", text)
    text = "\n".join(line.rstrip() for line in text.split("\n") if not line.startswith("//"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["--write"]:
        make_ptx(os.path.join(HERE, "known_bad.ptx"))
    else:
        unittest.main()
