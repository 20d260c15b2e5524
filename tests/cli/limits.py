# Hostile sizes: nesting, rank, overflowing shapes, attributes at the ends of their types, tensors beyond memory. Each is
# refused at once with a message and exit code 3 or 4; nothing is allocated first, nothing loops over what is not there.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
MLP = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits", "mlp.pbtxt")
I32, I64 = 2**31 - 1, 2**63 - 1
SECONDS = 200 if os.environ.get("OPC_SANITIZE") else 20  # far above what any of these takes, also on a busy machine


def tensor(name, shape, dtype="kFloat"):
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {dtype} }} }} }}\n'


def attr(name, kind, value):
    if kind == "shape":
        text = "at_shape { " + " ".join(f"dim: {v}" for v in value) + " }"
    elif kind.startswith("list"):
        text = f"at_{kind} {{ " + " ".join(f"val: {v}" for v in value) + " }"
    else:
        text = f"at_{kind}: {value}"
    return f'attr {{ key: "{name}" value {{ {text} }} }} '


def op(kind, inputs, output, *attrs):
    bound = "".join(f'input {{ key: "{a}" value {{ s: "{n}/out" }} }} ' for a, n in inputs.items())
    return (f'op {{ name: "f" user_conf {{ op_type_name: "{kind}" {bound}output {{ key: "{output}" value {{ s: "f/{output}_0" }} }} '
            f'{"".join(attrs)}}} }}\nop {{ name: "o" output_conf {{ in: "f/{output}_0" out: "out" }} }}\n')


class Limits(unittest.TestCase):
    def opc(self, graph, *args, inputs=()):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "wb") as f:
                f.write(graph if isinstance(graph, bytes) else graph.encode())
            command = [os.path.join(BIN, "opc"), "run", path, "--print", "none", *args]
            for name in inputs:
                command += ["--input", f"{name}=1"]
            started = time.monotonic()
            done = subprocess.run(command, capture_output=True, timeout=6 * SECONDS)
            return done.returncode, done.stderr.decode(errors="replace"), time.monotonic() - started

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "a sanitizer's process has terabytes of addresses")
    def test_too_little_memory_to_start(self):
        codes = []
        for limit in range(80, 200, 4):
            done = subprocess.run(f"ulimit -v {limit * 1024}; exec {BIN}/opc --version", shell=True, executable="/bin/bash",
                                  capture_output=True, timeout=SECONDS)
            codes.append(done.returncode)
            self.assertNotEqual(done.returncode, -signal.SIGABRT, f"{limit} MiB")
            if done.returncode == 5:
                self.assertRegex(done.stderr, rb"error\[OPC0614\]: (not enough memory to start|out of memory)")
        # Before opc has its turn, the loader and the libraries' constructors end the process as they like.
        ours = [code for code in codes if code in (0, 5)]
        self.assertEqual(codes[-len(ours):], ours, codes)
        # Where things lie differs from run to run, so that a little more may be too little once.
        self.assertEqual(set(ours[ours.index(0) + 3:]), {0}, codes)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "a sanitizer's process has terabytes of addresses")
    def test_no_threads_to_be_had(self):
        """A thread's stack is as large as the limit of stacks says, and does not fit into the limit of memory."""

        def run(*args):
            return subprocess.run(["/bin/bash", "-c", 'ulimit -S -s 100000000; ulimit -S -v 20000000; exec "$@"', "bash", os.path.join(BIN, "opc"), "run",
                                   MLP, "--fill", "rand", "-j", "1", "--print", "none", *args], capture_output=True, timeout=6 * SECONDS)
        self.assertEqual(run().returncode, 0)
        done = run("--ranks", "2", "--in-process")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(b"error[OPC0614]: the system gives no more threads", done.stderr)
        self.assertIn(b"ulimit -u and -v show them", done.stderr)

    @unittest.skipIf(os.environ.get("OPC_SANITIZE"), "a sanitizer's process has terabytes of addresses")
    def test_too_little_memory_or_stack_to_run(self):
        """Libraries crash, and libgomp calls exit(), where they get nothing: no bug of opc, no fault of an op, no crash folder."""
        with tempfile.TemporaryDirectory() as folder:
            for limit, sizes, words in (("-v", range(160 * 1024, 200 * 1024, 4096), "out of memory|not enough memory|no more threads|cannot allocate"),
                                        ("-s", (32, 64, 96, 128), "the stack is used up: its limit is [0-9]+ KiB")):
                codes = []
                for size in sizes:
                    done = subprocess.run(["/bin/bash", "-c", f'ulimit -S {limit} {size}; exec "$@"', "bash", os.path.join(BIN, "opc"), "run", MLP, "--fill", "rand",
                                           "--print", "none"], cwd=folder, capture_output=True, text=True, timeout=6 * SECONDS)
                    codes.append(done.returncode)
                    self.assertIn(done.returncode, (0, 4, 5), f"{limit} {size}: {done.stderr}")
                    if done.returncode == 5:
                        self.assertRegex(done.stderr, rf"error\[OPC0614\]: .*({words})")
                        self.assertNotRegex(done.stderr, "bug|the kernel of op")
                if limit == "-v": # how much of a stack is used differs with where things lie
                    self.assertIn(5, codes)
            self.assertEqual(os.listdir(folder), [])

    def refused(self, what, graph, codes, words=(), inputs=("x",)):
        with self.subTest(what):
            code, said, seconds = self.opc(graph, inputs=inputs)
            self.assertIn(code, codes, said[:500])
            self.assertRegex(said, r"error\[OPC\d{4}\]")
            for w in words:
                self.assertIn(w, said)
            self.assertLess(seconds, SECONDS)

    def accepted(self, what, graph, inputs=("x",)):
        with self.subTest(what):
            code, said, seconds = self.opc(graph, inputs=inputs)
            self.assertEqual(code, 0, said[:500])
            self.assertLess(seconds, SECONDS)

    image = tensor("x", [1, 2, 8, 8])

    def test_shapes_that_overflow(self):
        one = tensor("x", [1])
        for n in (2**61, I64):
            self.refused(f"input {n}", tensor("x", [n, n]) + op("relu", {"x": "x"}, "y"), [3], ["OPC0206"])
            self.refused(f"expand {n}", one + op("expand", {"in": "x"}, "out", attr("logical_expand_shape", "shape", [n, n])), [3], ["OPC0206"])
            self.refused(f"reshape {n}", self.image + op("reshape", {"in": "x"}, "out", attr("shape", "shape", [n, n, 4])), [3])
            self.refused(f"pad {n}", tensor("x", [1, 2, 8]) + op("constant_pad1d", {"x": "x"}, "y", attr("padding", "list_int64", [n, n])), [3, 4])
            self.refused(f"upsample {n}", self.image + op("upsample_nearest_2d", {"x": "x"}, "y", attr("output_size", "list_int64", [n, n])), [3], ["OPC0206"])
            self.refused(f"one_hot {n}", tensor("x", [4], "kInt64") + op("one_hot", {"indices": "x"}, "out", attr("depth", "int64", n), attr("dtype", "data_type", "kFloat")), [3])
            self.refused(f"eye {n}", op("eye", {}, "out", attr("rows", "int64", n), attr("cols", "int64", n), attr("dtype", "data_type", "kFloat")), [3], inputs=())
            self.refused(f"constant {n}", op("constant", {}, "out", attr("shape", "shape", [n, n]), attr("dtype", "data_type", "kFloat"), attr("floating_value", "double", 1)), [3], inputs=())
            self.refused(f"segments {n}", tensor("x", [4, 2]) + tensor("s", [4], "kInt64") + op("unsorted_segment_sum", {"data": "x", "segment_ids": "s"}, "out", attr("num_segments", "int64", n), attr("axis", "int64", 0)), [3, 4], inputs=("x", "s"))
        self.refused("arange", op("arange", {}, "out", attr("integer_start", "int64", -I64 - 1), attr("integer_limit", "int64", I64), attr("integer_delta", "int64", 1), attr("dtype", "data_type", "kInt64")), [3], inputs=())
        self.refused("arange of floats", op("arange", {}, "out", attr("float_limit", "double", "1e300"), attr("float_delta", "double", "1e-300"), attr("dtype", "data_type", "kFloat")), [3], inputs=())
        self.refused("scale", self.image + op("upsample_nearest_2d", {"x": "x"}, "y", attr("height_scale", "double", "1e300"), attr("width_scale", "double", "inf")), [3])

    def test_tensors_beyond_memory(self):
        n = 2**42
        self.refused("expand", tensor("x", [1]) + op("expand", {"in": "x"}, "out", attr("logical_expand_shape", "shape", [n])), [4], ["OPC0821"])
        self.refused("arange", op("arange", {}, "out", attr("integer_limit", "int64", n), attr("dtype", "data_type", "kInt64")), [4], ["OPC0821"], inputs=())
        self.refused("input", tensor("x", [n]) + op("relu", {"x": "x"}, "y"), [4], ["OPC0821"])
        variable = f'op {{ name: "v" variable_conf {{ out: "out" shape {{ dim: {n} }} data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}\n'
        self.refused("variable", variable + op("relu", {"x": "v"}, "y"), [4], ["OPC0821"], inputs=())

    def test_windows_at_the_ends_of_their_type(self):
        weight = tensor("w", [3, 2, 3, 3])
        for v in (I32, -I32 - 1, -1, 0, 2**30):
            for name in ("strides", "dilation_rate", "padding_before", "kernel_size"):
                graph = self.image + weight + op("conv2d", {"in": "x", "weight": "w"}, "out", attr(name, "list_int32", [v, v]))
                if (name == "strides" and v > 0) or (name == "padding_before" and v == 0):
                    self.accepted(f"conv2d {name} {v}", graph, ("x", "w"))
                else:
                    self.refused(f"conv2d {name} {v}", graph, [3, 4], inputs=("x", "w"))
            if v != 1:
                self.refused(f"conv2d groups {v}", self.image + weight + op("conv2d", {"in": "x", "weight": "w"}, "out", attr("groups", "int32", v)), [3], inputs=("x", "w"))
            for name in ("padding", "stride", "dilation"):
                graph = self.image + op("max_pool_2d", {"x": "x"}, "y", attr("kernel_size", "list_int32", [2, 2]), attr(name, "list_int32", [v, v]))
                if (name == "stride" and v > 0) or (name == "padding" and v == 0):
                    self.accepted(f"max_pool_2d {name} {v}", graph)
                else:
                    self.refused(f"max_pool_2d {name} {v}", graph, [3])
        # One window, nearly all of it padding: the loops must be over what is there.
        for pool in ("max_pool_2d", "avg_pool_2d"):
            self.accepted(f"{pool} all padding", self.image + op(pool, {"x": "x"}, "y", attr("kernel_size", "list_int32", [I32, I32]), attr("padding", "list_int32", [I32 // 2, I32 // 2])))

    def test_convolution_without_channels(self):
        """Found by fuzzing: the proposal of a number of groups divided by zero."""
        graph = tensor("x", [1, 0, 8, 8]) + tensor("w", [3, 2, 3, 3]) + op("conv2d", {"in": "x", "weight": "w"}, "out")
        self.refused("no channels", graph, [3], ["OPC0203", "weight is for 2 channels"], inputs=("x", "w"))
        for shape in ([0, 2**62, 8, 8], [0, 2, 2**62, 8]):
            graph = tensor("x", shape) + tensor("w", [3, 2, 3, 3]) + op("conv2d", {"in": "x", "weight": "w"}, "out", attr("padding_before", "list_int32", [I32, I32]))
            self.refused(f"{shape}", graph, [3], ["OPC0206"], inputs=("x", "w"))
        graph = self.image + tensor("w", [0, 2, 2**62, 1]) + op("conv2d", {"in": "x", "weight": "w"}, "out", attr("dilation_rate", "list_int32", [I32, I32]))
        self.refused("kernel", graph, [3], ["OPC0206"], inputs=("x", "w"))

    def test_axes_out_of_range(self):
        for v in (I32, -I32 - 1, 4, -5):
            self.refused(f"reduce_sum {v}", self.image + op("reduce_sum", {"input_tensor": "x"}, "output_tensor", attr("axis", "list_int32", [v]), attr("keepdims", "bool", "false")), [3], ["OPC0205"])
            self.refused(f"transpose {v}", self.image + op("transpose", {"input": "x"}, "output", attr("perm", "list_int32", [0, 1, 2, v])), [3], ["OPC0205"])
        for v in (I64, -I64 - 1, 4):
            self.refused(f"cumsum {v}", self.image + op("cumsum", {"x": "x"}, "y", attr("dim", "int64", v)), [3], ["OPC0205"])
            self.refused(f"narrow {v}", self.image + op("narrow", {"in": "x"}, "out", attr("dim", "int64", 0), attr("start", "int64", v), attr("length", "int64", v)), [3], ["OPC0205"])

    def test_rank(self):
        self.accepted("rank 20", tensor("x", [1] * 20) + op("relu", {"x": "x"}, "y"))
        for rank in (21, 100000):
            self.refused(f"rank {rank}", tensor("x", [1] * rank) + op("relu", {"x": "x"}, "y"), [3], ["OPC0206", str(rank)])

    def test_long_lists(self):
        self.refused("axes", self.image + op("reduce_sum", {"input_tensor": "x"}, "output_tensor", attr("axis", "list_int32", [0] * 100000), attr("keepdims", "bool", "false")), [3])
        self.refused("kernel", self.image + op("max_pool_2d", {"x": "x"}, "y", attr("kernel_size", "list_int32", [1] * 200000)), [3])

    def test_nesting(self):
        for what, text in (("known fields", "op { user_conf { " + "attr { value { " * 50000),
                           ("unknown fields", "op { " + "y { " * 100000), ("angle brackets", "op { " + "y < " * 100000),
                           ("lists", "op { y: " + "[" * 100000)):
            self.refused(what, text, [3], inputs=())
        self.refused("groups", b"\x0a\xff\xff\x03" + b"\x0b" * 65535, [3], inputs=())
        nested = b""
        for _ in range(20000):  # field 1, length-delimited, in itself
            nested = b"\x0a" + varint(len(nested)) + nested
            if len(nested) > 60000:
                break
        self.refused("messages", nested, [3], inputs=())

    def test_names_of_derived_gradients(self):
        pair = tensor("x", [4]) + tensor("d", [4])
        for n in (2, 100, 100000):
            self.refused(f"{n} times _grad", pair + op("tanh" + "_grad" * n, {"x": "x", "dy": "d"}, "dx"), [3], ["OPC0201"], inputs=("x", "d"))

    def test_a_chain_of_many_ops(self):
        ops = [tensor("x", [4])]
        for i in range(20000):
            before = "x/out" if i == 0 else f"c{i - 1}/y_0"
            ops.append(f'op {{ name: "c{i}" user_conf {{ op_type_name: "tanh" input {{ key: "x" value {{ s: "{before}" }} }} output {{ key: "y" value {{ s: "c{i}/y_0" }} }} }} }}\n')
        ops.append('op { name: "o" output_conf { in: "c19999/y_0" out: "out" } }\n')
        self.accepted("20000 ops", "".join(ops))

    def test_graphs_of_which_every_op_is_wrong(self):
        """What was meant is not looked for a hundred thousand times: these took minutes."""
        relu = 'op {{ name: "o{0}" user_conf {{ op_type_name: "{1}" input {{ key: "x" value {{ s: "{2}" }} }} {3} }} }}\n'
        for what, n, line, code in (("tensors that no op makes", 20000, lambda i: relu.format(i, "relu", f"y{i}/out", ""), "OPC0107"),
                                    ("tensors that ops do not make", 40000, lambda i: relu.format(i, "relu", f"o{max(i - 1, 0)}/y_1", ""), "OPC0107"),
                                    ("unknown types", 100000, lambda i: relu.format(i, f"none{i}", "x/out", ""), "OPC0201"),
                                    ("control dependences", 40000, lambda i: relu.format(i, "relu", "x/out", "")[:-2] + f'ctrl_in_op_name: "p{i}" }}\n', "OPC0113")):
            self.refused(what, tensor("x", [4]) + "".join(map(line, range(n))), [3], [code])

    def test_a_variable_with_many_readers_and_writers(self):
        n = 30000
        graph = [tensor("x", [4]), 'op { name: "w" variable_conf { out: "out" shape { dim: 4 } data_type: kFloat initializer { constant_conf { value: 1 } } } }\n']
        for i in range(n):
            graph.append(f'op {{ name: "o{i}" output_conf {{ in: "w/out" out: "out" }} }}\n')
        write = 'op {{ name: "a{}" user_conf {{ op_type_name: "assign" input {{ key: "ref" value {{ s: "w/out" }} }} input {{ key: "value" value {{ s: "x/out" }} }} }} }}\n'
        self.accepted(f"{n} readers", "".join(graph) + write.format(0))
        self.refused(f"{n} readers and writers", "".join(graph + [write.format(i) for i in range(n)]), [3], ["OPC0209", "ctrl_in_op_name"])


class TensorFiles(unittest.TestCase):
    """Files that announce more than they hold."""

    graph = tensor("x", [4]) + op("relu", {"x": "x"}, "y")

    def refused_file(self, name, content):
        with self.subTest(name), tempfile.TemporaryDirectory() as folder:
            path, graph = os.path.join(folder, name), os.path.join(folder, "g.pbtxt")
            with open(path, "wb") as f:
                f.write(content)
            with open(graph, "w") as f:
                f.write(self.graph)
            done = subprocess.run([os.path.join(BIN, "opc"), "run", graph, "--inputs", path, "--print", "none"], capture_output=True, timeout=SECONDS)
            self.assertIn(done.returncode, (2, 3, 4), done.stderr)
            self.assertRegex(done.stderr.decode(), r"error\[OPC07\d\d\]")

    def test_announced_sizes(self):
        huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"
        self.refused_file("npy_in.npz", zip_of("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(huge)) + huge.encode()))
        member = b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{"
        self.refused_file("header.npz", zip_of("x.npy", member))
        for shape, end in (("[4611686018427387904,4]", 16), ("[4]", 2**63), ("[4]", 2**62)):
            text = f'{{"x":{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}}}'.encode()
            self.refused_file("x.safetensors", struct.pack("<Q", len(text)) + text + bytes(16))
        self.refused_file("length.safetensors", struct.pack("<Q", 2**63) + b"{}")
        nested = b"[" * 100000
        self.refused_file("nested.safetensors", struct.pack("<Q", len(nested)) + nested)


def limited(gigabytes, command, **kw):
    """The command with so much address space; AddressSanitizer alone reserves terabytes."""
    if os.environ.get("OPC_SANITIZE"):
        return subprocess.run(command, capture_output=True, timeout=6 * SECONDS, **kw)
    return subprocess.run(["bash", "-c", f'ulimit -v {gigabytes << 20}; exec "$@"', "bash", *command], capture_output=True, timeout=6 * SECONDS, **kw)


class Reading(unittest.TestCase):
    """What is read is bounded before it is read."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb" if isinstance(content, bytes) else "w") as f:
                f.write(content)
        return path

    def opc(self, *args, **kw):
        started = time.monotonic()
        done = subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, timeout=6 * SECONDS, **kw)
        self.assertLess(time.monotonic() - started, SECONDS)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def peak(self, *args):
        """Exit code, what it said, and the most memory it had in MiB."""
        script = "import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], capture_output=True); sys.stderr.buffer.write(p.stderr); print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
        done = subprocess.run([sys.executable, "-c", script, os.path.join(BIN, "opc"), *args], capture_output=True, timeout=6 * SECONDS)
        code, peak = done.stdout.split()
        return int(code), done.stderr.decode(errors="replace"), int(peak)

    def bomb(self, name, shape, size):
        """A member whose header says `shape`, and which unpacks to `size` bytes."""
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        with zipfile.ZipFile(self.path(name), "w", zipfile.ZIP_DEFLATED) as z, z.open("x.npy", "w", force_zip64=True) as f:
            f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            for _ in range(size >> 20):
                f.write(bytes(1 << 20))
        self.assertLess(os.path.getsize(self.path(name)), 2 << 20)
        return self.path(name)

    def test_a_header_decides_before_elements_are_unpacked(self):
        graph = self.path("g.pbtxt", tensor("x", [6]) + op("relu", {"x": "x"}, "y"))
        other = self.bomb("other.npz", "(268435456,)", 1 << 30)
        liar = self.bomb("liar.npz", "(6,)", 1 << 30)
        for what, args, code, words in (
                ("another shape", ["--inputs", other], 2, "OPC0704"), ("a flag", ["--input", f"x=@{other}"], 2, "OPC0704"),
                ("a flag that casts", ["--input", f"x=@{other}", "--cast"], 2, "OPC0704"),
                ("more than the header says", ["--inputs", liar], 3, "bytes after the data"), ("a flag, more", ["--input", f"x=@{liar}:x"], 3, "bytes after the data"),
                ("an expectation", ["--fill", "ones", "--expect", f"o=@{other}", "--max-memory", "100M"], 4, "--max-memory"),
                ("a data set", ["--feed-dataset", f"x=@{other}", "--batch", "6", "--steps", "1", "--max-memory", "100M"], 4, "--max-memory")):
            with self.subTest(what):
                got, said, peak = self.peak("run", graph, *args)
                self.assertEqual(got, code, said)
                self.assertIn(words, said)
                if not os.environ.get("OPC_SANITIZE"):
                    self.assertLess(peak, 400)

    def bounded(self, args, code, words, most=300):
        got, said, peak = self.peak(*args)
        self.assertEqual(got, code, said)
        self.assertIn(words, said)
        if not os.environ.get("OPC_SANITIZE"):
            self.assertLess(peak, most, "MiB")

    def test_data_sets(self):
        """A data set takes the memory of its batches: not of a member that does not fit, nor of an order that is none."""
        graph = self.path("g.pbtxt", tensor("x", [6, 3]) + op("relu", {"x": "x"}, "y"))
        feed = lambda file: ["run", graph, "--feed-dataset", f"x=@{file}", "--steps", "1"]  # noqa: E731
        self.bounded(feed(self.bomb("other.npz", "(67108864, 4)", 1 << 30)), 2, "they may differ in the first dimension alone")
        for rows in (10**8, 4 * 10**9):  # of nothing: the file has holes
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 3), }}".ljust(117) + "\n"
            sparse = self.path("sparse.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            os.truncate(sparse, os.path.getsize(sparse) + rows * 12)
            self.bounded([*feed(sparse), "--max-memory", "10M"], 0, "")
            self.bounded([*feed(sparse), "--max-memory", "10M", "--shuffle"], 4, f"the order of {rows} examples: reading it takes {8 * rows} bytes")

    def test_devices_and_pipes(self):
        graph = self.path("g.pbtxt", tensor("x", [8, 3]) + op("relu", {"x": "x"}, "y"))
        for flags in (["--input", "x=@/dev/zero"], ["--inputs", "/dev/zero"], ["--fill", "ones", "--weights", "/dev/zero"], ["--feed-dataset", "x=@/dev/zero"]):
            with self.subTest(flags):
                self.bounded(["run", graph, *flags], 2, "error[OPC0708]: cannot read /dev/zero: it is a device", 200)
        self.bounded(["run", graph, "--input", "x=f32[8,3]:@/dev/zero"], 2, "error[OPC0702]: /dev/zero: more than the 96 bytes of f32[8,3] come", 200)
        os.mkfifo(self.path("fifo"))
        for spec, most, said in ((f"x=@{self.path('fifo')}", ["--max-memory", "10M"], "OPC0708"), (f"x=f32[8,3]:@{self.path('fifo')}", [], "more than the 96 bytes")):
            with subprocess.Popen(["sh", "-c", f"exec yes > {self.path('fifo')}"], stderr=subprocess.DEVNULL) as endless:
                self.bounded(["run", graph, "--input", spec, *most], 2, said, 200)
                endless.kill()
        # What has an end, and the right one, is read.
        with subprocess.Popen(["sh", "-c", f"head -c 96 /dev/zero > {self.path('fifo')}"]):
            self.assertEqual(self.opc("run", graph, "--input", f"x=f32[8,3]:@{self.path('fifo')}")[0], 0)

    def test_empty_tensors_of_many_rows(self):
        n = 10**12
        for shape in ([n, 0], [n, n // 10**6, 0], [0, n]):
            graph = self.path("g.pbtxt", tensor("x", shape) + op("relu", {"x": "x"}, "y"))
            dims = ",".join(map(str, shape))
            for mode in ("all", "5", "summary"):
                code, said, errors = self.opc("run", graph, "--fill", "ones", "--print", mode)
                self.assertEqual((code, said), (0, f"o  f32[{dims}]" + ("\n[]\n" if mode == "all" else "  []\n")), errors)
            self.assertEqual(self.opc("run", graph, "--fill", "rand", "--print", "all", "--json", "--outputs", self.path("out.npz"))[0], 0)
            self.assertEqual(self.opc("run", graph, "--inputs", self.path("out.npz"), "--expect", f"o=@{self.path('out.npz')}")[0], 2)  # no x in it
            self.assertEqual(self.opc("run", graph, "--fill", "ones", "--expect", f"o=@{self.path('out.npz')}")[0], 0)
            self.assertEqual(self.opc("run", graph, "--fill", "ones", "--trap", "nan,inf", "--capture-stats", self.path("s"))[0], 0)

    def test_empty_tensors_in_kernels(self):
        """Loops are over what is there, also where what comes out is not empty."""
        n = 10**12
        def axes(*values):
            return attr("axis", "list_int32", values)
        for what, text in (("softmax", op("softmax", {"in": "x"}, "out")), ("transpose", op("transpose", {"input": "x"}, "output", attr("perm", "list_int32", [1, 0]))),
                           ("sum", op("reduce_sum", {"input_tensor": "x"}, "output_tensor", axes(0, 1), attr("keepdims", "bool", "false"))),
                           ("prod", op("reduce_prod", {"input_tensor": "x"}, "output_tensor", axes(0, 1), attr("keepdims", "bool", "false"))),
                           ("rows", op("reduce_sum", {"input_tensor": "x"}, "output_tensor", axes(0), attr("keepdims", "bool", "false"))),
                           ("cumsum", op("cumsum", {"x": "x"}, "y", attr("dim", "int64", 0))), ("reshape", op("reshape", {"in": "x"}, "out", attr("shape", "shape", [0, n]))),
                           ("flip", op("flip", {"x": "x"}, "y", attr("dims", "list_int32", [0]))), ("narrow", op("narrow", {"in": "x"}, "out", attr("dim", "int64", 0), attr("start", "int64", 5), attr("length", "int64", n - 9))),
                           ("cast", op("cast", {"in": "x"}, "out", attr("dtype", "data_type", "kDouble")))):
            with self.subTest(what):
                code, _, said = self.opc("run", self.path("g.pbtxt", tensor("x", [n, 0]) + text), "--fill", "ones")
                self.assertIn(code, (0, 3), said)
                if code:
                    self.assertIn("error[OPC02", said)

    def test_input_without_an_end(self):
        for command in (["show", "-"], ["run", "-"], ["run", self.path("g.pbtxt", TensorFiles.graph), "--input", "x=@/dev/zero"],
                        ["run", self.path("g.pbtxt"), "--inputs", "/dev/zero"], ["--config", "/dev/zero", "config"]):
            with self.subTest(command):
                with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
                    done = limited(4, [os.path.join(BIN, "opc"), *command], stdin=endless.stdout)
                    endless.stdout.close()
                    endless.kill()
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn("error[OPC0708]", done.stderr.decode())

    def test_settings_and_cluster_files_with_many_keys(self):
        """Readers that look through what they have for each key take minutes for these."""
        for what, text in (("keys", "[tolerance]\n" + "".join(f"k{i} = {{}}\n" for i in range(4500))), ("tables", "".join(f"[a{i}]\n" for i in range(8000))),
                           ("dots", "\n".join("a." * 30 + f"k{i} = 1" for i in range(900))), ("arrays", "a = " + "[" * 30000), ("inline", "a = {" + ",".join(f"k{i}=1" for i in range(6000)) + "}"),
                           ("lists", "[[a]]\n" * 10000), ("deep", "[" + "a." * 30000 + "a]\n"), ("strings", 'a = "' + "\\u0041" * 9000 + '"'), ("nested", "\n".join("[" + ".".join(f"t{i}" for i in range(n)) + "]" for n in range(1, 150)))):
            with self.subTest(what):
                self.assertLess(len(text), 65536)
                code, _, said = self.opc("--config", self.path("opc.toml", text), "config")
                self.assertIn(code, (0, 2), said)
        cluster = {"schema": 1, "device": {}, "levels": []}
        for what, document in (("ops", dict(cluster, ops={f"op{i}": {"overhead": 1, "factor": 1} for i in range(70000)})),
                               ("fields", {f"k{i}": 1 for i in range(300000)}), ("one level", dict(cluster, device={f"k{i}": 1 for i in range(300000)}))):
            with self.subTest(what):
                graph = self.path("g.pbtxt", TensorFiles.graph)
                code, _, said = self.opc("compile", graph, "--mesh", "2", "--cluster", self.path("c.json", json.dumps(document)), "-o", self.path("p"))
                self.assertEqual(code, 3, said)
                self.assertIn("more than 4096 fields", said)

    def test_ops_of_many_tensors(self):
        def sum_of(n, arguments=""):
            tensors = " ".join('s: "x/out"' for _ in range(n))
            return tensor("x", [2]) + f'op {{ name: "f" user_conf {{ op_type_name: "add_n" input {{ key: "in" value {{ {tensors} }} }} {arguments} }} }}\nop {{ name: "o" output_conf {{ in: "f/out_0" }} }}\n'
        most = 16383  # and one output
        for mesh in ([], ["--mesh", "2"]):
            for n in (most + 1, 100000):
                code, _, said = self.opc("compile", self.path("g.pbtxt", sum_of(n)), *mesh, "-o", self.path("p"))
                self.assertEqual(code, 3, said)
                self.assertIn(f"add_n: {n + 1} inputs and outputs; one op has at most 16384", said)
        code, said, errors = self.opc("run", self.path("g.pbtxt", sum_of(most)), "--fill", "ones")
        self.assertEqual((code, said), (0, "o  f32[2]  [16383, 16383]\n"), errors)
        entries = "".join(f'input {{ key: "k{i}" value {{ s: "x/out" }} }} ' for i in range(100000))
        code, _, said = self.opc("compile", self.path("g.pbtxt", sum_of(2, entries)), "-o", self.path("p"))
        self.assertEqual(code, 3, said)

    def test_the_gradient_of_a_tensor_with_many_readers(self):
        """Its parts are summed by ops that have room for them: here two."""
        n = 9000
        graph = [tensor("x", [2])]
        graph += [f'op {{ name: "r{i}" user_conf {{ op_type_name: "tanh" input {{ key: "x" value {{ s: "x/out" }} }} }} }}\n' for i in range(n)]
        graph.append('op { name: "f" user_conf { op_type_name: "add_n" input { key: "in" value { ' + " ".join(f's: "r{i}/y_0"' for i in range(n)) + ' } } } }\n'
                     'op { name: "s" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "f/out_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } } }\nop { name: "o" output_conf { in: "s/output_tensor_0" } }\n')
        code, _, said = self.opc("grad", self.path("g.pbtxt", "".join(graph)), "--loss", "o", "--wrt", "x", "-o", self.path("back.pbtxt"))
        self.assertEqual(code, 0, said)
        with open(self.path("back.pbtxt")) as f:
            self.assertEqual(len(set(re.findall(r'name: "(x_grad_sum[^"]*)"', f.read()))), 2)

    def test_a_file_that_becomes_shorter(self):
        """A page that is no longer there would end opc with SIGBUS."""
        graph = self.path("g.pbtxt", tensor("x", [-1]).replace("dim: -1", "dim: 1024") + op("reduce_sum", {"input_tensor": "x"}, "output_tensor", attr("axis", "list_int32", [0]), attr("keepdims", "bool", "false")))
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4194304,), }".ljust(117) + "\n"
        data = self.path("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(4 << 22))
        metrics = self.path("m.jsonl")
        with subprocess.Popen([os.path.join(BIN, "opc"), "run", graph, "--feed-dataset", f"x=@{data}", "--batch", "1024", "--epochs", "1000000", "--metrics", metrics, "--metrics-every", "1000"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            end = time.monotonic() + 3 * SECONDS
            while not (os.path.exists(metrics) and os.path.getsize(metrics)) and p.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            self.assertIsNone(p.poll())
            os.truncate(data, 4096)
            said = p.communicate(timeout=3 * SECONDS)[1].decode()
        self.assertEqual(p.returncode, 5, said)
        self.assertIn(f"error[OPC0702]: {data}: the file became shorter while it was read", said)

    def test_what_a_killed_run_leaves(self):
        """Outputs have no name before they are whole."""
        graph = self.path("g.pbtxt", tensor("x", [1 << 26]) + op("relu", {"x": "x"}, "y"))
        os.makedirs(self.path("out"))
        for sign in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([os.path.join(BIN, "opc"), "run", graph, "--fill", "ones", "--output", f"o={self.path('out/y.npy')}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
                end, seen = time.monotonic() + 2 * SECONDS, False
                while p.poll() is None and not seen and time.monotonic() < end:
                    try:  # the file is open: it is being written
                        seen = any(os.readlink(f"/proc/{p.pid}/fd/{f}").startswith(self.path("out")) for f in os.listdir(f"/proc/{p.pid}/fd"))
                    except OSError:
                        pass
                p.send_signal(sign)
                p.wait(timeout=SECONDS)
            self.assertTrue(seen)
            self.assertEqual([f for f in os.listdir(self.path("out")) if f != "y.npy"], [])

    def test_names_of_a_launcher_in_the_environment(self):
        """A job that is none must neither silence a run nor make it wait."""
        graph = self.path("g.pbtxt", TensorFiles.graph)
        plain = self.opc("run", graph, "--fill", "ones")
        self.assertEqual(plain[0], 0)
        for names in ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "99999999999"}, {"PMI_RANK": "1", "PMI_SIZE": "2"},
                      {"PMI_RANK": "0", "PMI_SIZE": "4"}, {"PMIX_RANK": "1"}, {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "1"}, {"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "-1"}):
            with self.subTest(names):
                env = dict(os.environ, **names)
                self.assertEqual(self.opc("run", graph, "--fill", "ones", env=env), plain)
                # Even where a launcher seems to wait, one rank alone asks nobody.
                env["PMIX_SERVER_URI2"] = "1.0;tcp4://127.0.0.1:1"
                self.assertEqual(self.opc("run", graph, "--fill", "ones", "--ranks", "1", env=env), plain)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zip_of(name, content):
    import io
    import zipfile
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(name, content)
    return out.getvalue()


if __name__ == "__main__":
    unittest.main()
