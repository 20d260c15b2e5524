"""Compiled graphs and their sessions."""
# SPDX-License-Identifier: Apache-2.0
import os
import threading
import weakref
from typing import Any, Dict, Iterator, MutableMapping, Optional, Tuple, Union

import numpy as np

from . import _core, _numbers
from ._dtypes import DType, dtype
from ._identity import OneOfAKind


def _ports(listed: Any) -> str:
    return ", ".join(f"{name} {kind}[{','.join(map(str, shape))}]" for name, shape, kind in listed) or "none"


class Variables(OneOfAKind, MutableMapping[str, np.ndarray]):
    """The variables of a session by name. Reading copies, setting copies."""

    _way_out = "dict(variables) has their values, save_weights(path) writes them"

    def __init__(self, core: Any) -> None:
        self._core = core
        self._names = [name for name, _, _ in core.variables]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._core.variable(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable is a str, not {name!r}")
        self._core.set_variable(name, value)

    def __delitem__(self, name: str) -> None:
        raise TypeError("a variable of a session cannot be removed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<opc variables: {_ports(self._core.variables)}>"


class Session(OneOfAKind):
    """A program with memory and variables of its own. One thread at a time; different sessions run at once.

    seed: of initializers and random ops. threads: 0 for as many as there are cores. ranks: threads that are the devices of a
    program for a mesh; 0 for as many as it has. codegen: whether regions may become machine code. allow_native: whether
    machine code that came with the plan (`opc compile --native`) runs; it is as trusted as the program that says so.
    allow_tf32: whether products of f32 may round their factors to TF32, in a plan for a GPU that has units for it.
    """

    _way_out = "program.session() makes another one, save_weights(path) keeps its variables"

    def __init__(
        self,
        program: "Program",
        seed: int = 0,
        threads: int = 0,
        max_memory: int = 0,
        ranks: int = 0,
        codegen: bool = True,
        allow_native: bool = False,
        allow_tf32: bool = False,
    ) -> None:
        self.program = program
        self._core = _core.Session(
            program._core,
            _numbers.seed(seed),
            _numbers.whole(threads, "threads", also="0 for as many as there are cores", allowed=(0,)),
            _numbers.size(max_memory, "max_memory"),
            _numbers.whole(ranks, "ranks", also="0 for as many as the program has", allowed=(0,)),
            _numbers.truth(codegen, "codegen"),
            _numbers.truth(allow_native, "allow_native"),
            _numbers.truth(allow_tf32, "allow_tf32"),
        )
        self.variables = Variables(self._core)

    def __repr__(self) -> str:
        return f"<opc.Session: inputs {_ports(self._core.inputs)}; outputs {_ports(self._core.outputs)}; {len(self.variables)} variables; step {self.step}>"

    def load_weights(self, path: Union[str, "os.PathLike[str]"], partial: bool = False) -> int:
        """Sets the variables from a .safetensors, .npz or folder; how many. Files that lack some are refused unless `partial`."""
        return self._core.load_variables(os.fspath(path), _numbers.truth(partial, "partial"), "partial")

    def save_weights(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes every variable: .npz when the name ends so, else safetensors. A model's own files are refused."""
        if self.program._of_model:
            _core.spare_model(os.fspath(path), self.program._of_model, "save_weights")
        self._core.save_variables(os.fspath(path))

    def fetch(self, name: str) -> Any:
        """An output of the last run as a tensor that its taker owns: `torch.from_dlpack(session.fetch("y"))`, `.numpy()`."""
        if not isinstance(name, str):
            raise TypeError(f"the name of an output is a str, not {name!r}")
        return self._core.fetch(name)

    @property
    def stats(self) -> Dict[str, int]:
        """Tasks, streams, bytes of arenas and constants, steps so far."""
        return self._core.stats

    def run(self, steps: int = 1, /, **inputs: Any) -> Dict[str, np.ndarray]:
        """Feeds the inputs, runs that many steps, and gives every output as an array of its own.

        An input keeps the array that it was fed: each run reads it as it then is, until another is fed. Names that are no identifiers: `run(**{"a.b": x})`.
        """
        return self._core.run(inputs, steps)

    @property
    def step(self) -> int:
        """The number of the next step."""
        return self._core.step

    @step.setter
    def step(self, value: int) -> None:
        self._core.step = _numbers.count(value, "step", also="0 for the first one")

    @property
    def inputs(self) -> Dict[str, Tuple[Tuple[int, ...], DType]]:
        return {name: (shape, dtype(kind)) for name, shape, kind in self._core.inputs}

    @property
    def outputs(self) -> Dict[str, Tuple[Tuple[int, ...], DType]]:
        return {name: (shape, dtype(kind)) for name, shape, kind in self._core.outputs}


class Program(OneOfAKind):
    """A compiled graph. `run` uses a session that is made when first needed."""

    _way_out = "program.save(path) writes its plan and opc.load(path) reads it; opc.Program.from_plan(program.plan) makes another one"

    def __init__(self, core: Any, name: str = "program") -> None:
        self._core = core
        self.name = name
        self._session: Optional[Session] = None
        self._parents: Optional[Session] = None  # of the process that forked
        self._making = threading.Lock()
        self._of_model = ""  # the path of the model that it is made of
        _programs.add(self)

    @classmethod
    def from_plan(cls, plan: bytes, name: str = "program") -> "Program":
        """A program from the bytes of a plan. What they mean is checked when a session is made."""
        if not isinstance(plan, bytes):
            raise TypeError(f"a plan is bytes, not a {type(plan).__name__}; opc.load reads files")
        return cls(_core.CompiledProgram(plan), name)

    def __repr__(self) -> str:
        weights = f" and {self._core.value_bytes:,} of weights" if self._core.value_bytes else ""
        return f"<opc.Program {self.name}: a plan of {self._core.plan_bytes:,} bytes{weights}>"

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the plan: `opc run`, `opc-runtime` and `opc.load` take it. A model's own files are refused."""
        if self._of_model:
            _core.spare_model(os.fspath(path), self._of_model, "save")
        _core.write_file(os.fspath(path), self.plan)

    def load_weights(self, path: Union[str, "os.PathLike[str]"], partial: bool = False) -> int:
        """`Session.load_weights` of the session that `run` uses."""
        return self.default_session.load_weights(path, partial)

    def save_weights(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """`Session.save_weights` of the session that `run` uses."""
        self.default_session.save_weights(path)

    @property
    def plan(self) -> bytes:
        """The plan, as `opc compile` writes it."""
        return self._core.plan

    def session(
        self,
        seed: int = 0,
        threads: int = 0,
        max_memory: int = 0,
        ranks: int = 0,
        codegen: bool = True,
        allow_native: bool = False,
        allow_tf32: bool = False,
    ) -> Session:
        """A new session: the same program with other values."""
        return Session(self, seed, threads, max_memory, ranks, codegen, allow_native, allow_tf32)

    @property
    def default_session(self) -> Session:
        return self._session or self._make_session()

    def _make_session(self) -> Session:
        # Whoever waited here within a kernel could wait for a thread that waits for the kernel.
        if not self._making.acquire(blocking=False):
            raise RuntimeError("this session is being made in another thread; make a session for each thread: program.session()")
        try:
            if self._session is None:
                made = self.session()
                if self._parents:
                    for name in self._parents.variables:
                        made.variables[name] = self._parents.variables[name]
                    made.step = self._parents.step
                self._session = made
            return self._session
        finally:
            self._making.release()

    @property
    def variables(self) -> Variables:
        """Those of the session that `run` uses."""
        return self.default_session.variables

    def run(self, steps: int = 1, /, **inputs: Any) -> Dict[str, np.ndarray]:
        """Runs in the program's own session: see `Session.run`."""
        return self.default_session._core.run(inputs, steps)


_programs: "weakref.WeakSet[Program]" = weakref.WeakSet()


def _after_fork() -> None:
    """In the child. A session's threads stay behind: each program makes another session, which goes on with the values."""
    for program in _programs:
        program._making = threading.Lock()  # a thread that held the other one stayed behind
        if program._session:
            program._session, program._parents = None, program._session


os.register_at_fork(after_in_child=_after_fork)
