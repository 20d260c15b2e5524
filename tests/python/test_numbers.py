"""Numbers that parameters take: those of the command's options, refused in Python's words before anything runs."""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import subprocess
import unittest

import numpy as np

import opc
from opc import _numbers

from scratch import OPC

NAN = float("nan")
X, T = np.zeros((8, 6), "f"), np.zeros(8, "i4")


def forward():
    g = opc.Graph("small")
    y = g.input("x", (4, 6)) @ g.variable("w", (6, 3), init=opc.init.normal())
    g.output("loss", opc.ops.sparse_softmax_cross_entropy(y, g.input("t", (4,), "i32")).out.mean())
    return g


def step(**options):
    return forward().training_step("loss", opc.optim.SGD(0.1), **options)


def train(**options):
    return opc.train(step(), {"x": X, "t": T}, **options)


class Numbers(unittest.TestCase):
    def refuse(self, what, make, values, kind=opc.UsageError):
        for value in values:
            with self.subTest(what=what, value=value), self.assertRaises(kind) as caught:
                make(value)
            text = str(caught.exception)
            self.assertIn(what, text)
            self.assertNotIn("incompatible", text)
            if kind is opc.UsageError:
                self.assertEqual((caught.exception.code, caught.exception.exit_code), ("OPC0003", 2))
                (finding,) = caught.exception.diagnostics
                self.assertIn(what, finding["message"])

    def test_the_ranges_are_those_of_the_command(self):
        said = json.loads(subprocess.run([OPC, "--config", "none", "__commands"], capture_output=True, text=True, check=True).stdout)
        options = {(c["name"], o["name"]): o for c in said["commands"] for o in c["options"]}
        options.update((("", o["name"] or o["letter"]), o) for o in said["common_options"])
        for command, option, name in (("", "j", "threads"), ("run", "--ranks", "ranks"), ("run", "--epochs", "count"), ("run", "--save-every", "count"), ("grad", "--order", "order"),
                                      ("grad", "--lr", "lr"), ("grad", "--weight-decay", "weight_decay"), ("grad", "--clip-norm", "clip_norm"), ("grad", "--accumulate", "accumulate"),
                                      ("compile", "--micro-batches", "micro_batches")):  # fmt: skip
            o, r = options[command, option], _numbers._RANGES[name]
            self.assertEqual((o.get("above", o.get("least")), o.get("most", math.inf), "above" in o, o["takes"]), (r.least, r.most, r.above, r.takes), name)

    def test_sessions(self):
        program = forward().compile()
        for name, values, wrong in (("threads", (-3, 4097, 10**30), ("2", 1.5, True, None)), ("ranks", (-1, 5000), ("2", 1.5)), ("seed", (-1, 2**64), ("x", 1.5, None)),
                                    ("max_memory", (-1, 2**64), (1.5, "1G"))):  # fmt: skip
            self.refuse(name, lambda value, name=name: program.session(**{name: value}), values)
            self.refuse(name, lambda value, name=name: program.session(**{name: value}), wrong, TypeError)
        program.session(threads=np.int64(1), seed=2**64 - 1, max_memory=1 << 30)

    def test_steps_of_a_run(self):
        program = forward().compile()
        inputs = {"x": X[:4], "t": T[:4]}
        self.refuse("run takes", lambda n: program.run(n, **inputs), (0, -5, 2**63, 10**30))
        self.refuse("run(x=array)", lambda n: program.run(n, **inputs), (1.5, True, None, "2", X, inputs), TypeError)
        self.assertEqual(program.default_session.stats["steps"], 0)
        program.run(np.int32(2), **inputs)
        self.assertEqual(program.default_session.step, 2)
        self.refuse("step", lambda n: setattr(program.default_session, "step", n), (-1,))
        self.refuse("step", lambda n: setattr(program.default_session, "step", n), ("a", 1.5), TypeError)

    def test_optimizers(self):
        o = opc.optim
        self.refuse("lr takes", o.SGD, (-1, NAN, math.inf))
        self.refuse("lr takes", o.SGD, ("0.1", None, True), TypeError)
        self.refuse("weight_decay", lambda v: o.AdamW(weight_decay=v), (-1e-9, NAN))
        self.refuse("clip_norm", lambda v: o.Adam(clip_norm=v), (-1, NAN))
        self.refuse("warmup", o.constant, (-1, 2**50))
        self.refuse("betas", lambda v: o.Adam(betas=v), ((0.9,), (0.9, 0.99, 0.999), 0.9), TypeError)
        self.refuse("schedule", lambda v: o.SGD(0.1, schedule=v), ("cosine", 3), TypeError)
        self.refuse("no_decay", lambda v: o.SGD(0.1, no_decay=v), ("b*", [3]), TypeError)
        with self.assertRaises(opc.UsageError):
            o.SGD(0.1, nesterov=True)

    def test_attributes_of_optimizers(self):
        """The operators check them, for graph files as well."""
        o = opc.optim
        for attr, optimizer in (("beta1", o.Adam(betas=(1.5, 0.9))), ("beta1", o.Adam(betas=(1.0, 0.9))), ("beta2", o.Lamb(betas=(0.9, -0.1))), ("beta2", o.AdamW(betas=(0.9, NAN))),
                                ("epsilon", o.Adam(eps=-1)), ("beta", o.SGD(0.1, momentum=-1)), ("beta", o.SGD(0.1, momentum=NAN)), ("decay_rate", o.RMSprop(alpha=1.5)),
                                ("lars_coefficient", o.Lars(coefficient=-1)), ("momentum_beta", o.Lars(momentum=-1)), ("lr_decay", o.Adagrad(lr_decay=-1))):  # fmt: skip
            with self.subTest(optimizer=optimizer.request), self.assertRaises(opc.GraphError) as caught:
                forward().training_step("loss", optimizer)
            self.assertEqual(caught.exception.code, "OPC0205")
            self.assertIn(f"{attr} is ", str(caught.exception))
        forward().training_step("loss", o.Adam(betas=(0.0, 0.999)))

    def test_training_steps_and_gradients(self):
        self.refuse("accumulate", lambda v: step(accumulate=v), (0, -1, 2**32))
        self.refuse("loss_scale", lambda v: step(loss_scale=v), (0, -1, NAN, math.inf))
        self.refuse("loss_scale", lambda v: step(loss_scale=v), ("static", None), TypeError)
        self.refuse("recompute", lambda v: step(recompute=v), (1, -2))
        self.refuse("order", lambda v: forward().grad("loss", order=v), (0, 5, -1))
        self.refuse("order", lambda v: forward().grad("loss", order=v), (1.0, "2"), TypeError)
        with self.assertRaisesRegex(TypeError, "no optimizer"):
            forward().training_step("loss", [opc.optim.SGD(0.1), 0.1])

    def test_compilations(self):
        g = forward()
        self.refuse("micro_batches", lambda v: g.compile(mesh=(2,), micro_batches=v), (0, -1, 1025))
        self.refuse("device_memory", lambda v: g.compile(mesh=(2,), device_memory=v), (-1,))
        self.refuse("mesh", lambda v: g.compile(mesh=v), ((), (0,), (-2, 2), (10**7,), (2, 2, 2, 2, 2)))
        self.refuse("mesh", lambda v: g.compile(mesh=v), (2, "2x4", (1.5,), (True,)), TypeError)
        self.refuse("names rank 2", lambda v: g.compile(mesh=(2,), stages=[v]), ("matmul*=0-7",))
        self.refuse("stages", lambda v: g.compile(mesh=(2,), stages=v), ("matmul*=0", [3]), TypeError)
        self.refuse("sbp", lambda v: g.compile(mesh=(2,), sbp=v), ({"w": 3}, "w=B", {3: "B"}), TypeError)
        self.refuse("shape of 'x'", lambda v: g.compile(shapes={"x": v}), ((-1, 6),))
        self.refuse("shape of 'x'", lambda v: g.compile(shapes={"x": v}), (6, (1.5, 6), "46"), TypeError)
        self.refuse("shapes", lambda v: g.compile(shapes=v), ([("x", (4, 6))], (4, 6)), TypeError)
        self.refuse("did you mean 'fuse'", lambda v: g.facts(fusee=v), (True,), TypeError)

    def test_training(self):
        for name in ("epochs", "steps"):
            self.refuse(name, lambda v, name=name: train(**{name: v}), (0, -1, 2**41))
            self.refuse(name, lambda v, name=name: train(**{name: v}), (1.5, "3", True), TypeError)
        self.refuse("save_every", lambda v: train(save="c.safetensors", save_every=v), (-1,))
        self.refuse("validate_every", lambda v: train(validate={"x": X, "t": T}, validate_graph=forward(), validate_every=v), (-1,))
        self.refuse("threads", lambda v: train(threads=v), (-1, 4097))
        self.refuse("seed", lambda v: train(seed=v), (-1,))
        for options in ({"epochs": 1, "steps": 1}, {"save_every": 1}, {"validate_every": 1}, {"validate": {"x": X, "t": T}}, {"validate_graph": forward()}):
            with self.subTest(options=list(options)), self.assertRaises(opc.UsageError) as caught:
                train(**options)
            self.assertIn(next(iter(options)), str(caught.exception))

    def test_nothing_but_bools_are_truth_values(self):
        g = forward()
        for name in ("simplify", "fuse", "train"):
            self.refuse(f"{name} is True or False", lambda v, name=name: g.compile(**{name: v}), ("no", None, 1), TypeError)
        self.refuse("codegen is True or False", lambda v: g.compile().session(codegen=v), ("no", None), TypeError)
        self.refuse("dy_inputs is True or False", lambda v: g.grad("loss", dy_inputs=v), ("no", None), TypeError)
        self.refuse("trainable is True or False", lambda v: opc.Graph().variable("v", (), trainable=v), ("no", None), TypeError)
        self.refuse("shuffle is True or False", lambda v: train(shuffle=v), ("no", None), TypeError)
        self.refuse("progress is True or False", lambda v: train(progress=v), ("no", 1), TypeError)
        self.refuse("partial is True or False", lambda v: g.compile().load_weights("w.npz", partial=v), ("no", None), TypeError)
        self.refuse("partial_weights is True or False", lambda v: train(weights="w.npz", partial_weights=v), ("no", None), TypeError)
        self.assertEqual(len(g.compile(simplify=np.False_).run(x=X[:4], t=T[:4])), 1)

    def test_a_bool_variable_begins_as_a_bool(self):
        for value in (True, False, np.True_):
            g = opc.Graph()
            g.output("v", ~g.variable("b", (3,), "bool", init=value))
            np.testing.assert_array_equal(g.compile().run()["v"], [not value] * 3)
        self.refuse("is no bool", lambda v: opc.Graph().variable("b", (3,), "bool", init=v), (1.5, NAN, -1, 1, 0, 1e39), TypeError)

    def test_numbers_that_an_attribute_does_not_hold(self):
        x = opc.Graph().input("x", (2,))
        for value in (1e300, -1e39):
            with self.assertRaisesRegex(opc.GraphError, "attribute 'alpha' is .*, expected a number that f32 holds"):
                opc.ops.leaky_relu(x, alpha=value)
        opc.ops.leaky_relu(x, alpha=float("inf"))

    def test_training_steps_have_an_optimizer_and_globs_match(self):
        with self.assertRaisesRegex(opc.UsageError, "none is given"):
            forward().training_step("loss", [])
        self.refuse("no optimizer", lambda v: forward().training_step("loss", v), (None, 3, "adam"), TypeError)
        for globs in (["ww"], ["w", "fc.*"]):
            with self.assertRaisesRegex(opc.UsageError, r"no variable '(ww|fc\.\*)' \(no_decay"):
                forward().training_step("loss", opc.optim.AdamW(no_decay=globs))
        forward().training_step("loss", opc.optim.AdamW(no_decay=["[u-w]"]))

    def test_functions_and_kinds_are_looked_at_before_the_first_step(self):
        self.refuse("on_step is a function", lambda v: train(on_step=v), (5, "f"), TypeError)
        self.refuse("stop_on takes 'nan', 'inf' or both", lambda v: train(stop_on=v), (5, None), TypeError)

    def test_names(self):
        g = opc.Graph()
        for make in (opc.Graph, opc.name_scope, lambda v: g.input(v, (2,)), lambda v: g.variable(v, (2,)), lambda v: g.output(v, g.input("x", (2,)))):
            self.refuse("is a str", make, (3,), TypeError)
        self.refuse("mode", opc.init.xavier, ("fan",), ValueError)


if __name__ == "__main__":
    unittest.main()
