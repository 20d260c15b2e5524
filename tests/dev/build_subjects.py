# The graphs on which two builds are compared: examples, every case of every operator, random networks, bench models.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import zlib

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "docs/examples"
for folder in ("tests/conformance", "tests/fuzz"):
    sys.path.insert(0, str(SOURCE / folder))

from registry_cases import FLOATING, instances, to_dtype  # noqa: E402

BATCH = 48  # instances in one graph


@dataclasses.dataclass
class Subject:
    """One graph with what it is fed, and how it is differentiated."""

    kind: str
    name: str
    text: str
    inputs: dict = dataclasses.field(default_factory=dict)  # name -> array
    weights: dict = dataclasses.field(default_factory=dict)
    files: list = dataclasses.field(default_factory=list)  # further flags of `opc run` that name files
    flags: list = dataclasses.field(default_factory=list)  # of compile
    grad: list = dataclasses.field(default_factory=list)  # flags of `opc grad`; none: not differentiated
    plan: bool = True  # compiled to a plan as it is; the gradient graph is, always
    run: bool = True
    parts: list = dataclasses.field(default_factory=list)  # of a registry batch: its instances
    labels: dict = dataclasses.field(default_factory=dict)  # output -> what it is


# --- operators -------------------------------------------------------------------------------------------------------
def draw(rng, dtype, shape, lo, hi):
    if dtype in FLOATING:
        return rng.uniform(lo, hi, shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape)
    lo, hi = ((-5, 6) if (lo, hi) == (-1, 1) else (int(np.ceil(lo)), int(np.ceil(hi))))
    lo = max(lo, 0) if dtype.startswith("u") else lo
    return rng.integers(lo, max(hi, lo + 1), shape)


def values(instance):
    rng = np.random.default_rng(zlib.crc32(f"{instance.op['name']}|{instance.name}".encode()))
    return {f"{instance.name}|in|{arg}|{index}|{dtype}": to_dtype(draw(rng, dtype, shape, lo, hi), dtype)
            for arg, index, dtype, shape, lo, hi in instance.inputs()}


def registry_subject(parts):
    """One graph of these instances; those of differentiable ops are its losses."""
    from driver import Graph

    graph, labels, losses, wanted = Graph(), {}, [], []
    for number, instance in enumerate(parts):
        graph.add(number, instance, values(instance))
        label = f"{instance.op['name']} {instance.name}"
        labels[f"i{number}"] = label
        for arg, index, dtype, *_ in instance.inputs():
            if dtype in FLOATING and arg not in instance.mutable() and instance.op["gradient"]:
                wanted.append((number, f"i{number}_{arg}_{index}"))
    differentiated = {n for n, _ in wanted}
    outputs = {}
    for instance, arg, index, end in graph.wanted:
        labels[end] = f"{labels[end.split('_')[0]]} {arg}_{index}"
        outputs.setdefault(int(end[1:].split("_")[0]), end)
    losses = [outputs[n] for n in sorted(differentiated) if n in outputs]
    grad = [x for end in losses for x in ("--loss", end)] + [x for _, name in wanted for x in ("--wrt", name)]
    first, last = parts[0].op["name"], parts[-1].op["name"]
    name = labels["i0"] if len(parts) == 1 else first if first == last else f"{first}..{last}"
    return Subject("registry", name, "\n".join(graph.ops) + "\n", graph.inputs, graph.variables, grad=grad if losses else [],
                   parts=parts, labels=labels)


def registry_subjects(ops, quick):
    batch = []
    for op in ops:
        own = list(instances(op))
        if quick:
            own = own[:: max(1, len(own) // 2)][:2]
        if batch and len(batch) + len(own) > BATCH:
            yield registry_subject(batch)
            batch = []
        batch += own
        while len(batch) > BATCH:
            yield registry_subject(batch[:BATCH])
            batch = batch[BATCH:]
    if batch:
        yield registry_subject(batch)


# --- examples --------------------------------------------------------------------------------------------------------
def optimizer(kind, *more):
    return ["--loss", "loss", "--optimizer", kind, "--lr", "0.002", *more]


def example_subjects(quick):
    digits = EXAMPLES / "digits"
    for net in ("mlp", "cnn"):
        text = (digits / f"{net}.pbtxt").read_text()
        files = ["--weights", str(digits / f"{net}_weights.npz"), "--input", f"image=@{digits}/test_images.npy"]
        yield Subject("example", net, text, files=files)
        yield Subject("example", f"{net} unfused", text, files=files, flags=["--no-fuse"])
        train = text + "\n" + (digits / f"{net}_loss.pbtxt").read_text()
        shapes = ["--shape", "image=64,64", "--shape", "label=64"]
        steps = [optimizer("adam"), optimizer("sgd", "--clip-norm", "1", "--accumulate", "2"), ["--loss", "loss"]]
        for flags in steps[: 1 if quick else None]:
            yield Subject("example", f"{net} {' '.join(flags[2:]) or 'gradients'}", train, flags=shapes,
                          grad=shapes + flags, run=False)
    for mesh in ("2",) if quick else ("2", "2x2", "1x4"):
        yield Subject("example", f"mlp on {mesh}", (digits / "mlp.pbtxt").read_text(),
                      flags=["--shape", "image=64,64", "--mesh", mesh], run=False)
    for model in ("block", "gpt"):
        make = [sys.executable, str(EXAMPLES / "distributed/make_graphs.py"), model, "--batch", "4", "--sequence", "16",
                "--hidden", "64", "--heads", "4", "--vocabulary", "512"]
        text = subprocess.run(make, check=True, capture_output=True, text=True).stdout
        yield Subject("example", model, text, grad=["--loss", "loss", "--optimizer", "sgd", "--lr", "0.1"] if 'name: "loss"' in text else [])
        for mesh in ("2",) if quick else ("2", "2x2"):
            yield Subject("example", f"{model} on {mesh}", text, flags=["--mesh", mesh], run=False)
    for graph in sorted((SOURCE / "tests/cli/Inputs").glob("*.pbtxt")):
        yield Subject("example", graph.stem, graph.read_text())


# --- networks that fusion changes --------------------------------------------------------------------------------------
def network_subjects(quick):
    from fuse_nets import Network

    for seed in range(4 if quick else 40):
        text = "\n".join(Network(seed).text) + "\n"
        yield Subject("network", f"network {seed}", text, grad=["--loss", "y0", "--wrt", "x"])


# --- bench models ------------------------------------------------------------------------------------------------------
def model_subjects(folder, quick):
    make = [sys.executable, str(EXAMPLES / "models/make_models.py"), str(folder), "--batch", "1,8"] + ["--tiny"] * quick
    if not any(pathlib.Path(folder).glob("*_b1.pbtxt")):
        subprocess.run(make, check=True, capture_output=True)
    for graph in sorted(pathlib.Path(folder).glob("*_b?.pbtxt")):
        name, text = graph.stem, graph.read_text()
        files = ["--weights", f"{folder}/{name[:-3]}.safetensors", "--input", f"x=@{folder}/{name}_x.npy"]
        yield Subject("model", name, text, files=files, run=name.endswith("b1"))
        yield Subject("model", f"{name} training", text, grad=["--loss", "y", "--optimizer", "sgd", "--lr", "1e-3"], plan=False)


def subjects(ops, kinds, quick, folder):
    """All graphs of the kinds that are asked for."""
    if "example" in kinds:
        yield from example_subjects(quick)
    if "network" in kinds:
        yield from network_subjects(quick)
    if "model" in kinds:
        yield from model_subjects(folder, quick)
    if "registry" in kinds:
        yield from registry_subjects(ops, quick)


def load_registry(opc):
    """The operators of a build; of any version, so none of the conformance driver's reading."""
    os.environ.setdefault("OPC_BUILD_DIR", str(pathlib.Path(opc).parents[1]))
    said = subprocess.run([str(opc), "ops", "--json", "--config", "none"], check=True, capture_output=True, text=True).stdout
    return json.loads(said)["ops"]
