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
Layout = List[Tuple[int, Tuple[int, ...], str, bool]]  # offset, shape, dtype of each array, and whether the kernel writes it


def _layout(arrays: Sequence[np.ndarray]) -> Tuple[Layout, int]:
    made, at = [], 0
    for a in arrays:
        made.append((at, a.shape, a.dtype.str, a.flags.writeable))
        at += -(-max(1, a.nbytes) // _ALIGNMENT) * _ALIGNMENT
    return made, max(at, 1)


def _views(memory: mmap.mmap, layout: Layout, is_kernel: bool) -> List[np.ndarray]:
    views = []
    for offset, shape, dtype, written in layout:
        view: np.ndarray = np.ndarray(shape, dtype, buffer=memory, offset=offset)
        view.flags.writeable = written or not is_kernel
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
        for array, view in zip(ins + outs, self.inputs + self.outputs):
            if array.flags.writeable:  # an output, or a variable that the op has as aux
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
        self.inputs = _views(mmap.mmap(files[0], in_bytes), in_layout, is_kernel=False)
        self.outputs = _views(mmap.mmap(files[1], out_bytes), out_layout, is_kernel=False)
        ours, theirs = socket.socketpair()
        # Paths are handed over as they are here: nothing of the working directory is searched.
        code = f"import sys; sys.path[:] = {sys.path!r}; from opc import _worker; _worker.main({theirs.fileno()}, {files!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], pass_fds=[theirs.fileno(), *files], stdin=subprocess.DEVNULL, stdout=_standard_error()
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


def _standard_error() -> int:
    """What goes there goes to the file of sys.stderr, or of the process where a notebook or a test has put another object there."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2


def _end(process: "subprocess.Popen[bytes]", connection: Connection, pid: int) -> None:
    if os.getpid() != pid:
        return  # the parent's
    connection.close()
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _store_one(name: str, value: Any, view: np.ndarray, none_is_zero: bool) -> None:
    from ._host import HostError

    if value is None and none_is_zero:
        view[...] = 0
        return
    if not isinstance(value, (np.ndarray, np.generic)):
        help = "the kernel must return its outputs" if value is None else "return a numpy array: np.asarray(value, dtype) makes one"
        raise HostError("OPC0623", f"output '{name}' is a {type(value).__name__}, expected a numpy array of shape {view.shape}", help)
    if isinstance(value, np.ma.MaskedArray):
        raise HostError("OPC0623", f"output '{name}' is a masked array, and a tensor has no mask", "return .filled(...), or .data: nothing is converted silently")
    if value.dtype != view.dtype:
        raise HostError("OPC0623", f"output '{name}' is {value.dtype}, expected {view.dtype}", f"return .astype(np.{view.dtype})")
    if value.shape != view.shape:
        raise HostError("OPC0623", f"output '{name}' has the shape {value.shape}, expected {view.shape}", "the op's shape rule and its kernel must agree")
    view[...] = value


def _store(answer: Any, outs: List[np.ndarray], names: Sequence[str], none_is_zero: bool) -> None:
    """As kernels of the graph's own process are taken at their word (kernels/python/host/KernelCall.cpp)."""
    from ._host import HostError

    if isinstance(answer, dict):
        answer = _by_names(answer, names, none_is_zero)
    values = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if answer is None and (none_is_zero or not outs):
        values = [None] * len(outs)
    if len(values) != len(outs):
        found = "1 array" if len(values) == 1 else f"{len(values)} arrays"
        help = "return one array for each output, in their order: " + (", ".join(names) or "none")
        raise HostError("OPC0623", f"the kernel has returned {found}, expected {len(outs)}", help)
    for name, value, view in zip(names, values, outs):
        _store_one(name, value, view, none_is_zero)


def _by_names(answer: Dict[str, Any], names: Sequence[str], none_is_zero: bool) -> List[Any]:
    """By the names of outputs, or for the gradient "dx" by that of the input "x"."""
    from ._host import HostError

    keys = [n if n in answer or not none_is_zero else n[1:] for n in names]
    absent = next((n for n, k in zip(names, keys) if k not in answer), None)
    if absent and not none_is_zero:
        raise HostError("OPC0623", f"the kernel has returned a dict without '{absent}'", "return each output under its name")
    other = next((k for k in answer if k not in keys), None)
    if other is not None:
        own = ", ".join(dict.fromkeys(n[1:] if none_is_zero else n for n in names))
        if none_is_zero:
            message = f"the gradient rule has returned a dict with {other!r}, which is no input that has a gradient"
            raise HostError("OPC0623", message, f"the names are those of the inputs: {own}")
        raise HostError("OPC0623", f"the kernel has returned a dict with {other!r}, which is no output", f"the names are those of the outputs: {own}")
    return [answer.get(k) for k in keys]


def _named(names: Sequence[str], count: int) -> List[str]:
    """A name for each tensor: with one argument of several tensors it is theirs, too."""
    if len(names) == count:
        return list(names)
    return [names[0]] * count if len(names) == 1 else [str(i) for i in range(count)]


def _declared(kernel: Any, named: Dict[str, Any]) -> List[str]:
    """A name for each output that there may be: gradients of an input that is several tensors are as many."""
    made: List[str] = []
    for n in kernel.outputs:
        kind, count = named[n[1:]] if kernel.none_is_zero and isinstance(named.get(n[1:]), tuple) else ("", 1)
        made += [n] * (count if kind == "many" else 1)
    return made


def _present(kernel: Any, declared: Sequence[str], count: int) -> List[str]:
    """The outputs that are there: all, or without the optional ones."""
    required = [n for n in declared if n not in kernel.optional]
    return _named(required if len(required) == count else declared, count)


def _of_present(answer: Any, names: Sequence[str], declared: Sequence[str], kernel: Any) -> Any:
    """What a gradient rule gives, without results for inputs that are absent."""
    absent = [n for n in declared if n in kernel.optional and n not in names]
    if not absent or not kernel.none_is_zero or len(absent) + len(names) != len(declared):
        return answer  # all are there, or nothing tells which
    if isinstance(answer, dict):
        return {k: v for k, v in answer.items() if k not in absent and "d" + str(k) not in absent}
    if isinstance(answer, (tuple, list)) and len(answer) == len(declared):
        return [v for n, v in zip(declared, answer) if n not in absent]
    return answer


class _Worker:
    """The calls of one kernel, in its process."""

    def __init__(self, connection: Connection, files: Sequence[int]) -> None:
        self.place, self.path, self.module, folders, self.forms, self.named, *memory = pickle.loads(connection.recv_bytes())
        in_layout, in_bytes, out_layout, out_bytes = memory
        from . import _host, _op

        _host._folders.extend(folders)
        self.inputs = _views(mmap.mmap(files[0], in_bytes), in_layout, is_kernel=True)
        self.outputs = _views(mmap.mmap(files[1], out_bytes), out_layout, is_kernel=True)
        self.kernel: Optional[_op.Kernel] = None

    def _load(self) -> Any:
        from . import _host

        if self.kernel is None:
            _host.load(self.path, self.module)
            self.kernel = _host.kernel_in(self.path, *self.place)
        return self.kernel

    def call(self, position: Any) -> None:
        """Runs the kernel once on what the memory has."""
        kernel = self._load()
        before = self._references()
        self._run(kernel, position)
        self._refuse_kept(before, kernel)

    def _run(self, kernel: Any, position: Any) -> None:
        arrays = list(self.inputs)
        args = [_rebuilt(f, arrays) for f in self.forms]
        kwargs = {k: _rebuilt(f, arrays) for k, f in self.named.items()}
        if position is not None:
            kwargs["position"] = position
        if kernel.out:
            kernel.out(*args, out=tuple(self.outputs) if len(self.outputs) != 1 else self.outputs[0], **kwargs)
        else:
            assert kernel.function
            answer = kernel.function(*args, **kwargs)
            declared = _declared(kernel, self.named)
            names = _present(kernel, declared, len(self.outputs))
            _store(_of_present(answer, names, declared, kernel), self.outputs, names, kernel.none_is_zero)

    def explained(self, error: BaseException) -> Tuple[str, str, str]:
        """As KernelCall::call has it of kernels here: results have no line, and the kernel has."""
        from . import _host

        code, message, help = _host.explain(error)
        if self.kernel and code in ("OPC0623", "OPC0624"):
            message += _host.defined_at(self.kernel.out or self.kernel.function)
        return code, message, help

    def _references(self) -> List[int]:
        return [sys.getrefcount(view) for view in [*self.inputs, *self.outputs]]

    def _refuse_kept(self, before: List[int], kernel: Any) -> None:
        from ._host import HostError

        names: List[Tuple[str, str]] = []
        for name, form in [*zip(kernel.positional, self.forms), *self.named.items()]:
            names += [("input", name)] * (1 if form == "array" else form[1] if form[0] == "many" else 0)
        names += [("output", name) for name in _present(kernel, _declared(kernel, self.named), len(self.outputs))]
        for (what, name), old, now in zip(names, before, self._references()):
            if now > old:
                raise HostError(
                    "OPC0624",
                    f"the kernel has kept its {what} '{name}' or a view of it: the memory is used again",
                    f"keep a copy: {name}.copy()",
                )


def main(connection_fd: int, files: Sequence[int]) -> None:
    """The process: waits for calls until the other end is closed."""
    global _of
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the graph's process' affair
    connection = Connection(connection_fd)
    worker = _Worker(connection, files)
    _of = worker.path
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            worker.call(None if request == b"run" else pickle.loads(request))
            connection.send_bytes(b"ok")
        except BaseException as error:
            connection.send_bytes(pickle.dumps(worker.explained(error)))
