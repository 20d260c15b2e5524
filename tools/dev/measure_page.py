#!/usr/bin/env python3
# How long a report of a training graph takes: writing it, and in headless Chromium from the start of navigation to the drawn graph.
# SPDX-License-Identifier: Apache-2.0
"""usage: tools/dev/measure_page.py [LAYERS [REPEATS]]; OPC_BUILD_DIR is the build folder (default build)."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import big_graphs  # noqa: E402
import browser  # noqa: E402

# The mark is set when the graph's elements are there; the next two frames have them painted.
PAINTED = ("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
           "done([performance.getEntriesByName('drawn-graph')[0].startTime, performance.now()]))))")


def measure(layers, repeats):
    opc = os.path.join(SOURCE, os.environ.get("OPC_BUILD_DIR", "build"), "bin", "opc")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "chain.pbtxt"), "w", encoding="utf-8") as f:
            f.write(big_graphs.chain(layers))
        subprocess.run([opc, "-q", "grad", "chain.pbtxt", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", "step.pbtxt"], cwd=folder, check=True)
        start = time.monotonic()
        subprocess.run([opc, "-q", "report", "step.pbtxt", "-o", "step.html"], cwd=folder, check=True)
        written = time.monotonic() - start
        page = os.path.join(folder, "step.html")
        drawn, painted = [], []
        with browser.Browser() as b:
            for _ in range(repeats):
                b.call("Page.navigate", url="about:blank")
                b.call("Page.navigate", url="file://" + page + "#graph")
                while b.js("location.protocol === 'file:' && document.documentElement?.dataset.ready || ''") != "yes":
                    pass
                at = b.js(PAINTED)
                drawn.append(at[0])
                painted.append(at[1])
            ops = b.js("nodes.filter(n => n.kind === kOp).length")
            assert not b.problems, b.problems
        print(f"{ops} ops: page of {os.path.getsize(page) / 1024:.0f} KiB written in {written:.2f} s (with compilation); "
              f"from the start of navigation the graph is there after {statistics.median(drawn):.0f} ms, "
              f"painted after {statistics.median(painted):.0f} ms (medians of {repeats}, at most {max(painted):.0f} ms)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--help"] or not all(a.isdigit() for a in sys.argv[1:]):
        sys.exit(__doc__)
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 700, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
