# The order in which the linker lays the program's functions: the list is of this program, and what starts and runs is small in memory.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
MIB = 1 << 20
WRITE = "write it anew: tools/dev/function_order.py"
PEAK = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(r)")  # fmt: skip
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")


def listed():
    with open(os.path.join(SOURCE, "tools", "cmake", "function_order.txt"), encoding="utf-8") as f:
        return f.read().split("\n")[:-1]


def peak(*arguments):
    """The largest resident set of a command, in bytes."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", PEAK, OPC, "--config", "none", *arguments], capture_output=True, text=True, timeout=120,
                          check=True, env={**os.environ, "OPC_CACHE_SIZE": "0"})  # fmt: skip
    return int(done.stdout)


class FunctionOrder(unittest.TestCase):
    def test_the_list_is_of_this_program(self):
        names = listed()
        self.assertGreater(len(names), 3000)
        self.assertEqual(len(names), len(set(names)), "names stand there twice")
        nm = next(n for n in ("/usr/lib/llvm-22/bin/llvm-nm", "/usr/bin/nm") if os.path.exists(n))
        known = {line.split()[-1] for line in subprocess.run([nm, "--defined-only", OPC], capture_output=True, text=True, check=True).stdout.splitlines()}
        gone = [n for n in names if n not in known]
        self.assertLess(len(gone), len(names) / 5, f"{len(gone)} of {len(names)} functions are no more, as {gone[:3]}: {WRITE}")

    def test_they_lie_together(self):
        """Beside each other they fill fewer pages than scattered over the program."""
        nm = next(n for n in ("/usr/lib/llvm-22/bin/llvm-nm", "/usr/bin/nm") if os.path.exists(n))
        found = {}
        for line in subprocess.run([nm, "-S", "--defined-only", OPC], capture_output=True, text=True, check=True).stdout.splitlines():
            parts = line.split()
            if len(parts) == 4 and parts[2] in "tTwW":
                found[parts[3]] = (int(parts[0], 16), int(parts[1], 16))
        blocks, size = set(), 0
        for name in listed():
            if name in found:
                at, length = found[name]
                size += length
                blocks.update(range(at >> 16, (at + length >> 16) + 1))  # what one fault brings
        self.assertLess(len(blocks) << 16, 1.5 * size + 4 * MIB, "are they given to the linker?")

    def test_a_start_is_small(self):
        started = peak("--version")
        self.assertLess(started, 26 * MIB, f"{started / MIB:.1f} MiB. If the list is old, {WRITE}")

    def test_a_run_is_small(self):
        ran = peak("run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", os.path.join(DIGITS, "mlp_weights.npz"), "--input",
                   "image=@" + os.path.join(DIGITS, "test_images.npy"), "--print", "none", "--quiet", "-j", "1")  # fmt: skip
        self.assertLess(ran, 32 * MIB, f"{ran / MIB:.1f} MiB. If the list is old, {WRITE}")


if __name__ == "__main__":
    unittest.main()
