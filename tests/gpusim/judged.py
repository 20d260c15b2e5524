# CUDA's own code in the simulator against numpy: CUB's blocks, groups of threads, wmma, and maths within the errors that CUDA documents.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import ctypes
import ctypes.util
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATOR = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-ptxsim")
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
if not NVCC:
    raise unittest.SkipTest("nvcc is not installed")

# Largest errors in units of the last place: CUDA C++ Programming Guide, appendix on mathematical functions (f32, f64).
ERRORS = {
    "exp": (2, 1), "exp2": (2, 1), "expm1": (1, 1), "log": (1, 1), "log2": (1, 1), "log10": (2, 1), "log1p": (1, 1), "tanh": (2, 1),
    "sinh": (3, 2), "cosh": (2, 1), "atan": (2, 2), "erf": (2, 2), "erfc": (4, 5), "sin": (2, 2), "cos": (2, 2), "tan": (4, 2),
    "cbrt": (1, 1), "sqrt": (0, 0), "rsqrt": (2, 1), "lgamma": (6, 4), "asinh": (3, 3), "pow": (4, 2),
}  # fmt: skip
# In long double: numpy has it, or C's libm.
EXACT = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh,
    "sinh": np.sinh, "cosh": np.cosh, "atan": np.arctan, "sin": np.sin, "cos": np.cos, "tan": np.tan, "cbrt": np.cbrt, "sqrt": np.sqrt,
    "rsqrt": lambda v: 1 / np.sqrt(v), "asinh": np.arcsinh,
}  # fmt: skip
LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
for function in (LIBM.erfl, LIBM.erfcl, LIBM.lgammal):
    function.restype, function.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]


def arguments(name, dtype):
    """Over the whole range in which the result is an ordinary number. (erfc and lgamma: where the documented bound holds.)"""
    rng, n = np.random.default_rng(5), 128 * 12
    wide = 10.0 ** rng.uniform(-30, 30, n) * rng.choice([-1, 1], n)
    near = rng.uniform(-8, 8, n)
    if name in ("exp", "exp2", "expm1", "sinh", "cosh"):
        v = rng.uniform(-80, 80, n)
    elif name in ("log", "log2", "log10", "sqrt", "rsqrt", "cbrt"):
        v = np.abs(wide)
    elif name == "log1p":
        v = np.where(np.arange(n) % 2, np.abs(near), rng.uniform(-0.999, 1, n))
    elif name in ("sin", "cos", "tan"):
        v = np.where(np.arange(n) % 2, near, rng.uniform(-4e6, 4e6, n))  # both ways of reducing the argument
    elif name == "lgamma":
        v = rng.uniform(0.1, 100, n)
    elif name == "erfc":
        v = rng.uniform(-4, 8, n)
    elif name == "pow":
        v = rng.uniform(0.1, 20, n)
    else:
        v = near
    return v.astype(dtype)


def expected(name, v):
    wide = v.astype(np.longdouble)
    if name == "pow":
        return np.abs(wide) ** wide.reshape(-1, 2)[:, ::-1].reshape(-1)
    if name in EXACT:
        return EXACT[name](wide)
    return np.array([getattr(LIBM, name + "l")(float(x)) for x in v]).astype(np.longdouble)


class Judged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory()
        cls.ptx = os.path.join(cls.room.name, "judged.ptx")
        subprocess.run([NVCC, "-ptx", "-lineinfo", "-arch=compute_80", "-std=c++17", "-o", cls.ptx, os.path.join(HERE, "judged.cu")], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def run_kernel(self, kernel, out, inputs, block, grid=1, seed=0, numbers=()):
        with tempfile.TemporaryDirectory(dir=self.room.name) as folder:
            words = []
            for i, a in enumerate(inputs):
                path = os.path.join(folder, str(i))
                a.tofile(path)
                words.append("in:" + path)
            result = os.path.join(folder, "out")
            command = [SIMULATOR, self.ptx, kernel, f"out:{out.nbytes}:{result}", *words, *numbers, "--block", str(block), "--grid", str(grid), "--seed", str(seed)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), kernel)
            return np.fromfile(result, out.dtype).reshape(out.shape)

    def test_cub(self):
        rng = np.random.default_rng(1)
        for seed in (0, 1, 2):
            v = rng.integers(-1000, 1000, 384).astype(np.float32)
            got = self.run_kernel("block_reduce", np.zeros(3, np.float32), [v], 128, 3, seed)
            np.testing.assert_array_equal(got, v.reshape(3, 128).sum(axis=1))
            w = rng.integers(-1000, 1000, 96).astype(np.int32)
            got = self.run_kernel("block_reduce_raking", np.zeros(1, np.int32), [w], 96, 1, seed, ["i32:71"])
            self.assertEqual(got[0], w[:71].max())
            x = rng.integers(-1000, 1000, 256).astype(np.int32)
            got = self.run_kernel("block_scan", np.zeros(256, np.int32), [x], 128, 1, seed)
            np.testing.assert_array_equal(got, np.cumsum(x))
            y = rng.integers(0, 2**32, 512, dtype=np.uint32)
            got = self.run_kernel("block_sort", np.zeros(512, np.uint32), [y], 128, 1, seed)
            np.testing.assert_array_equal(got, np.sort(y))

    def test_groups_and_virtual_calls(self):
        v = np.random.default_rng(4).integers(-1000, 1000, 64).astype(np.int32)
        for seed in (0, 1, 2):
            got = self.run_kernel("groups", np.zeros(68, np.int32), [v], 64, 1, seed)
            np.testing.assert_array_equal(got[:4], v.reshape(4, 16).sum(axis=1))
            here = (v % 3 == 0).reshape(2, 32)
            want = np.where(here, here.sum(axis=1, keepdims=True) * 100 + np.cumsum(here, axis=1) - 1, -1)
            # Lanes that come by different ways may be there in several parts: only who is here at once is one group.
            np.testing.assert_array_equal(got[4:] == -1, ~here.reshape(-1))
            if seed == 0:
                np.testing.assert_array_equal(got[4:], want.reshape(-1))
            got = self.run_kernel("virtual_calls", np.zeros(64, np.int32), [v], 64, 1, seed)
            np.testing.assert_array_equal(got, np.where(v & 1, v * v, -v))

    def test_wmma(self):
        rng = np.random.default_rng(2)
        for kernel, (m, n, k), dtype, result in (
            ("wmma_half", (16, 16, 16), np.float16, np.float32),
            ("wmma_half_wide", (8, 32, 16), np.float16, np.float32),
            ("wmma_bytes", (32, 8, 16), np.int8, np.int32),
        ):
            a = rng.integers(-16, 16, (m, k)).astype(dtype)
            b = rng.integers(-16, 16, (n, k)).astype(dtype)
            got = self.run_kernel(kernel, np.zeros((m, n), result), [a, b], 32)
            np.testing.assert_array_equal(got, (a.astype(result) @ b.T.astype(result) + 1) * 2, kernel)

    def error(self, name, dtype):
        """The largest error in units of the last place of the result."""
        v = arguments(name, dtype)
        got = self.run_kernel(f"{name}_{'f32' if dtype == np.float32 else 'f64'}", np.zeros(len(v), dtype), [v], 128, len(v) // 128)
        want = expected(name, v)
        unit = np.spacing(np.abs(want).astype(dtype)).astype(np.longdouble)
        return float(np.max(np.abs(got.astype(np.longdouble) - want) / unit))

    def test_maths(self):
        tries = [(name, dtype) for name in ERRORS for dtype in (np.float32, np.float64)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            errors = list(pool.map(lambda t: self.error(*t), tries))
        wrong = []
        for (name, dtype), error in zip(tries, errors):
            # CUDA counts from the rounded result, and ctypes rounds libm's: half a unit.
            bound = ERRORS[name][dtype == np.float64] + 0.5
            if not error <= bound:
                wrong.append(f"{name} of {dtype.__name__}: {error:.2f} units in the last place, documented {bound}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
