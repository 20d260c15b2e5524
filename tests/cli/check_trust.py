# opc check of a tree that somebody else has written: nothing of it is executed.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

from check_cases import GRAPH, Checks

SOURCE_OF_PLUGIN = '''#include <cstdio>
#include <cstdlib>
namespace {
struct Loaded {
  Loaded() {
    if (std::FILE *f = std::fopen(std::getenv("OPC_TEST_MARK"), "w")) std::fclose(f);
  }
} loaded;
}
'''


class Trust(Checks):
    @classmethod
    def setUpClass(cls):
        cls.built = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.built.cleanup)
        with open(os.path.join(cls.built.name, "p.cpp"), "w", encoding="utf-8") as f:
            f.write(SOURCE_OF_PLUGIN)
        cls.plugin = os.path.join(cls.built.name, "libevil.so")
        subprocess.run([os.environ.get("OPC_CXX", "c++"), "-shared", "-fPIC", "-o", cls.plugin, os.path.join(cls.built.name, "p.cpp")], check=True)

    def setUp(self):
        super().setUp()
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update")
        with open(self.plugin, "rb") as f, open(self.path("libevil.so"), "wb") as to:
            to.write(f.read())
        self.env = {"OPC_TEST_MARK": self.path("mark")}

    def loaded(self):
        there = os.path.exists(self.path("mark"))
        if there:
            os.remove(self.path("mark"))
        return there

    def test_a_plugin_of_the_tree(self):
        self.write("opc.toml", '# settings\n[target]\nplugins = ["libevil.so"]\n')
        found = self.check("g.pbtxt", "--json", env=self.env)
        self.assertFalse(self.loaded())
        self.assertIn('"rule": "PLUGIN_NOT_LOADED"', found.stdout)
        self.assertIn('"file": "opc.toml",\n    "line": 3', found.stdout)
        done = self.check("g.pbtxt", env=self.env)
        self.assertIn("help: opc check --trust-config, or --plugin", done.stdout)
        self.assertIn("checked 1 graph: ", done.stderr) # opc.toml is none
        self.check("g.pbtxt", "--update", "--twice", env=self.env)
        self.assertFalse(self.loaded())

    def test_a_plugin_that_the_user_names(self):
        self.write("opc.toml", '[target]\nplugins = ["libevil.so"]\n')
        # It is no plugin of opc, and opc finds that out by loading it.
        self.check("g.pbtxt", "--trust-config", code=4, env=self.env)
        self.assertTrue(self.loaded())
        self.check("g.pbtxt", "--config", "none", "--plugin", "./libevil.so", code=4, env=self.env)
        self.assertTrue(self.loaded())
        self.check("g.pbtxt", code=4, env={**self.env, "OPC_PLUGINS": self.path("libevil.so")})
        self.assertTrue(self.loaded())
        self.write("home/opc/config.toml", '[target]\nplugins = ["%s"]\n' % self.path("libevil.so"))
        os.remove(self.path("opc.toml"))
        self.check("g.pbtxt", code=4, env={**self.env, "XDG_CONFIG_HOME": self.path("home")})
        self.assertTrue(self.loaded())

    def test_links(self):
        """A link is not followed where graphs are looked for; one that is named is a file as any other."""
        self.write("outside/h.pbtxt", GRAPH)
        os.mkdir(self.path("tree"))
        os.symlink("../outside/h.pbtxt", self.path("tree/h.pbtxt"))
        os.symlink("tree", self.path("loop"))
        self.check("tree", code=2)
        self.check("loop/h.pbtxt", code=1)


if __name__ == "__main__":
    unittest.main()
