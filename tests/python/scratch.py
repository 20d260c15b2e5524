"""A folder for the files of one test, and the command in it."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")


class ScratchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, *parts):
        """A file of the parts, a line each; its path."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("\n".join(parts))
        return self.path(name)

    def opc(self, *words, **options):
        """What the command did."""
        return subprocess.run([OPC, "--config", "none", *words], cwd=self.folder, capture_output=True, text=True, timeout=120, **options)

    def command(self, *words):
        """What the command printed; it must have done what it was told."""
        done = self.opc(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout
