# opc.h by ctypes: the library's functions with their types, tensors of numpy arrays as DLPack, failures as exceptions.
# SPDX-License-Identifier: Apache-2.0
import ctypes as c

import numpy as np

CODES = {"i": 0, "u": 1, "f": 2}  # dlpack.h
NAMES = {0: "int", 1: "uint", 2: "float"}
API = 1 << 16 | 2


class Error(c.Structure):
    _fields_ = [("status", c.c_int32), ("code", c.c_char_p), ("message", c.c_char_p), ("help", c.c_char_p)]


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Managed(c.Structure):
    pass


DELETER = c.CFUNCTYPE(None, c.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", c.c_void_p), ("deleter", DELETER)]


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("threads", c.c_int32), ("reserved", c.c_int32), ("max_memory", c.c_uint64), ("seed", c.c_uint64)]


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("shape", c.POINTER(c.c_int64)), ("ndim", c.c_int32), ("dtype", DataType)]


HANDLE, OUT = c.c_void_p, c.POINTER(c.c_void_p)
CALLS = {
    "opc_context_create": [c.c_uint32, OUT],
    "opc_context_load_plugin": [HANDLE, c.c_char_p],
    "opc_context_allow_native": [HANDLE, c.c_int32],
    "opc_plan_load_file": [HANDLE, c.c_char_p, OUT],
    "opc_plan_load": [HANDLE, c.c_char_p, c.c_size_t, OUT],
    "opc_plan_compile_file": [HANDLE, c.c_char_p, OUT],
    "opc_plan_bytes": [HANDLE, OUT, c.POINTER(c.c_size_t)],
    "opc_session_create": [HANDLE, HANDLE, c.POINTER(Options), OUT],
    "opc_session_port_count": [HANDLE, c.c_int32, c.POINTER(c.c_size_t)],
    "opc_session_port": [HANDLE, c.c_int32, c.c_size_t, c.POINTER(Port)],
    "opc_session_port_smallest": [HANDLE, c.c_int32, c.c_size_t, c.POINTER(Port)],
    "opc_session_feed": [HANDLE, c.c_char_p, c.POINTER(Tensor)],
    "opc_session_feed_owned": [HANDLE, c.c_char_p, c.POINTER(Managed)],
    "opc_session_set_variable": [HANDLE, c.c_char_p, c.POINTER(Tensor)],
    "opc_session_load_variables": [HANDLE, c.c_char_p, c.POINTER(c.c_size_t)],
    "opc_session_run": [HANDLE, c.c_int64],
    "opc_session_fetch": [HANDLE, c.c_char_p, c.POINTER(c.POINTER(Managed))],
    "opc_session_variable": [HANDLE, c.c_char_p, c.POINTER(c.POINTER(Managed))],
}


class Failure(Exception):
    def __init__(self, call, error):
        self.status, self.code = error.status, error.code.decode()
        self.message, self.help = error.message.decode(), error.help.decode()
        super().__init__(f"{call}: {self.status} {self.code}: {self.message}; {self.help}")


class Library:
    """lib.session_run(handle, 1) raises Failure where opc_session_run returns an error."""

    def __init__(self, path):
        self.dll = c.CDLL(path)
        self.dll.opc_last_error.restype = Error
        self.dll.opc_api_version.restype = c.c_uint32
        self.dll.opc_version.restype = c.c_char_p
        for name, types in CALLS.items():
            getattr(self.dll, name).argtypes = types
            getattr(self.dll, name).restype = c.c_int32
        for name in ("opc_context_destroy", "opc_plan_destroy", "opc_session_destroy"):
            getattr(self.dll, name).argtypes = [HANDLE]
            getattr(self.dll, name).restype = None

    def __getattr__(self, name):
        call = getattr(self.dll, "opc_" + name)
        if "opc_" + name not in CALLS:
            return call

        def checked(*arguments):
            if call(*arguments):
                raise Failure(name, self.dll.opc_last_error())

        return checked

    def make(self, name, *arguments):
        handle = c.c_void_p()
        getattr(self, name)(*arguments, c.byref(handle))
        return handle

    def ports(self, session, kind, call="session_port"):
        """[(name, dtype, shape)]"""
        count = c.c_size_t()
        self.session_port_count(session, kind, c.byref(count))
        found = []
        for i in range(count.value):
            p = Port()
            getattr(self, call)(session, kind, i, c.byref(p))
            found.append((p.name.decode(), f"{NAMES.get(p.dtype.code, p.dtype.code)}{p.dtype.bits}", tuple(p.shape[: p.ndim])))
        return found

    def fetch(self, session, name, call="session_fetch"):
        """A copy of an output."""
        managed = c.POINTER(Managed)()
        getattr(self, call)(session, name.encode(), c.byref(managed))
        t = managed.contents.tensor
        shape = tuple(t.shape[: t.ndim])
        kind = {v: k for k, v in CODES.items()}[t.dtype.code]
        array = np.frombuffer(c.string_at(t.data, int(np.prod(shape)) * t.dtype.bits // 8), f"{kind}{t.dtype.bits // 8}").reshape(shape)
        managed.contents.deleter(managed)
        return array


def dlpack(array, **changed):
    """A DLTensor that looks at the array; keeps what it points to alive."""
    shape = (c.c_int64 * array.ndim)(*array.shape)
    strides = (c.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    t = Tensor(array.ctypes.data, Device(1, 0), array.ndim, DataType(CODES.get(array.dtype.kind, 6), array.itemsize * 8, 1),
               c.cast(shape, c.POINTER(c.c_int64)), c.cast(strides, c.POINTER(c.c_int64)), 0)
    for name, value in changed.items():
        setattr(t, name, value)
    t.kept = (array, shape, strides)
    return t


alive = []


def managed(array, deleted):
    """A DLManagedTensor that appends to `deleted` when it is let go."""
    t = dlpack(array)
    m = Managed(t, None, DELETER(lambda _: deleted.append(True)))
    m.kept = t
    alive.append(m) # a session may let go of it after the test's own names are gone
    return m
