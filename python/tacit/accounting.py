"""What releases cost, and how much noise a budget asks for.

>>> from tacit import accounting
>>> steps = accounting.Accountant("add-remove")
>>> steps.compose("poisson-gaussian", 1000, noise_multiplier=1.0, rate=0.01)
>>> low, high = steps.epsilon_bracket(1e-5)
>>> 1.8 < low <= high < 2.2
True
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Optional, Union

from . import _json, _tacit
from .errors import ConfigError

Event = Mapping[str, Any]


class Calibration(NamedTuple):
    """What a search found: with it, ``epsilon`` is at most what was asked for."""

    value: float
    epsilon: float
    epsilon_lower: float
    method: str
    at_end: bool


class Accountant:
    """Composes releases and says what they cost together, as a bracket that holds the truth.

    Events are those of docs/events.md: a ``type`` and its keys.

    >>> a = Accountant("replace-one")
    >>> a.compose("gaussian", noise_multiplier=2.0)
    >>> round(a.epsilon(1e-5), 3)
    1.993
    >>> a.delta(a.epsilon(1e-5)) <= 1.0001e-5
    True
    """

    def __init__(self, adjacency: str = "replace-one", events: Iterable[Event] = ()):
        self.adjacency = adjacency
        self._events: "list[dict[str, Any]]" = []
        self._native: Optional[_tacit.Accountant] = None
        for event in events:
            self.compose(event)

    def compose(self, event: Union[str, Event], count: Optional[int] = None, **keys: Any) -> None:
        """Adds ``count`` releases of an event: its type and keys, or a mapping of them."""
        one: "dict[str, Any]" = dict(event) if isinstance(event, Mapping) else {"type": event}
        one.update(keys)
        if count is not None:
            one["count"] = count
        native = self._parse([one])
        if self._native is None:
            self._native = native
        else:
            self._native.compose(native)
        self._events.append(one)

    def _parse(self, events: "list[dict[str, Any]]") -> _tacit.Accountant:
        text = _json.dumps({"adjacency": self.adjacency, "events": events})
        return _tacit.Accountant.parse(text, "events", None)[0]

    def _account(self) -> _tacit.Accountant:
        if self._native is None:
            raise ConfigError("the accountant has no events yet; add some with compose()")
        return self._native

    def epsilon(self, delta: float) -> float:
        """An ε that holds at δ: never below the truth."""
        return self._account().epsilon(delta)[1] if self._native is not None else 0.0

    def epsilon_bracket(self, delta: float) -> "tuple[float, float]":
        """The truth lies between the two."""
        low, high, _ = self._account().epsilon(delta)
        return low, high

    def delta(self, epsilon: float) -> float:
        """A δ that holds at ε: never below the truth."""
        return self._account().delta(epsilon)[1]

    def method(self, delta: float) -> str:
        """How the ε was found, in words."""
        return self._account().epsilon(delta)[2]

    def renyi_epsilon(self, delta: float) -> float:
        """What accountants by Rényi divergences can reach at best, for comparison."""
        return self._account().renyi_epsilon(delta)

    def scale_for(self, epsilon: float, delta: float) -> Calibration:
        """The smallest factor on all noise with which the events keep (ε, δ)."""
        return Calibration(**_json.loads(_tacit.calibrate_events(self._account(), "scale", epsilon, delta)))

    @property
    def events(self) -> "list[dict[str, Any]]":
        """The events, equal ones together."""
        return _json.loads(self._account().events())["events"] if self._native is not None else []

    def json(self) -> str:
        """The list as a file for ``tacit account events``."""
        return self._account().events()

    def __repr__(self) -> str:
        return f"Accountant({self.adjacency}, {len(self.events)} kinds of release)"


def epsilon(events: Union[Accountant, Iterable[Event]], delta: float, adjacency: str = "replace-one") -> float:
    """What releases cost together at δ.

    >>> round(epsilon([{"type": "pure", "epsilon": 0.5, "count": 2}], 0.0), 12)
    1.0
    """
    account = events if isinstance(events, Accountant) else Accountant(adjacency, events)
    return account.epsilon(delta)


def calibrate(
    find: str,
    epsilon: float,
    delta: float,
    *,
    mechanism: str = "gaussian",
    adjacency: Optional[str] = None,
    noise: Optional[float] = None,
    rounds: Optional[float] = None,
    rate: Optional[float] = None,
    sampling: str = "poisson",
    sensitivity: int = 1,
    dimension: int = 1,
    categories: int = 2,
) -> Calibration:
    """The noise, the number of rounds or the sampling rate that (ε, δ) allows, on the safe side.

    :param find: ``noise``, ``rounds`` or ``rate``
    :param noise: σ over the sensitivity; for mechanisms other than Gaussians the ε of one release

    >>> c = calibrate("noise", 2.0, 1e-5, rounds=1000, rate=0.01)
    >>> c.epsilon <= 2.0, round(c.value, 3)
    (True, 0.959)
    """
    if sampling not in ("poisson", "fixed"):
        raise ConfigError(f"sampling = {sampling!r}: must be poisson or fixed")
    sampled = rate is not None or find == "rate"
    if adjacency is None:
        adjacency = "add-remove" if sampled and sampling == "poisson" else "replace-one"
    if find == "rate" and rate is None:
        rate = 0.5  # a sample; the value is not read
    found = _tacit.calibrate(
        find,
        epsilon,
        delta,
        mechanism,
        adjacency,
        noise,
        rounds,
        rate,
        sampling == "fixed",
        sensitivity,
        dimension,
        categories,
    )
    return Calibration(**_json.loads(found))


def noise_multiplier(epsilon: float, delta: float, rounds: int = 1, rate: Optional[float] = None) -> float:
    """σ over the sensitivity for so many Gaussian releases, on Poisson samples if there is a rate.

    >>> noise_multiplier(1.0, 1e-5) > 3.7
    True
    """
    return calibrate("noise", epsilon, delta, rounds=rounds, rate=rate).value
