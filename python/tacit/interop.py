"""Events and ledgers of dp-accounting and Opacus, as events of this accountant.

>>> import tacit
>>> account = tacit.interop.from_opacus([(1.0, 0.01, 1000)])       # noise multiplier, sample rate, steps
>>> low, high = account.epsilon_bracket(1e-5)
>>> low <= high <= account.renyi_epsilon(1e-5)
True
"""

from __future__ import annotations

from typing import Any, Iterable, Optional

from .accounting import Accountant
from .errors import UnsupportedError


def from_opacus(history: Any, adjacency: str = "add-remove") -> Accountant:
    """The history of an Opacus accountant: ``PrivacyEngine.accountant``, its ``history``, or its ``state_dict()``."""
    if isinstance(history, dict):
        history = history["history"]
    steps: Iterable[Any] = getattr(history, "history", history)
    account = Accountant(adjacency)
    for noise, rate, count in steps:
        if rate >= 1:
            account.compose("gaussian", int(count), noise_multiplier=float(noise))
        else:
            account.compose("poisson-gaussian", int(count), noise_multiplier=float(noise), rate=float(rate))
    return account


def from_dp_accounting(event: Any, adjacency: Optional[str] = None) -> Accountant:
    """An event of ``dp_accounting``, a list of them, or an accountant with its ``ledger``, with all it is composed of.

    ``adjacency``: what the events' noise multipliers are for; add-remove unless given, and replace-one where samples
    have a fixed size. An event that has no counterpart here raises :class:`tacit.UnsupportedError`, and so does an
    accountant for other neighbours than added or removed ones, unless ``adjacency`` says what its noise is for:
    dp-accounting's own accountants do not agree on that.

    >>> class SelfComposedDpEvent:                   # as dp_accounting has it
    ...     def __init__(self, event, count): self.event, self.count = event, count
    >>> class GaussianDpEvent:
    ...     noise_multiplier = 4.0
    >>> once = Accountant("add-remove", [{"type": "gaussian", "noise_multiplier": 1.0}])
    >>> from_dp_accounting(SelfComposedDpEvent(GaussianDpEvent(), 16)).epsilon(1e-5) == once.epsilon(1e-5)
    True
    """
    lines: "list[tuple[dict[str, Any], int]]" = []
    events = event if isinstance(event, (list, tuple)) else [event]
    others = ""
    for one in events:
        if hasattr(one, "ledger"):  # an accountant
            relation = str(getattr(getattr(one, "neighboring_relation", None), "name", "ADD_OR_REMOVE_ONE"))
            others = others or ("" if relation == "ADD_OR_REMOVE_ONE" else relation)
            one = one.ledger
        _flatten(one, 1, lines)
    if adjacency is None:
        fixed = any(line["type"] == "fixed-size-gaussian" for line, _ in lines)
        if others and not (fixed and others == "REPLACE_ONE"):
            raise UnsupportedError(
                f"{others}: what noise multipliers are for differs between dp-accounting's accountants for these neighbours; say it "
                "with adjacency="
            )
        adjacency = "replace-one" if fixed else "add-remove"
    account = Accountant(adjacency)
    for line, count in lines:
        account.compose(line, count)
    return account


def _flatten(event: Any, count: int, lines: "list[tuple[dict[str, Any], int]]") -> None:
    kind = type(event).__name__
    if kind == "NoOpDpEvent" or count == 0:
        return
    if kind == "ComposedDpEvent":
        for inner in event.events:
            _flatten(inner, count, lines)
    elif kind == "SelfComposedDpEvent":
        _flatten(event.event, count * int(event.count), lines)
    elif kind == "GaussianDpEvent":
        lines.append(({"type": "gaussian", "noise_multiplier": float(event.noise_multiplier)}, count))
    elif kind == "LaplaceDpEvent":
        lines.append(({"type": "laplace", "scale": float(event.noise_multiplier), "sensitivity": 1}, count))
    elif kind == "ZCDpEvent" and not getattr(event, "xi", 0):
        lines.append(({"type": "zcdp", "rho": float(event.rho)}, count))
    elif kind == "EpsilonDeltaDpEvent":
        pure = not event.delta
        line = {"type": "pure", "epsilon": float(event.epsilon)}
        if not pure:
            line = {"type": "approximate", "epsilon": float(event.epsilon), "delta": float(event.delta)}
        lines.append((line, count))
    elif kind == "NonPrivateDpEvent":
        lines.append(({"type": "non-private"}, count))
    elif kind == "PoissonSampledDpEvent":
        _sampled("poisson-gaussian", float(event.sampling_probability), event.event, count, lines)
    elif kind == "SampledWithoutReplacementDpEvent":
        rate = event.sample_size / event.source_dataset_size
        _sampled("fixed-size-gaussian", float(rate), event.event, count, lines)
    else:
        raise UnsupportedError(f"{kind}: has no counterpart among the events of docs/events.md; compose it by hand")


def _sampled(kind: str, rate: float, event: Any, count: int, lines: "list[tuple[dict[str, Any], int]]") -> None:
    if type(event).__name__ != "GaussianDpEvent":
        raise UnsupportedError(
            f"{type(event).__name__} on a sample: only Gaussian noise is amplified by sampling here; compose it by hand"
        )
    lines.append(({"type": kind, "rate": rate, "noise_multiplier": float(event.noise_multiplier)}, count))
