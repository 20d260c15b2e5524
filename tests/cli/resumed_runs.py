# What a run that goes on is given counts, or is refused; and it computes what the run before it computed.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lost_work import OPC, WEIGHT, Scratch, op, output, source  # noqa: E402


class ResumedRuns(Scratch):
    def test_values_given_twice(self):
        self.train([2, 3], "--save", "e.st")
        np.save(self.at("ones.npy"), np.float32([1]))
        for flags, said in ((["--resume", "e.st", "--input", "w=ones"], "--resume e.st has variable 'w', and --input w=ones gives it, too"),
                            (["--resume", "e.st", "--input", "w=@ones.npy"], "--input w=@ones.npy gives it, too"),
                            (["--resume", "e.st", "--weights", "e.st"], "--resume e.st has every variable, and --weights gives them, too"),
                            (["--input", "x=@x.npy"], "--feed-dataset feeds input 'x', and --input x=@x.npy gives it a value, too")):
            with self.subTest(flags):
                done = self.train([2, 3], "--epochs", "2", "--save", "f.st", *flags, code=2)
                self.assertIn(f"error[OPC0001]: {said}" if said.startswith("--resume e.st has") else said, done.stderr)
                self.assertFalse(os.path.exists(self.at("f.st")))
        # An archive may hold more than is wanted, which is said.
        np.savez(self.at("in.npz"), w=np.float32([7]), x=np.float32([7]))
        done = self.train([2, 3], "--epochs", "2", "--save", "f.st", "--resume", "e.st", "--inputs", "in.npz")
        self.assertIn("note: in.npz: w is given by --resume e.st; skipped", done.stderr)
        self.assertIn("note: in.npz: x is given by --feed-dataset; skipped", done.stderr)
        self.assertEqual(self.weight("f.st"), 36)
        # A new run may take a variable from the command line.
        self.train([2, 3], "--input", "w=f32[1]:5", "--save", "g.st")
        self.assertEqual(self.weight("g.st"), 30)

    def adam(self, name, *flags, attributes="beta1=0.9", loss="y_out"):
        linear = source("x", [4, 1]) + WEIGHT.replace("dim: 1", "dim: 1 dim: 1") + op("y", "matmul", {"a": "x/out", "b": "w/out"}, ["out"]) + output("y_out", "y/out_0")
        done = subprocess.run([OPC, "grad", self.write("linear.pbtxt", linear), "--loss", loss, "--optimizer", "adam:" + attributes, *flags, "-o", self.at(name)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.at(name)

    def test_another_graph(self):
        graph = self.adam("step.pbtxt", "--lr", "0.5")
        run = lambda *flags, graph=graph, code=0: self.train([[1]] * 12, *flags, graph=graph, batch="4", code=code)  # noqa: E731
        run("--save", "whole.st")
        run("--steps", "1", "--save", "c.st")
        others = {"beta1": self.adam("beta1.pbtxt", "--lr", "0.5", attributes="beta1=0.8"), "rate": self.adam("rate.pbtxt", "--lr", "0.25")}
        for what, other in others.items():
            with self.subTest(what):
                done = run("--resume", "c.st", "--save", "d.st", graph=other, code=2)
                self.assertIn("error[OPC0712]: c.st is of a run of another graph", done.stderr)
                self.assertIn("--other-graph", done.stderr)
                self.assertFalse(os.path.exists(self.at("d.st")))
                run("--resume", "c.st", "--save", "d.st", "--other-graph", graph=other)
                self.assertNotEqual(self.weight("d.st"), self.weight("whole.st"))
                os.remove(self.at("d.st"))
        # The same one in another form, under another name, its ops and their attributes in another order; and --lr.
        with open(graph) as f:
            text = f.read()
        self.write("commented.pbtxt", "# the same\n" + text)
        binary = subprocess.run([OPC, "compile", graph, "--emit", "pb", "-o", self.at("step.pb")], capture_output=True, text=True)
        self.assertEqual(binary.returncode, 0, binary.stderr)
        for same in ("commented.pbtxt", "step.pb"):
            run("--resume", "c.st", "--save", "d.st", graph=self.at(same))
            self.assertEqual(self.weight("d.st"), self.weight("whole.st"))
        run("--resume", "c.st", "--save", "d.st", "--lr", "0.25")
        run("--resume", "d.st", "--steps", "4")
        self.assertIn("OPC0001", run("--other-graph", code=2).stderr)

    def test_ops_in_another_order(self):
        self.train([2, 3], "--save", "c.st")
        with open(self.graph) as f:
            lines = f.read().splitlines(keepends=True)
        turned = self.write("turned.pbtxt", "".join(reversed(lines)))
        self.train([2, 3], "--resume", "c.st", "--epochs", "2", "--save", "d.st", graph=turned)
        self.assertEqual(self.weight("d.st"), 36)

    def test_checkpoints_that_do_not_say_their_graph(self):
        self.train([2, 3], "--save", "c.st")
        with open(self.at("c.st"), "rb") as f:
            raw = f.read()
        (length,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + length])
        self.assertRegex(header["__metadata__"].pop("graph"), "^[0-9a-f]{16}$")
        with open(self.at("old.st"), "wb") as f:
            f.write(raw[:8] + json.dumps(header).encode().ljust(length) + raw[8 + length :])
        done = self.train([2, 3], "--resume", "old.st", "--epochs", "2", "--save", "d.st")
        self.assertIn("note: old.st does not say what its graph computed", done.stderr)
        self.assertNotIn("does not say", self.train([2, 3], "--resume", "c.st", "--epochs", "2", "--save", "d.st").stderr)

    def test_the_best_that_could_not_be_written(self):
        graph = self.write("big.pbtxt", self.content_of(self.graph).replace("dim: 1 }", "dim: 4096 }", 1))
        flags = ["--save", "c.st", "--save-every", "2", "--keep-best", "loss"]
        done = self.train([5, 3, 4, 2], *flags, code=5, graph=graph, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
        self.assertIn("best loss 2 at step 4, which is not in c.best.st: it could not be written", done.stdout)
        self.assertFalse(os.path.exists(self.at("c.best.st")))
        # A disk that has room again before the end: the best state is from before that.
        process = subprocess.Popen(self.command([2, 0.5] + [1] * 6, *flags, "--epochs", "100000000", graph=graph), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY)))
        while "tried again" not in (line := process.stderr.readline()):
            self.assertNotEqual(line, "")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, err)
        self.assertIn("best loss 0.5 at step 2 in c.best.st", out)
        self.assertEqual(self.step("c.best.st"), 2)
        os.mkdir(self.at("e.best.st"))
        self.assertIn("cannot write e.best.st: it is a directory", self.train([1], "--save", "e.st", "--keep-best", "loss", code=2).stderr)

    def content_of(self, path):
        with open(path) as f:
            return f.read()


if __name__ == "__main__":
    unittest.main()
