"""Every test_*.py of this folder (or those named), with the package of the build tree."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.environ["OPC_BUILD_DIR"], "python"), os.path.join(HERE, "..", "support")]

import numpy_headers  # noqa: E402, F401

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored, which children inherit
names = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(HERE) if f.startswith("test_") and f.endswith(".py"))
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(n) for n in names)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
