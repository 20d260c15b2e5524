# What every command must bear: readers that go away, narrow terminals, folders that cannot be written, odd environments; and each exit code.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_cases as base

OPC = base.OPC
# A call of every command that prints; {g} is a graph, {p} its plan.
PRINTS = {
    "compile": ["compile", "{g}", "--to", "shape", "--emit", "mlir", "-o", "-"],
    "run": ["run", "{g}", "--fill", "ones"],
    "grad": ["grad", "{g}", "--loss", "fc/out_0", "-o", "-"],
    "quantize": ["quantize", "{g}", "--to", "int8-weights", "--json"],
    "check": ["check", "--list-rules"],
    "diff": ["diff", "{g}", "{h}"],
    "show": ["show", "{g}", "--what", "ops"],
    "report": ["report", "{g}", "-o", "-"],
    "ops": ["ops"],
    "plugin": None, # a library is needed: tests/plugin
    "verify": ["verify", "relu"],
    "bench": ["bench", "{g}", "--fill", "ones", "--rounds", "6"],
    "debug": ["debug", "first-diff", "{g}", "--fill", "ones"],
    "sdk": ["sdk", "--cflags"],
    "python": ["python", "--path"],
    "explain": ["explain", "OPC0999"],
    "doctor": ["doctor"],
    "config": ["config"],
    "cache": ["cache"],
    "completion": ["completion", "bash"],
    "help": ["help"],
    "version": ["version"],
}
if os.environ.get("OPC_SANITIZE"): # a build that has no package
    PRINTS["python"] = []
# Exit codes of commands, a call each. 5: a kernel fails, or what is to be written cannot be; 70: an internal error.
GOOD, BAD = "{g}", "{bad}"
CODES = [
    ("compile", 0, ["compile", GOOD, "-o", "x.plan"]), ("compile", 2, ["compile"]), ("compile", 2, ["compile", "missing.pbtxt"]),
    ("compile", 3, ["compile", BAD, "-o", "x.plan"]), ("compile", 4, ["compile", GOOD, "-o", "x.plan", "--mesh", "2", "--device-memory", "1"]),
    ("compile", 70, ["compile", GOOD, "-o", "x.plan"]), ("run", 0, ["run", GOOD, "--fill", "ones"]),
    ("run", 1, ["run", GOOD, "--fill", "ones", "--expect", "y=9"]), ("run", 2, ["run", GOOD]), ("run", 3, ["run", BAD, "--fill", "ones"]),
    ("run", 4, ["run", GOOD, "--fill", "ones", "--device", "gpu"]), ("run", 5, ["run", GOOD, "--input", "x=nan", "--fill", "ones", "--trap", "nan"]),
    ("run", 70, ["run", GOOD, "--fill", "ones"]), ("grad", 0, ["grad", GOOD, "--loss", "fc/out_0", "-o", "gr.pbtxt"]), ("grad", 2, ["grad", GOOD]),
    ("grad", 3, ["grad", BAD, "--loss", "none", "-o", "gr.pbtxt"]), ("grad", 70, ["grad", GOOD, "--loss", "fc/out_0", "-o", "gr.pbtxt"]),
    ("quantize", 0, ["quantize", GOOD, "--to", "int8-weights", "-o", "q.onnx"]), ("quantize", 2, ["quantize", GOOD, "-o", "q.onnx"]),
    ("quantize", 3, ["quantize", BAD, "--to", "int8-weights", "-o", "q.onnx"]), ("quantize", 4, ["quantize", GOOD, "--to", "int8-weights", "-o", "q.onnx", "--device", "gpu"]),
    ("quantize", 70, ["quantize", GOOD, "--to", "int8-weights", "-o", "q.onnx"]),
    ("check", 0, ["check", "locked.pbtxt"]), ("check", 1, ["check", GOOD]), ("check", 2, ["check", "missing/"]), ("check", 3, ["check", BAD]),
    ("check", 4, ["check", "newer.pbtxt"]), ("check", 5, ["check", "fed.pbtxt"]), ("check", 70, ["check", GOOD]), ("diff", 0, ["diff", GOOD, GOOD]), ("diff", 1, ["diff", GOOD, "{h}"]),
    ("diff", 2, ["diff", GOOD]), ("diff", 3, ["diff", GOOD, "{text}"]), ("diff", 4, ["diff", "newer.opc.lock", GOOD]), ("diff", 70, ["diff", GOOD, "{h}"]), ("show", 0, ["show", GOOD]), ("show", 2, ["show", "missing.pbtxt"]),
    ("show", 3, ["show", BAD]), ("show", 70, ["show", GOOD, "--what", "memory"]), ("report", 0, ["report", GOOD, "-o", "r.html"]),
    ("report", 2, ["report"]), ("report", 3, ["report", "{text}", "-o", "r.html"]), ("report", 70, ["report", GOOD, "-o", "r.html"]),
    ("ops", 0, ["ops"]), ("ops", 2, ["ops", "--no-such"]), ("ops", 4, ["ops", "--plugin", "{text}"]), ("verify", 0, ["verify", "relu"]),
    ("verify", 2, ["verify", "no_such_op"]), ("bench", 0, ["bench", GOOD, "--fill", "ones", "--rounds", "6"]), ("bench", 2, ["bench"]),
    ("bench", 3, ["bench", BAD, "--fill", "ones"]), ("bench", 70, ["bench", GOOD, "--fill", "ones"]),
    ("debug", 0, ["debug", "first-diff", GOOD, "--fill", "ones"]), ("debug", 2, ["debug", "first-diff"]), ("debug", 3, ["debug", "replay", GOOD]),
    ("debug", 70, ["debug", "first-diff", GOOD, "--fill", "ones"]), ("plugin", 2, ["plugin", "check"]), ("plugin", 4, ["plugin", "check", "{text}"]),
    ("explain", 0, ["explain", "exit-codes"]), ("explain", 2, ["explain", "OPC0000"]), ("config", 0, ["config"]), ("config", 2, ["config", "no.such"]),
    ("cache", 0, ["cache"]), ("cache", 2, ["cache", "no-such"]), ("doctor", 0, ["doctor"]), ("sdk", 0, ["sdk", "--cflags"]), ("completion", 0, ["completion", "zsh"]), ("completion", 2, ["completion", "tcsh"]),
    ("version", 0, ["version"]), ("help", 0, ["help", "run"]), ("help", 2, ["help", "no-such"]),
]


class Traps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        texts = {"g": base.GRAPH, "h": base.GRAPH.replace('"relu"', '"sigmoid"'), "bad": base.GRAPH.replace("dim: 3 dim: 5", "dim: 4 dim: 5"),
                 "text": "no graph at all\n", "locked": base.GRAPH, "newer": base.GRAPH, "fed": base.GRAPH}
        cls.names = {}
        for name, text in texts.items():
            cls.names[name] = os.path.join(cls.folder, name + ".pbtxt")
            with open(cls.names[name], "w", encoding="utf-8") as f:
                f.write(text)
        for name in ("locked", "newer"):
            subprocess.run([OPC, "check", f"{name}.pbtxt", "--update", "-q"], cwd=cls.folder, env=cls.environment(), timeout=60, check=False)
        with open(os.path.join(cls.folder, "fed.opc.inputs.npz"), "wb") as f:
            f.write(b"no archive")
        lock = os.path.join(cls.folder, "newer.opc.lock")
        with open(lock, encoding="utf-8") as f:
            text = f.read()
        with open(lock, "w", encoding="utf-8") as f:
            f.write(text.replace('"opc_lock":1', '"opc_lock":99', 1))

    @staticmethod
    def environment(**more):
        env = {**{k: v for k, v in os.environ.items() if k not in base.KEPT_OUT}, "OPC_CRASH_DIR": "none", **more}
        return {k: v for k, v in env.items() if v is not None}

    def words(self, call):
        return [OPC, "--config", "none", *[w.format(**self.names) if "{" in w else w for w in call]]

    def opc(self, call, cwd=None, **env):
        return subprocess.run(self.words(call), capture_output=True, text=True, timeout=120, cwd=cwd or self.folder, env=self.environment(**env))

    def test_every_command_is_in_the_tables(self):
        listed = json.loads(self.opc(["__commands"]).stdout)["commands"]
        names = {c["name"] for c in listed if not c["hidden"]}
        self.assertEqual(names, set(PRINTS))
        self.assertEqual(names - {c for c, _, _ in CODES}, {"python"}) # whose exit codes depend on what is installed

    def test_every_code_is_in_the_table(self):
        """Of check all there are; of diff all but 5, which is of runs, and a diff runs nothing."""
        codes = lambda command: {code for c, code, _ in CODES if c == command}
        self.assertEqual(codes("check"), {0, 1, 2, 3, 4, 5, 70})
        self.assertEqual(codes("diff"), {0, 1, 2, 3, 4, 70})

    def test_exit_codes(self):
        for command, code, call in CODES:
            with self.subTest(command=command, code=code, call=call):
                plan = "shape:throw" if code == 70 else ""
                done = self.opc(call, OPC_TEST_CRASH=plan)
                self.assertEqual(done.returncode, code, done.stderr)
                if code not in (0, 1):
                    self.assertTrue(done.stderr.startswith("error[") or "error[" in done.stdout + done.stderr, done.stderr)

    def test_a_reader_that_goes_away(self):
        for command, call in PRINTS.items():
            with self.subTest(command):
                read, write = os.pipe()
                os.close(read)
                done = subprocess.run(self.words(call or ["help"]), stdout=write, stderr=subprocess.PIPE, text=True, timeout=120,
                                      cwd=self.folder, env=self.environment())
                os.close(write)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertNotIn("error", done.stderr)

    def test_a_terminal_of_twenty_columns(self):
        for command, call in PRINTS.items():
            if not call or "-" in call or command in ("completion", "python", "sdk", "bench"):
                continue
            with self.subTest(command):
                done = self.opc(call, COLUMNS="20")
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertTrue((done.stdout + done.stderr).strip())

    def test_folders_that_cannot_be_written(self):
        for command, call in PRINTS.items():
            with self.subTest(command):
                done = self.opc(call or ["help"], cwd="/proc/self", TMPDIR=None)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                done = self.opc(call or ["help"], cwd="/proc/self", TMPDIR="/nowhere/at/all")
                self.assertIn(done.returncode, (0, 1), done.stderr)
        done = self.opc(["compile", "{g}"], cwd="/proc/self")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_no_color_that_is_empty_is_unset(self):
        def colored(**env):
            master, slave = pty.openpty()
            done = subprocess.Popen(self.words(["show", "missing.pbtxt"]), stdout=slave, stderr=slave, stdin=slave, cwd=self.folder,
                                    env=self.environment(TERM="xterm", FORCE_COLOR=None, **env))
            os.close(slave)
            text = b""
            try:
                while chunk := os.read(master, 4096):
                    text += chunk
            except OSError: # the end of a terminal
                pass
            os.close(master)
            self.assertEqual(done.wait(60), 2)
            return b"\x1b[" in text

        self.assertTrue(colored(NO_COLOR=None))
        self.assertTrue(colored(NO_COLOR=""))
        self.assertFalse(colored(NO_COLOR="1"))
        self.assertFalse(colored(NO_COLOR="0"))

    def test_ci_0_is_no_ci(self):
        for value, code in (("0", 0), ("", 0), ("false", 0), ("true", 2), ("1", 2)):
            done = self.opc(["check", "locked.pbtxt", "--update"], CI=value)
            self.assertEqual(done.returncode, code, (value, done.stderr))

    def test_names_and_paths_with_signs(self):
        graph = os.path.join(self.folder, "signs.pbtxt")
        with open(graph, "w", encoding="utf-8") as f:
            f.write(base.GRAPH.replace('name: "x"', 'name: "a:b/x"').replace('"x/out"', '"a:b/x/out"'))
        np.save(os.path.join(self.folder, "v=1:2.npy"), np.ones((4, 3), np.float32))
        done = self.opc(["run", graph, "--input", "a:b/x=@v=1:2.npy", "--fill", "ones", "--expect", "y=1.5", "--output", "y=out=2.npy"])
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(os.path.join(self.folder, "out=2.npy")), np.full((4, 5), 1.5, np.float32))

    def test_tensors_of_other_machines(self):
        values = np.arange(12, dtype=np.float32).reshape(4, 3)
        wanted = np.maximum(values @ np.full((3, 5), 0.5, np.float32), 0)
        np.save(os.path.join(self.folder, "wanted.npy"), wanted)
        for name, array in (("fortran", np.asfortranarray(values)), ("big", values.astype(">f4")), ("both", np.asfortranarray(values.astype(">f4")))):
            np.save(os.path.join(self.folder, name + ".npy"), array)
            done = self.opc(["run", "{g}", "--input", f"x=@{name}.npy", "--fill", "ones", "--expect", "y=@wanted.npy"])
            self.assertEqual(done.returncode, 0, (name, done.stdout, done.stderr))

    def test_dimensions_of_nothing(self):
        for dims, shape in (("dim: 0 dim: 3", (0, 5)),):
            path = os.path.join(self.folder, "empty.pbtxt")
            with open(path, "w", encoding="utf-8") as f:
                f.write(base.GRAPH.replace("dim: 4 dim: 3", dims))
            done = self.opc(["run", path, "--fill", "ones", "--output", "y=empty.npy"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(np.load(os.path.join(self.folder, "empty.npy")).shape, shape)

    def test_safetensors_with_a_key_twice_or_bytes_twice(self):
        entry = '"w":{"dtype":"F32","shape":[3,5],"data_offsets":[0,60]}'
        for header in ("{%s,%s}" % (entry, entry), '{%s,"v":{"dtype":"F32","shape":[15],"data_offsets":[0,60]}}' % entry):
            with open(os.path.join(self.folder, "w.safetensors"), "wb") as f:
                f.write(struct.pack("<Q", len(header)) + header.encode() + bytes(60))
            done = self.opc(["run", "{g}", "--fill", "ones", "--weights", "w.safetensors"])
            self.assertEqual(done.returncode, 3, (header, done.stderr))

    def test_marks_and_line_ends_of_other_systems(self):
        for name, data in (("crlf", base.GRAPH.replace("\n", "\r\n").encode()), ("bom", b"\xef\xbb\xbf" + base.GRAPH.encode())):
            path = os.path.join(self.folder, name + ".pbtxt")
            with open(path, "wb") as f:
                f.write(data)
            done = self.opc(["diff", "{g}", path])
            self.assertEqual(done.returncode, 0, (name, done.stdout, done.stderr))

    def test_ctrl_c_leaves_no_half_file(self):
        folder = os.path.join(self.folder, "cut")
        os.mkdir(folder)
        for number, delay in enumerate((0.0, 0.02, 0.05, 0.1, 0.2)):
            for code, sent in ((130, signal.SIGINT), (143, signal.SIGTERM)):
                out = os.path.join(folder, f"{number}{sent}.npy")
                process = subprocess.Popen(self.words(["run", "{g}", "--fill", "rand", "--repeat", "100000000", "--output", f"y={out}", "--print", "none"]),
                                           stderr=subprocess.PIPE, cwd=folder, env=self.environment(),
                                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's background ignores it
                time.sleep(delay)
                process.send_signal(sent)
                process.communicate(timeout=60)
                self.assertIn(process.returncode, (code, -sent), sent)
                self.assertEqual([n for n in os.listdir(folder) if not n.endswith(".npy")], [])
                if os.path.exists(out):
                    self.assertEqual(np.load(out).shape, (4, 5))


if __name__ == "__main__":
    unittest.main(verbosity=1)
