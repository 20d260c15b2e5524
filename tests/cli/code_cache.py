# Machine code on disk: what is kept, who may use it, and that nothing else runs from there.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

import numpy as np

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
CHAIN = ["exp", "tanh", "negative"]


def graph(ops):
    lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 300 } data_type: kFloat } } }']
    last = "x/out"
    for i, op in enumerate(ops):
        lines.append(f'op {{ name: "o{i}" user_conf {{ op_type_name: "{op}" input {{ key: "x" value {{ s: "{last}" }} }} }} }}')
        last = f"o{i}/y_0"
    return "\n".join([*lines, f'op {{ name: "y" output_conf {{ in: "{last}" }} }}', ""])


class CodeCache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("g.pbtxt", graph(CHAIN))
        np.save(self.path("x.npy"), np.linspace(-3, 3, 300, dtype=np.float32))
        # v3: every region is compiled when its plan is loaded
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("OPC_CACHE")}
        self.environment.update(XDG_CACHE_HOME=self.path("home"), XDG_CONFIG_HOME=self.path("none"), OPC_CODE_LEVEL="v3")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, code=0, **environment):
        done = subprocess.run([OPC, *args], cwd=self.folder, capture_output=True, text=True, timeout=120, env={**self.environment, **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def run_graph(self, *args, what="g.pbtxt", **environment):
        """(compiled, of these from disk), and the bytes of the output."""
        done = self.opc("run", what, "--input", "x=@x.npy", "--output", "y=y.npy", "--print", "none", "--stats", "--json", *args, **environment)
        made = json.loads(done.stdout)["stats"]["codegen"]
        with open(self.path("y.npy"), "rb") as f:
            return (made["compiled"], made["cached"]), f.read()

    def files(self, folder=None):
        folder = folder or self.path("home", "opc", "code")
        return sorted(n for n in os.listdir(folder) if n.endswith(".code")) if os.path.isdir(folder) else []

    def test_second_process_finds_what_the_first_has_compiled(self):
        want = self.run_graph("--no-codegen")
        self.assertEqual(want[0], (0, 0))
        self.assertEqual(self.run_graph(), ((1, 0), want[1]))
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(self.run_graph(), ((1, 1), want[1]))
        # Others have other code: another level, other ops, an attribute.
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            has_v4 = "avx512f" in f.read()
        if has_v4:
            self.assertEqual(self.run_graph(OPC_CODE_LEVEL="v4"), ((1, 0), want[1]))
        self.write("h.pbtxt", graph(["exp", "sqrt"]))
        self.assertEqual(self.run_graph(what="h.pbtxt")[0], (1, 0))

    def test_what_is_on_disk_is_taken_at_once(self):
        """Without a level asked for, a small region waits until it has moved 256 MiB; not for what needs no compiling."""
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            best = "v4" if "avx512f" in f.read() else "v3"
        want = self.run_graph(OPC_CODE_LEVEL="")
        self.assertEqual(want[0], (0, 0))
        self.assertEqual(self.run_graph(OPC_CODE_LEVEL=best)[0], (1, 0))
        self.assertEqual(self.run_graph(OPC_CODE_LEVEL=""), ((1, 1), want[1]))
        self.assertEqual(self.run_graph("--no-cache", OPC_CODE_LEVEL=""), want)

    def test_functions_of_the_program_are_found_again(self):
        """What is called for each number lies elsewhere in every process."""
        self.write("g.pbtxt", graph(["abs", "lgamma", "negative"]))
        want = self.run_graph("--no-codegen")[1]
        self.assertEqual([self.run_graph() for _ in range(3)], [((1, 0), want), ((1, 1), want), ((1, 1), want)])

    def test_no_cache(self):
        self.assertEqual(self.run_graph("--no-cache")[0], (1, 0))
        self.assertFalse(os.path.exists(self.path("home")))
        for size in ("0", "10"):  # too small for anything
            self.assertEqual(self.run_graph(OPC_CACHE_SIZE=size)[0], (1, 0))
            self.assertEqual(self.files(), [])

    def test_modes(self):
        self.run_graph()
        folder = self.path("home", "opc", "code")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        for name in os.listdir(folder):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600, name)
        self.assertEqual(sorted(os.listdir(folder)), sorted([*self.files(), "key"]))  # nothing half written

    def test_damaged_files_are_replaced(self):
        want = self.run_graph()[1]
        [name] = self.files()
        path = self.path("home", "opc", "code", name)
        with open(path, "rb") as f:
            whole = f.read()
        rng = np.random.default_rng(0)
        damaged = [b"", whole[:-1], whole + b"\0", whole[: len(whole) // 2], b"\0" * len(whole), b"opc code 1\n"]
        for _ in range(30):
            at = int(rng.integers(len(whole)))
            damaged.append(whole[:at] + bytes([whole[at] ^ (1 << int(rng.integers(8)))]) + whole[at + 1:])
        for data in damaged:
            with open(path, "wb") as f:
                f.write(data)
            self.assertEqual(self.run_graph(), ((1, 0), want))
            with open(path, "rb") as f:
                self.assertEqual(f.read(), whole)

    def test_foreign_files_are_ignored(self):
        want = self.run_graph()[1]
        [name] = self.files()
        path, aside = self.path("home", "opc", "code", name), self.path("aside")
        with open(path, "rb") as f:
            whole = f.read()
        # Readable by others, a link, a pipe, a folder, of another region.
        os.chmod(path, 0o644)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        os.rename(path, aside)
        os.symlink(aside, path)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        self.assertFalse(os.path.islink(path))
        os.remove(path)
        os.mkfifo(path)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        os.remove(path)
        os.mkdir(path)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        os.rmdir(path)
        self.write("h.pbtxt", graph(["exp", "sqrt"]))
        self.run_graph(what="h.pbtxt")
        [other] = self.files()
        shutil.copy(self.path("home", "opc", "code", other), path)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        # Another user's: made with another secret.
        theirs = self.path("theirs")
        self.run_graph(XDG_CACHE_HOME=theirs)
        shutil.copy(os.path.join(theirs, "opc", "code", name), path)
        self.assertEqual(self.run_graph(), ((1, 0), want))
        with open(path, "rb") as f:
            self.assertEqual(f.read(), whole)
        self.assertEqual(self.run_graph(), ((1, 1), want))

    def test_folder_that_comes_with_a_project(self):
        """A folder named by settings that lie in a project: its files are believed only if this user's opc has made them."""
        theirs = self.path("theirs")
        self.run_graph(XDG_CACHE_HOME=theirs)
        shutil.copytree(os.path.join(theirs, "opc", "code"), self.path("code"))  # with their secret beside
        os.chmod(self.path("code"), 0o700)
        self.write("opc.toml", f'[cache]\ndir = "{self.path("code")}"\n')
        self.assertEqual(self.run_graph()[0], (1, 0))
        self.assertEqual(self.run_graph()[0], (1, 1))  # now it is this user's

    def test_folders_that_cannot_be_trusted(self):
        folder = self.path("open")
        os.mkdir(folder)
        for mode in (0o777, 0o755, 0o770, 0o701):
            os.chmod(folder, mode)
            done = self.opc("run", "g.pbtxt", "--input", "x=@x.npy", "--print", "none", OPC_CACHE_DIR=folder)
            self.assertIn(f"note: the cache {folder} is not used: others may use it (mode {mode:04o})", done.stderr)
            self.assertEqual(os.listdir(folder), [])
            refused = self.opc("cache", code=2, OPC_CACHE_DIR=folder)
            self.assertIn("error[OPC0010]", refused.stderr)
        os.chmod(folder, 0o700)
        self.assertEqual(self.run_graph(OPC_CACHE_DIR=folder)[0], (1, 0))
        self.assertEqual(len(self.files(folder)), 1)
        self.assertEqual(self.run_graph(OPC_CACHE_DIR=folder)[0], (1, 1))
        if os.geteuid() == 0:
            os.chown(folder, 1234, 0)
            self.assertIn("user 1234 owns it", self.opc("cache", code=2, OPC_CACHE_DIR=folder).stderr)
            os.chown(folder, 0, 0)
            os.chown(self.path("home", "opc", "code", "key"), 1234, 0)  # whose secret is it?
            self.assertEqual(self.run_graph(OPC_CACHE_DIR=folder)[0], (1, 0))

    def test_folders_that_cannot_be_written(self):
        self.write("file", "")
        for folder in (self.path("file"), self.path("file", "below"), "/proc/opc", "relative"):
            self.assertEqual(self.run_graph(OPC_CACHE_DIR=folder)[0], (1, 0), folder)
        shutil.rmtree(self.path("relative"))
        self.assertEqual(self.run_graph(XDG_CACHE_HOME="", HOME="")[0], (1, 0))
        self.assertIn("there is no folder for it", self.opc("cache", XDG_CACHE_HOME="", HOME="").stderr)
        nobody = self.path("nobody")  # an account's home that was never made
        self.assertEqual(self.run_graph(XDG_CACHE_HOME="", HOME=nobody)[0], (1, 0))
        self.assertFalse(os.path.exists(nobody))

    def test_size(self):
        self.run_graph()
        [first] = self.files()
        bytes_each = os.path.getsize(self.path("home", "opc", "code", first))
        for i, chain in enumerate((["exp", "sqrt"], ["exp", "square"], ["tanh", "square"], ["abs", "exp"], ["erf", "abs"])):
            self.write("h.pbtxt", graph(chain))
            os.utime(self.path("home", "opc", "code", first), (0, 0)) if i == 2 else None
            self.run_graph(what="h.pbtxt", OPC_CACHE_SIZE=str(3 * bytes_each))
            self.assertLessEqual(sum(os.path.getsize(self.path("home", "opc", "code", n)) for n in self.files()), 3 * bytes_each)
            if i == 1:
                self.run_graph(OPC_CACHE_SIZE=str(3 * bytes_each))  # used again: it stays, if it is there
        self.assertNotIn(first, self.files())  # the one that was used least recently
        self.write("opc.toml", "[cache]\nsize = 1\n")
        self.assertIn("of at most 1 B", self.opc("cache").stdout)

    def test_command(self):
        self.assertIn("code of 0 regions", self.opc("cache").stdout)
        self.assertFalse(os.path.exists(self.path("home")))
        self.run_graph()
        listed = json.loads(self.opc("cache", "list", "--json").stdout)
        self.assertEqual([e["file"] for e in listed["entries"]], self.files())
        self.assertEqual((listed["folder"], listed["max_bytes"]), (self.path("home", "opc", "code"), 64 << 20))
        self.assertEqual(listed["bytes"], sum(os.path.getsize(self.path("home", "opc", "code", n)) for n in self.files()))
        self.write("home/opc/code/mine.txt", "")
        self.assertEqual(json.loads(self.opc("cache", "clear", "--json").stdout)["removed"], 1)
        self.assertEqual(sorted(os.listdir(self.path("home", "opc", "code"))), ["key", "mine.txt"])  # what is not its own stays
        self.assertIn("did you mean clear", self.opc("cache", "cler", code=2).stderr)

    def test_many_processes(self):
        want = self.run_graph("--no-codegen")[1]
        calls = [[OPC, "run", "g.pbtxt", "--input", "x=@x.npy", "--output", f"y=y{i}.npy", "--print", "none"] for i in range(12)]
        running = [subprocess.Popen(c, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE) for c in calls]
        for i, process in enumerate(running):
            self.assertEqual(process.communicate(timeout=120)[1], b"")
            self.assertEqual(process.returncode, 0)
            with open(self.path(f"y{i}.npy"), "rb") as f:
                self.assertEqual(f.read(), want)
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(len(os.listdir(self.path("home", "opc", "code"))), 2)
        self.assertEqual(self.run_graph(), ((1, 1), want))

    def test_settings(self):
        self.write("opc.toml", "[target]\ncodegen = false\n")
        self.assertEqual(self.run_graph()[0], (0, 0))
        self.assertEqual(self.opc("config", "target.codegen").stdout, "false\n")
        self.write("opc.toml", '[target]\ncodegen = "maybe"\n')
        self.assertIn("target.codegen wants true or false, not 'maybe'", self.opc("config", code=2).stderr)
        self.write("opc.toml", '[cache]\nsize = "much"\n')
        self.assertIn("cache.size wants a size such as 800M or 16G, not 'much'", self.opc("config", code=2).stderr)

    def test_no_codegen_in_every_command(self):
        """The trace of what was compiled is empty with the flag; without it there is something for each region."""
        def spans(*args):
            self.opc("run", "g.pbtxt", "--input", "x=@x.npy", "--print", "none", "--trace", "t.json", *args)
            with open(self.path("t.json"), encoding="utf-8") as f:
                return [e for e in json.load(f)["traceEvents"] if e.get("cat") == "codegen"]

        [span] = spans()
        self.assertEqual((span["name"], span["args"]["ops"], span["args"]["from_disk"]), ("code for 3 ops", CHAIN, False))
        self.assertGreater(span["args"]["code_bytes"], 0)
        self.assertGreater(span["dur"], 0)
        self.assertTrue(spans()[0]["args"]["from_disk"])
        self.assertEqual(spans("--no-codegen"), [])
        self.opc("cache", "clear")
        # Commands that run graphs keep what they compile; with the flag there is nothing to keep.
        calls = [["check", "g.pbtxt", "--update", "--update-in-ci"], ["bench", "g.pbtxt", "--fill", "ones", "--rounds", "6"],
                 ["debug", "first-diff", "g.pbtxt", "--fill", "ones"], ["report", "g.pbtxt", "-o", "r.html"], ["compile", "g.pbtxt", "-o", "g.plan"],
                 ["grad", "g.pbtxt", "--loss", "y", "--wrt", "x", "--check"], ["verify", "relu"]]
        for call in calls:
            self.opc(*call, "--no-codegen", "--exit-zero")
            self.assertEqual(self.files(), [], call)
        self.opc(*calls[1])
        self.assertEqual(len(self.files()), 1)


if __name__ == "__main__":
    unittest.main()
