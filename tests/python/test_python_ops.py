"""Operators in Python in the process that defines them: values, contract, state, threads, forks, processes of their own."""
# SPDX-License-Identifier: Apache-2.0
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from typing import List, Tuple

import numpy as np

import opc


@opc.op("test::leaky_relu", sbp=opc.elementwise, like="x")
def leaky_relu(x: opc.Tensor, *, alpha: float = 0.25) -> opc.Tensor:
    """x where it is positive, alpha x elsewhere."""
    return np.where(x > 0, x, x * np.float32(alpha))


@opc.op("test::min_max", outputs=("low", "high"), shape={"low": (), "high": ()})
def min_max(x: opc.Tensor):
    return x.min(), x.max()


@opc.op("test::stack", shape={"y": ("xs[0]", "n + 1")}, variadic={"xs": 1}, optional=("bias",))
def stack(xs, bias=None, *, n: int = 1, names: Tuple[str, ...] = ("a",)):
    total = np.sum([x.sum(axis=1) for x in xs], axis=0, dtype=np.float32)
    if bias is not None:
        total = total + bias
    return np.repeat(total[:, None], n + 1, axis=1)


@opc.op("test::doubled")
def doubled(x):
    return np.concatenate([x, x])


@doubled.infer
def _(x):
    return opc.Spec((2 * x.shape[0], *x.shape[1:]), x.dtype)


@opc.op("test::add_out", broadcast=("x", "y"))
def add_out(x, y):
    raise AssertionError("the form with out= is there")


@add_out.out
def _(x, y, *, out):
    np.add(x, y, out=out)


@opc.op("test::count", like="x", aux=["seen"], side_effect=True)
def count(x, seen):
    seen += 1
    return x + seen


@opc.op("test::count_all", like="x", aux=["seen"], variadic={"seen": 1})
def count_all(x, seen):
    for state in seen:
        state += 1
    return x + seen[-1]


@opc.op("test::noise", like="x", needs_rng=True)
def noise(x, *, rng):
    return rng.standard_normal(x.shape, dtype=np.float32)


@opc.op("test::sized", optional=("rows", "columns"))
def sized(x, rows, columns):
    return x.reshape(sized_shape(rows, columns, x.size))


def sized_shape(rows, columns, size):
    return (size, 1) if rows is not None else (1, size) if columns is not None else (size,)


@sized.infer
def _(x, rows, columns):
    return opc.Spec(sized_shape(rows, columns, x.shape[0]), x.dtype)


@opc.op("test::negated", like="x", inplace={"x": "y"})
def negated(x):
    return -x


@negated.out
def _(x, *, out):
    np.negative(x, out=out)


@opc.op("test::highest", outputs=("places", "values"), shape={"places": ("x[0]",), "values": ("x[0]",)}, dtype={"places": "int64"})
def highest(x):
    return {"values": x.max(axis=1), "places": x.argmax(axis=1)}


kept: List[np.ndarray] = []
bad_kernels = {}


def bad(code: str, part: str, **options):
    def add(function):
        bad_kernels[function.__name__] = (opc.op("bad::" + function.__name__, like="x", **options)(function), code, part)
        return function

    return add


@bad("OPC0623", "has returned 2 arrays, expected 1")
def wrong_count(x):
    return x, x


@bad("OPC0623", "has the shape (3), expected (2,3)")
def wrong_shape(x):
    return x[0]


@bad("OPC0623", "is float64, expected float32")
def wrong_dtype(x):
    return x.astype(np.float64)


@bad("OPC0623", "has the shape (), expected (2,3)")
def scalar_for_a_matrix(x):
    return x.sum()


@bad("OPC0623", "is a NoneType")
def nothing(x):
    pass


@bad("OPC0623", "is a str")
def text(x):
    return "no"


@bad("OPC0624", "has kept its input 'x'")
def keeps_a_view(x):
    kept.append(x[1:])
    return x


@bad("OPC0622", "read-only")
def writes_its_input(x):
    x[0] = 1
    return x


@bad("OPC0622", "WRITEABLE")
def makes_its_input_writable(x):
    x.flags.writeable = True
    return x


@bad("OPC0625", "opc is called inside the kernel of op 'bad::calls_opc'")
def calls_opc(x):
    return run_one(leaky_relu, np.array(x))


own_program = []


@bad("OPC0625", "opc is called inside the kernel of op 'bad::runs_its_own_session'")
def runs_its_own_session(x):
    return own_program[-1].run(x=np.array(x))["y"]


@bad("OPC0625", "opc is called inside the kernel of op 'bad::saves_its_own_session'")
def saves_its_own_session(x):
    own_program[-1].save_weights("w.npz")
    return x


@bad("OPC0622", "ZeroDivisionError")
def raises(x):
    return x / (1 // 0)


def run_one(op, x, **attrs):
    g = opc.Graph()
    g.output("y", op(g.input("x", x.shape, str(x.dtype)), **attrs))
    return g.compile().run(x=x)["y"]


X = np.array([[-4, -2, -1], [0, 1, 2]], "f")
given = []


@opc.op("demo::sees_floats", like="x")
def sees_floats(x, *, by: float = 0.1, several: List[float] = (0.7,)):
    given.append((by, tuple(several)))
    return x


def _replaces(name, **results):
    options = {"outputs": ("y", "z"), "like": {"y": "x", "z": "x"}, "inplace": {"x": "y"}}
    return opc.op(f"pyops::replaces_{name}", **options)(results["kernel"])


replaced = {
    "itself": _replaces("itself", kernel=lambda x: (x + x, x)),
    "views": _replaces("views", kernel=lambda x: {"y": x + x, "z": x[::-1, ::-1]}),
    "listed": _replaces("listed", kernel=lambda x: [x + x, x[:, :]]),
}


@opc.op("pyops::swapped", outputs=("y", "z"), like={"y": "a", "z": "b"}, inplace={"a": "y", "b": "z"})
def swapped(a, b):
    return b, a


@opc.op("pyops::starred")
def starred(*xs, k: float = 1.0):
    return np.concatenate(xs) * np.float32(k)


@starred.infer
def _(*xs, k):
    return opc.Spec((sum(x.shape[0] for x in xs),), xs[0].dtype)


@starred.grad(needs=["xs"])
def _(dy, *, xs, k):
    return [part * np.float32(k) for part in np.split(dy, np.cumsum([len(x) for x in xs])[:-1])]


@opc.op("pyops::starred_out", shape={"y": ("xs[0] * 2",)})
def starred_out(w, *xs):
    return np.concatenate(xs) * w


@starred_out.out
def _(w, *xs, out):
    np.multiply(np.concatenate(xs), w, out=out)


class Values(unittest.TestCase):
    def test_attributes_and_default(self):
        np.testing.assert_array_equal(run_one(leaky_relu, X), np.where(X > 0, X, X * np.float32(0.25)))
        np.testing.assert_array_equal(run_one(leaky_relu, X, alpha=0.5), np.where(X > 0, X, X * np.float32(0.5)))

    def test_floats_are_python_s(self):
        x = np.zeros((1,))
        for by in (0.1, 1 / 3, 1e300, 5e-324, -1e-17, float("inf")):
            del given[:]
            sees_floats(x, by=by, several=(0.1, 3.0))
            run_one(sees_floats, x, by=by, several=(0.1, 3.0))
            self.assertEqual(given, [(by, (float(np.float32(0.1)), 3.0))] * 2)
        del given[:]
        sees_floats(x)
        run_one(sees_floats, x)
        self.assertEqual(given, [(0.1, (float(np.float32(0.7)),))] * 2)
        for kind, call in ((ValueError, sees_floats), (opc.GraphError, lambda x, **attrs: run_one(sees_floats, x, **attrs))):
            with self.assertRaisesRegex(kind, "1e\\+300.*(f32|list of float)"):
                call(x, several=[1e300])

    def test_graphs_of_older_files_have_their_numbers(self):
        """Which hold f32."""
        g = opc.Graph()
        g.output("y", sees_floats(g.input("x", (1,), "f64"), by=0.1))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            g.save(path)
            with open(path, encoding="utf-8") as file:
                text = file.read().replace("at_double: 0.1", "at_float: 0.25")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            del given[:]
            opc.load(path).compile().run(x=np.zeros((1,)))
        self.assertEqual([by for by, _ in given], [0.25])

    def test_on_arrays_it_is_the_function(self):
        np.testing.assert_array_equal(leaky_relu(X), np.where(X > 0, X, X * np.float32(0.25)))

    def test_several_outputs_and_scalars(self):
        g = opc.Graph()
        low, high = min_max(g.input("x", (2, 3)))
        g.output("low", low), g.output("high", high)
        made = g.compile().run(x=X)
        self.assertEqual((made["low"].shape, made["low"], made["high"]), ((), -4, 2))

    def test_variadic_optional_and_formulas(self):
        for bias in (None, np.array([1, 2], "f")):
            g = opc.Graph()
            tensors = [g.input(n, (2, 3)) for n in "ab"]
            feeds = {"a": X, "b": 2 * X}
            if bias is not None:
                feeds["c"] = bias
            y = stack(tensors, g.input("c", (2,)) if bias is not None else None, n=3)
            self.assertEqual(y.shape, (2, 4))
            g.output("y", y)
            want = (3 * X).sum(axis=1) + (0 if bias is None else bias)
            np.testing.assert_array_equal(g.compile().run(**feeds)["y"], np.repeat(want[:, None], 4, axis=1))

    def test_a_rule_in_python(self):
        np.testing.assert_array_equal(run_one(doubled, X), np.concatenate([X, X]))

    def test_answers_of_a_rule_are_those_of_the_inputs_that_are_there(self):
        g = opc.Graph()
        x, b = g.input("x", (2,)), g.input("b", (2,))
        g.output("rows", sized(x, b)), g.output("columns", sized(x, None, b))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            g.save(path)
            loaded = opc.load(path)
        for graph in (g, loaded):
            self.assertEqual([graph.outputs[n].shape for n in ("rows", "columns")], [(2, 1), (1, 2)])
            got = graph.compile().run(x=np.ones(2, "f"), b=np.ones(2, "f"))
            self.assertEqual([got[n].shape for n in ("rows", "columns")], [(2, 1), (1, 2)])

    def test_out(self):
        g = opc.Graph()
        g.output("z", add_out(g.input("x", (2, 3)), g.input("y", (3,))))
        np.testing.assert_array_equal(g.compile().run(x=X, y=X[0])["z"], X + X[0])

    def test_in_place(self):
        g = opc.Graph()
        x = g.input("x", (2, 3))
        t = opc.ops.relu(x)  # a tensor that nobody reads later
        g.output("y", negated(negated(negated(t))))
        np.testing.assert_array_equal(g.compile().run(x=X)["y"], -np.maximum(X, 0))

    def test_in_place_with_several_outputs(self):
        """A result that is a view of an input is there when another output has been written into that input's memory."""
        for kind in ("f32", "bf16"):
            g = opc.Graph()
            x = opc.ops.cast(opc.ops.exp(g.input("x", (2, 3))), dtype=kind)
            for name, op in replaced.items():
                for part, made in zip("yz", op(opc.ops.relu(x))):
                    g.output(f"{name}_{part}", opc.ops.cast(made, dtype="f32"))
            made = g.compile().run(x=np.zeros((2, 3), "f"))
            for name in replaced:
                np.testing.assert_array_equal(made[name + "_y"], np.full((2, 3), 2, "f"), name)
                np.testing.assert_array_equal(made[name + "_z"], np.ones((2, 3), "f"), name)
        g = opc.Graph()
        made = swapped(opc.ops.exp(g.input("a", (4,))), opc.ops.exp(g.input("b", (4,))))
        g.output("y", made.y), g.output("z", made.z)
        got = g.compile().run(a=np.zeros(4, "f"), b=np.ones(4, "f"))
        np.testing.assert_allclose(got["y"], np.full(4, np.e), rtol=1e-6)
        np.testing.assert_array_equal(got["z"], np.ones(4))

    def test_tensors_of_a_star_come_one_by_one(self):
        g = opc.Graph()
        xs = [g.input(f"x{i}", (i + 1,)) for i in range(3)]
        g.output("y", starred(*xs, k=2.0))
        g.output("loss", starred(*xs, k=2.0).sum())
        fed = {f"x{i}": np.arange(i + 1, dtype="f") for i in range(3)}
        expected = np.float32(2) * np.concatenate(list(fed.values()))
        np.testing.assert_array_equal(g.compile().run(**fed)["y"], expected)
        np.testing.assert_array_equal(starred(*fed.values(), k=2.0), expected)
        slopes = g.grad("loss", list(fed)).compile().run(**fed)
        for i in range(3):
            np.testing.assert_array_equal(slopes[f"x{i}.grad"], np.full(i + 1, 2, "f"))
        g = opc.Graph()
        g.output("y", starred_out(g.input("w", ()), g.input("x", (2,)), g.input("x2", (2,))))
        np.testing.assert_array_equal(g.compile().run(w=np.float32(3), x=np.ones(2, "f"), x2=np.ones(2, "f"))["y"], np.full(4, 3))

    def test_a_dict_of_outputs_and_another_element_type(self):
        g = opc.Graph()
        places, values = highest(g.input("x", (2, 3)))
        self.assertEqual((places.dtype, places.shape), ("i64", (2,)))
        g.output("places", places), g.output("values", values)
        made = g.compile().run(x=X)
        np.testing.assert_array_equal(made["places"], X.argmax(axis=1))
        np.testing.assert_array_equal(made["values"], X.max(axis=1))

    def test_types_that_numpy_has(self):
        for kind in ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"):
            x = X.astype(kind)
            np.testing.assert_array_equal(run_one(identity, x), x)

    def test_strided_and_reversed_results_are_copied_right(self):
        np.testing.assert_array_equal(run_one(reversed_rows, X), X[::-1])

    def test_nan_and_infinity_pass(self):
        x = np.array([np.nan, np.inf, -np.inf, -0.0], "f")
        np.testing.assert_array_equal(run_one(identity, x).view(np.uint32), x.view(np.uint32))

    def test_empty_tensors(self):
        self.assertEqual(run_one(identity, np.zeros((0, 3), "f")).shape, (0, 3))

    def test_auxiliary_state_is_a_variable(self):
        g = opc.Graph()
        seen = g.variable("seen", (1,), init=0.0, trainable=False)
        g.output("y", count(g.input("x", (2,)), seen))
        program = g.compile()
        for step in (1, 2, 3):
            np.testing.assert_array_equal(program.run(x=np.zeros(2, "f"))["y"], [step, step])
        self.assertEqual(program.variables["seen"], [3])

    def test_several_auxiliary_states_are_written(self):
        """What reads the second one sees each step's value, as of the first one; and it is a variable, too."""
        g = opc.Graph()
        x = g.input("x", (2,))
        states = [g.variable(n, (1,), init=0.0, trainable=False) for n in ("first", "second")]
        g.output("y", count_all(x, states))
        for state in states:
            g.output("of." + state.op_name, opc.ops.exp(state * 0.5))
        program = g.compile()
        got = [program.run(x=np.zeros(2, "f")) for _ in range(3)]
        self.assertEqual([r["of.first"] for r in got], [r["of.second"] for r in got])
        self.assertGreater(got[2]["of.second"], got[1]["of.second"])
        with self.assertRaises(opc.GraphError) as raised:
            g.output("z", count_all(x, [states[0], states[1] * 2.0]))
            g.compile()
        self.assertEqual(raised.exception.code, "OPC0208")

    def test_random_numbers_follow_from_seed_and_step(self):
        g = opc.Graph()
        g.output("y", noise(g.input("x", (4,))))
        program, x = g.compile(), np.zeros(4, "f")
        first, again, other = program.session(seed=1), program.session(seed=1), program.session(seed=2)
        a = [first.run(x=x)["y"] for _ in range(2)]
        b = [again.run(x=x)["y"] for _ in range(2)]
        np.testing.assert_array_equal(a, b)
        self.assertFalse(np.array_equal(a[0], a[1]))
        self.assertFalse(np.array_equal(a[0], other.run(x=x)["y"]))


@opc.op("test::identity", like="x")
def identity(x):
    return x


@opc.op("test::reversed_rows", like="x")
def reversed_rows(x):
    return x[::-1]


@opc.op("pyops::masked", like="x")
def masked(x):
    return np.ma.masked_less(x.copy(), 0)


class Contract(unittest.TestCase):
    def test_every_bad_kernel_is_an_error_that_names_it(self):
        for name, (op, code, part) in bad_kernels.items():
            with self.subTest(name):
                g = opc.Graph()
                g.output("y", op(g.input("x", (2, 3)), name="node"))
                program = g.compile()
                own_program.append(program)
                for _ in range(2):  # the session stays usable
                    with self.assertRaises(opc.ExecutionError) as caught:
                        program.run(x=X)
                    self.assertEqual(caught.exception.code, code)
                    for said in (part, "bad::" + name, "node"):
                        self.assertIn(said, str(caught.exception))
        kept.clear()
        own_program.clear()

    def test_masks_are_not_dropped(self):
        g = opc.Graph()
        g.output("y", masked(g.input("x", (2, 3))))
        with self.assertRaisesRegex(opc.ExecutionError, r"OPC0623.*pyops::masked: output 'y' is a masked array, and a tensor has no mask") as caught:
            g.compile().run(x=X)
        self.assertIn(".filled(...)", str(caught.exception))

    def test_an_exception_has_the_python_line(self):
        with self.assertRaises(opc.ExecutionError) as caught:
            run_one(bad_kernels["raises"][0], X)
        self.assertIn("test_python_ops.py", str(caught.exception))
        self.assertIn("return x / (1 // 0)", str(caught.exception))

    def test_an_exception_says_what_it_can(self):
        """A zero byte, half a character, and a message that cannot be made: the line is there in any case."""
        class Mute(Exception):
            def __str__(self):
                raise KeyError("no")

        def says(error):
            def kernel(x):
                raise error

            with self.assertRaises(opc.ExecutionError) as caught:
                run_one(opc.op("contract::says", like="x")(kernel), X)
            return str(caught.exception)

        for error, part in ((ValueError("nul \0 \udc80 \u00e9"), "nul \\x00 \\udc80 \u00e9"), (Mute(), "its __str__ raises KeyError")):
            self.assertIn(part, says(error))
            self.assertIn("test_python_ops.py", says(error))

    def test_definitions_that_cannot_be(self):
        for wrong, part in (
            (lambda: opc.op("relu"), "needs a namespace"),
            (lambda: opc.op("a::b", timeout_s=1), "isolation='process'"),
            (lambda: opc.op("a::b", like="z")(lambda x: x), "no input"),
            (lambda: opc.op("a::b", outputs=("y",), inplace={"x": "q"})(lambda x: x), "no output"),
        ):
            with self.assertRaises(ValueError) as caught:
                wrong()
            self.assertIn(part, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "nothing says the shape"):
            opc.op("a::b")(lambda x: x).describe()
        with self.assertRaisesRegex(TypeError, "attributes are"):
            opc.op("a::b", like="x")(_with_set)

    def test_a_second_definition_replaces_for_later_graphs(self):
        def one(x):
            return x + 1

        def two(x):
            return x + 2

        first = opc.op("test::replaced", like="x")(one)
        g = opc.Graph()
        g.output("y", first(g.input("x", (2, 3))))
        program = g.compile()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            second = opc.op("test::replaced", like="x")(two)
        self.assertIn("test::replaced", str(seen[0].message))
        np.testing.assert_array_equal(run_one(second, X), X + 2)
        np.testing.assert_array_equal(program.run(x=X)["y"], X + 1)


def _with_set(x, *, s: set):
    return x


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@opc.op("test::sometimes", like="x")
def sometimes(x):
    sometimes_state[0] += 1
    if sometimes_state[0] % 10 == 0:
        raise RuntimeError("the tenth")
    return x


sometimes_state = [0]


def _raises_above_two(x):
    if x[0] > 2:
        raise ValueError("above two")
    return x


def _chain(op, length):
    g = opc.Graph()
    t = g.input("x", (4,))
    for _ in range(length):
        t = op(t)
    g.output("y", t)
    return g.compile().session()


class Endurance(unittest.TestCase):
    def test_a_hundred_thousand_calls_of_which_one_in_ten_raises(self):
        g = opc.Graph()
        g.output("y", sometimes(g.input("x", (4,)), name="node"))
        session, x = g.compile().session(), np.arange(4, dtype="f")

        def calls(n):
            failed = 0
            for _ in range(n):
                try:
                    session.run(x=x)
                except opc.ExecutionError as error:
                    failed += 1
                    last = str(error)
            for part in ("test::sometimes", "node", "the tenth", "test_python_ops.py"):
                self.assertIn(part, last)
            return failed

        self.assertEqual(calls(10_000), 1_000)
        gc.collect()
        before = resident()
        self.assertEqual(calls(90_000), 9_000)
        gc.collect()
        self.assertLess(resident() - before, 4 << 20)

    def test_forks(self):
        g = opc.Graph()
        g.output("y", identity(g.input("x", (4,))))
        x = np.arange(4, dtype="f")
        program = g.compile()
        program.run(x=x)
        for i in range(100):
            child = os.fork()
            if child == 0:
                g2 = opc.Graph()  # a session of before the fork is the parent's
                g2.output("y", identity(g2.input("x", (4,))))
                right = np.array_equal(g2.compile().run(x=x)["y"], x)
                os._exit(0 if right else 1)
            np.testing.assert_array_equal(program.run(x=x)["y"], x)
            deadline = time.monotonic() + 60
            while True:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    break
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    self.fail(f"child {i} hangs")
                time.sleep(0.0005)
            self.assertEqual(status, 0)

    def run_script(self, script, interrupt=False):
        head = "import sys, threading, time, numpy as np, opc\nfrom test_python_ops import identity\n" \
               "g = opc.Graph()\ng.output('y', identity(g.input('x', (4,))))\nsession = g.compile().session()\n" \
               "x = np.zeros(4, 'f')\nsession.run(x=x)\nprint('ready', flush=True)\n"  # fmt: skip
        child = subprocess.Popen([sys.executable, "-c", head + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
        self.assertEqual(child.stdout.readline(), "ready\n")
        if interrupt:
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=60)
        return child.returncode, errors

    def test_the_interpreter_ends_while_kernels_run(self):
        loop = "def loop():\n    while True: session.run(1000, x=x)\nthreading.Thread(target=loop, daemon=True).start()\ntime.sleep(0.3)\n"
        for _ in range(3):
            self.assertEqual(self.run_script(loop), (0, ""))

    def test_ctrl_c_within_a_kernel(self):
        code, errors = self.run_script("session.run(10**9, x=x)\n", interrupt=True)
        self.assertNotEqual(code, 0)
        self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)

    def test_kernels_side_by_side(self):
        """One leaves its turn to the next: also when one of them raises, when others wait, and when another thread forks."""
        raising = opc.op("test::raises_above_two", like="x")(_raises_above_two)
        g = opc.Graph()
        x = g.input("x", (4,))
        y = opc.ops.relu(leaky_relu(identity(leaky_relu(raising(identity(x))))))
        g.output("y", leaky_relu(identity(y)))
        program, forks = g.compile(), 20
        wrong: List[str] = []

        def work(k):
            session = program.session()
            for i in range(100):
                value = np.full(4, i % 4, "f")
                try:
                    if not np.array_equal(session.run(x=value)["y"], value):
                        wrong.append("values")
                    raised = False
                except opc.ExecutionError:
                    raised = True
                if raised != (i % 4 > 2):
                    wrong.append("an exception")

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for _ in range(forks):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(run_one(identity, X), X) else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        for t in threads:
            t.join(60)
        self.assertFalse(any(t.is_alive() for t in threads))
        self.assertEqual(wrong, [])

    def test_one_kernel_at_a_time_in_the_thread_that_runs_the_session(self):
        inside, seen = [], []

        def watched(x):
            inside.append(threading.get_ident())
            time.sleep(0.002)  # Python goes on in other threads meanwhile
            seen.append((len(inside), inside[0] == threading.get_ident()))
            inside.pop()
            return x

        op = opc.op("test::watched", like="x", side_effect=True)(watched)
        sessions = [_chain(op, 3) for _ in range(8)]
        threads = [threading.Thread(target=lambda s=s: s.run(3, x=np.zeros(4, "f"))) for s in sessions]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(seen, [(1, True)] * (8 * 3 * 3))

    def test_a_step_keeps_its_turn_from_nobody(self):
        """While one session runs its kernels, another one's come in between."""
        long, short = (_chain(identity, n) for n in (400, 1))
        x, turns = np.zeros(4, "f"), []
        stop = threading.Event()

        def work():
            while not stop.is_set():
                turns.append(short.run(x=x)["y"].size)

        long.run(x=x)
        thread = threading.Thread(target=work)
        thread.start()
        long.run(3000)  # a second or more: a busy machine lets the other thread sleep for a tenth
        stop.set()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        self.assertGreater(len(turns), 20)

    def test_threads_with_a_session_each(self):
        g = opc.Graph()
        g.output("y", leaky_relu(g.input("x", (64,))))
        program = g.compile()
        wrong: List[str] = []

        def work(seed):
            session, rng = program.session(), np.random.default_rng(seed)
            for _ in range(200):
                x = rng.standard_normal(64, dtype=np.float32)
                if not np.array_equal(session.run(x=x)["y"], np.where(x > 0, x, x * np.float32(0.25))):
                    wrong.append("values")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertFalse(any(t.is_alive() for t in threads))
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
