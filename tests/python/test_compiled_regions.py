# Machine code of regions in programs that fork: a child does not wait for what a thread of its parent was compiling.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import opc

PROGRAM = """
import os, sys, threading, time
import numpy as np
import opc

def chain(factor, size, links=4):
    g = opc.Graph("chain")
    y = opc.ops.tanh(g.input("x", (size,)) * factor + 0.25)
    for i in range(links):
        y = opc.ops.sin(opc.ops.erf(y) * (factor + i))
    g.output("y", y)
    return g

x = np.linspace(-2, 2, 5000, dtype="f4")
small = chain(0.5, 5000).compile()
want = small.run(x=x)["y"].tobytes()
large = np.zeros(1 << 24, "f4")
done = threading.Event()

def compiles():  # code at once: a run would move 128 MiB
    factor = 3.0
    while not done.is_set():
        factor += 0.01
        chain(factor, 1 << 24, 14).compile().run(x=large)

thread = threading.Thread(target=compiles)
thread.start()
time.sleep(0.2)
children = []
for _ in range(4):
    time.sleep(0.05)
    child = os.fork()
    if child == 0:  # 7,000 runs move 280 MB: the region is compiled on the way
        for _ in range(7000):
            got = small.run(x=x)["y"]
        os._exit(0 if got.tobytes() == want else 3)
    children.append(child)
deadline, left = time.monotonic() + 60, set(children)
while left and time.monotonic() < deadline:
    for child in list(left):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            left.remove(child)
            print("ended with", os.waitstatus_to_exitcode(status), flush=True)
    time.sleep(0.05)
done.set()
thread.join()
for child in left:
    os.kill(child, 9)
    print("hangs", flush=True)
"""


class CompiledRegions(unittest.TestCase):
    def test_children_compile_beside_a_compiling_thread(self):
        environment = {k: v for k, v in os.environ.items() if k != "OPC_CODE_LEVEL"}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, env=environment)
        self.assertEqual(done.stdout.split("\n"), ["ended with 0"] * 4 + [""], done.stderr)

    def test_sessions_without_code(self):
        """A session with codegen=False computes by the loops, and compiles nothing that could be kept on disk."""
        program = """if True:
            import sys
            import numpy as np
            import opc
            g = opc.Graph("chain")
            g.output("y", opc.ops.erf(opc.ops.tanh(g.input("x", (300,)) * 0.5)))
            s = g.compile().session(codegen=sys.argv[1] == "yes")
            sys.stdout.write(s.run(x=np.linspace(-2, 2, 300, dtype="f4"))["y"].tobytes().hex())
        """
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "OPC_CODE_LEVEL": "v3", "OPC_CACHE_SIZE": "1M", "OPC_CACHE_DIR": os.path.join(folder, "code"), "XDG_CACHE_HOME": folder}
            environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
            found = []
            for codegen in ("no", "yes"):
                done = subprocess.run([sys.executable, "-c", program, codegen], capture_output=True, text=True, timeout=120, env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                found.append((done.stdout, len(os.listdir(os.path.join(folder, "code"))) if os.path.isdir(os.path.join(folder, "code")) else 0))
        self.assertEqual([count for _, count in found], [0, 1])
        self.assertEqual(found[0][0], found[1][0])

    def test_code_that_came_with_a_plan(self):
        """It runs in sessions that say so, with the bits that the others give."""
        with tempfile.TemporaryDirectory() as folder:
            graph = os.path.join(folder, "g.pbtxt")
            with open(graph, "w", encoding="utf-8") as f:
                f.write("""op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 300 } data_type: kFloat } } }
op { name: "a" user_conf { op_type_name: "tanh" input { key: "x" value { s: "x/out" } } } }
op { name: "b" user_conf { op_type_name: "exp" input { key: "x" value { s: "a/y_0" } } } }
op { name: "y" output_conf { in: "b/y_0" out: "out" } }
""")
            plan = os.path.join(folder, "g.plan")
            subprocess.run([os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc"), "compile", graph, "--native=v3", "-o", plan], check=True, capture_output=True)
            program = opc.load(plan)
        x, found = np.linspace(-2, 2, 300, dtype="f4"), []
        for allowed in (False, True):
            session = program.session(codegen=False, allow_native=allowed)
            found.append((session.run(x=x)["y"].tobytes(), session.stats["native_images"], session.stats["native_loops"]))
        self.assertEqual(found, [(found[0][0], 1, 0), (found[0][0], 1, 1)])


if __name__ == "__main__":
    unittest.main()
