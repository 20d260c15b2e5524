# What things are called decides nothing: graphs whose ops, variables, inputs, outputs and files have other names give the same
# plans, gradients, training graphs, plans for meshes, results, trainings and runs on two ranks, but for the names.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

import numpy as np

import weight_files

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
SOURCE = os.environ["OPC_SOURCE_DIR"]
LENGTH = 40  # of every name: lengths must not differ either, so that plans are comparable byte by byte

# Names that once meant something, or look as if they did.
WORST = ["loss_backward_pass_grad", "micro_batch", "my_max_pool_2d_grad", "trainable_false", "optimizer_pass", "train_step",
         "learning_rate", "forward_recompute", "loss_scale", "OPC0203", "opc_boxing", "all_reduce", "conv2d", "w_optimizer"]

# Where a graph file names ops, and tensors by "op/blob".
NAMED = re.compile(r'\b((?:name|s|in|like|ctrl_in_op_name|loss_lbn|learning_rate_lbn|variable_op_names)\s*:\s*)"([^"/:|]*)([^"]*)"')
OP_NAME = re.compile(r'\bname\s*:\s*"([^"]*)"')


def neutral(names):
    return {n: f"op{i:05d}".ljust(LENGTH, "_") for i, n in enumerate(names)}


def worst(names):
    return {n: f"{WORST[(7 * i) % len(WORST)]}_{len(names) - i:05d}".rjust(LENGTH, "x") for i, n in enumerate(names)}


def drawn(names):
    letters = random.Random(11)
    return {n: "".join(letters.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(LENGTH)) for n in names}


def renamed(text, to):
    def one(match):
        known = to.get(match.group(2))
        return f'{match.group(1)}"{known}{match.group(3)}"' if known else match.group(0)
    return NAMED.sub(one, text)


def op_names(text):
    return list(dict.fromkeys(OP_NAME.findall(text)))


def leveled(data, to):
    """Bytes with each name as the number of the op that it is of."""
    for i, name in enumerate(to.values()):
        data = data.replace(name.encode(), f"#{i}".ljust(LENGTH).encode())
    return data


def read(name):
    with open(name, "rb") as f:
        return f.read()


def graphs():
    """Name -> text of every example graph: what the documentation and the tests of the commands use."""
    found = {}
    for path in sorted(glob.glob(os.path.join(SOURCE, "docs/examples/*/*.pbtxt")) +
                       glob.glob(os.path.join(SOURCE, "tests/cli/Inputs/*.pbtxt"))):
        found[os.path.relpath(path, SOURCE)] = read(path).decode()
    digits = "docs/examples/digits/"
    for net in ("mlp", "cnn"):
        found[digits + net + " with loss"] = found[digits + net + ".pbtxt"] + found[digits + net + "_loss.pbtxt"]
    return found


class Renamed(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.tried = 0

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    def run_opc(self, *args):
        return subprocess.run([OPC, *args], capture_output=True, text=True, cwd=self.scratch.name, timeout=300)

    def variants(self, text):
        """The text under each naming, in files of names of their own."""
        for number, naming in enumerate((neutral, worst, drawn)):
            to = naming(op_names(text))
            file = ["graph_under_a_naming.pbtxt", "loss_backward_passes.pbtxt", "qzkxwvjyhgfbtplmnrsc.pbtxt"][number]
            with open(self.path(file), "w") as f:
                f.write(renamed(text, to))
            yield file, to

    def same(self, what, text, command):
        """Runs the command on every variant: it fails on all or on none, and what it writes is the same but for names."""
        results = []
        for file, to in self.variants(text):
            done = self.run_opc(*command(file, to))
            made = read(self.path("out")) if done.returncode == 0 else b""
            made = made[32:] if made.startswith(b"OPCPLAN") else made  # the header has the checksum
            results.append((done.returncode, leveled(made, to).replace(file.encode(), b"FILE".ljust(len(file)))))
            if os.path.exists(self.path("out")):
                os.remove(self.path("out"))
        for other in results[1:]:
            self.assertEqual(results[0][0], other[0], f"{what}: exit codes differ")
            self.assertEqual(results[0][1], other[1], f"{what}: the names decide")
        self.tried += results[0][0] == 0
        return results[0][0] == 0

    def losses(self, text):
        """Ops whose first output may be a loss: the makers of what outputs show."""
        return [m.split("/")[0] for m in re.findall(r'output_conf\s*{[^}]*\bin\s*:\s*"([^"]*)"', text)]

    def test_plans(self):
        for name, text in graphs().items():
            with self.subTest(name):
                self.same(name, text, lambda file, to: ["compile", file, "-o", "out"])
        self.assertGreater(self.tried, 8)

    def test_plans_for_meshes(self):
        for name, text in graphs().items():
            for mesh in ("2", "2x2"):
                with self.subTest(name, mesh=mesh):
                    self.same(name, text, lambda file, to: ["compile", file, "--mesh", mesh, "-o", "out"])
        self.assertGreater(self.tried, 12)

    def gradients(self, *flags):
        """For each loss the text of the graph that opc grad writes, and the plan of that graph."""
        for name, text in graphs().items():
            for loss in self.losses(text)[:1]:
                with self.subTest(name, flags=flags):
                    made = self.same(name, text, lambda file, to: ["grad", file, "--loss", to[loss], "-o", "out", *flags])
                    if not made:
                        continue
                    plain = [self.path("plain.pbtxt"), "--loss", loss, *flags]
                    with open(plain[0], "w") as f:
                        f.write(text)
                    done = self.run_opc("grad", *plain, "-o", "trained.pbtxt")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    trained = read(self.path("trained.pbtxt")).decode()
                    self.same(name + ", differentiated", trained, lambda file, to: ["compile", file, "-o", "out"])
        self.assertGreater(self.tried, 4)

    def test_gradients(self):
        self.gradients()

    def test_training_graphs(self):
        self.gradients("--optimizer", "adam", "--lr", "0.01")

    def test_accumulated_gradients(self):
        self.gradients("--optimizer", "sgd", "--lr", "0.01", "--accumulate", "4")

    def test_results(self):
        """The digits networks with their weights, in files whose entries are renamed, too."""
        digits = os.path.join(SOURCE, "docs/examples/digits")
        images = np.load(os.path.join(digits, "test_images.npy"))
        for net in ("mlp", "cnn"):
            text = read(os.path.join(digits, net + ".pbtxt")).decode()
            weights = dict(np.load(os.path.join(digits, net + "_weights.npz")))
            outputs = []
            for file, to in self.variants(text):
                np.savez(self.path("entries_backward_pass.npz"), **{to.get(k, k): v for k, v in weights.items()})
                np.save(self.path("micro_batch.npy"), images)
                given = next(n for n in op_names(text) if re.search(r'name\s*:\s*"' + n + r'"\s*input_conf', text))
                done = self.run_opc("run", file, "--weights", "entries_backward_pass.npz", "--input",
                                    f"{to[given]}=@micro_batch.npy", "--outputs", "loss_grad.npz", "--print", "none")
                self.assertEqual(done.returncode, 0, done.stderr)
                made = dict(np.load(self.path("loss_grad.npz")))
                outputs.append({leveled(k.encode(), to): v for k, v in made.items()})
            for other in outputs[1:]:
                self.assertEqual(list(outputs[0]), list(other))
                for k, v in outputs[0].items():
                    self.assertEqual(v.tobytes(), other[k].tobytes())

    def trained_graph(self):
        digits = os.path.join(SOURCE, "docs/examples/digits")
        with open(self.path("plain.pbtxt"), "w") as f:
            f.write(read(os.path.join(digits, "mlp.pbtxt")).decode() + read(os.path.join(digits, "mlp_loss.pbtxt")).decode())
        done = self.run_opc("grad", "plain.pbtxt", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss",
                            "--optimizer", "adam", "--lr", "0.002", "-o", "trained.pbtxt")
        self.assertEqual(done.returncode, 0, done.stderr)
        return read(self.path("trained.pbtxt")).decode()

    def training(self, file, to, *ranks):
        """Five steps that are saved, and four more from there: what is in the checkpoints and the metrics, with leveled names. The
        weights are given: which random numbers a variable would begin with is its name's to say."""
        digits = os.path.join(SOURCE, "docs/examples/digits")
        np.savez(self.path("entries_backward_pass.npz"), **{to[k]: v * 0.5 for k, v in np.load(os.path.join(digits, "mlp_weights.npz")).items()})
        for name, of in (("micro_batch.npy", "images"), ("train_step.npy", "labels")):
            np.save(self.path(name), np.load(os.path.join(digits, f"train_{of}.npy")))
        command = ["run", file, "--feed-dataset", f"{to['image']}=@micro_batch.npy,{to['label']}=@train_step.npy", "--batch", "64", "--shuffle",
                   "--seed", "7", "--metrics", "m.jsonl", *ranks]
        made = []
        for more in (["--weights", "entries_backward_pass.npz", "--partial-weights", "--steps", "5", "--save", "half"],
                     ["--resume", "half", "--steps", "9", "--save", "whole"]):
            done = self.run_opc(*command, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            metadata, tensors = weight_files.read_with_metadata(self.path(more[-1]))
            self.assertEqual(metadata["step"], "5" if more[-1] == "half" else "9")
            made.append({leveled(k.encode(), to): (v.dtype, v.shape, v.tobytes()) for k, v in tensors.items()})
        lines = [json.loads(line) for line in read(self.path("m.jsonl")).split(b"\n") if line]
        os.remove(self.path("m.jsonl"))
        self.assertEqual([line["step"] for line in lines], list(range(1, 10)))
        losses = [line[to["loss"]] for line in lines]
        self.assertLess(losses[-1], losses[0])
        return made, [{leveled(k.encode(), to): v for k, v in line.items()} for line in lines]

    def test_trainings(self):
        """Steps, checkpoints, what goes on from them, and losses: on one device, and on two ranks as threads."""
        text = self.trained_graph()
        for ranks in ([], ["--ranks", "2", "--in-process"]):
            results = [self.training(file, to, *ranks) for file, to in self.variants(text)]
            half, whole = results[0][0]
            self.assertGreater(len(whole), 15)  # six variables, each with two moments of Adam, and the steps
            self.assertNotEqual(half, whole)
            for other in results[1:]:
                with self.subTest(ranks=ranks):
                    self.assertEqual(results[0][1], other[1], "the names decide about losses")
                    for a, b in zip(results[0][0], other[0]):
                        self.assertEqual(sorted(a), sorted(b))
                        self.assertEqual([k for k in a if a[k] != b[k]], [], "the names decide about variables")

    def test_results_of_two_ranks(self):
        """As threads: the digits networks, whose layers the planner cuts."""
        digits = os.path.join(SOURCE, "docs/examples/digits")
        np.save(self.path("micro_batch.npy"), np.load(os.path.join(digits, "test_images.npy")))
        for net in ("mlp", "cnn"):
            text = read(os.path.join(digits, net + ".pbtxt")).decode()
            outputs = []
            for file, to in self.variants(text):
                np.savez(self.path("w.npz"), **{to.get(k, k): v for k, v in np.load(os.path.join(digits, net + "_weights.npz")).items()})
                done = self.run_opc("run", file, "--weights", "w.npz", "--input", f"{to['image']}=@micro_batch.npy", "--outputs", "all_reduce.npz",
                                    "--print", "none", "--ranks", "2", "--in-process")
                self.assertEqual(done.returncode, 0, done.stderr)
                outputs.append({leveled(k.encode(), to): (v.shape, v.tobytes()) for k, v in np.load(self.path("all_reduce.npz")).items()})
            self.assertEqual(len(outputs[0]), 1)
            for other in outputs[1:]:
                self.assertEqual(outputs[0], other, f"{net}: the names decide")


if __name__ == "__main__":
    unittest.main()
