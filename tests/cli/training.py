# Training through the command line: accuracy, resuming bit for bit, interrupts and kills, metrics, errors.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

import weight_files

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
OPC = os.path.join(BIN, "opc")


def opc(*args, **kw):
    return subprocess.run([OPC, *args], capture_output=True, text=True, timeout=300, **kw)


def data(name):
    return os.path.join(DIGITS, name)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def philox(seed, stream, index):
    """Philox4x32-10 as its authors define it (doi:10.1145/2063384.2063405)."""
    mask = 0xFFFFFFFF
    c = [index & mask, index >> 32, stream & mask, stream >> 32]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


# A variable that sums up what it is fed; the outputs are what was fed, and the sum before.
SUM = """
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: -1 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 1 } data_type: kFloat initializer { constant_conf { value: 0 } } } }
op { name: "fed" user_conf { op_type_name: "reduce_sum" input { key: "input_tensor" value { s: "x/out" } } output { key: "output_tensor" value { s: "fed/output_tensor_0" } } attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: true } } } }
op { name: "sum" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "w/out" } } input { key: "y" value { s: "fed/output_tensor_0" } } output { key: "z" value { s: "sum/z_0" } } } }
op { name: "keep" user_conf { op_type_name: "assign" input { key: "ref" value { s: "w/out" } } input { key: "value" value { s: "sum/z_0" } } } }
op { name: "last" output_conf { in: "fed/output_tensor_0" } }
op { name: "total" output_conf { in: "w/out" } }
"""


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.mlp = cls.training_graph("mlp")

    @classmethod
    def training_graph(cls, net, dropout=False):
        text = ""
        for name in (f"{net}.pbtxt", f"{net}_loss.pbtxt"):
            with open(data(name)) as f:
                text += f.read() + "\n"
        # The convolutional network normalises by the statistics of each batch while it learns.
        text = text.replace('key: "training" value { at_bool: false }', 'key: "training" value { at_bool: true }')
        if dropout:
            text = text.replace('input { key: "a" value { s: "relu1/y_0" } }', 'input { key: "a" value { s: "drop/out_0" } }')
            text += 'op { name: "drop" user_conf { op_type_name: "dropout" input { key: "in" value { s: "relu1/y_0" } } ' \
                    'output { key: "out" value { s: "drop/out_0" } } output { key: "mask" value { s: "drop/mask_0" } } ' \
                    'attr { key: "rate" value { at_float: 0.25 } } } }\n'
        path = os.path.join(cls.folder, f"{net}{'_dropout' if dropout else ''}_train.pbtxt")
        done = opc("grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", "adam", "--lr", "0.002", "-o", path, input=text)
        if done.returncode:
            raise AssertionError(done.stderr)
        return path

    def path(self, name):
        return os.path.join(self.folder, f"{self._testMethodName}-{name}")

    def flags(self, *more):
        return ["--feed-dataset", f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}", "--batch", "64",
                "--shuffle", "--seed", "7", *more]

    def train(self, *more, graph=None, code=0):
        done = opc("run", graph or self.mlp, *self.flags(*more))
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def lines(self, path):
        with open(path) as f:
            return [json.loads(line) for line in f]

    def accuracy(self, net, checkpoint):
        out = self.path("logits.npy")
        done = opc("run", data(f"{net}.pbtxt"), "--weights", checkpoint, "--input", f"image=@{data('test_images.npy')}",
                   "--output", f"logits={out}", "--print", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        return (np.load(out).argmax(1) == np.load(data("test_labels.npy"))).mean()

    def test_digits_from_random_weights(self):
        save, metrics, plot = self.path("ckpt.safetensors"), self.path("m.jsonl"), self.path("loss.svg")
        done = self.train("--epochs", "20", "--save", save, "--metrics", metrics, "--plot", plot)
        self.assertGreaterEqual(self.accuracy("mlp", save), 0.96)
        self.assertIn("29 of 1437 examples do not fill a batch", done.stderr)
        self.assertRegex(done.stdout, r"^step 440 of 440  loss ")
        steps = self.lines(metrics)
        self.assertEqual([s["step"] for s in steps], list(range(1, 441)))
        self.assertEqual([s["epoch"] for s in steps], [i // 22 + 1 for i in range(440)])
        self.assertAlmostEqual(steps[0]["loss"], np.log(10), delta=0.7)  # random weights know nothing
        self.assertLess(np.mean([s["loss"] for s in steps[-22:]]), 0.1)
        metadata, tensors = weight_files.read_with_metadata(save)
        self.assertEqual((metadata["step"], metadata["epoch"], metadata["seed"]), ("440", "20", "7"))
        self.assertEqual(tensors["train_step"].tolist(), [440])
        with open(plot) as f:
            svg = f.read()
        self.assertTrue(svg.startswith("<svg") and "polyline" in svg and svg.endswith("</svg>\n"))

    def test_convolutional_network(self):
        save = self.path("ckpt.safetensors")
        self.train("--epochs", "20", "--save", save, "-j", "1", graph=self.training_graph("cnn"))
        self.assertGreaterEqual(self.accuracy("cnn", save), 0.98)
        # The moving statistics have followed the batches.
        tensors = weight_files.read_with_metadata(save)[1]
        self.assertTrue((tensors["bn1_mean"] != 0).all() and (tensors["bn1_var"] != 1).all())

    def test_the_graph_is_imported_once(self):
        """A run that trains compiles one graph, once: whoever comes to the import a second time ends it."""
        saved = self.path("saved")
        self.train("--steps", "3", "--save", saved)
        for more in ([], ["--lr", "0.01"], ["--resume", saved], ["--save", self.path("more"), "--metrics", self.path("m.jsonl"), "--json"]):
            for time, code in (("1", 70), ("2", 0)):
                with self.subTest(more=more, time=time):
                    done = opc("run", self.mlp, *self.flags("--steps", "6", *more), env={**os.environ, "OPC_TEST_CRASH": f"import:throw@{time}", "OPC_CRASH_DIR": "none"})
                    self.assertEqual(done.returncode, code, done.stderr)

    def test_threads_do_not_matter(self):
        saves = []
        for j in ("1", "2", "3"):
            saves.append(self.path(f"{j}.safetensors"))
            self.train("--steps", "30", "--save", saves[-1], "-j", j)
        self.assertEqual(len({digest(s) for s in saves}), 1)

    def test_resume_is_the_run_that_was_not_stopped(self):
        graph = self.training_graph("mlp", dropout=True)
        whole, parts = self.path("whole"), self.path("parts")
        self.train("--steps", "60", "--save", whole, "--metrics", whole + ".jsonl", graph=graph)
        self.train("--steps", "17", "--save", parts, "--metrics", parts + ".jsonl", graph=graph)
        with open(parts + ".jsonl", "a") as f:  # steps after the checkpoint, and a line that was cut off
            f.write('{"step":18,"epoch":1,"loss":1}\n{"step":19,"ep')
        for upto in ("23", "60"):  # over the end of an epoch, twice
            self.train("--steps", upto, "--resume", parts, "--save", parts, "--metrics", parts + ".jsonl", graph=graph)
        self.assertEqual(digest(whole), digest(parts))
        self.assertEqual(digest(whole + ".jsonl"), digest(parts + ".jsonl"))
        # The masks count: another seed is another run.
        other = self.path("other")
        done = opc("run", graph, *self.flags()[:-1], "8", "--steps", "60", "--save", other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(digest(other), digest(whole))

    def test_interrupt_finishes_the_step_and_saves(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            save, metrics = self.path(f"{code}"), self.path(f"{code}.jsonl")
            process = subprocess.Popen([OPC, "run", self.mlp, *self.flags("--steps", "100000000", "--save", save, "--save-every", "5", "--metrics", metrics)],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 120
            while not os.path.exists(save) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, code, err)
            self.assertRegex(out, r"^stopped at step \d+ of 100000000")
            step = int(weight_files.read_with_metadata(save)[0]["step"])
            self.assertEqual(self.lines(metrics)[-1]["step"], step)
            whole = self.path(f"{code}-whole")
            self.train("--steps", str(step), "--save", whole)
            self.assertEqual(digest(whole), digest(save))

    def test_kills_leave_a_checkpoint_that_resumes(self):
        steps, kills = 120, int(os.environ.get("OPC_KILLS", "4"))
        whole, save = self.path("whole"), self.path("ckpt")
        start = time.monotonic()
        self.train("--steps", str(steps), "--save", whole, "--save-every", "1")
        seconds = time.monotonic() - start
        rng = random.Random(1)
        for kill in range(kills):
            if os.path.exists(save):
                os.remove(save)
            more = ["--steps", str(steps), "--save", save, "--save-every", "1"]
            process = subprocess.Popen([OPC, "run", self.mlp, *self.flags(*more)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, seconds))
            process.kill()
            process.wait(timeout=60)
            if os.path.exists(save):
                metadata, tensors = weight_files.read_with_metadata(save)  # readable and complete
                self.assertEqual(tensors["train_step"].tolist(), [int(metadata["step"])])
                more += ["--resume", save]
            self.train(*more)
            self.assertEqual(digest(save), digest(whole), f"kill {kill}")
        # What a kill leaves of a file that was being written is removed by a later run; what others have there stays.
        gone = subprocess.Popen(["true"])
        gone.wait()
        parts = [f"{save}.tmp.{pid}.0" for pid in (gone.pid, os.getpid(), "x")]
        for part in parts:
            with open(part, "w"):
                os.utime(part, (1, 1))
        self.train("--steps", "1", "--save", save)
        self.assertEqual([os.path.exists(part) for part in parts], [False, True, True])

    def test_shuffling_is_fisher_yates_over_philox(self):
        graph, file, metrics = self.path("sum.pbtxt"), self.path("x.npy"), self.path("m.jsonl")
        with open(graph, "w") as f:
            f.write(SUM)
        np.save(file, np.arange(5, dtype=np.float32))
        done = opc("run", graph, "--feed-dataset", f"x=@{file}", "--batch", "1", "--shuffle", "--seed", "3", "--epochs", "2", "--metrics", metrics)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = []
        for epoch in range(2):
            order = list(range(5))
            for i in range(4, 0, -1):
                high, low = philox(3, epoch, i)[:2]
                j = ((high << 32 | low) * (i + 1)) >> 64
                order[i], order[j] = order[j], order[i]
            expected += order
        lines = self.lines(metrics)
        self.assertEqual([m["last"] for m in lines], expected)
        self.assertEqual([m["total"] for m in lines], np.cumsum(expected).tolist())  # after the step
        # Without --shuffle in order, in batches, with the rest left out; every other step in the metrics.
        done = opc("run", graph, "--feed-dataset", f"x=@{file}", "--batch", "2", "--epochs", "2", "--metrics", metrics, "--metrics-every", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.lines(metrics), [{"step": 2, "epoch": 1, "last": 5, "total": 6}, {"step": 4, "epoch": 2, "last": 5, "total": 12}])

    def test_numbers_of_every_type_are_watched(self):
        """Losses in half precision, too; and an output that is called as a line's own number leaves that as it is."""
        cast = 'op {{ name: "as_{0}" user_conf {{ op_type_name: "cast" input {{ key: "in" value {{ s: "sum/z_0" }} }} output {{ key: "out" value {{ s: "as_{0}/out_0" }} }} ' \
               'attr {{ key: "dtype" value {{ at_data_type: {1} }} }} }} }}\nop {{ name: "{0}" output_conf {{ in: "as_{0}/out_0" }} }}\n'
        kinds = {"half": "kFloat16", "brain": "kBFloat16", "byte": "kUInt8", "short": "kInt16", "step": "kInt64", "epoch": "kFloat"}
        graph, file, metrics, save = (self.path(n) for n in ("types.pbtxt", "x.npy", "m.jsonl", "c.st"))
        with open(graph, "w", encoding="utf-8") as f:
            f.write(SUM + "".join(cast.format(*k) for k in kinds.items()))
        np.save(file, np.float32([2, 3, 4, 5]))
        train = lambda *more: opc("run", graph, "--feed-dataset", f"x=@{file}", "--batch", "1", "--metrics", metrics, "--save", save, *more)  # noqa: E731
        done = train("--steps", "3", "--keep-best", "output.step:max")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = train("--resume", save, "--stop-on", "inf")
        self.assertEqual(done.returncode, 0, done.stderr)
        sums = [2, 5, 9, 14]
        names = [("output." if n in ("step", "epoch") else "") + n for n in kinds]
        self.assertEqual(self.lines(metrics), [{"step": i + 1, "epoch": 1, "last": i + 2, "total": s, **dict.fromkeys(names, s)} for i, s in enumerate(sums)])
        np.save(file, np.float32([2, 3, 70000, 5]))  # no f16 holds it
        done = train("--stop-on", "inf")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("half inf at step 3", done.stderr)

    def test_resume_needs_no_initializers(self):
        graph = self.path("g.pbtxt")
        with open(self.mlp) as f:
            text = f.read()
        with open(graph, "w") as f:
            f.write(re.sub(r"initializer \{ msra_conf \{[^}]*\} \}", "", text))
        weights, parts, whole = (self.path(n) for n in ("w.npz", "parts", "whole"))
        rng = np.random.default_rng(1)
        np.savez(weights, **{f"fc{i}_w": rng.normal(0, 0.1, s).astype(np.float32) for i, s in ((1, (128, 64)), (2, (64, 128)), (3, (10, 64)))})
        self.assertIn("OPC0004", opc("run", graph, *self.flags("--steps", "1")).stderr)
        # The rest, biases and the optimizer's state, begins anew; that is said.
        done = self.train("--steps", "6", "--weights", weights, "--save", whole, graph=graph, code=2)
        self.assertRegex(done.stderr, r"error\[OPC0717\]: \S+ lacks \d+ of the graph's \d+ variables:")
        weights = (weights, "--partial-weights")
        self.train("--steps", "6", "--weights", *weights, "--save", whole, graph=graph)
        self.train("--steps", "2", "--weights", *weights, "--save", parts, graph=graph)
        self.train("--steps", "6", "--resume", parts, "--save", parts, graph=graph)
        self.assertEqual(digest(parts), digest(whole))

    def test_every_optimizer_learns_and_resumes(self):
        """With everything that has state: schedule, accumulation, dynamic loss scale, clipping."""
        text = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(data(name)) as f:
                text += f.read() + "\n"
        for name, lr in (("sgd", 0.5), ("momentum", 0.1), ("adam", 0.005), ("adamw", 0.005), ("lamb", 0.02), ("rmsprop", 0.003), ("adagrad", 0.03), ("lars", 40)):
            with self.subTest(optimizer=name):
                graph, whole, parts = (self.path(name + n) for n in (".pbtxt", "-whole", "-parts"))
                done = opc("grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", name, "--lr", str(lr),
                           "--schedule", "cosine:decay_batches=60", "--warmup", "4", "--weight-decay", "1e-4", "--clip-norm", "5", "--accumulate", "2",
                           "--loss-scale", "dynamic", "-o", graph, input=text)
                self.assertEqual(done.returncode, 0, done.stderr)
                flags = ["-j", "1"]
                self.train("--steps", "100", "--save", whole, "--metrics", whole + ".jsonl", *flags, graph=graph)
                losses = [m["loss"] for m in self.lines(whole + ".jsonl")]
                self.assertLess(np.mean(losses[-10:]), 0.7 * np.mean(losses[:2]), name)
                self.assertNotEqual(self.lines(whole + ".jsonl")[0]["lr"], self.lines(whole + ".jsonl")[9]["lr"])
                self.train("--steps", "37", "--save", parts, *flags, graph=graph)  # between two updates
                self.train("--steps", "100", "--resume", parts, "--save", parts, *flags, graph=graph)
                self.assertEqual(digest(parts), digest(whole), name)

    def test_train_conf_takes_any_batch(self):
        graph, whole, other = (self.path(n) for n in ("job.pbtxt", "whole", "other"))
        text = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(data(name)) as f:
                text += f.read() + "\n"
        with open(graph, "w") as f:
            f.write("net {\n" + text + "}\njob_conf { job_name: \"train\" train_conf { loss_lbn: \"mean_loss/output_tensor_0\" "
                    "optimizer_conf { variable_op_names: \"fc1_w\" variable_op_names: \"fc1_b\" variable_op_names: \"fc2_w\" variable_op_names: \"fc2_b\" "
                    "variable_op_names: \"fc3_w\" variable_op_names: \"fc3_b\" base_learning_rate: 0.002 adam_conf {} } } }\n")
        self.train("--steps", "8", "--save", other, graph=graph)  # the graph says 360, --batch 64
        self.train("--steps", "8", "--save", whole)
        a, b = weight_files.read_with_metadata(whole)[1], weight_files.read_with_metadata(other)[1]
        for name in ("fc1_w", "fc2_b", "fc3_w"):
            np.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-6)

    def test_progress_on_a_terminal(self):
        leader, follower = pty.openpty()
        process = subprocess.Popen([OPC, "run", self.mlp, *self.flags("--steps", "100000000")], stdout=subprocess.DEVNULL, stderr=follower, env={**os.environ, "COLUMNS": "200"})
        os.close(follower)
        shown = b""
        while b"steps/s" not in shown or b"left" not in shown:
            shown += os.read(leader, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while os.read(leader, 4096):
                pass
        except OSError:  # the terminal's other end is closed
            pass
        self.assertEqual(process.wait(timeout=60), 130)
        os.close(leader)
        self.assertRegex(shown, rb"\r.*epoch \d+/\d+  step \d+/100000000  loss [0-9.e-]+  [0-9.e+]+ steps/s  .* left")

    def test_progress_elsewhere(self):
        done = self.train("--steps", "3", "--progress", "none")
        self.assertNotIn("steps/s  ", done.stderr)
        process = subprocess.Popen([OPC, "run", self.mlp, *self.flags("--steps", "100000000", "--progress", "json")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (line := process.stderr.readline()).startswith("{"):
            self.assertNotEqual(line, "")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        shown = json.loads(line)
        self.assertEqual(shown["steps"], 100000000)
        self.assertLessEqual({"step", "epoch", "epochs", "loss", "steps_per_s", "seconds_left"}, set(shown))

    def test_json(self):
        done = self.train("--steps", "5", "--json", "--save", self.path("c"))
        document = json.loads(done.stdout)
        self.assertEqual({k: document[k] for k in ("schema", "steps", "first_step", "epochs", "examples", "batch", "interrupted")},
                         {"schema": 1, "steps": 5, "first_step": 0, "epochs": 0, "examples": 1437, "batch": 64, "interrupted": False})
        self.assertIn("loss", document["outputs"])

    def test_data_of_another_type_needs_cast(self):
        images = self.path("images.npy")
        np.save(images, np.load(data("train_images.npy")).astype(np.float64))
        flags = ["--feed-dataset", f"image=@{images},label=@{data('train_labels.npy')}", "--batch", "64", "--steps", "3"]
        done = opc("run", self.mlp, *flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("OPC0703", done.stderr)
        self.assertIn("--cast", done.stderr)
        cast, plain = self.path("cast"), self.path("plain")
        self.assertEqual(opc("run", self.mlp, *flags, "--cast", "--save", cast).returncode, 0)
        flags[1] = f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}"
        self.assertEqual(opc("run", self.mlp, *flags, "--save", plain).returncode, 0)
        self.assertEqual(digest(cast), digest(plain))

    def test_plan(self):
        plan, save, whole = self.path("plan"), self.path("ckpt"), self.path("whole")
        done = opc("compile", self.mlp, "--shape", "image=64,64", "--shape", "label=64", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        flags = self.flags("--steps", "10")
        del flags[2:4]  # --batch
        self.assertEqual(opc("run", plan, *flags, "--save", save).returncode, 0)
        self.train("--steps", "10", "--save", whole)
        (said, values), (more, others) = weight_files.read_with_metadata(save), weight_files.read_with_metadata(whole)
        del more["graph"]  # a plan does not say what it was compiled from
        self.assertEqual(said, more)
        self.assertEqual({k: v.tobytes() for k, v in values.items()}, {k: v.tobytes() for k, v in others.items()})
        # Steps of the plan by the runtime alone: three on one batch.
        for name in ("image", "label"):
            np.save(self.path(name + ".npy"), np.load(data(f"train_{name}s.npy"))[:64])
        given = ["--weights", save, "--repeat", "3"] + [x for n in ("image", "label") for x in ("--input", f"{n}=@{self.path(n + '.npy')}")]
        losses = []
        for command in (["opc-runtime"], ["opc", "run"]):
            out = self.path(command[0])
            done = subprocess.run([os.path.join(BIN, command[0]), *command[1:], plan, *given, "--outputs", out], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append(np.load(os.path.join(out, "loss.npy")).item())
        self.assertEqual(losses[0], losses[1])

    def refused(self, code, exit_code, *args):
        done = opc("run", self.mlp, *args)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertIn(code, done.stderr)
        return done.stderr

    def test_bad_command_lines(self):
        images, labels = data("train_images.npy"), data("train_labels.npy")
        both = f"image=@{images},label=@{labels}"
        self.refused("OPC0001", 2, "--batch", "64")
        self.refused("OPC0001", 2, "--feed-dataset", both, "--epochs", "1", "--steps", "1")
        self.refused("OPC0001", 2, "--feed-dataset", both, "--steps", "0")
        self.refused("OPC0001", 2, "--feed-dataset", both, "--save-every", "2")
        self.refused("OPC0001", 2, "--feed-dataset", both, "--repeat", "2")
        self.refused("OPC0003", 2, "--feed-dataset", f"image={images}")
        self.refused("OPC0003", 2, "--feed-dataset", both + f",image=@{images}")
        self.assertIn("did you mean image?", self.refused("OPC0005", 2, "--feed-dataset", f"imag=@{images},label=@{labels}"))
        self.refused("OPC0706", 2, "--feed-dataset", f"image=@/nowhere.npy,label=@{labels}")
        os.mkfifo(self.path("pipe"))  # nobody writes to it
        for file in (self.path("pipe"), "-"):
            self.assertIn("it is a pipe", self.refused("OPC0706", 2, "--feed-dataset", f"image=@{file},label=@{labels}"))
        self.assertIn("label", self.refused("OPC0004", 2, "--feed-dataset", f"image=@{images}", "--batch", "64"))
        self.refused("OPC0704", 2, "--feed-dataset", f"image=@{images},label=@{data('test_labels.npy')}", "--batch", "64")
        self.assertIn("opc grad --shape image=2000,64", self.refused("OPC0713", 2, "--feed-dataset", both, "--batch", "2000"))
        self.refused("OPC0002", 2, "--feed-dataset", both, "--save", "/nowhere/ckpt")
        self.refused("OPC0706", 2, "--feed-dataset", both, "--resume", "/nowhere/ckpt")
        self.refused("OPC0002", 2, "--feed-dataset", both, "--save", images)
        self.refused("OPC0002", 2, "--feed-dataset", both, "--save", self.path("x"), "--plot", os.path.join(self.folder, ".", os.path.basename(self.path("x"))))
        self.refused("OPC0001", 2, "--feed-dataset", both, "--metrics", "-")

    def test_resuming_another_run(self):
        save = self.path("ckpt")
        self.train("--steps", "3", "--save", save)
        resumed = lambda *flags: opc("run", self.mlp, "--feed-dataset", f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}", "--resume", save, *flags)  # noqa: E731
        for flags in (("--batch", "64"), ("--batch", "64", "--shuffle", "--seed", "8")):
            done = resumed(*flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("OPC0712", done.stderr)
        # As many examples, other ones: one value differs in one image.
        images = np.load(data("train_images.npy"))
        images[700, 7] += 1
        np.save(self.path("other.npy"), images)
        flags = ["--batch", "64", "--shuffle", "--seed", "7", "--resume", save]
        done = opc("run", self.mlp, "--feed-dataset", f"image=@{self.path('other.npy')},label=@{data('train_labels.npy')}", *flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("OPC0712", done.stderr)
        self.assertIn("other values for input 'image': f32[1437,64]", done.stderr)
        self.assertIn(f"--weights {save}", done.stderr)
        # The same values in another kind of file are the same data.
        np.savez(self.path("same.npz"), x=np.load(data("train_images.npy")))
        done = opc("run", self.mlp, "--feed-dataset", f"image=@{self.path('same.npz')}:x,label=@{data('train_labels.npy')}", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A checkpoint of a graph with more variables is of another graph.
        sgd = self.path("sgd.pbtxt")
        with open(data("mlp.pbtxt")) as f, open(data("mlp_loss.pbtxt")) as g:
            done = opc("grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", sgd, input=f.read() + g.read())
        self.assertEqual(done.returncode, 0, done.stderr)
        done = opc("run", sgd, *self.flags("--steps", "9", "--resume", save))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"OPC0712.*has a variable 'fc1_b-m' that the graph does not have")
        weights = resumed("--batch", "64", "--shuffle", "--resume", save)
        self.assertEqual(weights.returncode, 2)  # --resume twice
        with open(save, "r+b") as f:
            f.truncate(os.path.getsize(save) - 1)
        done = resumed("--batch", "64", "--shuffle")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("OPC0702", done.stderr)
        done = opc("run", self.mlp, *self.flags("--steps", "1", "--resume", data("mlp_weights.npz")))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("OPC0711", done.stderr)


if __name__ == "__main__":
    unittest.main()
