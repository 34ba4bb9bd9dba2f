"""Tacit's algorithms as Flower apps: a ServerApp and a ClientApp whose messages are Tacit's frames.

What travels are the same bytes that the engine's own runtimes exchange, so the model is the same. Every client makes
the plan for itself, from the job's public constants, refuses what costs more than it agreed to, and pays from its own
ledger before it answers; its state is in its own folder, so that Flower may run every message in another process.

``server_app.py`` of a Flower project::

    import tacit.flower
    app = tacit.flower.server_app(tacit.flower.job("heart.toml", clients=["north", "south"], records=[300, 200]))

``client_app.py``::

    def rows(context):                     # what this node holds, and under which name the job knows it
        name = context.node_config["name"]
        return name, f"/data/{name}.csv"

    app = tacit.flower.client_app(rows, max_epsilon=3.0, state="/var/lib/tacit")
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

from . import _json, _tacit
from ._config import ConfigLike, resolve
from ._data import as_data
from ._run import PathLike, Plan, Run
from .errors import BudgetError, ConfigError, MismatchError, NotFoundError

_RECORD = "tacit"


def job(
    config: ConfigLike = None,
    *,
    clients: Sequence[str],
    records: Sequence[int],
    features: int,
    noise_seed: int = 0,
    **settings: Any,
) -> str:
    """A job for :func:`server_app`: a config, the names of the clients, and how many records each has, which is public.

    ``noise_seed``: for tests, noise that can be taken off by whoever knows it.
    """
    resolved = resolve(config, settings)
    resolved.set("data.clients", len(clients))
    resolved.set("data.rows", int(sum(records)))
    resolved.set("data.features", int(features))
    if not resolved.get("data.source"):
        resolved.set("data.source", "held by the clients")
    serve = {"clients": [str(c) for c in clients], "records": [int(r) for r in records], "noise_seed": int(noise_seed)}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in serve.items())
    made = f"{resolved.toml()}\n[serve]\n{lines}"
    _tacit.job_plan(made)  # complains here about what would fail at every client
    return made


def _message(frame: bytes, **more: Union[int, bool, str]) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({"frame": frame, **more})})


def coordinate(
    grid: Any,
    job: str,
    folder: PathLike,
    *,
    patience: float = 600.0,
    timeout: float = 3600.0,
    log: Optional[Callable[[str], None]] = None,
) -> Run:
    """The server's part: trains over the nodes of a Flower grid. For a ServerApp of your own.

    :param patience: seconds to wait for the job's clients to be there
    :param timeout: seconds to wait for the answers of a round
    """
    from flwr.app import Message, MessageType

    say = log or (lambda text: None)
    names = _names(job)
    nodes: "dict[str, int]" = {}
    until = time.monotonic() + patience
    while set(names) - set(nodes):
        unknown = [n for n in grid.get_node_ids() if n not in nodes.values()]
        asked = [Message(content=_message(b""), dst_node_id=n, message_type=MessageType.QUERY) for n in unknown]
        for reply in grid.send_and_receive(asked, timeout=30) if asked else []:
            if reply.has_content():
                nodes[str(reply.content[_RECORD]["name"])] = reply.metadata.src_node_id
        if set(names) - set(nodes):
            if time.monotonic() > until:
                missing = ", ".join(sorted(set(names) - set(nodes)))
                raise NotFoundError(f"{missing}: no node answers to this name; start one for every client of the job")
            time.sleep(1)
    say(f"{len(names)} clients are there")

    def ask(round_: int, last: bool, who: "list[int]", frame: bytes) -> "list[Optional[bytes]]":
        messages = [
            Message(
                content=_message(frame, round=round_, last=last, job=job),
                dst_node_id=nodes[names[i]],
                message_type=MessageType.TRAIN,
            )
            for i in who
        ]
        came: "dict[int, bytes]" = {}
        for reply in grid.send_and_receive(messages, timeout=timeout):
            if reply.has_content():
                came[reply.metadata.src_node_id] = bytes(reply.content[_RECORD]["frame"])
            else:
                say(f"round {round_}: a client gave no answer: {reply.error}")
        return [came.get(nodes[names[i]]) for i in who]

    Path(folder).mkdir(parents=True, exist_ok=True)
    native = _tacit.coordinate(job, os.fspath(folder), ask)
    return Run(Path(native.folder) if native.folder else None, native)


def _names(job: str) -> "list[str]":
    for line in job.split("[serve]", 1)[-1].splitlines():
        if line.startswith("clients = "):
            return json.loads(line[len("clients = ") :])
    raise ConfigError("the job names no clients; make it with tacit.flower.job()")


def server_app(job: str, folder: PathLike = "runs/flower", **options: Any) -> Any:
    """A Flower ServerApp that trains the job; its run, with the certificate, is kept in ``folder``."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        run = coordinate(grid, job, folder, log=print, **options)
        print(run.certificate)

    return app


def agree(
    job: str, max_epsilon: float, max_delta: float = 1e-5, *, replayable: bool = False, paper: bool = False
) -> Plan:
    """The plan of a job that is within what a client agrees to; otherwise :class:`tacit.BudgetError` says what is not.

    The plan is made here, from the job's public constants: nothing that a server says of privacy is believed.
    """
    document = _json.loads(_tacit.job_plan(job))
    noise = document.pop("noise")
    plan = Plan(document)
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
        draft = folder / f"job.toml.{os.getpid()}"
        draft.write_text(job, encoding="utf-8")
        os.replace(draft, kept)
    elif kept.read_text(encoding="utf-8") != job:
        raise MismatchError(f"{kept}: the server sends another job in the same run; refused")


def client_app(
    rows: Callable[[Any], "tuple[str, Any]"],
    *,
    max_epsilon: float,
    max_delta: float = 1e-5,
    replayable: bool = False,
    paper: bool = False,
    state: PathLike = "tacit-client",
    ledger: Optional[PathLike] = None,
) -> Any:
    """A Flower ClientApp for one client of a job.

    :param rows: ``rows(context)`` → the client's name in the job, and its data: ``Data``, ``(x, y)`` or a file
    :param max_epsilon: a job that would cost more is refused before a row is read
    :param replayable: agree to noise that whoever knows the job's seed can take off; for tests
    :param paper: agree to algorithms as printed, which may have no guarantee
    :param state: folder for this client's ledger and state; a subfolder a job
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def name(message: Any, context: Any) -> Any:
        return Message(content=_message(b"", name=rows(context)[0]), reply_to=message)

    @app.train()
    def answer(message: Any, context: Any) -> Any:
        asked = message.content[_RECORD]
        job = str(asked["job"])
        agree(job, max_epsilon, max_delta, replayable=replayable, paper=paper)
        who, data = rows(context)
        held = None if isinstance(data, (str, os.PathLike)) else as_data(data)
        home = Path(state) / who
        folder = home / str(message.metadata.run_id)
        _hold_to(job, folder)
        frame = _tacit.answer(
            job,
            who,
            os.fspath(data) if held is None else held.source,
            held._rows if held is not None else None,
            str(folder),
            os.fspath(ledger) if ledger is not None else str(home / "ledger.db"),
            int(asked["round"]),
            bool(asked["last"]),
            bytes(asked["frame"]),
        )
        return Message(content=_message(frame), reply_to=message)

    return app
