"""Sixteen threads with a session each, ops in Python and in C++ that raise now and then, and every way for it to end."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import unittest

import numpy as np

import opc

#: Run by a process of its own; tests/python/under_valgrind.py runs it, too. ENDING, THREADS and ROUNDS stand before it.
PROGRAM = '''
import os, signal, sys, threading, time
import numpy as np
import opc


@opc.op("ends::half", like="x")
def half(x):
    if x[0] < 0:
        raise ValueError("below zero")
    return x / np.float32(2)


@half.grad
def _(dy, *, x):
    return dy / np.float32(2)


@opc.op("ends::twice", like="x")
def twice(x):
    raise AssertionError("the form with out= is there")


@twice.out
def _(x, *, out):
    np.add(x, x, out=out)


g = opc.Graph()
x = g.input("x", (4,))
w = g.variable("w", (4,), init=1.0)
g.output("y", twice(opc.ops.relu(half(half(x) * w))))
g.output("z", opc.ops.gather(g.variable("table", (4, 2), init=0, trainable=False), g.input("i", (1,), "i32")))
program = g.compile()
fed, failures, done = np.arange(4, dtype="f"), [], []


def work(k):
    session = program.session(threads=1)
    good, wrong, bad = np.zeros(1, "i4"), np.full(1, 9, "i4"), np.full(4, -1, "f")
    n = 0
    while n < ROUNDS or ENDING != "return":
        n += 1
        try:
            session.run(x=bad if n % 10 == 3 else fed + k, i=wrong if n % 10 == 7 else good)
        except opc.ExecutionError as error:
            failures.append(error.code)
        else:
            done.append(n)
    y = session.run(x=fed + k, i=good)["y"]
    assert np.array_equal(y, (fed + k) / 2), y


threads = [threading.Thread(target=work, args=(k,), daemon=ENDING != "return") for k in range(THREADS)]
for t in threads:
    t.start()
if ENDING == "return":
    for t in threads:
        t.join()
    assert len(done) == THREADS * ROUNDS * 8 // 10, len(done)
    assert len(failures) == THREADS * ROUNDS * 2 // 10, len(failures)
    print("all done")
else:
    while len(done) < 8 * THREADS:
        time.sleep(0.01)
    print("running", flush=True)
if ENDING == "exception":
    raise RuntimeError("in the main thread")
if ENDING == "interrupt":
    session = program.session(threads=1)
    session.run(10**9, x=fed, i=np.zeros(1, "i4"))
if ENDING == "_exit":
    os._exit(0)
'''


def program(ending, threads=16, rounds=50):
    return f"ENDING, THREADS, ROUNDS = {ending!r}, {threads}, {rounds}\n" + PROGRAM


class Ends(unittest.TestCase):
    def ends(self, ending):
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(opc.__file__)))}
        child = subprocess.Popen([sys.executable, "-c", program(ending)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        if ending == "interrupt":
            self.assertEqual(child.stdout.readline(), "running\n")
            child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=100)
        return child.returncode, out, errors

    def test_all_of_them_go_on_after_their_exceptions(self):
        self.assertEqual(self.ends("return"), (0, "all done\n", ""))

    def test_the_interpreter_ends_during_the_runs(self):
        for _ in range(3):
            self.assertEqual(self.ends("end of the program"), (0, "running\n", ""))

    def test_an_exception_ends_it(self):
        for _ in range(3):
            code, out, errors = self.ends("exception")
            self.assertEqual((code, out), (1, "running\n"))
            self.assertTrue(errors.startswith("Traceback") and errors.endswith("RuntimeError: in the main thread\n"), errors)
            self.assertEqual(errors.count("Traceback"), 1, errors)

    def test_ctrl_c_ends_it(self):
        for _ in range(3):
            code, _, errors = self.ends("interrupt")
            self.assertEqual(code, -signal.SIGINT, errors)
            self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)


STARTED = '''
import threading
import numpy as np
import opc

found = []
threading.excepthook = lambda given: found.append(given.exc_value)


def started(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@opc.op("starts::plain", like="x")
def plain(x):
    return x + np.float32(1)


@opc.op("starts::twice", like="x")
def twice(x):
    y = np.empty_like(x)
    started(lambda: np.multiply(x, np.float32(2), out=y))
    return y


go = threading.Event()


def later():
    go.wait()
    found.append(other.run(x=np.ones(2, "f"))["y"].tolist())


@opc.op("starts::others", like="x")
def others(x):
    threading.Thread(target=later).start()
    started(lambda: other.run(x=np.ones(2, "f")))
    started(lambda: started(lambda: graph(plain)))
    return x * np.float32(3)


def graph(op):
    g = opc.Graph()
    g.output("y", op(g.input("x", (2,))))
    return g.compile()


other = graph(plain)
assert graph(twice).run(x=np.ones(2, "f"))["y"].tolist() == [2, 2]
assert graph(others).run(x=np.ones(2, "f"))["y"].tolist() == [3, 3]
assert [(e.code, "kernel of op 'starts::others'" in str(e)) for e in found] == [("OPC0625", True)] * 2, found
found.clear()
go.set()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
assert found == [[2, 2]], found
'''


class Started(unittest.TestCase):
    def test_threads_of_a_kernel_are_refused_while_it_runs(self):
        """A kernel that waits for such a thread waited for ever."""
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(opc.__file__)))}
        done = subprocess.run([sys.executable, "-c", STARTED], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


MILLION = 1 << 20


@opc.op("copies::twice", like="x")
def twice(x):
    raise AssertionError("the form with out= is there")


@twice.out
def _(x, *, out):
    addresses.append((x.ctypes.data, out.ctypes.data))
    np.add(x, x, out=out)


addresses = []


class Copies(unittest.TestCase):
    def test_the_form_with_out_copies_nothing(self):
        """4M floats: a kernel reads where the caller's array lies, and writes where the next one reads."""
        room = np.ones(4 * MILLION + 64, "f")
        at = -room.ctypes.data % 64 // 4
        x = room[at : at + 4 * MILLION]
        g = opc.Graph()
        g.output("y", twice(twice(g.input("x", x.shape))))
        session = g.compile().session()
        session.run(x=x)
        first, second = addresses
        self.assertEqual(first[0], x.ctypes.data)
        self.assertEqual(second[0], first[1], "the second reads what the first has written")
        np.testing.assert_array_equal(np.from_dlpack(session.fetch("y")), np.full(4 * MILLION, 4, "f"))
        # The three tensors of the graph: nothing else of that size is in memory.
        self.assertLessEqual(session.stats["arena_bytes"], 3 * x.nbytes + MILLION)


#: Sessions of several ranks that have run an op in Python, and go.
RANKS = '''
import gc
import numpy as np
import opc


@opc.op("goes::twice", like="x", sbp=opc.elementwise)
def twice(x):
    if x[0, 0] < 0:
        raise ValueError("below zero")
    return x * 2


@twice.grad
def _(dy):
    return dy * 2


x = np.ones((4, 3), "f")
g = opc.Graph()
w = g.variable("w", (3,), init=1.0)
y = twice(g.input("x", x.shape) * w)
g.output("y", y)
g.output("loss", y.sum())
session = g.compile(mesh=(2,)).session()
session.run(x=x)
del session
program = g.compile(mesh=(2,))
program.run(x=x)
plan = program.plan
del program
gc.collect()
program = opc.Program.from_plan(plan)
try:
    program.run(x=-x)
except opc.Error as e:
    assert "below zero" in str(e), e
del program
gc.collect()
step = g.training_step("loss", opc.optim.SGD(0.1)).compile(mesh=(2,))
result = opc.train(step, {"x": np.ones((8, 3), "f")}, epochs=1)
del result, step
gc.collect()
last = g.compile(mesh=(2,))  # goes with the interpreter
last.run(x=x)
print("end")
'''


class Ranks(unittest.TestCase):
    def test_sessions_go_while_their_threads_know_python(self):
        """A rank's thread gives back what it has of Python when it ends, and whoever ends it must not keep Python from it."""
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(opc.__file__)))}
        done = subprocess.run([sys.executable, "-c", RANKS], capture_output=True, text=True, timeout=120, check=False, env=env)
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
