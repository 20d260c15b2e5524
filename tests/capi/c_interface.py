# The C interface: its symbols and layouts against the committed lists, a model through it, and calls that must fail.
# SPDX-License-Identifier: Apache-2.0
"""usage: c_interface.py [--write]      --write renews tests/capi/abi.txt after a change that is meant"""
import ctypes as c
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import sanitized  # before the library
sys.path += [os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", folder) for folder in ("cli", "support")]
from plugin_build import build_plugin
import plan_bytes
from calls import API, Device, Failure, Library, Options, Port, Tensor, dlpack, managed

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
HERE = os.path.join(SOURCE, "tests", "capi")
OPC = os.path.join(BUILD, "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
scratch = tempfile.TemporaryDirectory()
# Two libraries with the same messages cannot live in one process: the one with the compiler has a process of its own.
lib = None if sys.argv[1:] == ["--compile"] else Library(os.path.join(BUILD, "lib", "libopc.so"))

# y = x * w; n counts the ones of b
GRAPH = """
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 16 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 4 dim: 16 } data_type: kFloat initializer { constant_conf { value: 2 } } } }
op { name: "m" user_conf { op_type_name: "multiply" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "w/out" } }
  output { key: "out" value { s: "m/out_0" } } } }
op { name: "y" output_conf { in: "m/out_0" out: "out" } }
op { name: "b" input_conf { out: "out" blob_conf { shape { dim: 8 } data_type: kBool } } }
op { name: "c" user_conf { op_type_name: "cast" input { key: "in" value { s: "b/out" } } output { key: "out" value { s: "c/out_0" } }
  attr { key: "dtype" value { at_data_type: kInt32 } } } }
op { name: "n" output_conf { in: "c/out_0" out: "out" } }
"""


def abi_listing():
    program = os.path.join(scratch.name, "abi")
    subprocess.run(["cc", "-std=c99", "-pedantic-errors", "-Wall", "-Werror", "-I", os.path.join(SOURCE, "runtime", "capi"),
                    os.path.join(HERE, "abi.c"), "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", os.path.join(BUILD, "lib", library)], check=True, capture_output=True,
                         text=True).stdout
    return sorted(line.split()[2].split("@")[0] for line in out.splitlines() if line.split()[1] != "A")


def committed(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


def versions():
    """{version: (the digest beside it, its lines)} of exports.txt."""
    found = {}
    for line in committed("exports.txt").split("\n"):
        if heading := re.fullmatch(r"(\d+\.\d+) (\w+)", line):
            found[heading[1]] = (heading[2], lines := [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def element_types():
    """Those of the source with DLPack's code and bits, as exports.txt has them."""
    with open(os.path.join(SOURCE, "runtime", "capi", "DlpackTensors.cpp"), encoding="utf-8") as f:
        text = f.read()
    names = dict(re.findall(r"constexpr uint8_t (k\w+) = (\d+);", text))
    return {f"{name} {names.get(code, code)} {bits}" for name, code, bits in re.findall(r"^ *\{(k\w+), (\w+), (\d+)\},$", text, re.M)}


def compiled(name, text, *flags):
    graph, plan = (os.path.join(scratch.name, name + end) for end in (".pbtxt", ".plan"))
    with open(graph, "w") as f:
        f.write(text)
    subprocess.run([OPC, "compile", graph, "-o", plan, "-q", *flags], check=True)
    return plan


def aligned(shape, offset=0):
    """f32 zeros whose first byte is `offset` beyond a multiple of 64."""
    count = int(np.prod(shape))
    raw = np.zeros(count * 4 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + count * 4].view(np.float32).reshape(shape)


class Abi(unittest.TestCase):
    def test_layout(self):
        self.assertEqual(abi_listing(), committed("abi.txt"), "structs of opc.h have changed: that breaks programs (docs/c-api.md)")

    def test_symbols(self):
        names = sorted(line for _, lines in versions().values() for line in lines if " " not in line)
        self.assertEqual(exported("libopc.so"), names)
        self.assertLessEqual(set(names), set(exported("libopc_compiler.so")))

    def test_element_types(self):
        types = {line for _, lines in versions().values() for line in lines if " " in line}
        self.assertEqual(element_types(), types)
        self.assertGreater(len(types), 20)

    def test_what_is_new_raises_the_minor_number(self):
        found = versions()
        self.assertEqual(list(found), [f"{API >> 16}.{minor}" for minor in range((API & 0xFFFF) + 1)], "one for each minor number of opc.h")
        for version, (digest, lines) in found.items():
            made = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
            self.assertEqual(made, digest, f"{version} had other lines: what is new has a version of its own, and opc.h a larger OPC_API_VERSION_MINOR")

    def test_no_llvm(self):
        needed = subprocess.run(["readelf", "-d", os.path.join(BUILD, "lib", "libopc.so")], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("LLVM", needed)
        self.assertNotIn("libopc_", needed)

    def test_versions(self):
        self.assertEqual(lib.api_version(), API)
        said = subprocess.run([OPC, "--version"], capture_output=True, text=True).stdout.split()[1]
        self.assertEqual(lib.version().decode(), said)
        for version, number in ((2 << 16, "2.0"), (API + 1, "1.3"), (0, "0.0")):
            with self.assertRaises(Failure) as e:
                lib.make("context_create", version)
            self.assertEqual((e.exception.status, e.exception.code), (4, "OPC0908"))
            self.assertIn(number, e.exception.message)
            self.assertIn("1.2", e.exception.message)


CHAIN = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 300 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "tanh" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "exp" input { key: "x" value { s: "a/y_0" } } } }
op { name: "y" output_conf { in: "b/y_0" out: "out" } }
"""


class NativeCode(unittest.TestCase):
    def test_machine_code_runs_where_the_context_allows_it(self):
        """Code that does nothing, with checksums that fit, is found out only where it runs."""
        plan_file = compiled("chain", CHAIN, "--native=v3")
        with open(plan_file, "rb") as f:
            good = f.read()

        def empty(_, image):
            data = bytearray(image.get(plan_bytes.DATA))
            data[image.get(plan_bytes.ENTRY)] = 0xC3  # ret
            image.set(plan_bytes.DATA, bytes(data))

        broken = plan_bytes.Plan(good).change(empty).bytes()
        x, results = np.linspace(-2, 2, 300, dtype=np.float32), []
        context = lib.make("context_create", API)
        for allowed, data in ((0, good), (1, good), (0, broken), (1, broken)):
            self.assertEqual(lib.context_allow_native(context, allowed), None)
            plan = lib.make("plan_load", context, data, len(data))
            if allowed and data is broken:
                with self.assertRaises(Failure) as e:
                    lib.make("session_create", context, plan, None)
                self.assertEqual((e.exception.status, e.exception.code), (4, "OPC0825"))
            else:
                session = lib.make("session_create", context, plan, None)
                lib.session_feed(session, b"x", dlpack(x))
                lib.session_run(session, 1)
                results.append(lib.fetch(session, "y").tobytes())
                lib.session_destroy(session)
            lib.plan_destroy(plan)
        lib.context_destroy(context)
        self.assertEqual(len(set(results)), 1)
        self.assertEqual(len(results), 3)


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = lib.make("context_create", API)
        cls.plan_file = compiled("small", GRAPH)
        cls.plan = lib.make("plan_load_file", cls.context, cls.plan_file.encode())

    @classmethod
    def tearDownClass(cls):
        lib.plan_destroy(cls.plan)
        lib.context_destroy(cls.context)

    def setUp(self):
        self.session = self.create()
        self.b = np.array([1, 0, 1, 0, 0, 0, 0, 1], np.bool_)
        lib.session_feed(self.session, b"b", dlpack(self.b))

    def tearDown(self):
        lib.session_destroy(self.session)

    def create(self, **options):
        o = Options(size=c.sizeof(Options), threads=1)
        for name, value in options.items():
            setattr(o, name, value)
        return lib.make("session_create", self.context, self.plan, c.byref(o))

    def run_fetch(self, output="y"):
        lib.session_run(self.session, 1)
        return lib.fetch(self.session, output)

    def refused(self, status, code, text, call, *arguments):
        with self.assertRaises(Failure) as e:
            getattr(lib, call)(*arguments)
        self.assertEqual((e.exception.status, e.exception.code), (status, code), e.exception)
        self.assertIn(text, e.exception.message)
        self.assertNotIn("--", e.exception.help)
        return e.exception.help

    def test_ports(self):
        self.assertEqual(lib.ports(self.session, 0), [("b", "68", (8,)), ("x", "float32", (4, 16))])
        self.assertEqual(lib.ports(self.session, 1), [("n", "int32", (8,)), ("y", "float32", (4, 16))])
        self.assertEqual(lib.ports(self.session, 2), [("w", "float32", (4, 16))])

    def test_numbers(self):
        x = np.arange(64, dtype=np.float32).reshape(4, 16)
        lib.session_feed(self.session, b"x", dlpack(x))
        np.testing.assert_array_equal(self.run_fetch(), 2 * x)
        np.testing.assert_array_equal(lib.fetch(self.session, "n"), self.b.astype(np.int32))
        w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
        lib.session_set_variable(self.session, b"w", dlpack(w))
        np.testing.assert_array_equal(self.run_fetch(), x * w)
        np.testing.assert_array_equal(lib.fetch(self.session, "w", "session_variable"), w)

    def test_types(self):
        """Every element type has DLPack's name of it: dlpack.h 1.1, in the order of opc's table."""
        known = {"f32": (2, 32), "f64": (2, 64), "f16": (2, 16), "bf16": (4, 16), "i8": (0, 8), "u8": (1, 8), "i16": (0, 16), "u16": (1, 16),
                 "i32": (0, 32), "u32": (1, 32), "i64": (0, 64), "u64": (1, 64), "bool": (6, 8), "f8e4m3fn": (10, 8), "f8e5m2": (12, 8),
                 "f8e4m3fnuz": (11, 8), "f8e5m2fnuz": (13, 8), "f8e8m0": (14, 8), "f4e2m1": (1, 8), "i4": (0, 8), "u4": (1, 8), "i2": (0, 8), "u2": (1, 8)}
        types = json.loads(subprocess.run([OPC, "ops", "--json"], check=True, capture_output=True, text=True).stdout)["types"]
        self.assertEqual({t["name"] for t in types}, set(known))
        ops = "".join(f'op {{ name: "{t["name"]}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 1 }} data_type: {t["graph"]} }} }} }}\n'
                      f'op {{ name: "{t["name"]}_out" output_conf {{ in: "{t["name"]}/out" out: "out" }} }}\n' for t in types)
        plan = lib.make("plan_load_file", self.context, compiled("types", ops).encode())
        session = lib.make("session_create", self.context, plan, None)
        for i in range(len(types)):
            p = Port()
            lib.session_port(session, 0, i, c.byref(p))
            self.assertEqual((p.dtype.code, p.dtype.bits, p.dtype.lanes), (*known[p.name.decode()], 1), p.name)

    def test_strides(self):
        base = np.arange(128, dtype=np.float32).reshape(16, 8)
        for x in (base[:, ::2].T, base[::-1, :4].T):
            lib.session_feed(self.session, b"x", dlpack(x))
            np.testing.assert_array_equal(self.run_fetch(), 2 * x)
        part = dlpack(np.zeros((4, 16), np.float32), data=base.ctypes.data, byte_offset=4)
        lib.session_feed(self.session, b"x", part)
        np.testing.assert_array_equal(self.run_fetch().ravel(), 2 * np.arange(1, 65, dtype=np.float32))

    def test_owned_in_place(self):
        x, deleted = aligned((4, 16)), []
        m = managed(x, deleted)
        lib.session_feed_owned(self.session, b"x", m)
        for value in (3, 5):  # the session reads the caller's memory
            x[:] = value
            np.testing.assert_array_equal(self.run_fetch(), np.full((4, 16), 2 * value, np.float32))
        self.assertEqual(deleted, [])
        lib.session_feed(self.session, b"x", dlpack(np.ones((4, 16), np.float32)))
        self.assertEqual(deleted, [True])
        np.testing.assert_array_equal(self.run_fetch(), np.full((4, 16), 2, np.float32))
        self.assertTrue((x == 5).all(), "feeding has written into a tensor of the caller's")
        again, gone = aligned((4, 16)), []
        keep = managed(again, gone)
        lib.session_feed_owned(self.session, b"x", keep)
        other = managed(aligned((4, 16)), [])
        lib.session_feed_owned(self.session, b"x", other)
        self.assertEqual(gone, [True])

    def test_owned_fed_again(self):
        """In a loop, the tensor that the session has: it stays the session's, and is let go of once."""
        x, deleted = aligned((4, 16)), []
        m = managed(x, deleted)
        for value in (3, 5):
            x[:] = value
            lib.session_feed_owned(self.session, b"x", m)
            self.assertEqual(deleted, [])
            np.testing.assert_array_equal(self.run_fetch(), np.full((4, 16), 2 * value, np.float32))
        moved = aligned((4, 16), 4)  # from now on it must be copied
        moved[:] = 7
        m.tensor.data = moved.ctypes.data
        lib.session_feed_owned(self.session, b"x", m)
        self.assertEqual(deleted, [True])
        np.testing.assert_array_equal(self.run_fetch(), np.full((4, 16), 14, np.float32))

    def test_owned_copied(self):
        """A tensor that kernels cannot read as it lies is copied and given back at once."""
        for x in (aligned((4, 16), 4), aligned((16, 4)).T):
            deleted = []
            x[:] = 3
            m = managed(x, deleted)
            lib.session_feed_owned(self.session, b"x", m)
            self.assertEqual(deleted, [True])
            x[:] = 4
            np.testing.assert_array_equal(self.run_fetch(), np.full((4, 16), 6, np.float32))

    def test_owned_at_the_end(self):
        deleted = []
        session, m = self.create(), managed(aligned((4, 16)), deleted)
        lib.session_feed_owned(session, b"x", m)
        self.assertEqual(deleted, [])
        lib.session_destroy(session)
        self.assertEqual(deleted, [True])

    def test_owned_refused(self):
        deleted = []
        m = managed(np.zeros((4, 16), np.float64), deleted)
        self.refused(2, "OPC0703", "f64", "session_feed_owned", self.session, b"x", m)
        self.assertEqual(deleted, [])

    def test_fork(self):
        """A child of a process whose kernels use threads: new sessions run, those from before say why they do not."""
        plan = lib.make("plan_load_file", self.context, compiled("wide", GRAPH.replace("dim: 16", "dim: 262144")).encode())
        x = np.ones((4, 262144), np.float32)

        def session(threads):
            s = lib.make("session_create", self.context, plan, c.byref(Options(size=c.sizeof(Options), threads=threads)))
            lib.session_feed(s, b"b", dlpack(self.b))
            lib.session_feed(s, b"x", dlpack(x))
            return s

        def works(s):
            lib.session_run(s, 1)
            return bool((lib.fetch(s, "y") == 2).all())

        many, one = session(2), session(1)
        self.assertTrue(works(many) and works(one))
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a hang ends the child, and the test fails
            code = 1
            try:
                self.refused(2, "OPC0619", "before fork()", "session_run", many, 1)
                code = 0 if works(one) and works(session(2)) else 2
                lib.session_destroy(many)
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(works(many))

    def test_bools(self):
        """Bytes other than 0 and 1 are true."""
        b = np.array([0, 1, 2, 255, 0, 7, 0, 1], np.uint8)
        lib.session_feed(self.session, b"b", dlpack(b, dtype=dlpack(self.b).dtype))
        lib.session_feed(self.session, b"x", dlpack(np.zeros((4, 16), np.float32)))
        np.testing.assert_array_equal(self.run_fetch("n"), (b != 0).astype(np.int32))

    def test_bytes(self):
        data, size = c.c_void_p(), c.c_size_t()
        lib.plan_bytes(self.plan, c.byref(data), c.byref(size))
        with open(self.plan_file, "rb") as f:
            stored = f.read()
        self.assertEqual(c.string_at(data, size.value), stored)
        plan = lib.make("plan_load", self.context, stored, len(stored))
        lib.session_destroy(lib.make("session_create", self.context, plan, None))
        lib.plan_destroy(plan)

    def test_bad_tensors(self):
        x = np.zeros((4, 16), np.float32)
        feed = lambda code, text, t: self.refused(2, code, text, "session_feed", self.session, b"x", t)
        feed("OPC0703", "i32", dlpack(x.view(np.int32)))
        feed("OPC0703", "lanes", dlpack(x, dtype=type(dlpack(x).dtype)(2, 32, 4)))
        feed("OPC0704", "[16,4]", dlpack(x.reshape(16, 4)))
        feed("OPC0704", "[64]", dlpack(x.ravel()))
        feed("OPC0704", "[-4,-16]", dlpack(x, shape=c.cast((c.c_int64 * 2)(-4, -16), c.POINTER(c.c_int64))))
        feed("OPC0618", "device 2", dlpack(x, device=Device(2, 0)))
        feed("OPC0618", "no data", dlpack(x, data=None))
        feed("OPC0618", "no shape", dlpack(x, shape=c.POINTER(c.c_int64)()))
        feed("OPC0618", "-1 dimensions", dlpack(x, ndim=-1))
        feed("OPC0618", "1073741824 dimensions", dlpack(x, ndim=1 << 30))  # none of which is read
        self.refused(2, "OPC0704", "w", "session_set_variable", self.session, b"w", dlpack(x[:2]))

    def test_bad_names(self):
        t, out = dlpack(np.zeros((4, 16), np.float32)), c.POINTER(type(managed(np.zeros(1, np.float32), [])))()
        self.refused(2, "OPC0611", "'z'", "session_feed", self.session, b"z", t)
        self.refused(2, "OPC0611", "'z'", "session_set_variable", self.session, b"z", t)
        self.refused(2, "OPC0611", "'z'", "session_fetch", self.session, b"z", c.byref(out))
        self.refused(2, "OPC0611", "'z'", "session_variable", self.session, b"z", c.byref(out))
        self.refused(2, "OPC0613", "'y'", "session_fetch", self.session, b"y", c.byref(out))
        self.assertEqual(self.refused(2, "OPC0610", "x (f32[4,16])", "session_run", self.session, 1), "give each with opc_session_feed")
        self.refused(2, "OPC0618", "-1", "session_run", self.session, -1)
        self.refused(2, "OPC0618", "kind", "session_port_count", self.session, 3, c.byref(c.c_size_t()))
        self.refused(2, "OPC0618", "port 2 of 2", "session_port", self.session, 0, 2, c.byref(Port()))

    def test_bad_plans(self):
        self.refused(2, "OPC0706", "/nowhere", "plan_load_file", self.context, b"/nowhere", c.byref(c.c_void_p()))
        for size in ((1 << 64) - 1, 1 << 63):
            self.refused(2, "OPC0618", f"'size' is {size}", "plan_load", self.context, b"abc", size, c.byref(c.c_void_p()))
        for data, code in ((b"", "OPC0801"), (b"x" * 100, "OPC0801"), (b"OPCPLAN\0" + bytes(24), "OPC0802")):
            plan = lib.make("plan_load", self.context, data, len(data))
            with self.assertRaises(Failure) as e:
                lib.make("session_create", self.context, plan, None)
            self.assertEqual(e.exception.code, code)
            lib.plan_destroy(plan)
        with self.assertRaises(Failure) as e:
            self.create(max_memory=64)
        self.assertEqual((e.exception.status, e.exception.code, e.exception.help), (4, "OPC0821", "raise max_memory of opc_session_options"))
        for wrong in ({"size": 4}, {"threads": -1}, {"threads": 4097}, {"threads": 5000}, {"reserved": 1}):
            with self.assertRaises(Failure) as e:
                self.create(**wrong)
            self.assertEqual((e.exception.status, e.exception.code), (2, "OPC0618"))
        self.refused(2, "OPC0706", "/nowhere", "session_load_variables", self.session, b"/nowhere", None)
        self.refused(2, "OPC0618", "too late", "context_load_plugin", self.context, b"x.so")

    def test_null(self):
        """Every pointer of every call may be null: a status, and no crash."""
        x = dlpack(np.zeros((4, 16), np.float32))
        full = {
            "context_create": [API, c.byref(c.c_void_p())], "context_load_plugin": [self.context, b"x.so"],
            "plan_load_file": [self.context, b"x", c.byref(c.c_void_p())], "plan_load": [self.context, b"x", 1, c.byref(c.c_void_p())],
            "plan_compile_file": [self.context, b"x", c.byref(c.c_void_p())],
            "plan_bytes": [self.plan, c.byref(c.c_void_p()), c.byref(c.c_size_t())],
            "session_create": [self.context, self.plan, None, c.byref(c.c_void_p())],
            "session_port_count": [self.session, 0, c.byref(c.c_size_t())], "session_port": [self.session, 0, 0, c.byref(Port())],
            "session_port_smallest": [self.session, 0, 0, c.byref(Port())],
            "session_feed": [self.session, b"x", c.byref(x)], "session_feed_owned": [self.session, b"x", c.byref(managed(np.zeros((4, 16), np.float32), []))],
            "session_set_variable": [self.session, b"w", c.byref(x)], "session_load_variables": [self.session, b"x", None],
            "session_run": [self.session, 1], "session_fetch": [self.session, b"y", None], "session_variable": [self.session, b"w", None],
        }
        for call, arguments in full.items():
            for i, value in enumerate(arguments):
                if isinstance(value, int) or (value is None and call in ("session_create", "session_load_variables")):
                    continue
                self.refused(2, "OPC0618", "is null", call, *arguments[:i], None, *arguments[i + 1 :])
        for destroy in ("context_destroy", "plan_destroy", "session_destroy"):
            getattr(lib, destroy)(None)

    def test_threads(self):
        """Sessions of one context in several threads; each thread has its own last error."""
        wrong = []

        def work(k):
            session = self.create(seed=k)
            lib.session_feed(session, b"b", dlpack(self.b))
            for step in range(50):
                x = np.full((4, 16), k * 100 + step, np.float32)
                lib.session_feed(session, b"x", dlpack(x))
                lib.session_run(session, 1)
                if not (lib.fetch(session, "y") == 2 * x).all():
                    wrong.append((k, step))
                try:
                    lib.session_feed(session, f"no{k}".encode(), dlpack(x))
                    wrong.append((k, "no error"))
                except Failure as e:
                    if f"'no{k}'" not in e.message:
                        wrong.append((k, e.message))
            lib.session_destroy(session)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


class Sizes(unittest.TestCase):
    """A plan whose number of rows is open."""

    def setUp(self):
        plan = os.path.join(scratch.name, "rows.plan")
        subprocess.run([OPC, "compile", os.path.join(DIGITS, "mlp.pbtxt"), "--shape", "image=n:2..64,64", "-o", plan, "-q"], check=True)
        self.context = lib.make("context_create", API)
        self.session = lib.make("session_create", self.context, lib.make("plan_load_file", self.context, plan.encode()), None)
        lib.session_load_variables(self.session, os.path.join(DIGITS, "mlp_weights.npz").encode(), None)
        self.images, self.logits = (np.load(os.path.join(DIGITS, f)) for f in ("test_images.npy", "mlp_test_logits.npy"))

    def tearDown(self):
        lib.session_destroy(self.session)
        lib.context_destroy(self.context)

    def test_ports(self):
        self.assertEqual(lib.ports(self.session, 0), [("image", "float32", (64, 64))])
        self.assertEqual(lib.ports(self.session, 0, "session_port_smallest"), [("image", "float32", (2, 64))])
        self.assertEqual(lib.ports(self.session, 1, "session_port_smallest"), [("logits", "float32", (2, 10))])
        self.assertEqual(lib.ports(self.session, 2), lib.ports(self.session, 2, "session_port_smallest"))

    def test_feeding_another_size(self):
        for n, owned in ((64, False), (3, False), (40, True), (2, False), (3, True), (64, False)):
            x = np.ascontiguousarray(self.images[n : 2 * n])
            if owned:
                lib.session_feed_owned(self.session, b"image", managed(x, []))
            else:
                lib.session_feed(self.session, b"image", dlpack(x))
            lib.session_run(self.session, 1)
            got = lib.fetch(self.session, "logits")
            self.assertEqual(got.shape, (n, 10))
            np.testing.assert_allclose(got, self.logits[n : 2 * n], 1e-4, 1e-5)

    def test_refused(self):
        lib.session_feed(self.session, b"image", dlpack(self.images[:5].copy()))
        for wrong, code in ((self.images[:65], "OPC0704"), (self.images[:1], "OPC0704"), (self.images[:4, :63], "OPC0704"),
                            (self.images[0], "OPC0704"), (self.images[:7].astype("f8"), "OPC0703")):
            with self.assertRaises(Failure) as e:
                lib.session_feed(self.session, b"image", dlpack(np.ascontiguousarray(wrong)))
            self.assertEqual((e.exception.status, e.exception.code), (2, code))
            self.assertIn("input 'image'", e.exception.message)
        lib.session_run(self.session, 1)  # as if nothing had been
        np.testing.assert_allclose(lib.fetch(self.session, "logits"), self.logits[:5], 1e-4, 1e-5)


class Digits(unittest.TestCase):
    def read(self, library, plan):
        images = np.load(os.path.join(DIGITS, "test_images.npy"))
        count = c.c_size_t()
        context = library.make("context_create", API)
        session = library.make("session_create", context, library.make(*plan(context)), None)
        library.session_load_variables(session, os.path.join(DIGITS, "mlp_weights.npz").encode(), c.byref(count))
        self.assertEqual(count.value, len(library.ports(session, 2)))
        library.session_feed(session, b"image", dlpack(images))
        library.session_run(session, 1)
        np.testing.assert_allclose(library.fetch(session, "logits"), np.load(os.path.join(DIGITS, "mlp_test_logits.npy")), 1e-4, 1e-5)

    def test_plan(self):
        plan = os.path.join(scratch.name, "mlp.plan")
        subprocess.run([OPC, "compile", os.path.join(DIGITS, "mlp.pbtxt"), "-o", plan, "-q"], check=True)
        self.read(lib, lambda context: ("plan_load_file", context, plan.encode()))

    def test_weights_that_lack_a_variable(self):
        plan, full = os.path.join(scratch.name, "lacking.plan"), dict(np.load(os.path.join(DIGITS, "mlp_weights.npz")))
        subprocess.run([OPC, "compile", os.path.join(DIGITS, "mlp.pbtxt"), "-o", plan, "-q"], check=True)
        part, none = os.path.join(scratch.name, "part.npz"), os.path.join(scratch.name, "none.npz")
        np.savez(part, **{("fc1.w" if k == "fc1_w" else k): v for k, v in full.items()})
        np.savez(none, other=full["fc1_w"])
        context, count = lib.make("context_create", API), c.c_size_t()
        session = lib.make("session_create", context, lib.make("plan_load_file", context, plan.encode()), None)

        def refused(path, counted, text, way_out):
            with self.assertRaises(Failure) as e:
                lib.session_load_variables(session, path.encode(), counted)
            self.assertEqual((e.exception.status, e.exception.code), (2, "OPC0717"))
            self.assertIn(text, e.exception.message)
            self.assertIn(way_out, e.exception.help)

        refused(none, None, "none of the 1 tensor of", "the file has other")
        refused(none, c.byref(count), "none of the 1 tensor of", "the file has other")
        refused(part, None, "lacks 1 of the graph's 6 variables: 'fc1_w'", "did you mean 'fc1.w'?")
        lib.session_load_variables(session, part.encode(), c.byref(count))
        self.assertEqual(count.value, 5)
        # What was set before is not missing.
        lib.session_set_variable(session, b"fc1_w", dlpack(full["fc1_w"]))
        lib.session_load_variables(session, part.encode(), None)
        # A variable of another shape or type, whichever it is in the file's order: none of the others has changed.
        for name in full:
            for wrong, code in ((np.zeros(tuple(n + 1 for n in full[name].shape), "f"), "OPC0704"), (full[name].astype("d"), "OPC0703")):
                np.savez(part, **{k: (wrong if k == name else v + 1) for k, v in full.items()})
                with self.assertRaises(Failure) as e:
                    lib.session_load_variables(session, part.encode(), None)
                self.assertEqual(e.exception.code, code)
                for k, v in full.items():
                    np.testing.assert_array_equal(lib.fetch(session, k, "session_variable"), v)
        # Also where all were set, a file with none of them is another one.
        refused(none, None, "none of the 1 tensor of", "the file has other")
        refused(none, c.byref(count), "none of the 1 tensor of", "the file has other")

    def test_a_plugin_of_several_contexts(self):
        """Its operators are there in each that loads it, under whatever path, and after the first is gone."""
        library = build_plugin(os.path.join(scratch.name, "capi_doubles.so"), '#include "opc/Elementwise.h"\n'
                               'namespace opc::user_op { namespace { OPC_SCALAR(CapiDoubles, x) { return x + x; }\n'
                               'REGISTER_USER_OP("capi_doubles").Input("x").Output("y").Elementwise<CapiDoubles>(); } }\n', "-w")
        link = os.path.join(scratch.name, "same.so")
        os.symlink(library, link)
        plan = compiled("doubles", 'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }\n'
                        'op { name: "p" user_conf { op_type_name: "capi_doubles" input { key: "x" value { s: "x/out" } } } }\n'
                        'op { name: "y" output_conf { in: "p/y_0" out: "out" } }\n', "--plugin", library)
        contexts = []
        for path in (library, link, library):
            context = lib.make("context_create", API)
            lib.context_load_plugin(context, path.encode())
            lib.context_load_plugin(context, library.encode()) # once more is no conflict
            session = lib.make("session_create", context, lib.make("plan_load_file", context, plan.encode()), None)
            x = np.arange(4, dtype=np.float32)
            lib.session_feed(session, b"x", dlpack(x))
            lib.session_run(session, 1)
            np.testing.assert_array_equal(lib.fetch(session, "y"), 2 * x)
            contexts.append(context)

    def test_no_compiler(self):
        context = lib.make("context_create", API)
        with self.assertRaises(Failure) as e:
            lib.make("plan_compile_file", context, b"mlp.pbtxt")
        self.assertEqual((e.exception.status, e.exception.code), (4, "OPC0907"))
        self.assertIn("opc compile mlp.pbtxt", e.exception.help)

    def test_compiler(self):
        """In a process of its own: libopc_compiler has all of libopc."""
        done = subprocess.run([sys.executable, __file__, "--compile"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def compiler(self):
        library = Library(os.path.join(BUILD, "lib", "libopc_compiler.so"))
        self.read(library, lambda context: ("plan_compile_file", context, os.path.join(DIGITS, "mlp.pbtxt").encode()))
        bad = os.path.join(scratch.name, "bad.pbtxt")
        with open(bad, "w") as f:
            f.write(GRAPH.replace('"multiply"', '"multiplai"'))
        context = library.make("context_create", API)
        with self.assertRaises(Failure) as e:
            library.make("plan_compile_file", context, bad.encode())
        self.assertEqual((e.exception.status, e.exception.code), (3, "OPC0201"))
        self.assertIn("bad.pbtxt:4", e.exception.message)
        self.assertIn("multiply", e.exception.help)
        with open(bad, "w") as f:
            f.write('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: -1 dim: 4 } data_type: kFloat } } }\nop { name: "y" output_conf { in: "x/out" out: "out" } }\n')
        with self.assertRaises(Failure) as e:
            library.make("plan_compile_file", context, bad.encode())
        self.assertEqual((e.exception.status, e.exception.code), (3, "OPC0207"))
        self.assertIn("opc compile --shape x=", e.exception.help)
        self.assertNotRegex(e.exception.help, r"(?<!compile )(?<!run )--[a-z]")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(os.path.join(HERE, "abi.txt"), "w", encoding="utf-8") as f:
            f.write(abi_listing())
    elif sys.argv[1:] == ["--compile"]:
        Digits().compiler()
    else:
        unittest.main()
