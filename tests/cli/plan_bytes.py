# Plan files as bytes: protobuf's wire format and the checksums, for tests that change what no command would write.
# SPDX-License-Identifier: Apache-2.0
import struct

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data):
    """XXH64 with seed 0, by its specification."""
    def rotl(x, r):
        return (x << r | x >> (64 - r)) & MASK

    def turn(acc, lane):
        return rotl((acc + lane * P2) & MASK, 31) * P1 & MASK

    at, size = 0, len(data)
    h = P5
    if size >= 32:
        v = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for lanes in struct.iter_unpack("<4Q", data[: size // 32 * 32]):
            v = [turn(a, lane) for a, lane in zip(v, lanes)]
        at = size // 32 * 32
        h = sum(rotl(a, r) for a, r in zip(v, (1, 7, 12, 18))) & MASK
        for a in v:
            h = ((h ^ turn(0, a)) * P1 + P4) & MASK
    h = (h + size) & MASK
    while size - at >= 8:
        h = (rotl(h ^ turn(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if size - at >= 4:
        h = (rotl(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P5 & MASK, 11) * P1 & MASK
    for shift, p in ((33, P2), (29, P3)):
        h = (h ^ h >> shift) * p & MASK
    return h ^ h >> 32


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def encoded(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


class Message:
    """Fields as a list of [number, wire type, value], in the order of the file: varints are numbers, others bytes."""

    def __init__(self, data):
        self.fields, at = [], 0
        while at < len(data):
            key, at = varint(data, at)
            kind = key & 7
            if kind == 0:
                value, at = varint(data, at)
            elif kind == 2:
                size, at = varint(data, at)
                value, at = bytes(data[at : at + size]), at + size
            else:
                size = {1: 8, 5: 4}[kind]
                value, at = bytes(data[at : at + size]), at + size
            self.fields.append([key >> 3, kind, value])

    def encode(self):
        out = b""
        for number, kind, value in self.fields:
            out += encoded(number << 3 | kind)
            out += encoded(value) if kind == 0 else encoded(len(value)) + value if kind == 2 else value
        return out

    def all(self, number):
        return [f for f in self.fields if f[0] == number]

    def get(self, number):
        return self.all(number)[0][2]

    def set(self, number, value):
        self.all(number)[0][2] = value


# Numbers of plan.proto.
TASK, NATIVE, TASK_NATIVE = 6, 14, 17
REGION, IMAGE = 1, 2
LEVEL, LANES, ENTRY, CODE, DATA, CHECKSUM = 1, 2, 3, 4, 5, 6


class Plan:
    """A plan file whose machine code can be changed. bytes() has the checksums that belong to what it then is."""

    def __init__(self, data):
        self.header, self.message = bytearray(data[:32]), Message(data[32:])

    def change(self, what, at=0, sums=True):
        """Calls what(code, image) for the first image of code `at`, and, with sums, gives it the checksum that fits."""
        field = self.message.all(NATIVE)[at]
        code = Message(field[2])
        place = code.all(IMAGE)[0]
        image = Message(place[2])
        what(code, image)
        if sums:
            numbers = [image.get(n) for n in (LEVEL, LANES, ENTRY, CODE)]
            image.set(CHECKSUM, struct.pack("<Q", xxh64(code.get(REGION) + struct.pack("<4Q", *numbers) + image.get(DATA))))
        place[2] = image.encode()
        field[2] = code.encode()
        return self

    def bytes(self, version=None):
        payload = self.message.encode()
        header = bytearray(self.header)
        if version is not None:
            header[8:12] = struct.pack("<I", version)
        header[16:32] = struct.pack("<QQ", len(payload), xxh64(payload))
        return bytes(header) + payload
