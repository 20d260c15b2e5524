"""Runs a test that is a script, and says what it skipped. usage: run_script.py NAME SCRIPT [ARGUMENT...]

A skip is `skipped: NAME: reason` in the output: a unittest case is NAME.Class.test_method, a class NAME.Class, a whole script raises unittest.SkipTest.
With CI=true a skip has failed unless tests/allowed_skips.txt names it or its class, with a reason."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import runpy
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def allowed(text):
    """Names of the list, each with a reason."""
    rows = [line.split("|", 1) for line in text.split("\n") if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 2 or len(row[1].strip()) < 20:
            raise ValueError(f"allowed_skips.txt: {row[0].strip()} has no reason")
    return {name.strip() for name, _ in rows}


def skip(name, reason):
    """Reports a skip; says whether it counts as a failure."""
    print(f"skipped: {name}: {reason}", flush=True)
    if os.environ.get("CI") != "true":
        return False
    with open(os.path.join(HERE, "allowed_skips.txt"), encoding="utf-8") as f:
        names = allowed(f.read())
    if name in names or name.rpartition(".")[0] in names:  # the test, or its class
        return False
    print(f"failed: with CI=true a skipped test has failed, and tests/allowed_skips.txt does not name {name}", flush=True)
    return True


def be_patient(factor):
    """The seconds that a script gives to its programs hold for an optimized build: a sanitized one gets `factor` times as many."""
    if factor == 1:
        return
    for name in ("communicate", "wait"):
        waits = getattr(subprocess.Popen, name)
        position = {"communicate": 1, "wait": 0}[name]  # of the timeout among the arguments

        def patient(self, *arguments, waits=waits, position=position, **named):
            arguments = [a * factor if i == position and a is not None else a for i, a in enumerate(arguments)]
            if named.get("timeout") is not None:
                named["timeout"] *= factor
            return waits(self, *arguments, **named)

        setattr(subprocess.Popen, name, patient)


def run(name, script, arguments):
    skips = []
    record = unittest.TestResult.addSkip

    def add_skip(self, test, reason):
        record(self, test, reason)
        # A class that skips in its setUpClass is called "setUpClass (__main__.Class)".
        whole = re.fullmatch(r"setUpClass \((?:.*\.)?(\w+)\)", test.id())
        skips.append((".".join([name] + ([whole.group(1)] if whole else test.id().split(".")[-2:])), reason))

    unittest.TestResult.addSkip = add_skip
    if os.environ.get("OPC_ASAN_OPTIONS"):
        os.environ["ASAN_OPTIONS"] = ":".join([os.environ.get("ASAN_OPTIONS", ""), os.environ["OPC_ASAN_OPTIONS"]])
    be_patient(int(os.environ.get("OPC_TEST_PATIENCE", "1")))
    sys.argv = [script] + arguments
    sys.path[:0] = [os.path.dirname(os.path.abspath(script)), os.path.join(HERE, "support")]
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except unittest.SkipTest as e:
        skips.append((name, str(e)))
    return max([code] + [int(skip(n, why)) for n, why in skips])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
