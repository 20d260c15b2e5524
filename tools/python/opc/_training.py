"""Training: batches of data sets through a training step, with checkpoints that go on bit for bit.

The order of the batches, the checkpoints and the lines of metrics are those of `opc run --feed-dataset`: a run may begin in
Python and go on at the command line.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays, _core, _numbers
from ._errors import ExecutionError, OpcWarning, failure, usage
from ._graph import Graph
from ._identity import OneOfAKind
from ._program import Program, Session

Path = Union[str, "os.PathLike[str]"]


class Training(OneOfAKind):
    """A run of training: its session, how far it is, and what was measured.

    step, epoch: completed. history: a dict for each step of this run, with "step", "epoch" and every output of one element ("output.step" if one is called "step").
    best: (metric, value, step) of keep_best. out_of_patience: whether that ended the run.
    """

    _way_out = "training.save(path) writes a checkpoint, and opc.train(..., resume=path) goes on from it"

    def __init__(self, session: Session, data: Mapping[str, Any], shuffle: bool, seed: int, inputs: Mapping[str, Any]) -> None:
        self.session = session
        self.seed = seed
        self.step = 0
        self.history: List[Dict[str, Any]] = []
        self.best: Optional[Tuple[str, float, int]] = None
        self.out_of_patience = False
        self._batches = _core.Batches(session._core, _data(data), shuffle, seed)
        for name, value in inputs.items():
            _arrays.refuse_mask(value, f"input '{name}'")
        self._inputs = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}  # the same in each step
        self.steps_per_epoch: int = self._batches.steps_per_epoch
        self._notes: Dict[str, str] = {**_core.run_notes(self._batches.batch, self._batches.examples, shuffle), **self._batches.contents}
        self._resumed: Dict[str, str] = {}  # what the checkpoint says
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
        line.update((_core.metric_name(name), float(value.reshape(())[()])) for name, value in outputs.items() if value.size == 1 and value.dtype.kind in "fiu")
        self.history.append(line)
        return line

    def save(self, path: Path) -> None:
        """A checkpoint: every variable, the optimizer's state among them, and how far the run is. The name stands for a
        complete file at any time. A state that is not finite is not written (OPC0621)."""
        path = os.fspath(path)
        if self.session.program._of_model:
            _core.spare_model(path, self.session.program._of_model, "save")
        _core.check_checkpoint_name(path)
        odd = _core.write_checkpoint(self.session._core, path, self.step, self.epoch, self.seed, self._notes, False)
        if odd:
            raise failure(5, "OPC0621", f"the variables {', '.join(odd)} are not finite after step {self.step}", f"{path} is left as it was; go on from it with a smaller rate")

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint. OPC0712 when it is of another run: other data, batches, order or seed."""
        path = os.fspath(path)
        step, _, seed, self._resumed = _core.read_checkpoint(self.session._core, path, self._notes)
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


def _seed_of(path: str, given: Optional[int]) -> int:
    if given is not None:
        return given
    return int(_core.file_metadata(path).get("seed", 0)) if path else 0


def _stop_kinds(stop_on: Union[str, Sequence[str]]) -> Dict[str, bool]:
    """ "nan,inf" or a sequence of these."""
    if not isinstance(stop_on, (str, Sequence)):
        raise TypeError(f"stop_on takes 'nan', 'inf' or both, not {stop_on!r}")
    kinds = stop_on.split(",") if isinstance(stop_on, str) and stop_on else list(stop_on)
    if not all(k in ("nan", "inf") for k in kinds):
        raise usage(f"stop_on takes 'nan', 'inf' or both, not {stop_on!r}", 'stop_on="nan,inf"')
    return {"stop_nan": "nan" in kinds, "stop_inf": "inf" in kinds}


def _numbers_of(session: Session) -> List[str]:
    """The outputs of one element."""
    return [_core.metric_name(name) for name, (shape, kind) in session.outputs.items() if all(d == 1 for d in shape) and kind[0] in "fiu" and kind.numpy]


def _check_learns(program: Program, is_saved: bool) -> None:
    """The slip of everybody's first day: a graph without the ops that train it. Without `save` it may be meant."""
    if _core.writes_variables(program._core):
        return
    message, help = f"{program.name} trains nothing: no op of it writes a variable", 'make the step first: graph.training_step("loss", opc.optim.Adam())'
    if is_saved:
        raise usage(message, help)
    warnings.warn(f"{message}; {help}", OpcWarning, stacklevel=3)


class _Keeping:
    """The files of a run, and what is to be said of them (tools/opc/training/TrainingRecord.h)."""

    def __init__(self, training: Training, options: Dict[str, Any], reads: Sequence[Tuple[str, str]], title: str, validates: bool) -> None:
        core = training.session._core
        self.training = training
        self._core = _core.Record(core, options, list(reads), training._notes, training.seed, training.steps_per_epoch, title, validates)
        self._core.restore(training._resumed)

    def open(self, names: Sequence[str]) -> None:
        self._core.check_best(list(names))
        self._core.open(self.training.step)

    def add(self, line: Dict[str, Any], validated: int) -> int:
        values = [(k, v) for k, v in line.items() if k not in ("step", "epoch")]
        ending = self._core.add(line["step"], line["epoch"], values, validated)
        self._say()
        return ending

    def finish(self) -> None:
        try:
            self._core.finish()
        finally:
            self._say()

    def close(self) -> None:
        self._core.flush()
        self.training.best = self._core.best
        self._core.close()

    def _say(self) -> None:
        for text in self._core.said():
            warnings.warn(text, OpcWarning, stacklevel=5)


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
    partial_weights: bool = False,
    save: Optional[Path] = None,
    save_every: int = 0,
    keep: int = 0,
    keep_best: str = "",
    patience: int = 0,
    resume: Optional[Path] = None,
    metrics: Optional[Path] = None,
    metrics_every: int = 0,
    plot: Optional[Path] = None,
    validate: Optional[Mapping[str, Any]] = None,
    validate_graph: Optional[Union[Graph, Program]] = None,
    validate_every: int = 0,
    on_step: Optional[Callable[[Training, Dict[str, Any]], Optional[bool]]] = None,
    stop_on: Union[str, Sequence[str]] = (),
    progress: Optional[bool] = None,
    threads: int = 0,
    ranks: int = 0,
) -> Training:
    """Runs a training step over data sets, batch by batch.

    step: of `graph.training_step(...)`, or a program. data: input -> array, or a file's name ("x.npy", "d.npz:x"), with one example
    for each index of the first axis. epochs or steps: when to stop, counted from the beginning of the run, also of one that goes
    on; one epoch when neither is given. inputs: what else is fed, the same in each step. weights: a file of initial values; with
    partial_weights variables that it lacks, an optimizer's state say, begin as the graph initialises them.
    save, save_every, resume: checkpoints; Ctrl-C saves one before it goes on as KeyboardInterrupt. A state that is not finite goes
    to FILE.nonfinite. keep: so many of them stay, under the numbers of their steps. keep_best: "loss", or "val.accuracy:max" where
    more is better; that state goes to FILE.best. patience: ends when it was not better so often in a row. metrics,
    metrics_every: a file of JSON lines. plot: curves as SVG. validate, validate_graph, validate_every: the means of a forward
    graph's outputs over other data, as "val.NAME"; after each epoch when not said. on_step(training, line): sees each step;
    True ends the run. stop_on: "nan", "inf" or both. progress: by default on a terminal.
    """
    weights, save, resume, metrics, plot = (None if path is None else os.fspath(path) for path in (weights, save, resume, metrics, plot))
    options = {
        "epochs": None if epochs is None else _numbers.count(epochs, "epochs"),
        "steps": None if steps is None else _numbers.count(steps, "steps"),
        "save_every": _numbers.count(save_every, "save_every", also="0 for the end alone"),
        "keep": _numbers.count(keep, "keep", also="0 for none"),
        "patience": _numbers.count(patience, "patience", also="0 for any"),
        "metrics_every": _numbers.count(metrics_every, "metrics_every", also="0 for each step"),
        "save": save, "resume": resume, "metrics": metrics, "plot": plot, "keep_best": keep_best, **_stop_kinds(stop_on),
    }  # fmt: skip
    validate_every = _numbers.count(validate_every, "validate_every", also="0 for each epoch")
    shuffle, partial_weights = _numbers.truth(shuffle, "shuffle"), _numbers.truth(partial_weights, "partial_weights")
    progress = None if progress is None else _numbers.truth(progress, "progress")
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step is a function of the training and its line, not {on_step!r}")
    if partial_weights and weights is None:
        raise usage("partial_weights goes with weights")
    if not isinstance(keep_best, str):
        raise TypeError(f"keep_best is the name of an output, such as 'val.loss', not {keep_best!r}")
    if (validate is None) != (validate_graph is None):
        raise usage("validate and validate_graph go together", 'validate={"x": x_test, "label": labels_test}, validate_graph=forward')
    if validate_every and validate is None:
        raise usage("validate_every goes with validate")
    _core.check_training_options(options)
    files, inputs = _data(data), inputs or {}
    program = step.compile() if isinstance(step, Graph) else step
    _check_learns(program, save is not None)
    chosen = _seed_of(resume or "", seed)
    session = program.session(seed=chosen, threads=threads, ranks=ranks)
    training = Training(session, files, shuffle, chosen, inputs)
    if weights:
        session._core.load_variables(weights, partial_weights, "partial_weights")
    if resume:
        training.resume(resume)
    total = steps if steps is not None else (1 if epochs is None else epochs) * training.steps_per_epoch
    validation = None
    if validate is not None and validate_graph is not None:
        forward = validate_graph.compile() if isinstance(validate_graph, Graph) else validate_graph
        validation = _core.Validation(forward._core, session._core, _data(validate), dict(inputs), threads, forward.name)
    if training.step >= total:
        return training
    reads = [(f, "--data") for f in files.values() if isinstance(f, str)] + [(f, option) for f, option in ((weights, "--weights"), (resume, "--resume")) if f]
    for file, parameter in ((save, "save"), (metrics, "metrics"), (plot, "plot")):
        if file and session.program._of_model:
            _core.spare_model(file, session.program._of_model, parameter)
    keeping = _Keeping(training, options, reads, program.name, validation is not None)
    bar = _Progress(progress, total, training.step)
    try:
        keeping.open([*_numbers_of(session), *(validation.names if validation else ())])
        _steps(training, total, keeping, bar, validation, validate_every or training.steps_per_epoch, on_step)
    finally:
        bar.clear()
        keeping.close()
    return training


def _steps(training: Training, total: int, keeping: _Keeping, bar: _Progress, validation: Any, validate_every: int, on_step: Any) -> None:
    """All steps, or those until something ends the run. What was learnt is saved unless opc itself has failed."""
    try:
        while training.step < total:
            line = training.run_step()
            validated = validation.run(training.session._core) if validation and training.step % validate_every == 0 else []
            line.update(validated)
            ending = keeping.add(line, len(validated))
            bar.show(line)
            training.out_of_patience = ending == _core.out_of_patience
            if on_step and on_step(training, line) or ending:
                break
    except ExecutionError:
        raise
    except BaseException:
        keeping.finish()
        raise
    keeping.finish()
