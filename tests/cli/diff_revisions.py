# Graphs of git's revisions: what is read, what is refused, and that a hostile repository executes nothing.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import stat
import struct
import subprocess
import sys
import unittest

from folder_test import FolderTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as m  # noqa: E402

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
with open(os.path.join(SOURCE, "docs", "examples", "digits", "mlp.pbtxt"), encoding="utf-8") as f:
    MLP = f.read()
HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-merge", "update")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Revisions(FolderTest):
    def setUp(self):
        super().setUp()
        self.mark = os.path.join(self.folder, "executed")
        self.repository = os.path.join(self.folder, "repository")
        os.makedirs(os.path.join(self.repository, "nets"))
        self.git("init", "-q", "-b", "main")
        self.write("nets/mlp.pbtxt", MLP)
        os.symlink("mlp.pbtxt", os.path.join(self.repository, "nets", "link.pbtxt"))
        self.commit("first")
        self.write("nets/mlp.pbtxt", MLP.replace("relu1", "act1"))
        self.commit("second")

    def git(self, *args, check=True, **env):
        names = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(["git", *args], cwd=self.repository, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check,
                              env={**os.environ, **names, "HOME": self.folder, "GIT_CONFIG_NOSYSTEM": "1", **env})

    def commit(self, text):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)

    def write(self, name, text):
        with open(os.path.join(self.repository, name), "w", encoding="utf-8") as f:
            f.write(text)

    def opc(self, *args, code=0, cwd="", **env):
        done = subprocess.run([OPC, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=os.path.join(self.repository, cwd),
                              env={**os.environ, "HOME": self.folder, **env})
        self.assertEqual(done.returncode, code, (args, done.stdout, done.stderr))
        return done

    def test_revisions(self):
        self.opc("diff", "git:HEAD:nets/mlp.pbtxt", "nets/mlp.pbtxt")
        text = self.opc("diff", "git:HEAD~1:nets/mlp.pbtxt", "git:main:nets/mlp.pbtxt", code=1).stdout
        self.assertIn("act1  renamed from relu1  git:main:nets/mlp.pbtxt:34:1\n", text)
        # From a folder: as git writes it.
        self.opc("diff", "git:HEAD:./mlp.pbtxt", "mlp.pbtxt", cwd="nets")
        self.opc("-C", "nets", "diff", "git:HEAD:./mlp.pbtxt", "mlp.pbtxt")
        # Revisions with blanks, colons and slashes are git's to read.
        self.opc("diff", "git:HEAD^{/first}:nets/mlp.pbtxt", "nets/mlp.pbtxt", code=1)
        self.git("branch", "team/a-b--c")
        self.opc("diff", "git:team/a-b--c:nets/mlp.pbtxt", "nets/mlp.pbtxt")

    def test_refused(self):
        for spec, why in (("git:HEAD:nets/no.pbtxt", "the revision has no such file"), ("git:nope:nets/mlp.pbtxt", "there is no such revision"),
                          ("git:HEAD:nets", "it is a folder"), ("git:HEAD:", "a revision and a path are needed"), ("git:", "a revision and a path"),
                          ("git::nets/mlp.pbtxt", "a revision and a path"), ("git:--help:x", "no such revision"), ("git:--batch-all-objects:x", "no such revision"),
                          ("git:-c:x", "no such revision"), ("git:HEAD:../../../etc/passwd", ""), ("git:a\nHEAD:nets/mlp.pbtxt", "line break"),
                          ("git:" + "x" * 5000 + ":y", "too long")):
            done = self.opc("diff", spec, "nets/mlp.pbtxt", code=2)
            self.assertIn("OPC0706", done.stderr)
            self.assertIn(why, done.stderr)
        self.assertIn("not a git repository", self.opc("diff", "git:HEAD:x", "repository/nets/mlp.pbtxt", code=2, cwd="..").stderr)
        self.assertIn("git cannot be started", self.opc("diff", "git:HEAD:x", "nets/mlp.pbtxt", code=2, PATH="/nowhere").stderr)
        # A link is the text that it holds, and leads nowhere.
        self.opc("diff", "git:HEAD:nets/link.pbtxt", "nets/mlp.pbtxt", code=3)

    def marker(self, name):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\necho {name} >> {self.mark}\nexit 0\n")
        os.chmod(path, stat.S_IRWXU)
        return path

    def arm(self):
        """Everything that a repository can have git execute."""
        for hook in HOOKS:
            shutil.copy(self.marker("hook-" + hook), os.path.join(self.repository, ".git", "hooks", hook))
        for key, value in (("core.fsmonitor", self.marker("fsmonitor")), ("core.pager", self.marker("pager")), ("pager.cat-file", "true"),
                           ("core.editor", self.marker("editor")), ("core.sshCommand", self.marker("ssh")), ("core.askPass", self.marker("askpass")),
                           ("diff.external", self.marker("external")), ("diff.evil.textconv", self.marker("textconv")),
                           ("filter.evil.smudge", self.marker("smudge")), ("filter.evil.clean", self.marker("clean")), ("filter.evil.required", "true"),
                           ("credential.helper", self.marker("credential")), ("alias.cat-file", "!" + self.marker("alias")),
                           ("gpg.program", self.marker("gpg")), ("core.gitProxy", self.marker("proxy")), ("protocol.allow", "always"), ("protocol.ext.allow", "always")):
            self.git("config", key, value)
        self.write(".gitattributes", "*.pbtxt diff=evil filter=evil\n")

    def test_hostile_repository(self):
        self.arm()
        self.git("show", "--textconv", "HEAD:nets/mlp.pbtxt")
        self.assertTrue(os.path.exists(self.mark), "the marks of this test do nothing")
        os.remove(self.mark)
        self.opc("diff", "git:HEAD~1:nets/mlp.pbtxt", "nets/mlp.pbtxt", code=1)
        self.opc("diff", "git:HEAD:nets/mlp.pbtxt", "nets/mlp.pbtxt")
        self.opc("diff", "git:nope:nets/mlp.pbtxt", "nets/mlp.pbtxt", code=2)
        self.assertFalse(os.path.exists(self.mark), "git executed something")

    def test_nothing_is_fetched(self):
        """A partial clone lacks a file: git would fetch it through a command of the repository's choice."""
        self.arm()
        blob = self.git("rev-parse", "HEAD~1:nets/mlp.pbtxt").stdout.strip()
        os.remove(os.path.join(self.repository, ".git", "objects", blob[:2], blob[2:]))
        for url in ("ext::" + self.marker("ext") + " x", "ssh://nowhere.invalid/x", "file://" + self.folder + "/x"):
            for key, value in (("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"), ("remote.origin.promisor", "true"),
                               ("remote.origin.url", url), ("remote.origin.uploadpack", self.marker("uploadpack"))):
                self.git("config", key, value)
            if url.startswith("ext"):
                self.git("cat-file", "-p", blob, check=False)
                self.assertTrue(os.path.exists(self.mark), "the marks of this test do nothing")
                os.remove(self.mark)
            self.opc("diff", "git:HEAD~1:nets/mlp.pbtxt", "nets/mlp.pbtxt", code=2)
            self.assertFalse(os.path.exists(self.mark), "git executed something for " + url)

    def test_repository_among_files(self):
        """A folder that looks like a bare repository is one of the files, and its settings are not read."""
        inner = os.path.join(self.repository, "inner")
        subprocess.run(["git", "clone", "-q", "--bare", self.repository, inner], check=True, capture_output=True)
        done = self.opc("diff", "git:HEAD:nets/mlp.pbtxt", "../nets/mlp.pbtxt", code=2, cwd="inner")
        self.assertIn("bare", done.stderr)

    def test_operators_of_a_revision_are_not_loaded(self):
        """A manifest of Python operators beside the working file says nothing of the file of a revision."""
        self.write("nets/mlp.ops.pbtxt", "this is no manifest")
        self.opc("diff", "git:HEAD:nets/mlp.pbtxt", "git:HEAD:./nets/mlp.pbtxt")
        done = subprocess.run([OPC, "diff", "git:HEAD:nets/mlp.pbtxt", "nets/mlp.pbtxt"], cwd=self.repository, capture_output=True)
        self.assertGreater(done.returncode, 1)  # the working file's manifest counts

    def model(self, name, location):
        weights = m.external("w", (2, 3), location=location)
        self.data(name, m.model(m.graph([m.node("Add", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")], [weights])))

    def data(self, name, data):
        os.makedirs(os.path.dirname(os.path.join(self.repository, name)), exist_ok=True)
        with open(os.path.join(self.repository, name), "wb") as f:
            f.write(data)

    def test_weights_beside_a_model(self):
        """They are those of the revision, whatever lies there now, for every command that takes a revision."""
        self.model("nets/m.onnx", "data/w.bin")
        self.model("top.onnx", "w.bin")
        for name in ("nets/data/w.bin", "w.bin"):
            self.data(name, struct.pack("<6f", 1, 2, 3, 4, 5, 6))
        self.commit("ones: first")
        self.data("w.bin", struct.pack("<6f", 6, 5, 4, 3, 2, 1))
        self.data("nets/data/w.bin", bytes(24))
        for spec, cwd in (("git:HEAD:nets/m.onnx", "."), ("git:HEAD:./m.onnx", "nets"), ("git:HEAD:top.onnx", "nets"), ("git:HEAD:../top.onnx", "nets"),
                          ("git:HEAD^{/ones: first}:top.onnx", ".")):
            with self.subTest(spec):
                done = self.opc("run", spec, "--input", "x=f32[2,3]:0,0,0,0,0,0", "--print", "all", "--json", cwd=cwd)
                for number in range(1, 7):
                    self.assertRegex(done.stdout, rf"\b{number}\b")
                self.opc("show", spec, cwd=cwd)
        self.opc("diff", "git:HEAD:nets/m.onnx", "git:HEAD:top.onnx")
        self.opc("diff", "git:HEAD:nets/m.onnx", "nets/m.onnx", code=1)
        self.opc("report", "git:HEAD:nets/m.onnx", "-o", "m.html")
        self.opc("run", "top.onnx", "--fill", "rand", "--reference", "git:HEAD:top.onnx", code=2)

    def test_weights_that_a_revision_does_not_have(self):
        self.model("nets/m.onnx", "w.bin")
        self.commit("without")
        self.data("nets/w.bin", bytes(24))
        done = self.opc("show", "git:HEAD:nets/m.onnx", code=3)
        self.assertIn("OPC0323", done.stderr)
        self.assertIn("the file 'w.bin' of the model's tensors: cannot read git:HEAD:nets/w.bin: the revision has no such file", done.stderr)
        self.assertIn("commit it with the model", done.stderr)
        os.remove(os.path.join(self.repository, "nets", "w.bin"))
        os.symlink("../mlp.pbtxt", os.path.join(self.repository, "nets", "w.bin"))
        self.commit("a link")
        self.assertIn("it is a link or a folder", self.opc("show", "git:HEAD:nets/m.onnx", code=3).stderr)


if __name__ == "__main__":
    unittest.main()
