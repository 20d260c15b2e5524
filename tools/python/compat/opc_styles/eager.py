"""Arrays that compute at once: every op is a graph of one op, compiled once for each shape and run by a session; a tape
of them is gone through backwards."""
# SPDX-License-Identifier: Apache-2.0
import heapq
import itertools
import os
import threading
from typing import Any, Callable, Dict, Hashable, List, Optional, Sequence, Tuple

import numpy as np

import opc
from opc import _operators

from . import classes

lock = threading.RLock()
_count = itertools.count()
_programs: Dict[Hashable, opc.Program] = {}
Build = Callable[[List[opc.Tensor]], Sequence[opc.Tensor]]


def _after_fork() -> None:
    """In a child a held lock would stay held."""
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class Array:
    """Values, where they come from on the tape, and the sum of gradients that has reached them."""

    def __init__(self, value: np.ndarray) -> None:
        self._value = value
        self._node: Optional["Node"] = None
        self._index = 0

    def _leaf(self) -> bool:
        """Whether gradients are wanted here."""
        return False

    def _on_tape(self) -> bool:
        return self._node is not None or self._leaf()

    def _receive(self, gradient: np.ndarray) -> None:
        """Takes the gradient of a backward pass."""
        raise NotImplementedError


class Node:
    """One op of the tape. `back`: gradients of the outputs, and which inputs want theirs -> gradients of the inputs; in
    `reached` it finds which outputs a gradient has reached."""

    def __init__(
        self, inputs: Sequence[Array], outputs: Sequence[Array], back: Callable[..., Sequence[Optional[np.ndarray]]], reached: Optional[List[bool]] = None
    ) -> None:
        self.number = next(_count)
        self.inputs = list(inputs)
        self.zeros = [(o._value.shape, o._value.dtype) for o in outputs]
        self.back, self.reached = back, [] if reached is None else reached
        for i, output in enumerate(outputs):
            output._node, output._index = self, i


def key_of(arrays: Sequence[np.ndarray]) -> Tuple[Hashable, ...]:
    return tuple((a.shape, a.dtype.str) for a in arrays)


def _graph(build: Build, arrays: Sequence[np.ndarray]) -> Tuple[opc.Graph, int]:
    graph = opc.Graph("eager")
    with graph:
        made = build([graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)])
    for i, tensor in enumerate(made):
        graph.output(f"y{i}", tensor)
    return graph, len(made)


def run(key: Hashable, build: Build, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
    """The outputs of a graph of one op."""
    with lock:
        key = (key, key_of(arrays))
        if key not in _programs:
            _programs[key] = _graph(build, arrays)[0].compile()
        got = _programs[key].run(**{f"x{i}": a for i, a in enumerate(arrays)})
    return [got[f"y{i}"] for i in range(len(got))]


def run_gradient(key: Hashable, build: Build, arrays: Sequence[np.ndarray], dys: Sequence[np.ndarray], wanted: Sequence[int]) -> List[np.ndarray]:
    """The gradients of the wanted inputs, by the rule that the op has in graphs."""
    with lock:
        key = ("gradient", key, key_of(arrays), tuple(wanted))
        if key not in _programs:
            graph, count = _graph(build, arrays)
            _programs[key] = graph.grad([f"y{i}" for i in range(count)], [f"x{i}" for i in wanted], dy_inputs=True).compile()
        program = _programs[key]
        feeds = {f"x{i}": a for i, a in enumerate(arrays)}
        feeds.update({f"y{i}.dy": dy for i, dy in enumerate(dys)})
        known = program.default_session.inputs
        got = program.run(**{name: value for name, value in feeds.items() if name in known})
    return [got[f"x{i}.grad"] for i in wanted]


def apply(make: Callable[[np.ndarray], Array], function: str, build: Callable[..., Any], arrays: Sequence[Array], settings: Hashable, record: bool) -> List[Array]:
    """A built-in op on arrays. In a kernel it is numpy's and leaves no trace: there `build` is called with numpy arrays."""
    values = [a._value for a in arrays]
    if classes.inside_kernel():
        made = [np.asarray(v) for v in build(values)]
        return [make(v) for v in (made if function == "cast" else _of_their_type(made, values))]
    key = (make, function, settings)  # a sum is another one in another style
    outputs = [make(v) for v in run(key, build, values)]
    if record and any(a._on_tape() for a in arrays):

        def back(dys: Sequence[np.ndarray], wanted: Sequence[bool]) -> List[Optional[np.ndarray]]:
            chosen = [i for i, w in enumerate(wanted) if w and values[i].dtype.kind == "f"]
            found = dict(zip(chosen, run_gradient(key, build, values, dys, chosen)))
            return [found.get(i) for i in range(len(values))]

        Node(arrays, outputs, back)
    return outputs


def number_key(value: Any) -> Hashable:
    """Of a number that is in a compiled graph: -0.0 is not 0.0, 1.0 is not 1, and integers beyond 2^53 are told apart."""
    float(value)  # what is no number is a TypeError
    return type(value).__name__, repr(value)


def equal(x: Any, y: Any) -> Any:
    """Where the values are equal; of tensors of graphs, whose == asks whether they are one, and of numpy's arrays."""
    if not isinstance(x, opc.Tensor):
        return x == y
    return opc.ops.broadcast_equal(x, y) if isinstance(y, opc.Tensor) else _operators._scalar("scalar_logical_equal", x, y)


def not_equal(x: Any, y: Any) -> Any:
    """Where they are not."""
    if not isinstance(x, opc.Tensor):
        return x != y
    return opc.ops.broadcast_not_equal(x, y) if isinstance(y, opc.Tensor) else _operators._scalar("scalar_logical_not_equal", x, y)


def _of_their_type(made: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Floats give floats of their type, as ops do. With a number numpy makes f64 of an array without dimensions."""
    if not values or any(v.dtype.kind != "f" for v in values):
        return list(made)
    kind = np.result_type(*[v.dtype for v in values])
    return [v.astype(kind, copy=False) if v.dtype.kind == "f" else v for v in made]


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return run("sum of gradients", lambda t: [opc.ops.add_n(t)], [a, b])[0]


def refuse_inside_kernel() -> None:
    """What an operator's own code computes is not on the tape: there would be no gradients, without a word."""
    if classes.inside_kernel():
        raise RuntimeError("backward is called within an operator's own code, where nothing is recorded: compute the gradient there from what is saved")


def backward(heads: Sequence[Array], gradients: Sequence[np.ndarray]) -> None:
    """Goes through the tape from the heads, and gives every array that wants one its gradient, once."""
    refuse_inside_kernel()
    waiting: Dict[int, Tuple[Node, List[Optional[np.ndarray]]]] = {}
    leaves: Dict[int, Tuple[Array, np.ndarray]] = {}
    order: List[int] = []

    def reach(array: Array, gradient: np.ndarray) -> None:
        if array._leaf():
            known = leaves.get(id(array))
            leaves[id(array)] = (array, gradient if known is None else _add(known[1], gradient))
        node = array._node
        if node is None:
            return
        if node.number not in waiting:
            waiting[node.number] = (node, [None] * len(node.zeros))
            heapq.heappush(order, -node.number)
        got = waiting[node.number][1]
        before = got[array._index]
        got[array._index] = gradient if before is None else _add(before, gradient)

    for head, gradient in zip(heads, gradients):
        reach(head, gradient)
    while order:
        node, got = waiting.pop(-heapq.heappop(order))
        wanted = [a._on_tape() for a in node.inputs]
        node.reached[:] = [g is not None for g in got]
        for array, gradient, w in zip(node.inputs, node.back(filled(got, node.zeros), wanted), wanted):
            if w and gradient is not None:
                reach(array, gradient)
    for array, gradient in leaves.values():
        array._receive(gradient)


def filled(dys: Sequence[Optional[np.ndarray]], zeros: Sequence[Tuple[Tuple[int, ...], Any]]) -> List[np.ndarray]:
    """Zeros for outputs that no gradient has reached."""
    return [np.zeros(*z) if dy is None else dy for dy, z in zip(dys, zeros)]
