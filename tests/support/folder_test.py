"""A test with a folder of its own, and opc in it."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

if "numpy" in sys.modules: # a test that loads arrays
    import numpy_headers  # noqa: F401

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        """A file of this text, or of these bytes; its name."""
        with open(self.path(name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return name

    def opc(self, *arguments, code=0, program=OPC, **options):
        """What a program did in the folder; it must end with this code."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([program, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, **options)
        self.assertEqual(done.returncode, code, (arguments, done.stdout[-2000:], done.stderr[-2000:]))
        return done
