"""Tacit's algorithms as Flower apps: a ServerApp and a ClientApp whose messages are Tacit's frames.

What travels are the same bytes that the engine's own runtimes exchange, so the model is the same. Every client makes
the plan for itself, from the job's public constants, refuses what costs more than it agreed to, and pays from its own
ledger before it answers; its state is in its own folder, so that Flower may run every message in another process. Why
a client refuses is in its own log; the server learns that it did, and a code.

``server_app.py`` of a Flower project::

    import tacit.flower
    job = tacit.flower.job("heart.toml", clients=["north", "south"], records=[300, 200], features=22)
    app = tacit.flower.server_app(job)

``client_app.py``::

    def rows(context):                     # what this node holds, and under which name the job knows it
        name = context.node_config["name"]
        return name, f"/data/{name}.csv"

    app = tacit.flower.client_app(rows, max_epsilon=3.0, state="/var/lib/tacit")

What a client would agree to can be tried without Flower:

>>> import tacit.flower
>>> job = tacit.flower.job(clients=["north", "south"], records=[300, 200], features=22, epsilon=2.0, rounds=10)
>>> tacit.flower.agree(job, max_epsilon=3.0, unit="record").epsilon <= 2.0
True
>>> tacit.flower.agree(job, max_epsilon=1.0)
Traceback (most recent call last):
tacit.errors.BudgetError: the job costs ε = 2 at δ = 1e-05, and this client agrees to 1 at 1e-05; raise max_epsilon, or ask for a cheaper job
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence, Union

import numpy as np

from . import _json, _tacit
from ._config import ConfigLike, resolve
from ._data import as_data
from ._run import PathLike, Plan, Run
from .errors import BudgetError, ConfigError, Error, MismatchError, NotFoundError, UnsupportedError

_RECORD = "tacit"
_log = logging.getLogger(__name__)


def job(
    config: ConfigLike = None,
    *,
    clients: Sequence[str],
    records: Sequence[int],
    features: int,
    minimum: int = 0,
    noise_seed: int = 0,
    **settings: Any,
) -> str:
    """A job for :func:`server_app`: a config, the names of the clients, and how many records each has, which is public.

    :param minimum: answers that a round cannot do without; 0: all
    :param noise_seed: for tests, noise that can be taken off by whoever knows it

    >>> text = job(clients=["a", "b"], records=[300, 200], features=22, epsilon=2.0, rounds=10)
    >>> print(text[text.index("[serve]"):].strip())
    [serve]
    clients = ["a", "b"]
    records = [300, 200]
    minimum = 0
    noise_seed = 0
    """
    resolved = resolve(config, settings)
    resolved.set("data.clients", len(clients))
    resolved.set("data.rows", int(sum(records)))
    resolved.set("data.features", int(features))
    if not resolved.get("data.source"):
        resolved.set("data.source", "held by the clients")
    serve = {
        "clients": [str(c) for c in clients],
        "records": [int(r) for r in records],
        "minimum": int(minimum),
        "noise_seed": int(noise_seed),
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in serve.items())
    made = f"{resolved.toml()}\n[serve]\n{lines}"
    _tacit.job_plan(made)  # complains here about what would fail at every client
    return made


def _message(frame: bytes, **more: Union[int, bool, str]) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({"frame": frame, **more})})


class _Nodes:
    """Which node of a grid is which client. A name is what a node says of itself: Flower decides who may be a node."""

    def __init__(self, grid: Any, names: "list[str]"):
        self.grid, self.names = grid, names
        self.found: "dict[str, int]" = {}
        self._asked: "set[int]" = set()

    def look(self) -> "list[str]":
        """Asks nodes that are new; the names that nobody has."""
        from flwr.app import Message, MessageType

        there = set(self.grid.get_node_ids())
        self.found = {name: node for name, node in self.found.items() if node in there}
        new = sorted(there - self._asked)
        asked = [Message(content=_message(b""), dst_node_id=n, message_type=MessageType.QUERY) for n in new]
        for reply in self.grid.send_and_receive(asked, timeout=30) if asked else []:
            if not reply.has_content():
                continue
            node = reply.metadata.src_node_id
            self._asked.add(node)  # one that did not answer is asked again
            name = str(reply.content[_RECORD]["name"])
            if name not in self.names:
                continue
            if self.found.setdefault(name, node) != node:
                raise MismatchError(
                    f"{name}: two nodes answer to this name, and only one of them can be this client; find out which, and stop the other"
                )
        return [name for name in self.names if name not in self.found]


def coordinate(
    grid: Any,
    job: str,
    folder: PathLike,
    *,
    patience: float = 600.0,
    timeout: float = 3600.0,
    attempts: int = 3,
    log: Optional[Callable[[str], None]] = None,
) -> Run:
    """The server's part: trains over the nodes of a Flower grid. For a ServerApp of your own.

    A job whose folder holds a part of it goes on. Fewer answers than the job's ``minimum``, after all attempts, end it
    with :class:`tacit.StorageError`, and it can be gone on with.

    :param patience: seconds to wait for the job's clients to be there
    :param timeout: seconds to wait for the answers of a round
    :param attempts: how often a round is asked for while fewer have answered than it needs
    """
    from flwr.app import Message, MessageType

    if attempts < 1:
        raise ConfigError(f"attempts = {attempts}: must be at least 1")
    say = log or (lambda text: None)
    names = _names(job)
    nodes = _Nodes(grid, names)
    until = time.monotonic() + patience
    missing = nodes.look()
    while missing:
        if time.monotonic() > until:
            raise NotFoundError(f"{', '.join(sorted(missing))}: no node answers to this name; start one for every client of the job")
        time.sleep(1)
        missing = nodes.look()
    say(f"{len(names)} clients are there")
    asked_before = 0

    def ask(round_: int, last: bool, who: "list[int]", counted: "list[int]", frame: bytes) -> "list[Optional[bytes]]":
        nonlocal asked_before
        if round_ == asked_before and not last:  # again: a node may have been started anew
            time.sleep(1)
            nodes.look()
        asked_before = round_
        at = {i: nodes.found[names[i]] for i in who if names[i] in nodes.found}
        heard = dict(zip(who, counted))
        messages = [
            Message(
                content=_message(frame, round=round_, last=last, job=job, counted=heard.get(i, 0)),
                dst_node_id=node,
                message_type=MessageType.TRAIN,
            )
            for i, node in at.items()
        ]
        came: "dict[int, bytes]" = {}
        for reply in grid.send_and_receive(messages, timeout=timeout) if messages else []:
            if reply.has_content():
                came[reply.metadata.src_node_id] = bytes(reply.content[_RECORD]["frame"])
            else:
                say(f"round {round_}: a client gave no answer: {reply.error}")
        return [came.get(at[i]) if i in at else None for i in who]

    Path(folder).mkdir(parents=True, exist_ok=True)
    native = _tacit.coordinate(job, os.fspath(folder), ask, attempts)
    return Run(Path(native.folder) if native.folder else None, native)


def _names(job: str) -> "list[str]":
    for line in job.split("[serve]", 1)[-1].splitlines():
        if line.startswith("clients = "):
            return json.loads(line[len("clients = ") :])
    raise ConfigError("the job names no clients; make it with tacit.flower.job()")


def server_app(job: str, folder: PathLike = "runs/flower", **options: Any) -> Any:
    """A Flower ServerApp that trains the job; its run, with the certificate, is kept in ``folder``.

    :param options: of :func:`coordinate`
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        run = coordinate(grid, job, folder, **{"log": print, **options})
        print(run.certificate)

    return app


def strategy(job: str, folder: PathLike = "runs/flower", **options: Any) -> Any:
    """The same as a Flower ``Strategy``, for a ServerApp that has one: ``strategy(job).start(grid)``.

    Its ``start`` is :func:`coordinate`: rounds, messages and sums are the engine's, so that whatever else ``start`` takes
    (initial arrays, a number of rounds, configs) is the job's to say and refused. The result has the model as its
    arrays; ``.run`` is the run with its certificate.

    :param options: of :func:`coordinate`
    """
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import Result, Strategy

    class TacitStrategy(Strategy):
        """A job of :mod:`tacit.flower`."""

        run: Optional[Run] = None

        def start(self, grid: Any, *settings: Any, timeout: Optional[float] = None, **more: Any) -> Result:
            if settings or more:
                raise UnsupportedError(
                    "start: model, rounds and configs are in the job; make it with tacit.flower.job(), and start(grid) alone"
                )
            given = {**options, **({} if timeout is None else {"timeout": timeout})}
            self.run = coordinate(grid, job, folder, **{"log": print, **given})
            return Result(arrays=ArrayRecord([np.array(self.run.model)]))

        def summary(self) -> None:
            print(Plan(_plan(job)[0]))

        def configure_train(self, *args: Any) -> Iterable[Any]:
            raise UnsupportedError(
                "this strategy makes no single rounds, as its messages are the engine's; call start(), and wrap it in no other strategy"
            )

        aggregate_train = configure_evaluate = aggregate_evaluate = configure_train  # type: ignore[assignment]

    return TacitStrategy()


def _plan(job: str) -> "tuple[dict[str, Any], str]":
    """What a job does and costs, and where its noise is from."""
    document = _json.loads(_tacit.job_plan(job))
    noise = document.pop("noise")
    return document, noise


def _allowed(what: str, has: str, wanted: Union[None, str, Sequence[str]]) -> None:
    allowed = [wanted] if isinstance(wanted, str) else wanted
    if allowed is not None and has not in allowed:
        raise BudgetError(
            f"privacy.{what} = {has!r}: this client agrees to {' or '.join(repr(a) for a in allowed)} alone; ask for that, or agree "
            f"with {what}={has!r}"
        )


def agree(
    job: str,
    max_epsilon: float,
    max_delta: float = 1e-5,
    *,
    unit: Union[None, str, Sequence[str]] = None,
    adjacency: Union[None, str, Sequence[str]] = None,
    replayable: bool = False,
    float_noise: bool = False,
    paper: bool = False,
) -> Plan:
    """The plan of a job that is within what a client agrees to; otherwise :class:`tacit.BudgetError` says what is not.

    The plan is made here, from the job's public constants: nothing that a server says of privacy is believed.

    :param unit: what must be hidden: ``record``, ``person`` or ``client``, one or several; ``None``: any of them. The same ε
        says less of a record than of a person who has several
    :param adjacency: ``replace-one``, ``add-remove`` or ``zero-out``, one or several; ``None``: any of them
    """
    document, noise = _plan(job)
    plan = Plan(document)
    _allowed("unit", str(plan["unit"]), unit)
    _allowed("adjacency", str(plan["adjacency"]), adjacency)
    if plan["mode"] != "certified" and not paper:
        raise BudgetError(
            f"algorithm.mode = {plan['mode']!r}: the job runs an algorithm as printed, without clipping that its certificate "
            "could rest on; ask for certified mode, or agree with paper=True"
        )
    if noise != "entropy" and not replayable:
        raise BudgetError(
            f"privacy.noise = {noise!r}: whoever knows the job's seed can take the noise off; ask for noise from entropy, or "
            "agree with replayable=True, for tests"
        )
    if plan["mechanism"] == "gaussian" and not float_noise:
        raise BudgetError(
            "privacy.mechanism = 'gaussian': noise in floating point, whose last bits may tell what it was added to; ask for "
            "'lattice_gaussian', or agree with float_noise=True"
        )
    if not (plan.epsilon <= max_epsilon and plan.delta <= max_delta):
        raise BudgetError(
            f"the job costs ε = {_json.up(plan.epsilon, 6)} at δ = {plan.delta:g}, and this client agrees to "
            f"{max_epsilon:g} at {max_delta:g}; raise max_epsilon, or ask for a cheaper job"
        )
    return plan


def _hold_to(job: str, folder: Path) -> None:
    """A run keeps the text of its job: a server cannot change what was agreed to."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "job.toml"
    if not kept.exists():
        handle, draft = tempfile.mkstemp(prefix="job.toml.", dir=folder)
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                file.write(job)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, kept)  # whole, and only where nobody was first
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)
    with open(kept, encoding="utf-8", newline="") as file:
        if file.read() != job:
            raise MismatchError(f"{kept}: the server sends another job in the same run; refused")


def _quiet(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Flower sends the text of an exception to the server, and ours may say how many rows there are, where, and what is
    wrong with them. Who runs the client reads it in the log; the server gets a code (:mod:`tacit.errors`; 1: not one)."""

    @functools.wraps(handler)
    def guarded(message: Any, context: Any) -> Any:
        try:
            return handler(message, context)
        except Exception as e:
            code = e.code if isinstance(e, Error) else 1
            _log.error("refused (code %d): %s", code, e, exc_info=code == 1)
        raise RuntimeError(f"tacit client refused (code {code})")  # after the block: it knows nothing of e

    return guarded


def _absolute(what: str, path: PathLike) -> Path:
    if not Path(path).is_absolute():
        raise ConfigError(
            f"{what} = {os.fspath(path)!r}: must be an absolute path; Flower may run every message in another folder, and a ledger "
            "that is not found again starts from nothing"
        )
    return Path(path)


def client_app(
    rows: Callable[[Any], "tuple[str, Any]"],
    *,
    max_epsilon: float,
    max_delta: float = 1e-5,
    total_epsilon: Optional[float] = None,
    unit: Union[None, str, Sequence[str]] = None,
    adjacency: Union[None, str, Sequence[str]] = None,
    replayable: bool = False,
    float_noise: bool = False,
    paper: bool = False,
    state: PathLike,
    ledger: Optional[PathLike] = None,
) -> Any:
    """A Flower ClientApp for one client of a job.

    :param rows: ``rows(context)`` → the client's name in the job, and its data: ``Data``, ``(x, y)`` or a file
    :param max_epsilon: a job that would cost more is refused before a row is read
    :param total_epsilon: the most that all jobs on these data may cost together, at ``max_delta``: a limit in the client's
        ledger. One that allows less stays; it is raised with :meth:`tacit.Ledger.limit`
    :param unit: what a job must hide; see :func:`agree`
    :param adjacency: by which neighbours; see :func:`agree`
    :param replayable: agree to noise that whoever knows the job's seed can take off; for tests
    :param float_noise: agree to noise that is added in floating point, whose last bits may tell what it was added to
    :param paper: agree to algorithms as printed, which may have no guarantee
    :param state: folder for this client's ledger and state, an absolute path; a subfolder a job
    :param ledger: the cumulative ledger, if it is another than ``ledger.db`` in the client's folder
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    home_of_all = _absolute("state", state)
    own_ledger = None if ledger is None else _absolute("ledger", ledger)
    app = ClientApp()

    @app.query()
    @_quiet
    def name(message: Any, context: Any) -> Any:
        return Message(content=_message(b"", name=rows(context)[0]), reply_to=message)

    @app.train()
    @_quiet
    def answer(message: Any, context: Any) -> Any:
        asked = message.content[_RECORD]
        job = str(asked["job"])
        agree(
            job,
            max_epsilon,
            max_delta,
            unit=unit,
            adjacency=adjacency,
            replayable=replayable,
            float_noise=float_noise,
            paper=paper,
        )
        who, data = rows(context)
        if not re.fullmatch(r"\w[\w.-]{0,63}", who, re.ASCII):  # it names a folder
            raise ConfigError(f"{who}: is no name of a client; use letters, digits, -, _ and dots")
        held = None if isinstance(data, (str, os.PathLike)) else as_data(data)
        home = home_of_all / who
        folder = home / str(message.metadata.run_id)
        _hold_to(job, folder)
        frame = _tacit.answer(
            job,
            who,
            os.fspath(data) if held is None else held.source,
            held._rows if held is not None else None,
            str(folder),
            str(own_ledger or home / "ledger.db"),
            int(asked["round"]),
            bool(asked["last"]),
            bytes(asked["frame"]),
            int(asked["counted"]),
            total_epsilon,
            max_delta,
        )
        return Message(content=_message(frame), reply_to=message)

    return app
