# The planner's optimum against toulbar2, an exact solver of weighted constraint networks, on training graphs of 200 to 1,200 ops.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import tempfile

EXPORT = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc_planner_export")

# net, size, mesh, copies; at least so many ops
CASES = [
    ("gpt", 2, "8", 1, 200),
    ("gpt", 12, "8", 1, 1150),
    ("resnet", 4, "4", 1, 400),
    ("inception", 8, "8", 1, 750),
    ("diamonds", 9, "8", 1, 200),
    ("diamonds", 24, "4", 1, 580),
    ("gpt", 2, "2x4", 0, 200),
    ("gpt", 6, "2x4", 0, 590),
    ("resnet", 3, "2x2", 0, 280),
    ("inception", 2, "2x4", 0, 200),
    ("diamonds", 8, "2x2", 1, 200),
    ("diamonds", 16, "2x4", 0, 390),
]


def main():
    failures = []
    for net, size, mesh, copies, least in CASES:
        with tempfile.TemporaryDirectory() as folder:
            network = os.path.join(folder, "problem.wcsp")
            done = subprocess.run([EXPORT, net, str(size), mesh, str(copies), network], capture_output=True, text=True)
            name = f"{net} {size} on {mesh}, copies {copies}"
            if done.returncode:
                failures.append(f"{name}: the export ended with {done.returncode}: {done.stderr}")
                continue
            ours = json.loads(done.stdout)
            # -A: virtual arc consistency before the search; -s=0: the optimum, not the assignment.
            oracle = subprocess.run(["toulbar2", network, "-A", "-s=0"], capture_output=True, text=True, timeout=300)
            found = re.search(r"^Optimum: (\d+)", oracle.stdout, re.M)
            if not found:
                failures.append(f"{name}: toulbar2 found no optimum: {oracle.stdout[-300:]}")
                continue
            theirs = int(found.group(1)) * ours["unit"]
            # The exported costs are whole: each term is off by half a unit at most.
            allowed = ours["terms"] * ours["unit"] / 2
            print(f"{name}: {ours['ops']} ops, {ours['cost']:.9g} s, toulbar2 {theirs:.9g} s, gap {ours['gap']:.3g}, {ours['method']}")
            if not ours["feasible"] or abs(ours["cost"] - theirs) > allowed:
                failures.append(f"{name}: {ours['cost']!r} is not toulbar2's {theirs!r} (allowed {allowed:.3g})")
            if ours["gap"] != 0:
                failures.append(f"{name}: not proven, gap {ours['gap']!r}")
            if not least <= ours["ops"] <= 1200:
                failures.append(f"{name}: {ours['ops']} ops, wanted {least} to 1200")
    print("\n".join(failures) or f"{len(CASES)} graphs: equal")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
