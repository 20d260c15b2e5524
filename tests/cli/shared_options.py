# Options that all commands share: they do the same wherever they are given, in every order of words.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pty
import re
import subprocess
import unittest

from folder_test import FolderTest

GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 3 } data_type: kFloat } } }
op { name: "twice" user_conf { op_type_name: "broadcast_add" input { key: "x" value { s: "x/out" } } input { key: "y" value { s: "x/out" } } } }
op { name: "y" output_conf { in: "twice/z_0" } }
"""
# A call of every command that works on a graph.
CALLS = [["compile", "net.pbtxt", "-o", "out.plan"], ["run", "net.pbtxt", "--fill", "ones"], ["show", "net.pbtxt"],
         ["grad", "net.pbtxt", "--loss", "y", "--wrt", "x", "-o", "grad.pbtxt"], ["diff", "net.pbtxt", "net.pbtxt"],
         ["check", "net.pbtxt"], ["report", "net.pbtxt", "-o", "net.html"], ["bench", "net.pbtxt", "--fill", "ones", "--rounds", "6"],
         ["debug", "first-diff", "net.pbtxt", "--fill", "ones"]]


class Shared(FolderTest):
    def setUp(self):
        super().setUp()
        self.write("net.pbtxt", GRAPH)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def test_log(self):
        self.opc("compile", "net.pbtxt", "-o", "out.plan", "-q", "--log", "run.log")
        first = self.read("run.log")
        self.assertEqual(first.split("\n")[0], "# opc log: opc compile net.pbtxt -o out.plan -q --log run.log")
        self.assertRegex(first, r"\[\d\d:\d\d:\d\d\.\d{3}\] registry: \d+ ops\n")
        self.assertIn("wrote out.plan", first)  # for all that -q is silent
        self.assertTrue(first.endswith("exit code 0\n"))
        self.opc("run", "net.pbtxt", "--log", "run.log", code=2)
        both = self.read("run.log")
        self.assertTrue(both.startswith(first))
        self.assertIn("error[OPC0004]", both)
        self.assertTrue(both.endswith("exit code 2\n"))

    def test_log_replaces_nothing(self):
        self.assertIn("is no log of opc", self.opc("show", "net.pbtxt", "--log", "net.pbtxt", code=2).stderr)
        self.assertEqual(self.read("net.pbtxt"), GRAPH)
        self.assertIn("OPC0707", self.opc("show", "net.pbtxt", "--log", "net.pbtxt/log", code=2).stderr)

    def test_a_log_that_is_not_written(self):
        """A device that is always full, and one that takes everything."""
        self.assertIn("OPC0707]: cannot write the log /dev/full: No space left", self.opc("show", "net.pbtxt", "--log", "/dev/full", code=5).stderr)
        self.opc("show", "net.pbtxt", "--log", "/dev/null")

    def test_no_log_on_standard_output(self):
        self.assertIn("error[OPC0001]: --log writes to the end of a file", self.opc("--log", "-", "show", "net.pbtxt", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("-")))

    def test_log_makes_no_folders(self):
        done = self.opc("show", "net.pbtxt", "--log", "not/there/run.log", code=2)
        self.assertIn("error[OPC0707]: cannot write to --log not/there/run.log: there is no folder not/there\n", done.stderr)
        self.assertNotIn("not", os.listdir(self.folder))

    def test_log_holds_one_line_a_line(self):
        """Nothing that a graph says ends a line of the log."""
        self.write("bad.pbtxt", GRAPH.replace('"broadcast_add"', '"ad\\nd\\033"'))
        self.opc("show", "bad.pbtxt", "--log", "run.log", code=3)
        for line in self.read("run.log").splitlines()[1:]:
            self.assertRegex(line, r"^\[\d\d:")
            self.assertNotIn("\033", line)

    def test_log_of_every_command(self):
        for call in CALLS:
            self.opc(*call, "--log", f"{call[0]}.log", "--exit-zero")
            self.assertTrue(self.read(f"{call[0]}.log").endswith("exit code 0\n"), call)

    def test_timing_of_every_command(self):
        for call in CALLS:
            said = self.opc(*call, "--timing", "--exit-zero").stderr
            self.assertRegex(said, r"(?m)^time: .*rest [\d.]+ (m|u)?s; in all [\d.]+ m?s$", call)
        parts = json.loads(self.opc("run", "net.pbtxt", "--fill", "ones", "--timing", "--json").stdout)["timing"]["parts_s"]
        self.assertEqual(list(parts), ["operators", "read", "compile", "load", "run"])
        # Parts have names, and one line for what is done twice.
        for command, named in (["check", "net.pbtxt", "--update", "--update-in-ci"], "find graphs, check"), \
                (["check", "net.pbtxt", "--twice"], "find graphs, check"), (["diff", "net.pbtxt", "net.pbtxt"], "read, operators, compile, compare"), \
                (["show", "net.pbtxt", "--what", "cost"], "read, operators, compile"), (["report", "net.pbtxt", "-o", "r.html"], "read, operators, compile"):
            said = re.search(r"(?m)^time: (.*); in all", self.opc(*command, "--timing").stderr).group(1)
            self.assertEqual(re.sub(r" [\d.]+ (s|ms|us|ns)\b", "", said), named + ", rest", command)

    def test_deterministic_of_every_command(self):
        for call in CALLS:
            self.opc(*call, "--deterministic", "--exit-zero")

    def test_exit_zero(self):
        self.write("other.pbtxt", GRAPH.replace('broadcast_add', 'broadcast_maximum'))
        wrong = ["run", "net.pbtxt", "--fill", "ones", "--expect", "y=7"]
        for call in (wrong, ["diff", "net.pbtxt", "other.pbtxt"], ["check", "net.pbtxt"]):
            before = self.opc(*call, code=1)
            after = self.opc(*call, "--exit-zero")
            self.assertEqual(re.sub(r"[\d.]+ m?s", "", before.stdout + before.stderr), re.sub(r"[\d.]+ m?s", "", after.stdout + after.stderr))
        # What is not an answer stays an error.
        self.opc("run", "net.pbtxt", "--exit-zero", code=2)
        self.opc("show", "nothing.pbtxt", "--exit-zero", code=2)

    def test_no_path_is_empty(self):
        """A shell's variable that is not set: no option takes it for "nothing" and goes on without what was asked."""
        said = json.loads(self.opc("__commands").stdout)
        asked = 0
        for command in (c for c in said["commands"] if not c["hidden"]):
            for option in said["common_options"] + command["options"]:
                if not option["value"] or option["value"].split("|")[0] not in ("FILE", "DIR", "LIB"):
                    continue
                name, asked = option["name"] or "-" + option["letter"], asked + 1
                failed = self.opc(command["name"], name, "", "net.pbtxt", code=2).stderr
                self.assertIn(f"error[OPC0001]: {name} is given an empty text, and takes a path", failed)
        self.assertGreater(asked, 150)
        self.assertEqual(os.listdir(self.folder), ["net.pbtxt"])

    def test_no_input(self):
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        self.addCleanup(os.close, terminal)
        done = self.opc("show", "-", "--no-input", code=2, stdin=terminal)
        self.assertIn("standard input is a terminal, and --no-input reads none", done.stderr)
        self.opc("show", "net.pbtxt", "--no-input", stdin=terminal)
        self.assertIn("1 op", self.opc("show", "-", "--no-input", input=GRAPH).stdout)

    def test_no_command(self):
        done = self.opc(code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("usage: opc COMMAND", done.stderr)
        document = json.loads(self.opc("--json", code=2).stdout)
        self.assertEqual((document["exit"], document["errors"]), (2, 1))
        self.assertEqual([(d["code"], d["message"]) for d in document["diagnostics"]], [("OPC0001", "no command is given")])

    def test_standard_input_beside_a_file_of_its_name(self):
        self.write("-", "no graph")
        for words in CALLS:
            if words[0] not in ("check", "debug", "bench", "diff"):
                self.opc(*("-" if w == "net.pbtxt" else w for w in words), input=GRAPH)

    def test_named_pipes_are_read_once(self):
        os.mkfifo(self.path("pipe"))
        for words in CALLS:
            with self.subTest(words):
                at = words.index("net.pbtxt")
                with subprocess.Popen(["sh", "-c", "exec cat net.pbtxt > pipe"], cwd=self.folder):
                    self.opc(*words[:at], "pipe", *words[at + 1:], code=words[0] == "check") # it has no lock

    def test_letters_that_are_joined_before_the_command(self):
        os.makedirs(self.path("in"))
        os.rename(self.path("net.pbtxt"), self.path("in/net.pbtxt"))
        for words in (["-qC", "in"], ["-qvCin"], ["-vj", "2", "-C", "in"]):
            self.assertIn("broadcast_add", self.opc(*words, "show", "net.pbtxt").stdout)

    def test_options_of_a_command_before_it(self):
        for words, option in ((["--fill", "rand", "run", "net.pbtxt"], "--fill"), (["-q", "-o", "x.plan", "compile", "net.pbtxt"], "-o")):
            self.assertIn(f"error[OPC0001]: '{option}' stands before the command and is no option of every command", self.opc(*words, code=2).stderr)
        self.assertIn("unknown command 'rnu'\nhelp: did you mean opc run?", self.opc("-q", "rnu", "net.pbtxt", code=2).stderr)

    def test_show_without_a_name(self):
        self.assertIn("opc ops show needs the name of an operator", self.opc("ops", "show", code=2).stderr)

    def test_help_of_all(self):
        said = self.opc("--help=all").stdout
        commands = [c for c in json.loads(self.opc("__commands").stdout)["commands"] if not c["hidden"]]
        for command in commands:
            self.assertIn(f"usage: opc {command['name']} ", said)
            for option in command["options"]:
                self.assertIn(option["name"] or option["letter"], said)
        self.assertEqual(said, self.opc("run", "--help=all").stdout)
        self.assertIn("error[OPC0001]", self.opc("run", "--help=some", code=2).stderr)

    def test_mlir(self):
        said = self.opc("compile", "net.pbtxt", "-o", "out.plan", "--mlir=-mlir-print-ir-after=opc-infer-shapes").stderr
        self.assertIn("IR Dump After InferShapes", said)
        self.assertNotIn("IR Dump After MergeEqualOps", said)
        self.assertIn("Execution time report", self.opc("show", "net.pbtxt", "--what", "memory", "--mlir=-mlir-timing").stderr)
        for flag, words in [("-no-such-flag", "Unknown command line argument '-no-such-flag'"), ("mlir-timing", "takes a flag of LLVM or MLIR"),
                            ("-mlir-timing=perhaps", "'perhaps' is invalid"), ("-help", "takes a flag"), ("", "error[OPC0001]: --mlir")]:
            self.assertIn(words, self.opc("show", "net.pbtxt", f"--mlir={flag}", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
