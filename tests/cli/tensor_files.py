# Tensor files of every kind through opc run, against numpy; and that no file names another one to opc.
# SPDX-License-Identifier: Apache-2.0
import io
import os
import struct
import subprocess
import sys
import unittest
import zipfile
import zlib

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from messages import field, varint  # noqa: E402

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
KINDS = {"f32": ("kFloat", np.float32, 1), "u8": ("kUInt8", np.uint8, 2), "i8": ("kInt8", np.int8, 3), "u16": ("kUInt16", np.uint16, 4),
         "i16": ("kInt16", np.int16, 5), "i32": ("kInt32", np.int32, 6), "i64": ("kInt64", np.int64, 7), "bool": ("kBool", np.bool_, 9),
         "f16": ("kFloat16", np.float16, 10), "f64": ("kDouble", np.float64, 11), "u32": ("kUInt32", np.uint32, 12),
         "u64": ("kUInt64", np.uint64, 13)}


def onnx_tensor(array, code, name=b"", typed=False):
    """TensorProto by its public field numbers: dims 1, data_type 2, typed lists 4 to 11, name 8, raw_data 9."""
    out = b"".join(field(1, d) for d in array.shape) + field(2, code)
    flat = array.reshape(-1)
    if not typed:
        out += field(9, array.tobytes())
    elif code == 1:
        out += field(4, flat.astype("<f4").tobytes())
    elif code == 11:
        out += field(10, flat.astype("<f8").tobytes())
    else:
        number = 7 if code == 7 else 11 if code in (12, 13) else 5
        bits = flat.view(np.uint16) if code == 10 else flat
        out += field(number, b"".join(varint(int(v)) for v in bits))
    return out + (field(8, name) if name else b"")


def graph(dtype="kFloat", dims=(2, 3), variable=""):
    shape = " ".join(f"dim: {d}" for d in dims)
    return (f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: {dtype} }} }} }}\n' + variable +
            'op { name: "i" user_conf { op_type_name: "identity" input { key: "in" value { s: "x/out" } } } }\n'
            'op { name: "y" output_conf { in: "i/out_0" } }\n')


class Scratch(FolderTest):
    def file(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def opc(self, *args, code=0, cwd=None):
        done = subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, timeout=60, cwd=cwd or self.folder)
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{args}\n{text}")
        return text


class Files(Scratch):
    def round_trip(self, array, spec, dtype="kFloat", out="y.npy"):
        g = self.file("g.pbtxt", graph(dtype, array.shape))
        self.opc("run", g, "--input", f"x={spec}", "--output", f"y={self.path(out)}", "--print", "none")

    def test_npy_of_every_type_order_and_byte_order(self):
        for kind, (dtype, numpy_type, _) in KINDS.items():
            array = np.arange(24).reshape(2, 3, 4).astype(numpy_type)
            for form in (array, np.asfortranarray(array), array.astype(array.dtype.newbyteorder(">")), array[:0]):
                with self.subTest(kind=kind, order=form.dtype.str, fortran=form.flags.f_contiguous, size=form.size):
                    np.save(self.path("x.npy"), form)
                    self.round_trip(form, "@" + self.path("x.npy"), dtype)
                    got = np.load(self.path("y.npy"))
                    self.assertEqual(got.dtype, array.dtype)
                    np.testing.assert_array_equal(got, form)

    def test_endings_that_are_not_written(self):
        """Refused before the graph is read."""
        for flags, words in ((["--output", "y=a.png"], ("--output writes no .png file", ".npy, .npz, .safetensors, .pb, .bin, .raw")),
                             (["--output", "y=a.NPZ"], ("no .NPZ file",)), (["--outputs", "o.zip"], ("no .zip file", ".npz and .safetensors", "o.zip/"))):
            said = self.opc("run", "nowhere.pbtxt", *flags, code=2)
            for word in ("OPC0002", *words):
                self.assertIn(word, said)
        g = self.file("g.pbtxt", graph("kFloat", (2,)))
        self.opc("compile", g, "-o", self.path("g.plan"))
        done = subprocess.run([os.path.join(BIN, "opc-runtime"), "g.plan", "--input", "x=1", "--outputs", "o.zip"], capture_output=True, text=True,
                              timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no .zip file", done.stderr)
        self.opc("run", g, "--input", "x=1", "--outputs", "d.zip/", "--output", "y=plain")
        self.assertEqual(np.load(self.path("plain")).tolist(), [1, 1])
        self.assertEqual(np.load(self.path("d.zip/y.npy")).tolist(), [1, 1])
        self.opc("run", g, "--input", "x=1", "--outputs", "d.zip")  # a directory that is there
        for name in ("results-0.5", "run.v2", "cnn.a1"):  # parts of names
            self.opc("run", g, "--input", "x=1", "--outputs", name, "--output", f"y={name}.mine")
            self.assertEqual(np.load(self.path(f"{name}/y.npy")).tolist(), np.load(self.path(f"{name}.mine")).tolist())

    def test_npz_stored_deflated_and_zip64(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        buffer = io.BytesIO()
        np.save(buffer, x)
        for name, method, wide in (("s", zipfile.ZIP_STORED, False), ("d", zipfile.ZIP_DEFLATED, False), ("w", zipfile.ZIP_DEFLATED, True)):
            path = self.path(name + ".npz")
            with zipfile.ZipFile(path, "w", method) as z:
                with z.open("a/b.npy", "w", force_zip64=wide) as member:
                    member.write(buffer.getvalue())
            self.round_trip(x, f"@{path}:a/b")
            np.testing.assert_array_equal(np.load(self.path("y.npy")), x)

    def test_zip_bomb_and_equal_names(self):
        g = self.file("g.pbtxt", graph())
        bomb = zlib.compress(b"\0" * (1 << 20), 9)[2:-4]
        extra = struct.pack("<HHQQ", 1, 16, 1 << 40, len(bomb))  # zip64: a terabyte from a kilobyte
        local = (b"PK\x03\x04" + struct.pack("<HHHHHIIIHH", 45, 0, 8, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, 5, len(extra)) +
                 b"x.npy" + extra)
        central = (b"PK\x01\x02" + struct.pack("<HHHHHHIIIHHHHHII", 45, 45, 0, 8, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, 5,
                                               len(extra), 0, 0, 0, 0, 0) + b"x.npy" + extra)
        end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(bomb), 0)
        text = self.opc("run", g, "--inputs", self.file("bomb.npz", local + bomb + central + end), code=3)
        self.assertIn("OPC0708", text)
        member = io.BytesIO()
        np.save(member, np.ones((2, 3), np.float32))
        with zipfile.ZipFile(self.path("twice.npz"), "w") as z, self.assertWarns(UserWarning):
            z.writestr("x.npy", member.getvalue())
            z.writestr("x.npy", member.getvalue())
        self.assertIn("OPC0710", self.opc("run", g, "--inputs", self.path("twice.npz"), code=3))

    def test_onnx_tensors_of_every_type(self):
        for kind, (dtype, numpy_type, code) in KINDS.items():
            array = np.array([[0, 1, 1], [5, 100, 127]]).astype(numpy_type)
            if numpy_type in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
                array[0] = -array[0]
            for typed in (False, True):
                with self.subTest(kind=kind, typed=typed):
                    path = self.file("x.pb", onnx_tensor(array, code, b"x", typed))
                    self.round_trip(array, "@" + path, dtype)
                    np.testing.assert_array_equal(np.load(self.path("y.npy")), array)
            # What opc writes is what the specification says: raw_data, with the output's name.
            self.round_trip(array, "@" + self.file("x.pb", onnx_tensor(array, code)), dtype, "y.pb")
            with open(self.path("y.pb"), "rb") as f:
                self.assertEqual(sorted(f.read()), sorted(onnx_tensor(array, code, b"y")), kind)

    def test_onnx_bf16_is_bits(self):
        bits = np.array([[0x3F80, 0x4000, 0xC040]], np.uint16)  # 1, 2, -3
        g = self.file("g.pbtxt", graph("kBFloat16", (1, 3)))
        self.opc("run", g, "--input", "x=@" + self.file("x.pb", onnx_tensor(bits, 16)), "--expect", "y=bf16[1,3]:1,2,-3")

    def test_onnx_data_set(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.file("model/test_data_set_0/input_0.pb", onnx_tensor(x, 1, b"x"))
        self.file("model/test_data_set_0/output_0.pb", onnx_tensor(x, 1, b"y"))
        g = self.file("g.pbtxt", graph())
        text = self.opc("run", g, "--inputs", self.path("model/test_data_set_0"), "--expects", self.path("model/test_data_set_0"))
        self.assertIn("y: all 6 values as expected", text)
        self.assertNotIn("note:", text)
        self.opc("run", g, "--inputs", self.path("model/test_data_set_0"), "--outputs", self.path("o"), "--outputs-as", "pb")
        self.assertEqual(os.listdir(self.path("o")), ["output_0.pb"])
        for more in ([], ["--outputs", self.path("o.npz")], ["--output", "y=" + self.path("y.npy")]):  # there is no directory
            self.assertIn("--outputs-as pb says what a directory gets", self.opc("run", g, "--input", "x=1", "--outputs-as", "pb", *more, code=2))
        self.assertFalse(os.path.exists(self.path("o.npz")) or os.path.exists(self.path("y.npy")))
        self.opc("run", g, "--input", "x=7", "--expects", self.path("o"), code=1)
        self.file("two/a.pb", onnx_tensor(x, 1, b"x"))
        np.save(self.path("two/x.npy"), x)
        self.assertIn("OPC0710", self.opc("run", g, "--inputs", self.path("two"), code=2))

    def test_onnx_tensors_that_are_none(self):
        g = self.file("g.pbtxt", graph())
        x = np.ones((2, 3), np.float32)
        whole = onnx_tensor(x, 1, b"x")
        for n in range(len(whole)):
            done = subprocess.run([os.path.join(BIN, "opc"), "run", g, "--input", "x=@" + self.file("t.pb", whole[:n])], capture_output=True, timeout=60)
            if done.returncode == 0:  # the name came last: without it the tensor is whole
                self.assertGreaterEqual(n, len(onnx_tensor(x, 1)))
            else:
                self.assertIn(done.returncode, (2, 3), n)
        external = field(1, 2) + field(1, 3) + field(2, 1) + field(13, field(1, b"location") + field(2, b"/etc/passwd")) + field(14, 1)
        dims = field(1, 1 << 40) + field(1, 1 << 40)
        for content, code, word in ((external, 3, "another file"), (dims + field(2, 1) + field(9, b"1234"), 2, "OPC0704"),
                                    (field(1, 1 << 40) + field(2, 1), 2, "OPC0704"), (field(1, -1) + field(2, 1), 3, "OPC0701"),
                                    (field(1, 6) + field(2, 8) + field(6, b"a"), 3, "OPC0709"), (field(2, 99), 3, "OPC0709"),
                                    (field(1, 2) + field(1, 3) + field(2, 1) + field(9, b"1234"), 3, "OPC0702"),
                                    (field(1, 6), 3, "no element type"), (b"", 3, "OPC0701")):
            self.assertIn(word, self.opc("run", g, "--input", "x=@" + self.file("bad.pb", content), code=code))
        wrong = self.opc("run", g, "--input", "x=@" + self.file("d.pb", onnx_tensor(x.astype(np.float64), 11)), code=2)
        self.assertIn("--cast", wrong)
        self.opc("run", g, "--cast", "--input", "x=@" + self.path("d.pb"), "--expect", "y=1")


    def test_a_slip_of_the_shape_is_not_made_first(self):
        g = self.file("g.pbtxt", graph())
        for spec in ("f32[900000,900000]:rand", "f32[900000,900000]:1", "f32[3,2]:iota"):
            self.assertIn("OPC0704", self.opc("run", g, "--input", f"x={spec}", code=2))


EXP = graph().replace('"identity" input { key: "in"', '"exp" input { key: "x"').replace("i/out_0", "i/y_0")


class Paths(Scratch):
    """A graph, a plan or a tensor file never makes opc open a path that the command line does not name. A pipe without a
    writer stands at that path: whoever opens it waits for ever, and the test's timeout says so."""

    def setUp(self):
        super().setUp()
        self.pipe = self.path("pipe")
        os.mkfifo(self.pipe)

    def test_snapshots(self):
        for conf in (f'initialize_with_snapshot {{ path: "{self.pipe}" }}', f'initialize_with_snapshot {{ path: "{self.pipe}" key: "w" }}'):
            variable = (f'op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 3 }} data_type: kFloat {conf} }} }}\n'
                        'op { name: "v" output_conf { in: "w/out" } }\n')
            g = self.file("g.pbtxt", graph(variable=variable))
            self.assertIn("w", self.opc("run", g, "--input", "x=1", code=2))
            self.opc("run", g, "--fill", "ones", "--expect", "v=1")
            self.opc("compile", g, "-o", self.path("g.plan"))
            self.opc("run", self.path("g.plan"), "--fill", "ones", "--expect", "v=1")

    def test_shards_of_an_index(self):
        g = self.file("g.pbtxt", graph())
        for name in (self.pipe, "../pipe", "sub/../../pipe", "./../pipe"):
            index = self.file("d/m.safetensors.index.json", '{"weight_map": {"x": "%s"}}' % name)
            self.assertIn("error[OPC07", self.opc("run", g, "--inputs", index, code=3))

    def test_names_of_outputs(self):
        g = self.file("g.pbtxt", EXP.replace('"y"', '"../../escaped"').replace('"i"', '"../i"').replace("i/y_0", "../i/y_0"))
        self.opc("run", g, "--input", "x=1", "--outputs", self.path("deep/er/out"), "--capture", f"*={self.path('deep/er/cap')}")
        for folder, _, files in os.walk(self.folder):
            for f in files:
                if f.endswith(".npy"):
                    self.assertTrue(os.path.relpath(folder, self.folder).startswith(os.path.join("deep", "er")), folder)

    def test_traps_of_names_that_lead_elsewhere(self):
        text = EXP.replace('"i"', '"../../i"').replace("i/y_0", "../../i/y_0")
        text += text.split("\n")[1].replace("../../i", "j") + '\nop { name: "z" output_conf { in: "j/y_0" } }'  # two ops: a case is made
        g = self.file("work/er/g.pbtxt", text)
        self.opc("run", g, "--input", "x=nan", "--trap", "nan", "--no-simplify", code=5, cwd=self.path("work/er"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["pipe", "work"])
        self.assertEqual(os.listdir(self.path("work")), ["er"])

SUM = """op { name: "x" input_conf { out: "out" blob_conf { shape { %s } data_type: kFloat } } }
op { name: "s" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "x/out" } }
  attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } } } }
op { name: "y" output_conf { in: "s/output_tensor_0" } }
"""


class DataPath(FolderTest):
    """How often and into how many places a value is read."""

    def graph(self, dims):
        with open(self.path("sum.pbtxt"), "w") as f:
            f.write(SUM % " ".join(f"dim: {d}" for d in dims))
        return self.path("sum.pbtxt")

    def test_a_pipe_gives_shape_and_elements(self):
        # A pipe can be read once: the shape that an open input needs comes from the same bytes as the elements.
        os.mkfifo(self.path("x"))
        array = np.arange(12, dtype=np.float32).reshape(4, 3)
        file = io.BytesIO()
        np.save(file, array)
        command = [os.path.join(BIN, "opc"), "run", self.graph((-1, -1)), "--input", "x=@" + self.path("x"), "--print", "all",
                   "--progress", "plain"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            with open(self.path("x"), "wb") as f:
                f.write(file.getvalue())
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(out.split(), ["y", "f32[]", "66"])
        self.assertEqual(err.count("compiling: import"), 1, "a graph whose shapes come from values is imported once:\n" + err)

    def peak(self, *arguments):
        """The largest resident set of opc run, in bytes."""
        code = ("import resource,subprocess,sys; r=subprocess.run(sys.argv[1:]).returncode; "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024); sys.exit(r)")
        done = subprocess.run([sys.executable, "-c", code, os.path.join(BIN, "opc"), "run", *arguments, "--print", "none"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "a sanitizer's memory is counted, too")
    def test_a_large_input_is_in_memory_once(self):
        size = 64 << 20
        dims = (1024, size // 4 // 1024)
        graph = self.graph(dims)
        small = self.peak(self.graph((4, 4)), "--fill", "zeros")
        graph = self.graph(dims)
        np.save(self.path("x.npy"), np.ones(dims, np.float32))
        np.savez(self.path("x.npz"), x=np.ones(dims, np.float32))
        np.save(self.path("wide.npy"), np.ones(dims, np.float64))
        for given in (["--input", "x=@" + self.path("x.npy")], ["--inputs", self.path("x.npz")],
                      ["--input", "x=@" + self.path("wide.npy"), "--cast"]):
            more = self.peak(graph, *given) - small
            self.assertGreater(more, 0.6 * size, given)  # the input itself; the small graph's peak is its compilation's
            self.assertLess(more, 1.4 * size, given)


if __name__ == "__main__":
    unittest.main()
