"""What a training run in Python leaves behind: as `opc run --feed-dataset` does, byte by byte where it writes the same."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import threading
import unittest
import warnings
import xml.etree.ElementTree

import numpy as np

import opc

from scratch import ScratchTest
from test_training import RNG, T, X, bits, forward, step

DATA = {"x": X, "t": T}
FLAGS = ("--feed-dataset", "x=@x.npy,t=@t.npy", "--shuffle", "--seed", "5")


class TrainingFiles(ScratchTest):
    def setUp(self):
        super().setUp()
        np.save(self.path("x.npy"), X)
        np.save(self.path("t.npy"), T)
        step().save(self.path("step.pbtxt"))
        forward().save(self.path("forward.pbtxt"))

    def train(self, graph=None, **options):
        return opc.train(graph or step(), DATA, shuffle=True, seed=5, **options)

    def files(self):
        return sorted(set(os.listdir(self.folder)) - {"x.npy", "t.npy", "step.pbtxt", "forward.pbtxt"})

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def variables(self, name):
        program = step().compile()
        program.load_weights(self.path(name))
        return {n: v.tobytes() for n, v in program.variables.items()}

    def test_numbered_checkpoints_stay(self):
        self.train(steps=11, save=self.path("c.st"), save_every=2, keep=3)
        self.assertEqual(self.files(), ["c.st", "c.step10.st", "c.step11.st", "c.step8.st"])
        self.command("run", "step.pbtxt", *FLAGS, "--steps", "11", "--save", "d.st", "--save-every", "2", "--keep", "3")
        for n in (8, 10, 11):
            self.assertEqual(self.variables(f"c.step{n}.st"), self.variables(f"d.step{n}.st"), n)
        done = self.train(steps=14, resume=self.path("c.step10.st"))
        self.assertEqual(bits(done), bits(self.train(steps=14)))

    def test_metrics_and_validation_are_the_command_s(self):
        held = {"x": X[:64], "t": T[:64]}
        np.save(self.path("vx.npy"), held["x"])
        np.save(self.path("vt.npy"), held["t"])
        for every in (0, 3):
            self.train(steps=12, metrics=self.path("ours.jsonl"), metrics_every=every, validate=held, validate_graph=forward(), validate_every=5)
            more = ["--metrics-every", "3"] if every else []
            self.command("run", "step.pbtxt", *FLAGS, "--steps", "12", "--metrics", "theirs.jsonl", *more, "--validate", "x=@vx.npy,t=@vt.npy", "--validate-graph", "forward.pbtxt", "--validate-every", "5")
            self.assertEqual(self.read("ours.jsonl"), self.read("theirs.jsonl"))
        lines = [json.loads(line) for line in self.read("ours.jsonl").splitlines()]
        self.assertEqual([m["step"] for m in lines], [3, 5, 6, 9, 10, 12])

    def test_the_best_state_and_patience(self):
        labels = RNG.integers(0, 3, 64).astype("i4")  # nothing can be learnt of them: the loss on them rises
        other = {"x": RNG.standard_normal((64, 6)).astype("f"), "t": labels}
        np.save(self.path("vx.npy"), other["x"])
        np.save(self.path("vt.npy"), labels)
        run = self.train(step(opc.optim.Adam(0.1)), epochs=60, save=self.path("c.st"), keep_best="val.loss", patience=4, validate=other, validate_graph=forward(), metrics=self.path("m.jsonl"))
        measured = [(m["step"], m["val.loss"]) for m in map(json.loads, self.read("m.jsonl").splitlines()) if "val.loss" in m]
        best = min(measured, key=lambda m: m[1])
        self.assertEqual(run.best, ("val.loss", best[1], best[0]))
        self.assertTrue(run.out_of_patience)
        self.assertEqual(run.step, best[0] + 4 * run.steps_per_epoch)
        self.assertEqual(self.variables("c.best.st"), bits(self.train(step(opc.optim.Adam(0.1)), steps=best[0])))
        step(opc.optim.Adam(0.1)).save(self.path("fast.pbtxt"))
        self.command("run", "fast.pbtxt", *FLAGS, "--epochs", "60", "--save", "d.st", "--keep-best", "val.loss", "--patience", "4", "--validate", "x=@vx.npy,t=@vt.npy", "--validate-graph", "forward.pbtxt")
        self.assertEqual((self.variables("d.best.st"), self.variables("d.st")), (self.variables("c.best.st"), self.variables("c.st")))

    def test_more_may_be_better(self):
        run = self.train(steps=16, save=self.path("c.st"), keep_best="loss:max", save_every=4)
        at = [line for line in run.history if line["step"] % 4 == 0]
        worst = max(at, key=lambda m: m["loss"])
        self.assertEqual(run.best[::2], ("loss", worst["step"]))
        goes_on = self.train(steps=17, resume=self.path("c.st"), save=self.path("c.st"), keep_best="loss:max", save_every=4)
        self.assertEqual(goes_on.best, run.best, "a run that goes on knows what it has had")

    def test_curves(self):
        self.train(steps=5, plot=self.path("curves.svg"))
        root = xml.etree.ElementTree.parse(self.path("curves.svg")).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertIn("loss", self.read("curves.svg").decode())

    def test_what_is_not_finite_lies_beside(self):
        self.train(steps=1, save=self.path("c.st"))
        before, wild = self.read("c.st"), step(opc.optim.SGD(1e38))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with self.assertRaises(opc.ExecutionError) as failure:
                self.train(wild, steps=6, save=self.path("c.st"), save_every=3)
        self.assertEqual(failure.exception.code, "OPC0621")
        self.assertIn("c.nonfinite.st", str(failure.exception))
        self.assertTrue(any(issubclass(w.category, opc.OpcWarning) and "nan" in str(w.message) for w in caught))
        self.assertEqual((self.read("c.st"), self.files()), (before, ["c.nonfinite.st", "c.st"]))

    def test_it_stops_on_what_is_not_finite(self):
        wild = step(opc.optim.SGD(1e38))
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaises(opc.ExecutionError) as failure:
                self.train(wild, steps=50, stop_on=("nan", "inf"), on_step=lambda _, line: seen.append(line["loss"]) and False)
            self.assertEqual(failure.exception.code, "OPC0621")
            self.assertFalse(np.isfinite(seen[-1]))
            self.assertTrue(all(np.isfinite(seen[:-1])))
            self.assertLess(len(seen), 10)

    def test_two_runs_do_not_write_one_file(self):
        started, go_on = threading.Event(), threading.Event()

        def wait(training, line):
            started.set()
            go_on.wait(60)

        other = threading.Thread(target=lambda: self.train(steps=1, save=self.path("c.st"), on_step=wait))
        other.start()
        try:
            self.assertTrue(started.wait(60))
            for options in ({"save": "c.st"}, {"save": "d.st", "metrics": "c.st"}):
                with self.assertRaises(opc.UsageError) as failure:
                    self.train(steps=1, **{k: self.path(v) for k, v in options.items()})
                self.assertEqual(failure.exception.code, "OPC0718")
            refused = self.opc("run", "step.pbtxt", *FLAGS, "--steps", "1", "--save", "c.st")
            self.assertIn("OPC0718", refused.stderr)
        finally:
            go_on.set()
            other.join()
        self.train(steps=2, save=self.path("c.st"))
        self.assertEqual(self.files(), ["c.st"], "no lock stays")

    def test_an_exception_saves_what_was_learnt(self):
        def fail(training, line):
            if line["step"] == 3:
                raise ZeroDivisionError("mine")

        with self.assertRaises(ZeroDivisionError):
            self.train(steps=9, save=self.path("c.st"), on_step=fail)
        self.assertEqual(self.files(), ["c.st"])
        self.assertEqual(bits(self.train(steps=9, resume=self.path("c.st"))), bits(self.train(steps=9)))

    def test_a_data_set_that_becomes_shorter(self):
        """Pages that are no longer there would end the process with SIGBUS."""
        path = self.path("long.npy")

        def cut(training, line):
            os.truncate(path, 4096)

        long = {"x": path, "t": np.tile(T, 100)}
        for data, validation in ((long, {}), (DATA, {"validate": long, "validate_graph": forward(), "validate_every": 1})):
            np.save(path, np.tile(X, (100, 1)))
            with self.subTest(validates=bool(validation)), self.assertRaises(opc.ExecutionError) as failure:
                opc.train(step(), data, shuffle=True, steps=3, on_step=cut, save=self.path("c.st"), **validation)
            self.assertEqual(failure.exception.code, "OPC0702")
            self.assertIn(f"{path}: the file became shorter while it was read", str(failure.exception))
            self.assertNotIn("c.st", self.files())

    def test_a_run_that_is_done_writes_nothing(self):
        self.train(steps=4, save=self.path("c.st"))
        done = self.train(steps=4, resume=self.path("c.st"), save=self.path("d.st"), metrics=self.path("m.jsonl"))
        self.assertEqual((done.step, done.history, self.files()), (4, [], ["c.st"]))

    def test_a_graph_that_trains_nothing(self):
        with self.assertRaisesRegex(opc.UsageError, "trains nothing"):
            opc.train(forward(), DATA, steps=1, save=self.path("c.st"))
        with self.assertWarnsRegex(opc.OpcWarning, "training_step"):
            self.assertIn("loss", opc.train(forward(), DATA, steps=2).history[-1])

    def test_what_cannot_be(self):
        path = self.path("c.st")
        for options, code, part in (
            ({"keep": 2}, "OPC0003", "keep goes with save"), ({"keep": 2, "save": path}, "OPC0003", "save_every"), ({"keep": -1, "save": path, "save_every": 1}, "OPC0003", "keep takes"),
            ({"keep_best": "loss"}, "OPC0003", "keep_best goes with save"), ({"keep_best": "los", "save": path}, "OPC0005", "loss"), ({"keep_best": ":max", "save": path}, "OPC0003", "keep_best is the name"),
            ({"patience": 2}, "OPC0003", "patience goes with keep_best"), ({"metrics_every": 2}, "OPC0003", "metrics_every goes with metrics"), ({"plot": self.path("c.png")}, "OPC0002", "plot"),
            ({"stop_on": "denormal"}, "OPC0003", "stop_on takes"), ({"save": path, "metrics": path}, "OPC0002", "c.st"), ({"save": self.path("no/c.st")}, "OPC0002", "no directory"),
        ):  # fmt: skip
            with self.subTest(options=options), self.assertRaises(opc.UsageError) as failure:
                self.train(steps=1, **options)
            self.assertEqual(failure.exception.code, code)
            self.assertIn(part, str(failure.exception))
            self.assertNotIn("--", str(failure.exception))
        with self.assertRaises(opc.UsageError) as failure:
            opc.train(step(), {"x": self.path("x.npy"), "t": T}, steps=1, metrics=self.path("x.npy"))
        self.assertEqual(failure.exception.code, "OPC0002")
        other = opc.Graph()
        other.output("loss", (other.input("x", (16, 6)) @ other.variable("w9", (6, 1), init=0)).mean())
        with self.assertRaises(opc.UsageError) as failure:
            self.train(steps=1, validate={"x": X}, validate_graph=other)
        self.assertEqual(failure.exception.code, "OPC0005")
        self.assertIn("w9", str(failure.exception))
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
