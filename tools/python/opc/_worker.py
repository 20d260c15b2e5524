"""Kernels in a process of their own: what they do cannot harm the graph's process, and a call can be given up."""
# SPDX-License-Identifier: Apache-2.0
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import weakref
from multiprocessing.connection import Connection
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

_ALIGNMENT = 64
_of = ""  # in the process of a kernel: the file of its op
Layout = List[Tuple[int, Tuple[int, ...], str]]  # offset, shape, dtype of each array


def _layout(arrays: Sequence[np.ndarray]) -> Tuple[Layout, int]:
    made, at = [], 0
    for a in arrays:
        made.append((at, a.shape, a.dtype.str))
        at += -(-max(1, a.nbytes) // _ALIGNMENT) * _ALIGNMENT
    return made, max(at, 1)


def _views(memory: mmap.mmap, layout: Layout, writable: bool) -> List[np.ndarray]:
    views = []
    for offset, shape, dtype in layout:
        view: np.ndarray = np.ndarray(shape, dtype, buffer=memory, offset=offset)
        view.flags.writeable = writable
        views.append(view)
    return views


def _flat(arguments: Sequence[Any]) -> List[np.ndarray]:
    return [a for x in arguments for a in (x if isinstance(x, tuple) else [x]) if isinstance(a, np.ndarray)]


def _shape_of(value: Any) -> Any:
    """How an argument is put together from arrays: None, "array", or a count; other values as they are."""
    if isinstance(value, np.ndarray):
        return "array"
    return ("many", len(value)) if isinstance(value, tuple) and all(isinstance(v, np.ndarray) for v in value) else ("value", value)


def _rebuilt(form: Any, arrays: List[np.ndarray]) -> Any:
    if form == "array":
        return arrays.pop(0)
    kind, value = form
    return tuple(arrays.pop(0) for _ in range(value)) if kind == "many" else value


class Isolated:
    """The kernel of one place in a graph, run by a process that is started with the first call."""

    def __init__(self, place: Any, path: str) -> None:
        self.place, self.module = (place.op, place.qualified_name, place.line), place.module
        self.op, self.path, self.timeout_s = place.op, path, place.timeout_s
        self.pid = 0
        self.process: Optional["subprocess.Popen[bytes]"] = None

    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> None:
        outs = list(out) if isinstance(out, tuple) else [out]
        ins = _flat(args) + _flat(list(kwargs.values()))
        if self.process is None or self.pid != os.getpid():
            self._start(args, kwargs, ins, outs)
        for view, array in zip(self.inputs, ins):
            view[...] = array
        self._ask(kwargs.get("position"))
        for array, view in zip(outs, self.outputs):
            array[...] = view

    def _start(self, args: Sequence[Any], kwargs: Dict[str, Any], ins: List[np.ndarray], outs: List[np.ndarray]) -> None:
        if _of:
            from ._host import HostError

            raise HostError(
                "OPC0626",
                f"the process of a kernel imports {_of}, and that runs the kernel of {self.op} again",
                'what runs a graph in that file stands behind: if __name__ == "__main__":',
            )
        in_layout, in_bytes = _layout(ins)
        out_layout, out_bytes = _layout(outs)
        files = [os.memfd_create("opc-" + name) for name in ("inputs", "outputs")]
        for fd, size in zip(files, (in_bytes, out_bytes)):
            os.ftruncate(fd, size)
        self.inputs = _views(mmap.mmap(files[0], in_bytes), in_layout, True)
        self.outputs = _views(mmap.mmap(files[1], out_bytes), out_layout, False)
        ours, theirs = socket.socketpair()
        # Paths are handed over as they are here: nothing of the working directory is searched.
        code = f"import sys; sys.path[:] = {sys.path!r}; from opc import _worker; _worker.main({theirs.fileno()}, {files!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], pass_fds=[theirs.fileno(), *files], stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()
        )
        theirs.close()
        for fd in files:
            os.close(fd)
        self.connection = Connection(ours.detach())
        self.pid = os.getpid()
        weakref.finalize(self, _end, self.process, self.connection, self.pid)
        from . import _host

        forms = [_shape_of(a) for a in args]
        named = {
k: _shape_of(v) for k, v in kwargs.items() if k != "position"}
        self.connection.send_bytes(pickle.dumps((self.place, self.path, self.module, _host._folders, forms, named, in_layout, in_bytes, out_layout, out_bytes)))

    def _ask(self, position: Any) -> None:
        from ._host import HostError

        assert self.process is not None
        try:
            self.connection.send_bytes(b"run" if position is None else pickle.dumps(position))
            if not self.connection.poll(self.timeout_s or None):
                self.process.kill()
                self.process.wait()
                self.process = None
                raise HostError(
                    "OPC0626",
                    f"the kernel has not answered within {self.timeout_s:g} s, and its process was ended",
                    "give it longer, timeout_s=, or find what it waits for",
                )
            reply = self.connection.recv_bytes()
        except (EOFError, OSError):
            code = self.process.wait()
            self.process = None
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise HostError(
                "OPC0626", f"the process of the kernel has ended: {how}", "the next call starts another one"
            ) from None
        if reply != b"ok":
            raise HostError(*pickle.loads(reply))


def _end(process: "subprocess.Popen[bytes]", connection: Connection, pid: int) -> None:
    if os.getpid() != pid:
        return  # the parent's
    connection.close()
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _store(answer: Any, outs: List[np.ndarray], names: Sequence[str]) -> None:
    from ._host import HostError

    values = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if len(values) != len(outs):
        raise HostError("OPC0623", f"the kernel has returned {len(values)} arrays, expected {len(outs)}")
    for name, value, view in zip(names, values, outs):
        value = np.asarray(value)
        if value.dtype != view.dtype:
            raise HostError("OPC0623", f"output '{name}' is {value.dtype}, expected {view.dtype}", f"return .astype(np.{view.dtype})")
        if value.shape != view.shape:
            raise HostError("OPC0623", f"output '{name}' has the shape {value.shape}, expected {view.shape}")
        view[...] = value


def main(connection_fd: int, files: Sequence[int]) -> None:
    """The process: waits for calls until the other end is closed."""
    from . import _host, _op

    global _of
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the graph's process' affair
    connection = Connection(connection_fd)
    place, path, module, folders, forms, named, in_layout, in_bytes, out_layout, out_bytes = pickle.loads(connection.recv_bytes())
    _of = path
    _host._folders.extend(folders)
    inputs = _views(mmap.mmap(files[0], in_bytes), in_layout, False)
    outputs = _views(mmap.mmap(files[1], out_bytes), out_layout, True)
    kernel: Optional[_op.Kernel] = None
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            if kernel is None:
                _host.load(path, module)
                kernel = _host.kernel_in(path, *place)
            arrays = list(inputs)
            args = [_rebuilt(f, arrays) for f in forms]
            kwargs = {
k: _rebuilt(f, arrays) for k, f in named.items()}
            if request != b"run":
                kwargs["position"] = pickle.loads(request)
            if kernel.out:
                kernel.out(*args, out=tuple(outputs) if len(outputs) != 1 else outputs[0], **kwargs)
            else:
                assert kernel.function
                answer = kernel.function(*args, **kwargs)
                if kernel.none_is_zero:
                    answer = [np.zeros_like(o) if a is None else a for a, o in zip(answer if isinstance(answer, (tuple, list)) else [answer], outputs)]
                _store(answer, outputs, [f"{i}" for i in range(len(outputs))])
            connection.send_bytes(b"ok")
        except BaseException as error:
            connection.send_bytes(pickle.dumps(_host.explain(error)))
