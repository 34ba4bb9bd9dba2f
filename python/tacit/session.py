"""Algorithms written in Python that cannot bypass the ledger.

A program computes the gradients of single records, with NumPy, PyTorch or anything else; the engine clips each,
adds them up, charges the client's account, and hands out the sum with noise. Past the budget it refuses.

>>> import numpy as np, tacit
>>> rng = np.random.default_rng(0)
>>> x = rng.normal(size=(300, 3)); y = x @ [1.0, -2.0, 0.5]
>>> def gradients(w, x, y):                  # of squared errors, one row a record
...     return (x @ w - y)[:, None] * x
>>> fit = tacit.minimise(gradients, np.zeros(3), tacit.Data(x, y), epsilon=8.0, rounds=50, rate=0.5, keep=False)
>>> bool(np.linalg.norm(fit.model - [1.0, -2.0, 0.5]) < 0.5), fit.epsilon <= 8.0
(True, True)
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

import numpy as np

from . import _tacit
from ._data import Data, _floats, as_data
from ._run import Certificate, PathLike
from .errors import ConfigError


def _folder(output: PathLike, name: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    for k in range(1, 1000):
        path = Path(output) / (f"{name}-{stamp}" + ("" if k == 1 else f"-{k}"))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise ConfigError(f"{output}: too many sessions this second")


class Session:
    """Accounts for the clients of ``data``, and noisy sums out of them.

    :param dimension: length of a gradient
    :param clip: every record's gradient is scaled to at most this length
    :param rounds: how many releases per client the budget is spread over; a release with another ``sigma`` costs what
        it costs, and the budget holds for all of them
    :param keep: keep the ledger in a folder below ``output``, and count in the cumulative ledger of the data

    One record of one client, replaced by any other, is hidden by (ε, δ) in all that is released. A session belongs to the
    process that opened it: a fork can release and close nothing.

    >>> import numpy as np, tacit
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))
    >>> with tacit.Session(tacit.Data(x, clients=np.arange(300) % 3), dimension=3, epsilon=1.0, rounds=2) as session:
    ...     sums = [session.release(client, session.rows(client)[0]) for client in session]
    ...     session.release(0, x[:100]).shape, round(session.used, 6)
    ((3,), 1.0)
    >>> session.certificate.epsilon <= 1.0, tacit.verify(session.folder)["holds"]
    (True, True)
    """

    def __init__(
        self,
        data: Any,
        *,
        dimension: int,
        epsilon: float,
        delta: float = 1e-5,
        clip: float = 1.0,
        rounds: int = 100,
        mechanism: str = "lattice_gaussian",
        name: str = "session",
        output: PathLike = "runs",
        ledger: Optional[PathLike] = None,
        keep: bool = True,
    ):
        if "/" in name or name.startswith(".") or not name:
            raise ConfigError(f"name = {name!r}: names a folder within output; use no / and no leading dot")
        self.data = as_data(data)
        self.dimension = int(dimension)
        if not 0 < rounds <= 10_000_000:
            raise ConfigError(f"rounds = {rounds}: must be from 1 to 10000000")
        clients = self.data.clients or 1
        self._held = [np.flatnonzero(self.data._codes == i) for i in range(clients)]
        self.folder = _folder(output, name) if keep else None
        self._native = _tacit.Releases(
            [len(rows) for rows in self._held],
            self.dimension,
            float(clip),
            float(epsilon),
            float(delta),
            int(rounds),
            mechanism,
            str(self.folder or ""),
            os.fspath(ledger) if ledger is not None else _tacit.default_ledger(os.fspath(output)),
            self.data.name or f"{self.data.source} {self.data.shape[0]}x{self.data.shape[1]}",
            self.data._rows,
        )

    @property
    def clients(self) -> int:
        """How many there are; iterating over the session gives their numbers."""
        return len(self._held)

    @property
    def sigma(self) -> float:
        """The noise on a released sum, unless another is asked for."""
        return self._native.sigma

    @property
    def epsilon(self) -> float:
        """What is promised: 0 until something was released, then the ε of the whole budget.

        What to release next and when to stop may depend on what was released, so a part of the budget has no ε of its
        own; :attr:`used` says how much of it is gone. For less, open a session with less.
        """
        return self._native.epsilon

    @property
    def used(self) -> float:
        """The share of its budget that the client with the most has used, from 0 to 1."""
        return self._native.used

    def rows(self, client: int) -> "tuple[Any, np.ndarray]":
        """Features and labels that a client holds."""
        held = self._held[client]
        return self.data._x[held], self.data._y[held]

    def release(self, client: int, gradients: Any, sigma: Optional[float] = None) -> np.ndarray:
        """The sum of the rows of ``gradients``, each clipped, with noise; paid for by the client.

        Raises :class:`tacit.BudgetError` where the budget does not allow it; then nothing is released.
        """
        if not isinstance(client, (int, np.integer)) or not 0 <= client < self.clients:
            raise ConfigError(f"client = {client!r}: must be a number from 0 to {self.clients - 1}; the session iterates over them")
        if hasattr(gradients, "detach"):  # PyTorch
            gradients = gradients.detach().cpu().numpy()
        rows = _floats(gradients, "gradients")
        if rows.ndim != 2:
            raise ConfigError(
                f"gradients: have shape {rows.shape}, and must have one row a record and {self.dimension} columns; the engine clips "
                "row by row and adds them up"
            )
        return self._native.release(int(client), rows, sigma)

    def mean(self, gradient: Callable[..., Any], *state: Any) -> np.ndarray:
        """``gradient(*state, x, y)`` of every client, released, over the number of all records."""
        total: Any = 0.0
        for i in range(self.clients):
            x, y = self.rows(i)
            total = total + self.release(i, gradient(*state, x, y))
        return total / len(self.data)

    @property
    def certificate(self) -> Certificate:
        """What was released, and the ε that follows: what ``releases.json`` says once the session is closed."""
        return Certificate(self._native.certificate)

    def verify(self) -> "dict[str, Any]":
        """Recomputes the certificate, of a closed session beside its ledger; see :func:`tacit.verify`."""
        if self.folder is not None and (self.folder / "releases.json").exists():
            return Certificate(self._native.certificate, self.folder).verify()
        return self.certificate.verify()

    def close(self) -> None:
        """Ends the session: nothing more can be released. The ledger keeps what was used, and ``releases.json`` in
        the session's folder lists what was released; ``tacit verify`` reads it."""
        self._native.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.clients))


class Fit(NamedTuple):
    """What :func:`minimise` found."""

    model: np.ndarray
    epsilon: float
    certificate: Certificate
    folder: Optional[Path]


def minimise(
    gradient: Callable[..., Any],
    start: Any,
    data: Any,
    *,
    epsilon: float,
    rounds: int = 100,
    rate: float = 0.1,
    momentum: float = 0.0,
    average: float = 0.0,
    progress: Optional[Callable[[int, np.ndarray], None]] = None,
    **session: Any,
) -> Fit:
    """Noisy gradient descent with a loss of your own.

    :param gradient: ``gradient(w, x, y)`` → one gradient a row, as an array or a tensor
    :param average: the part of the last rounds whose iterates are averaged, in [0, 1)

    >>> import numpy as np, tacit
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(500, 2)); y = x @ [1.0, -1.0]
    >>> def gradient(w, x, y):
    ...     return (x @ w - y)[:, None] * x
    >>> fit = tacit.minimise(gradient, np.zeros(2), (x, y), epsilon=8.0, rounds=40, rate=1.0, average=0.5, keep=False)
    >>> bool(np.linalg.norm(fit.model - [1.0, -1.0]) < 0.3), fit.certificate.verify()["holds"]
    (True, True)
    """
    w = np.array(start, dtype=np.float64)
    step = np.zeros_like(w)
    kept, count = np.zeros_like(w), 0
    with Session(data, dimension=w.size, epsilon=epsilon, rounds=rounds, **session) as here:
        for t in range(rounds):
            step = momentum * step + here.mean(gradient, w)
            w = w - rate * step
            if average > 0 and t >= rounds * (1 - average):
                kept, count = kept + w, count + 1
            if progress is not None:
                progress(t + 1, w)
        certificate = here.certificate
    return Fit(kept / count if count else w, certificate.epsilon, certificate, here.folder)


def per_example(loss: Callable[..., Any], shape_of: Optional[Callable[[Any], Any]] = None) -> Callable[..., Any]:
    """``gradient(w, x, y)`` for a loss of one record in PyTorch, by ``torch.func``.

    :param loss: ``loss(w, x, y)`` → a scalar tensor; ``w`` is flat, or what ``shape_of`` makes of it

    ``per_example(lambda w, x, y: (x @ w - y) ** 2 / 2)`` is the gradient of squared errors.
    """
    import torch

    def one(w: Any, x: Any, y: Any) -> Any:
        return loss(shape_of(w) if shape_of is not None else w, x, y)

    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))

    def gradient(w: np.ndarray, x: Any, y: np.ndarray) -> Any:
        x = x.toarray() if hasattr(x, "toarray") else x
        return each(torch.as_tensor(w), torch.as_tensor(x), torch.as_tensor(y))

    return gradient
