# Every barrier and wait of the PTX that ships is taken away in turn: small programs on the simulated GPU must notice, by a finding or
# by another number. What is redundant is listed, and what makes it so is taken away with it.
# SPDX-License-Identifier: Apache-2.0
"""usage: barrier_mutants.py [--part] [--list [KERNEL...]] [--programs]      needs nvcc's kernels in the build (OPC_BUILD_DIR)

A mutation is KERNEL:N, the N-th barrier of a kernel (drop= of CUDA_SIM). tests/gpusim/barriers.txt has the programs that execute a kernel: the
cases of an operator (`opc verify OP --device sim`), or a graph of barrier_graphs.py. One of them has to find the race, or another
number. Mutations of different kernels share a run, since a finding names its kernel; what has none is run again alone.
tests/gpusim/redundant_barriers.txt has those that nobody can notice, each with the barrier that makes it redundant.

--part takes kernels of f32 and those without a type, --list prints what noticed each, --programs all operators whose cases execute a kernel.
"""
import fnmatch
import os
import re
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

from device_code import execute, lines, modules, operators, timed
from reasons import reasons, rows

# As the stand-in counts them (tools/gpusim/driver/DroppedWaits.cpp).
WAIT = re.compile(r"\b(bar\.(sync|arrive|warp\.sync)|barrier(\.cta)?\.(sync|arrive)|cp\.async\.wait_)")
CAUGHT = 0.95  # the least share
# With one block in each launch kernels go on to their next item, where they are right so.
RUNS = ("blocks=1", "seed=0")
OTHER_TYPES = re.compile(r"_(f16|bf16|f64|[iu](8|16|64)|u32)(_|$)")


def of_kernel(mutant):
    return mutant.rsplit(":", 1)[0]


def shipped():
    """{kernel: (the PTX lines of its barriers, the module's name)}"""
    found = {}
    for path in modules():
        for number, line, _, kernel in lines(path):
            if WAIT.search(line):
                found.setdefault(kernel, ([], os.path.splitext(os.path.basename(path))[0]))[0].append(number)
    return found


def programs():
    """[(a pattern of kernels, their programs)]: PATTERN PROGRAM, ..."""
    found = []
    for row in rows("barriers.txt"):
        pattern, given = row.split(" ", 1)
        found.append((pattern, [program.strip() for program in given.split(",")]))
    return found


def programs_of(kernel, known):
    return next((given for pattern, given in known if fnmatch.fnmatchcase(kernel, pattern)), [])


def redundant():
    """{KERNEL:N: (barriers that make it so, the reason)} from lines PATTERN:N :M... | reason"""
    found, kernels = {}, shipped()
    for what, reason in reasons("redundant_barriers.txt"):
        first, *others = what.split()
        pattern, number = first.rsplit(":", 1)
        for kernel in fnmatch.filter(kernels, pattern):
            found[f"{kernel}:{number}"] = ([kernel + other for other in others], reason)
    return found


def findings(program, batch, sim):
    """Kernels in which a race, or what follows from one, was found when these barriers were missing; and whether nothing failed."""
    done, reports = execute(program, ",".join([f"drop={mutant}" for mutant in batch] + [sim, "findings=warn"]))
    assert done.returncode in (0, 1, 5) and reports, (program, batch, done.stderr)
    found = (re.match(r"(?:race|unwritten|barrier) in (\w+),", f["text"]) for report in reports for f in report["findings"])
    return {place.group(1) for place in found if place}, done.returncode == 0


def batches(mutants):
    """Each has one mutant of a kernel at most, so a finding says of which it is."""
    waiting = {}
    for mutant in mutants:
        waiting.setdefault(of_kernel(mutant), []).append(mutant)
    while waiting:
        yield [found.pop(0) for found in waiting.values()]
        waiting = {kernel: found for kernel, found in waiting.items() if found}


class Hunt:
    """Runs programs without barriers until each has been noticed, or no program is left."""

    def __init__(self, known):
        self.known, self.noticed, self.right = known, {}, {}  # mutant: programs; mutant: by whom; (program, sim): without a finding

    def is_right(self, program, sim):
        if (program, sim) not in self.right:
            self.right[program, sim] = findings(program, [], sim) == (set(), True)
        return self.right[program, sim]

    def together(self, pool):
        for turn in range(max(len(given) for given in self.known.values())):
            for sim in RUNS:
                jobs = {}
                for mutant, given in self.known.items():
                    if mutant not in self.noticed and turn < len(given):
                        jobs.setdefault(given[turn], []).append(mutant)
                list(pool.map(lambda program, s=sim: self.is_right(program, s), jobs))
                runs = [(p, batch) for p, waiting in jobs.items() if self.is_right(p, sim) for batch in batches(waiting)]
                for (program, batch), (kernels, _) in zip(runs, pool.map(lambda run, s=sim: findings(*run, s), runs)):
                    self.noticed.update({m: f"{program}, {sim}" for m in batch if of_kernel(m) in kernels})
                print(f"turn {turn}, {sim}: {len(runs)} runs, {len(self.noticed)} of {len(self.known)} noticed", file=sys.stderr, flush=True)

    def alone(self, mutant):
        """By an error or another number, too."""
        for program in self.known[mutant]:
            for sim in RUNS:
                if self.is_right(program, sim) and findings(program, [mutant], sim) != (set(), True):
                    return f"{program}, {sim}, alone"
        return ""

    def run(self):
        """{KERNEL:N: what noticed it, "" for nothing}"""
        with ThreadPoolExecutor(2) as pool:
            self.together(pool)
            left = [m for m in self.known if m not in self.noticed]
            self.noticed.update(zip(left, pool.map(self.alone, left)))
        return {m: self.noticed[m] for m in self.known}


def without_both(mutant, others, given):
    """Whether a program notices that a barrier and those that make it redundant are missing."""
    return any(findings(program, [mutant, *others], sim) != (set(), True) for program in given for sim in RUNS)


def chosen(wanted):
    """{KERNEL:N: programs}"""
    known = programs()
    return {f"{kernel}:{n}": programs_of(kernel, known) for kernel, (at, _) in shipped().items() if wanted(kernel) for n in range(1, len(at) + 1)}


class Barriers(unittest.TestCase):
    wanted = staticmethod(lambda kernel: True)

    @classmethod
    def setUpClass(cls):
        if not shipped():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")

    def test_a_barrier_that_is_not_there(self):
        kernel, op = "reduce_sum_rows_f32", "reduce_sum"
        at, _ = shipped()[kernel]
        done, _ = execute(op, f"drop={kernel}:{len(at) + 1}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"loading the device code of {kernel}: CUDA_ERROR_INVALID_PTX", " ".join((done.stdout + done.stderr).split()))

    def test_every_kernel_has_programs(self):
        """And every line of the list has kernels that no line before it has."""
        used, known = set(), programs()
        for kernel in shipped():
            pattern = next((p for p, _ in known if fnmatch.fnmatchcase(kernel, p)), None)
            self.assertIsNotNone(pattern, f"{kernel} has barriers, and no line in tests/gpusim/barriers.txt")
            used.add(pattern)
        self.assertEqual(sorted(used), sorted(p for p, _ in known))

    def test_mutants(self):
        known, listed = chosen(self.wanted), redundant()
        found = Hunt(known).run()
        silent = {m for m, by in found.items() if not by}
        caught = 1 - len(silent) / len(found)
        print(f"{len(found)} barriers, {len(found) - len(silent)} of them missed when they are not there ({100 * caught:.1f} %)")
        self.assertGreaterEqual(caught, CAUGHT)
        self.assertEqual(sorted(silent), sorted(m for m in listed if self.wanted(of_kernel(m))), "what nobody misses, and tests/gpusim/redundant_barriers.txt")
        for mutant in silent:
            others, reason = listed[mutant]
            self.assertGreaterEqual(len(reason), 20)
            self.assertTrue(others and without_both(mutant, others, known[mutant]), f"{mutant} and {others}: missing together, and nobody says so")


def executing():
    """Prints for each kernel the operators whose cases execute a barrier of it, the quickest first."""
    barriers = shipped()
    ops = operators({m for _, m in barriers.values()})
    with ThreadPoolExecutor(2) as pool:
        ran = sorted(zip(pool.map(timed, ops), ops), key=lambda pair: pair[0][1])
    for kernel, (at, _) in barriers.items():
        print(kernel, *(f"{op}:{taken:.1f}:{sum(n in done.get(kernel, ()) for n in at)}/{len(at)}" for (done, taken), op in ran if kernel in done))


if __name__ == "__main__":
    options = sys.argv[1:]
    if options[:1] == ["--programs"]:
        executing()
    elif options[:1] == ["--list"]:
        for m, by in Hunt(chosen(lambda kernel: not options[1:] or kernel in options[1:])).run().items():
            print(m, by or "-")
    else:
        if options[:1] == ["--part"]:
            Barriers.wanted = staticmethod(lambda kernel: not OTHER_TYPES.search(kernel))
            options = options[1:]
        unittest.main(argv=sys.argv[:1] + ["-v"] + options)
