# opc run on several ranks: outputs as on one, training by data, tensors and both, faults. Threads, and processes under mpirun.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
OPC = os.path.join(BIN, "opc")
HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(BIN, "..", "lib", "libopc_mpi.so"))
ROOT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

# How the digits are trained: what is fixed, the rest is planned.
LAYOUTS = {
    "data": ["--sbp", "relu?=S(0)", "--sbp", "fc?_grad_b=P"],
    "tensor": ["--sbp", "fc1_w=S(0)", "--sbp", "fc2_w=S(1)"],
    "planned": [],
}
HYBRID = ["--mesh", "2x2", "--sbp", "fc1_w=[B,S(0)]", "--sbp", "image=[S(0),B]"]


def run(*args, env=None, timeout=300, cwd=None):
    return subprocess.run([*args], capture_output=True, text=True, timeout=timeout, env=env or os.environ, cwd=cwd)


def opc(*args, **kw):
    return run(OPC, *args, **kw)


def mpirun(ranks, *args, **kw):
    return run("mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), OPC, *args, env=ROOT, **kw)


def data(name):
    return os.path.join(DIGITS, name)


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        text = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(data(name)) as f:
                text += f.read() + "\n"
        cls.train_graph = os.path.join(cls.folder, "train.pbtxt")
        done = subprocess.run([OPC, "grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer",
                               "adam", "--lr", "0.002", "-o", cls.train_graph], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.curves = {}

    def path(self, name):
        return os.path.join(self.folder, f"{self._testMethodName}-{name}")

    def check(self, done, code=0):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def compiled(self, name, *flags, graph=None):
        plan = self.path(name)
        self.check(opc("compile", graph or self.train_graph, *flags, "-q", "-o", plan))
        return plan

    def train_flags(self, metrics, steps=44):
        return ["--feed-dataset", f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}", "--shuffle", "--seed", "7",
                "--steps", str(steps), "--metrics", metrics]

    def curve(self, path):
        with open(path) as f:
            return np.array([json.loads(line)["loss"] for line in f])

    def single(self, steps=44):
        if steps not in self.curves:
            metrics = self.path("single.jsonl")
            self.check(opc("run", self.train_graph, *self.train_flags(metrics, steps), "--save", os.path.join(self.folder, f"single{steps}")))
            self.curves[steps] = self.curve(metrics)
        return self.curves[steps]

    # --- the same outputs ---------------------------------------------------------------------------------------------
    def outputs(self, *args, runner=opc):
        folder = self.path(f"out{len(os.listdir(self.folder))}")
        self.check(runner("run", *args, "--outputs", folder, "--print", "none"))
        return {n: np.load(os.path.join(folder, n)) for n in sorted(os.listdir(folder))}

    def same(self, one, other):
        self.assertEqual(list(one), list(other))
        for name in one:
            np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=1e-5, err_msg=name)

    def test_outputs_are_those_of_one_rank(self):
        for net in ("mlp", "cnn"):
            given = [data(f"{net}.pbtxt"), "--weights", data(f"{net}_weights.npz"), "--input", f"image=@{data('test_images.npy')}"]
            one = self.outputs(*given)
            for ranks in (["--ranks", "2"], ["--ranks", "3"], ["--mesh", "2x2"]):
                self.same(one, self.outputs(*given, *ranks, "--in-process"))
        for seed in range(4):
            self.same(one, self.outputs(*given, "--ranks", "2", "--in-process", "--sbp-random", str(seed)))
        for seed in (1, 2, 8): # among them convolutions that are fused after their filters were split
            self.same(one, self.outputs(*given, "--mesh", "2x2", "--in-process", "--sbp-random", str(seed)))

    def test_reference_is_one_rank(self):
        done = self.check(opc("run", data("mlp.pbtxt"), "--fill", "rand", "--ranks", "3", "--in-process", "--reference", "cpu", "--stats"))
        self.assertIn("rank 2: ", done.stderr)

    def test_an_output_of_a_variable_shows_it_after_the_update(self):
        graph = self.path("update.pbtxt")
        with open(graph, "w") as f:
            f.write('op { name: "w" variable_conf { out: "out" shape { dim: 5 dim: 7 } data_type: kFloat initializer { constant_conf { value: 1 } } } }\n'
                    'op { name: "g" input_conf { out: "out" blob_conf { shape { dim: 5 dim: 7 } data_type: kFloat } } }\n'
                    'op { name: "u" user_conf { op_type_name: "sgd_update" input { key: "model" value { s: "w/out" } } input { key: "model_diff" '
                    'value { s: "g/out" } } attr { key: "learning_rate_val" value { at_float: 0.5 } } } }\n'
                    'op { name: "y" output_conf { in: "w/out" } }\n')
        for seed in range(8):
            got = self.outputs(graph, "--fill", "ones", "--mesh", ["2", "2x2"][seed % 2], "--in-process", "--sbp-random", str(seed))
            np.testing.assert_array_equal(got["y.npy"], np.full((5, 7), 0.5, np.float32))

    def test_sent_bytes_as_json(self):
        plan = self.compiled("plan", "--mesh", "2", *LAYOUTS["data"])
        done = self.check(opc("run", plan, "--fill", "zeros", "--ranks", "2", "--in-process", "--stats", "--json"))
        ranks = json.loads(done.stdout)["ranks"]
        self.assertEqual([r["rank"] for r in ranks], [0, 1])
        self.assertGreater(ranks[0]["bytes_sent"], 0)
        self.assertEqual(ranks[0]["bytes_sent"], ranks[1]["bytes_received"])

    # --- training -----------------------------------------------------------------------------------------------------
    def trains(self, name, flags, runner=opc, graph=None, steps=44):
        metrics, save = self.path(f"{name}.jsonl"), self.path(f"{name}.safetensors")
        done = self.check(runner("run", graph or self.train_graph, *self.train_flags(metrics, steps), "--save", save, *flags))
        self.assertEqual(len(re.findall(r"^step \d+ of", done.stdout, re.M)), 1, done.stdout)
        np.testing.assert_allclose(self.curve(metrics), self.single(steps), atol=1e-4)
        return save

    def test_training_in_process(self):
        for name, flags in LAYOUTS.items():
            for ranks in ("2", "4"):
                with self.subTest(name, ranks=ranks):
                    self.trains(name + ranks, ["--ranks", ranks, "--in-process", *flags])
        self.trains("hybrid", ["--in-process", *HYBRID])

    def test_training_with_random_signatures(self):
        for seed, mesh in enumerate(("2", "3", "4", "2x2", "2x3", "4"), 1):
            with self.subTest(mesh=mesh, seed=seed):
                # Adam makes more of a rounding with every step: 20 of them stay within the tolerance.
                self.trains(f"random{seed}", ["--in-process", "--mesh", mesh, "--sbp-random", str(seed)], steps=20)

    def test_updates_by_norms_are_split(self):
        """LAMB and LARS on pieces of the weights: the norms are those of the whole layer."""
        nets = ""
        for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
            with open(data(name)) as f:
                nets += f.read() + "\n"
        for optimizer, lr in (("lamb", "0.01"), ("lars:lars_coefficient=0.02", "0.5")):
            graph, one = self.path("graph.pbtxt"), self.path("one.jsonl")
            done = subprocess.run([OPC, "grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer",
                                   optimizer, "--lr", lr, "--weight-decay", "0.01", "-o", graph], input=nets, capture_output=True, text=True)
            self.check(done)
            self.check(opc("run", graph, *self.train_flags(one, 20)))
            for mesh, state in (("2", "S(0)"), ("3", "S(1)"), ("2x2", "[S(0),S(1)]"), ("2x2", "[B,S(0)]")):
                with self.subTest(optimizer, mesh=mesh, state=state):
                    flags = ["--mesh", mesh, "--sbp", f"fc1_w={state}"]
                    said = self.check(opc("show", graph, "--what", "sbp", *flags, "--json"))
                    plan = json.loads(said.stdout)["sbp"]
                    self.assertEqual(plan["gap"], 0)
                    metrics = self.path("many.jsonl")
                    self.check(opc("run", graph, "--in-process", *flags, *self.train_flags(metrics, 20)))
                    np.testing.assert_allclose(self.curve(metrics), self.curve(one), rtol=2e-4, atol=2e-4)
            wrong = self.curve(one)[-1] - self.curve(one)[0]
            self.assertLess(wrong, -0.1, "nothing is learnt: the comparison says little")

    def accuracy(self, checkpoint):
        out = self.path("logits.npy")
        self.check(opc("run", data("mlp.pbtxt"), "--weights", checkpoint, "--input", f"image=@{data('test_images.npy')}",
                       "--output", f"logits={out}", "--print", "none"))
        return (np.load(out).argmax(1) == np.load(data("test_labels.npy"))).mean()

    def test_digits_are_learnt_and_a_checkpoint_goes_on_anywhere(self):
        save = self.trains("whole", ["--ranks", "2", "--in-process", *LAYOUTS["data"]], steps=440)
        one = self.accuracy(os.path.join(self.folder, "single440"))
        self.assertGreaterEqual(one, 0.96)
        self.assertAlmostEqual(self.accuracy(save), one, delta=0.006)
        # Begun on one rank, gone on with on three.
        metrics, save = self.path("a.jsonl"), self.path("a.safetensors")
        self.check(opc("run", self.train_graph, *self.train_flags(metrics, 20), "--save", save))
        self.check(opc("run", self.train_graph, *self.train_flags(metrics, 44), "--resume", save, "--ranks", "3", "--in-process"))
        np.testing.assert_allclose(self.curve(metrics), self.single(), atol=1e-4)

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_training_under_mpirun(self):
        for name, ranks, flags in (("data", 2, LAYOUTS["data"]), ("data", 4, LAYOUTS["data"]), ("tensor", 2, LAYOUTS["tensor"]),
                                   ("tensor", 4, LAYOUTS["tensor"]), ("hybrid", 4, HYBRID)):
            with self.subTest(name, ranks=ranks):
                self.trains(f"{name}{ranks}", flags, runner=lambda *a: mpirun(ranks, *a))

    # --- processes ----------------------------------------------------------------------------------------------------
    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_plans_under_mpirun(self):
        given = ["--weights", data("mlp_weights.npz"), "--input", f"image=@{data('test_images.npy')}"]
        one = self.outputs(data("mlp.pbtxt"), *given)
        plan = self.compiled("plan", "--mesh", "2x2", graph=data("mlp.pbtxt"))
        self.same(one, self.outputs(plan, *given, runner=lambda *a: mpirun(4, *a)))
        self.same(one, self.outputs(plan, "--ranks", "4", *given, runner=lambda *a: opc(*a, env=ROOT)))  # starts mpirun itself
        # Another number of ranks, no such flag, no such file: said once.
        for args, code, text in (([plan, *given], 2, "OPC0714"), ([plan, "--nonsense"], 2, "OPC0001"),
                                 ([self.path("none"), *given], 2, "OPC0002|OPC0706")):
            done = self.check(mpirun(2, "run", *args), code)
            self.assertEqual(len(re.findall(r"error\[", done.stderr)), 1, done.stderr)
            self.assertRegex(done.stderr, text)
            self.assertEqual(done.stdout, "")
        done = self.check(opc("run", plan, *given), 2)
        self.assertIn("the plan is for 4 ranks", done.stderr)

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_ranks_with_different_plans(self):
        a = self.compiled("a", "--mesh", "2", graph=data("mlp.pbtxt"))
        b = self.compiled("b", "--mesh", "2", "--sbp-random", "3", graph=data("mlp.pbtxt"))
        script = f'exec "{OPC}" run "$([ $OMPI_COMM_WORLD_RANK = 0 ] && echo {a} || echo {b})" --fill rand'
        done = run("mpirun", "--oversubscribe", "-n", "2", "sh", "-c", script, env=ROOT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("OPC0723", done.stderr)
        for rank in "01":
            self.assertRegex(done.stderr, rf"rank {rank} has [0-9a-f]+")

    @staticmethod
    def command(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read().split(b"\0") if os.path.exists(f"/proc/{pid}/exe") else []
        except OSError:
            return []

    def job(self, *flags):
        """A training run of four processes that is on its way: (mpirun, the ranks' process ids)."""
        log = self.path(f"job{len(os.listdir(self.folder))}.jsonl")
        process = subprocess.Popen(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "4", OPC, "run", self.train_graph,
                                    *self.train_flags(log, 100000000), *LAYOUTS["data"], *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ROOT)
        deadline = time.time() + 120
        while time.time() < deadline and not (os.path.exists(log) and os.path.getsize(log) > 2000):
            self.assertIsNone(process.poll(), "the job has ended")
            time.sleep(0.05)
        ranks = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environ = f.read().split(b"\0")
            except OSError:
                continue
            command = self.command(pid)
            number = [e.split(b"=")[1] for e in environ if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
            if number and log.encode() in command and command[0] == OPC.encode():
                ranks[int(number[0])] = int(pid)
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        return process, ranks

    def ends(self, process, within):
        start = time.time()
        try:
            _, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertNotEqual(process.returncode, 0)
        return err, time.time() - start

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_a_rank_that_is_killed_ends_the_job(self):
        for victim in (2, 0):
            process, ranks = self.job()
            os.kill(ranks[victim], signal.SIGKILL)
            err, seconds = self.ends(process, 60)
            self.assertLess(seconds, 10)
            self.assertRegex(err, rf"OPC0721.*rank {victim}\b")
            end = time.time() + 10  # mpirun does not wait for what it has killed
            while any(map(self.command, ranks.values())) and time.time() < end:
                time.sleep(0.05)
            for pid in ranks.values():
                self.assertFalse(self.command(pid), "a rank is left")

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_a_rank_that_stops_is_named(self):
        process, ranks = self.job("--timeout", "3")
        os.kill(ranks[1], signal.SIGSTOP)
        try:
            err, _ = self.ends(process, 60)
        finally:
            try:
                os.kill(ranks[1], signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertIn("OPC0722", err)
        self.assertRegex(err, r"rank 1\b")

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_a_rank_that_fails_is_reported_once(self):
        # The second rank cannot read its weights.
        script = f'exec "{OPC}" run {data("mlp.pbtxt")} --fill rand $([ $OMPI_COMM_WORLD_RANK = 1 ] && echo --weights {self.path("none.npz")})'
        done = run("mpirun", "--oversubscribe", "-n", "2", "sh", "-c", script, env=ROOT)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"rank 1\b")
        self.assertIn("none.npz", done.stderr)

    # --- mpirun as opc starts it --------------------------------------------------------------------------------------
    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_what_the_ranks_write_reaches_the_disk_or_is_an_error(self):
        given = ["run", data("mlp.pbtxt"), "--fill", "rand", "--seed", "3"]
        for flags in ([], ["--json"], ["--output", "logits=-"]):
            with self.subTest(flags):
                with open("/dev/full", "w") as full:
                    done = subprocess.run([OPC, *given, *flags, "--ranks", "2"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertEqual(done.stderr.count("error[OPC0707]: cannot write to the standard output: No space left"), 1, done.stderr)
                # A reader that leaves is no error.
                reading, writing = os.pipe()
                os.close(reading)
                done = subprocess.run([OPC, *given, *flags, "--ranks", "2"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=300)
                os.close(writing)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        here, there = (subprocess.run([OPC, *given, "--output", "logits=-", "--ranks", "2", *how], capture_output=True, timeout=300) for how in (["--in-process"], []))
        self.assertEqual((there.returncode, there.stdout), (0, here.stdout))

    def interrupted(self, number, mark, *args):
        """opc with two ranks, told to end once `mark` says that it is on its way: (exit code, stdout, stderr)."""
        process = subprocess.Popen([OPC, "run", *args, "--ranks", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.time() + 120
        while not mark():
            self.assertIsNone(process.poll(), "it has ended")
            self.assertLess(time.time(), deadline)
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_signals_to_opc_end_training_of_all_ranks(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
            with self.subTest(number.name):
                metrics, save = self.path(f"{number.name}.jsonl"), self.path(number.name)
                code, out, err = self.interrupted(number, lambda metrics=metrics: os.path.exists(metrics) and os.path.getsize(metrics) > 2000, self.train_graph,
                                                  *self.train_flags(metrics, 100000000), "--save", save)
                self.assertEqual(code, 128 + number, err)
                self.assertRegex(out, r"^stopped at step \d+ of 100000000")
                self.assertTrue(os.path.exists(save))
                self.assertNotIn("OPC07", err)

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_signals_to_opc_end_repeated_runs_of_all_ranks(self):
        """As on one device: the percentiles of those that were made, the outputs, and the signal's exit code."""
        graph = self.path("mlp.pbtxt")
        shutil.copy(data("mlp.pbtxt"), graph)
        started = []

        def run_for_a_second():
            ranks = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if graph.encode() in self.command(pid)]
            started.extend([time.time()] if len(ranks) >= 4 and not started else [])  # opc, mpirun and two ranks
            return started and time.time() > started[0] + 2

        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                started.clear()
                code, out, err = self.interrupted(number, run_for_a_second, graph, "--fill", "rand", "--repeat", "1000000000", "--json")
                self.assertEqual(code, 128 + number, err)
                timing = json.loads(out)["timing"]
                self.assertIs(timing["interrupted"], True)
                self.assertGreater(timing["runs"], 1)
                self.assertNotRegex(err, "OPC0|rank 1:")

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_signals_reach_what_a_script_has_started(self):
        """And where they come before there is a rank, they are said again."""
        graph, script = self.path("scripted.pbtxt"), self.path("launcher.sh")
        shutil.copy(data("mlp.pbtxt"), graph)
        with open(script, "w") as f:
            f.write('#!/bin/sh\nmpirun --oversubscribe "$@"\n')
        os.chmod(script, 0o755)
        alive = lambda: [pid for pid in filter(str.isdigit, os.listdir("/proc")) if graph.encode() in self.command(pid)]
        for number, launcher, least in ((signal.SIGTERM, ["--launcher", script], 5), (signal.SIGINT, ["--launcher", script], 5), (signal.SIGINT, [], 2)):
            with self.subTest(number.name, launcher=launcher):
                code, _, err = self.interrupted(number, lambda: len(alive()) >= least, graph, "--fill", "rand", "--repeat", "1000000000", *launcher)
                self.assertEqual(code, 128 + number, err)
                deadline = time.time() + 10
                while alive() and time.time() < deadline:
                    time.sleep(0.1)
                self.assertEqual(alive(), [])

    def test_a_signal_is_heard_while_nobody_reads_the_output(self):
        script = self.path("chatty.sh")
        with open(script, "w") as f:
            f.write("#!/bin/sh\nexec yes\n")
        os.chmod(script, 0o755)
        process = subprocess.Popen([OPC, "run", data("mlp.pbtxt"), "--fill", "rand", "--ranks", "2", "--launcher", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.read(2), b"y\n")
        time.sleep(0.5)  # the pipe is full
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)

    @unittest.skipUnless(HAS_MPI, "no mpirun, or opc was built without MPI")
    def test_a_launcher_ends_with_opc(self):
        metrics = self.path("killed.jsonl")
        code, _, err = self.interrupted(signal.SIGKILL, lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 2000, self.train_graph,
                                        *self.train_flags(metrics, 100000000))
        self.assertEqual(code, -signal.SIGKILL, err)
        deadline = time.time() + 10
        while any(metrics.encode() in self.command(pid) for pid in filter(str.isdigit, os.listdir("/proc"))):
            self.assertLess(time.time(), deadline, "a process is left")
            time.sleep(0.1)

    # --- flags --------------------------------------------------------------------------------------------------------
    @unittest.skipUnless(HAS_MPI, "needs mpirun and the MPI module")
    def test_the_folder_is_entered_once(self):
        """However -C is written: the ranks begin where it leads, and values that look like it stay."""
        os.makedirs(os.path.join(self.folder, "in", "in"), exist_ok=True)
        shutil.copy(data("mlp.pbtxt"), os.path.join(self.folder, "in", "mlp.pbtxt"))
        expected = self.check(run(OPC, "-C", "in", "run", "mlp.pbtxt", "--fill", "rand", "--print", "4", cwd=self.folder)).stdout
        for words in (["-C", "in", "run"], ["-Cin", "run"], ["-qC", "in", "run"], ["-qCin", "-j2", "run"], ["run", "-qC", "in"], ["-q", "run", "-j1", "-C", "in"]):
            with self.subTest(words):
                done = self.check(run(OPC, *words, "mlp.pbtxt", "--fill", "rand", "--print", "4", "--ranks", "2", cwd=self.folder))
                self.assertEqual(done.stdout, expected)
        shutil.copy(data("mlp.pbtxt"), os.path.join(self.folder, "in", "-C"))
        done = self.check(run(OPC, "-C", "in", "run", "--fill", "rand", "--print", "4", "--ranks", "2", "--", "-C", cwd=self.folder))
        self.assertEqual(done.stdout, expected)

    def test_time_limits_that_no_clock_counts(self):
        ways = [["--in-process"], *([[]] if HAS_MPI else [])]
        for way in ways:
            for limit in ("1e300", "1e9", "1e10"):
                with self.subTest(limit, way=way):
                    self.check(opc("run", data("mlp.pbtxt"), "--fill", "rand", "--ranks", "2", "--timeout", limit, *way))
            for limit in ("1e-9", "1e-300"): # one millisecond is the least: it may be enough or not
                with self.subTest(limit, way=way):
                    done = opc("run", data("mlp.pbtxt"), "--fill", "rand", "--ranks", "2", "--timeout", limit, *way)
                    self.assertIn(done.returncode, (0, 5), done.stderr)
                    if done.returncode:
                        self.assertIn("OPC0722", done.stderr)
                        self.assertNotIn(" 0 s", done.stderr)
        for limit in ("0", "nan", "inf", "-1", "1e400", ""):
            done = self.check(opc("run", data("mlp.pbtxt"), "--fill", "rand", "--ranks", "2", "--in-process", "--timeout", limit), 2)
            self.assertIn("--timeout takes a number of seconds above 0", done.stderr)

    def test_flags(self):
        graph = data("mlp.pbtxt")
        for args, text in ((["--ranks", "0"], "--ranks takes"), (["--ranks", "2", "--mesh", "3"], "--ranks says 2"),
                           (["--in-process"], "number of ranks"), (["--ranks", "2", "--timeout", "-1"], "--timeout takes"),
                           (["--ranks", "2", "--in-process", "--launcher", "srun"], "give one"),
                           (["--ranks", "2", "--in-process", "--trap", "nan"], "one rank"),
                           (["--ranks", "4097", "--in-process"], "a number from 1 to 4096"),
                           # Before anything starts them: this launcher would end well.
                           (["--mesh", "4097", "--launcher", "true"], "opc runs on at most 4096"),
                           (["--mesh", "64x65", "--in-process"], "opc runs on at most 4096")):
            done = self.check(opc("run", graph, "--fill", "rand", *args), 2)
            self.assertIn(text, done.stderr)
        self.check(opc("run", graph, "--fill", "rand", "--ranks", "1"))
        done = self.check(opc("run", graph, "--fill", "rand", "--ranks", "2", "--launcher", "/no/such/launcher"), 4)
        self.assertIn("OPC0725", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
