# Launches of the kernels that ship with a wrong argument: a number that is one more, an address that is four bytes more, two of them
# exchanged, a grid that is one block short. The cases of operators on the simulated GPU must notice, by a finding or another number.
# SPDX-License-Identifier: Apache-2.0
"""usage: launch_mutants.py [--list]      needs nvcc's kernels in the build (OPC_BUILD_DIR)

A mutation is KERNEL:CHANGE (alter= of CUDA_SIM), for kernels of f32 whose parameters are numbers and addresses, for some whose parameter
is a structure, and for grids of some blocks. tests/gpusim/unnoticed_launches.txt has those that nobody can notice, with the reason; the
list may only shrink.
"""
import re
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

from device_code import execute, lines, modules
from reasons import reasons

# Operators whose kernels have parameters of their own, not a structure.
OPERATORS = ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad", "softmax_cross_entropy", "softmax_cross_entropy_grad",
             "sparse_softmax_cross_entropy", "sparse_softmax_cross_entropy_grad", "cast", "bias_add", "dropout_grad", "arange", "eye", "randperm",
             "square_sum", "dot", "triu")
# One of each sort of those with a structure: what launches them.
STRUCTURES = {r"ew_\w+_f32_f32_relu": "relu", r"reduce_sum_rows_f32": "reduce_sum", r"norm_rows_f32": "group_norm", r"matmul_f32": "matmul",
              r"conv_forward_tiles_first_f32": "graph different_sizes", r"lars_(norms|update)_f32": "lars_update"}
# What launches several blocks of a kernel. Where blocks go on behind the grid, in steps of it, one block less gives the same bits.
GRIDS = {"graph several_blocks": ("ew_d72e760127fe44ff_f32_f32_relu", "reduce_sum_rows_f32", "norm_rows_f32", "matmul_f32", "conv_forward_tiles_first_f32"),
         "device_kernels.py DeviceKernels.test_integers": ("integer_matmul_tiles", "integer_conv_tiles"),
         "device_kernels.py DeviceKernels.test_fused_convolution": ("fused_conv_tiles_first", "fused_conv_tiles_last")}
OTHER_TYPES = re.compile(r"_(f16|bf16|f64|[iu](8|16)|u32|u64|bool|f8e\w+)(_|$)")


def parameters():
    """{kernel: [(offset, bytes, whether an address)]}; none for those with a structure."""
    found = {}
    for path in modules():
        given, loaded = {}, {}
        for _, text, kind, kernel in lines(path):
            declared = re.match(r"\.param (?:\.align \d+ )?\.(\w+)(?: \.ptr\b[^,]*?)? (\w+?)_param_(\d+)(\[)?", text)
            if declared:
                given.setdefault(declared[2], []).append(0 if declared[4] else int(re.sub(r"\D", "", declared[1])) // 8)
            load = re.match(r"ld\.param\.u64\s+(%rd\d+), \[(\w+)_param_(\d+)\];", text)
            if load:
                loaded[kernel, load[1]] = int(load[3])
            used = re.match(r"cvta\.to\.global\.u64\s+%rd\d+, (%rd\d+);", text)
            if used and (kernel, used[1]) in loaded:
                found.setdefault(kernel, set()).add(loaded[kernel, used[1]])
        for kernel, sizes in given.items():
            addresses, offset, laid = found.pop(kernel, set()), 0, []
            for number, size in enumerate(sizes):
                if size == 0:
                    laid = None
                    break
                offset = (offset + size - 1) // size * size
                laid.append((offset, size, number in addresses))
                offset += size
            found[kernel] = laid or []
    return found


def structures():
    """{kernel: [(offset, whether an address)]} of the words that a kernel reads from its structure, at places that the PTX has as numbers."""
    found = {}
    for path in modules():
        current, places, loaded = "", {}, {}  # offsets that registers point to in the structure, and where their values come from
        for _, text, _, kernel in lines(path):
            if kernel != current:
                current, places, loaded = kernel, {}, {}
            if start := re.match(r"mov\.b64\s+(%rd\d+), \w+_param_0;", text):
                places[start[1]] = 0
            elif (moved := re.match(r"add\.s64\s+(%rd\d+), (%rd\d+), (-?\d+);", text)) and moved[2] in places:
                places[moved[1]] = places[moved[2]] + int(moved[3])
            elif load := re.match(r"ld\.param\.u64\s+(%rd\d+), \[(%rd\d+|\w+_param_0)(?:\+(-?\d+))?\];", text):
                base = places.get(load[2]) if load[2].startswith("%") else 0
                if base is not None:
                    loaded[load[1]] = base + int(load[3] or 0)
                    found.setdefault(kernel, {}).setdefault(loaded[load[1]], False)
            elif (used := re.match(r"cvta\.to\.global\.u64\s+%rd\d+, (%rd\d+);", text)) and used[1] in loaded:
                found[kernel][loaded[used[1]]] = True
    return {kernel: sorted(words.items()) for kernel, words in found.items()}


def changes(wide):
    """Of words of 8 bytes: each one more, or four bytes further, and neighbours of a kind exchanged."""
    for offset, is_address in wide:
        yield f"{offset}+{4 if is_address else 1}"
    for (a, first), (b, second) in zip(wide, wide[1:]):
        if first == second:
            yield f"{a}/{b}"


def wide(laid):
    return [(offset, is_address) for offset, size, is_address in laid if size == 8]


def noticed(job):
    program, mutant = job
    done, _ = execute(program, f"alter={mutant}")
    return done.returncode != 0


def all_mutants():
    """{(program, KERNEL:CHANGE): whether it was noticed}"""
    known, fields, jobs = parameters(), structures(), []
    for op in OPERATORS:
        done, reports = execute(op, "")
        assert done.returncode == 0, (op, done.stdout, done.stderr)
        launched = {kernel for report in reports for kernel in report["kernels"] if not OTHER_TYPES.search(kernel)}
        jobs += [(op, f"{kernel}:{change}") for kernel in sorted(launched) for change in changes(wide(known.get(kernel, [])))]
    for pattern, program in STRUCTURES.items():
        _, reports = execute(program, "")
        launched = {kernel for report in reports for kernel in report["kernels"] if re.fullmatch(pattern, kernel)}
        assert launched, pattern
        jobs += [(program, f"{kernel}:{change}") for kernel in sorted(launched) for change in changes(fields[kernel])]
    jobs += [(program, f"{kernel}:grid") for program, kernels in GRIDS.items() for kernel in kernels]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(jobs, pool.map(noticed, jobs)))


def instructions(program, mutant):
    kernel = mutant.split(":")[0]
    return [sum(r["kernels"].get(kernel, {}).get("instructions", 0) for r in execute(program, sim)[1]) for sim in ("", f"alter={mutant}")]


def listed():
    """A line: PROGRAM: KERNEL:CHANGE... | reason."""
    found = {}
    for what, reason in reasons("unnoticed_launches.txt"):
        program, mutants = what.split(": ")
        found.update({(program, mutant): reason for mutant in mutants.split()})
    return found


class Launches(unittest.TestCase):
    maxDiff = None
    @classmethod
    def setUpClass(cls):
        if not modules():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")

    def test_what_no_kernel_has(self):
        done, _ = execute("softmax", "alter=softmax_f32:4096+1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("launching a kernel: CUDA_ERROR_INVALID_VALUE", " ".join((done.stdout + done.stderr).split()))

    def test_mutants(self):
        found, reasons = all_mutants(), listed()
        for reason in reasons.values():
            self.assertGreaterEqual(len(reason), 20)
        silent = sorted(job for job, by in found.items() if not by)
        print(f"{len(found)} wrong launches, {len(found) - len(silent)} of them noticed")
        self.assertGreater(len(found), 200)
        self.assertEqual(silent, sorted(reasons), "what nobody notices, and tests/gpusim/unnoticed_launches.txt")
        for program, mutant in silent:
            if mutant.endswith(":grid"):  # the block was missing: the others did its work
                self.assertNotEqual(*instructions(program, mutant), mutant)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for (op, mutant), by in all_mutants().items():
            print(op, mutant, "noticed" if by else "-")
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"])
