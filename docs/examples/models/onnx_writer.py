# Writes ONNX models with nothing but the standard library and numpy: the few messages of onnx.proto that are needed.
# Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (IR version 9, operator set 20).

import struct

import numpy as np

IR_VERSION, OPSET = 9, 20
DATA_TYPES = {np.dtype("f4"): 1, np.dtype("i4"): 6, np.dtype("i8"): 7}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    body = block(1, name)
    if isinstance(value, float):
        return body + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return body + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return body + block(4, value) + number(20, 3)
    return body + b"".join(number(8, v) for v in value) + number(20, 7)


def tensor(name, array):
    array = np.asarray(array, order="C")  # ascontiguousarray gives a number an axis
    return (b"".join(number(1, d) for d in array.shape) + number(2, DATA_TYPES[array.dtype]) + block(8, name)
            + block(9, array.tobytes()))


def value_info(name, shape, dtype="f4"):
    """A size is a number, or the name of one that the model leaves open."""
    dims = b"".join(block(1, block(2, d) if isinstance(d, str) else number(1, d)) for d in shape)
    return block(1, name) + block(2, block(1, number(1, DATA_TYPES[np.dtype(dtype)]) + block(2, dims)))


class OnnxWriter:
    """Collects nodes and tensors; save() writes a model of them."""

    def __init__(self):
        self.body = []

    def node(self, op, inputs, output, **attributes):
        data = b"".join(block(1, i) for i in inputs) + block(2, output) + block(3, output) + block(4, op)
        self.body.append((1, data + b"".join(block(5, attribute(k, v)) for k, v in sorted(attributes.items()))))
        return output

    def constant(self, name, array):
        self.body.append((5, tensor(name, array)))
        return name

    def save(self, path, name, inputs, outputs):
        """inputs and outputs: (name, shape), or (name, shape, numpy's element type)."""
        graph = [block(field, data) for field, data in self.body]
        graph.append(block(2, name))
        graph += [block(11, value_info(*i)) for i in inputs] + [block(12, value_info(*o)) for o in outputs]
        head = number(1, IR_VERSION) + block(2, "opc make_models.py") + block(8, block(1, "") + number(2, OPSET))
        with open(path, "wb") as f:
            size = sum(map(len, graph))
            f.write(head + varint(7 << 3 | 2) + varint(size))
            f.writelines(graph)
