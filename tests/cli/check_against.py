# opc check --against: graphs of a revision or another file, in repositories that anybody may have written.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from check_cases import GRAPH, Checks

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as m  # noqa: E402


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Against(Checks):
    def git(self, *args):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.hooksPath=/dev/null", *args], cwd=self.folder, check=True,
                       capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"})

    def setUp(self):
        super().setUp()
        self.write("graphs/g.pbtxt", GRAPH)
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def test_a_revision(self):
        for revision in ("git:HEAD", "HEAD", "main", "git:main"):
            self.check("graphs", "--against", revision)
        self.write("graphs/g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.assertLessEqual({("OP_TYPE_CHANGED", "act", 4), ("NUMERIC_MISMATCH", "y", 5)}, self.found("graphs", "--against", "git:HEAD"))
        self.assertNotIn("NUMERIC_MISMATCH", self.rules("graphs", "--against", "git:HEAD", "--no-run"))
        self.git("commit", "-qam", "second")
        self.check("graphs", "--against", "HEAD")
        self.check("graphs", "--against", "HEAD~1", code=1)
        self.assertEqual(sorted(os.listdir(self.path("graphs"))), ["g.pbtxt"])  # nothing is stored

    def test_from_below_the_root(self):
        self.write("graphs/g.pbtxt", GRAPH.replace("fc", "dense"))
        self.assertEqual(self.rules("-C", "graphs", "g.pbtxt", "--against", "HEAD"), {"OP_RENAMED"})
        self.assertEqual(self.rules(self.path("graphs/g.pbtxt"), "--against", "HEAD"), {"OP_RENAMED"})

    def test_graphs_that_are_gone(self):
        """Of folders, of names, of globs, of a folder that is gone with them; and not of what is not checked."""
        for name in ("graphs/deep/a.pbtxt", "graphs/b.onnx", "graphs/.hidden/c.pbtxt", "graphs/test_data_set_0/d.pb", "graphs/notes.txt", "other/e.pbtxt",
                     'graphs/odd\nname".pbtxt'):
            self.write(name, GRAPH)
        self.git("add", ".")
        self.git("commit", "-qm", "more")
        self.git("rm", "-qr", "graphs/deep", "graphs/b.onnx", "graphs/.hidden", "graphs/test_data_set_0", "graphs/notes.txt", "other")
        os.remove(self.path('graphs/odd\nname".pbtxt'))
        gone = {"graphs/deep/a.pbtxt", "graphs/b.onnx", 'graphs/odd\nname".pbtxt'}
        def found(*args, code=1):
            return {f["graph"] for f in self.findings(*args, "--against", "HEAD", code=code) if (f["rule"], f["severity"]) == ("GRAPH_REMOVED", "error")}
        self.assertEqual(found("graphs"), gone)
        self.assertEqual(found("graphs/g.pbtxt", code=0), set())
        self.assertEqual(found("."), gone | {"other/e.pbtxt"})
        self.assertEqual(found("graphs/deep", "graphs/g.pbtxt"), {"graphs/deep/a.pbtxt"})
        self.assertEqual(found("other/e.pbtxt"), {"other/e.pbtxt"})
        self.assertEqual(found("-C", "graphs", "."), {"deep/a.pbtxt", "b.onnx", 'odd\nname".pbtxt'})
        self.assertEqual(found(self.path("graphs")), {self.path(g) for g in gone})
        self.assertEqual(found("graphs", "--except", "GRAPH_REMOVED", code=0), set())
        self.assertEqual(found("graphs", "--ignore", "*/deep/*:*"), gone - {"graphs/deep/a.pbtxt"})
        self.write("opc.toml", '[check]\npaths = ["graphs/**/*.pbtxt"]\n')
        self.assertEqual(found(), gone - {"graphs/b.onnx"})
        self.check("nowhere", "--against", "HEAD", code=2)
        self.check("graphs", "--against", "HEAD~1")
        # With the graph itself gone, too, the folder has none.
        os.remove(self.path("graphs/g.pbtxt"))
        self.assertEqual(found("graphs"), gone | {"graphs/g.pbtxt"})
        named = gone - {"graphs/b.onnx"} | {"graphs/g.pbtxt"}
        self.assertEqual(found(), named)
        # Whether a lock is left there or not.
        self.write("graphs/g.opc.lock", "{}")
        self.assertEqual(found("graphs"), gone | {"graphs/g.pbtxt"})
        self.assertEqual(found(), named)
        shutil.rmtree(self.path("graphs"))
        self.assertEqual(found(), named)
        self.write("opc.toml", '[check]\npaths = ["graphs/**/*.pb"]\n')
        self.assertIn("no file matches 'graphs/**/*.pb'", self.check("--against", "HEAD", code=2).stderr)

    def test_a_tree_that_is_in_itself_many_times(self):
        tree = self.git_says("write-tree")
        for _ in range(12):
            entries = "".join(f"040000 tree {tree}\tf{i}\n" for i in range(8))
            tree = self.git_says("mktree", given=entries)
        commit = self.git_says("commit-tree", tree, "-m", "bomb")
        self.assertIn("more than 2000 folders", self.check(".", "--against", commit, code=2).stderr)
        self.assertIn(("GRAPH_ADDED"), self.rules("graphs", "--against", commit, code=0))

    def test_open_shapes(self):
        """Both sides take the shapes of the command line, else those of the lock."""
        text = GRAPH.replace("dim: 4 dim: 3", "dim: -1 dim: 3")
        self.write("graphs/g.pbtxt", text)
        self.git("commit", "-qam", "open")
        self.assertIn("GRAPH_INVALID", self.rules("graphs", "--against", "HEAD", code=3))
        self.check("graphs", "--against", "HEAD", "--shape", "x=6,3")
        self.check("graphs", "--update", "--shape", "x=7,3")
        self.check("graphs", "--against", "HEAD")
        self.write("graphs/g.pbtxt", text.replace("value: 0.5", "value: 0.25"))
        found = self.findings("graphs", "--against", "HEAD")
        self.assertEqual({f["rule"] for f in found}, {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
        self.assertIn("of 35", "".join(f["message"] for f in found))  # 7 x 5 values
        # A lock that is none, or a link, is not looked at.
        self.write("graphs/g.opc.lock", "no lock")
        self.assertIn("GRAPH_INVALID", self.rules("graphs", "--against", "HEAD", code=3))

    def git_says(self, *args, given=""):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=self.folder, check=True, input=given, text=True,
                              capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}).stdout.strip()

    def test_a_graph_that_is_new(self):
        self.write("graphs/h.pbtxt", GRAPH)
        self.assertEqual(self.rules("graphs", "--against", "HEAD", code=0), {"GRAPH_ADDED"})

    def test_an_older_graph_that_is_not_valid(self):
        self.write("graphs/g.pbtxt", "no graph")
        self.git("commit", "-qam", "broken")
        self.write("graphs/g.pbtxt", GRAPH)
        found = self.findings("graphs", "--against", "HEAD", code=3)
        self.assertIn("the older graph: OPC", found[0]["message"])

    def test_what_is_gone_has_no_place_now(self):
        """The text names the older file and its line; annotations, which are shown in the newer one, name the graph."""
        act = GRAPH.splitlines(keepends=True)[3]
        self.write("graphs/g.pbtxt", GRAPH.replace(act, "").replace("act/y_0", "fc/out_0"))
        self.assertIn("error[OP_REMOVED]: op act: removed: relu f32[4,5] -> f32[4,5]\n  --> git:HEAD:./graphs/g.pbtxt:4:1", self.check("graphs", "--against", "HEAD", code=1).stdout)
        self.assertIn("::error file=graphs/g.pbtxt,line=1,title=OPC OP_REMOVED::", self.check("graphs", "--against", "HEAD", "--format", "github", code=1).stdout)
        for form in ("sarif", "gitlab", "github"):
            self.assertNotIn("git%3A", self.check("graphs", "--against", "HEAD", "--format", form, code=1).stdout.replace("git:", "git%3A"))

    def test_where_there_is_no_revision(self):
        """No repository, no git, a shallow clone, a range, an empty variable: each with the way out."""
        outside = self.path("../" + os.path.basename(self.folder) + "-outside")
        os.mkdir(outside)
        self.addCleanup(shutil.rmtree, outside)
        self.assertIn(f"cannot read git:HEAD: {os.path.realpath(outside)} is in no git repository", self.check("-C", outside, ".", "--against", "HEAD", code=2).stderr)
        self.assertIn("cannot read git:HEAD: git cannot be started", self.check("graphs", "--against", "HEAD", code=2, env={"PATH": outside}).stderr)
        self.git("commit", "-q", "--allow-empty", "-m", "second")
        self.git("clone", "-q", "--depth", "1", "file://" + self.folder, os.path.join(outside, "shallow"))
        self.assertIn("--unshallow", self.check("-C", os.path.join(outside, "shallow"), "graphs", "--against", "HEAD~1", code=2).stderr)
        self.check("-C", os.path.join(outside, "shallow"), "graphs", "--against", "HEAD")
        self.assertIn("git merge-base", self.check("graphs", "--against", "main...HEAD", code=2).stderr)
        self.assertIn("--against has no revision", self.check("graphs", "--against", "", code=2).stderr)
        self.git("worktree", "add", "-q", "--detach", os.path.join(outside, "tree"), "HEAD~1")
        self.check("-C", os.path.join(outside, "tree"), "graphs", "--against", "main")
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", "65534", os.path.join(outside, "shallow")], check=True)
            done = self.check("-C", os.path.join(outside, "shallow"), "graphs", "--against", "HEAD", code=2, env={"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"})
            self.assertIn("git config --global --add safe.directory", done.stderr)

    def model(self, location, **entries):
        weights = m.external("w", (2, 3), location=location, **entries)
        self.data("graphs/m.onnx", m.model(m.graph([m.node("Add", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")], [weights])))

    def data(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "next")

    def test_a_model_whose_weights_lie_beside(self):
        """They are those of the revision, whatever lies there now."""
        numbers, others = struct.pack("<6f", 1, 2, 3, 4, 5, 6), struct.pack("<6f", 6, 5, 4, 3, 2, 1)
        self.model("data/w.bin", offset=8)
        self.data("graphs/data/w.bin", bytes(8) + numbers)
        self.commit()
        self.check("graphs/m.onnx", "--against", "HEAD")
        self.data("graphs/data/w.bin", bytes(8) + others)
        self.assertIn("NUMERIC_MISMATCH", self.rules("graphs/m.onnx", "--against", "HEAD"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("-C", "/", self.path("graphs/m.onnx"), "--against", "HEAD"))
        self.assertIn("NUMERIC_MISMATCH", self.rules("graphs/m.onnx", "--against", "HEAD", "--shape", "x=2,3"))
        # It lies elsewhere now, and what the revision has is compared all the same.
        self.model("w.bin")
        os.remove(self.path("graphs/data/w.bin"))
        self.data("graphs/w.bin", numbers)
        self.check("graphs/m.onnx", "--against", "HEAD")

    def test_weights_that_a_revision_does_not_have(self):
        outside = self.path("secret")
        self.data("secret", bytes(24))
        self.git("add", "secret")
        def link():
            os.symlink(outside, self.path("graphs/w.bin"))
        def short():
            self.data("graphs/w.bin", bytes(20))
        def stored_elsewhere():
            self.data("graphs/w.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 24\n")
        def none():
            pass
        for location, make, said in (("w.bin", none, "the file 'w.bin' of the model's tensors: cannot read git:HEAD:./graphs/w.bin: the revision has no such file"),
                                     ("w.bin", link, "it is a link or a folder"), ("w.bin", stored_elsewhere, "Git LFS"),
                                     ("w.bin", short, "of 'w.bin', which has 20"), ("../secret", none, "its path leaves the model's folder"),
                                     (outside, none, "its path is not relative to the model"), ("no/w.bin", none, "no such file")):
            with self.subTest(said):
                self.model(location)
                make()
                self.commit()
                self.model("now.bin")
                self.data("graphs/now.bin", bytes(24))
                (found,) = self.findings("graphs/m.onnx", "--against", "HEAD", code=3)
                self.assertEqual(found["rule"], "GRAPH_INVALID")
                self.assertTrue(found["message"].startswith("the older graph: OPC0323: "), found["message"])
                self.assertIn(said, found["message"])
                os.remove(self.path("graphs/now.bin"))
                if make is not none:
                    os.remove(self.path("graphs/w.bin"))

    def link(self, name, to):
        os.symlink(to, self.path(name))

    def test_links(self):
        """What the revision has where its links lead; where it has none of that name, where those of now lead."""
        self.link("graphs/l.pbtxt", "g.pbtxt")
        self.link("linked", "graphs")
        self.link("graphs/again.pbtxt", "../linked/l.pbtxt")
        self.commit()
        tanh = GRAPH.replace('"relu"', '"tanh"')
        self.write("graphs/g.pbtxt", tanh)
        self.link("graphs/new.pbtxt", "g.pbtxt")
        self.link("graphs/whole.pbtxt", self.path("graphs/g.pbtxt"))
        self.link("new", "graphs")
        names = ("graphs/l.pbtxt", "linked/g.pbtxt", "linked/l.pbtxt", "linked", "graphs/again.pbtxt", "graphs/new.pbtxt", "graphs/whole.pbtxt", "new", "new/l.pbtxt")
        outside = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, outside)
        os.symlink(self.folder, os.path.join(outside, "repository"))
        for name in names:
            with self.subTest(name):
                self.assertIn("OP_TYPE_CHANGED", self.rules(name, "--against", "HEAD", "--no-run"))
                self.assertIn("OP_TYPE_CHANGED", self.rules("-C", outside, os.path.join("repository", name), "--against", "HEAD", "--no-run"))
        self.assertIn("OP_TYPE_CHANGED", self.rules("-C", "linked", "l.pbtxt", "--against", "HEAD", "--no-run"))
        # A link that leads elsewhere now: what was behind its name is compared.
        self.write("graphs/g.pbtxt", GRAPH)
        self.write("graphs/h.pbtxt", tanh)
        self.commit()
        os.remove(self.path("graphs/l.pbtxt"))
        self.link("graphs/l.pbtxt", "h.pbtxt")
        self.assertIn("OP_TYPE_CHANGED", self.rules("graphs/l.pbtxt", "--against", "HEAD", "--no-run"))
        # One that leads out of the repository, as in the revision and as one that it has not.
        with open(os.path.join(outside, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH)
        self.link("graphs/out.pbtxt", os.path.join(outside, "g.pbtxt"))
        self.assertEqual([f["rule"] for f in self.findings("graphs/out.pbtxt", "--against", "HEAD", "--no-run", code=0)], ["GRAPH_ADDED"])
        self.commit()
        (found,) = self.findings("graphs/out.pbtxt", "--against", "HEAD", "--no-run", code=2)
        self.assertIn(f"{outside} is in no git repository", found["message"])

    def test_weights_beside_the_model_that_a_link_leads_to(self):
        self.model("w.bin")
        self.data("graphs/w.bin", struct.pack("<6f", 1, 2, 3, 4, 5, 6))
        self.link("m.onnx", "graphs/m.onnx")
        self.commit()
        self.check("m.onnx", "--against", "HEAD")
        self.data("graphs/w.bin", bytes(24))
        self.assertIn("NUMERIC_MISMATCH", self.rules("m.onnx", "--against", "HEAD"))
        # No link leads from the model's folder to its weights.
        self.data("data/w.bin", bytes(24))
        self.link("graphs/data", "../data")
        self.model("data/w.bin")
        self.commit()
        self.model("w.bin")
        (found,) = self.findings("graphs/m.onnx", "--against", "HEAD", code=3)
        self.assertIn("cannot read git:HEAD:./graphs/data/w.bin: the revision has no such file", found["message"])

    def within(self, folder, *args):
        identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")
        return subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True,
                              env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}).stdout.strip()

    def test_submodules(self):
        """Their graphs are those of the commit that the revision records, whatever it is called."""
        other = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, other)
        self.within(other, "init", "-q", "-b", "theirs")
        for text in (GRAPH, GRAPH.replace('"relu"', '"tanh"')):
            with open(os.path.join(other, "s.pbtxt"), "w", encoding="utf-8") as f:
                f.write(text)
            self.within(other, "add", ".")
            self.within(other, "commit", "-qm", "next")
        first = self.within(other, "rev-parse", "HEAD~1")
        self.within(self.folder, "submodule", "add", "-q", other, "deep/module")
        self.within(self.path("deep/module"), "checkout", "-q", first)
        self.commit()
        self.within(self.folder, "tag", "ours")
        for path in ("deep/module/s.pbtxt", "deep/module", "deep", "."):
            self.assertEqual(self.findings(path, "--against", "ours", "--no-run", code=0), [], path)
        self.within(self.path("deep/module"), "checkout", "-q", "theirs")
        for path in ("deep/module/s.pbtxt", "deep/module", "deep", "."):
            self.assertEqual(self.rules(path, "--against", "ours", "--no-run"), {"OP_TYPE_CHANGED", "FLOPS_GREW"}, path)
        # As in a hook, for which git names its repository.
        self.check("deep/module", "--against", "ours", "--no-run", code=1, env={"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index"})
        # Within it revisions are its own.
        self.check("-C", "deep/module", "s.pbtxt", "--against", "HEAD")
        self.assertIn("there is no such revision", self.check("-C", "deep/module", "s.pbtxt", "--against", "ours", code=2).stderr)
        os.remove(self.path("deep/module/s.pbtxt"))
        self.assertEqual(self.rules("deep/module", "--against", "ours", "--no-run"), {"GRAPH_REMOVED"})
        # A commit that it lacks.
        self.within(self.path("deep/module"), "checkout", "-q", ".")
        self.git("update-index", "--cacheinfo", "160000," + "1" * 40 + ",deep/module")
        self.git("commit", "-qm", "lost")
        done = self.check("deep/module", "--against", "HEAD", "--no-run", code=2)
        self.assertIn(f"cannot read git:HEAD: it has commit {'1' * 40} of the submodule {self.path('deep/module')}, which that lacks", done.stderr)

    def test_a_repository_among_the_files(self):
        """It has revisions of its own; without one of that name its graphs are in none where a folder around it is named."""
        nested = self.path("nested")
        self.write("nested/n.pbtxt", GRAPH)
        self.within(nested, "init", "-q", "-b", "main")
        self.within(nested, "add", ".")
        self.within(nested, "commit", "-qm", "first")
        self.write("nested/n.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        for path in ("nested/n.pbtxt", "nested", "."):
            self.assertEqual(self.rules(path, "--against", "HEAD", "--no-run"), {"OP_TYPE_CHANGED", "FLOPS_GREW"}, path)
        self.git("tag", "outer")
        self.assertIn(f"cannot read git:outer: there is no such revision in the repository of {nested}", self.check("nested", "--against", "outer", code=2).stderr)
        self.assertEqual([(f["rule"], f["graph"]) for f in self.findings(".", "--against", "outer", "--no-run", code=0)], [("GRAPH_ADDED", "nested/n.pbtxt")])

    def test_a_graph_of_another_repository(self):
        """Its revisions are that repository's, whether the working directory is in one, too, or in none."""
        self.write("graphs/g.pbtxt", GRAPH.replace('"relu"', '"tanh"'))
        self.git("commit", "-qam", "second")
        self.git("tag", "mine")
        outside = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, outside)
        graph, folder = self.path("graphs/g.pbtxt"), self.path("graphs")
        for is_repository in (False, True):
            with self.subTest(is_repository=is_repository):
                if is_repository:
                    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=outside, check=True)
                self.check("-C", outside, graph, "--against", "mine")
                for path in (graph, folder, os.path.relpath(graph, outside), os.path.relpath(folder, outside)):
                    self.assertIn("OP_TYPE_CHANGED", self.rules("-C", outside, path, "--against", "mine~1"))
                said = self.check("-C", outside, graph, "--against", "yours", code=2).stderr
                self.assertIn(f"cannot read git:yours: there is no such revision in the repository of {folder}", said)
        os.remove(graph)
        self.assertIn("GRAPH_REMOVED", self.rules("-C", outside, graph, "--against", "mine"))
        # A file that is in no repository, named from one.
        with open(os.path.join(outside, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH)
        shutil.rmtree(os.path.join(outside, ".git"))
        done = self.check(os.path.join(outside, "g.pbtxt"), "--against", "HEAD", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn(f"error[OPC0706]: cannot read git:HEAD: {outside} is in no git repository", done.stderr)
        self.assertIn("--against FILE", done.stderr)

    def test_a_file(self):
        self.write("old.pbtxt", GRAPH.replace("fc", "dense"))
        self.assertEqual(self.found("graphs/g.pbtxt", "--against", "old.pbtxt"), {("OP_RENAMED", "fc", 3)})
        self.write("graphs/h.pbtxt", GRAPH)
        self.check("graphs", "--against", "old.pbtxt", code=2)

    def test_usage(self):
        for revision in ("nothing", "git:nothing", "git:", "git:--output=x", "--upload-pack=touch x", "git:-h", "HEAD:graphs/g.pbtxt^{tree}"):
            self.check("graphs", f"--against={revision}" if revision.startswith("--") else "--against",
                       *([] if revision.startswith("--") else [revision]), code=2)
        self.check("graphs", "--against", "HEAD", "--update", code=2)
        self.assertEqual(sorted(os.listdir(self.folder)), [".git", "graphs"])

    def test_a_revision_with_a_dash(self):
        self.git("update-ref", "refs/heads/-dash", "HEAD")
        self.check("graphs", "--against", "git:-dash")
        self.check("graphs", "--against", "git:refs/heads/-dash")

    def test_a_hostile_repository(self):
        """Hooks, a monitor, an external diff, filters, an alias, a pager: none is run. Nothing of the revision is loaded."""
        self.write("run.sh", '#!/bin/sh\ntouch "%s"\ncat\n' % self.path("mark"))
        os.chmod(self.path("run.sh"), 0o755)
        script = self.path("run.sh")
        self.write("opc.toml", '[target]\nplugins = ["./libevil.so"]\n')
        self.write(".gitattributes", "*.pbtxt diff=evil filter=evil merge=evil\n")
        self.git("add", "opc.toml", ".gitattributes", "run.sh")
        self.git("commit", "-qm", "evil")
        os.remove(self.path("opc.toml"))
        for key, value in {"core.fsmonitor": script, "core.hooksPath": self.folder, "diff.external": script, "diff.evil.textconv": script,
                           "filter.evil.smudge": script, "filter.evil.clean": script, "core.pager": script, "core.editor": script,
                           "core.sshCommand": script, "alias.cat-file": "!" + script, "alias.show": "!" + script,
                           "credential.helper": "!" + script, "core.askPass": script, "uploadpack.packObjectsHook": script}.items():
            with open(self.path(".git/config"), "a", encoding="utf-8") as f:
                section, _, name = key.rpartition(".")
                section, _, sub = section.partition(".")
                f.write('[%s%s]\n\t%s = "%s"\n' % (section, f' "{sub}"' if sub else "", name, value))
        for hook in ("post-checkout", "pre-auto-gc", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
            shutil.copy(script, self.path(f".git/hooks/{hook}"))
        self.write("graphs/g.pbtxt", GRAPH.replace("fc", "dense"))
        self.assertEqual(self.rules("graphs", "--against", "HEAD"), {"OP_RENAMED"})
        self.assertEqual(self.rules("graphs", "--against", "git:HEAD~1"), {"OP_RENAMED"})
        self.assertFalse(os.path.exists(self.path("mark")))

    def test_a_file_where_a_submodule_was(self):
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.folder, capture_output=True, text=True, check=True).stdout.strip()
        self.git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub.pbtxt")
        self.git("commit", "-qm", "submodule")
        self.write("sub.pbtxt", GRAPH)
        self.assertEqual(self.rules("sub.pbtxt", "--against", "HEAD", code=0), {"GRAPH_ADDED"})


if __name__ == "__main__":
    unittest.main()
