"""Training: resumed bit for bit, in Python and at the command line; step by step beside PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import subprocess
import sys
import textwrap
import unittest

import numpy as np

import opc

from scratch import ScratchTest

try:
    import torch
except ImportError:
    torch = None

BATCH, STEPS = 16, 8
RNG = np.random.default_rng(0)
X = RNG.standard_normal((130, 6)).astype("f")
T = RNG.integers(0, 3, 130).astype("i4")


def forward():
    g = opc.Graph("mlp")
    x, t = g.input("x", (BATCH, 6)), g.input("t", (BATCH,), "i32")
    h = opc.ops.relu(x @ g.variable("w1", (6, 10), init=opc.init.normal(std=0.3)) + g.variable("b1", (10,), init=0))
    y = h @ g.variable("w2", (10, 3), init=opc.init.normal(std=0.3)) + g.variable("b2", (3,), init=0)
    g.output("loss", opc.ops.sparse_softmax_cross_entropy(y, t).out.mean())
    return g


def step(optimizer=None, **options):
    return forward().training_step("loss", optimizer or opc.optim.Adam(0.01), **options)


def bits(training):
    return {name: value.tobytes() for name, value in training.variables.items()}


class Training(ScratchTest):
    def test_it_learns(self):
        run = opc.train(step(), {"x": X, "t": T}, epochs=40)
        self.assertEqual((run.step, run.epoch, run.steps_per_epoch), (320, 40, STEPS))
        self.assertLess(run.history[-1]["loss"], 0.8 * run.history[0]["loss"])

    def test_goes_on_bit_for_bit(self):
        options = {"shuffle": True, "seed": 5, "threads": 2}
        whole = opc.train(step(), {"x": X, "t": T}, epochs=3, metrics=self.path("whole.jsonl"), **options)
        ck = self.path("ck.safetensors")
        opc.train(step(), {"x": X, "t": T}, steps=11, save=ck, metrics=self.path("m.jsonl"), **options)
        rest = opc.train(step(), {"x": X, "t": T}, epochs=3, resume=ck, save=ck, metrics=self.path("m.jsonl"), shuffle=True)
        self.assertEqual(bits(rest), bits(whole))
        self.assertEqual(rest.history, whole.history[11:])
        with open(self.path("m.jsonl"), "rb") as a, open(self.path("whole.jsonl"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        with open(self.path("m.jsonl"), encoding="utf-8") as f:
            self.assertEqual([json.loads(line)["step"] for line in f], list(range(1, 25)))

    def test_begun_in_python_finished_by_the_command(self):
        whole = opc.train(step(), {"x": X, "t": T}, epochs=3, shuffle=True, seed=5)
        ck = self.path("ck.safetensors")
        opc.train(step(), {"x": X, "t": T}, epochs=1, shuffle=True, seed=5, save=ck)
        step().save(self.path("step.pbtxt"))
        np.save(self.path("x.npy"), X)
        np.save(self.path("t.npy"), T)
        self.command("run", "step.pbtxt", "--feed-dataset", "x=@x.npy,t=@t.npy", "--shuffle", "--epochs", "3", "--resume", ck, "--save", "end.safetensors")
        program = step().compile()
        program.load_weights(self.path("end.safetensors"))
        self.assertEqual({n: v.tobytes() for n, v in program.variables.items()}, bits(whole))

    def test_weights_are_all_there_or_said_to_be_a_part(self):
        first = opc.train(step(opc.optim.SGD(0.1)), {"x": X, "t": T}, steps=2)
        values = dict(first.variables)
        np.savez(self.path("all.npz"), **values)
        np.savez(self.path("renamed.npz"), **{"w_1" if name == "w1" else name: value for name, value in values.items()})
        again = opc.train(step(opc.optim.SGD(0.0)), {"x": X, "t": T}, steps=1, weights=self.path("all.npz"))
        np.testing.assert_array_equal(again.variables["w1"], values["w1"])
        with self.assertRaises(opc.UsageError) as caught:
            opc.train(step(opc.optim.SGD(0.0)), {"x": X, "t": T}, steps=1, weights=self.path("renamed.npz"))
        self.assertEqual(caught.exception.code, "OPC0717")
        for part in ("lacks 1 of the graph's", "'w1': did you mean 'w_1'?", "partial_weights=True"):
            self.assertIn(part, str(caught.exception))
        part = opc.train(step(opc.optim.SGD(0.0)), {"x": X, "t": T}, steps=1, weights=self.path("renamed.npz"), partial_weights=True)
        np.testing.assert_array_equal(part.variables["w2"], values["w2"])
        self.assertFalse(np.array_equal(part.variables["w1"], values["w1"]))
        with self.assertRaises(opc.UsageError):
            opc.train(step(), {"x": X, "t": T}, steps=1, partial_weights=True)

    def test_another_run_is_refused(self):
        ck = self.path("ck.safetensors")
        opc.train(step(), {"x": X, "t": T}, steps=2, shuffle=True, save=ck)
        for data, options in (({"x": X + 1, "t": T}, {"shuffle": True}), ({"x": X, "t": T}, {}), ({"x": X, "t": T}, {"shuffle": True, "seed": 4})):
            with self.assertRaises(opc.UsageError) as caught:
                opc.train(step(), data, steps=4, resume=ck, **options)
            self.assertEqual(caught.exception.code, "OPC0712")

    def test_wrong_data(self):
        for data, code in (({"x": X, "u": T}, "OPC0611"), ({"x": X[:, :5], "t": T}, "OPC0704"), ({"x": X.astype("d"), "t": T}, "OPC0703"), ({"x": X[:3], "t": T[:3]}, "OPC0704")):
            with self.assertRaises(opc.UsageError) as caught:
                opc.train(step(), data, steps=1)
            self.assertEqual(caught.exception.code, code)

    def test_files_as_data(self):
        np.save(self.path("x.npy"), X)
        np.savez(self.path("d.npz"), t=T)
        a = opc.train(step(), {"x": self.path("x.npy"), "t": self.path("d.npz") + ":t"}, steps=5)
        self.assertEqual(bits(a), bits(opc.train(step(), {"x": X, "t": T}, steps=5)))

    def test_nothing_that_is_not_finite_is_saved(self):
        ck = self.path("ck.safetensors")
        opc.train(step(), {"x": X, "t": T}, steps=1, save=ck)
        with open(ck, "rb") as f:
            before = f.read()
        wild = step(opc.optim.SGD(1e38))
        with self.assertRaises(opc.ExecutionError) as caught:
            opc.train(wild, {"x": X, "t": T}, steps=5, save=ck)
        self.assertEqual(caught.exception.code, "OPC0621")
        with self.assertRaises(opc.ExecutionError):
            opc.train(wild, {"x": X, "t": T}, steps=5, stop_on="nan,inf")
        with open(ck, "rb") as f:
            self.assertEqual(f.read(), before)

    def test_checkpoints_are_safetensors(self):
        for name in ("c.npz", "c.npy", "c.pb"):
            with self.assertRaises(opc.UsageError) as caught:
                opc.train(step(), {"x": X, "t": T}, steps=1, save=self.path(name))
            self.assertEqual(caught.exception.code, "OPC0002")
            self.assertIn("it writes .safetensors, .st", str(caught.exception))
        self.assertEqual(os.listdir(self.folder), [])
        run = opc.train(step(), {"x": X, "t": T}, steps=1, save=self.path("c.st"))
        with self.assertRaises(opc.UsageError):
            run.save(self.path("c.npz"))
        with self.assertRaises(opc.UsageError):
            run.session.save_weights(self.path("w.npy"))
        self.assertEqual(os.listdir(self.folder), ["c.st"])

    def test_validation_and_callbacks(self):
        seen = []
        run = opc.train(step(), {"x": X, "t": T}, epochs=4, validate={"x": X[:64], "t": T[:64]}, validate_graph=forward(),
                        on_step=lambda training, line: seen.append(line["step"]) or training.step == 20)  # fmt: skip
        self.assertEqual(seen, list(range(1, 21)))
        measured = [line["val.loss"] for line in run.history if "val.loss" in line]
        self.assertEqual(len(measured), 2)
        program = forward().compile()
        for name in program.variables:
            program.variables[name] = opc.train(step(), {"x": X, "t": T}, steps=16).variables[name]
        expected = np.mean([program.run(x=X[i : i + BATCH], t=T[i : i + BATCH])["loss"] for i in range(0, 64, BATCH)])
        self.assertAlmostEqual(measured[1], float(expected), places=6)

    def test_ctrl_c_saves_and_goes_on(self):
        ck = self.path("ck.safetensors")
        program = textwrap.dedent(f"""
            import sys; sys.path[:0] = {sys.path!r}
            import opc, test_training as t
            def say(training, line):
                if line["step"] == 3: print("running", flush=True)
            try:
                opc.train(t.step(), {{"x": t.X, "t": t.T}}, steps=10**9, save={ck!r}, on_step=say)
            except KeyboardInterrupt:
                print("interrupted")
        """)
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "running\n")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.communicate(timeout=60)[0], "interrupted\n")
        self.assertEqual(child.returncode, 0)
        done = opc.train(step(), {"x": X, "t": T}, steps=3, resume=ck)
        self.assertGreaterEqual(done.step, 3)

    def test_an_output_called_as_a_number_of_the_run(self):
        g = forward()
        g.output("step", g.input("x2", (BATCH,)).mean())
        run = opc.train(g.training_step("loss", opc.optim.SGD(0.1)), {"x": X, "t": T, "x2": np.ones(130, "f")}, steps=3, metrics=self.path("m.jsonl"), save=self.path("c.st"),
                        keep_best="output.step:max")  # fmt: skip
        self.assertEqual([(line["step"], line["output.step"]) for line in run.history], [(i + 1, 1) for i in range(3)])
        with open(self.path("m.jsonl"), encoding="utf-8") as f:
            self.assertEqual([json.loads(line) for line in f], run.history)

    def test_progress(self):
        program = f"import sys; sys.path[:0] = {sys.path!r}\nimport opc, test_training as t\nopc.train(t.step(), {{'x': t.X, 't': t.T}}, steps=40, on_step=lambda *_: __import__('time').sleep(0.01))"
        import pty

        parent, terminal = pty.openpty()
        subprocess.run([sys.executable, "-c", program], stderr=terminal, check=True, timeout=120)
        os.close(terminal)
        shown = os.read(parent, 65536).decode()
        os.close(parent)
        self.assertRegex(shown, r"epoch \d+  step \d+/40 \[#* *\] +loss ")
        quiet = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, check=True, timeout=120)
        self.assertEqual(quiet.stderr, b"")


@unittest.skipIf(torch is None, "no torch")
class BesideTorch(unittest.TestCase):
    def compare(self, ours, make, steps=12):
        program = ours.compile()
        model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3))
        names = {"w1": model[0].weight, "b1": model[0].bias, "w2": model[2].weight, "b2": model[2].bias}
        with torch.no_grad():
            for name, parameter in names.items():
                parameter.copy_(torch.from_numpy(program.variables[name].T.copy()))
        optimizer, scheduler = make(model.parameters())
        for i in range(steps):
            rows = slice(i % STEPS * BATCH, (i % STEPS + 1) * BATCH)
            loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(X[rows])), torch.from_numpy(T[rows]).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler and scheduler.step()
            found = program.run(x=X[rows], t=T[rows])["loss"]
            self.assertAlmostEqual(float(found), loss.item(), places=5, msg=f"step {i}")
            for name, parameter in names.items():
                np.testing.assert_allclose(program.variables[name], parameter.detach().numpy().T, rtol=1e-4, atol=2e-6, err_msg=f"{name} after step {i}")

    def test_optimizers(self):
        o, t = opc.optim, torch.optim
        for ours, make in ((o.SGD(0.1), lambda p: t.SGD(p, 0.1)), (o.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01), lambda p: t.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
                           (o.Adam(0.01), lambda p: t.Adam(p, 0.01)), (o.Adam(0.01, betas=(0.8, 0.99), amsgrad=True, weight_decay=0.1), lambda p: t.Adam(p, 0.01, (0.8, 0.99), weight_decay=0.1, amsgrad=True)),
                           (o.AdamW(0.01, weight_decay=0.1), lambda p: t.AdamW(p, 0.01, weight_decay=0.1)), (o.Adagrad(0.05), lambda p: t.Adagrad(p, 0.05))):  # fmt: skip
            with self.subTest(op=ours.request["op"]):
                self.compare(step(ours), lambda p, make=make: (make(p), None))

    def test_schedules(self):
        def with_schedule(scheduler):
            def make(parameters):
                optimizer = torch.optim.SGD(parameters, 0.1)
                return optimizer, scheduler(optimizer)

            return make

        s = torch.optim.lr_scheduler
        for schedule, make in ((opc.optim.step(4, 0.5), lambda o: s.StepLR(o, 4, 0.5)), (opc.optim.multi_step([3, 7], 0.3), lambda o: s.MultiStepLR(o, [3, 7], 0.3)),
                               (opc.optim.cosine(12), lambda o: s.CosineAnnealingLR(o, 12))):  # fmt: skip
            self.compare(step(opc.optim.SGD(0.1, schedule=schedule)), with_schedule(make))


if __name__ == "__main__":
    unittest.main()
