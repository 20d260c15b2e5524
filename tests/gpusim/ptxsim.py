# The command opc-ptxsim: what it prints, writes and refuses.
# SPDX-License-Identifier: Apache-2.0
import os
import struct
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATOR = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-ptxsim")
PTX = os.path.join(HERE, "known_bad.ptx")


class Command(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = room.name
        self.ints = os.path.join(self.room, "ints")
        with open(self.ints, "wb") as f:
            f.write(struct.pack("<256i", *range(256)))

    def call(self, *words):
        done = subprocess.run([SIMULATOR, *words], capture_output=True, text=True, cwd=self.room, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_result(self):
        code, said, _ = self.call(PTX, "good_missing_barrier", "out:1024:result", "in:ints", "i32:256", "--block", "64")
        self.assertEqual((code, said), (0, ""))
        with open(os.path.join(self.room, "result"), "rb") as f:
            self.assertEqual(struct.unpack("<64i", f.read(256)), tuple(range(63, -1, -1)))

    def test_null_pointers(self):
        call = (PTX, "good_missing_barrier", "out:1024:", "in:nothing", "i32:256", "--block", "64")
        with open(os.path.join(self.room, "nothing"), "wb"):
            pass
        code, said, _ = self.call(*call)
        os.remove(os.path.join(self.room, "nothing"))
        self.assertEqual(code, 1, said)
        self.assertIn("reads 4 bytes at global address 0x0, which is a null pointer", said)

    def test_counters(self):
        code, said, _ = self.call(PTX, "good_missing_barrier", "out:1024:", "in:ints", "i32:256", "--block", "64", "--counters")
        self.assertEqual(code, 0)
        total = said.splitlines()[-1].split()
        # 64 ints are read and 64 written, 8 sectors each; three accesses of two warps to shared memory, none with a conflict.
        self.assertEqual((total[0], total[3:]), ("all", ["16", "16", "6", "6"]))
        self.assertRegex(said, r"known_bad\.cu:\d+ ")

    def test_list(self):
        code, said, _ = self.call(PTX)
        self.assertEqual(code, 0)
        self.assertIn("good_missing_barrier\n", said)
        text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n.reg .b32 %r<5>;\ntex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%r4];\nret;\n}\n"
        with open(os.path.join(self.room, "tex.ptx"), "w", encoding="utf-8") as f:
            f.write(text)
        code, said, _ = self.call("tex.ptx")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"^k\nnot supported in k, PTX line 6, .*: tex\.1d\.v4\.s32\.s32: ")

    def test_refusals(self):
        with open(os.path.join(self.room, "bad.ptx"), "w", encoding="utf-8") as f:
            f.write(".version 8.0\n.target sm_80\nnonsense\n")
        good = ("out:1024:", "in:ints", "i32:256")
        for words, message in (
            ((), "no file"),
            (("absent.ptx",), "cannot read absent.ptx"),
            (("bad.ptx",), "bad.ptx, line 3: expected a directive, found 'nonsense'"),
            ((PTX, "nobody", *good), "no kernel nobody in "),
            ((PTX, "good_null", "i32:1"), "good_null has 3 parameters, given are 1"),
            ((PTX, "good_null", "i32:1", "in:ints", "i32:256"), "parameter 0 has 8 bytes, given are 4: i32:1"),
            ((PTX, "good_null", "out:1024:", "in:nothing", "i32:256"), "cannot read nothing"),
            ((".",), "cannot read .: Is a directory"),
            ((PTX, "good_null", "out:1024:", "in:.", "i32:256"), "cannot read .: Is a directory"),
            ((PTX, "good_null", "out:4294967296:", "in:ints", "i32:256"), "no room for a buffer of 4294967296 bytes"),
            ((PTX, "good_null", "out:many:", "in:ints", "i32:256"), "'many' is no number"),
            ((PTX, "good_null", "out:-1:", "in:ints", "i32:256"), "'-1' is no number from 0 to 4294967296"),
            ((PTX, "good_null", "raw:zz", "in:ints", "i32:256"), "raw: takes two hexadecimal digits for each byte, and here is 'zz'"),
            ((PTX, "good_null", "raw:012", "in:ints", "i32:256"), "raw: takes two hexadecimal digits for each byte, and here is '012'"),
            ((PTX, "good_null", *good[:2], "i32:99999999999"), "'99999999999' is no number from 0 to 2147483647"),
            ((PTX, "good_null", *good[:2], "i32:-2147483649"), "'2147483649' is no number from 0 to 2147483648"),
            ((PTX, "good_null", *good[:2], "u32:-1"), "'-1' is no number from 0 to 4294967295"),
            ((PTX, "good_null", *good[:2], "u64:18446744073709551616"), "'18446744073709551616' is no number"),
            ((PTX, "good_null", *good[:2], "i32:"), "'' is no number"),
            ((PTX, "good_null", *good[:2], "f32:one"), "'one' is no number"),
            ((PTX, "good_null", *good[:2], "f32:1e99"), "'1e99' is too large for its type"),
            ((PTX, "good_null", *good, "--block", "4294967360"), "'4294967360' is no number from 0 to 4294967295"),
            ((PTX, "good_null", *good, "--grid", "1,2,3,4"), "'1,2,3,4' has more than three dimensions"),
            ((PTX, "good_null", *good, "--shared", "-1"), "'-1' is no number from 0 to 4294967295"),
            ((PTX, "good_null", *good, "--seed", "one"), "'one' is no number"),
            ((PTX, "good_null", "inn:ints", "in:ints", "i32:256"), "no argument of the kernel: inn:ints"),
            ((PTX, "good_null", *good, "--grids", "1"), "there is no option --grids"),
            ((PTX, "good_null", *good, "--grid"), "--grid wants a value"),
            ((PTX, "good_null", "out:1024:no/such/folder", "in:ints", "i32:256", "--block", "64"), "cannot write no/such/folder"),
        ):
            code, _, said = self.call(*words)
            self.assertEqual(code, 2, words)
            self.assertTrue(said.startswith("opc-ptxsim: "), said)
            self.assertIn(message, said)

    def test_numbers(self):
        """Every bit of the limits comes through: a kernel stores its parameters."""
        text = (".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p, .param .b32 a, .param .b32 b, .param .b64 c, .param .b32 d) {\n"
                ".reg .b64 %x<3>;\n.reg .b32 %r<4>;\nld.param.u64 %x0, [p];\nld.param.b32 %r0, [a];\nld.param.b32 %r1, [b];\n"
                "ld.param.b64 %x1, [c];\nld.param.b32 %r2, [d];\nst.global.b32 [%x0], %r0;\nst.global.b32 [%x0+4], %r1;\n"
                "st.global.b64 [%x0+8], %x1;\nst.global.b32 [%x0+16], %r2;\nret;\n}\n")
        with open(os.path.join(self.room, "k.ptx"), "w", encoding="utf-8") as f:
            f.write(text)
        done = self.call("k.ptx", "k", "out:20:result", "i32:-2147483648", "u32:0xffffffff", "i64:-9223372036854775808", "f32:-1.5")
        self.assertEqual(done, (0, "", ""))
        with open(os.path.join(self.room, "result"), "rb") as f:
            self.assertEqual(struct.unpack("<iIqf", f.read()), (-2**31, 2**32 - 1, -2**63, -1.5))

    def test_empty_buffers(self):
        """They are null pointers; the results of an empty one are an empty file."""
        open(os.path.join(self.room, "nothing"), "wb").close()
        text = (".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p, .param .u64 q, .param .u64 r) {\n"
                ".reg .b64 %x<4>;\nld.param.u64 %x0, [p];\nld.param.u64 %x1, [q];\nld.param.u64 %x2, [r];\n"
                "or.b64 %x1, %x1, %x2;\nst.global.b64 [%x0], %x1;\nret;\n}\n")
        with open(os.path.join(self.room, "k.ptx"), "w", encoding="utf-8") as f:
            f.write(text)
        self.assertEqual(self.call("k.ptx", "k", "out:8:result", "in:nothing", "out:0:empty"), (0, "", ""))
        for name, expected in (("result", bytes(8)), ("empty", b"")):
            with open(os.path.join(self.room, name), "rb") as f:
                self.assertEqual(f.read(), expected)
        code, said, _ = self.call("k.ptx", "k", "out:0:", "in:nothing", "in:nothing")
        self.assertEqual(code, 1)
        self.assertIn("out of bounds in k", said)

    def test_launch_limits(self):
        code, said, _ = self.call(PTX, "good_null", "out:1024:", "in:ints", "i32:256", "--block", "2000")
        self.assertEqual(code, 1)
        self.assertIn("launch in good_null: a block (2000,1,1) has 2000 threads, at most 1024", said)


if __name__ == "__main__":
    unittest.main()
