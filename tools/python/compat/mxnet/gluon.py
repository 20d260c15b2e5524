"""Blocks with parameters: mx.gluon."""
# SPDX-License-Identifier: Apache-2.0
import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import numpy as np

from .base import MXNetError
from .ndarray import NDArray

Init = Union[None, str, float, Callable[[Sequence[int]], np.ndarray]]


class Parameter:
    """Values that a block learns."""

    def __init__(self, name: str, shape: Sequence[int], dtype: Any = "float32", init: Init = None, grad_req: str = "write") -> None:
        self.name, self.shape, self.dtype, self.init, self.grad_req = name, tuple(shape), dtype, init, grad_req
        self._data: Optional[NDArray] = None

    def initialize(self, init: Init = None, ctx: Any = None, default_init: Init = None, force_reinit: bool = False) -> None:
        """Draws the values; without an initializer evenly from [-0.07, 0.07)."""
        if self._data is None or force_reinit:
            chosen = init if init is not None else self.init if self.init is not None else default_init
            self.set_data(NDArray(self._draw(chosen)))

    def _draw(self, init: Init) -> np.ndarray:
        from . import random

        if init is None:
            return random.uniform(-0.07, 0.07, self.shape, self.dtype)._value
        if init in ("zeros", "ones"):
            return np.full(self.shape, float(init == "ones"), self.dtype)
        if callable(init):
            return np.asarray(init(self.shape), self.dtype)
        if isinstance(init, str):
            raise MXNetError(f"parameter {self.name}: an initializer is 'zeros', 'ones', a number or a function of the shape, not {init!r}")
        return np.full(self.shape, init, self.dtype)

    def data(self, ctx: Any = None) -> NDArray:
        if self._data is None:
            raise MXNetError(f"parameter {self.name} has no values: call initialize() first")
        return self._data

    def set_data(self, data: NDArray) -> None:
        if data.shape != self.shape:
            raise MXNetError(f"parameter {self.name} has shape {self.shape}, the values {data.shape}")
        own = np.array(data._value, self.dtype)  # what becomes of the caller's array is nothing to the parameter
        if self._data is None:
            self._data = NDArray(own)
            self._data.attach_grad(self.grad_req)
        else:
            self._data._value = own

    def grad(self, ctx: Any = None) -> NDArray:
        grad = self.data().grad
        if grad is None:
            raise MXNetError(f"parameter {self.name} has grad_req='null'")
        return grad

    def zero_grad(self) -> None:
        self.grad()._value = np.zeros_like(self.grad()._value)

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"


class ParameterDict(Dict[str, Parameter]):
    """Parameters by full name."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self.prefix = prefix

    def get(self, name: str, default: Any = None, **kwargs: Any) -> Parameter:  # type: ignore[override]
        """The parameter of that name behind the prefix, made when there is none."""
        full = self.prefix + name
        if full not in self:
            self[full] = Parameter(full, **kwargs)
        return self[full]

    def initialize(self, init: Init = None, ctx: Any = None, force_reinit: bool = False) -> None:
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit)


class Block:
    """A part of a net: parameters, blocks within, and `forward`."""

    _counts: Dict[str, Iterator[int]] = {}

    def __init__(self, prefix: Optional[str] = None, params: Optional[ParameterDict] = None) -> None:
        kind = type(self).__name__.lower()
        number = next(Block._counts.setdefault(kind, itertools.count())) if prefix is None else 0
        self.prefix = f"{kind}{number}_" if prefix is None else prefix
        self._children: List[Block] = []
        self.params = params if params is not None else ParameterDict(self.prefix)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Block):
            self._children.append(value)
        super().__setattr__(name, value)

    def collect_params(self) -> ParameterDict:
        """Its own and those of the blocks within."""
        all_ = ParameterDict(self.params.prefix)
        all_.update(self.params)
        for child in self._children:
            all_.update(child.collect_params())
        return all_

    def initialize(self, init: Init = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        self.collect_params().initialize(init, ctx, force_reinit)

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")
