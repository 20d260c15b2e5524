# The signatures that operators declare, against those that they should have: none may be lost.
# SPDX-License-Identifier: Apache-2.0
"""usage: signatures.py [--write]       the commands come from OPC_BUILD_DIR

EXPECTED is written by hand, from what the operators compute: what a graph needs to be split without whole tensors on every
device, OneFlow's lists among it where they are sound. signatures.txt has all that `opc verify` proved when it was last written
(--write): one that is gone since is a failure, a new one is not.
"""
import collections
import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "signatures.txt")

# States of the inputs, then of the outputs; digits are splits. In the shapes of the operators' cases.
EXPECTED = {
    # by place: each device makes its part of the whole's elements
    "diag": "B -> 0; B -> 1; 0 -> P; 1 -> P; P -> P",
    "affine_grid_grad": "0 -> 0; 1 -> P; 2 -> P; P -> P",
    "affine_grid": "0 -> 0; B -> 1; B -> 2; P -> P",
    "uniform": "-> 0; -> 1", "normal": "-> 0; -> 1", "randperm": "-> 0", "arange": "-> 0", "range": "-> 0", "eye": "-> 0; -> 1",
    "bernoulli": "0 -> 0; 1 -> 1", "random_mask_like": "0 -> 0; 1 -> 1; P -> B", "dropout": "0 -> 0 0; 1 -> 1 1; P -> P B",
    "constant": "-> 0; -> 1",
    "diagonal": "2 -> 0; 0 -> P; 1 -> P; B -> 0; P -> P",
    "diagonal_grad": "0 2 -> 2; B 0 -> 0; B 1 -> 1; 0 B -> P; P B -> P; P P -> P; B P -> B",
    "tril": "0 -> 0; 1 -> 1; 2 -> 2; P -> P", "triu": "0 -> 0; 1 -> 1; 2 -> 2; P -> P",
    # pieces of indexed axes, and sums
    "gather": "B 0 -> 0; 0 B -> P; 1 B -> 1; P B -> P", "batch_gather": "0 0 -> 0; 1 B -> P; B 1 -> 1; P B -> P",
    "dim_gather": "0 0 -> 0; B 1 -> 1; 1 B -> P; P B -> P", "embedding": "B 0 -> 0; 1 B -> 2; 0 B -> P; P B -> P",
    "gather_nd": "B 0 -> 0; 1 B -> 1; 0 B -> P; 1 B -> P; P B -> P",
    "scatter_nd": "0 0 -> P; B 1 -> 1; B P -> P; B B -> 0; B B -> 1",
    "scatter_nd_like": "B 0 0 -> P; 1 B 1 -> 1; 0 B B -> 0; B B P -> P; P 0 0 -> P; P B P -> P; P B B -> B",
    "tensor_scatter_nd_add": "1 1 B -> 1; P P B -> P; P 0 0 -> P; 0 B B -> 0",
    "tensor_scatter_nd_update": "1 1 B -> 1; P P B -> P; 0 B B -> 0", "tensor_scatter_nd_update_grad": "1 B -> 1; 0 B -> P; P B -> P",
    "dim_scatter_add": "0 0 0 -> 0; 1 B B -> 1; P 1 1 -> P; P B P -> P", "dim_scatter_update": "0 0 0 -> 0; 1 B B -> 1; P B P -> P",
    "dim_scatter_mul": "0 0 0 -> 0; 1 B B -> 1; P B B -> P", "dim_scatter_max": "0 0 0 -> 0; 1 B B -> 1", "dim_scatter_min": "0 0 0 -> 0; 1 B B -> 1",
    "bit_cast": "0 -> 0; 1 -> 1",
    "dim_scatter_add_like": "0 0 0 -> 0; B 1 1 -> P; 1 B B -> 1; B B P -> P; P 1 1 -> P; P B P -> P; P B B -> B",
    "dim_scatter_update_grad": "0 0 -> 0; 1 B -> P; P B -> P", "dim_scatter_mul_grad": "0 0 0 0 -> 0; 1 1 B B -> P; P B B B -> P",
    "unsorted_segment_sum": "0 0 -> P; 1 B -> 1; B B -> 0; P B -> P", "unsorted_batch_segment_sum": "0 0 -> 0; 2 B -> 2; 1 1 -> P; P B -> P",
    "unsorted_segment_sum_like": "0 0 B -> P; 1 B 1 -> 1; B B 0 -> 0; P B B -> P; 0 0 P -> P; P B P -> P; B B P -> B",
    "embedding_grad": "0 B 0 -> P; B 0 B -> 0; 2 1 B -> 1; P B B -> P; P P B -> P; B P B -> B; 0 P 0 -> P",
    "one_hot": "0 -> 0; B -> 1; B -> 2",
    # boxes
    "slice": "1 -> 1; 0 -> P; B -> 0; 1 -> P; B -> 1; P -> P", "narrow": "0 -> 0; 1 -> P; B -> 1; P -> P",
    "slice_update": "1 1 -> 1; 0 B -> 0; 1 B -> 1; P P -> P", "slice_grad": "B -> 0; B -> 1; 0 -> P; 1 -> P; P -> P",
    "narrow_grad": "0 0 -> 0; B 1 -> 1; 1 B -> P; 1 P -> P; P P -> P; P B -> P; B P -> B",
    "pad": "0 -> 0; B -> 1; 1 -> P; P -> P", "constant_pad1d": "0 -> 0; 1 -> 1; B -> 2", "reflection_pad2d": "0 -> 0; 1 -> 1; P -> P",
    "unfold": "0 -> 0; 1 -> 1; P -> P", "fold": "0 -> 0; 1 -> 1; P -> P", "flip": "0 -> 0; 1 -> 1; P -> P", "roll": "P -> P",
    "upsample_nearest_2d": "0 -> 0; 1 -> 1; P -> P", "grid_sample": "0 0 -> 0; 1 B -> 1; B 1 -> 2; B 2 -> 3; P B -> P",
    "roi_align": "B 0 0 -> 0; 1 B B -> 1; P B B -> P", "roi_align_grad": "0 B 0 0 -> P; 1 1 B B -> 1; P B B B -> P",
    "grid_sample_grad": "0 0 0 -> 0 0; 1 1 B -> 1 P; 2 B 1 -> P 1; 3 B 2 -> P 2; P B B -> P P",
    "concat": "0 0 -> 0; 1 1 -> 1; P P -> P", "stack": "0 0 -> 1; 0 0 -> 0; P P -> P", "transpose": "1 -> 0; 0 -> 1; P -> P",
    "expand": "B -> 0; 1 -> 1; P -> P", "broadcast_like": "0 0 -> 0; B 1 -> 1; P B -> P; P P -> P; B P -> B",
    # reductions
    "reduce_sum": "0 -> 0; 1 -> P; 0 -> P; P -> P", "reduce_mean": "0 -> 0; 1 -> P; 0 -> P; P -> P", "reduce_nansum": "0 -> 0; 1 -> P; 0 -> P",
    "reduce_sum_like": "0 B -> P; 1 0 -> 0; P B -> P; P P -> P; B P -> B; 0 P -> P", "reduce_prod_grad": "0 0 -> 0; B P -> P",
    "reduce_max": "0 -> 0; 1 -> 1", "square_sum": "0 -> P; 1 -> P", "multi_square_sum": "0 0 0 -> P", "count_not_finite": "0 -> P; 1 -> P",
    "cumsum": "0 -> 0; 1 -> 1; P -> P", "sort": "0 -> 0", "arg_sort": "0 -> 0", "top_k": "0 -> 0", "argmax": "0 -> 0",
    # products
    "matmul": "0 B -> 0; B 1 -> 1; 1 0 -> P; P B -> P; B P -> P", "batch_matmul": "0 0 -> 0; 1 B -> 1; B 2 -> 2; 2 1 -> P; P B -> P; B P -> P",
    "bias_add": "0 B -> 0; 1 0 -> 1; P P -> P", "dot": "0 0 -> P; P B -> P",
    "conv2d": "0 B B -> 0; B 0 0 -> 1; 1 1 P -> P; P B P -> P; B P P -> P",
    "conv_data_grad": "0 B 0 -> 0; 1 0 B -> P; B 1 1 -> 1; P B B -> P; B B P -> B", "conv_filter_grad": "0 0 -> P; 1 B -> 0; B 1 -> 1",
    "scaled_dot_product_attention": "0 0 0 -> 0 0; 1 1 1 -> 1 1",
    # losses and norms
    "sparse_cross_entropy": "0 0 -> 0; 1 B -> P", "nll": "0 0 -> 0 0; 1 B -> P P", "softmax": "0 -> 0; 1 -> 1", "softmax_grad": "0 0 -> 0; B P -> P",
    "softmax_cross_entropy": "0 0 -> 0 0", "sparse_softmax_cross_entropy": "0 0 -> 0 0", "kl_div_loss": "0 0 -> 0",
    "layer_norm": "0 B B -> 0 0 0", "layer_norm_grad": "0 0 0 0 B -> 0; P B B B B -> P", "layer_norm_param_grad": "0 0 0 0 -> P P",
    "normalization": "0 B B B B -> 0; 1 0 0 0 0 -> 1", "normalization_grad": "1 1 0 0 0 -> 0 0 1",
    # elementwise
    "relu": "0 -> 0; 1 -> 1", "multiply": "0 0 -> 0; P B -> P; B P -> P", "broadcast_add": "0 0 -> 0; P P -> P; 1 B -> 1; B 0 -> 0",
    "broadcast_div": "0 0 -> 0; P B -> P", "where": "0 0 0 -> 0; B P P -> P", "scalar_mul": "0 -> 0; P -> P", "cast": "0 -> 0; P -> P",
    "add_n": "0 0 -> 0; P P -> P", "identity": "0 -> 0; P -> P", "zero_like": "0 -> 0; P -> B",
    # updates
    "sgd_update": "0 0 B ->", "adam_update": "0 0 B 0 0 ->", "momentum_update": "0 0 0 B ->",
    "lamb_update": "0 0 0 0 B ->; 1 1 1 1 B ->", "lars_update": "0 0 0 B ->; 1 1 1 B ->",
    "lamb_norms": "0 0 0 0 -> P; 1 1 1 1 -> P; 0 0 0 0 B B -> P", "lars_norms": "0 0 -> P; 1 1 -> P", "assign": "0 0 ->",
}

# Nothing of them can be split.
WHOLE = {
    "adam_bias_correction_factor": "one number", "adam_bias_correction_learning_rate": "one number",
    "learning_rate_schedule": "one number", "dynamic_loss_scale_schedule": "one number",
    "dynamic_quantize_linear": "the range is that of all elements",
    "argwhere": "places come in one order", "non_max_suppression": "boxes are compared with all others", "unique_rows": "rows are compared with all others",
    "if": "its graphs run on one device", "loop": "its graphs run on one device", "batch_parts": "its graph runs on one device",
}


def spelled(row):
    """'0 B -> P' as opc writes it."""
    return " -> ".join("(" + ", ".join(f"S({s})" if s.isdigit() else s for s in side.split()) + ")" for side in row.split("->"))


def declared():
    """{op: its 1-D signatures}, as proven on 2, 3 and 4 devices, and what is said of ops without."""
    opc = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
    done = subprocess.run([opc, "verify", "--all", "--sound", "--parts", "2,3,4", "--json"], capture_output=True, text=True, timeout=300)
    proof = json.loads(done.stdout)
    found, without = collections.defaultdict(set), {}
    for s in proof["signatures"]:
        if s["verdict"] == "not applicable":
            without[s["op"]] = s["detail"]
        elif s["verdict"] == "sound":
            found[s["op"]].add(s["signature"])
    return found, without, proof


def listed():
    with open(LIST, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(": ", 1) for line in f if not line.startswith("#")]
    return {op: {spelled(row) for row in text.split("; ")} for op, text in rows}


def write(found):
    short = lambda s: re.sub(r"S\((\d+)\)", r"\1", s).replace("(", "").replace(")", "").replace(",", "").strip()  # noqa: E731
    with open(LIST, "w", encoding="utf-8") as f:
        f.write("# The signatures of every operator over its cases, written by signatures.py --write.\n")
        for op in sorted(found):
            f.write(f"{op}: {'; '.join(sorted(short(s) for s in found[op]))}\n")


class Signatures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found, cls.without, cls.proof = declared()

    def test_all_are_sound(self):
        self.assertEqual([f"{s['op']} {s['signature']}: {s['detail']}" for s in self.proof["signatures"] if s["verdict"] == "unsound"], [])

    def test_what_operators_should_have(self):
        missing = [f"{op} {spelled(row)}" for op, rows in EXPECTED.items() for row in rows.split(";") if spelled(row) not in self.found[op]]
        self.assertEqual(missing, [], f"{len(missing)} are missing")

    def test_operators_that_cannot_be_split(self):
        self.assertEqual(sorted(self.without), sorted(WHOLE), self.without)

    def test_none_is_lost(self):
        lost = [f"{op} {row}" for op, rows in listed().items() for row in sorted(rows - self.found[op])]
        self.assertEqual(lost, [], "these were proven before; when they are gone on purpose: signatures.py --write")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(declared()[0])
    else:
        unittest.main()
