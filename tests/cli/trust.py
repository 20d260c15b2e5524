# Files that are not the user's: settings and plugins that others could have written, and names that would speak to the
# terminal.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.path.join(BIN, "opc")
SETTINGS = '[target]\nplugins = ["lib.so"]\n[run]\nseed = 7\n'


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def put(self, name, content, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(self.path(name), mode)
        return self.path(name)

    def opc(self, *args, folder="", env=None, **kw):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OPC_CONFIG") and k not in ("OPC_PLUGINS", "XDG_CONFIG_HOME")}
        return subprocess.run([OPC, *args], capture_output=True, text=True, timeout=300, cwd=self.path(folder), env=dict(clean, HOME="/nonexistent", **(env or {})), **kw)


class Settings(Folder):
    """lib.so is an empty file: a plugin that is tried is a plugin that cannot be loaded (OPC0401), after its note."""

    def setUp(self):
        super().setUp()
        self.put("lib.so", "")
        self.put("opc.toml", SETTINGS)

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("error[OPC0008]", *words):
            self.assertIn(word, done.stderr)
        self.assertNotIn("plugin " + self.path("lib.so") + ", from", done.stderr)

    def tried(self, done, place):
        self.assertIn(f"note: plugin {self.path('lib.so')}, from {place}\n", done.stderr)
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_a_plugin_of_the_settings_is_noted(self):
        self.tried(self.opc("ops"), "opc.toml:2")
        self.assertNotIn("note:", self.opc("ops", "-q").stderr)
        done = self.opc("config", "run.seed")  # loads nothing
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "7\n", ""))
        self.put("opc.toml", '[target]\nplugins = [\n  # mine\n  "lib.so"]\n')
        self.tried(self.opc("ops"), "opc.toml:4")

    def test_settings_that_others_may_write(self):
        for command in (["ops"], ["config"], ["--config", "opc.toml", "config"]):
            os.chmod(self.path("opc.toml"), 0o646)
            self.refused(self.opc(*command), "opc.toml: others may write it (mode 0646)", "--config none")
            self.assertEqual(self.opc("--config", "none", "ops", "relu").returncode, 0)
        os.chmod(self.path("opc.toml"), 0o644)
        self.tried(self.opc("ops"), "opc.toml:2")

    def test_a_library_that_others_may_write(self):
        os.chmod(self.path("lib.so"), 0o757)
        self.refused(self.opc("ops"), "lib.so, named by opc.toml:2: others may write it (mode 0757)")
        # Neither when its ops are to win over the built-in ones.
        self.put("opc.toml", SETTINGS.replace('"lib.so"', '"overrides=lib.so"'))
        self.refused(self.opc("ops"), "lib.so, named by opc.toml:2: others may write it (mode 0757)")
        # On the command line it is the user who names it.
        self.assertEqual(self.opc("--config", "none", "--plugin", "lib.so", "ops").returncode, 4)

    def test_a_folder_in_which_others_may_replace_files(self):
        os.chmod(self.folder, 0o777)
        self.refused(self.opc("ops"), "others may write the folder")
        os.chmod(self.folder, 0o1777)  # as /tmp: only owners replace files
        self.tried(self.opc("ops"), "opc.toml:2")
        os.makedirs(self.path("open"))
        os.rename(self.path("lib.so"), self.path("open", "lib.so"))
        os.symlink("open/lib.so", self.path("lib.so"))
        self.tried(self.opc("ops"), "opc.toml:2")
        os.chmod(self.path("open"), 0o777)
        self.refused(self.opc("ops"), "others may write the folder " + self.path("open"))

    def test_other_owners(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        for name in ("opc.toml", "lib.so"):
            os.chown(self.path(name), 54321, 54321)
            self.refused(self.opc("ops"), "user 54321 owns it")
            os.chown(self.path(name), 0, 54321)
            os.chmod(self.path(name), 0o664)
            self.refused(self.opc("ops"), "its group may write it (mode 0664)")
            os.chown(self.path(name), 0, 0)  # root's own group
            self.tried(self.opc("ops"), "opc.toml:2")
        os.rename(self.path("opc.toml"), self.path("mine.toml"))
        os.symlink("mine.toml", self.path("opc.toml"))
        self.tried(self.opc("ops"), "opc.toml:2")
        os.lchown(self.path("opc.toml"), 54321, 54321)
        self.refused(self.opc("ops"), "user 54321 owns the link")

    def test_plugins_come_from_the_project_alone(self):
        os.makedirs(self.path("a", "b"))
        above = self.path("opc.toml")
        done = self.opc("ops", "relu", folder="a/b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stderr.startswith(f"note: the plugins of {above}:2 are not loaded: the file is outside of this folder's project (--plugin LIB loads one)\n"), done.stderr)
        self.assertEqual(self.opc("config", "run.seed", folder="a/b").stdout, "7\n")
        self.assertEqual(self.opc("-C", "a/b", "config", "target.plugins").stdout, "none\n")
        os.makedirs(self.path("a", ".git"))
        self.assertIn("are not loaded", self.opc("ops", "relu", folder="a/b").stderr)
        os.makedirs(self.path(".git"))  # the nearest one decides
        self.assertIn("are not loaded", self.opc("ops", "relu", folder="a/b").stderr)
        os.rmdir(self.path("a", ".git"))
        self.tried(self.opc("ops", folder="a/b"), above + ":2")
        self.tried(self.opc("-C", "a/b/", "ops"), "opc.toml:2")  # as it is called from here

    def test_the_users_own_file_and_a_named_one(self):
        os.makedirs(self.path("user", "opc"))
        os.rename(self.path("opc.toml"), self.put("user/opc/config.toml", ""))
        self.put("user/opc/config.toml", SETTINGS.replace("lib.so", "../../lib.so"))
        self.tried(self.opc("ops", env={"XDG_CONFIG_HOME": self.path("user")}), self.path("user/opc/config.toml") + ":2")
        self.tried(self.opc("--config", "user/opc/config.toml", "ops"), "user/opc/config.toml:2")


EVIL = "\x1b]0;title\x07\x1b[8m\r\n\nFORGED: all is well\n\x9b31m\u202e\x7f"
SAFE = r"\x1b]0;title\x07\x1b[8m\x0d\n\nFORGED: all is well\n\u009b31m\u202e\x7f"


def quoted(text):
    return '"' + "".join(f"\\{b:03o}" for b in text.encode()) + '"'


def hostile_graph():
    """y = x * w, every name with EVIL in it."""
    def name(kind):
        return quoted(kind + EVIL)

    return f"""op {{ name: {name('x')} input_conf {{ out: "out" blob_conf {{ shape {{ dim: 2 dim: 2 }} data_type: kFloat }} }} }}
op {{ name: {name('w')} variable_conf {{ out: "out" shape {{ dim: 2 dim: 2 }} data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}
op {{ name: {name('m')} user_conf {{ op_type_name: "matmul"
  input {{ key: "a" value {{ s: {quoted('x' + EVIL + '/out')} }} }} input {{ key: "b" value {{ s: {quoted('w' + EVIL + '/out')} }} }} }} }}
op {{ name: {name('s')} user_conf {{ op_type_name: "reduce_sum" input {{ key: "input_tensor" value {{ s: {quoted('m' + EVIL + '/out_0')} }} }}
  attr {{ key: "axis" value {{ at_list_int32 {{ val: 0 val: 1 }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}
op {{ name: {name('y')} output_conf {{ in: {quoted('s' + EVIL + '/output_tensor_0')} }} }}
"""


class Terminal(Folder):
    def setUp(self):
        super().setUp()
        self.put("g.pbtxt", hostile_graph())
        np.savez(self.path("plain.npz"), x=np.ones((2, 2), np.float32))

    def clean(self, done, *codes):
        """Nothing that a terminal obeys, no line that a name has begun; the name is there, spelled."""
        text = done.stdout + done.stderr
        self.assertIn(done.returncode, codes or (0,), text)
        for c in text:
            self.assertTrue(c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160 and not 0x2028 <= ord(c) <= 0x202e), repr(text))
        for line in text.splitlines():
            self.assertFalse(line.lstrip().startswith("FORGED"), repr(text))
        return text

    COMMANDS = [
        ["show", "g.pbtxt"], ["show", "g.pbtxt", "--what", "ops"], ["show", "g.pbtxt", "--what", "tensors"], ["show", "g.pbtxt", "--what", "memory"],
        ["show", "g.pbtxt", "--what", "sbp", "--mesh", "2"], ["show", "g.pbtxt", "--what", "boxing", "--mesh", "2"], ["run", "g.pbtxt", "--fill", "ones"], ["run", "g.pbtxt", "--fill", "ones", "--print", "all"],
        ["run", "g.pbtxt", "--fill", "ones", "--stats", "--timing", "-v", "-v"], ["run", "g.pbtxt", "--fill", "ones", "--expect", "y" + SAFE + "=3"],
        ["run", "g.pbtxt", "--fill", "ones", "--outputs", "out"], ["run", "g.pbtxt", "--fill", "ones", "--outputs", "out.npz"],
        ["run", "g.pbtxt", "--fill", "ones", "--inputs", "out.npz"], ["run", "g.pbtxt", "--fill", "ones", "--capture", "*=captured"],
        ["run", "g.pbtxt", "--fill", "ones", "--only", "m" + SAFE], ["run", "g.pbtxt", "--fill", "ones", "--progress", "plain"],
        ["run", "g.pbtxt", "--fill", "ones", "--ranks", "2", "--in-process"],
        ["compile", "g.pbtxt", "-o", "g.plan", "-v", "-v"], ["compile", "g.pbtxt", "--stats", "-o", "g.plan"], ["show", "g.plan"], ["show", "g.plan", "--what", "ops"], ["run", "g.plan", "--fill", "ones"],
        ["compile", "g.pbtxt", "--to", "simplify", "-o", "-"], ["compile", "g.pbtxt", "--to", "import", "--emit", "pbtxt", "-o", "-"],
        ["compile", "g.pbtxt", "--mesh", "2", "-o", "g2.plan", "-v", "-v"], ["compile", "g.pbtxt", "--mesh", "2", "--sbp", "q=B", "-o", "g2.plan"],
        ["grad", "g.pbtxt", "-o", "back.pbtxt"], ["show", "back.pbtxt"], ["grad", "g.pbtxt", "--check", "--fill", "rand"],
        ["compile", "g.pbtxt", "--wrong", "-o", "x"], ["run", "g.pbtxt"], ["run", "g.pbtxt", "--fill", "ones", "--until", "z"], ["run", "g.pbtxt", "--fill", "ones", "--input", "q=1"],
        ["run", "g.pbtxt", "--fill", "ones", "--only", "q"], ["run", "g.pbtxt", "--fill", "ones", "--input", "x" + SAFE + "=f32[3]:1,2,3"], ["run", "g.pbtxt", "--fill", "ones", "--output", "q=o.npy"],
        ["__complete", "--", "run", "g.pbtxt", "--only", ""],
    ]

    def test_every_command_that_prints_names(self):
        told = 0
        for command in self.COMMANDS:
            for more in ([], ["--color", "always"]):
                with self.subTest(command=command, more=more):
                    done = self.opc(*command[:1], *more, *command[1:]) if command[0] != "__complete" else self.opc(*command)
                    if more:  # only opc's own looks
                        for look in ("0", "1", "2", "1;31", "1;32", "1;33", "1;36"):
                            done.stdout = done.stdout.replace(f"\x1b[{look}m", "")
                            done.stderr = done.stderr.replace(f"\x1b[{look}m", "")
                    told += SAFE in self.clean(done, 0, 1, 2, 3, 4)
        self.assertGreater(told, 30)  # names were printed

    def test_errors_in_graphs(self):
        graph = hostile_graph()
        for what, broken in (("shape", graph.replace("dim: 2 dim: 2", "dim: 2 dim: 3", 1).replace("dim: 2 dim: 2", "dim: 4 dim: 5", 1)),
                             ("type", graph.replace('"matmul"', quoted("matmul" + EVIL))),
                             ("argument", graph.replace('key: "a"', "key: " + quoted("a" + EVIL))),
                             ("attribute", graph.replace('key: "axis"', "key: " + quoted("axis" + EVIL))),
                             ("text", graph.replace("at_bool: false", "at_string: " + quoted(EVIL))),
                             ("missing", graph.replace(quoted("m" + EVIL + "/out_0"), quoted("n" + EVIL + "/out_0"))),
                             ("twice", graph + graph), ("loc", graph.replace('user_conf { op_type_name: "matmul"', f'loc: {quoted(EVIL)} user_conf {{ op_type_name: "nomatmul"')),
                             ("value", f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 1 dim: 1 dim: 2 dim: 2 }} data_type: kFloat }} }} }}\nop {{ name: "f" user_conf {{ op_type_name: "upsample_nearest_2d" '
                                       f'input {{ key: "x" value {{ s: "x/out" }} }} attr {{ key: "data_format" value {{ at_string: {quoted(EVIL)} }} }} }} }}\nop {{ name: "o" output_conf {{ in: "f/y_0" }} }}'),
                             ("field", graph + "\x7f: 1"), ("raw", graph + '# \u202e\x9b\nop { name: "\x7f\u202e" nofield: 1 }')):
            with self.subTest(what):
                self.put("bad.pbtxt", broken)
                self.clean(self.opc("run", "bad.pbtxt", "--fill", "ones"), 3)

    def test_keys_of_tensor_files(self):
        np.savez(self.path("a.npz"), **{"k" + EVIL: np.ones(2, np.float32), "x" + EVIL: np.ones((2, 2), np.float32), "z" + EVIL: np.ones(1)})
        self.assertIn(SAFE, self.clean(self.opc("run", "g.pbtxt", "--inputs", "a.npz", "--print", "all")))
        self.clean(self.opc("run", "g.pbtxt", "--input", "x" + SAFE + "=@a.npz:nothing"), 2)
        self.clean(self.opc("run", "g.pbtxt", "--input", "x" + SAFE + "=@a.npz"), 2)
        header = json.dumps({"k" + EVIL: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        self.put("a.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))
        self.assertIn(SAFE, self.clean(self.opc("run", "g.pbtxt", "--fill", "ones", "--weights", "a.safetensors"), 0, 2))
        header = json.dumps({"k" + EVIL: {"dtype": EVIL, "nothing" + EVIL: 1}}).encode()
        self.put("b.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))
        self.clean(self.opc("run", "g.pbtxt", "--fill", "ones", "--weights", "b.safetensors"), 2, 3)

    def test_settings_and_clusters(self):
        self.put("opc.toml", f"[run]\n{json.dumps('k' + EVIL)} = 1\n")
        self.clean(self.opc("config"), 2)
        self.put("opc.toml", f"[tolerance]\n{json.dumps('k' + EVIL)} = {{ rtol = 1 }}\n[output]\ncolor = {json.dumps(EVIL)}\n")
        self.clean(self.opc("config"), 0, 2)
        self.put("opc.toml", "")
        self.put("c.json", json.dumps({"schema": 1, EVIL: 1}))
        self.clean(self.opc("compile", "g.pbtxt", "--mesh", "2", "--cluster", "c.json", "-o", "p"), 2, 3)

    def test_a_path(self):
        name = "a" + EVIL.replace("/", "") + ".pbtxt"
        self.put(name, hostile_graph())
        for command in (["show", name], ["run", name], ["run", name + "x"]):
            text = self.opc(*command)
            self.assertNotRegex(text.stdout + text.stderr, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

    def test_json_is_the_same_document(self):
        done = self.opc("run", "g.pbtxt", "--fill", "ones", "--json")
        self.assertEqual([o["name"] for o in json.loads(done.stdout)["outputs"]], ["y" + SAFE])
        self.assertNotRegex(done.stdout, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

    def test_a_picture(self):
        """What --plot draws is XML, whatever the outputs are called."""
        self.put("t.pbtxt", f"""op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 2 }} data_type: kFloat }} }} }}
op {{ name: "s" user_conf {{ op_type_name: "reduce_sum" input {{ key: "input_tensor" value {{ s: "x/out" }} }} attr {{ key: "axis" value {{ at_list_int32 {{ val: 0 }} }} }} }} }}
op {{ name: {quoted("<script>&" + chr(34) + EVIL)} output_conf {{ in: "s/output_tensor_0" }} }}
""")
        np.save(self.path("x.npy"), np.ones(8, np.float32))
        done = self.opc("run", "t.pbtxt", "--feed-dataset", "x=@x.npy", "--batch", "2", "--steps", "3", "--metrics", "m.jsonl", "--plot", "m.svg", "--progress", "plain")
        self.clean(done)
        with open(self.path("m.svg"), encoding="utf-8") as f:
            text = f.read()
        texts = [e.text for e in xml.etree.ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn('<script>&"' + SAFE, texts)


if __name__ == "__main__":
    unittest.main()
