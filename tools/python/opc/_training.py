"""Training: batches of data sets through a training step, with checkpoints that go on bit for bit.

The order of the batches, the checkpoints and the lines of metrics are those of `opc run --feed-dataset`: a run may begin in
Python and go on at the command line.
"""
# SPDX-License-Identifier: Apache-2.0
import math
import os
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import numpy as np

from . import _core, _numbers
from ._errors import ExecutionError, failure, usage
from ._graph import Graph
from ._identity import OneOfAKind
from ._program import Program, Session

Metrics = Dict[str, float]
Path = Union[str, "os.PathLike[str]"]


class Training(OneOfAKind):
    """A run of training: its session, how far it is, and what was measured.

    step, epoch: completed. history: a dict for each step of this run, with "step", "epoch" and every output of one element.
    """

    _way_out = "training.save(path) writes a checkpoint, and opc.train(..., resume=path) goes on from it"

    def __init__(self, session: Session, data: Mapping[str, Any], shuffle: bool, seed: int, inputs: Mapping[str, Any]) -> None:
        self.session = session
        self.seed = seed
        self.step = 0
        self.history: List[Dict[str, Any]] = []
        self._batches = _core.Batches(session._core, _data(data), bool(shuffle), seed)
        self._inputs = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}  # the same in each step
        self.steps_per_epoch: int = self._batches.steps_per_epoch
        self._notes = {"batch": str(self._batches.batch), "examples": str(self._batches.examples), "shuffle": "true" if shuffle else "false"}
        self._notes.update(self._batches.contents)
        self._first = True

    def __repr__(self) -> str:
        last = "".join(f", {k} {v:.4g}" for k, v in (self.history[-1] if self.history else {}).items() if k not in ("step", "epoch"))
        return f"<opc.Training: step {self.step}, epoch {self.epoch} of {self.steps_per_epoch} steps each{last}>"

    @property
    def epoch(self) -> int:
        return self.step // self.steps_per_epoch

    @property
    def variables(self) -> Any:
        return self.session.variables

    def run_step(self) -> Dict[str, Any]:
        """One step: the next batch in, the numbers out."""
        self._batches.feed(self.session._core, self.step)
        try:
            outputs = self.session._core.run(self._inputs if self._first else {}, 1)
        except ExecutionError as e:
            e.add_note(f"in step {self.step + 1}") if hasattr(e, "add_note") else None
            raise
        self._first = False
        self.step += 1
        line: Dict[str, Any] = {"step": self.step, "epoch": (self.step - 1) // self.steps_per_epoch + 1}
        line.update((name, float(value.reshape(())[()])) for name, value in outputs.items() if value.size == 1 and value.dtype.kind in "fiu")
        self.history.append(line)
        return line

    def save(self, path: Path) -> None:
        """A checkpoint: every variable, the optimizer's state among them, and how far the run is. The name stands for a
        complete file at any time. A state that is not finite is not written (OPC0621)."""
        path = os.fspath(path)
        _core.check_checkpoint_name(path)
        odd = _core.write_checkpoint(self.session._core, path, self.step, self.epoch, self.seed, self._notes, False)
        if odd:
            raise failure(5, "OPC0621", f"the variables {', '.join(odd)} are not finite after step {self.step}", f"{path} is left as it was; go on from it with a smaller rate")

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint. OPC0712 when it is of another run: other data, batches, order or seed."""
        path = os.fspath(path)
        step, _, seed, _ = _core.read_checkpoint(self.session._core, path, self._notes)
        if seed != self.seed:
            raise usage(f"{path} is of a run with seed {seed}, this one has seed {self.seed}", "leave out seed=", "OPC0712")
        self.step = step


def _data(data: Mapping[str, Any]) -> Dict[str, Any]:
    """Data sets by input; files by their names."""
    if not isinstance(data, Mapping):
        raise TypeError(f"data is a dict, such as {{'x': images, 'label': 'labels.npy'}}, not a {type(data).__name__}")
    return {name: os.fspath(d) if isinstance(d, os.PathLike) else d for name, d in data.items()}


class _Progress:
    """A line on a terminal that is written anew; elsewhere a line every ten seconds."""

    def __init__(self, wanted: Optional[bool], total: int, first: int) -> None:
        self._terminal = sys.stderr.isatty()
        self._wanted = wanted if wanted is not None else self._terminal
        self._total, self._first, self._start = total, first, time.monotonic()
        self._shown = self._start if not self._terminal else 0.0
        self._visible = False

    def show(self, line: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if not self._wanted or now - self._shown < (0.1 if self._terminal else 10.0):
            return
        self._shown = now
        done = line["step"] - self._first
        rate = done / max(now - self._start, 1e-9)
        left = (self._total - line["step"]) / max(rate, 1e-9)
        values = "  ".join(f"{k} {v:.4g}" for k, v in line.items() if k not in ("step", "epoch"))
        bar = "#" * (20 * line["step"] // max(self._total, 1))
        text = f"epoch {line['epoch']}  step {line['step']}/{self._total} [{bar:<20}] {values}  {rate:.3g} steps/s  {left:.0f} s left"
        sys.stderr.write(("\r\x1b[K" if self._terminal else "") + text + ("" if self._terminal else "\n"))
        sys.stderr.flush()
        self._visible = self._terminal

    def clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")


class _Validation:
    """A forward graph on other data, with the variables as they are."""

    def __init__(self, graph: Union[Graph, Program], data: Mapping[str, Any], threads: int) -> None:
        program = graph.compile() if isinstance(graph, Graph) else graph
        self._session = program.session(threads=threads)
        self._batches = _core.Batches(self._session._core, _data(data), False, 0)

    def measure(self, trained: Session) -> Metrics:
        for name in self._session.variables:
            self._session.variables[name] = trained.variables[name]
        sums: Dict[str, List[float]] = {}
        for step in range(self._batches.steps_per_epoch):
            self._batches.feed(self._session._core, step)
            for name, value in self._session._core.run({}, 1).items():
                if value.size == 1 and value.dtype.kind in "fiu":
                    sums.setdefault("val." + name, []).append(float(value.reshape(())[()]))
        return {name: math.fsum(values) / len(values) for name, values in sums.items()}


def _check_together(
    epochs: Optional[int], steps: Optional[int], save: Any, save_every: int, validate: Any, validate_graph: Any, validate_every: int
) -> None:
    """What one parameter says of another."""
    if epochs is not None and steps is not None:
        raise usage("epochs and steps both say when to stop", "give one of them")
    if save_every and not save:
        raise usage("save_every goes with save", 'save="run.safetensors", save_every=100')
    if (validate is None) != (validate_graph is None):
        raise usage("validate and validate_graph go together", 'validate={"x": x_test, "label": labels_test}, validate_graph=forward')
    if validate_every and validate is None:
        raise usage("validate_every goes with validate")


def _odd(line: Mapping[str, Any]) -> str:
    """"loss nan": the numbers that are not finite."""
    return "  ".join(f"{k} {v}" for k, v in line.items() if not math.isfinite(v))


def _seed_of(path: str, given: Optional[int]) -> int:
    if given is not None:
        return given
    return int(_core.file_metadata(path).get("seed", 0)) if path else 0


def train(
    step: Union[Graph, Program],
    data: Mapping[str, Any],
    *,
    epochs: Optional[int] = None,
    steps: Optional[int] = None,
    shuffle: bool = False,
    seed: Optional[int] = None,
    inputs: Optional[Mapping[str, np.ndarray]] = None,
    weights: Optional[Path] = None,
    save: Optional[Path] = None,
    save_every: int = 0,
    resume: Optional[Path] = None,
    metrics: Optional[Path] = None,
    validate: Optional[Mapping[str, Any]] = None,
    validate_graph: Optional[Union[Graph, Program]] = None,
    validate_every: int = 0,
    on_step: Optional[Callable[[Training, Dict[str, Any]], Optional[bool]]] = None,
    stop_on_nan: bool = False,
    progress: Optional[bool] = None,
    threads: int = 0,
    ranks: int = 0,
) -> Training:
    """Runs a training step over data sets, batch by batch.

    step: of `graph.training_step(...)`, or a program. data: input -> array, or a file's name ("x.npy", "d.npz:x"), with one example
    for each index of the first axis. epochs or steps: when to stop, counted from the beginning of the run, also of one that goes
    on; one epoch when neither is given. inputs: what else is fed, the same in each step. weights: a file of initial values.
    save, save_every, resume: checkpoints; Ctrl-C saves one before it goes on as KeyboardInterrupt. metrics: a file of JSON lines.
    validate, validate_graph, validate_every: the means of a forward graph's outputs over other data, as "val.NAME"; after
    each epoch when not said. on_step(training, line): sees each step; True ends the run. progress: by default on a terminal.
    """
    epochs = None if epochs is None else _numbers.count(epochs, "epochs")
    steps = None if steps is None else _numbers.count(steps, "steps")
    save_every = _numbers.count(save_every, "save_every", also="0 for the end alone")
    validate_every = _numbers.count(validate_every, "validate_every", also="0 for each epoch")
    _check_together(epochs, steps, save, save_every, validate, validate_graph, validate_every)
    weights, save, resume, metrics = (None if path is None else os.fspath(path) for path in (weights, save, resume, metrics))
    if save:
        _core.check_checkpoint_name(save)
    program = step.compile() if isinstance(step, Graph) else step
    chosen = _seed_of(resume or "", seed)
    session = program.session(seed=chosen, threads=threads, ranks=ranks)
    training = Training(session, data, shuffle, chosen, inputs or {})
    if weights:
        session.load_weights(weights, partial=True)
    if resume:
        training.resume(resume)
    total = steps if steps is not None else (1 if epochs is None else epochs) * training.steps_per_epoch
    log = _core.MetricsFile(metrics, training.step) if metrics else None
    validation = _Validation(validate_graph, validate, threads) if validate is not None and validate_graph is not None else None
    bar = _Progress(progress, total, training.step)
    try:
        while training.step < total:
            line = training.run_step()
            if validation and training.step % (validate_every or training.steps_per_epoch) == 0:
                line.update(validation.measure(session))
            if log:
                log.write(line["step"], line["epoch"], [(k, v) for k, v in line.items() if k not in ("step", "epoch")])
            bar.show(line)
            if stop_on_nan and not all(math.isfinite(v) for v in line.values()):
                raise failure(5, "OPC0621", f"{_odd(line)} at step {training.step}", "a smaller rate, or clip_norm= of the optimizer, keeps the numbers small")
            if save and save_every and training.step % save_every == 0:
                if log:
                    log.flush()
                training.save(save)
            if on_step and on_step(training, line):
                break
    finally:
        bar.clear()
        if log:
            log.flush()
        if save and not isinstance(sys.exc_info()[1], ExecutionError):
            training.save(save)
    return training
