# Compilations that stop and go on: IR written after each phase and read again gives the same plan; what is no such IR is
# refused; IR that is shown and compared; dumps, and reproducers that opc reads as graphs.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from folder_test import FolderTest

sys.path.insert(0, os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "onnx"))
import messages

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
PHASES = ["import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory"]


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        for name in ("mlp.pbtxt", "cnn.pbtxt"):
            shutil.copy(os.path.join(DIGITS, name), self.folder)
        with open(os.path.join(self.folder, "train.pbtxt"), "w", encoding="utf-8") as out:
            for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
                with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
                    out.write(f.read())

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], cwd=self.folder, capture_output=True, timeout=120)
        said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{args}: {said}")
        return said

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()


class GoesOn(Folder):
    def same(self, graph, *options, phases=PHASES, kinds=("mlir", "mlirbc")):
        self.opc("compile", graph, *options, "-o", "whole.plan")
        for phase in phases:
            for kind in kinds:
                self.opc("compile", graph, *options, "--to", phase, "--emit", kind, "-o", "part." + kind)
                self.opc("compile", "part." + kind, *options, "--from", phase, "-o", "rest.plan")
                self.assertEqual(self.read("whole.plan"), self.read("rest.plan"), (graph, phase, kind))

    def test_forward(self):
        self.same("mlp.pbtxt")

    def test_images_and_fusion(self):
        self.same("cnn.pbtxt", phases=["shape", "simplify", "fuse", "tasks"])

    def test_training_step(self):
        self.opc("grad", "train.pbtxt", "--loss", "loss", "--optimizer", "adam", "--lr", "0.001", "-o", "step.pbtxt")
        self.same("step.pbtxt", kinds=("mlirbc",))

    def test_mesh(self):
        self.opc("grad", "train.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt")
        self.same("step.pbtxt", "--mesh", "2x2", phases=["shape", "sbp", "boxing", "fuse", "tasks", "memory"], kinds=("mlir",))

    def test_stop_after_stop(self):
        """Text that is read and written again is the same text."""
        self.opc("compile", "mlp.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "a.mlir")
        self.opc("compile", "a.mlir", "--from", "shape", "--to", "shape", "--emit", "mlir", "-o", "b.mlir")
        self.assertEqual(self.read("a.mlir"), self.read("b.mlir"))
        self.opc("compile", "a.mlir", "--from", "shape", "--to", "fuse", "--emit", "mlir", "-o", "c.mlir")
        self.opc("compile", "mlp.pbtxt", "--to", "fuse", "--emit", "mlir", "-o", "d.mlir")
        self.assertEqual(self.read("c.mlir"), self.read("d.mlir"))

    def test_changed_by_hand(self):
        """What the text says counts."""
        self.opc("compile", "mlp.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "a.mlir")
        text = self.read("a.mlir").decode()
        self.assertEqual(text.count('"relu"'), 2)
        self.write("b.mlir", text.replace('"relu"', '"exp"', 1))
        self.opc("compile", "b.mlir", "--from", "shape", "-o", "b.plan")
        shown = subprocess.run([OPC, "show", "b.plan", "--what", "ops"], cwd=self.folder, capture_output=True, text=True, timeout=60).stdout
        self.assertIn("exp", shown)


class Refused(Folder):
    def refuse(self, *args, words, code=3):
        said = self.opc("compile", *args, "-o", "out.plan", code=code)
        self.assertIn(words, said)
        self.assertFalse(os.path.exists(self.path("out.plan")))

    def test_files(self):
        self.opc("compile", "mlp.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "a.mlir")
        text = self.read("a.mlir").decode()
        self.refuse("a.mlir", "--from", "sbp", words="it was written after phase shape, and --from says sbp")
        self.refuse("mlp.pbtxt", "--from", "shape", words="mlp.pbtxt: it is no IR, which --from goes on from")
        self.refuse(self.write("empty.mlir", "module {\n}\n"), "--from", "shape", words="does not say which phase")
        self.refuse(self.write("old.mlir", re.sub(r'opc = "[^"]*"', 'opc = "0.0.1"', text)), "--from", "shape", words="written by opc 0.0.1")
        self.refuse(self.write("cut.mlir", text[:len(text) // 2]), "--from", "shape", words="OPC0114")
        self.refuse(self.write("type.mlir", text.replace("tensor<360x64xf32>", "tensor<360x65xf32>", 1)), "--from", "shape", words="error[OPC")
        self.refuse(self.write("op.mlir", text.replace('"relu"', '"no_such_op"', 1)), "--from", "shape", words="error[OPC")
        self.opc("compile", "mlp.pbtxt", "-o", "a.plan")
        self.refuse("a.plan", "--from", "tasks", words="is a plan", code=2)

    def test_flags(self):
        self.opc("compile", "mlp.pbtxt", "--to", "sbp", "--emit", "mlir", "-o", "a.mlir")
        self.refuse("a.mlir", "--from", "plan", words="nothing is left to do after phase plan", code=2)
        self.refuse("a.mlir", "--from", "sbb", words="did you mean sbp?", code=2)
        self.refuse("a.mlir", "--from", "sbp", "--shape", "image=2,64", words="--from reads IR", code=2)
        self.refuse("a.mlir", "--from", "sbp", "--cast-ops", "relu=f64", words="--from reads IR", code=2)
        self.refuse("a.mlir", "--from", "sbp", "--to", "shape", "--emit", "mlir", words="is before --from sbp", code=2)
        for emit, phase in (("pbtxt", "import"), ("pb", "import"), ("onnx", "grad")):
            self.refuse("a.mlir", "--from", "sbp", "--emit", emit, words=f"--emit {emit} writes the graph as it is after phase {phase}, which is before --from sbp", code=2)
        self.refuse("a.mlir", "--from", "sbp", "--mesh", "2", words="it was planned for one device")
        self.opc("compile", "mlp.pbtxt", "--mesh", "2", "--to", "boxing", "--emit", "mlir", "-o", "b.mlir")
        self.refuse("b.mlir", "--from", "boxing", words="it was planned for 2 ranks")
        self.refuse("b.mlir", "--from", "boxing", "--mesh", "4", words="it was planned for 2 ranks")

    def test_pending_work(self):
        """A step that a later phase was to make is not lost without a word."""
        job = self.read("train.pbtxt").decode()
        net = "net {\n" + job + "}\n"
        self.write("job.pbtxt", net + 'job_conf { train_conf { loss_lbn: "mean_loss/output_tensor_0" optimizer_conf { '
                   'variable_op_names: "fc1_w" base_learning_rate: 0.1 naive_conf { } } } }\n')
        self.opc("compile", "job.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "a.mlir")
        self.refuse("a.mlir", "--from", "shape", words="the training step that train_conf asks for is made in phase grad")
        self.opc("compile", "job.pbtxt", "-o", "whole.plan")
        self.opc("compile", "job.pbtxt", "--to", "grad", "--emit", "mlir", "-o", "a.mlir")
        self.opc("compile", "a.mlir", "--from", "grad", "-o", "rest.plan")
        self.assertEqual(self.read("whole.plan"), self.read("rest.plan"))

    def test_every_byte(self):
        """A file with a changed byte is a plan or an error, and never the end of the program."""
        for kind in ("mlir", "mlirbc"):
            self.opc("compile", "mlp.pbtxt", "--to", "tasks", "--emit", kind, "-o", "a." + kind)
            good = self.read("a." + kind)
            for at in range(3, len(good), len(good) // 40):
                bad = bytearray(good)
                bad[at] ^= 0x15
                self.write("b." + kind, bytes(bad))
                done = subprocess.run([OPC, "compile", "b." + kind, "--from", "tasks", "-o", "b.plan"], cwd=self.folder, capture_output=True, timeout=60)
                self.assertIn(done.returncode, (0, 3, 4), (kind, at, done.stderr))


class Shown(Folder):
    """IR as a graph of opc show, diff and report: after each phase, from the standard input and from a revision."""

    def stdout(self, *args, code=0, given=None):
        done = subprocess.run([OPC, *args], cwd=self.folder, capture_output=True, timeout=120, input=given)
        self.assertEqual(done.returncode, code, f"{args}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def ops(self, *args, **kw):
        document = json.loads(self.stdout("show", *args, "--json", **kw))
        return {o["name"]: (o["type"], [t["shape"] for t in o["outputs"]]) for o in document["ops"]}

    def test_each_phase(self):
        whole = self.ops("cnn.pbtxt")
        shown = {}
        for phase in [*PHASES, "plan"]:
            for kind in ("mlir", "mlirbc"):
                self.opc("compile", "cnn.pbtxt", "--to", phase, "--emit", kind, "-o", "a." + kind)
                ops = self.ops("a." + kind)
                self.assertEqual(shown.setdefault(phase, ops), ops)
                self.assertEqual(ops, self.ops("-", given=self.read("a." + kind)))
                if phase in ("import", "shape", "grad", "simplify", "sbp", "boxing"): # nothing is joined yet
                    self.assertEqual(ops, whole)
                    self.assertEqual(self.stdout("diff", "cnn.pbtxt", "a." + kind), "no difference\n")
                    self.assertEqual(self.stdout("diff", "-", "cnn.pbtxt", given=self.read("a." + kind)), "no difference\n")
                else:
                    self.assertEqual({"conv1", "bn1"} & set(ops), set())
                    self.assertIn("OP_REMOVED", self.stdout("diff", "cnn.pbtxt", "a." + kind, "--stat", code=1))
                    self.assertEqual(self.stdout("show", "a." + kind, "--what", "tasks"), self.stdout("show", "cnn.pbtxt", "--what", "tasks"))
        self.assertEqual(self.stdout("diff", "a.mlir", "a.mlirbc"), "no difference\n")
        self.opc("report", "a.mlirbc", "-o", "r.html")
        self.assertIn("pool2", self.read("r.html").decode())
        for picture in ("svg", "dot", "html", "model-explorer", "onnx"):
            self.opc("show", "a.mlir", "--as", picture, "-o", "p." + picture)
            self.assertIn(b"pool2", self.read("p." + picture))

    def test_counts(self):
        """Ops are what opc show lists, in every command and after every phase, and tasks what a plan runs."""
        listed = lambda what: len(json.loads(self.stdout("show", what, "--json"))["ops"])
        for graph in ("mlp.pbtxt", "cnn.pbtxt"):
            said = re.search(r": (\d+) ops, (\d+) tasks in ", self.opc("compile", graph, "-o", "g.plan"))
            self.assertIsNotNone(said)
            ops, tasks = map(int, said.groups())
            self.assertEqual(ops, listed(graph))
            self.assertIn(f", {ops} ops\n", self.stdout("show", graph))
            self.assertLess(tasks, ops)
            document = json.loads(self.stdout("compile", graph, "-o", "g.plan", "--json"))
            self.assertEqual((document["ops"], document["tasks"]), (ops, tasks))
            self.assertEqual([p["phase"] for p in document["phases"]], [*PHASES, "plan"])
            for phase in document["phases"]:
                self.opc("compile", graph, "--to", phase["phase"], "--emit", "mlir", "-o", "a.mlir")
                self.assertEqual(phase["ops"], listed("a.mlir"), phase)
            run = json.loads(self.stdout("run", graph, "--fill", "zeros", "--stats", "--print", "none", "--json"))
            self.assertEqual((run["stats"]["tasks"], run["stats"]["phases"][1]["ops"]), (tasks, ops))

    def test_a_mesh(self):
        """What the IR says of its mesh need not be said again, and a contradiction is refused."""
        mesh = ["--mesh", "2x2", "--sbp", "fc1_w=[B,S(0)]"]
        boxing = self.stdout("show", "mlp.pbtxt", "--what", "boxing", *mesh)
        self.assertIn("fc1", boxing)
        for phase in ("sbp", "boxing", "fuse", "tasks", "memory"):
            self.opc("compile", "mlp.pbtxt", *mesh, "--to", phase, "--emit", "mlir", "-o", "a.mlir")
            self.assertEqual(self.stdout("show", "a.mlir", "--what", "boxing").splitlines()[:4], boxing.splitlines()[:4])
            self.assertIn("mesh 2x2 on ranks 0-3", self.stdout("show", "a.mlir", "--what", "sbp"))
            if phase == "sbp": # from boxing on ops read what transitions make
                for more in (["--mesh", "2x2"], []):
                    self.assertEqual(self.stdout("diff", "a.mlir", "mlp.pbtxt", *more, "--ignore", "sbp,cost", "--stat"), "no difference\n")
                    self.assertIn("SBP_CHANGED", self.stdout("diff", "mlp.pbtxt", "a.mlir", *more, "--stat", code=1))
            self.assertIn("it was planned for 4 ranks", self.opc("show", "a.mlir", "--mesh", "2", code=3))
        self.opc("compile", "mlp.pbtxt", "--to", "tasks", "--emit", "mlir", "-o", "one.mlir")
        self.assertIn("states are chosen for a mesh", self.opc("show", "one.mlir", "--what", "sbp", code=2))
        self.assertIn("it was planned for one device", self.opc("show", "one.mlir", "--what", "sbp", "--mesh", "2", code=3))

    def test_a_revision(self):
        git = lambda *args: subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *args], cwd=self.folder, check=True, capture_output=True)
        self.opc("compile", "mlp.pbtxt", "--to", "sbp", "--emit", "mlirbc", "-o", "a.mlirbc")
        git("init", "-q", ".")
        git("add", ".")
        git("commit", "-q", "-m", "one")
        os.remove(self.path("a.mlirbc"))
        ops = self.ops("mlp.pbtxt")
        for graph in ("git:HEAD:a.mlirbc", "git:HEAD:mlp.pbtxt"):
            self.assertEqual(self.stdout("diff", graph, "mlp.pbtxt"), "no difference\n")
            self.assertEqual(self.ops(graph), ops)
            self.opc("report", graph, "-o", "r.html")
        self.assertIn("error", self.opc("show", "git:HEAD:none.mlir", code=2))

    def test_refused(self):
        self.opc("compile", "mlp.pbtxt", "--to", "shape", "--emit", "mlir", "-o", "a.mlir")
        for flags in (["--shape", "image=2,64"], ["--until", "relu1"]):
            self.assertIn("needs the graph, and a.mlir is IR", self.opc("show", "a.mlir", *flags, code=2))
        self.assertIn("--reproducer", self.opc("compile", "a.mlir", "--from", "shape", "--reproducer", "r.txt", "-o", "x.plan", code=2))
        self.assertFalse(os.path.exists(self.path("r.txt")))
        text = self.read("a.mlir").decode()
        others = {"module {\n}\n": "does not say which phase", "module {\n  func.func @f(%x: i32) -> i32 { return %x : i32 }\n}\n": "OPC0114",
                  "// -----\n" + text[:500]: "OPC0114", "#loc = loc(": "OPC0114", "module @x attributes {": "OPC0114",
                  text.replace('phase = "shape"', 'phase = "night"'): "which opc does not have",
                  text.replace('phase = "shape"', 'phase = "tasks"'): None, # what it says is taken for true, and is checked
                  re.sub(r'opc = "[^"]*"', 'opc = "0.0.1"', text): "written by opc 0.0.1"}
        for bad, words in others.items():
            self.write("b.mlir", bad)
            for command in (["show", "b.mlir"], ["show", "b.mlir", "--what", "cost"], ["diff", "b.mlir", "mlp.pbtxt"], ["report", "b.mlir", "-o", "r.html"]):
                done = subprocess.run([OPC, *command], cwd=self.folder, capture_output=True, text=True, timeout=60)
                self.assertIn(done.returncode, (3,) if words else (0, 1, 3), (bad[:60], command, done.stderr))
                self.assertIn(words or "", done.stderr)

    def test_states_of_axes_that_are_not_there(self):
        self.opc("compile", "mlp.pbtxt", "--mesh", "2", "--sbp", "fc1_w=S(0)", "--to", "boxing", "--emit", "mlir", "-o", "a.mlir")
        lines = self.read("a.mlir").decode().split("\n")
        at = next(i for i, line in enumerate(lines) if "opc.boxing" in line and re.search(r"S\(\d\)", line))
        lines[at] = re.sub(r"S\(\d\)", "S(7)", lines[at])
        self.write("b.mlir", "\n".join(lines))
        for command in (["show", "b.mlir", "--what", "cost"], ["report", "b.mlir", "-o", "r.html"], ["compile", "b.mlir", "--from", "boxing", "--mesh", "2", "-o", "b.plan"]):
            self.assertIn("OPC0114", self.opc(*command, code=3))

    def test_every_byte(self):
        for kind, to, mesh in (("mlir", "import", []), ("mlirbc", "simplify", []), ("mlir", "boxing", ["--mesh", "2"])):
            self.opc("compile", "mlp.pbtxt", *mesh, "--to", to, "--emit", kind, "-o", "a." + kind)
            good = self.read("a." + kind)
            for at in range(3, len(good), len(good) // 30):
                for change in (0x15, 0x01):
                    bad = bytearray(good)
                    bad[at] ^= change
                    self.write("b." + kind, bytes(bad))
                    done = subprocess.run([OPC, "show", "b." + kind, "--what", "memory"], cwd=self.folder, capture_output=True, timeout=60)
                    self.assertIn(done.returncode, (0, 3, 4), (kind, at, change, done.stderr))


class Dumps(Folder):
    def dumped(self, *options):
        shutil.rmtree(self.path("ir"), ignore_errors=True)
        self.opc("compile", "mlp.pbtxt", "-o", "out.plan", "--dump", "ir", *options)
        return sorted(os.listdir(self.path("ir")))

    def test_all(self):
        self.assertEqual([name[3:-5] for name in self.dumped()], PHASES + ["plan"])

    def test_filter(self):
        self.assertEqual(self.dumped("--dump-filter", "sbp|box"), ["05-sbp.mlir", "06-boxing.mlir"])
        self.assertEqual(self.dumped("--dump-filter", "^none$"), [])

    def test_changed(self):
        """On one device sbp and boxing change nothing, and there are no gradients."""
        names = [name[3:-5] for name in self.dumped("--dump-changed")]
        self.assertEqual(names[:2], ["import", "shape"])
        for phase in ("grad", "sbp", "boxing", "memory", "plan"):
            self.assertNotIn(phase, names)
        self.assertEqual(self.dumped("--dump-changed", "--dump-filter", "s"), [f"{PHASES.index(n) + 1:02}-{n}.mlir" for n in names if "s" in n])

    def test_bad(self):
        self.assertIn("--dump-filter takes a regular expression", self.opc("compile", "mlp.pbtxt", "--dump", "ir", "--dump-filter", "(", code=2))
        self.assertIn("are for --dump", self.opc("compile", "mlp.pbtxt", "--dump-changed", code=2))


class Reproducers(Folder):
    def head(self, name):
        lines = self.read(name).decode().split("\n")
        self.assertEqual(lines[0], "# opc reproducer 1")
        found = {}
        for line in lines[1:]:
            match = re.match(r"# (command|version|plugin|phase): (.*)$", line)
            if not match:
                break
            found[match.group(1)] = json.loads(match.group(2))
        return found

    def test_words_that_are_spelled_as_the_graph(self):
        for name in ("fc1", "compile", "--until"):
            self.write(name, self.read("mlp.pbtxt").decode())
            self.opc("compile", "-qo", "out.plan", "--until", "fc1", "--reproducer=r.pbtxt", "--", name)
            self.assertEqual(self.head("r.pbtxt")["command"], ["compile", "-qo", "out.plan", "--until", "fc1", "--", "{}"])

    def test_of_a_success(self):
        self.opc("compile", "mlp.pbtxt", "-o", "out.plan", "--shape", "image=7,64", "--reproducer", "r.pbtxt")
        head = self.head("r.pbtxt")
        self.assertEqual(head["command"], ["compile", "{}", "-o", "out.plan", "--shape", "image=7,64"])
        self.assertEqual(head["phase"], "plan")
        self.assertTrue(self.read("r.pbtxt").endswith(self.read("mlp.pbtxt")))
        self.opc(*[w.replace("{}", "r.pbtxt").replace("out.plan", "again.plan") for w in head["command"]])
        shown = [subprocess.run([OPC, "show", p, "--json"], cwd=self.folder, capture_output=True, text=True, timeout=60).stdout for p in ("out.plan", "again.plan")]
        ops = [[(o["name"], o["outputs"]) for o in json.loads(s)["ops"]] for s in shown]
        self.assertEqual(*ops)

    def test_of_a_failure(self):
        self.write("bad.pbtxt", self.read("mlp.pbtxt").decode().replace('"fc1_w/out"', '"image/out"', 1))
        first = self.opc("compile", "bad.pbtxt", "-o", "out.plan", "--reproducer", "r.pbtxt", code=3)
        head = self.head("r.pbtxt")
        self.assertEqual(head["phase"], "shape")
        again = self.opc(*[w.replace("{}", "r.pbtxt") for w in head["command"]], code=3)
        codes = [re.findall(r"error\[(OPC\d+)\]", said) for said in (first, again)]
        self.assertEqual(*codes)

    def test_of_a_binary_graph(self):
        self.opc("compile", "mlp.pbtxt", "--emit", "pb", "-o", "mlp.pb")
        self.opc("compile", "mlp.pb", "-o", "out.plan", "--reproducer", "r.pbtxt")
        self.assertEqual(self.head("r.pbtxt")["command"], ["compile", "{}", "-o", "out.plan"])
        self.opc("show", "r.pbtxt")

    def test_of_a_model(self):
        """A model is a graph when its sizes are known: until then nothing stands for the whole of it."""
        shape = lambda *dims: messages.field(2, b"".join(messages.field(1, messages.field(1, d) if isinstance(d, int) else messages.field(2, d)) for d in dims))
        value = lambda name: messages.field(1, name) + messages.field(2, messages.field(1, messages.field(1, 1) + shape("n", 3)))
        node = messages.field(1, "x") + messages.field(2, "y") + messages.field(3, "bend") + messages.field(4, "Relu")
        graph = messages.field(1, node) + messages.field(2, "g") + messages.field(11, value("x")) + messages.field(12, value("y"))
        self.write("m.onnx", messages.field(1, 8) + messages.field(7, graph) + messages.field(8, messages.field(2, 13)))
        for command in (["compile", "m.onnx", "--emit", "pbtxt", "-o", "out"], ["compile", "m.onnx", "--to", "import", "--emit", "mlir", "-o", "out"],
                        ["compile", "m.onnx", "--emit", "pb", "-o", "out"], ["compile", "m.onnx", "--reproducer", "out", "-o", "x.plan"],
                        ["show", "m.onnx"], ["show", "m.onnx", "--json"], ["show", "m.onnx", "--as", "dot", "-o", "out"],
                        ["report", "m.onnx", "-o", "out"], ["diff", "m.onnx", "m.onnx"]):
            said = self.opc(*command, code=3)
            self.assertIn("OPC0207", said)
            self.assertIn("--shape x=1,", said)
            self.assertFalse(os.path.exists(self.path("out")), command)
        self.assertIn("x f32[?,3]", self.opc("show", "m.onnx", code=3)) # which inputs, as far as they are known
        self.opc("compile", "m.onnx", "--shape", "x=2,3", "--emit", "pbtxt", "-o", "g.pbtxt")
        self.assertIn('"relu"', self.read("g.pbtxt").decode())
        self.opc("compile", "m.onnx", "--shape", "x=2,3", "--reproducer", "r.txt", "-o", "m.plan")
        self.assertIn('"relu"', self.read("r.txt").decode())
        self.opc("compile", "r.txt", "--shape", "x=2,3", "-o", "again.plan")
        self.assertEqual(json.loads(subprocess.run([OPC, "show", "again.plan", "--json"], cwd=self.folder, capture_output=True, check=True).stdout)["ops"][0]["type"], "relu")
        self.assertIn("1 op", subprocess.run([OPC, "show", "m.onnx", "--shape", "x=2,3"], cwd=self.folder, capture_output=True, check=True, text=True).stdout)

    def test_replaces_nothing(self):
        before = self.read("mlp.pbtxt")
        self.opc("compile", "mlp.pbtxt", "-o", "out.plan", "--reproducer", "mlp.pbtxt", code=2)
        self.opc("compile", "mlp.pbtxt", "-o", "out.plan", "--reproducer", "out.plan", code=2)
        self.assertEqual(self.read("mlp.pbtxt"), before)


if __name__ == "__main__":
    unittest.main()
