# ONNX's messages by their public field numbers: enough to write small models and to read what a model calls its values.
# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np

ELEMENT = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3, np.dtype(np.uint16): 4, np.dtype(np.int16): 5,
           np.dtype(np.int32): 6, np.dtype(np.int64): 7, np.dtype(np.bool_): 9, np.dtype(np.float16): 10,
           np.dtype(np.float64): 11, np.dtype(np.uint32): 12, np.dtype(np.uint64): 13}
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 5, 6, 7, 8


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field: an int as varint, a float as four bytes, text and bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, array):
    array = np.asarray(array, order="C") # ascontiguousarray gives a scalar a dimension
    return (b"".join(field(1, d) for d in array.shape) + field(2, ELEMENT[array.dtype]) + field(8, name) +
            field(9, array.tobytes()))


def external(name, shape, **entries):
    """A f32 tensor whose elements are in another file."""
    pairs = b"".join(field(13, field(1, key) + field(2, str(value))) for key, value in entries.items())
    return b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name) + pairs + field(14, 1)


def value(name, shape=None, element=1):
    """A ValueInfoProto: numbers are sizes, texts their names."""
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in shape or [])
    return field(1, name) + field(2, field(1, field(1, element) + (b"" if shape is None else field(2, dims))))


def attribute(name, v):
    if isinstance(v, bool) or isinstance(v, int):
        return field(1, name) + field(3, int(v)) + field(20, INT)
    if isinstance(v, float):
        return field(1, name) + field(2, v) + field(20, FLOAT)
    if isinstance(v, str):
        return field(1, name) + field(4, v) + field(20, STRING)
    if isinstance(v, np.ndarray):
        return field(1, name) + field(5, tensor("", v)) + field(20, TENSOR)
    if isinstance(v, bytes):
        return field(1, name) + field(6, v) + field(20, GRAPH)
    if v and isinstance(v[0], float):
        return field(1, name) + b"".join(field(7, f) for f in v) + field(20, FLOATS)
    if v and isinstance(v[0], str):
        return field(1, name) + b"".join(field(9, t) for t in v) + field(20, STRINGS)
    return field(1, name) + b"".join(field(8, i) for i in v) + field(20, INTS)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) +
            (field(3, name) if name else b"") + field(4, op) +
            b"".join(field(5, attribute(k, v)) for k, v in attributes.items()) + (field(7, domain) if domain else b""))


def graph(nodes, inputs, outputs, initializers=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, t) for t in initializers) +
            b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs))


def model(body, opset=17, functions=(), domains=()):
    return (field(1, 8) + field(2, "opc's tests") + field(7, body) + field(8, field(1, "") + field(2, opset)) +
            b"".join(field(8, field(1, d) + field(2, 1)) for d in domains) + b"".join(field(25, f) for f in functions))


def fields(data):
    """The fields of a message: number, and a number or bytes."""
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        elif tag & 7 == 2:
            size = number()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            size = 4 if tag & 7 == 5 else 8
            yield tag >> 3, data[at:at + size]
            at += size


def ports(data):
    """The names and types (bytes) of a model's inputs that are no initializers, and of its outputs."""
    inputs, outputs, initializers = [], [], set()
    for number, body in fields(next(b for n, b in fields(data) if n == 7)):
        if number == 5:
            initializers.update(b.decode() for n, b in fields(body) if n == 8)
        elif number in (11, 12):
            port = dict(fields(body))
            (inputs if number == 11 else outputs).append((port[1].decode(), port.get(2, b"")))
    return [i for i in inputs if i[0] not in initializers], outputs


def tensors(name, type_, data):
    """What a value of a test is for opc: tensors by name, as messages. Elements of a sequence are NAME.0, NAME.1, ..."""
    kind = next((n for n, _ in fields(type_)), 1)
    if kind == 9: # an optional: its tensor or sequence
        found = [(n, b) for n, b in fields(data) if n in (3, 5)]
        if not found:
            return []
        kind, data = (1 if found[0][0] == 3 else 4), found[0][1]
    if kind == 1:
        return [(name, data)]
    return [(f"{name}.{k}", b) for k, b in enumerate(b for n, b in fields(data) if n == 3)]
