# Completion in the real shells: a terminal, keys, and what the shell makes of them. A shell that is not installed is
# skipped, by name.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
import unittest

from folder_test import FolderTest

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.path.join(BIN, "opc")
GRAPH = """op { name: "in:put" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } }
op { name: "first_relu" user_conf { op_type_name: "relu" input { key: "x" value { s: "in:put/out" } } } }
op { name: "second_exp" user_conf { op_type_name: "exp" input { key: "x" value { s: "first_relu/y_0" } } } }
op { name: "result" output_conf { in: "second_exp/y_0" } }
"""


def complete(*words):
    """Candidates that `opc __complete` gives for these words, the last being typed."""
    done = subprocess.run([OPC, "__complete", "--", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with open("net.pbtxt", "w", encoding="utf-8") as f:
            f.write(GRAPH)
        with open("values.npy", "wb") as f:
            f.write(b"")


class Candidates(Folder):
    def test_commands_and_options(self):
        self.assertEqual(complete("comp"), ["compile", "completion"])
        self.assertIn("--fill", complete("run", "net.pbtxt", "--f"))
        self.assertNotIn("__man", complete(""))
        self.assertEqual(complete("explain", "OPC06"), [c for c in complete("explain", "") if c.startswith("OPC06")])
        self.assertIn("matmul", complete("ops", "show", "matm"))
        self.assertEqual(complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(complete("cache", ""), ["list", "clear"])
        self.assertEqual(complete("cache", "clear", ""), [])
        self.assertEqual(complete("run", ""), [":file"])

    def test_values(self):
        self.assertEqual(complete("run", "net.pbtxt", "--fill", ""), ["rand", "zeros", "ones", "iota"])
        self.assertEqual(complete("run", "--fill=z"), ["--fill=zeros"])
        self.assertEqual(complete("run", "net.pbtxt", "--trap", "nan,d"), ["nan,denormal"])
        self.assertIn("simplify", complete("compile", "net.pbtxt", "--to", ""))
        self.assertEqual(complete("--color", "a"), ["auto", "always"])
        self.assertEqual(complete("run", "--device", ""), ["cpu", "gpu", "sim"])

    def test_every_option_with_choices(self):
        """What an option may be is offered for it, with a blank and with =."""
        described = json.loads(subprocess.run([OPC, "__commands"], capture_output=True, text=True, timeout=60, check=True).stdout)
        seen = 0
        for command in described["commands"]:
            for option in command["options"] + described["common_options"]:
                words = option.get("choices") or [w for w in option["value"].split("|") if "|" in option["value"] and w.islower()]
                if not words or not option["name"]:
                    continue
                seen += 1
                name = command["name"].split()
                self.assertEqual(complete(*name, "net.pbtxt", option["name"], ""), words, (name, option))
                self.assertEqual(complete(*name, f"{option['name']}={words[0]}")[:1], [f"{option['name']}={words[0]}"], (name, option))
        self.assertGreater(seen, 40)
        self.assertEqual(complete("compile", "net.pbtxt", "--stats="), ["--stats=json"])
        self.assertEqual(complete("grad", "net.pbtxt", "--optimizer", "ada"), ["adagrad", "adam", "adamw"])
        self.assertIn("cosine", complete("grad", "net.pbtxt", "--schedule", ""))
        self.assertEqual(complete("grad", "net.pbtxt", "--loss", "r"), ["result"])
        self.assertEqual(complete("grad", "net.pbtxt", "--wrt", ""), ["in:put"])
        self.assertEqual(complete("compile", "net.pbtxt", "--until", "s"), ["second_exp/y_0"])
        self.assertEqual(complete("compile", "--simulate", ""), [":file"])
        self.assertEqual(complete("verify", "matm"), ["matmul"])
        self.assertEqual(complete("help", "ver"), ["verify", "version"])
        self.assertEqual(complete("version", ""), [])

    def test_words_of_lists(self):
        """Rules, sections, phases, kinds; a list goes on behind its last comma."""
        self.assertEqual(complete("check", "--except", "OP_REN"), ["OP_RENAMED"])
        self.assertEqual(complete("check", "--ignore", "old/*:FLOPS"), ["old/*:FLOPS_GREW"])
        self.assertEqual(complete("check", "--ignore", "old"), [])
        self.assertEqual(complete("check", "--use", "P"), ["PARALLEL"])
        self.assertEqual(complete("check", "--update=co"), ["--update=constants", "--update=cost"])
        self.assertIn("--update=cost,numerics", complete("check", "--update=cost,n"))
        self.assertEqual(complete("diff", "a", "b", "--ignore", "names,s"), ["names,sbp"])
        self.assertEqual(complete("run", "net.pbtxt", "--observe", "sync,a"), ["sync,access"])
        self.assertIn("help", complete("compile", "net.pbtxt", "--to", ""))
        self.assertNotIn("help", complete("compile", "net.pbtxt", "--from", ""))
        self.assertEqual(complete("debug", ""), ["first-diff", "reduce", "replay"])
        self.assertEqual(complete("compile", "net.pbtxt", "--stats"), ["--stats", "--stats=json"])
        self.assertEqual(complete("compile", "net.pbtxt", "--cast-ops", "f"), ["first_relu="])
        self.assertEqual(complete("compile", "net.pbtxt", "--cast-ops", "first_relu=b"), ["first_relu=bf16"])
        self.assertEqual(complete("run", "net.pbtxt", "--place", "first_relu="), ["first_relu=cpu"])
        self.assertEqual(complete("show", "net.pbtxt", "--paths", "in:put..r"), ["in:put..result"])

    def test_names_of_the_graph(self):
        self.assertEqual(complete("run", "net.pbtxt", "--until", "f"), ["first_relu/y_0"])
        self.assertEqual(complete("run", "net.pbtxt", "--only", ""), ["first_relu", "second_exp"])
        self.assertEqual(complete("run", "net.pbtxt", "--input", ""), ["in:put="])
        self.assertEqual(complete("run", "net.pbtxt", "--expect", ""), ["result="])
        self.assertEqual(complete("run", "net.pbtxt", "--input", "in:put=@v"), ["in:put=@values.npy"])
        self.assertEqual(complete("run", "net.pbtxt", "--output", "result=v"), ["result=values.npy"])
        subprocess.run([OPC, "-q", "compile", "net.pbtxt", "-o", "net.plan"], check=True)
        self.assertEqual(complete("run", "net.plan", "--input", ""), ["in:put="])

    def test_nothing_known_is_no_error(self):
        for words in (["nowhere", ""], ["run", "missing.pbtxt", "--until", ""], ["run", "values.npy", "--until", ""], [""] * 3):
            complete(*words)
        self.assertEqual(complete("run", "missing.pbtxt", "--until", ""), [])


class Shells(Folder):
    def shown(self, argv, setup, keys, *words):
        """Types `keys` into an interactive shell and waits until the screen shows all `words`; gives what it shows."""
        if not shutil.which(argv[0]):
            self.skipTest(f"{argv[0]} is not installed")
        pid, fd = pty.fork()
        if pid == 0:
            env = {"PATH": BIN + ":/usr/bin:/bin", "HOME": self.folder, "TERM": "xterm", "PS1": "$ ", "LC_ALL": "C.UTF-8"}
            os.execvpe(argv[0], argv, env)
        try:
            os.write(fd, (setup + "; echo rea''dy\n").encode())
            self.until(fd, ["ready"])
            os.write(fd, keys.encode())
            return self.until(fd, words)
        finally:
            os.close(fd)
            os.kill(pid, 9)
            os.waitpid(pid, 0)

    def until(self, fd, words):
        """What the shell writes until all words are there; a minute is enough on any machine."""
        raw, end = "", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([fd], [], [], 1)[0]:
                try:
                    raw += os.read(fd, 65536).decode(errors="replace")
                except OSError:
                    break
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\r\a]", "", raw)
            while "\b" in text:  # what was typed over
                text = re.sub("[^\b]\b|^\b", "", text)
            if all(word in text for word in words):
                return text
        self.fail(f"{words} do not all show in {text!r}")

    def check(self, argv, setup):
        self.shown(argv, setup, "opc compi\t", "opc compile")
        self.shown(argv, setup, "opc run net.pbtxt --timi\t", "--timing")
        self.shown(argv, setup, "opc run net.pbtxt --until fir\t", "first_relu/y_0")
        self.shown(argv, setup, "opc run net.pbtxt --fill \t\t", "rand", "zeros", "ones", "iota")
        # '=' and ':' are within a word: the whole is completed once.
        self.assertRegex(self.shown(argv, setup, "opc run net.pbtxt --input in\t@val\t", "ues.npy"), r"in\\?:put=@values\.npy")
        self.shown(argv, setup, "opc run net\t", "net.pbtxt")

    def test_bash(self):
        self.check(["bash", "--norc", "--noprofile", "-i"], "source <(opc completion bash)")

    def test_bash_runs_nothing_of_a_name(self):
        """What is completed is a word of the line that Enter runs: the shell must read it as the name and as nothing else."""
        names = ["h$(touch ran)", "h`touch ran`", "h;touch ran", "h'$(touch ran)'", 'h"$(touch ran)"', "h*", "h{a,b}", "h\\$(touch ran)", "h!!", "h&>ran", "h>ran"]
        for quote in ("", '"', "'"):
            for name in names:
                with self.subTest(quote=quote, name=name):
                    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
                    with open("net.pbtxt", "w", encoding="utf-8") as f:
                        f.write(GRAPH.replace("first_relu", escaped))
                    script = f"""source <(opc completion bash)
                        COMP_WORDS=(opc run net.pbtxt --only {shlex.quote(quote + "h")}) COMP_CWORD=4
                        COMP_LINE={shlex.quote("opc run net.pbtxt --only " + quote + "h")} COMP_POINT=${{#COMP_LINE}}
                        _opc
                        (( ${{#COMPREPLY[@]}} )) || exit 9
                        quote={shlex.quote(quote)}
                        eval "set -- $quote${{COMPREPLY[0]}}$quote"
                        printf '%s\\n' "$@" """
                    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", script], capture_output=True, text=True, timeout=60,
                                          env={"PATH": BIN + ":/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
                    ran = os.path.exists("ran")
                    if ran:
                        os.remove("ran")
                    self.assertFalse(ran, done.stderr)
                    if done.returncode == 9:  # not offered: no way to say it between these quotes
                        self.assertIn(quote, name) if quote == "'" else self.assertIn("!", name)
                    else:
                        self.assertEqual((done.stdout, done.stderr), (name + "\n", ""))

    def test_bash_on_a_terminal_runs_nothing_of_a_name(self):
        with open("net.pbtxt", "w", encoding="utf-8") as f:
            f.write(GRAPH.replace("first_relu", "h$(touch ran)"))
        self.shown(["bash", "--norc", "--noprofile", "-i"], "source <(opc completion bash)",
                   "opc run net.pbtxt --fill ones --only h\t\x05; echo do''ne\n", "done")
        self.assertFalse(os.path.exists("ran"))

    def test_zsh(self):
        self.check(["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u; source <(opc completion zsh)")

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        env = dict(os.environ, PATH=BIN + ":/usr/bin:/bin", HOME=self.folder, LC_ALL="C.UTF-8")

        def fish(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"opc completion fish | source; complete -C '{line}'"], capture_output=True, text=True, timeout=60, env=env)
            return [x.split("\t")[0] for x in done.stdout.splitlines()]

        self.assertEqual(fish("opc compi"), ["compile"])
        self.assertEqual(fish("opc run net.pbtxt --timi"), ["--timing"])
        self.assertEqual(fish("opc run net.pbtxt --until fir"), ["first_relu/y_0"])
        self.assertEqual(sorted(fish("opc run net.pbtxt --fill ")), ["iota", "ones", "rand", "zeros"])
        self.assertEqual(fish("opc run net.pbtxt --input in"), ["in:put="])
        self.assertIn("net.pbtxt", fish("opc run ne"))


if __name__ == "__main__":
    unittest.main()
