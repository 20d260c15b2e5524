# A model in f32 as converters to half precision write it: weights, constants, inputs and outputs in f16.
# SPDX-License-Identifier: Apache-2.0
"""usage: halved.py FOLDER        what export.py has written there becomes f16: model.onnx, inputs/ and outputs/

Ops that ONNX has in f32 only stand between two Cast. What does not fit is the largest number that does, as with a mask's -3e38."""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
# Ops with an input that is f32 whatever the others are.
KEPT = {"NonMaxSuppression", "Resize", "Upsample", "Range", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}


def halved(values):
    with np.errstate(over="ignore"):
        return np.clip(values, -65504, 65504).astype(np.float16)


def halve_tensor(tensor):
    if tensor.data_type == FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(halved(numpy_helper.to_array(tensor)), tensor.name))


def types_of(model):
    """Element types by name, inner graphs' included."""
    types = {}

    def collect(graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            types[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            types[tensor.name] = tensor.data_type
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    collect(attribute.g)

    collect(onnx.shape_inference.infer_shapes(model).graph)
    return types


def halve_graph(graph, types):
    nodes, count = [], 0
    for node in graph.node:
        if node.op_type in KEPT:
            after = []
            for names, before in ((node.input, True), (node.output, False)):
                for i, name in enumerate(names):
                    if types.get(name) != FLOAT:
                        continue
                    count += 1
                    names[i] = f"{name}.f32.{count}"
                    ends = ([name], [names[i]], FLOAT) if before else ([names[i]], [name], HALF)
                    (nodes if before else after).append(onnx.helper.make_node("Cast", ends[0], ends[1], to=ends[2]))
            nodes.extend([node, *after])
            continue
        for attribute in node.attribute:
            if attribute.HasField("t"):
                halve_tensor(attribute.t)
            if attribute.HasField("g"):
                halve_graph(attribute.g, types)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = HALF
        nodes.append(node)
    copies = []
    for node in nodes:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)
    for tensor in graph.initializer:
        halve_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == FLOAT:
            value.type.tensor_type.elem_type = HALF


def write(folder):
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    halve_graph(model.graph, types_of(model))
    onnx.save(model, path)
    for kind in ("inputs", "outputs"):
        for name in os.listdir(os.path.join(folder, kind)):
            values = np.load(os.path.join(folder, kind, name))
            if values.dtype == np.float32:
                np.save(os.path.join(folder, kind, name), halved(values))


if __name__ == "__main__":
    write(sys.argv[1])
