"""Sessions in threads, interrupts, the end of the interpreter, leaks."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import textwrap
import threading
import unittest

import numpy as np

import opc


def chain(layers=4, size=64, bad=False):
    g = opc.Graph("chain")
    x = g.input("x", (size, size))
    for i in range(layers):
        x = opc.ops.tanh(x @ g.variable(f"w{i}", (size, size), init=opc.init.normal(std=0.1)))
    if bad:
        table = g.variable("table", (4, 2), init=0)
        g.output("e", opc.ops.gather(table, g.input("i", (3,), "i32")))
    g.output("y", x)
    return g


def run_child(program, timeout=120, **options):
    head = f"import sys; sys.path[:0] = {sys.path!r}\nimport threading, numpy as np, opc, test_threads as t\n"
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
i = interpreters.create()
try:
    print(interpreters.run_string(i, f"import sys; sys.path[:0] = {sys.argv[1:]!r}; import opc"))
except Exception as e:
    print(e)
interpreters.destroy(i)
sys.path[:0] = sys.argv[1:]
import opc
g = opc.Graph()
g.output("y", g.input("x", ()) + 1.0)
print("main:", g.compile().run(x=2.0)["y"])
"""


class Threads(unittest.TestCase):
    def test_sixteen_sessions(self):
        program = chain(bad=True).compile()
        rng = np.random.default_rng(0)
        xs = [rng.standard_normal((64, 64)).astype("f") for _ in range(16)]
        good, wrong = np.zeros(3, "i4"), np.array([0, 9, 1], "i4")
        expected = [program.session(threads=1).run(x=x, i=good)["y"] for x in xs]
        found, failures = {}, []

        def work(k):
            session = program.session(threads=1)
            for _ in range(10):
                found.setdefault(k, []).append(session.run(x=xs[k], i=good)["y"])
                if k % 4 == 0:  # one in four fails now and then, and goes on
                    try:
                        session.run(x=xs[k], i=wrong)
                    except opc.ExecutionError as e:
                        failures.append(e.code)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        self.assertEqual(len(failures), 40)
        for k in range(16):
            self.assertEqual(len(found[k]), 10)
            for y in found[k]:
                np.testing.assert_array_equal(y, expected[k])

    def test_other_threads_go_on_while_a_session_runs(self):
        session = chain(40, 256).compile().session(threads=1)
        x = np.zeros((256, 256), "f")
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        session.run(x=x)
        thread.start()
        before = counted[0]
        session._core.run({}, 20)
        stop.set()
        thread.join()
        self.assertGreater(counted[0], before)

    def test_one_session_in_two_threads_is_refused(self):
        session = chain(60, 256).compile().session(threads=1)
        session.run(x=np.zeros((256, 256), "f"))
        thread = threading.Thread(target=lambda: session.run(50))
        thread.start()
        calls = {"run": session.run, "fetch": lambda: session.fetch("y"), "step": lambda: setattr(session, "step", 3)}
        refused = set()
        while thread.is_alive():
            for name, call in calls.items():
                try:
                    call()
                except RuntimeError as e:
                    refused.update([name] if "another thread" in str(e) else [])
        thread.join()
        self.assertEqual(refused, set(calls))
        session.run()

    def test_two_threads_make_one_session(self):
        for _ in range(30):
            g = opc.Graph()
            n = g.variable("v", (), init=0.0) + 1.0
            opc.ops.assign(g.tensor("v"), n)
            g.output("n", n)
            program, together, done = g.compile(), threading.Barrier(2), []

            def work():
                together.wait()
                try:
                    program.run()
                    done.append(1)
                except RuntimeError as e:
                    self.assertIn("make a session for each thread", str(e))

            threads = [threading.Thread(target=work) for _ in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertGreaterEqual(len(done), 1)
            self.assertEqual(program.variables["v"], len(done))

    def test_subinterpreters_are_refused(self):
        child = subprocess.run([sys.executable, "-c", SUBINTERPRETER, *sys.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(child.returncode, 0, child.stderr)
        self.assertIn("ImportError", child.stdout)
        self.assertIn("this is a subinterpreter: use threads or processes", child.stdout)
        self.assertIn("main: 3.0", child.stdout)

    def test_graphs_in_two_threads(self):
        texts = {}

        def build(k):
            with opc.Graph(f"g{k}"), opc.name_scope("scope"):
                texts[k] = chain(k + 1).text()

        threads = [threading.Thread(target=build, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for k in range(8):
            with opc.name_scope("scope"):
                self.assertEqual(texts[k], chain(k + 1).text())


class Ends(unittest.TestCase):
    def test_ctrl_c_in_a_long_run(self):
        child = run_child("""
            s = t.chain().compile().session()
            s.run(x=np.zeros((64, 64), "f"))
            try:
                print("running", flush=True)
                s.run(10**9)
            except KeyboardInterrupt:
                print(1 <= s.step < 10**9, s.run()["y"].shape)
        """)
        self.assertEqual(child.stdout.readline(), "running\n")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        self.assertEqual((out, err, child.returncode), ("True (64, 64)\n", "", 0))

    def test_the_interpreter_ends_during_a_run(self):
        for _ in range(3):
            child = run_child("""
                s = t.chain().compile().session()
                s.run(x=np.zeros((64, 64), "f"))
                started = threading.Event()
                def work():
                    started.set()
                    s.run(10**9)
                threading.Thread(target=work, daemon=True).start()
                started.wait()
            """)
            out, err = child.communicate(timeout=60)
            self.assertEqual((out, err, child.returncode), ("", "", 0))

    def test_an_exception_elsewhere_during_a_run(self):
        child = run_child("""
            s = t.chain().compile().session()
            s.run(x=np.zeros((64, 64), "f"))
            thread = threading.Thread(target=lambda: s.run(200))
            thread.start()
            try:
                1 / 0
            except ZeroDivisionError:
                thread.join()
            print(s.step)
        """)
        self.assertEqual(child.communicate(timeout=60)[0], "201\n")


class Forks(unittest.TestCase):
    def test_a_program_goes_on_in_the_child_with_its_variables(self):
        child = run_child("""
            import os
            g = opc.Graph()
            w = g.variable("w", (8,), init=1.0)
            g.output("loss", opc.ops.square(w * g.input("x", (8,)) - 2.0).mean())
            x = np.ones(8, "f")
            one, mesh = (g.training_step("loss", opc.optim.SGD(0.5)).compile(**more) for more in ({}, {"mesh": (2,)}))
            for p in (one, mesh):
                p.run(3, x=x)
            before = [np.array(p.variables["w"]) for p in (one, mesh)]
            if os.fork() == 0:
                after = [p.variables["w"] for p in (one, mesh)]
                losses = [p.run(2, x=x)["loss"] for p in (one, mesh)]
                print(np.array_equal(before, after), one.default_session.step, *losses, flush=True)
                os._exit(0)
            assert os.wait()[1] == 0
            print(True, 5, *(p.run(2)["loss"] for p in (one, mesh)))
        """)
        out, err = child.communicate(timeout=60)
        self.assertEqual((err, child.returncode), ("", 0))
        first, second = out.splitlines()
        self.assertEqual(first, second)
        self.assertEqual(first.split()[:2], ["True", "5"])


    def test_a_session_of_its_own_says_that_it_cannot(self):
        child = run_child("""
            import os
            g = opc.Graph()
            g.output("y", g.input("x", (2,)) + 1)
            program = g.compile()
            x = np.ones(2, "f")
            several, one = program.session(threads=2), program.session(threads=1)
            for s in (several, one):
                s.run(x=x)
            if os.fork() == 0:
                print(one.run(x=x)["y"][0], program.session().run(x=x)["y"][0], flush=True)
                try:
                    several.run(x=x)
                except opc.Error as e:
                    print(e.code, flush=True)
                os._exit(0)
            assert os.wait()[1] == 0
            print(several.run(x=x)["y"][0])
        """)
        out, err = child.communicate(timeout=60)
        self.assertEqual((err, out), ("", "2.0 2.0\nOPC0619\n2.0\n"))


def resident():
    """Bytes of this process's own memory: pages of program code, which come when they first run, are not among them."""
    with open("/proc/self/status", encoding="ascii") as f:
        return sum(int(line.split()[1]) << 10 for line in f if line.startswith(("RssAnon:", "RssShmem:")))


class Leaks(unittest.TestCase):
    def flat(self, work, rounds=60):
        for _ in range(20):
            work()
        before = resident()
        for _ in range(rounds):
            work()
        self.assertLess(resident() - before, 8 << 20)

    def test_runs_and_failures(self):
        program = chain(1, bad=True).compile()
        x, good, wrong = np.zeros((64, 64), "f"), np.zeros(3, "i4"), np.full(3, 9, "i4")

        def work():
            for i in range(100):
                try:
                    program.run(x=x, i=wrong if i % 10 == 0 else good)
                except opc.ExecutionError:
                    pass
                try:
                    program.run(x=x[:1])
                except opc.UsageError:
                    pass

        self.flat(work)

    def test_graphs_programs_sessions(self):
        def work():
            program = chain(2).compile()
            program.session().run(x=np.zeros((64, 64), "f"))
            try:
                opc.ops.matmul(opc.Graph().input("a", (2, 3)), opc.Graph().input("b", (2, 3)))
            except opc.Error:
                pass

        self.flat(work, 40)


if __name__ == "__main__":
    unittest.main()
