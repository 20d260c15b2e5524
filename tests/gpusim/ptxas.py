# What ptxas makes of the PTX that ships: no spills, and registers for whole blocks of each kernel's launch bounds.
# SPDX-License-Identifier: Apache-2.0
"""usage: ptxas.py [--list] [ARCH...]      needs ptxas (beside nvcc); ARCH is 75, 80, 86, 89 or 90
(without any: 75, 90 and those of the build's cubins)

What ptxas said when the build made cubins is read. For other targets each kernel of the build's device code is assembled; what ptxas said
of a file is kept in the build folder, by its text.
tests/gpusim/spills.txt has kernels that may spill, with the reason; the list may only shrink: one that does not spill fails, too.
"""
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from device_code import BUILD, OPC, modules
from reasons import reasons

# CUDA's programming guide, technical specifications per compute capability: 32-bit registers of a multiprocessor, and of a thread.
REGISTERS, OF_A_THREAD = 65536, 255
KERNEL = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                    r"(\d+) bytes spill loads.*?Used (\d+) registers", re.S)
BOUNDS = re.compile(r"\.entry (\w+)\(.*?\)\s*(.*?)\{", re.S)


def find_ptxas():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        nvcc = re.search(r"^OPC_NVCC:\w+=(.*)$", f.read(), re.M)
    beside = os.path.join(os.path.dirname(nvcc.group(1)), "ptxas") if nvcc else ""
    return beside if os.path.exists(beside) else shutil.which("ptxas")


@functools.cache
def built_for():
    """The targets of the build's cubins."""
    code = json.loads(subprocess.run([OPC, "doctor", "--json"], capture_output=True, text=True).stdout)["device_code"]
    return {target.replace(".", "") for target in code}


def threads(path):
    """{kernel: the most threads of a block, by its .maxntid}"""
    with open(path, encoding="utf-8") as f:
        found = {}
        for name, directives in BOUNDS.findall(f.read()):
            sizes = re.search(r"\.maxntid\s+(\d+)(?:, (\d+))?(?:, (\d+))?", directives)
            found[name] = 1024 if not sizes else int(sizes[1]) * int(sizes[2] or 1) * int(sizes[3] or 1)
        return found


def assembled(ptxas, path, arch):
    """{kernel: (bytes spilled, registers)}"""
    built = os.path.splitext(path)[0] + f".sm_{arch}.cubin.log"
    if arch in built_for() and os.path.exists(built):
        return said(built)
    with open(path, "rb") as f:
        key = hashlib.sha256(f.read() + f"{ptxas} {os.path.getmtime(ptxas)} {arch}".encode()).hexdigest()
    kept = os.path.join(BUILD, "Testing", "ptxas", key)
    if not os.path.exists(kept):
        done = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", "-o", "/dev/null", path], capture_output=True, text=True, timeout=1800)
        if done.returncode:
            raise AssertionError(f"{path} for sm_{arch}: {done.stderr}")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(kept + f".{os.getpid()}", "w", encoding="utf-8") as f:
            f.write(done.stdout + done.stderr)
        os.replace(kept + f".{os.getpid()}", kept)
    return said(kept)


def said(path):
    with open(path, encoding="utf-8") as f:
        found = KERNEL.findall(f.read())
    return {name: (max(int(stores), int(loads)), int(registers)) for name, _, _, stores, loads, registers in found}


def least(path):
    """The compute capability that a module is for, and later ones."""
    with open(path, encoding="utf-8") as f:
        return int(re.search(r"^\.target sm_(\d+)", f.read(), re.M)[1])


def listed():
    """A line: KERNEL ARCH... | reason."""
    found = {}
    for what, reason in reasons("spills.txt"):
        kernel, *archs = what.split()
        found.update({(kernel, arch): reason for arch in archs})
    return found


def all_kernels(archs):
    """[(kernel, arch, bytes spilled, registers, threads of a block)]"""
    ptxas = find_ptxas()
    jobs = [(path, arch) for arch in archs for path in sorted(modules(), key=os.path.getsize, reverse=True) if int(arch) >= least(path)]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda job: assembled(ptxas, *job), jobs)
    rows = []
    for (path, arch), found in zip(jobs, results):
        bounds = threads(path)
        assert sorted(found) == sorted(bounds), (path, arch, set(bounds) ^ set(found))
        rows += [(kernel, arch, *values, bounds[kernel]) for kernel, values in found.items()]
    return rows


class Ptxas(unittest.TestCase):
    archs = []

    @classmethod
    def setUpClass(cls):
        if not modules():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")
        if not find_ptxas():
            raise unittest.SkipTest("no ptxas beside nvcc")
        cls.archs = cls.archs or sorted({"75", "90"} | built_for())
        cls.rows = all_kernels(cls.archs)

    def test_no_spills(self):
        reasons = listed()
        for reason in reasons.values():
            self.assertGreaterEqual(len(reason), 20)
        spilled = sorted((kernel, arch) for kernel, arch, spills, _, _ in self.rows if spills)
        self.assertEqual(spilled, sorted(key for key in reasons if key[1] in self.archs), "what spills, and tests/gpusim/spills.txt")

    def test_a_kernel_that_spills(self):
        """The gate sees one: 64 numbers that are alive at once, and 24 registers."""
        loads = "".join(f"ld.volatile.global.u32 %r{n}, [%rd1+{4 * n}];\n" for n in range(64))
        stores = "".join(f"st.volatile.global.u32 [%rd1+{4 * n}], %r{63 - n};\n" for n in range(64))
        text = (".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry crowded(\n.param .u64 crowded_param_0\n)\n.maxnreg 24\n"
                "{\n.reg .b32 %r<64>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [crowded_param_0];\n" + loads + stores + "ret;\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "crowded.ptx")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            for arch in self.archs:
                spilled, registers = assembled(find_ptxas(), path, arch)["crowded"]
                self.assertGreater(spilled, 0)
                self.assertLessEqual(registers, 24)

    def test_blocks_fit(self):
        """Registers are given to warps in units of 256, to each thread in units of 8."""
        for kernel, arch, _, registers, block in self.rows:
            given = (registers + 7) // 8 * 8 * 32 * ((block + 31) // 32)
            self.assertTrue(registers <= OF_A_THREAD and given <= REGISTERS, (kernel, arch, registers, block))
        print(f"{len(self.rows)} kernels, at most {max(row[3] for row in self.rows)} registers")


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--list"]:
        for row in all_kernels(given[1:] or sorted({"75", "90"} | built_for())):
            print(*row)
    else:
        Ptxas.archs = given
        unittest.main(argv=sys.argv[:1] + ["-v"])
