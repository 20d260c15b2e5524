# Every barrier and wait of the PTX that ships is taken away in turn: the operators' cases on the simulated GPU must notice, by a
# finding or by another number.
# SPDX-License-Identifier: Apache-2.0
"""usage: barrier_mutants.py [--list [KERNEL...]]      needs nvcc's kernels in the build (OPC_BUILD_DIR)

A mutation is KERNEL:N, the N-th barrier of a kernel (drop= of CUDA_SIM). `opc verify OP --device sim` runs the cases of the operators
that execute that barrier, and has to find the race, or another number. Mutations of different kernels share a run, since a finding
names its kernel; what has none is run again alone. --list prints what noticed each, and how many programs execute it.
"""
import os
import re
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

from device_code import execute, lines, modules, operators, script_tests, timed

# As the stand-in counts them (tools/gpusim/driver/DroppedWaits.cpp).
WAIT = re.compile(r"\b(bar\.(sync|arrive|warp\.sync)|barrier(\.cta)?\.(sync|arrive)|cp\.async\.wait_)")
CAUGHT = 0.95  # the least share
TRIED = 6  # programs of those that execute a barrier, the quickest and the last ones


def shipped():
    """{kernel: (the PTX lines of its barriers, the module's name)}"""
    found = {}
    for path in modules():
        for number, line, _, kernel in lines(path):
            if WAIT.search(line):
                found.setdefault(kernel, ([], os.path.splitext(os.path.basename(path))[0]))[0].append(number)
    return found


def places():
    """{KERNEL:N: programs that execute it, the quickest first; graphs of several blocks and tiles behind the ops' cases}"""
    barriers = shipped()
    cases, larger = operators({m for _, m in barriers.values()}), script_tests("device_kernels.py", "DeviceKernels")
    with ThreadPoolExecutor(2) as pool:
        ran = [sorted(zip(pool.map(timed, programs), programs), key=lambda pair: pair[0][1]) for programs in (cases, larger)]
    print("executed:", *(f"{program} {taken:.1f} s" for (_, taken), program in ran[0] + ran[1]), file=sys.stderr, flush=True)
    known = {f"{kernel}:{n}": [program for (done, _), program in ran[0] + ran[1] if line in done.get(kernel, ())]
             for kernel, (at, _) in barriers.items() for n, line in enumerate(at, 1)}
    return {m: programs if len(programs) <= TRIED else programs[: TRIED // 2] + programs[-TRIED // 2 :] for m, programs in known.items()}


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
        waiting.setdefault(mutant.rsplit(":", 1)[0], []).append(mutant)
    while waiting:
        yield [found.pop(0) for found in waiting.values()]
        waiting = {kernel: found for kernel, found in waiting.items() if found}


def in_batches(jobs, sim, result):
    """Adds to result the mutants of {program: mutants} that a finding tells; several, in different kernels, share a run."""
    jobs = [(op, batch, sim) for op, waiting in jobs.items() for batch in batches(waiting)]
    with ThreadPoolExecutor(2) as pool:
        for (op, batch, _), (kernels, _) in zip(jobs, pool.map(lambda job: findings(*job), jobs)):
            result.update({m: op for m in batch if m.rsplit(":", 1)[0] in kernels})


def first_noticed(known, mutants):
    """{KERNEL:N: the operator that noticed}. With one block in each launch kernels go on to their next item, where they are right so."""
    result = {}
    for sim in ("blocks=1", "seed=0"):
        right = {}
        for turn in range(max(len(ops) for ops in known.values())):
            jobs = {}
            for mutant in mutants:
                if mutant not in result and turn < len(known[mutant]):
                    jobs.setdefault(known[mutant][turn], []).append(mutant)
            with ThreadPoolExecutor(2) as pool:
                new = [op for op in jobs if op not in right]
                right.update(zip(new, pool.map(lambda op: findings(op, [], sim) == (set(), True), new)))
            in_batches({op: waiting for op, waiting in jobs.items() if right[op]}, sim, result)
            print(f"{sim}, turn {turn}: {len(result)} of {len(mutants)} noticed", file=sys.stderr, flush=True)
    return result


def noticed_alone(mutant, ops):
    """The operator whose cases give an error or another number without this one barrier; "" for none."""
    return next((op for op in ops if not findings(op, [mutant], "seed=0")[1]), "")


def all_mutants(kernels=()):
    """{KERNEL:N: the operator that noticed, "" for none}, and {KERNEL:N: operators that execute it}."""
    known = places()
    chosen = [m for m in known if not kernels or m.rsplit(":", 1)[0] in kernels]
    found = first_noticed(known, chosen)
    left = [m for m in chosen if m not in found]
    with ThreadPoolExecutor(2) as pool:
        found.update(zip(left, pool.map(lambda m: noticed_alone(m, known[m]), left)))
    return {m: found[m] for m in chosen}, known


class Barriers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shipped():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")

    def test_a_barrier_that_is_not_there(self):
        kernel, op = "reduce_sum_rows_f32", "reduce_sum"
        at, _ = shipped()[kernel]
        done, _ = execute(op, f"drop={kernel}:{len(at) + 1}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{kernel} has {len(at)} barriers and waits, and number {len(at) + 1} is to be dropped", done.stdout + done.stderr)

    def test_mutants(self):
        found, _ = all_mutants()
        silent = sorted(m for m, by in found.items() if not by)
        caught = 1 - len(silent) / len(found)
        print(f"{len(found)} barriers, {len(found) - len(silent)} of them missed when they are not there ({100 * caught:.1f} %); not: {' '.join(silent)}")
        self.assertGreaterEqual(caught, CAUGHT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"]:
        noticed, executing = all_mutants(sys.argv[2:])
        for m, by in noticed.items():
            print(m, by or "-", len(executing[m]))
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:])
