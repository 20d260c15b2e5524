# Exported models say which op several nodes were written from; importers believe the nodes.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

import measured
from messages import field, fields

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
EPSILON = 1e-5
FLAGS = 'attr { key: "center" value { at_bool: true } } attr { key: "scale" value { at_bool: true } }'
GRAPH = f"""
op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 3 dim: 8 }} data_type: kFloat }} }} }}
op {{ name: "g" variable_conf {{ out: "out" shape {{ dim: 8 }} data_type: kFloat initializer {{ random_normal_conf {{ mean: 1 std: 0.1 }} }} }} }}
op {{ name: "b" variable_conf {{ out: "out" shape {{ dim: 8 }} data_type: kFloat initializer {{ random_normal_conf {{ std: 0.1 }} }} }} }}
op {{ name: "norm" user_conf {{ op_type_name: "layer_norm"
  input {{ key: "x" value {{ s: "x/out" }} }} input {{ key: "gamma" value {{ s: "g/out" }} }} input {{ key: "beta" value {{ s: "b/out" }} }}
  output {{ key: "y" value {{ s: "norm/y_0" }} }} output {{ key: "mean" value {{ s: "norm/mean_0" }} }} output {{ key: "inv_variance" value {{ s: "norm/inv_0" }} }}
  attr {{ key: "begin_norm_axis" value {{ at_int64: 1 }} }} attr {{ key: "begin_params_axis" value {{ at_int64: 1 }} }}
  attr {{ key: "epsilon" value {{ at_double: {EPSILON} }} }} {FLAGS} }} }}
op {{ name: "log" user_conf {{ op_type_name: "log2" input {{ key: "x" value {{ s: "norm/inv_0" }} }} output {{ key: "y" value {{ s: "log/y_0" }} }} }} }}
op {{ name: "y" output_conf {{ in: "norm/y_0" out: "out" }} }}
op {{ name: "l" output_conf {{ in: "log/y_0" out: "out" }} }}
"""
GRAPH_FIELD, NODE_FIELD, VALUE_FIELD, OUTPUT_FIELD, METADATA = 7, 1, 12, 2, 9


def changed(message, number, change):
    """The message with each of its fields of this number through `change`, which gives the new bytes, or nothing to leave it out."""
    out = b""
    for n, v in fields(message):
        v = change(v) if n == number else v
        out += b"" if v is None else field(n, v)
    return out


def of_nodes(model, change):
    return changed(model, GRAPH_FIELD, lambda graph: changed(graph, NODE_FIELD, change))


def entry(metadata):
    pair = dict(fields(metadata))
    return pair[1].decode(), pair[2].decode()


class OpNotes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        with open(cls.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH)
        cls.x = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
        np.save(cls.path("x.npy"), cls.x)
        cls.opc("compile", "g.pbtxt", "--emit", "onnx", "-o", "g.onnx")
        with open(cls.path("g.onnx"), "rb") as f:
            cls.model = f.read()
        cls.want = cls.run_graph("g.pbtxt")
        cls.weights = {}
        for n, t in fields(dict(fields(cls.model))[GRAPH_FIELD]):
            if n == 5 and len(t) < 200:
                facts = dict(fields(t))
                cls.weights[facts[8].decode()] = np.frombuffer(facts[9], np.float32)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def opc(cls, *args, code=0):
        done = subprocess.run([OPC, *args, "--config", "none"], capture_output=True, text=True, cwd=cls.folder.name, timeout=100)
        assert done.returncode == code, done.stderr
        return done

    @classmethod
    def run_graph(cls, name, *options):
        cls.opc("run", name, "--input", "x=@x.npy", "--output", "y=y.npy", "--output", "l=l.npy", *options)
        return np.load(cls.path("y.npy")), np.load(cls.path("l.npy"))

    def imported(self, model):
        """The types of its ops, in order."""
        with open(self.path("changed.onnx"), "wb") as f:
            f.write(model)
        done = self.opc("show", "changed.onnx")
        return [line.split()[-1] for line in done.stdout.split("\n") if line[2:3].isdigit()]

    def agrees(self, epsilon=EPSILON):
        """The numbers of the nodes, by numpy."""
        x = self.x.astype(np.float64)
        inverse = 1 / np.sqrt(x.var(1, keepdims=True) + epsilon)
        y, log = self.run_graph("changed.onnx")
        np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) * inverse * self.weights["g"] + self.weights["b"], 1e-5, 1e-6)
        np.testing.assert_allclose(log, np.log2(inverse[:, 0]), 1e-5, 1e-6)

    def test_the_op_comes_back(self):
        self.assertEqual(self.imported(self.model), ["layer_norm", "log2"])
        for got, want in zip(self.run_graph("changed.onnx"), self.want):
            np.testing.assert_array_equal(got, want)
        # Again out and in: the same model, its op called as before.
        self.opc("compile", "changed.onnx", "--emit", "onnx", "-o", "again.onnx")
        notes = lambda model: [entry(m) for n, node in fields(dict(fields(model))[GRAPH_FIELD]) if n == NODE_FIELD for k, m in fields(node) if k == METADATA]
        with open(self.path("again.onnx"), "rb") as f:
            self.assertEqual(notes(f.read()), notes(self.model))
        self.assertEqual(len(notes(self.model)), 4)
        done = self.opc("grad", "changed.onnx", "--loss", "y", "-o", "grad.pbtxt")
        self.assertEqual(done.returncode, 0)
        with open(self.path("grad.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        for gradient in ("g.grad", "b.grad"):  # its parameters are trained
            self.assertIn(gradient, text)

    def test_without_notes(self):
        model = of_nodes(self.model, lambda node: changed(node, METADATA, lambda _: None))
        self.assertNotIn("log2", self.imported(model))
        self.agrees()

    def test_nodes_are_believed(self):
        """Whatever the notes say: another attribute, another op, an op of another number of nodes, nonsense."""

        def noted(change):
            def of_node(node):
                def of_pair(pair):
                    key, text = entry(pair)
                    return field(1, key) + field(2, change(key, text))

                return changed(node, METADATA, of_pair)

            return of_nodes(self.model, of_node)

        for name, change in (
            ("attribute", lambda k, t: t.replace("1e-05", "0.5").replace('"log2"', '"log10"')),
            ("op", lambda k, t: t.replace('"layer_norm"', '"group_norm"').replace('"log2"', '"square"')),
            ("no such op", lambda k, t: t.replace('"layer_norm"', '"no_such_op"').replace('"log2"', '""')),
            ("operands", lambda k, t: t.replace('{ s: "g" }', '{ s: "b" }').replace('s: "norm/inv_variance_0"', 's: "x"').replace('s: "norm/inv_0"', 's: "x"')),
            ("no operands", lambda k, t: t[: t.index("input")] if k == "opc.op" else t),
            ("more nodes", lambda k, t: t if k == "opc.op" else str(int(t) + 1)),
            ("fewer nodes", lambda k, t: t if k == "opc.op" else str(int(t) - 1)),
            ("no number", lambda k, t: t if k == "opc.op" else "-1"),
            ("a huge number", lambda k, t: t if k == "opc.op" else "99999999999999999999"),
            ("cut short", lambda k, t: t[: len(t) // 2]),
            ("no text", lambda k, t: ""),
            ("nonsense", lambda k, t: "\x01{{{{" * 100),
            ("long", lambda k, t: t + " " * 100_000),
            ("an attribute of no op", lambda k, t: t + ' attr { key: "nonsense" value { at_int32: 1 } }'),
            ("twice the same", lambda k, t: t + " " + t[t.index("output") :] if "output" in t else t),
        ):
            with self.subTest(name):
                ops = self.imported(noted(change))
                self.assertFalse({"log2", "log10", "square", "group_norm"} & set(ops), ops)
                self.agrees()

    def test_nodes_that_have_changed(self):
        """Another epsilon, which the note does not know."""

        def of_node(node):
            if b"LayerNormalization" not in node:
                return node
            return changed(node, 5, lambda a: a if b"epsilon" not in a else field(1, "epsilon") + b"\x15" + np.float32(0.25).tobytes() + field(20, 1))

        self.imported(of_nodes(self.model, of_node))
        self.agrees(0.25)

    def test_constants_that_have_changed(self):
        """log2 is log times a constant: with another one it is another function."""
        factor = np.float32(1 / np.log(2)).tobytes()
        self.assertEqual(self.model.count(factor), 1)
        self.assertNotIn("log2", self.imported(self.model.replace(factor, np.float32(1 / np.log(10)).tobytes())))
        inverse = 1 / np.sqrt(self.x.astype(np.float64).var(1) + EPSILON)
        np.testing.assert_allclose(self.run_graph("changed.onnx")[1], np.log10(inverse), 1e-5, 1e-6)

    def test_what_is_between_the_nodes(self):
        """Who wants a value from within an op gets it."""
        nodes = [dict(fields(v)) for n, v in fields(dict(fields(self.model))[GRAPH_FIELD]) if n == NODE_FIELD]
        inner = next(n[2].decode() for n in nodes if n[4] == b"Log")

        def of_graph(graph):
            return graph + field(VALUE_FIELD, field(1, inner) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 3))))))

        self.assertNotIn("log2", self.imported(changed(self.model, GRAPH_FIELD, of_graph)))
        self.agrees()

    def test_notes_cost_no_memory(self):
        """A note of another size than the nodes have, for which the op would write a table of 8 TB."""
        with open(self.path("pool.pbtxt"), "w", encoding="utf-8") as f:
            f.write("""op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 dim: 1 dim: 1000 dim: 1000 } data_type: kFloat } } }
op { name: "p" user_conf { op_type_name: "adaptive_avg_pool2d" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "p/y_0" } }
  attr { key: "output_size" value { at_list_int64 { val: 7 val: 7 } } } } }
op { name: "y" output_conf { in: "p/y_0" out: "out" } }""")
        self.opc("compile", "pool.pbtxt", "--emit", "onnx", "-o", "pool.onnx")
        with open(self.path("pool.onnx"), "rb") as f:
            model = f.read()
        self.assertEqual(self.imported(model), ["adaptive_avg_pool2d"])
        hostile = lambda m: field(1, entry(m)[0]) + field(2, entry(m)[1].replace("val: 7", "val: 1000000000"))
        model = of_nodes(model, lambda node: changed(node, METADATA, hostile))
        self.assertIn(b"val: 1000000000", model)
        self.assertNotIn("adaptive_avg_pool2d", self.imported(model))
        done, seconds, peak = measured.run([OPC, "show", "changed.onnx"], self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(seconds, measured.SECONDS)
        _, _, plain = measured.run([OPC, "show", "pool.onnx"], self.folder.name)
        self.assertLess(peak, plain + (64 << 20))

    def test_other_names(self):
        """A tool that calls all values otherwise: the notes say nothing any more."""
        rename = lambda v: b"renamed" if v == b"norm/inv_0" else v
        self.assertNotIn("log2", self.imported(of_nodes(self.model, lambda node: changed(changed(node, 1, rename), 2, rename))))
        self.agrees()


if __name__ == "__main__":
    unittest.main(verbosity=2)
