# The planner on networks whose best plans are published: Megatron's block, data parallelism, split vocabularies.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
GRAPHS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "distributed", "make_graphs.py")
failures = []


def check(what, holds, detail=""):
    print(("ok   " if holds else "FAIL ") + what + (f": {detail}" if not holds else ""))
    if not holds:
        failures.append(what)


def training_graph(folder, *args):
    """A training graph of make_graphs.py, as a file."""
    forward = subprocess.run([sys.executable, GRAPHS, *args], check=True, capture_output=True).stdout
    path = os.path.join(folder, "_".join(args).replace("--", "") + ".pbtxt")
    subprocess.run([BIN, "grad", "-", "--loss", "loss", "--optimizer", "sgd", "--lr", "0.1", "-o", path], input=forward,
                   check=True, capture_output=True)
    return path


def plan(graph, mesh, *flags):
    out = subprocess.run([BIN, "show", graph, "--what", "sbp", "--mesh", mesh, "--json", *flags], check=True,
                         capture_output=True).stdout
    sbp = json.loads(out)["sbp"]
    sbp["signature"] = {o["name"]: o["signature"] for o in sbp["ops"]}
    return sbp


def moved(sbp, at_least=0):
    return sum(t["bytes"] for t in sbp["transitions"] if t["bytes"] >= at_least)


# A device on which adding partial sums is cheap against sending them: what Megatron's authors had.
CLUSTER = {"schema": 1, "name": "test",
           "device": {"flops": {"f32": 2e13}, "memory_bandwidth": 1e12, "memory_bytes": 8e10, "task_overhead": 0},
           "levels": [{"name": "link", "devices": 64, "latency": 1e-6, "bandwidth": 1e10}]}


def megatron(folder, cluster):
    batch, sequence, hidden = 1, 64, 1024
    graph = training_graph(folder, "block", "--batch", str(batch), "--sequence", str(sequence), "--hidden", str(hidden),
                           "--heads", "16", "--layers", "2")
    tensor = batch * sequence * hidden * 4
    for n in (2, 4, 8):
        sbp = plan(graph, str(n), "--no-overlap", "--cluster", cluster)
        name = f"block on {n}"
        check(f"{name}: proven optimal", sbp["gap"] == 0, sbp["gap"])
        wrong = [f"layer{layer}_{w}: {sbp['signature'][f'layer{layer}_{w}']}" for layer in (0, 1)
                 for w, state in (("attn_q_w", "(S(1))"), ("attn_k_w", "(S(1))"), ("attn_v_w", "(S(1))"), ("fc1_w", "(S(1))"),
                                  ("attn_proj_w", "(S(0))"), ("fc2_w", "(S(0))"))
                 if sbp["signature"][f"layer{layer}_{w}"] != state]
        check(f"{name}: columns, then rows", not wrong, wrong)
        for layer in (0, 1):
            for product in ("attn_proj_matmul", "fc2_matmul"):
                check(f"{name}: {product} of layer {layer} gives partial sums",
                      sbp["signature"][f"layer{layer}_{product}"].endswith("-> (P)"), sbp["signature"][f"layer{layer}_{product}"])
        # Megatron: an all-reduce after attention and after the MLP, forward and backward: 2 (n - 1) / n bytes each. A
        # reduce-scatter and an all-gather in its place send as much. The graph's output is whole on every rank already.
        bytes_ = moved(sbp, at_least=tensor // (2 * n))
        published = 2 * 4 * 2 * (n - 1) * tensor // n
        check(f"{name}: sends no more than Megatron", bytes_ <= published, f"{bytes_} > {published}")
        check(f"{name}: sends what the block needs", bytes_ >= published // 2, f"{bytes_} against {published}")


def data_parallel(folder, cluster):
    graph = training_graph(folder, "block", "--batch", "64", "--sequence", "64", "--hidden", "64", "--heads", "4")
    sbp = plan(graph, "4")
    check("large batch: proven optimal", sbp["gap"] == 0)
    for product in ("attn_q_matmul", "attn_proj_matmul", "fc1_matmul", "fc2_matmul"):
        got = sbp["signature"][f"layer0_{product}"]
        check(f"large batch: {product} splits the batch", got == "(S(0), B) -> (S(0))", got)
    weights = 4 * (4 * 64 * 64 + 8 * 64 * 64 + 4 * 64 + 64 * 4 + 64 + 4 * 64)
    check("large batch: only gradients travel", moved(sbp) <= 2 * 3 / 4 * weights * 1.05 + 4 * 64 * 64 * 64 * 3 / 4 * 4 + 64,
          f"{moved(sbp)} bytes, gradients are {weights}")


def vocabulary(folder, cluster):
    graph = training_graph(folder, "gpt", "--batch", "2", "--sequence", "32", "--hidden", "256", "--heads", "8", "--vocabulary",
                           "50000")
    for mesh, split in (("4", "(S(0))"), ("8", "(S(0))")):
        sbp = plan(graph, mesh, "--cluster", cluster)
        name = f"vocabulary of 50,000 on {mesh}"
        check(f"{name}: proven optimal", sbp["gap"] == 0)
        check(f"{name}: the table is split by entries", sbp["signature"]["embedding"] == split, sbp["signature"]["embedding"])
        check(f"{name}: the look-up gives partial sums", sbp["signature"]["embed"] == "(S(0), B) -> (P)", sbp["signature"]["embed"])
        maxima = [t for t in sbp["transitions"] if t["tensors"][0].startswith("cross_entropy/")]
        check(f"{name}: three reductions of a number for each row", len(maxima) == 3 and
              all(t["bytes"] < 64 * 4 * 2 for t in maxima), maxima)
        check(f"{name}: no logits travel", all(t["bytes"] < 64 * 50000 for t in sbp["transitions"]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.json")
        with open(cluster, "w") as f:
            json.dump(CLUSTER, f)
        megatron(folder, cluster)
        data_parallel(folder, cluster)
        vocabulary(folder, cluster)
    sys.exit(1 if failures else 0)


main()
