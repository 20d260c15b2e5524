# Gradients of If, Loop and Scan that only a run decides, from ONNX models through plans. Expected numbers are those of PyTorch's
# autograd on the same computation with Python's own if and for, and of central differences (opc grad --check).
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import messages as m  # noqa: E402

import importlib.util  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32, OPC = np.float32, onnx_import.OPC
BOOL, I64 = 9, 7
PROGRAMS = ((OPC, "run"), (OPC + "-runtime",))


def weights(seed):
    rng = np.random.default_rng(seed)
    return {name: (rng.standard_normal(shape) / 3).astype(F32) for name, shape in {"a": (8, 8), "b": (8, 8), "s": (1, 8), "unused": (2,)}.items()}


def loss_of(nodes, value):
    """loss = sum(value * value)."""
    return [*nodes, m.node("Mul", [value, value], ["squares"]), m.node("ReduceSum", ["squares"], ["loss"], "sum", keepdims=0)]


def model(nodes, inputs, w, outputs=("loss",)):
    return m.model(m.graph(nodes, inputs, [m.value(o) for o in outputs], [m.tensor(k, v) for k, v in w.items()]))


def body(nodes, outputs, states=(("h", (4, 8), 1),)):
    return m.graph(nodes, [m.value("i", (), I64), m.value("c", (), BOOL)] + [m.value(*s) for s in states],
                   [m.value(outputs[0], (), BOOL)] + [m.value(o, None, states[k][2] if k < len(states) else 1) for k, o in enumerate(outputs[1:])])


class Gradients(onnx_import.Case):
    """The methods of onnx/import.py's cases."""

    def ok(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def differentiated(self, data, wrt, *flags, loss="loss"):
        """A plan with NAME.grad for each of wrt."""
        self.file("model.onnx", data)
        self.ok(OPC, "grad", "model.onnx", "--loss", loss, "-o", "g.pbtxt", "--weights-out", "w.safetensors",
                *[f for name in wrt for f in ("--wrt", name)])
        self.ok(OPC, "compile", "g.pbtxt", "-o", "g.plan", *flags)

    def gradients(self, inputs, wrt, program=(OPC, "run"), plan="g.plan"):
        command = [*program, plan, "--print", "none", "--weights", "w.safetensors", "--partial-weights", "--outputs", "g.npz"]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'in{k}.npy', a)}"]
        self.ok(*command)
        made = np.load(self.path("g.npz"))
        return [made[name + ".grad"] for name in wrt]

    def compare(self, inputs, wrt, reference, w, **more):
        """reference(tensors by name) is the loss; what it does not read has a gradient of zeros."""
        tensors = {k: torch.tensor(v, requires_grad=k in wrt) for k, v in {**w, **inputs}.items()}
        reference(tensors).backward()
        for name, got in zip(wrt, self.gradients(inputs, wrt, **more)):
            grad = tensors[name].grad
            want = np.zeros_like(tensors[name].detach().numpy()) if grad is None else grad.numpy()
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=name)

    def check(self, inputs, wrt, *flags, loss="loss"):
        """Central differences."""
        command = [OPC, "grad", "model.onnx", "--loss", loss, "--check", "--samples", "all", *flags]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'check{k}.npy', a)}"]
        return self.ok(*command, *[f for name in wrt for f in ("--wrt", name)])


def branches(w):
    """y = tanh(x @ a) + s where c, else relu(x @ b) * x; loss = sum of squares."""
    yes = m.graph([m.node("MatMul", ["x", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Add", ["q", "s"], ["t"])], [], [m.value("t")])
    no = m.graph([m.node("MatMul", ["x", "b"], ["p"]), m.node("Relu", ["p"], ["q"]), m.node("Mul", ["q", "x"], ["t"])], [], [m.value("t")])
    return model(loss_of([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)], "y"),
                 [m.value("x", (4, 8)), m.value("c", (), BOOL)], {k: w[k] for k in "abs"}, ("loss", "y"))


def choose(t):
    y = torch.tanh(t["x"] @ t["a"]) + t["s"] if t["c"] else torch.relu(t["x"] @ t["b"]) * t["x"]
    return (y * y).sum()


def draw(seed):
    return np.random.default_rng(100 + seed).standard_normal((4, 8)).astype(F32)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Branches(Gradients):
    WRT = ("x", "a", "b", "s")

    def test_both_branches(self):
        for flags in ((), ("--no-fuse",), ("--no-codegen",)):
            for seed in range(3):
                w = weights(seed)
                self.differentiated(branches(w), self.WRT, *flags)
                for c in (True, False):
                    for program in PROGRAMS:
                        self.compare({"x": draw(seed), "c": np.array(c)}, self.WRT, choose, w, program=program)

    def test_the_graph_has_an_if(self):
        self.differentiated(branches(weights(0)), self.WRT)
        with open(self.path("g.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(text.count('op_type_name: "if"'), 2)
        self.assertNotIn('op_type_name: "where"', text)

    def test_differences(self):
        self.file("model.onnx", branches(weights(1)))
        for c in (True, False):
            self.check({"x": draw(1), "c": np.array(c)}, self.WRT)

    def test_second_derivatives(self):
        """The gradient is an `if` that has a gradient itself."""
        w = weights(2)
        self.file("model.onnx", branches(w))
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "x", "-o", "first.pbtxt", "--weights-out", "w.safetensors")
        self.ok(OPC, "grad", "first.pbtxt", "--loss", "x.grad", "--wrt", "a", "--wrt", "x", "-o", "g.pbtxt")
        self.ok(OPC, "compile", "g.pbtxt", "-o", "g.plan")

        def reference(t):
            (first,) = torch.autograd.grad(choose(t), t["x"], create_graph=True)
            return first.sum()

        for c in (True, False):
            got = {}
            inputs = {"x": draw(2), "c": np.array(c)}
            got["a"], got["x"] = self.second(inputs)
            tensors = {k: torch.tensor(v, requires_grad=k in ("x", "a")) for k, v in {**w, **inputs}.items()}
            reference(tensors).backward()
            for name in ("a", "x"):
                grad = tensors[name].grad
                want = np.zeros_like(got[name]) if grad is None else grad.numpy()
                np.testing.assert_allclose(got[name], want, rtol=2e-4, atol=2e-5)

    def second(self, inputs):
        """The outputs of g.plan that are new."""
        with open(self.path("g.pbtxt"), encoding="utf-8") as f:
            names = [line.split('"')[1] for line in f if "name:" in line and ".grad" in line]
        names = {n for n in names if n in ("a.grad", "x.grad_2")}
        self.assertEqual(names, {"a.grad", "x.grad_2"})
        command = [OPC, "run", "g.plan", "--quiet", "--weights", "w.safetensors", "--partial-weights", "--output", "a.grad=ga.npy", "--output", "x.grad_2=gx.npy"]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'in{k}.npy', a)}"]
        self.ok(*command)
        return np.load(self.path("ga.npy")), np.load(self.path("gx.npy"))

    def test_training(self):
        """The condition is of the data; a weight that one branch alone reads is trained by the steps that take it."""
        w = weights(3)
        yes = m.graph([m.node("MatMul", ["x", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Add", ["q", "s"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("MatMul", ["x", "b"], ["p"]), m.node("Relu", ["p"], ["q"]), m.node("Mul", ["q", "x"], ["t"])], [], [m.value("t")])
        nodes = [m.node("ReduceSum", ["x"], ["total"], keepdims=0), m.node("Greater", ["total", "zero"], ["c"]),
                 m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)]
        self.file("model.onnx", model(loss_of(nodes, "y"), [m.value("x", (4, 8))], {**{k: w[k] for k in "abs"}, "zero": np.array(0, F32)}))
        x = np.concatenate([draw(3), np.abs(draw(4)), -np.abs(draw(5))]) # sums of several signs
        np.save(self.path("all.npy"), x)
        for name, rate in (("sgd", 0.01), ("adam", 0.01)):
            tensors = {k: torch.tensor(w[k], requires_grad=True) for k in "abs"}
            self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "a", "--wrt", "b", "--wrt", "s", "--optimizer", name, "--lr", str(rate),
                    "-o", "train.pbtxt", "--weights-out", "w.safetensors")
            self.ok(OPC, "run", "train.pbtxt", "--weights", "w.safetensors", "--partial-weights", "--feed-dataset", "x=@all.npy", "--batch", "4", "--steps", "9",
                    "--metrics", "m.jsonl", "--save", "after.safetensors")
            with open(self.path("m.jsonl"), encoding="utf-8") as f:
                ours = [json.loads(line)["loss"] for line in f]
            optimizer = (torch.optim.SGD if name == "sgd" else torch.optim.Adam)(tensors.values(), lr=rate)
            theirs, taken = [], []
            for k in range(9):
                part = torch.tensor(x[4 * (k % 3):4 * (k % 3) + 4])
                taken.append(bool(part.sum() > 0))
                for t in tensors.values():
                    t.grad = torch.zeros_like(t) # as opc has it for a branch that is not taken
                loss = choose({**tensors, "x": part, "c": taken[-1]})
                theirs.append(loss.item())
                loss.backward()
                optimizer.step()
            self.assertEqual(set(taken), {True, False})
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)
            made = self.saved("after.safetensors")
            for key, want in tensors.items():
                np.testing.assert_allclose(made[key], want.detach().numpy(), rtol=1e-3, atol=1e-5, err_msg=key)

    def saved(self, name):
        """The tensors of a safetensors file in f32."""
        with open(self.path(name), "rb") as f:
            data = f.read()
        start = 8 + int.from_bytes(data[:8], "little")
        found = {}
        for key, entry in json.loads(data[8:start]).items():
            if entry.get("dtype") == "F32":
                begin, end = entry["data_offsets"]
                found[key] = np.frombuffer(data[start + begin:start + end], F32).reshape(entry["shape"])
        return found

    def test_branches_in_branches(self):
        inner = m.graph([m.node("MatMul", ["x", "a"], ["u"])], [], [m.value("u")])
        other = m.graph([m.node("Sin", ["x"], ["u"])], [], [m.value("u")])
        yes = m.graph([m.node("If", ["d"], ["v"], then_branch=inner, else_branch=other), m.node("Mul", ["v", "s"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Exp", ["x"], ["t"])], [], [m.value("t")])
        w = {k: weights(4)[k] for k in "as"}
        wrt = ("x", "a", "s")
        self.differentiated(model(loss_of([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], "y"),
                                  [m.value("x", (4, 8)), m.value("c", (), BOOL), m.value("d", (), BOOL)], w), wrt)

        def reference(t):
            y = ((t["x"] @ t["a"] if t["d"] else torch.sin(t["x"])) * t["s"]) if t["c"] else torch.exp(t["x"])
            return (y * y).sum()

        for c in (True, False):
            for d in (True, False):
                self.compare({"x": draw(4), "c": np.array(c), "d": np.array(d)}, wrt, reference, w)

    def test_a_branch_without_a_gradient_that_nobody_needs(self):
        """Sign has none: x gets zeros there; a weight that no branch hands a gradient on to is said."""
        yes = m.graph([m.node("Sign", ["x"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Mul", ["x", "x"], ["t"])], [], [m.value("t")])
        data = model(loss_of([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], "y"), [m.value("x", (4, 8)), m.value("c", (), BOOL)], {})
        self.file("model.onnx", data)
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "x", "-o", "g.pbtxt")
        self.ok(OPC, "compile", "g.pbtxt", "-o", "g.plan")
        x = draw(0)
        for c, want in ((True, np.zeros_like(x)), (False, 4 * x**3)):
            self.ok(OPC, "run", "g.plan", "--quiet", "--input", "x=" + self.array("x.npy", x), "--input", f"c={int(c)}", "--output", "x.grad=gx.npy")
            np.testing.assert_allclose(np.load(self.path("gx.npy")), want, rtol=1e-4, atol=1e-6)


def turns(w, count=True, most=None, nodes=None, outputs=("go", "h_out"), results=("y",), extra=(), more=()):
    """n turns of h = tanh(h @ a) + s."""
    step = nodes or [m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Add", ["q", "s"], ["h_out"])]
    initializers = dict(w)
    if most is not None:
        initializers["n"] = np.array(most)
    return model(loss_of([m.node("Loop", ["n", "", "x"], list(results), "turns", body=body(step, outputs)), *more], "y" if not more else "z"),
                 [m.value("x", (4, 8)), *extra] + ([m.value("n", (), I64)] if most is None else []), initializers)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Loops(Gradients):
    def until(self, w, most=12):
        """h = tanh(h @ a) + s * h at most `most` times, until its sum is above a limit."""
        nodes = [m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Mul", ["h", "s"], ["r"]), m.node("Add", ["q", "r"], ["h_out"]),
                 m.node("ReduceSum", ["h_out"], ["top"], keepdims=0), m.node("Less", ["top", "limit"], ["go"])]
        return turns(w, most=most, nodes=nodes, extra=[m.value("limit", ())])

    @staticmethod
    def walk(t, most=12):
        h = t["x"]
        made = 0
        for _ in range(most):
            h = torch.tanh(h @ t["a"]) + t["s"] * h
            made += 1
            if not h.sum() < t["limit"]:
                break
        return (h * h).sum(), made

    def test_turns_that_a_condition_ends(self):
        """A known bound, and as many turns as the run finds: one, several, all."""
        wrt, seen = ("x", "a", "s"), set()
        for seed in range(3):
            w = {k: weights(seed)[k] for k in "as"}
            w["s"] = np.abs(w["s"]) + F32(0.8)
            x = np.abs(draw(seed))
            self.differentiated(self.until(w), wrt)
            for limit in (-1.0, 40.0, 60.0, 1e9):
                inputs = {"x": x, "limit": np.array(limit, F32)}
                seen.add(self.walk({k: torch.tensor(v) for k, v in {**w, **inputs}.items()})[1])
                for program in PROGRAMS:
                    self.compare(inputs, wrt, lambda t: self.walk(t)[0], w, program=program)
        self.assertTrue({1, 12} < seen and len(seen) >= 4, seen)

    def test_differences(self):
        w = {k: weights(1)[k] for k in "as"}
        self.file("model.onnx", self.until(w, 5))
        for limit in (-1000.0, 1e9):
            self.check({"x": draw(1), "limit": np.array(limit, F32)}, ("x", "a", "s"))

    def test_no_bound(self):
        """What only the run knows bounds nothing; a loop whose turns read no state needs no bound."""
        w = {k: weights(1)[k] for k in "as"}
        path = self.file("model.onnx", turns(w))
        done = self.opc("grad", path, "--loss", "loss", "--wrt", "x", "-o", "g.pbtxt")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for text in ("OPC0511", "turns", "how many turns there are at most", "--const"):
            self.assertIn(text, done.stderr)
        # The way out.
        for flags in (("--const", "n=3"),):
            self.ok(OPC, "grad", path, "--loss", "loss", "--wrt", "x", "-o", "g.pbtxt", *flags)
        linear = [m.node("Identity", ["c"], ["go"]), m.node("Mul", ["h", "s"], ["h_out"])]
        w = {"s": weights(1)["s"]}
        self.differentiated(turns(w, nodes=linear), ("x",))
        for n in (0, 1, 7, -2):
            self.compare({"x": draw(1), "n": np.array(n)}, ("x",), lambda t, n=n: (t["x"] * t["s"] ** max(n, 0)).square().sum(), w)

    def test_a_bound_in_the_graph(self):
        """most: of a graph file; as many turns as the run says up to it, and none."""
        w = {k: weights(2)[k] for k in "as"}
        path = self.file("model.onnx", turns(w))
        self.ok(OPC, "compile", path, "--to", "shape", "--emit", "pbtxt", "-o", "loop.pbtxt", "--weights-out", "w.safetensors")
        with open(self.path("loop.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        most = 'attr { key: "most" value { at_int64: 0 } }'
        self.assertEqual(text.count(most), 1, text)
        with open(self.path("most.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text.replace(most, most.replace("0", "9")))
        wrt = ("x", "a", "s")
        self.ok(OPC, "grad", "most.pbtxt", "--loss", "loss", "-o", "g.pbtxt", *[f for name in wrt for f in ("--wrt", name)])
        self.ok(OPC, "compile", "g.pbtxt", "-o", "g.plan")

        def reference(t):
            h = t["x"]
            for _ in range(int(t["n"])):
                h = torch.tanh(h @ t["a"]) + t["s"]
            return (h * h).sum()

        for n in (0, 1, 2, 9):
            for program in PROGRAMS:
                self.compare({"x": draw(2), "n": np.array(n)}, wrt, reference, w, program=program)
        done = self.opc("run", self.path("g.plan"), "--input", "x=1", "--input", "n=10", "--weights", self.path("w.safetensors"), "--partial-weights")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("room for 9", done.stderr)

    def test_a_long_scan(self):
        """5,000 turns: gradients of the state, the elements and a captured weight, through rows and the last state."""
        length = 5000
        step = m.graph([m.node("Mul", ["h", "k"], ["p"]), m.node("Add", ["p", "e"], ["q"]), m.node("Tanh", ["q"], ["h_out"]), m.node("Mul", ["h_out", "e"], ["row"])],
                       [m.value("h", (3,)), m.value("e", (3,))], [m.value("h_out"), m.value("row")])
        nodes = [m.node("Scan", ["x", "z"], ["y", "rows"], num_scan_inputs=1, body=step, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1]),
                 m.node("Mul", ["rows", "g"], ["weighed"]), m.node("ReduceSum", ["weighed"], ["first"], keepdims=0), m.node("Mul", ["y", "y"], ["yy"]),
                 m.node("ReduceSum", ["yy"], ["second"], keepdims=0), m.node("Add", ["first", "second"], ["loss"])]
        rng = np.random.default_rng(7)
        w = {"k": np.array([0.5, -0.3, 0.9], F32)}
        wrt = ("x", "z", "k")
        self.differentiated(model(nodes, [m.value("x", (3,)), m.value("z", (3, length)), m.value("g", (3, length))], w), wrt)
        inputs = {"x": rng.standard_normal(3).astype(F32), "z": rng.standard_normal((3, length)).astype(F32), "g": rng.standard_normal((3, length)).astype(F32)}

        def reference(t):
            h, rows = t["x"], []
            for i in reversed(range(length)):
                h = torch.tanh(h * t["k"] + t["z"][:, i])
                rows.append(h * t["z"][:, i])
            return (torch.stack(rows, 1) * t["g"]).sum() + (h * h).sum()

        for program in PROGRAMS:
            self.compare(inputs, wrt, reference, w, program=program)

    def test_states_that_change_places(self):
        """Two states, one that only hands on, a counter, and a branch in the body."""
        yes = m.graph([m.node("MatMul", ["h", "a"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Sin", ["h"], ["t"])], [], [m.value("t")])
        step = [m.node("Less", ["i", "stop"], ["go"]), m.node("Mod", ["i", "two"], ["r"]), m.node("Equal", ["r", "zero"], ["even"]),
                m.node("If", ["even"], ["u"], then_branch=yes, else_branch=no), m.node("Mul", ["u", "g"], ["g_out"]), m.node("Identity", ["g"], ["h_out"]),
                m.node("Add", ["k", "i"], ["k_out"])]
        states = (("h", (4, 8), 1), ("g", (4, 8), 1), ("k", (), I64))
        w = {"a": weights(5)["a"]}
        constants = {"n": np.array(9), "zero": np.array(0), "two": np.array(2)}
        data = model(loss_of([m.node("Loop", ["n", "", "x", "z", "zero"], ["y", "v", "k"], body=body(step, ("go", "h_out", "g_out", "k_out"), states)),
                              m.node("Add", ["y", "v"], ["both"])], "both"),
                     [m.value("x", (4, 8)), m.value("z", (4, 8)), m.value("stop", (), I64)], {**w, **constants})
        wrt = ("x", "z", "a")
        self.differentiated(data, wrt)

        def reference(t):
            h, g = t["x"], t["z"]
            for i in range(9):
                h, g = g, (h @ t["a"] if i % 2 == 0 else torch.sin(h)) * g
                if not i < int(t["stop"]):
                    break
            return ((h + g) * (h + g)).sum()

        for stop in (0, 1, 4, 100):
            inputs = {"x": draw(5) / 2, "z": draw(6) / 2, "stop": np.array(stop)}
            self.compare(inputs, wrt, reference, w)

    def test_rows_that_the_run_counts(self):
        """A condition ends the loop, and what it collects has as many rows as turns: all of them are in the loss, and the last state."""
        w = {k: weights(2)[k] for k in "as"}
        w["s"] = np.abs(w["s"]) + F32(0.8)
        step = [m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Mul", ["h", "s"], ["r"]), m.node("Add", ["q", "r"], ["h_out"]),
                m.node("ReduceSum", ["h_out"], ["top"], keepdims=0), m.node("Less", ["top", "limit"], ["go"]), m.node("Mul", ["q", "h"], ["row"])]
        nodes = [m.node("Loop", ["n", "", "x"], ["y", "rows"], "turns", body=body(step, ("go", "h_out", "row"))), m.node("Mul", ["rows", "rows"], ["rr"]),
                 m.node("ReduceSum", ["rr"], ["first"], keepdims=0), m.node("ReduceSum", ["y"], ["second"], keepdims=0), m.node("Add", ["first", "second"], ["loss"])]
        wrt = ("x", "a", "s")
        self.differentiated(model(nodes, [m.value("x", (4, 8)), m.value("limit", ())], {**w, "n": np.array(7)}), wrt)

        def reference(t):
            h, total = t["x"], 0
            for _ in range(7):
                q = torch.tanh(h @ t["a"])
                total = total + (q * h).square().sum()
                h = q + t["s"] * h
                if not h.sum() < t["limit"]:
                    break
            return total + h.sum()

        for limit in (-1.0, 40.0, 1e9):
            for program in PROGRAMS:
                self.compare({"x": np.abs(draw(2)), "limit": np.array(limit, F32)}, wrt, reference, w, program=program)

    def test_a_loop_in_a_loop(self):
        inner = m.graph([m.node("Less", ["j", "stop"], ["more"]), m.node("Tanh", ["u"], ["v"]), m.node("Mul", ["v", "s"], ["u_out"])],
                        [m.value("j", (), I64), m.value("d", (), BOOL), m.value("u", (4, 8))], [m.value("more", (), BOOL), m.value("u_out")])
        step = [m.node("Less", ["i", "stop"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Loop", ["n", "", "p"], ["w"], body=inner),
                m.node("Add", ["w", "h"], ["h_out"])]
        w = {k: weights(6)[k] for k in "as"}
        wrt = ("x", "a", "s")
        self.differentiated(turns({**w}, most=6, nodes=step, extra=[m.value("stop", (), I64)]), wrt)

        def reference(t):
            h = t["x"]
            for i in range(6):
                u = h @ t["a"]
                for j in range(6):
                    u = torch.tanh(u) * t["s"]
                    if not j < int(t["stop"]):
                        break
                h = u + h
                if not i < int(t["stop"]):
                    break
            return (h * h).sum()

        for stop in (0, 2, 100):
            self.compare({"x": draw(7), "stop": np.array(stop)}, wrt, reference, w)

    def test_the_second_order_at_once(self):
        """Both orders read the states that one loop keeps."""
        w = {k: weights(1)[k] for k in "as"}
        self.file("model.onnx", self.until(w, 4))
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "x", "--order", "2", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
        self.ok(OPC, "compile", "g.pbtxt", "-o", "g.plan")
        x = draw(8) / 2
        for limit in (-1000.0, 1e9):
            t = {**{k: torch.tensor(v) for k, v in w.items()}, "x": torch.tensor(x, requires_grad=True), "limit": torch.tensor(limit)}
            (first,) = torch.autograd.grad(self.walk(t, 4)[0], t["x"], create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), t["x"])
            self.ok(OPC, "run", "g.plan", "--print", "none", "--weights", "w.safetensors", "--partial-weights", "--input", "x=" + self.array("x.npy", x),
                    "--input", f"limit={limit}", "--outputs", "g.npz")
            made = np.load(self.path("g.npz"))
            np.testing.assert_allclose(made["x.grad"], first.detach().numpy(), rtol=2e-4, atol=2e-5)
            np.testing.assert_allclose(made["x.grad.grad"], second.numpy(), rtol=5e-4, atol=5e-5)

    def test_second_derivatives(self):
        w = {k: weights(1)[k] for k in "as"}
        self.file("model.onnx", self.until(w, 4))
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "x", "-o", "first.pbtxt", "--weights-out", "w.safetensors")
        for limit in ("-1000", "1e9"):
            self.ok(OPC, "grad", "first.pbtxt", "--loss", "x.grad", "--wrt", "x", "--wrt", "a", "--check", "--weights", "w.safetensors", "--partial-weights",
                    "--input", "limit=" + limit)


class Kinds(Gradients):
    """What the gradient's loops rely on, and what goes with it. Expected values are formulas."""

    def loops(self, changes, count, rows):
        """Five turns of h = 2 h, with the elements of z and rows h + e, as a graph file with other attributes."""
        step = m.graph([m.node("Add", ["h", "h"], ["h_out"]), m.node("Add", ["h", "e"], ["row"])], [m.value("h", (2,)), m.value("e", (2,))],
                       [m.value("h_out"), m.value("row")])
        data = model([m.node("Scan", ["x", "z"], ["y", "rows"], num_scan_inputs=1, body=step)], [m.value("x", (2,)), m.value("z", (4097, 2))], {}, ("y", "rows"))
        self.file("model.onnx", data)
        self.ok(OPC, "compile", "model.onnx", "--to", "shape", "--emit", "pbtxt", "-o", "l.pbtxt")
        with open(self.path("l.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        for old, new in [(f'attr {{ key: "integer_value" value {{ at_int64: 4097 }} }}', f'attr {{ key: "integer_value" value {{ at_int64: {count} }} }}'), *changes]:
            self.assertEqual(text.count(old), 1, text)
            text = text.replace(old, new)
        self.file("changed.pbtxt", text.encode())
        z = np.arange(2 * 4097, dtype=F32).reshape(4097, 2)
        done = self.opc("run", "changed.pbtxt", "--print", "none", "--input", "x=1", "--input", "z=" + self.array("z.npy", z), "--outputs", "l.npz")
        if done.returncode:
            return done.stderr
        made = np.load(self.path("l.npz"))
        want = np.zeros((4097, 2))
        for number, before in rows.items():
            want[number] = z[number] + before
        np.testing.assert_array_equal(made["rows"], want)
        np.testing.assert_array_equal(made["y"], np.full(2, 2.0 ** max(count, 0)))
        return ""

    def test_fewer_turns_than_rows(self):
        partial = ('key: "partial" value { at_bool: false }', 'key: "partial" value { at_bool: true }')
        reverse = ('key: "reverse" value { at_bool: false }', 'key: "reverse" value { at_bool: true }')
        self.assertEqual(self.loops([partial], 5, {k: 2.0**k for k in range(5)}), "")
        self.assertEqual(self.loops([partial, reverse], 5, {4 - k: 2.0**k for k in range(5)}), "")
        for count in (0, -4):
            self.assertEqual(self.loops([partial], count, {}), "")
            self.assertEqual(self.loops([partial, reverse], count, {}), "")
        self.assertIn("it has made 5 turns, and its results are of 4097", self.loops([], 5, {}))
        most = ('key: "most" value { at_int64: 0 }', 'key: "most" value { at_int64: 4 }')
        self.assertIn("room for 4", self.loops([partial, most], 5, {}))

    def test_what_is_drawn_is_drawn_again(self):
        """loss = sum(y y) with y = mask * x * s / 0.5: the gradient for x is 2 y y / x, with the same mask in every branch and turn."""
        constants = {"ratio": np.array(0.5, F32), "train": np.array(True)}
        s = weights(0)["s"]
        yes = m.graph([m.node("Dropout", ["x", "ratio", "train"], ["p"]), m.node("Mul", ["p", "s"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Neg", ["x"], ["t"])], [], [m.value("t")])
        choice = model(loss_of([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], "y"), [m.value("x", (4, 8)), m.value("c", (), BOOL)],
                       {"s": s, **constants}, ("loss", "y"))
        step = [m.node("Less", ["i", "stop"], ["go"]), m.node("Dropout", ["h", "ratio", "train"], ["p"]), m.node("Mul", ["p", "s"], ["q"]), m.node("Add", ["q", "h"], ["h_out"])]
        body_of = body(step, ("go", "h_out"))
        turns_of = model(loss_of([m.node("Loop", ["n", "", "x"], ["y"], body=body_of)], "y"), [m.value("x", (4, 8)), m.value("stop", (), I64)],
                         {"n": np.array(5), "s": s, **constants}, ("loss", "y"))
        x, seen = draw(9), set()
        for data, flags in ((choice, ("--input", "c=1")), (turns_of, ("--input", "stop=2")), (turns_of, ("--input", "stop=9"))):
            self.differentiated(data, ("x",))
            for seed in ("1", "2"):
                self.ok(OPC, "run", "g.plan", "--print", "none", "--weights", "w.safetensors", "--partial-weights", "--seed", seed, "--input",
                        "x=" + self.array("x.npy", x), *flags, "--outputs", "g.npz")
                made = np.load(self.path("g.npz"))
                np.testing.assert_allclose(made["x.grad"], 2 * made["y"] ** 2 / x, rtol=1e-4, atol=1e-6)
                seen.add(made["y"].tobytes())
        self.assertEqual(len(seen), 6)

    def test_the_other_ways_to_a_plan(self):
        """The backward part alone, recomputation, IR that is written and read, simplified graphs: the same numbers."""
        w = {k: weights(1)[k] for k in "as"}
        self.differentiated(Loops.until(self, w), ("a",))
        inputs = {"x": draw(1), "limit": np.array(1e9, F32)}
        (want,) = self.gradients(inputs, ("a",))
        self.ok(OPC, "compile", "g.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "g.mlir")
        self.ok(OPC, "compile", "g.mlir", "--from", "shape", "-o", "ir.plan")
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "a", "--simplify", "on", "-o", "s.pbtxt")
        self.ok(OPC, "compile", "s.pbtxt", "--native", "-o", "s.plan")
        for plan in ("ir.plan", "s.plan"):
            np.testing.assert_array_equal(self.gradients(inputs, ("a",), plan=plan)[0], want, plan)
        self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--wrt", "a", "--emit", "backward", "-o", "b.pbtxt")
        self.ok(OPC, "compile", "b.pbtxt", "-o", "b.plan")
        for flags in ((), ("--recompute", "sqrt")):
            self.ok(OPC, "grad", "model.onnx", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pbtxt", *flags)
            self.ok(OPC, "compile", "t.pbtxt", "-o", "t.plan")
            self.ok(OPC, "run", "t.plan", "--weights", "w.safetensors", "--partial-weights", "--input", "x=@in0.npy", "--input", "limit=1e9")


class Refusals(Gradients):
    """One error each, with the op; where nothing that was asked for has a gradient that is another one."""

    def no_gradient(self, path, *texts, errors=1):
        done = self.opc("grad", path, "--loss", "loss", "-o", "g.pbtxt", "--wrt", "x")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("error["), errors, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_no_branch_hands_a_gradient_on(self):
        yes = m.graph([m.node("Cast", ["x"], ["u"], to=I64), m.node("Cast", ["u"], ["t"], to=1)], [], [m.value("t")])
        no = m.graph([m.node("Cast", ["x"], ["v"], to=BOOL), m.node("Cast", ["v"], ["u"], to=1), m.node("Add", ["u", "z"], ["t"])], [], [m.value("t")])
        data = model(loss_of([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)], "y"),
                     [m.value("x", (4, 8)), m.value("z", (4, 8)), m.value("c", (), BOOL)], {})
        path = self.file("model.onnx", data)
        self.no_gradient(path, "OPC0505", "does not depend differentiably on x", errors=2)
        done = self.opc("grad", path, "--loss", "loss", "--explain", "x")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("nothing that its graphs make depends on it differentiably", done.stdout)
        self.assertEqual(self.opc("grad", path, "--loss", "loss", "--explain", "z").returncode, 0)

    def graph_of(self, data, *changes):
        """The model as a graph file, with changes of its text."""
        path = self.file("model.onnx", data)
        self.ok(OPC, "compile", path, "--to", "shape", "--emit", "pbtxt", "-o", "g0.pbtxt", "--weights-out", "w.safetensors")
        with open(self.path("g0.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        for old, new in changes:
            self.assertEqual(text.count(old), 1, text)
            text = text.replace(old, new)
        return self.file("changed.pbtxt", text.encode())

    def test_backwards_to_an_unknown_turn(self):
        w = {k: weights(1)[k] for k in "as"}
        reverse = 'key: "reverse" value { at_bool: %s }'
        path = self.graph_of(Loops.until(self, w), (reverse % "false", reverse % "true"))
        self.no_gradient(path, "OPC0511", "turns", "it goes backwards and may end before its turns are made")

    def test_turns_without_number(self):
        w = {k: weights(1)[k] for k in "as"}
        self.no_gradient(self.file("model.onnx", turns(w)), "OPC0511", "turns", "how many turns there are at most", "--const")

    def test_turns_beyond_memory(self):
        w = {k: weights(1)[k] for k in "as"}
        self.no_gradient(self.file("model.onnx", Loops.until(self, w, 1 << 30)), "OPC0511", "the states of 1073741824 turns")

    def test_a_negative_bound(self):
        w = {k: weights(1)[k] for k in "as"}
        most = 'key: "most" value { at_int64: %s }'
        self.no_gradient(self.graph_of(turns(w), (most % "0", most % "-1")), "most is -1")

    def test_a_graph_of_another_interface(self):
        w = {k: weights(1)[k] for k in "as"}
        shapes = "at_list_shape { val { dim: %s } }"
        path = self.graph_of(branches(weights(0)), (shapes % "4 dim: 8", shapes % "8 dim: 4"))
        self.no_gradient(path, "OPC0826", "output 0 of type f32[4,8], expected f32[8,4]")
        more = 'at_string: "op { name: \\"more\\" input_conf { out: \\"out\\" blob_conf { shape { dim: 1 } data_type: kFloat } } } op'
        self.no_gradient(self.graph_of(turns(w), ('at_string: "op', more)), "OPC0826", "has 6 inputs, expected 5")
        more = 'at_string: "op { name: \\"more\\" output_conf { in: \\"in0/out\\" out: \\"out\\" } } op'
        self.no_gradient(self.graph_of(turns(w), ('at_string: "op', more)), "OPC0826", "has 3 outputs, expected 2")

    def test_a_graph_that_cannot_be_read(self):
        w = {k: weights(1)[k] for k in "as"}
        path = self.graph_of(turns(w), ('at_string: "op', 'at_string: "op { nothing } op'))
        self.no_gradient(path, "turns", "in its graph")


if __name__ == "__main__":
    unittest.main()
