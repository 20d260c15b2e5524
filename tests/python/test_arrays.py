"""Arrays in and out: what is copied, what is not, what is refused."""
# SPDX-License-Identifier: Apache-2.0
import array
import ctypes
import os
import tempfile
import unittest

import numpy as np

import opc

try:
    import torch
except ImportError:
    torch = None

N = 1 << 16


def double(shape=(N,), dtype="f32"):
    g = opc.Graph("double")
    x = g.input("x", shape, dtype)
    g.output("y", x + x)
    return g.compile()


def aligned(count, dtype="f"):
    """An array that begins at a cache line, as opc's own memory does."""
    memory = np.empty(count * np.dtype(dtype).itemsize + 64, "u1")
    return memory[-memory.ctypes.data % 64:][: count * np.dtype(dtype).itemsize].view(dtype)


SEEN = []


@opc.op("arrays::address", like="x", side_effect=True)
def address(x):
    SEEN.append(x.ctypes.data)
    return x


class In(unittest.TestCase):
    def is_read_in_place(self, x):
        g = opc.Graph()
        g.output("y", address(g.input("x", x.shape)))
        SEEN.clear()
        program = g.compile()
        program.run(x=x)
        program.run()
        (place,) = set(SEEN)
        return place == x.ctypes.data

    def test_aligned_arrays_are_read_in_place(self):
        self.assertTrue(self.is_read_in_place(aligned(N)))

    def test_other_arrays_are_copied(self):
        for x in (aligned(N + 1)[1:], np.ones((N, 2), "f")[:, 0], aligned(4)):
            x[...] = 1
            self.assertFalse(self.is_read_in_place(x))

    def test_lent_memory_is_kept(self):
        program = double()
        x = aligned(N)
        x[:] = 3
        program.run(x=x)
        del x
        np.empty(N, "f")[:] = 7
        self.assertEqual(program.run()["y"].sum(), 6 * N)
        program.run(x=np.ones(N, "f"))
        self.assertEqual(program.run()["y"].sum(), 2 * N)

    def test_the_buffer_protocol(self):
        for x in (array.array("f", [1, 2, 3]), memoryview(array.array("f", [1, 2, 3])), (ctypes.c_float * 3)(1, 2, 3), [1.0, 2.0, 3.0], (1.0, 2.0, 3.0)):
            np.testing.assert_array_equal(double((3,)).run(x=x)["y"], [2, 4, 6])

    def test_scalars_and_empty(self):
        self.assertEqual(double(()).run(x=1.5)["y"][()], 3)
        self.assertEqual(double((0, 4)).run(x=np.empty((0, 4), "f"))["y"].shape, (0, 4))

    def test_types(self):
        for kind in ("f64", "f16", "i8", "u8", "i32", "i64", "u16"):
            x = np.arange(5).astype(opc.dtype(kind).numpy)
            y = double((5,), kind).run(x=x)["y"]
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y, x + x)

    def test_an_array_is_read_as_it_is_at_each_run(self):
        """Whatever its size, place, strides and owner: what a run without it sees does not depend on them."""
        n = 1 << 15  # 128 KiB: worth lending
        memory = np.zeros(4 * n + 64, "f")
        at = -memory.ctypes.data % 64 // 4
        aligned, elsewhere, apart = memory[at : at + n], memory[at + 1 : at + 1 + n], memory[at : at + 2 * n : 2]
        self.assertEqual((aligned.ctypes.data % 64, elsewhere.ctypes.data % 64), (0, 4))
        arrays = [aligned, elsewhere, apart, memory[:4], np.zeros((), "f")]
        for x in arrays + [memoryview(a) for a in arrays[:4]]:
            array = np.asarray(x)
            session = double(array.shape).session()
            array[...] = 1
            np.testing.assert_array_equal(session.run(x=x)["y"], 2)
            array[...] = 3
            np.testing.assert_array_equal(session.run()["y"], 6)
            np.testing.assert_array_equal(session.run(2)["y"], 6)
            session.run(x=np.full(array.shape, 5, "f"))
            array[...] = 7
            np.testing.assert_array_equal(session.run()["y"], 10, "another one was fed")
        values = [1.0, 2.0]
        session = double((2,)).session()
        session.run(x=values)
        values[0] = 9.0
        np.testing.assert_array_equal(session.run()["y"], [2, 4], "a list is no array")

    def test_an_array_that_has_become_another_one(self):
        x = np.ones(4, "f")
        session = double((4,)).session()
        session.run(x=x)
        x.shape = (2, 2)
        with self.assertRaises(opc.UsageError) as caught:
            session.run()
        self.assertEqual(caught.exception.code, "OPC0704")
        x.shape = (4,)
        np.testing.assert_array_equal(session.run()["y"], 2)
        big = np.ones(1 << 15, "f")
        session = double(big.shape).session()
        session.run(x=big)
        big.resize(1 << 18, refcheck=False)
        with self.assertRaises(opc.UsageError):
            session.run()

    def test_bf16_is_bits(self):
        x = np.array([1, 2, -3], "f")
        y = double((3,), "bf16").run(x=(x.view("u4") >> 16).astype("u2"))["y"]
        np.testing.assert_array_equal((y.astype("u4") << 16).view("f"), 2 * x)

    def test_bools_are_zero_or_one(self):
        g = opc.Graph()
        g.output("y", opc.ops.logical_not(g.input("x", (3,), "bool")))
        y = g.compile().run(x=np.array([2, 0, 1], "u1").view(bool))["y"]
        np.testing.assert_array_equal(y.view("u1"), [0, 1, 0])

    def test_what_is_refused(self):
        program = double((3,))
        for x, code in ((np.zeros(3), "OPC0703"), (np.zeros(3, ">f4"), "OPC0703"), (np.zeros(4, "f"), "OPC0704"), (np.zeros((3, 1), "f"), "OPC0704")):
            with self.assertRaises(opc.UsageError) as caught:
                program.run(x=x)
            self.assertEqual(caught.exception.code, code)
            self.assertIn("input 'x'", str(caught.exception))
        for x in (None, object(), {"a": 1}, "text"):
            with self.assertRaises((TypeError, opc.UsageError)):
                program.run(x=x)
        np.testing.assert_array_equal(program.run(x=np.ones(3, "f"))["y"], 2)  # still usable

    def test_a_mapped_file_that_has_become_shorter(self):
        """Reading its elements would end the process by SIGBUS."""

        def attempts(view):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.bin")
                np.ones(N, "f").tofile(path)
                x = view(np.memmap(path, "f", "r+"))
                program = double(tuple(x.shape))
                program.run(x=x)
                os.truncate(path, 4096)
                for again in ({}, {"x": x}, {}):
                    yield lambda: program.run(**again)
                yield lambda: double(tuple(x.shape)).run(x=x)

        views = [np.asarray, lambda x: x[::-1], lambda x: x[: N // 2 : 2], lambda x: x[4096:8192], lambda x: x.reshape(256, 256).T, memoryview]
        for view in views + ([torch.from_numpy] if torch else []):
            for attempt in attempts(view):
                with self.assertRaisesRegex(opc.ExecutionError, r"OPC0702.*input 'x' lies in a file that has become shorter") as caught:
                    attempt()
                self.assertIn("np.array(value)", str(caught.exception))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w.bin")
            np.ones(N, "f").tofile(path)
            g = opc.Graph()
            g.output("y", g.variable("w", (N,), init=0.0) + 1)
            program, w = g.compile(), np.memmap(path, "f", "r")
            program.variables["w"] = w
            os.truncate(path, 0)
            with self.assertRaisesRegex(opc.ExecutionError, "OPC0702.*variable 'w'"):
                program.variables["w"] = w
            np.testing.assert_array_equal(program.run()["y"], np.full(N, 2, "f"))

    def test_masks_are_not_dropped(self):
        program = double((3,))
        masked = np.ma.masked_array(np.ones(3, "f"), mask=[0, 1, 0])
        for x in (masked, masked.astype("d"), np.ma.masked_array(np.ones(3, "f")), [np.ma.masked, 1.0, 2.0]):
            with self.assertRaisesRegex(TypeError, r"input 'x' is a masked array, and a tensor has no mask: give \.filled\(\.\.\.\), or \.data"):
                program.run(x=x)
        np.testing.assert_array_equal(program.run(x=masked.filled(5))["y"], [2, 10, 2])
        np.testing.assert_array_equal(program.run(x=np.ones((1, 3), "f").view(np.matrix).reshape(1, 3).A1)["y"], 2)

        class Own(np.ndarray):
            """Says nothing more than its elements."""

        np.testing.assert_array_equal(program.run(x=np.ones(3, "f").view(Own))["y"], 2)

    def test_what_is_missing(self):
        with self.assertRaises(opc.UsageError) as caught:
            double().run()
        self.assertEqual(caught.exception.code, "OPC0610")


class Out(unittest.TestCase):
    def test_outputs_are_their_taker_s(self):
        program = double((4,))
        first = program.run(x=np.ones(4, "f"))["y"]
        first[0] = 9
        second = program.run(x=np.zeros(4, "f"))["y"]
        np.testing.assert_array_equal(first, [9, 2, 2, 2])
        np.testing.assert_array_equal(second, 0)
        del program
        np.testing.assert_array_equal(second, 0)

    def test_fetched_tensors(self):
        session = double((4,)).session()
        session.run(x=np.ones(4, "f"))
        taken = session.fetch("y")
        np.testing.assert_array_equal(np.from_dlpack(taken), 2)
        with self.assertRaises(ValueError):
            taken.numpy()
        np.testing.assert_array_equal(session.fetch("y").numpy(), 2)
        session.fetch("y").__dlpack__()  # taken by nobody
        with self.assertRaises(opc.UsageError):
            session.fetch("z")


@unittest.skipIf(torch is None, "no torch")
class Torch(unittest.TestCase):
    def test_tensors_of_torch(self):
        x, program = torch.ones(N), double()
        self.assertEqual(program.run(x=x)["y"][0], 2)
        x[0] = 5
        self.assertEqual(program.run()["y"][0], 10)

    def test_bf16_both_ways(self):
        session = double((3,), "bf16").session()
        session.run(x=torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16))
        y = torch.from_dlpack(session.fetch("y"))
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertEqual(y.tolist(), [2, 4, 6])

    def test_strides(self):
        x = torch.arange(6.0).reshape(2, 3).t()
        np.testing.assert_array_equal(double((3, 2)).run(x=x)["y"], 2 * x.numpy())

    def test_what_is_refused(self):
        with self.assertRaises(opc.UsageError) as caught:
            double((3,)).run(x=torch.zeros(3, dtype=torch.float64))
        self.assertEqual(caught.exception.code, "OPC0703")


if __name__ == "__main__":
    unittest.main()
