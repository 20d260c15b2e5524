# What a plan file says of tasks, kernels, memory and interface, read from the wire format alone: plans of any build compare.
# SPDX-License-Identifier: Apache-2.0
"""Field numbers are those of proto/plan.proto, which keeps them; fields that are not listed here are not compared."""

PAYLOAD = 32  # bytes of the container before the message (docs/plan-format.md)

TASK = {1: "name", 2: "type", 3: "inputs", 4: "outputs", 5: "attributes", 6: "stream", 8: "workspace", 10: "stride", 11: "lag",
        12: "boxing", 13: "sharding"}
KERNEL = {7: "kernel"}
MEMORY = {3: "arena", 4: "register", 5: "tensor"}
INTERFACE = {1: "input", 2: "output", 3: "variable", 4: "constant"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of each field of a message, in order; values are numbers or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if wire == 2:
                size, at = varint(data, at)
            elif size is None:
                raise ValueError(f"field {number} has wire type {wire}")
            value = data[at : at + size]
            at += size
        yield number, value


def picked(data, names):
    return [(names[n], v) for n, v in fields(data) if n in names]


def text(data, number):
    return next((v.decode() for n, v in fields(data) if n == number), "")


def plan_facts(file):
    """kind -> [(label, facts)] of the bytes of a plan file; parts of several ranks follow one another."""
    return facts(file[PAYLOAD:], "")


def facts(message, prefix):
    found = {"tasks": [], "kernels": [], "memory": [], "interface": []}
    part = 0
    for number, value in fields(message):
        if number == 6:
            name = f"{prefix}task {text(value, 1)} ({text(value, 2)})"
            found["tasks"].append((name, picked(value, TASK)))
            found["kernels"].append((name, picked(value, KERNEL)))
        elif number in MEMORY:
            label = text(value, 4) if number == 5 else text(value, 1)
            found["memory"].append((f"{prefix}{MEMORY[number]} {label}", list(fields(value))))
        elif number == 7:
            found["tasks"].append((f"{prefix}stream", list(fields(value))))
        elif number == 8:
            for kind, port in picked(value, INTERFACE):
                # 7: where a variable stands in the graph's file
                found["interface"].append((f"{prefix}{kind}", [(n, v) for n, v in fields(port) if not (kind == "variable" and n == 7)]))
        elif number == 10:
            for kind, list_ in facts(value, f"{prefix}part {part} ").items():
                found[kind] += list_
            part += 1
        elif number in (9, 11, 12):
            found["tasks"].append((f"{prefix}field {number}", value))
    return found


def planned_bytes(file):
    """Bytes of all arenas of a plan, of the part that needs most."""
    def most(message):
        here = sum(dict(fields(v)).get(2, 0) for n, v in fields(message) if n == 3)
        return max([here] + [most(v) for n, v in fields(message) if n == 10])

    return most(file[PAYLOAD:])
