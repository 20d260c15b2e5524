# The memory that an ONNX model takes, beside its weights: importing leaves them in their file, and a run has them once.
# Expected numbers are numpy's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
LAYERS, MIB, NODE = 8, 1 << 20, 5 << 10
PEAK = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(r)")


def weights(width):
    made = np.random.default_rng(3)
    return [((made.random((width, width), np.float32) - 0.5) / np.sqrt(width)).astype(np.float32) for _ in range(LAYERS)]


def model(width, initializers):
    nodes = []
    for k in range(LAYERS):
        nodes += [m.node("MatMul", [f"h{k}" if k else "x", f"w{k}"], [f"p{k}"]), m.node("Tanh", [f"p{k}"], [f"h{k + 1}"])]
    return m.model(m.graph(nodes, [m.value("x", (1, width))], [m.value(f"h{LAYERS}", (1, width))], initializers))


@unittest.skipIf(os.environ.get("OPC_SANITIZE"), "a sanitizer's memory is counted, too")
class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="onnx_memory")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.width = 1448  # 8 MiB a layer
        cls.weights = weights(cls.width)
        cls.bytes = sum(w.nbytes for w in cls.weights)
        inline = [m.tensor(f"w{k}", w) for k, w in enumerate(cls.weights)]
        beside = [m.external(f"w{k}", w.shape, location="w.data", offset=k * w.nbytes, length=w.nbytes) for k, w in enumerate(cls.weights)]
        cls.write("inline.onnx", model(cls.width, inline))
        cls.write("beside.onnx", model(cls.width, beside))
        cls.write("w.data", b"".join(w.tobytes() for w in cls.weights))
        cls.write("small.onnx", model(16, [m.tensor(f"w{k}", w) for k, w in enumerate(weights(16))]))
        np.save(cls.path("x.npy"), np.linspace(-1, 1, cls.width, dtype=np.float32)[None])
        np.save(cls.path("x16.npy"), np.linspace(-1, 1, 16, dtype=np.float32)[None])

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, data):
        with open(cls.path(name), "wb") as f:
            f.write(data)

    def peak(self, *arguments, program="opc"):
        """The largest resident set of a command, in bytes."""
        done = subprocess.run([sys.executable, "-c", PEAK, os.path.join(os.path.dirname(OPC), program), *arguments], capture_output=True, text=True, timeout=120, cwd=self.folder.name,
                              env={**os.environ, "OPC_CACHE_SIZE": "0"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[-1])

    def run_peak(self, name, x, *flags):
        return self.peak("run", name, "--input", f"x=@{x}", "--output", f"h{LAYERS}=y.npy", "--print", "none", "--quiet", "-j", "1", *flags)

    def expected(self):
        h = np.load(self.path("x.npy")).astype(np.float64)
        for w in self.weights:
            h = np.tanh(h @ w.astype(np.float64))
        return h

    def test_a_run_has_the_weights_once(self):
        base = self.run_peak("small.onnx", "x16.npy")
        for name in ("inline.onnx", "beside.onnx"):
            more = self.run_peak(name, "x.npy") - base
            np.testing.assert_allclose(np.load(self.path("y.npy")), self.expected(), rtol=0, atol=1e-5)
            # As the kernels have packed them, and one of the eight as the file has it.
            self.assertLess(more, 1.12 * self.bytes + 4 * MIB, f"{name}: {more / MIB:.1f} MiB")
            self.assertGreater(more, 0.6 * self.bytes, name) # the small model's peak is that of its compilation

    def test_kernels_are_prepared_without_the_code_of_the_compiler(self):
        """What read, compiled and loaded a model is given back before: 2 MiB of the 8 that are packed come on top of it, 7 where it stayed."""
        width = 512 # 1 MiB a layer
        self.write("middle.onnx", model(width, [m.tensor(f"w{k}", w) for k, w in enumerate(weights(width))]))
        np.save(self.path("x512.npy"), np.linspace(-1, 1, width, dtype=np.float32)[None])
        base = self.peak("compile", "small.onnx", "-o", "small.plan", "--quiet")
        for flags in ((), ("--repeat", "50")):
            self.assertLess(self.run_peak("middle.onnx", "x512.npy", *flags) - base, 4.5 * MIB)

    def test_the_largest_is_packed_first(self):
        """As language models end: by then the others would be beside it and its packed form."""
        wide = np.random.default_rng(4).random((self.width, LAYERS * self.width), np.float32) - 0.5
        nodes = [m.node("MatMul", [f"h{LAYERS}", "wide"], ["y"])]
        for k in range(LAYERS):
            nodes += [m.node("MatMul", [f"h{k}" if k else "x", f"w{k}"], [f"p{k}"]), m.node("Tanh", [f"p{k}"], [f"h{k + 1}"])]
        kept = [m.tensor(f"w{k}", w) for k, w in enumerate(self.weights)] + [m.tensor("wide", wide)]
        self.write("wide.onnx", m.model(m.graph(nodes, [m.value("x", (1, self.width))], [m.value("y", (1, wide.shape[1]))], kept)))
        self.addCleanup(os.unlink, self.path("wide.onnx"))
        base = self.run_peak("small.onnx", "x16.npy")
        more = self.peak("run", "wide.onnx", "--input", "x=@x.npy", "--output", "y=y.npy", "--print", "none", "--quiet", "-j", "1") - base
        np.testing.assert_allclose(np.load(self.path("y.npy")), self.expected() @ wide.astype(np.float64), rtol=0, atol=2e-4)
        self.assertLess(more, 1.1 * (self.bytes + wide.nbytes) + 4 * MIB, f"{more / MIB:.1f} MiB for {(self.bytes + wide.nbytes) / MIB:.1f}")

    def test_rows_are_looked_up_in_the_file(self):
        """Of an embedding a run has the rows that it reads, with as much as 2 MiB that the system brings along; whole where another op reads it as well."""
        table = np.random.default_rng(5).random((1 << 16, 256), np.float32)  # 64 MiB
        ids = np.random.default_rng(6).integers(0, 1 << 16, 8)
        np.save(self.path("ids.npy"), ids)
        base = self.run_peak("small.onnx", "x16.npy")
        more = {}
        for name, nodes in (("rows", []), ("all", [m.node("ReduceMax", ["table"], ["most"], keepdims=0), m.node("Add", ["r", "most"], ["y"])])):
            lookup = m.node("Gather", ["table", "ids"], ["r" if nodes else "y"])
            for where, tensor in (("inline", m.tensor("table", table)), ("beside", m.external("table", table.shape, location="table.data", offset=7))):
                self.write("table.data", b"unclean" + table.tobytes())
                self.write("table.onnx", m.model(m.graph([lookup, *nodes], [m.value("ids", (8,), 7)], [m.value("y", (8, 256))], [tensor])))
                more[name, where] = self.peak("run", "table.onnx", "--input", "ids=@ids.npy", "--output", "y=y.npy", "--print", "none", "--quiet", "-j", "1") - base
                np.testing.assert_array_equal(np.load(self.path("y.npy")), table[ids] + (table.max() if nodes else 0))
        self.peak("compile", "table.onnx", "-o", "all.plan", "--quiet")
        self.write("table.onnx", m.model(m.graph([m.node("Gather", ["table", "ids"], ["y"])], [m.value("ids", (8,), 7)], [m.value("y", (8, 256))], [m.tensor("table", table)])))
        self.peak("compile", "table.onnx", "-o", "rows.plan", "--quiet")
        for name in ("rows", "all"):
            more[name, "plan"] = self.peak("run", f"{name}.plan", "--input", "ids=@ids.npy", "--output", "y=y.npy", "--print", "none", "--quiet", "-j", "1") - base
            np.testing.assert_array_equal(np.load(self.path("y.npy")), table[ids] + (table.max() if name == "all" else 0))
            more[name, "opc-runtime"] = self.peak(f"{name}.plan", "--input", "ids=@ids.npy", "--outputs", "out", "--print", "none", program="opc-runtime") - base
            np.testing.assert_array_equal(np.load(self.path("out/y.npy")), table[ids] + (table.max() if name == "all" else 0))
        for name in ("table.onnx", "table.data", "rows.plan", "all.plan"):
            os.unlink(self.path(name))
        for where in ("inline", "beside", "plan", "opc-runtime"):
            self.assertLess(more["rows", where], 0.4 * table.nbytes, f"{where}: {more['rows', where] / MIB:.1f} MiB")
            self.assertGreater(more["all", where], 0.75 * table.nbytes, where)

    def test_an_import_leaves_them_in_the_file(self):
        base = self.peak("show", "small.onnx")
        for name in ("inline.onnx", "beside.onnx"):
            more = self.peak("show", name) - base
            self.assertLess(more, 0.1 * self.bytes, f"{name}: {more / MIB:.1f} MiB")

    def test_a_plan_is_written_from_the_file(self):
        """Piece by piece, to a file and to standard output: never whole in memory."""
        base = self.peak("compile", "small.onnx", "-o", "small.plan", "--quiet")
        for name in ("inline.onnx", "beside.onnx"):
            for to in ("big.plan", "-"):
                more = self.peak("compile", name, "-o", to, "--quiet") - base
                self.assertLess(more, 0.3 * self.bytes + 4 * MIB, f"{name} to {to}: {more / MIB:.1f} MiB")
            self.assertGreater(os.path.getsize(self.path("big.plan")), self.bytes)

    def test_weights_of_a_model_that_is_quantised(self):
        """In 4 bits none is in memory but the one that is computed and what has been made; in 8 bits two sessions have them, as they are and packed."""
        base = self.peak("quantize", "small.onnx", "--to", "int4-weights", "-o", "q.onnx", "--quiet")
        more = self.peak("quantize", "inline.onnx", "--to", "int4-weights", "-o", "q.onnx", "--quiet") - base
        self.assertLess(more, 1.5 * self.bytes + 4 * MIB, f"{more / MIB:.1f} MiB")

    def test_a_run_of_a_plan_has_the_weights_once(self):
        self.peak("compile", "small.onnx", "-o", "small.plan", "--quiet")
        self.peak("compile", "inline.onnx", "-o", "big.plan", "--quiet")
        base = self.run_peak("small.plan", "x16.npy")
        more = self.run_peak("big.plan", "x.npy") - base
        np.testing.assert_allclose(np.load(self.path("y.npy")), self.expected(), rtol=0, atol=1e-5)
        # One of the eight is there as the plan has it beside its packed form.
        self.assertLess(more, 1.15 * self.bytes + 4 * MIB, f"{more / MIB:.1f} MiB")
        self.assertGreater(more, 0.6 * self.bytes)

    def test_weights_that_are_written_beside_stay_in_the_file(self):
        base = self.peak("compile", "small.onnx", "--weights-out", "w.safetensors", "-o", "p.plan", "--quiet")
        for name in ("inline.onnx", "beside.onnx"):
            more = self.peak("compile", name, "--weights-out", "w.safetensors", "-o", "p.plan", "--quiet") - base
            self.assertLess(more, 0.1 * self.bytes + 4 * MIB, f"{name}: {more / MIB:.1f} MiB")
            with open(self.path("w.safetensors"), "rb") as f:
                data = f.read()
            names = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            start = 8 + int.from_bytes(data[:8], "little")
            for k, w in enumerate(self.weights):
                at, end = names[f"w{k}"]["data_offsets"]
                self.assertEqual(data[start + at:start + end], w.tobytes(), k)

    def test_a_model_that_is_written_leaves_them_in_the_file(self):
        base = self.peak("compile", "small.onnx", "--emit", "onnx", "-o", "small_again.onnx", "--quiet")
        for name in ("inline.onnx", "beside.onnx"):
            more = self.peak("compile", name, "--emit", "onnx", "-o", "again.onnx", "--quiet") - base
            self.assertLess(more, 0.1 * self.bytes + 4 * MIB, f"{name}: {more / MIB:.1f} MiB")
            self.run_peak("again.onnx", "x.npy")
            np.testing.assert_allclose(np.load(self.path("y.npy")), self.expected(), rtol=0, atol=1e-5)

    def test_many_nodes(self):
        """100,000 of them take some kilobytes each."""
        count = 100_000
        nodes = [m.node("Tanh", [f"h{k}" if k else "x"], [f"h{k + 1}"]) for k in range(count)]
        self.write("long.onnx", m.model(m.graph(nodes, [m.value("x", (1, 4))], [m.value(f"h{count}", (1, 4))], [])))
        self.addCleanup(os.unlink, self.path("long.onnx"))
        more = self.peak("show", "long.onnx") - self.peak("show", "small.onnx")
        self.assertLess(more, count * NODE, f"{more / count:.0f} bytes a node")

    def test_whoever_looks_again_finds_them(self):
        """Captures, a reference and other weights need the values that the kernels have packed."""
        self.run_peak("inline.onnx", "x.npy", "--reference", "cpu")
        np.testing.assert_allclose(np.load(self.path("y.npy")), self.expected(), rtol=0, atol=1e-5)
        self.run_peak("inline.onnx", "x.npy", "--capture-stats", "stats.json")
        self.assertGreater(os.path.getsize(self.path("stats.json")), 0)
        np.save(self.path("w0.npy"), np.zeros_like(self.weights[0]))
        self.run_peak("inline.onnx", "x.npy", "--input", "w0=@w0.npy")
        self.assertFalse(np.load(self.path("y.npy")).any())


if __name__ == "__main__":
    unittest.main()
