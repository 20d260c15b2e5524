# Nothing that a training run has learnt is lost: folders, disks, signals, values that are not finite, two runs at once.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

import weight_files

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.path.join(BIN, "opc")
# A folder that exists and that nobody can make a file in, root included.
SEALED = "/proc/self/fdinfo"


def op(name, kind, inputs, outputs, **attrs):
    text = f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}"'
    for key, tensor in inputs.items():
        text += f' input {{ key: "{key}" value {{ s: "{tensor}" }} }}'
    for key in outputs:
        text += f' output {{ key: "{key}" value {{ s: "{name}/{key}_0" }} }}'
    for key, value in attrs.items():
        text += f' attr {{ key: "{key}" value {{ {value} }} }}'
    return text + " } }\n"


def source(name, dims):
    shape = " ".join(f"dim: {d}" for d in dims)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: kFloat }} }} }}\n'


def output(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" }} }}\n'


WEIGHT = 'op { name: "w" variable_conf { out: "out" shape { dim: 1 } data_type: kFloat initializer { constant_conf { value: 1 } } } }\n'
SUM = {"axis": "at_list_int32 { val: 0 }", "keepdims": "at_bool: true"}
# What is fed is the loss, and what the weight is multiplied by.
FED = (source("x", [-1]) + WEIGHT + op("fed", "reduce_sum", {"input_tensor": "x/out"}, ["output_tensor"], **SUM)
       + op("next", "broadcast_mul", {"x": "w/out", "y": "fed/output_tensor_0"}, ["z"])
       + op("keep", "assign", {"ref": "w/out", "value": "next/z_0"}, []) + output("loss", "fed/output_tensor_0"))
# The mean of w - v over a batch.
FORWARD = (source("v", [-1]) + WEIGHT + op("less", "broadcast_sub", {"x": "w/out", "y": "v/out"}, ["z"])
           + op("mean", "reduce_mean", {"input_tensor": "less/z_0"}, ["output_tensor"], **SUM) + output("gap", "mean/output_tensor_0"))


class Scratch(unittest.TestCase):
    """A folder with a graph that learns the product of what it is fed."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.graph = self.write("fed.pbtxt", FED)

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.at(name), "w") as f:
            f.write(text)
        return self.at(name)

    def data(self, values, name="x.npy"):
        wanted = np.asarray(values, np.float32)
        # A run may have it mapped: what stays the same is not written again.
        if not os.path.exists(self.at(name)) or not np.array_equal(np.load(self.at(name)), wanted, equal_nan=True):
            np.save(self.at(name), wanted)
        return self.at(name)

    def command(self, values, *flags, graph=None, batch="1"):
        return [OPC, "run", graph or self.graph, "--feed-dataset", f"x=@{self.data(values)}", "--batch", batch, *flags]

    def train(self, values, *flags, code=0, **kw):
        options = {k: kw.pop(k) for k in ("graph", "batch") if k in kw}
        done = subprocess.run(self.command(values, *flags, **options), capture_output=True, text=True, timeout=120, cwd=self.folder, **kw)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def weight(self, path):
        return weight_files.read_with_metadata(self.at(path))[1]["w"].item()

    def step(self, path):
        return int(weight_files.read_with_metadata(self.at(path))[0]["step"])


class LostWork(Scratch):
    # What learns nothing.

    def test_a_graph_that_trains_nothing(self):
        forward = self.write("forward.pbtxt", FORWARD)
        data = self.data([1, 2, 3], "v.npy")
        run = [OPC, "run", forward, "--feed-dataset", f"v=@{data}", "--batch", "1"]
        done = subprocess.run([*run, "--save", self.at("f.safetensors")], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        for word in ("OPC0001", "forward.pbtxt trains nothing: no op of it writes a variable", f"opc grad {forward} --loss LOSS --optimizer"):
            self.assertIn(word, done.stderr)
        self.assertEqual(self.files("f."), [])
        # Outputs over a data set are worth something without a checkpoint.
        done = subprocess.run([*run, "--metrics", self.at("m.jsonl")], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: ", done.stderr)
        self.assertIn("trains nothing", done.stderr)
        self.assertNotIn("what is learnt is gone", done.stderr)
        with open(self.at("m.jsonl"), encoding="utf-8") as f:
            self.assertEqual([json.loads(line)["gap"] for line in f], [0, -1, -2])
        # -q leaves what a run does in vain, and the log has it.
        done = subprocess.run([*run, "-q", "--log", self.at("run.log")], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("trains nothing", done.stderr)
        with open(self.at("run.log"), encoding="utf-8") as f:
            log = f.read()
        self.assertRegex(log, r"\] warning: .*forward\.pbtxt trains nothing")
        self.assertRegex(log, r"\] help: make the training graph first: opc grad")
        plan = self.at("f.plan")
        subprocess.run([OPC, "compile", forward, "--shape", "v=1", "-o", plan], check=True, capture_output=True, timeout=60)
        done = subprocess.run([OPC, "run", plan, *run[3:5], "--save", self.at("f.safetensors")], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("trains nothing", done.stderr)
        self.assertNotIn("trains nothing", self.train([1, 2]).stderr)
        ranks = subprocess.run([*run, "--save", self.at("f.safetensors"), "--ranks", "2", "--in-process"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ranks.returncode, 2, ranks.stderr)

    def test_a_checkpoint_beyond_the_end(self):
        self.train([2] * 5, "--save", "c.safetensors")
        before = os.stat(self.at("c.safetensors")).st_mtime_ns
        for flags, asked in ((["--epochs", "1"], "--epochs 1, 5 steps"), (["--steps", "3"], "--steps 3")):
            done = self.train([2] * 5, *flags, "--resume", "c.safetensors", "--save", "c.safetensors", "--metrics", "m.jsonl")
            self.assertEqual(done.stdout, f"nothing to do: c.safetensors is of step 5, {asked}, counted from the beginning\n")
            self.assertNotIn("saved", done.stderr)
        self.assertEqual(os.stat(self.at("c.safetensors")).st_mtime_ns, before)
        self.assertEqual(self.files("m."), [])
        document = json.loads(self.train([2] * 5, "--steps", "3", "--resume", "c.safetensors", "--save", "d.safetensors", "--json").stdout)
        self.assertEqual((document["steps"], document["first_step"], document["saved"]), (5, 5, None))
        self.assertEqual(self.files("d."), [])

    def test_endings_that_are_not_written(self):
        for flags, words in ((["--save", "x.pt"], (".pt", ".safetensors")), (["--plot", "x.png"], (".png", ".svg"))):
            done = self.train([1], *flags, code=2)
            self.assertEqual(done.stdout, "")
            for word in ("OPC0002", flags[0], *words):
                self.assertIn(word, done.stderr)
        self.train([1], "--save", "without")
        self.assertEqual(self.files("x.p"), [])

    # What is to be written is tried first.

    def test_folders_that_cannot_be_written_are_found_first(self):
        for flag in ("--save", "--metrics", "--plot"):
            with self.subTest(flag):
                done = self.train([1, 2], flag, SEALED + "/file", code=2)
                self.assertIn(f"cannot create {SEALED}/file", done.stderr)
                self.assertNotIn("step", done.stdout)
        forward = self.write("forward.pbtxt", FORWARD)
        run = [OPC, "run", forward, "--input", "v=f32[3]:1,2,3"]
        for flags in (["--output", f"gap={SEALED}/y.npy"], ["--outputs", f"{SEALED}/y.npz"], ["--outputs", SEALED], ["--trace", f"{SEALED}/t.json"],
                      ["--capture-stats", f"{SEALED}/s.jsonl"], ["--capture", f"*={SEALED}"]):
            with self.subTest(flags[0]):
                done = subprocess.run([*run, *flags], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertRegex(done.stderr, "OPC0707|OPC0002")
        compiling = [OPC, "compile", forward, "--shape", "v=3"]
        for command in ([*compiling, "-o", f"{SEALED}/g.plan"], [*compiling, "-o", self.at("g.plan"), "--dump", SEALED],
                        [OPC, "grad", forward, "--loss", "gap", "-o", f"{SEALED}/g.pbtxt"]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("OPC0707", done.stderr)
        # Trying leaves nothing behind, and what is there as it is.
        kept = self.write("kept.jsonl", "mine\n")
        self.train([1], "--metrics", kept, "--save", SEALED + "/file", code=2)
        with open(kept) as f:
            self.assertEqual(f.read(), "mine\n")
        self.assertEqual(sorted(os.listdir(self.folder)), ["fed.pbtxt", "forward.pbtxt", "kept.jsonl", "x.npy"])

    # Disks that fill up while the run goes on.

    def test_full_disk_of_metrics(self):
        done = self.train([1] * 2000, "--metrics", "/dev/full", "--save", "c", "--save-every", "1000", "--steps", "2000", code=5)
        self.assertIn("warning: cannot write /dev/full: No space left on device; the run goes on", done.stderr)
        self.assertEqual(done.stderr.count("warning"), 1)
        self.assertIn("error[OPC0707]: cannot write /dev/full", done.stderr)
        self.assertIn("step 2000 of 2000", done.stdout)
        self.assertEqual(self.step("c"), 2000)

    def limited(self, size):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def test_metrics_go_on_where_they_stopped(self):
        """A limit on the size of files that is lifted while the run goes on."""
        metrics = self.at("m.jsonl")
        process = subprocess.Popen(self.command([1] * 50, "--steps", "100000000", "--metrics", metrics, "--metrics-every", "1", "--save", self.at("c")), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY)))
        line = process.stderr.readline()
        self.assertIn("warning: cannot write", line)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        line = process.stderr.readline()
        self.assertIn("is written again", line)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, err)
        with open(metrics) as f:
            steps = [json.loads(line)["step"] for line in f]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(steps[-1], self.step("c"))

    def test_signals_before_the_first_step(self):
        """While the graph is still read: nothing is there to save, and the process says so as it does later."""
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            pipe = self.at(f"graph{code}.pbtxt")
            os.mkfifo(pipe)
            process = subprocess.Popen(self.command([1, 2], "--save", self.at("early"), graph=pipe), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            with open(pipe, "w") as writer:  # returns when opc reads
                writer.write(FED[:20])
                writer.flush()
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out, err), (code, "", "stopped before the first step; nothing is saved\n"))
        self.assertFalse([f for f in os.listdir(self.folder) if f.startswith("early") and not f.endswith(".lock")])
        self.train([1, 2], "--save", "early")  # what is left locks nothing
        self.assertFalse([f for f in os.listdir(self.folder) if f.endswith(".lock")])

    def test_failing_save_every(self):
        graph = self.write("big.pbtxt", FED.replace("dim: 1 }", "dim: 4096 }", 1))
        # All of them fail: the run goes on to its end, and says with exit code 5 that nothing is saved.
        done = self.train([1] * 6, "--save", "c", "--save-every", "2", code=5, graph=graph, preexec_fn=self.limited(2000))
        self.assertEqual(done.stderr.count("warning: cannot write c: File too large; the run goes on, and the checkpoint will be tried again"), 1, done.stderr)
        self.assertIn("step 6 of 6", done.stdout)
        self.assertIn("error[OPC0707]: cannot write c: File too large", done.stderr)
        self.assertFalse([f for f in os.listdir(self.folder) if f.startswith("c")])
        # The disk has room again before the end.
        process = subprocess.Popen(self.command([1] * 6, "--save", self.at("c"), "--save-every", "2", "--steps", "100000000", graph=graph), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY)))
        while "tried again" not in (line := process.stderr.readline()):
            self.assertNotEqual(line, "")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertIn("is written again", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, err)
        self.assertGreater(self.step("c"), 0)

    def test_full_disks_are_exit_code_5(self):
        forward = self.write("forward.pbtxt", FORWARD)
        run = [OPC, "run", forward, "--input", "v=f32[3]:1,2,3", "--print", "all"]
        for command in ([*run, "--output", "gap=/dev/full"], [OPC, "compile", forward, "--shape", "v=3", "-o", "/dev/full"], ["sh", "-c", '"$@" > /dev/full', "sh", *run]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("OPC0707", done.stderr)
            self.assertIn("No space left on device", done.stderr)
        # One output that cannot be written takes no other with it.
        wide = self.write("wide.pbtxt", FORWARD + output("again", "mean/output_tensor_0"))
        done = subprocess.run([OPC, "run", wide, "--input", "v=f32[3]:1,2,3", "--output", "gap=/dev/full", "--output", f"again={self.at('a.npy')}"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(np.load(self.at("a.npy")).item(), -1)

    # Signals.

    def test_signals_save(self):
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            with self.subTest(number.name):
                save = self.at(number.name)
                process = subprocess.Popen(self.command([1, 1], "--steps", "100000000", "--save", save, "--metrics", save + ".jsonl"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                while not (os.path.exists(save + ".jsonl") and os.path.getsize(save + ".jsonl")):
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number, err)
                self.assertRegex(out, r"^stopped at step \d+ of 100000000")
                self.assertGreater(self.step(save), 0)

    def test_more_epochs_than_steps_can_be_counted(self):
        """2^40 epochs of 2^23 steps: a run until somebody ends it."""
        data = np.ones(1 << 23, np.float32)
        process = subprocess.Popen(self.command(data, "--epochs", str(1 << 40), "--metrics", self.at("m"), "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not (os.path.exists(self.at("m")) and os.path.getsize(self.at("m"))):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        document = json.loads(out)
        self.assertTrue(document["interrupted"])
        self.assertGreater(document["steps"], 0)
        self.assertEqual(document["epochs"], document["steps"] >> 23)
        self.train(data, "--epochs", str((1 << 40) + 1), code=2)

    def test_nohup_is_left_alone(self):
        process = subprocess.Popen(["nohup", *self.command([1, 1], "--steps", "100000000", "--save", self.at("c"), "--save-every", "1")], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        while not os.path.exists(self.at("c")):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        before = self.step("c")
        deadline = time.monotonic() + 60
        while self.step("c") <= before + 2:
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143)

    def test_training_without_save_says_so(self):
        done = self.train([1, 2])
        self.assertIn("note: without --save FILE what is learnt is gone", done.stderr)
        self.assertNotIn("without --save", self.train([1, 2], "--save", "c").stderr)

    # Values that are not finite.

    def test_nothing_that_is_not_finite_replaces_a_good_checkpoint(self):
        nan, inf = float("nan"), float("inf")
        done = self.train([2, 3, nan, 5], "--save", "c.safetensors", "--save-every", "1", code=5)
        self.assertEqual((self.step("c.safetensors"), self.weight("c.safetensors")), (2, 6))
        self.assertEqual(self.step("c.nonfinite.safetensors"), 4)
        self.assertRegex(done.stderr, r"warning: loss nan at step 3: checkpoints go to \S*c.nonfinite.safetensors, and \S*c.safetensors is of step 2")
        # The fourth loss is finite and the weight is not.
        self.assertRegex(done.stderr, r"error\[OPC0621\]: variable w is not finite at step 4")
        # The infinity stays in the variable.
        done = self.train([2, inf, 1, 1], "--save", "d", "--save-every", "2", code=5)
        self.assertEqual(self.files("d"), ["d.nonfinite"])
        # Without --save-every there is nothing good, and what was at the name of --save stays.
        with open(self.at("e"), "w") as f:
            f.write("an earlier run's\n")
        done = self.train([2, nan], "--save", "e", code=5)
        with open(self.at("e")) as f:
            self.assertEqual(f.read(), "an earlier run's\n")
        self.assertIn("e is as it was", done.stderr)

    def test_a_loss_that_recovers_is_saved(self):
        """The loss of one step is infinite; the variable is what was fed last."""
        last = FED.replace('key: "value" value { s: "next/z_0" }', 'key: "value" value { s: "fed/output_tensor_0" }')
        self.train([2, float("inf"), 7, 8], "--save", "c", "--save-every", "1", graph=self.write("last.pbtxt", last))
        self.assertEqual((self.step("c"), self.weight("c")), (4, 8))
        self.assertEqual(self.step("c.nonfinite"), 2)

    def test_stop_on(self):
        nan, inf = float("nan"), float("inf")
        for kinds, values, at in (("nan", [2, inf, nan, 1], 3), ("inf", [2, inf, nan, 1], 2), ("nan,inf", [2, 3, nan, 1], 3)):
            with self.subTest(kinds):
                save = kinds.replace(",", "-")
                done = self.train(values, "--stop-on", kinds, "--save", save, "--save-every", "1", code=5)
                self.assertRegex(done.stdout, rf"^stopped at step {at} of 4")
                self.assertRegex(done.stderr, rf"error\[OPC0621\]: loss (nan|inf) at step {at}")
                self.assertEqual(self.step(save), at - 1 if kinds != "nan" else 1)
        done = self.train([2, nan], "--stop-on", "nan", code=5)  # with nothing to save
        self.assertIn("error[OPC0621]: loss nan at step 2", done.stderr)
        for kinds in ("denormal", "nan;inf", ""):
            self.assertIn("OPC0001", self.train([1], "--stop-on", kinds, code=2).stderr)
        self.train([2, 3], "--stop-on", "nan,inf", "--save", "fine")

    def test_trap(self):
        done = self.train([2, 3, float("nan"), 5], "--trap", "nan", "--save", "c", "--save-every", "1", code=5)
        self.assertRegex(done.stderr, r"error\[OPC0620\]: \w+: (fed/output_tensor_0|next/z_0)\[0\] is nan")
        self.assertIn("step 3", done.stderr)
        self.assertIn("c is of step 2", done.stderr)
        self.assertEqual(self.weight("c"), 6)
        (left,) = self.files("opc-trap")
        self.assertEqual(subprocess.run(["sh", self.at(left + "/run.sh")], env={**os.environ, "PATH": BIN + ":" + os.environ["PATH"]}, capture_output=True, timeout=60).returncode, 5)

    # Which checkpoints stay.

    def files(self, prefix):
        return sorted(f for f in os.listdir(self.folder) if f.startswith(prefix))

    def test_keep(self):
        self.train([2] * 7, "--save", "c.safetensors", "--save-every", "2", "--keep", "2")
        self.assertEqual(self.files("c."), ["c.safetensors", "c.step6.safetensors", "c.step7.safetensors"])
        for step in (6, 7):
            self.assertEqual((self.step(f"c.step{step}.safetensors"), self.weight(f"c.step{step}.safetensors")), (step, 2**step))
        # A run that goes on goes on with them; names that are not its own stay.
        self.write("c.step5x.safetensors", "")
        self.train([2] * 7, "--save", "c.safetensors", "--save-every", "2", "--keep", "2", "--resume", "c.safetensors", "--epochs", "2")
        self.assertEqual(self.files("c."), ["c.safetensors", "c.step12.safetensors", "c.step14.safetensors", "c.step5x.safetensors"])
        # A new run leaves alone what it has not made.
        self.train([2] * 3, "--save", "c.safetensors", "--save-every", "1", "--keep", "1")
        self.assertEqual(self.files("c."), ["c.safetensors", "c.step12.safetensors", "c.step14.safetensors", "c.step3.safetensors", "c.step5x.safetensors"])
        self.assertIn("OPC0001", self.train([1], "--save", "c", "--keep", "1", code=2).stderr)

    def test_keep_best_and_patience(self):
        values = [5, 3, 4, 2, float("nan"), 6, 7, 8, 1]
        done = self.train(values[:4], "--save", "c", "--save-every", "1", "--keep-best", "loss")
        self.assertEqual((self.step("c.best"), self.weight("c.best")), (4, 120))
        self.assertIn("best loss 2 at step 4 in c.best", done.stdout)
        self.train(values[:4], "--save", "m", "--save-every", "1", "--keep-best", "loss:min")
        self.assertEqual((self.step("m.best"), self.weight("m.best")), (4, 120))
        self.train(values[:4], "--save", "d", "--save-every", "1", "--keep-best", "loss:max")
        self.assertEqual((self.step("d.best"), self.weight("d.best")), (1, 5))
        # Out of patience: three in a row were not better; the ninth would have been.
        finite = [5, 3, 4, 2, 6, 7, 8, 1]
        done = self.train(finite, "--save", "e", "--save-every", "1", "--keep-best", "loss", "--patience", "3", "--json")
        document = json.loads(done.stdout)
        self.assertEqual((document["steps"], document["best"], document["out_of_patience"], document["interrupted"]), (7, {"metric": "loss", "value": 2, "step": 4}, True, False))
        # A run that goes on has the same patience as one that was not stopped.
        self.train(finite, "--save", "f", "--save-every", "1", "--keep-best", "loss", "--patience", "3", "--steps", "6")
        done = self.train(finite, "--save", "f", "--save-every", "1", "--keep-best", "loss", "--patience", "3", "--resume", "f")
        self.assertRegex(done.stdout, r"^stopped at step 7 of 8")
        with open(self.at("e"), "rb") as e, open(self.at("f"), "rb") as f:
            self.assertEqual(e.read(), f.read())
        self.assertIn("did you mean loss?", self.train([1], "--save", "g", "--keep-best", "los", code=2).stderr)
        self.assertIn("OPC0001", self.train([1], "--keep-best", "loss", code=2).stderr)
        self.assertIn("OPC0001", self.train([1], "--save", "g", "--patience", "2", code=2).stderr)

    # Validation.

    def test_validation(self):
        """The weight is a product of what was fed; the mean of w - v over the validation data follows."""
        forward = self.write("forward.pbtxt", FORWARD)
        valid = self.data([1, 2, 3, 4, 100], "v.npy")
        flags = ["--validate", f"v=@{valid}", "--validate-graph", forward, "--metrics", "m.jsonl"]
        self.train([2, 3, 0.5], *flags, "--validate-every", "2", "--epochs", "2")
        with open(self.at("m.jsonl")) as f:
            lines = [json.loads(line) for line in f]
        weights = np.cumprod([2, 3, 0.5, 2, 3, 0.5])
        self.assertEqual([line.get("val.gap") for line in lines], [None, weights[1] - 22, None, weights[3] - 22, None, weights[5] - 22])
        self.train([2, 3, 0.5], *flags, "--epochs", "2", "--save", "c", "--keep-best", "val.gap", "--patience", "1")  # after each epoch
        with open(self.at("m.jsonl")) as f:
            self.assertEqual([json.loads(line).get("val.gap") for line in f], [None, None, -19, None, None, -13])
        self.assertEqual(self.step("c.best"), 3)
        # Files of weights are for the graph that trains, and so is what they may lack.
        np.savez(self.at("w.npz"), w=np.full(1, 2, np.float32))
        self.train([2, 3, 0.5], *flags, "--weights", "w.npz", "--partial-weights")
        with open(self.at("m.jsonl")) as f:
            self.assertEqual([json.loads(line).get("val.gap") for line in f], [None, None, 6 - 22])
        for bad, code in ((["--validate", f"v=@{valid}"], "OPC0001"), (["--validate", f"u=@{valid}", "--validate-graph", forward], "OPC0005"),
                          (["--validate", f"v=@{valid}", "--validate-graph", self.write("other.pbtxt", FORWARD.replace('"w', '"weight'))], "OPC0005"),
                          (["--validate", f"v=@{valid}", "--validate-graph", "/nowhere"], "OPC0706"), (["--validate", "v=@/nowhere", "--validate-graph", forward], "OPC0706")):
            with self.subTest(bad):
                self.assertIn(code, self.train([1], *bad, code=2).stderr)

    # One run at a time.

    def test_two_runs_with_one_file(self):
        save, metrics = self.at("c"), self.at("m.jsonl")
        first = subprocess.Popen(self.command([1, 1], "--steps", "100000000", "--save", save, "--save-every", "1", "--metrics", metrics), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(save):
            self.assertIsNone(first.poll())
            time.sleep(0.01)
        for flags in (["--save", save], ["--save", os.path.join(self.folder, ".", "c")], ["--metrics", metrics]):
            done = self.train([1, 1], *flags, code=2)
            self.assertIn(f"error[OPC0718]: another training run writes {flags[1]} (process {first.pid})", done.stderr)
        self.train([1, 1], "--save", "other")
        first.kill()  # a lock goes with its process
        first.communicate(timeout=60)
        self.train([1, 1], "--save", save, "--metrics", metrics)
        self.assertFalse([f for f in os.listdir(self.folder) if f.endswith(".lock")])

    # Another learning rate.

    def test_learning_rate_on_resume(self):
        linear = source("x", [4, 1]) + WEIGHT.replace("dim: 1", "dim: 1 dim: 1") + op("y", "matmul", {"a": "x/out", "b": "w/out"}, ["out"]) + output("y_out", "y/out_0")
        for schedule in ([], ["--schedule", "exponential:decay_batches=1000,decay_rate=1"]):
            with self.subTest(schedule):
                graph = self.at("sgd.pbtxt")
                done = subprocess.run([OPC, "grad", self.write("linear.pbtxt", linear), "--loss", "y_out", "--optimizer", "sgd", "--lr", "0.5", *schedule, "-o", graph], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = [[1]] * 12  # the gradient of the sum is 4
                run = lambda *flags: self.train(rows, *flags, graph=graph, batch="4")  # noqa: E731
                run("--steps", "1", "--save", "c")
                self.assertEqual(self.weight("c"), 1 - 4 * 0.5)
                run("--steps", "3", "--resume", "c", "--save", "d", "--lr", "0.25")
                self.assertEqual(self.weight("d"), 1 - 4 * 0.5 - 2 * 4 * 0.25)
        # The rates of a schedule may all be given.
        pieces = ["--schedule", "piecewise_constant:boundaries=1,values=0.5/0.25"]
        done = subprocess.run([OPC, "grad", self.at("linear.pbtxt"), "--loss", "y_out", "--optimizer", "sgd", "--lr", "0.5", *pieces, "-o", graph], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.train([[1]] * 4, "--lr", "0.125", graph=graph, batch="4", code=2)
        self.assertIn("has a learning rate that --lr could replace", done.stderr)
        self.assertIn("--schedule piecewise_constant has rates of its own", done.stderr)
        self.assertIn("no op of", self.train([1], "--lr", "0.1", code=2).stderr)
        self.assertIn("OPC0001", self.train([1], "--lr", "-1", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
