# No output of a run replaces a file that the run needs, and none goes where it was not sent.
# SPDX-License-Identifier: Apache-2.0
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as onnx  # noqa: E402
from lost_work import BIN, FED, FORWARD, OPC, Scratch  # noqa: E402


class FilesOfARun(Scratch):
    def content(self, name):
        with open(self.at(name), "rb") as f:
            return f.read()

    def start(self, *flags):
        """A run that goes on until it is told to stop, after its first checkpoint."""
        process = subprocess.Popen(self.command([1, 1], "--steps", "100000000", *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        save = self.at(flags[flags.index("--save") + 1])
        while not os.path.exists(save):
            self.assertIsNone(process.poll(), process.stderr)
            time.sleep(0.01)
        return process

    # Standard files that are closed.

    def test_closed_standard_files(self):
        for closed, code in (((0, 1), 2), ((1,), 2), ((0, 1, 2), 2), ((0,), 0), ((0, 2), 0)):
            with self.subTest(closed):  # what is closed cannot be written to, and is said to be so; the checkpoint is there
                done = self.train([2, 3], "--save", "c.st", code=code, preexec_fn=lambda: [os.close(fd) for fd in closed])
                self.assertEqual("cannot write to the standard output: Bad file descriptor" in done.stderr, code == 2 and 2 not in closed, done.stderr)
                self.assertEqual(self.weight("c.st"), 6)
                os.remove(self.at("c.st"))
        forward = self.write("forward.pbtxt", FORWARD)
        for command, made in (([OPC, "compile", forward, "--shape", "v=3", "-o", "p.plan"], "p.plan"), ([os.path.join(BIN, "opc-runtime"), "p.plan", "--input", "v=3", "--print", "none", "--outputs", "y.npz"], "y.npz")):
            done = subprocess.run(command, cwd=self.folder, stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=lambda: (os.close(0), os.close(1)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(os.path.getsize(self.at(made)), 0)
        done = subprocess.run([OPC, "run", forward, "--input", "v=f32[3]:1,2,3"], stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=lambda: os.close(1))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cannot write to the standard output: Bad file descriptor", done.stderr)

    # Outputs over files of the same run.

    def refused(self, command, *kept):
        before = {name: self.content(name) for name in kept}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"error\[OPC0002\]: the output .* is (another file of this run|the input)")
        self.assertEqual({name: self.content(name) for name in kept}, before)
        return done.stderr

    # The data files of an ONNX model are its own.

    def model(self, name="m.onnx", data="w.bin"):
        """y = x w, with w in a file beside it; a branch's tensor is in another one."""
        weight = np.linspace(-1, 1, 12, dtype=np.float32)
        weight.tofile(self.at(data))
        weight[::-1].tofile(self.at("inner.bin"))
        outer = onnx.external("w", (3, 4), location=data, offset=0, length=48)
        inner = onnx.external("u", (3, 4), location="inner.bin")
        yes = onnx.graph([onnx.node("MatMul", ["x", "u"], ["t"])], [], [onnx.value("t")]) + onnx.field(5, inner)
        no = onnx.graph([onnx.node("MatMul", ["x", "w"], ["e"])], [], [onnx.value("e")])
        graph = onnx.graph([onnx.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)],
                           [onnx.value("x", (2, 3)), onnx.value("c", (), 9)], [onnx.value("y")]) + onnx.field(5, outer)
        with open(self.at(name), "wb") as f:
            f.write(onnx.model(graph))
        return weight.reshape(3, 4)

    def test_the_data_of_a_model(self):
        self.model()
        kept = ("m.onnx", "w.bin", "inner.bin")
        os.symlink(self.folder, self.at("again"))
        given = ["--input", "x=rand", "--input", "c=1"]
        os.mkdir(self.at("deep"))
        for path in ("w.bin", "inner.bin", "again/w.bin", os.path.join(self.folder, ".", "w.bin")):
            for command in (["compile", "m.onnx", "-o", path], ["compile", "m.onnx", "--emit", "mlir", "-o", path], ["compile", "m.onnx", "-o", "p.plan", "--reproducer", path],
                            ["grad", "m.onnx", "--loss", "y", "-o", path], ["show", "m.onnx", "-o", path], ["diff", "m.onnx", "m.onnx", "-o", path],
                            ["report", "m.onnx", "-o", path], ["run", "again/m.onnx", *given, "--output", f"y={path}"], ["run", "m.onnx", *given, "--trace", path],
                            ["run", "m.onnx", *given, "--capture-stats", path]):
                with self.subTest(command):
                    said = self.refused([OPC, *command], *kept)
                    self.assertIn("(the graph's tensors)", said)
                    self.assertIn("give it another name", said)
        self.assertFalse(os.path.exists(self.at("p.plan")))
        self.refused([OPC, "debug", "reduce", "m.onnx", "--check", "opc show {}", "-o", "w.bin"], *kept)
        # Other names are free, and what a model says of itself does not matter to a graph that is none.
        for path in ("w.npy", "deep/w.bin", "y"):
            done = subprocess.run([OPC, "run", "m.onnx", *given, "--output", f"y={path}"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_data_named_as_an_output(self):
        """A tensor y in y.npy, which --outputs would replace, and shards of a model that is written beside itself."""
        weight = self.model(data="y.npy")
        given = ["--input", "x=f32[2,3]:1,2,3,4,5,6", "--input", "c=0"]
        self.refused([OPC, "run", "m.onnx", *given, "--outputs", "."], "m.onnx", "y.npy")
        with open(self.at("a.onnx"), "wb") as f:
            large = np.linspace(-1, 1, 3 << 17, dtype=np.float32).reshape(3, 1 << 17)
            f.write(onnx.model(onnx.graph([onnx.node("MatMul", ["x", "w"], ["y"])], [onnx.value("x", (2, 3))], [onnx.value("y")], [onnx.tensor("w", large)])))
        compiled = subprocess.run([OPC, "compile", "a.onnx", "--emit", "onnx", "-o", "big.onnx"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(compiled.returncode, 0, compiled.stderr)
        (data,) = [name for name in os.listdir(self.folder) if name.startswith("big.onnx.")] # large tensors lie beside the model
        # Of a name that does not say that the file is a model: who replaces big.onnx does not look into it.
        shutil.copy(self.at("big.onnx"), self.at("b"))
        np.savez(self.at("other.npz"), w=-large)
        said = self.refused([OPC, "compile", "b", "--weights", "other.npz", "--emit", "onnx", "-o", "big.onnx"], "b", data)
        self.assertIn("the data beside -o", said)
        self.refused([OPC, "quantize", "b", "--to", "int8-weights", "-o", "big.onnx"], "b", data)
        done = subprocess.run([OPC, "run", "b", given[0], given[1], "--outputs", "r.npz"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        np.testing.assert_allclose(np.load(self.at("r.npz"))["y"], x @ large, rtol=1e-5, atol=1e-5)
        self.assertEqual(weight.tobytes(), self.content("y.npy"))

    def test_training(self):
        forward = self.write("forward.pbtxt", FORWARD)
        self.data([1, 2], "v.npy")
        self.train([2, 3], "--save", "e.st")
        for name in ("s.best.st", "nn.nonfinite", "nn.step10", "s.step2x.st"):
            shutil.copy(self.at("e.st"), self.at(name))
        os.symlink(self.folder, self.at("link"))
        valid = ["--validate", "v=@v.npy", "--validate-graph", "forward.pbtxt"]
        numbered = ["--save-every", "1", "--keep", "2"]
        refusals = [(["--resume", "e.st", "--metrics", "e.st"], "e.st"), (["--resume", "e.st", "--metrics", "./e.st"], "e.st"),
                    (["--weights", "e.st", "--metrics", "link/e.st"], "e.st"), ([*valid, "--metrics", forward], "forward.pbtxt"),
                    ([*valid, "--metrics", "v.npy"], "v.npy"), (["--metrics", "fed.pbtxt"], "fed.pbtxt"), (["--metrics", "x.npy"], "x.npy"),
                    (["--weights", "e.st", "--save", "e.st"], "e.st"),
                    (["--weights", "s.best.st", "--save", "s.st", "--keep-best", "loss"], "s.best.st"),
                    (["--weights", "nn.nonfinite", "--save", "nn"], "nn.nonfinite"), (["--weights", "nn.step10", "--save", "nn", *numbered], "nn.step10"),
                    (["--save", "s.st", "--keep-best", "loss", "--metrics", "s.best.st"], "s.best.st"), (["--save", "nn", *numbered, "--metrics", "nn.step7"], "nn.step10"),
                    (["--save", "same", "--plot", "./same"], "e.st"), (["--metrics", "same", "--plot", self.at("same")], "e.st")]
        for flags, kept in refusals:
            with self.subTest(flags):
                self.refused(self.command([2, 3], *flags), kept)
        self.assertFalse([f for f in os.listdir(self.folder) if f.startswith("same") or f.endswith(".lock")])
        # What a run may do: go on where it was, read what it never writes, name the same device twice.
        self.train([2, 3], "--resume", "e.st", "--save", "e.st", "--epochs", "2")
        self.train([2, 3], "--resume", "nn.step10", "--save", "nn", *numbered, "--epochs", "2")
        self.train([2, 3], "--weights", "s.step2x.st", "--save", "s.st", *numbered)
        self.train([2, 3], "--weights", "s.best.st", "--save", "s.st")
        self.train([2, 3], "--metrics", "/dev/null", "--plot", "/dev/null")

    def test_one_run(self):
        self.write("gg.pbtxt", FORWARD)
        self.write("one.pbtxt", FORWARD.replace('"gap"', '"v"').replace('name: "v" input_conf', 'name: "u" input_conf').replace("v/out", "u/out"))
        np.save(self.at("x9.npy"), np.float32([1, 2, 3]))
        np.save(self.at("y.npy"), np.float32([-1]))
        np.savez(self.at("in.npz"), v=np.float32([1, 2, 3]))
        self.train([2], "--save", "w2.safetensors")
        os.mkdir(self.at("d"))
        np.save(self.at("d/v.npy"), np.float32([1, 2, 3]))
        given = ["--input", "v=@x9.npy"]
        weights, expected = ["--weights", "w2.safetensors"], ["--expect", "gap=@y.npy"]
        refusals = [([*given, "--capture-stats", "gg.pbtxt"], "gg.pbtxt"), ([*given, "--output", "gap=x9.npy"], "x9.npy"), ([*given, "--trace", "x9.npy"], "x9.npy"),
                    ([*given, *weights, "--outputs", "w2.safetensors"], "w2.safetensors"), ([*given, *weights, "--trace", "./w2.safetensors"], "w2.safetensors"),
                    ([*given, *expected, "--output", "gap=y.npy"], "y.npy"), (["--inputs", "in.npz", "--outputs", "in.npz"], "in.npz"),
                    (["--inputs", "d", "--capture", "v*=d", "--capture", "less*=d"], "d/v.npy"), (["--inputs", "d", "--output", "gap=d/v.npy"], "d/v.npy"),
                    ([*given, "--output", "gap=new.npy", "--trace", "./new.npy"], "x9.npy")]
        for flags, kept in refusals[:-3] + refusals[-2:]:
            with self.subTest(flags):
                self.refused([OPC, "run", "gg.pbtxt", *flags], kept)
        # A folder gets the outputs' names: one of them is that of an input.
        self.refused([OPC, "run", "one.pbtxt", "--input", "u=@d/v.npy", "--outputs", "d"], "d/v.npy")
        plan = subprocess.run([OPC, "compile", "gg.pbtxt", "--shape", "v=3", "-o", "g.plan"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.refused([os.path.join(BIN, "opc-runtime"), "g.plan", *given, *weights, "--outputs", "w2.safetensors"], "w2.safetensors")
        # So of compilations.
        cluster = self.write("cluster.json", "{}")
        for flags, kept in ((["--simulate", "cluster.json", "-o", cluster], "cluster.json"), (["-o", "new.plan", "--calibrate", "./new.plan"], "g.plan")):
            self.refused([OPC, "compile", "gg.pbtxt", "--shape", "v=3", *flags], kept)
        # Twice into one folder that is read, too: y.npy is no input.
        os.mkdir(self.at("e"))
        shutil.copy(self.at("d/v.npy"), self.at("e"))
        for program, folder in (([OPC, "run", "gg.pbtxt"], "d"), ([os.path.join(BIN, "opc-runtime"), "g.plan"], "e")):
            for _ in range(2):
                done = subprocess.run([*program, "--inputs", folder, "--outputs", folder], cwd=self.folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_shards(self):
        self.train([2], "--save", "part.safetensors")
        self.write("all.safetensors.index.json", '{"weight_map": {"w": "part.safetensors"}}')
        self.refused(self.command([2], "--weights", "all.safetensors.index.json", "--save", "part.safetensors"), "part.safetensors")

    # Two runs.

    def test_locks_of_derived_names(self):
        first = self.start("--save", "s.st", "--save-every", "1", "--keep", "2", "--keep-best", "loss")
        for name in ("s.best.st", "s.nonfinite.st", "s.step10.st"):
            for flag in ("--save", "--metrics"):
                with self.subTest((flag, name)):
                    done = self.train([1, 1], flag, name, code=2)
                    self.assertIn("error[OPC0718]: another training run writes ", done.stderr)
                    self.assertIn(f"(process {first.pid})", done.stderr)
        os.symlink("s.st", self.at("other"))
        self.assertIn("OPC0718", self.train([1, 1], "--save", "other", code=2).stderr)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(60), 143)
        # Two single numbers do not disturb each other, and do disturb a run that has all of them.
        second = self.start("--save", "t.step10.st", "--save-every", "1")
        self.train([1, 1], "--save", "t.step11.st")
        self.assertIn("OPC0718", self.train([1, 1], "--save", "t.st", "--save-every", "1", "--keep", "1", code=2).stderr)
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(60), 143)
        self.assertFalse([f for f in os.listdir(self.folder) if f.endswith(".lock")])

    # Links and limits.

    def test_links_are_followed(self):
        os.mkdir(self.at("real"))
        os.symlink("real/target.st", self.at("link.st"))
        for values in ([2, 3], [5, 7]):  # the target is made, and is replaced
            self.train(values, "--save", "link.st")
            self.assertTrue(os.path.islink(self.at("link.st")))
            self.assertEqual(self.weight("real/target.st"), np.prod(values))
        self.train([2, 3], "--save", "link.st", "--save-every", "1", "--keep", "1")
        self.assertFalse(os.path.islink(self.at("link.step2.st")))
        self.assertEqual(self.weight("link.step2.st"), 6)
        os.symlink("round", self.at("round"))
        self.train([2, 3], "--save", "round", code=2)
        if os.geteuid():
            return
        # A link of somebody else in a folder that is open to all leads where its owner wants.
        os.mkdir(self.at("open"))
        os.chmod(self.at("open"), 0o1777)
        self.write("mine", "mine\n")
        os.symlink("../mine", self.at("open/trap"))
        os.chown(self.at("open/trap"), 65534, 65534, follow_symlinks=False)
        self.train([2, 3], "--plot", "open/trap")
        self.assertEqual(self.content("mine"), b"mine\n")

    def test_permissions_stay(self):
        """What is replaced keeps who may read it; what is new has what the process gives."""
        self.write("gg.pbtxt", FORWARD)
        command = [OPC, "run", "gg.pbtxt", "--input", "v=f32[3]:1,2,3", "--outputs", "y.npz", "--trace", "t.json", "--print", "none"]
        for mode in (None, 0o600, 0o640, 0o664):
            for name in ("y.npz", "t.json"):
                if mode is not None:
                    os.chmod(self.at(name), mode)
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.folder, preexec_fn=lambda: os.umask(0o022))
            self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("y.npz", "t.json"):
                self.assertEqual(oct(os.stat(self.at(name)).st_mode & 0o777), oct(0o644 if mode is None else mode), name)

    def test_open_files_run_out_at_once(self):
        """However few may be open: a run that begins can write what it learns."""
        codes = set()
        for most in range(4, 14):
            done = subprocess.run(self.command([2, 3], "--save", "c", "--metrics", "m"), capture_output=True, text=True, timeout=60, cwd=self.folder,
                                  preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
            codes.add(done.returncode)
            with self.subTest(most):
                self.assertEqual("step 2 of 2" in done.stdout, done.returncode == 0, done.stdout + done.stderr)
                self.assertEqual(os.path.exists(self.at("c")), done.returncode == 0, done.stderr)
            if os.path.exists(self.at("c")):
                os.remove(self.at("c"))
        self.assertIn(0, codes)
        self.assertGreater(len(codes), 1)


if __name__ == "__main__":
    unittest.main()
