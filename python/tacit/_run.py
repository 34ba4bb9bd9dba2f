"""Training, and what there is afterwards."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Union, cast

import numpy as np

from . import _json, _tacit
from ._config import ConfigLike, resolve
from ._data import Data, as_data
from ._progress import watch
from .errors import ConfigError, Interrupted, MismatchError, NotFoundError

PathLike = Union[str, "os.PathLike[str]"]


def _escape(text: Any) -> str:
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Plan(Mapping[str, Any]):
    """What a run will do and cost, from public constants alone.

    A mapping with everything that ``tacit plan --json`` prints.

    >>> import tacit
    >>> plan = tacit.plan(data="synthetic-logistic", epsilon=2.0, rounds=10)
    >>> plan["rounds"], plan.epsilon <= 2.0
    (10, True)
    >>> plan.sigma.shape
    (10,)
    """

    def __init__(self, document: "dict[str, Any]"):
        self._document = document

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def _ipython_key_completions_(self) -> "list[str]":
        return list(self)

    @property
    def epsilon(self) -> float:
        """What the planned releases cost at most, at ``delta``."""
        return float(self["certified_epsilon"])

    @property
    def delta(self) -> float:
        """The δ that goes with ``epsilon``."""
        return float(self["delta"])

    @property
    def sigma(self) -> np.ndarray:
        """The noise on what is released, round by round."""
        return np.array([r["sigma"] for r in self["schedule"]])

    def __repr__(self) -> str:
        return (
            f"Plan({self['algorithm']}, {self['mode']} mode: {self['rounds']} rounds at {self['clients']} clients, "
            f"ε ≤ {_json.up(self.epsilon, 6)} at δ = {self.delta:g} for one {self['unit']})"
        )


def _holding(found: str) -> "dict[str, Any]":
    verified: "dict[str, Any]" = _json.loads(found)
    if not verified["holds"]:
        raise MismatchError(verified["findings"][0]["sentence"])
    return verified


class Certificate(Mapping[str, Any]):
    """What a run promises, and what that follows from: the content of ``certificate.json``.

    ``verify()`` works the figures out again from what the certificate says was released.

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, keep=False, progress=False)
    >>> c = run.certificate
    >>> c.epsilon <= 2.0, c.delta, c.unit, c["privacy"]["adjacency"]
    (True, 1e-05, 'record', 'replace-one')
    >>> c.verify()["holds"]
    True
    """

    def __init__(self, text: str, folder: Optional[Path] = None):
        self._text = text
        self._document = _json.loads(text)
        self._folder = folder

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def _ipython_key_completions_(self) -> "list[str]":
        return list(self)

    @property
    def epsilon(self) -> float:
        """The certified ε; ``inf`` where nothing is promised."""
        return float(self["privacy"]["certified_epsilon"])

    @property
    def delta(self) -> float:
        """The δ that goes with ``epsilon``."""
        return float(self["privacy"]["delta"])

    @property
    def unit(self) -> str:
        """What is hidden: a record, a person or a client."""
        return str(self["privacy"]["unit"])

    @property
    def json(self) -> str:
        """The bytes that are signed."""
        return self._text

    def verify(self) -> "dict[str, Any]":
        """Recomputes every figure, beside the other files of the run where there is a folder.

        Raises :class:`tacit.MismatchError` with the first figure that does not hold.
        """
        return _holding(
            _tacit.verify_folder(str(self._folder)) if self._folder else _tacit.verify_certificate(self._text)
        )

    def __str__(self) -> str:
        return _tacit.certificate_text(self._text)

    def __repr__(self) -> str:
        return f"Certificate(ε = {_json.up(self.epsilon, 6)} at δ = {self.delta:g} for one {self.unit})"

    def _repr_html_(self) -> str:
        return f"<pre>{_escape(self)}</pre>"


class Trace(Mapping[str, np.ndarray]):
    """The trace of a run as columns: ``trace["epsilon"]`` is an array.

    The arrays are views of the engine's memory, read-only and never copied; ``to_pandas()`` keeps them so.

    >>> import tacit
    >>> trace = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, keep=False, progress=False, oracle=True).trace
    >>> int(trace["round"][-1]), trace["loss"].flags.writeable
    (5, False)
    """

    def __init__(self, native: _tacit.Trace):
        self._native = native

    def __getitem__(self, name: str) -> np.ndarray:
        return cast(np.ndarray, self._native.column(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names)

    def __len__(self) -> int:
        return len(self._native.names)

    def _ipython_key_completions_(self) -> "list[str]":
        return list(self)

    @property
    def rows(self) -> int:
        """How many rounds were traced."""
        return len(self._native)

    def to_pandas(self) -> Any:
        """A DataFrame whose columns share memory with this trace."""
        import pandas

        return pandas.DataFrame({name: self[name] for name in self}, copy=False)

    def to_numpy(self) -> np.ndarray:
        """A structured array, one field a column; this one is a copy."""
        out = np.empty(self.rows, dtype=[(name, float) for name in self])
        for name in self:
            out[name] = self[name]
        return out

    def __repr__(self) -> str:
        return f"Trace({self.rows} rows: {', '.join(self)})"


class Chart:
    """A picture of runs. Notebooks show it; ``save`` writes .svg, .png or .pdf (the latter two by gnuplot)."""

    def __init__(self, native: _tacit.Plot, width: int, height: int):
        self._native = native
        self.width, self.height = width, height

    @property
    def labels(self) -> "list[str]":
        """The curves."""
        return list(self._native.labels)

    def svg(self) -> str:
        """The picture as SVG."""
        return self._native.svg(self.width, self.height)

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: PathLike) -> None:
        """Writes .svg, .png or .pdf, by the name."""
        path = Path(path)
        kind = path.suffix.lstrip(".")
        if kind == "svg":
            path.write_text(self.svg(), encoding="utf-8")
        else:
            path.write_bytes(self._native.picture(kind, self.width, self.height))

    def __repr__(self) -> str:
        return f"Chart({self._native.description})"


class Page:
    """A report on runs, one HTML page."""

    def __init__(self, html: str):
        self.html = html

    def _repr_html_(self) -> str:
        text = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{text}" width="100%" height="800" frameborder="0"></iframe>'

    def save(self, path: PathLike) -> None:
        """Writes the page as one file without anything beside it."""
        Path(path).write_text(self.html, encoding="utf-8")


class Run:
    """A run: its model, trace, plan, certificate and ledger. ``folder`` is where it is kept, or ``None``.

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, progress=False)
    >>> run.rounds, run.model.shape, run.epsilon <= 2.0
    (5, (50,), True)
    >>> run.ledger[0]["state"], run.config.get("privacy.epsilon")
    ('settled', 2.0)
    >>> (run.folder / "certificate.json").exists()
    True
    """

    def __init__(self, folder: Optional[Path], native: Optional[_tacit.Trained]):
        self.folder = folder
        self._opened = native
        self._certificate: Optional[Certificate] = None

    @property
    def _native(self) -> _tacit.Trained:
        if self._opened is None:
            self._opened = _tacit.Trained.open(str(self.folder))
        return self._opened

    @property
    def config(self) -> _tacit.Config:
        """The resolved config; ``run.config.get("privacy.epsilon")``."""
        return self._native.config

    @property
    def model(self) -> np.ndarray:
        """The parameters: a view of the engine's memory, read-only."""
        return self._native.model

    @property
    def result(self) -> "dict[str, Any]":
        """What ``tacit train --json`` prints."""
        text = self._native.result or _tacit.run_file(str(self.folder), "result.json")
        return _json.loads(text)

    @property
    def plan(self) -> Plan:
        """What it was going to do and cost, from public constants alone."""
        if self._native.plan:
            return Plan(_json.loads(self._native.plan))
        return plan(self.config)

    @property
    def metrics(self) -> "dict[str, float]":
        """What the model was measured by at the end: on public test data, or by an oracle in a simulation."""
        return dict(self.result["metrics"])

    @property
    def rounds(self) -> int:
        """Rounds that were made."""
        return int(self.result["rounds"])

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end; :func:`tacit.resume` goes on with it."""
        return bool(self.result["interrupted"])

    @property
    def epsilon(self) -> float:
        """The certified ε."""
        return self.certificate.epsilon

    @property
    def certificate(self) -> Certificate:
        """What the run promises, and what that follows from."""
        if self._certificate is None:
            text = self._opened.certificate if self._opened is not None else ""
            text = text or _tacit.run_file(str(self.folder), "certificate.json")
            self._certificate = Certificate(text, self.folder)
        return self._certificate

    @property
    def trace(self) -> Trace:
        """What was traced, up to now if it still runs."""
        if self.folder is not None:
            return Trace(_tacit.Trace.read(str(self.folder)))
        return Trace(_tacit.Trace.of_metrics(self._native.trace))

    @property
    def ledger(self) -> "list[dict[str, Any]]":
        """The run's own ledger: the ε that every client has spent."""
        if self.folder is None:
            raise NotFoundError("ledger: this run was made without a folder and has none; train with keep=True")
        return _json.loads(_tacit.run_ledger(str(self.folder)))

    def scores(self, data: Any) -> np.ndarray:
        """The model's scores: rows × outputs; margins, one per class, or values.

        ``data`` is an array, a DataFrame, a sparse matrix, ``Data``, or the name or path of a data set.
        """
        return self._score(data)[0]

    def evaluate(self, data: Any) -> "dict[str, float]":
        """Loss and accuracy on other data: ``(x, y)``, ``Data``, or the name or path of a data set."""
        return self._score(data)[1]

    def _score(self, data: Any) -> "tuple[np.ndarray, dict[str, float]]":
        if isinstance(data, (str, os.PathLike)):
            scores, metrics = self._native.score(str(data), None)
        else:
            rows = data if isinstance(data, Data) else as_data(data) if isinstance(data, tuple) else Data(data)
            scores, metrics = self._native.score("memory:new rows", rows._rows)
        return scores, _json.loads(metrics)

    def plot(self, y: Optional[str] = None, **options: Any) -> Chart:
        """See :func:`tacit.plot`; without ``y``, what the run was measured by."""
        return plot([self], y=y, **options)

    def report(self) -> Page:
        """One page about the run: curves, privacy, config, and how to run it again."""
        return report([self])

    def __repr__(self) -> str:
        r = self.result
        measured = "".join(f", {k} {v:.4g}" for k, v in list(r["metrics"].items())[:2])
        return f"Run({r['algorithm']}, {r['rounds']} rounds{measured}, ε = {_json.up(self.epsilon, 6)})"

    def _repr_html_(self) -> str:
        r = self.result
        rows = {
            "algorithm": f"{r['algorithm']}, {r['mode']} mode",
            "rounds": f"{r['rounds']} of {r['rounds_planned']}",
            **{k: f"{v:.6g}" for k, v in r["metrics"].items()},
            "ε certified": f"{_json.up(self.epsilon, 6)} at δ = {self.certificate.delta:g} for one {self.certificate.unit}",
            "folder": self.folder or "none",
        }
        body = "".join(f"<tr><th style='text-align:left'>{_escape(k)}</th><td>{_escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table>{body}</table>"


def _with_data(config: _tacit.Config, data: Any, test: Any) -> "tuple[Optional[Data], Optional[Data]]":
    """Puts the public shape of the rows into the config."""
    rows = None
    if isinstance(data, (str, os.PathLike)):
        config.set("data.source", os.fspath(data))
    elif data is not None:
        rows = as_data(data)
        config.set("data.source", rows.source)
        if rows.name and not config.get("data.id"):
            config.set("data.id", rows.name)
        config.set("data.features", int(rows.shape[1]))
        # Where it is hidden how many records there are, that number must come from the config.
        hidden = config.get("privacy.adjacency") == "add-remove" or config.get("privacy.unit") == "person"
        if not hidden and config.get("data.rows") == 0:
            config.set("data.rows", int(rows.shape[0]) - cast(int, config.get("data.skip")))
        if rows.persons and not config.get("data.person_column"):
            config.set("data.person_column", "persons")  # beside the rows; the engine asks that it be named
        if rows.clients is not None:
            config.set("data.split", "column")
            config.set("data.clients", int(rows.clients))
    held = None
    if isinstance(test, (str, os.PathLike)):
        config.set("data.test", os.fspath(test))
    elif test is not None:
        held = as_data(test)
        config.set("data.test", held.source + " (test)")
    return rows, held


def plan(
    config: ConfigLike = None,
    *,
    data: Any = None,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    algorithm: Union[None, str, Mapping[str, Any]] = None,
    rounds: Optional[int] = None,
    clients: Optional[int] = None,
    **settings: Any,
) -> Plan:
    """What a run would do and cost, before any data is touched; arguments as for :func:`train`.

    >>> import tacit
    >>> tacit.plan(data="synthetic-logistic", epsilon=1.0, algorithm="dp-fedavg", unit="client", clients=100)["algorithm"]
    'dp-fedavg'
    """
    named = {"algorithm": algorithm, "epsilon": epsilon, "delta": delta, "rounds": rounds, "clients": clients}
    resolved = resolve(config, {**named, **settings})
    _with_data(resolved, data, None)
    return Plan(_json.loads(_tacit.plan(resolved)))


def train(
    config: ConfigLike = None,
    *,
    data: Any = None,
    test: Any = None,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    algorithm: Union[None, str, Mapping[str, Any]] = None,
    rounds: Optional[int] = None,
    clients: Optional[int] = None,
    keep: bool = True,
    progress: Union[bool, Callable[["dict[str, Any]"], None]] = True,
    noise_seed: Optional[int] = None,
    **settings: Any,
) -> Run:
    """Trains a private model and certifies what it cost.

    :param config: a path, TOML text, a mapping, or nothing
    :param data: ``tacit.Data``, ``(x, y)``, ``(x, y, clients)``, or the name or path of a data set
    :param test: public test data, likewise
    :param epsilon: what the run may cost at ``delta``, for one record unless ``unit`` says otherwise
    :param algorithm: a name of :func:`algorithms`
    :param rounds: rounds of communication
    :param clients: how many the rows are split among, where ``data`` does not say who holds them
    :param keep: keep a folder, with the ledger, below ``experiment.output`` (``runs``). Without it the run is in no
        ledger, and the certificate is all that says what it cost
    :param progress: show progress; or a function that is called after every round with a dict
    :param noise_seed: names the streams of ``noise="replayable"``, which is for tests: a job of :mod:`tacit.flower` or
        ``tacit serve`` with the same seed draws the same noise. A run with it cannot be resumed
    :param settings: any other key of an experiment file (:func:`options`): ``clip=0.5``, ``data__split="iid"``,
        ``privacy={"clip": 0.5}``

    Other threads go on while it trains. Ctrl-C ends the run after the round, with a valid certificate, and raises
    :class:`tacit.Interrupted`; :func:`resume` goes on with it.

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=20, oracle=True, keep=False)
    >>> run.epsilon <= 2.0
    True
    >>> run.model.shape
    (50,)
    """
    named = {"algorithm": algorithm, "epsilon": epsilon, "delta": delta, "rounds": rounds, "clients": clients}
    resolved = resolve(config, {**named, **settings})
    rows, held = _with_data(resolved, data, test)
    shown = watch(progress)
    try:
        native, interrupted = _tacit.train(
            resolved,
            rows._rows if rows is not None else None,
            held._rows if held is not None else None,
            keep,
            shown,
            None,
            callable(progress),
            noise_seed,
        )
    finally:
        shown.close()
    return _done(native, interrupted)


def resume(
    folder: PathLike,
    *,
    data: Any = None,
    test: Any = None,
    progress: Union[bool, Callable[["dict[str, Any]"], None]] = True,
) -> Run:
    """Goes on with a run that was stopped or killed, as if it had not been.

    A run on rows in memory needs the same rows again, and with others it is refused.

    >>> import tacit
    >>> def stop(at):
    ...     if at["round"] == 3: raise KeyboardInterrupt
    >>> try:
    ...     tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=6, progress=stop)
    ... except tacit.Interrupted as e:
    ...     stopped = e.run
    >>> stopped.rounds, tacit.resume(stopped.folder, progress=False).rounds
    (3, 6)
    """
    rows = None if data is None else as_data(data)
    held = None if test is None else as_data(test)
    shown = watch(progress)
    try:
        native, interrupted = _tacit.resume(
            os.fspath(folder),
            rows._rows if rows is not None else None,
            held._rows if held is not None else None,
            shown,
            None,
            callable(progress),
        )
    finally:
        shown.close()
    return _done(native, interrupted)


def _done(native: _tacit.Trained, interrupted: bool) -> Run:
    run = Run(Path(native.folder) if native.folder else None, native)
    if interrupted:
        raise Interrupted(run)
    return run


def open_run(folder: PathLike) -> Run:
    """A run that was kept, also one that still trains.

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, progress=False)
    >>> bool((tacit.open_run(run.folder).model == run.model).all())
    True
    """
    path = Path(folder)
    _tacit.summary(str(path))  # complains where there is none
    return Run(path, None)


def runs(*folders: PathLike) -> "list[dict[str, Any]]":
    """The runs in these folders (``runs`` unless given), newest first, as ``tacit runs --json`` lists them."""
    return _json.loads(_tacit.runs([os.fspath(f) for f in folders] or ["runs"]))


def _folders(of: Any) -> "list[str]":
    if isinstance(of, (Run, str, os.PathLike)):
        of = [of]
    out = []
    for one in of:
        if isinstance(one, Run):
            if one.folder is None:
                raise ConfigError("a run that was made without a folder cannot be drawn; train with keep=True")
            one = one.folder
        out.append(os.fspath(one))
    return out


_MEASURES = ("accuracy", "optimality", "error", "loss", "epsilon")


def plot(
    runs: Any,
    x: str = "rounds",
    y: Optional[str] = None,
    *,
    log_x: bool = False,
    log_y: bool = False,
    band: str = "range",
    title: str = "",
    legend: "tuple[str, ...]" = (),
    width: int = 720,
    height: int = 400,
) -> Chart:
    """A picture of runs, shown inline by notebooks. Runs that differ in the seed alone are one curve with a band.

    :param runs: runs, their folders, or folders that hold runs
    :param x: rounds, epsilon, bytes, …
    :param y: a metric; without it the first of accuracy, optimality, error, loss and epsilon that was traced

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, progress=False, oracle=True)
    >>> chart = tacit.plot([run], y="loss")
    >>> chart.svg()[:4], len(chart.labels)
    ('<svg', 1)
    """
    folders = _folders(runs)
    if not folders:
        raise ConfigError("runs: there is nothing to draw; give a run, or several in a list")
    if y is None:
        traced = set(_tacit.Trace.read(folders[0]).names) if (Path(folders[0]) / "trace.jsonl").exists() else set()
        y = next((m for m in _MEASURES if m in traced), "loss")
    return Chart(_tacit.plot(folders, x, y, log_x, log_y, band, title, list(legend)), width, height)


def report(runs: Any, *, band: str = "range") -> Page:
    """One page about runs: curves, privacy, config, and how to run them again."""
    return Page(_tacit.report(_folders(runs), band))


def verify(folder: PathLike) -> "dict[str, Any]":
    """Recomputes the certificate of a run, or of a closed session, and compares it with all else in the folder.

    Raises :class:`tacit.MismatchError` with the first figure that does not hold.

    >>> import tacit
    >>> run = tacit.train(data="synthetic-logistic", epsilon=2.0, rounds=5, progress=False)
    >>> found = tacit.verify(run.folder)
    >>> found["holds"], abs(found["epsilon"] - run.epsilon) < 1e-6, "ledger.db" in found["compared"]
    (True, True, True)
    """
    return _holding(_tacit.verify_folder(os.fspath(folder)))


class Ledger:
    """What all runs on a data set have cost together.

    :param file: the ledger file; ``$TACIT_LEDGER``, or ``ledger.db`` below ``output``, unless given

    >>> import numpy as np, tacit
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
    >>> data = tacit.Data(x, x[:, 0] > 0, name="diary")
    >>> for _ in range(2):
    ...     run = tacit.train(data=data, epsilon=1.0, rounds=5, progress=False)
    >>> ledger = tacit.Ledger()
    >>> 1.0 < ledger.epsilon("diary") < 2.0           # both together
    True
    >>> ledger.limit("diary", epsilon=1.5)
    >>> tacit.train(data=data, epsilon=1.0, rounds=5)
    Traceback (most recent call last):
    tacit.errors.BudgetError: data set diary: runs on it have cost ...
    """

    def __init__(self, file: Optional[PathLike] = None, *, output: PathLike = "runs"):
        self.file = Path(file) if file is not None else Path(_tacit.default_ledger(os.fspath(output)))

    @property
    def data_sets(self) -> "list[dict[str, Any]]":
        """Every data set with its runs and totals."""
        return _json.loads(_tacit.ledger(str(self.file)))

    def epsilon(self, data: str) -> float:
        """What the runs on the data set have cost together; under several units or adjacencies, the largest."""
        for one in self.data_sets:
            if one["data"] == data:
                return max((float(t["epsilon"]) for t in one["totals"]), default=0.0)
        raise NotFoundError(f"{data}: no run on it is in {self.file}")

    def limit(self, data: str, epsilon: Optional[float], delta: float = 1e-5) -> None:
        """Refuses runs that would bring the data set past ``epsilon``; ``None`` lifts the limit."""
        if epsilon is not None and not (isinstance(epsilon, (int, float)) and not math.isnan(epsilon)):
            raise ConfigError(f"epsilon = {epsilon!r}: must be a number, or None for no limit")
        _tacit.set_limit(str(self.file), data, epsilon, delta)

    def __repr__(self) -> str:
        return f"Ledger({str(self.file)!r})"
