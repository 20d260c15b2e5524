"""Every command of the pages runs, and prints what the page shows; C++, C, Python, settings and graphs on a page are accepted."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import blocks

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.path.abspath(os.environ["OPC_BUILD_DIR"])
CXX = os.environ.get("OPC_CXX", "c++")
# What a block may be besides commands. `text` is output alone, a format, a drawing; never a command.
LANGUAGES = ("sh", "console", "cpp", "c", "python", "toml", "json", "pbtxt", "cmake", "mlir", "text")
# Blocks that cannot run say why; a page that needs more of them wants another page.
MOST_SKIPS = 17
SECONDS = 300
# A line that looks like a command.
COMMAND = re.compile(r"\$ |(opc [a-z]|build/bin/|tools/)\w|(mpirun|cmake|python3|g\+\+) ")
# The page of errors is printed by `opc explain` and has no comments. Its examples run in the digits' folder, after these.
ERRORS = {
    "OPC0003": "sed 's/image/x/' mlp.pbtxt > relu.pbtxt",
    "OPC0004": "rm -f opc.toml",
    "OPC0008": "printf '# settings\\n[run]\\nsed = 7\\n' > opc.toml",
    "OPC0717": """python3 -c "import numpy as np; w = dict(np.load('mlp_weights.npz')); w['fc1.w'] = w.pop('fc1_w'); np.savez('w.npz', **w)\"""",
    "OPC0620": """rm -f opc.toml; cat > net.pbtxt <<'G'
# The logarithm of two rows.
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }


op { name: "ln" user_conf { op_type_name: "log" input { key: "x" value { s: "x/out" } } output { key: "y" value { s: "ln/y_0" } } } }
op { name: "square" user_conf { op_type_name: "square" input { key: "x" value { s: "ln/y_0" } } output { key: "y" value { s: "square/y_0" } } } }
op { name: "y" output_conf { in: "square/y_0" out: "out" } }
G""",
}


class Shell:
    """One shell for a page: folders, variables and files stay from block to block."""

    def __init__(self, folder):
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPC_") and k != "CI"}
        # The python3 of the tests has numpy; another one may come earlier on PATH.
        path = os.pathsep.join([os.path.join(BUILD, "bin"), os.path.dirname(sys.executable), env.get("PATH", "/usr/bin:/bin")])
        env.update(PATH=path, HOME=folder, XDG_CONFIG_HOME=os.path.join(folder, ".config"), LC_ALL="C.UTF-8", NO_COLOR="1",
                   OPC_SKIP_SETUP="1", COLUMNS="120")
        # A container's only user is root, and the pages use more ranks than a small machine has cores.
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
        self.process = subprocess.Popen(["bash"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self.script = os.path.join(folder, ".command")

    def run(self, command):
        """(exit code, what it printed on both streams)."""
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(command + "\n")
        if self.process.poll() is not None:
            return -1, "(the shell has ended)"
        try:
            self.process.stdin.write(f'. {self.script} </dev/null; printf "\\n@done@ %d\\n" $?\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            return -1, "(the shell has ended)"
        alarm = threading.Timer(SECONDS, lambda: os.killpg(self.process.pid, signal.SIGKILL))
        alarm.start()
        lines = []
        for line in self.process.stdout:
            if line.startswith("@done@ "):
                alarm.cancel()
                text = "".join(lines)
                return int(line.split()[1]), text[:-1]
            lines.append(line)
        return -1, "".join(lines) + f"\n(the shell ended; a command has {SECONDS} s)"

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()


def scratch():
    """The repository as a reader has it, with a copy of what commands write to."""
    folder = tempfile.mkdtemp(prefix="opc-docs-")
    for name in os.listdir(SOURCE):
        if name not in ("docs", ".git") and not name.startswith("build"):
            os.symlink(os.path.join(SOURCE, name), os.path.join(folder, name))
    os.symlink(BUILD, os.path.join(folder, "build"))
    os.mkdir(os.path.join(folder, "docs"))
    for name in os.listdir(os.path.join(SOURCE, "docs")):
        source, target = os.path.join(SOURCE, "docs", name), os.path.join(folder, "docs", name)
        if name == "examples":
            shutil.copytree(source, target)
        else:
            os.symlink(source, target)
    return folder


class Page:
    """The blocks of one page, in order, in one folder."""

    def __init__(self, page):
        self.page, self.folder, self.faults, self.skips, self.checked = page, scratch(), [], [], 0
        self.shell = Shell(self.folder)

    def fault(self, block, text):
        self.faults.append(f"{block}: {text}")

    def setup(self, block):
        """False when the block cannot run here."""
        d = block.directives
        if "skip" in d:
            self.skips.append((block, d["skip"]))
            return False
        if "needs" in d and not shutil.which(d["needs"]):
            self.skips.append((block, f"{d['needs']} is not installed"))
            return False
        if "in" in d:
            self.shell.run(f'cd "{os.path.join(self.folder, d["in"])}"')
        if "given" in d and block.language in ("sh", "console", "indented"):
            code, said = self.shell.run(d["given"])
            if code:
                self.fault(block, f"what is given fails with {code}:\n{said}")
                return False
        return True

    def commands(self, block):
        pairs = block.commands()
        for number, (command, expected) in enumerate(pairs, 1):
            wanted = int(block.directives.get("exit", 0)) if number == len(pairs) else 0
            script = "set -e\n" + command if block.language == "sh" else command
            code, said = self.shell.run(f"( {script}\n)" if block.language == "sh" and "export" not in command and "cd " not in command else command)
            if block.language == "indented":
                # An error ends with what every error ends with, which the page leaves out.
                wanted, expected = code if code else 1, expected.replace("\n", "\n...\n") + "\n..."
            if code != wanted:
                self.fault(block, f"exit code {code}, expected {wanted}:\n$ {command}\n{said}")
            elif expected is not None and not blocks.matches(expected, said, "numbers" in block.directives):
                self.fault(block, f"prints something else:\n$ {command}\n--- the page\n{expected}\n--- now\n{said}")

    def compiled(self, block):
        """A fragment is accepted by the compiler behind all SDK headers, and behind what the page says is given."""
        suffix = {"cpp": ".cpp", "c": ".c"}[block.language]
        path = os.path.join(self.folder, f"block{block.line}{suffix}")
        opc = os.path.join(BUILD, "bin", "opc")
        flags = subprocess.run([opc, "sdk", "--cflags"], capture_output=True, text=True, check=True).stdout.split()
        # A block that includes the SDK is a source as its readers paste it: nothing goes before it.
        whole = '#include "opc/' in block.text
        text = block.text if block.text.rstrip().endswith((";", "}")) else block.text + "\n;"
        with open(path, "w", encoding="utf-8") as f:
            if suffix == ".cpp" and not whole:
                headers = next(x for x in flags if x.startswith("-I"))[2:]
                f.write("".join(f'#include "opc/{h}"\n' for h in sorted(os.listdir(os.path.join(headers, "opc"))) if h.endswith(".h")))
                f.write("using namespace opc;\n" if "using namespace" not in text else "")
            f.write(f'{block.directives.get("given", "")}\n#line {block.line + 1} "{block.page}"\n{text}\n')
        if suffix == ".c":
            flags = [x for x in flags if not x.startswith("-std=")] + ["-xc", "-std=c99", "-I" + os.path.join(SOURCE, "runtime", "capi")]
        done = subprocess.run([CXX, "-fsyntax-only", *flags, path], capture_output=True, text=True)
        if done.returncode:
            self.fault(block, "does not compile:\n" + "\n".join(done.stderr.split("\n")[:20]))

    def toml(self, block):
        path = os.path.join(self.folder, f"block{block.line}.toml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(block.text + "\n")
        done = subprocess.run([os.path.join(BUILD, "bin", "opc"), "--config", path, "config"], capture_output=True, text=True)
        # A plugin that a page invents cannot be loaded: that is found after the settings have been read.
        if done.returncode not in (0, 4) or "OPC0008" in done.stderr:
            self.fault(block, f"opc does not take these settings:\n{done.stderr}")

    def graph(self, block):
        path = os.path.join(self.folder, "proto")
        done = subprocess.run(["protoc", "--encode=opc.graph.DLNetConf", "-I" + path, os.path.join(path, "graph.proto")],
                              input=block.text.encode(), capture_output=True)
        if done.returncode:
            self.fault(block, f"is not a graph:\n{done.stderr.decode()}")

    def python(self, block):
        path = os.path.join(self.folder, f"block{block.line}.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(block.directives.get("given", "") + "\n" + block.text + "\n")
        code, said = self.shell.run(f'PYTHONPATH="{BUILD}/python:{SOURCE}/tools/python/compat" "{sys.executable}" "{path}"')
        if code:
            self.fault(block, f"exit code {code}:\n{said}")

    def run(self):
        kinds = {"sh": self.commands, "console": self.commands, "cpp": self.compiled, "c": self.compiled, "toml": self.toml,
                 "pbtxt": self.graph, "python": self.python, "indented": self.commands}
        for block in blocks.read(SOURCE, self.page):
            indented = block.language == "indented"
            if indented:
                if self.page != "docs/errors.md" or not block.text.startswith("$ "):
                    continue
                given = next((g for c, g in ERRORS.items() if f"error[{c}]" in block.text), "true")
                block.directives = {"in": "docs/examples/digits", "given": given}
            if block.language in kinds and self.setup(block):
                self.checked += 1
                kinds[block.language](block)
        self.shell.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def unseen(block, page):
    """What a reader needs for the commands of a block and is not told: the folder, and what makes the files."""
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        shown = re.sub(r"<!--.*?-->", "", f.read(), flags=re.S)
    folder = block.directives.get("in", os.path.dirname(page))
    if folder not in (".", os.path.dirname(page)) and folder.removeprefix("docs/") not in shown:
        yield f"runs in {folder}, and the page does not say so"
    if "given" in block.directives:
        yield "needs what a hidden command makes: show the command"


class Pages(unittest.TestCase):
    def test_form(self):
        """Blocks are fenced and say what they are, and no command hides in one that is not run."""
        wrong = []
        for page in blocks.pages(SOURCE):
            for block in blocks.read(SOURCE, page):
                if block.language == "indented" and page != "docs/errors.md":
                    wrong.append(f"{block}: an indented block; fence it, with one of {', '.join(LANGUAGES)}")
                elif block.language != "indented" and block.language not in LANGUAGES:
                    wrong.append(f"{block}: '{block.language}' is none of {', '.join(LANGUAGES)}")
                elif block.language == "text":
                    hidden = [x for x in block.text.split("\n") if COMMAND.match(x)]
                    wrong += [f"{block}: '{x}' is a command: make it sh or console" for x in hidden]
                if block.language in ("sh", "console"):
                    wrong += [f"{block}: {fault}" for fault in unseen(block, page)]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_sources_of_plugins_are_whole(self):
        """What the page on writing operators shows is pasted: no block leaves something out, and together they are a plugin that runs."""
        sources = [b for b in blocks.read(SOURCE, "docs/writing-an-op.md") if b.language == "cpp" and "skip" not in b.directives]
        self.assertGreaterEqual(len(sources), 3)
        opc = os.path.join(BUILD, "bin", "opc")
        flags = {k: subprocess.run([opc, "sdk", k], capture_output=True, text=True, check=True).stdout.split() for k in ("--cflags", "--ldflags")}
        with tempfile.TemporaryDirectory(prefix="opc-docs-") as folder:
            for i, block in enumerate(sources):
                self.assertIn('#include "opc/', block.text, f"{block} is no whole source")
                self.assertNotIn("given", block.directives, f"{block} is tested with more than it shows")
                with open(os.path.join(folder, f"{i}.cpp"), "w", encoding="utf-8") as f:
                    f.write(block.text)
            library = os.path.join(folder, "libpage.so")
            done = subprocess.run([CXX, "-shared", "-fPIC", *flags["--cflags"], *(os.path.join(folder, f"{i}.cpp") for i in range(len(sources))),
                                   "-o", library, *flags["--ldflags"]], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            graph = os.path.join(folder, "g.pbtxt")
            with open(graph, "w", encoding="utf-8") as f:
                f.write('''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }
op { name: "cap" user_conf { op_type_name: "soft_cap" input { key: "x" value { s: "x/out" } } attr { key: "limit" value { at_double: 1e9 } } } }
op { name: "sum" user_conf { op_type_name: "row_sum" input { key: "x" value { s: "cap/y_0" } } } }
op { name: "y" output_conf { in: "sum/y_0" } }''')
            for command in (["plugin", "check", library], ["--plugin", library, "run", graph, "--input", "x=1,2,3,4,5,6", "--expect", "y=6,15"]):
                done = subprocess.run([opc, *command], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_elisions(self):
        self.assertTrue(blocks.matches("a\n...\nz", "a\nb\nc\nz\n", False))
        self.assertTrue(blocks.matches("a ... c", "a b c", False))
        self.assertFalse(blocks.matches("a ... c", "a b d", False))
        self.assertFalse(blocks.matches("a 1", "a 2", False))
        self.assertTrue(blocks.matches("took 1.5 ms", "took   23.75 ms", True))
        self.assertFalse(blocks.matches("took 1.5 ms", "took 23.75 s", True))
        self.assertFalse(blocks.matches("a", "a\nb", False))

    def test_numbers(self):
        """The accuracies that README.md shows of the demo are those of the networks that it names."""
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as f:
            shown = re.findall(r"^== (\w+): opc run (\S+) on .*\n\.\.\.\n(accuracy: .*)$", f.read(), re.M)
        self.assertTrue(shown)
        for net, graph, accuracy in shown:
            digits = os.path.join(SOURCE, os.path.dirname(graph))
            self.assertEqual(os.path.basename(graph), net + ".pbtxt")
            with tempfile.TemporaryDirectory() as out:
                subprocess.run([os.path.join(BUILD, "bin", "opc"), "run", "-q", os.path.join(SOURCE, graph), "--weights", f"{digits}/{net}_weights.npz",
                                "--input", f"image=@{digits}/test_images.npy", "--outputs", out, "--print", "none"], check=True)
                drawn = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "dev", "show_digits.py"), f"{digits}/test_images.npy",
                                        f"{digits}/test_labels.npy", os.path.join(out, "logits.npy")], capture_output=True, text=True, check=True)
            self.assertEqual(drawn.stdout.split("\n")[0], accuracy, net)

    def test_pages(self):
        skips, checked, faults = [], 0, []
        for name in [p for p in os.environ.get("OPC_DOCS_PAGES", "").split(":") if p] or blocks.pages(SOURCE):
            page = Page(name)
            page.run()
            skips += page.skips
            checked += page.checked
            faults += page.faults
        for block, reason in skips:
            print(f"not run: {block}: {reason}")
        print(f"docs: {checked} blocks checked, {len(skips)} not run")
        self.assertEqual(faults, [], "\n\n".join(faults))
        self.assertLessEqual(len(skips), MOST_SKIPS)
        self.assertEqual([str(b) for b, why in skips if len(why) < 15], [], "blocks that are not run, without a reason")


if __name__ == "__main__":
    unittest.main()
