# The main job: both digits networks equal PyTorch's logits, the same bytes for any thread count and folder, plans too.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import unittest

import numpy as np

from folder_test import FolderTest

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")


def run(*command, cwd=None, **kw):
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, **kw)


def opc(*args, cwd=None):
    return run(os.path.join(BIN, "opc"), *args, cwd=cwd)


def data(name):
    return os.path.join(DIGITS, name)


class Digits(FolderTest):
    def arguments(self, net, out):
        return ["--weights", data(f"{net}_weights.npz"), "--input", f"image=@{data('test_images.npy')}", "--outputs", out]

    def check(self, net, accuracy):
        out = os.path.join(self.folder, net)
        done = opc("run", data(f"{net}.pbtxt"), *self.arguments(net, out), "--expect", f"logits=@{data(net + '_test_logits.npy')}",
                   "--rtol", "1e-4", "--atol", "1e-5")
        self.assertEqual(done.returncode, 0, done.stderr)
        logits = np.load(os.path.join(out, "logits.npy"))
        want = np.load(data(f"{net}_test_logits.npy"))
        self.assertEqual((logits.dtype, logits.shape), (want.dtype, want.shape))
        np.testing.assert_allclose(logits, want, rtol=1e-4, atol=1e-5)
        self.assertEqual(int((logits.argmax(1) == np.load(data("test_labels.npy"))).sum()), accuracy)

    def test_mlp(self):
        self.check("mlp", 351)

    def test_cnn(self):
        self.check("cnn", 357)

    def test_wrong_expectation_is_exit_code_1(self):
        wrong = np.load(data("mlp_test_logits.npy")).copy()
        wrong[17, 3] += 1
        np.save(os.path.join(self.folder, "wrong.npy"), wrong)
        done = opc("run", data("mlp.pbtxt"), *self.arguments("mlp", os.path.join(self.folder, "o")), "--expect",
                   f"logits=@{self.folder}/wrong.npy", "--rtol", "1e-4", "--atol", "1e-5")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("17", done.stdout + done.stderr)

    def weights(self, name, **tensors):
        path = os.path.join(self.folder, name)
        np.savez(path, **tensors)
        return path

    def test_weights_that_lack_a_variable(self):
        """Every program that takes weights says which variables they lack; --partial-weights allows it."""
        full = dict(np.load(data("mlp_weights.npz")))
        renamed = {("fc1.w" if k == "fc1_w" else k): v for k, v in full.items() if k != "fc3_b"}
        part, none = self.weights("part.npz", **renamed), self.weights("none.npz", **{f"layer{i}": v for i, v in enumerate(full.values())})
        plan, loss = os.path.join(self.folder, "mlp.plan"), os.path.join(self.folder, "loss.pbtxt")
        self.assertEqual(opc("compile", data("mlp.pbtxt"), "-o", plan).returncode, 0)
        with open(loss, "w") as f:
            for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
                with open(data(name)) as g:
                    f.write(g.read() + "\n")
        image = ["--input", f"image=@{data('test_images.npy')}"]
        programs = [[os.path.join(BIN, "opc"), "run", data("mlp.pbtxt"), *image], [os.path.join(BIN, "opc"), "run", plan, *image],
                    [os.path.join(BIN, "opc-runtime"), plan, *image],
                    [os.path.join(BIN, "opc"), "grad", loss, "--loss", "loss", "--check", "--samples", "1", *image, "--input", f"label=@{data('test_labels.npy')}"]]
        for program in programs:
            with self.subTest(program=program[:2]):
                done = run(*program, "--weights", part)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"error[OPC0717]: {part} lacks 2 of the graph's 6 variables:", done.stderr)
                self.assertRegex(done.stderr, r"  fc1_w +\S+  did you mean 'fc1\.w'\?\n")
                self.assertRegex(done.stderr, r"  fc3_b +\S+\n")
                self.assertIn("--partial-weights", done.stderr)
                done = run(*program, "--weights", part, "--partial-weights")
                self.assertEqual(done.returncode, 0, done.stderr)
                # None of the keys fits: that is never meant.
                for more in ([], ["--partial-weights"]):
                    done = run(*program, "--weights", none, *more)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"none of the 6 tensors of {none} is called like a variable of the graph:", done.stderr)
                    self.assertIn("layer0, layer1", done.stderr)
                done = run(*program, "--weights", none, "--weights", data("mlp_weights.npz"))
                self.assertEqual(done.returncode, 0, done.stderr)
        # What another file or flag gives is not missing.
        rest = self.weights("rest.npz", fc1_w=full["fc1_w"])
        done = run(*programs[0], "--weights", part, "--weights", rest, "--input", "fc3_b=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(*programs[0], "--weights", part, "--partial-weights")
        self.assertIn("no value for 2 variables of 6 (fc1_w, fc3_b)", done.stderr)
        for program in programs[:3]:
            done = run(*program, "--partial-weights")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--partial-weights says how --weights is read", done.stderr)

    def test_a_variable_with_a_slip(self):
        plan = os.path.join(self.folder, "mlp.plan")
        self.assertEqual(opc("compile", data("mlp.pbtxt"), "-o", plan).returncode, 0)
        for graph in (data("mlp.pbtxt"), plan):
            for given, kind, meant in (("fc1_ww", "variable", "fc1_w"), ("imag", "input", "image"), ("nothing_like_it", "input", None)):
                done = opc("run", graph, "--fill", "rand", "--input", f"{given}=0")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"the graph has no {kind} '{given}' (--input {given}=0)", done.stderr)
                self.assertIn(f"did you mean {meant}?" if meant else "the graph has image", done.stderr)

    def test_print_none_prints_nothing(self):
        done = opc("run", data("mlp.pbtxt"), *self.arguments("mlp", os.path.join(self.folder, "o")), "--print", "none")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_missing_input_prints_the_command(self):
        done = opc("run", data("mlp.pbtxt"), "--weights", data("mlp_weights.npz"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("image", done.stderr)
        self.assertRegex(done.stderr, r"opc run .*--fill")

    def test_same_bytes_for_any_threads_and_folder(self):
        """Plan and outputs, for 1 and 2 threads, from two working directories, by name in each."""
        plans, outputs = set(), set()
        for threads in ("1", "2"):
            for place in ("a", "b/c"):
                cwd = os.path.join(self.folder, place, threads)
                os.makedirs(cwd)
                for net in ("cnn.pbtxt", "cnn_weights.npz", "test_images.npy"):
                    shutil.copy(data(net), cwd)
                done = opc("compile", "cnn.pbtxt", "-o", "cnn.plan", "-j", threads, cwd=cwd)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = opc("run", "cnn.pbtxt", "-j", threads, "--weights", "cnn_weights.npz", "--input", "image=@test_images.npy",
                           "--outputs", "out", cwd=cwd)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(os.path.join(cwd, "cnn.plan"), "rb") as f:
                    plans.add(f.read())
                with open(os.path.join(cwd, "out", "logits.npy"), "rb") as f:
                    outputs.add(f.read())
        self.assertEqual((len(plans), len(outputs)), (1, 1))

    def test_random_initializers_are_the_same_everywhere(self):
        seen = set()
        for threads in ("1", "2"):
            out = os.path.join(self.folder, f"r{threads}")
            done = opc("run", data("cnn.pbtxt"), "-j", threads, "--fill", "rand", "--seed", "7", "--outputs", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "logits.npy"), "rb") as f:
                seen.add(f.read())
        self.assertEqual(len(seen), 1)
        self.assertTrue(np.isfinite(np.load(os.path.join(out, "logits.npy"))).all())

    def test_plan_gives_the_same(self):
        plan = os.path.join(self.folder, "mlp.plan")
        done = opc("compile", data("mlp.pbtxt"), "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = []
        for name, command in {"graph": [os.path.join(BIN, "opc"), "run", data("mlp.pbtxt")], "plan": [os.path.join(BIN, "opc"), "run", plan],
                              "runtime": [os.path.join(BIN, "opc-runtime"), plan]}.items():
            out = os.path.join(self.folder, name)
            done = run(*command, *self.arguments("mlp", out))
            self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
            with open(os.path.join(out, "logits.npy"), "rb") as f:
                results.append(f.read())
        self.assertEqual(len(set(results)), 1)

    def test_show(self):
        done = opc("show", data("mlp.pbtxt"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual(shown["schema"], 1)
        self.assertEqual([(i["name"], i["dtype"], i["shape"]) for i in shown["inputs"]], [("image", "f32", [360, 64])])
        self.assertEqual([(o["name"], o["dtype"], o["shape"]) for o in shown["outputs"]], [("logits", "f32", [360, 10])])
        self.assertEqual({v["name"] for v in shown["variables"]}, set(np.load(data("mlp_weights.npz")).files))

    def test_canonical_text_is_a_fixed_point(self):
        once = opc("compile", data("cnn.pbtxt"), "--to", "import", "--emit", "pbtxt", "-o", "-")
        self.assertEqual(once.returncode, 0, once.stderr)
        path = os.path.join(self.folder, "once.pbtxt")
        with open(path, "w") as f:
            f.write(once.stdout)
        twice = opc("compile", path, "--to", "import", "--emit", "pbtxt", "-o", "-")
        self.assertEqual(twice.returncode, 0, twice.stderr)
        self.assertEqual(once.stdout, twice.stdout)


if __name__ == "__main__":
    unittest.main()
