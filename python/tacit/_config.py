"""From what a person writes to an experiment file of the engine."""

from __future__ import annotations

import difflib
import functools
import os
from pathlib import Path
from typing import Any, Mapping, Union

from . import _json, _tacit
from .errors import ConfigError

ConfigLike = Union[None, str, "os.PathLike[str]", Mapping[str, Any], _tacit.Config]


def options() -> "list[dict[str, str]]":
    """Every key of an experiment file: ``key``, ``type``, ``range``, ``default``, ``help``.

    >>> import tacit
    >>> [o["default"] for o in tacit.options() if o["key"] == "privacy.epsilon"]
    ['1.0']
    """
    return _json.loads(_tacit.options())


def algorithms() -> "list[dict[str, str]]":
    """What ``algorithm.name`` may be, with the paper of each.

    >>> import tacit
    >>> "fedexp" in [a["name"] for a in tacit.algorithms()]
    True
    """
    return _json.loads(_tacit.algorithms())


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        value = [_plain(v) for v in value]
        if value and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
            return [float(v) for v in value]
    return value


@functools.lru_cache(maxsize=None)
def _short_names() -> "dict[str, list[str]]":
    names: "dict[str, list[str]]" = {}
    for option in options():
        names.setdefault(option["key"].split(".")[1], []).append(option["key"])
    return names


@functools.lru_cache(maxsize=None)
def _tables() -> "frozenset[str]":
    return frozenset(o["key"].split(".")[0] for o in options())


# Short names that several tables have, and the one that is meant.
_MEANT = {
    "seed": "experiment.seed",
    "output": "experiment.output",
    "name": "experiment.name",
    "rows": "data.rows",
    "data": "data.source",
}


def assign(config: _tacit.Config, key: str, value: Any) -> None:
    """Sets ``table.key``, or ``key`` alone where one table has it.

    A table takes a mapping; ``algorithm``, ``model``, ``data`` and ``runtime`` also take the name of one.
    """
    if isinstance(value, Mapping):
        for inner, v in value.items():
            assign(config, f"{key}.{inner}", v)
        return
    key = key.replace("__", ".")
    if "." not in key:
        if key in _MEANT:
            key = _MEANT[key]
        elif key in _tables() and isinstance(value, str):
            key = f"{key}.name"
        else:
            found = _short_names().get(key, [])
            if len(found) > 1:
                raise ConfigError(f"{key}: is a key of several tables; say which: {', '.join(found)}")
            if not found:
                near = difflib.get_close_matches(key, list(_short_names()) + list(_MEANT), 1)
                meant = f"did you mean {near[0]}?" if near else "tacit.options() lists them"
                raise ConfigError(f"{key}: unknown key of an experiment file; {meant}")
            key = found[0]
    value = _plain(value)
    try:
        config.set(key, value)
    except TypeError:
        raise ConfigError(
            f"{key} = {value!r}: must be a number, a text, true or false, or a list of numbers or texts"
        ) from None


def resolve(config: ConfigLike, settings: Mapping[str, Any]) -> _tacit.Config:
    """A config from a path, TOML text, a mapping or nothing, then the settings on top."""
    if config is None:
        out = _tacit.Config()
    elif isinstance(config, _tacit.Config):
        out = config.copy()
    elif isinstance(config, Mapping):
        out = _tacit.Config()
        for key, value in config.items():
            assign(out, str(key), value)
    elif isinstance(config, str) and ("\n" in config or "=" in config):
        out = _tacit.Config.parse(config)
    elif not isinstance(config, (str, os.PathLike)):
        raise ConfigError(
            f"config: must be a path, TOML text, a mapping or nothing, and is a {type(config).__name__}; rows are given as data=…"
        )
    else:
        out = _tacit.Config.load(str(Path(config).expanduser()))
    for key, value in settings.items():
        if value is not None:
            assign(out, key, value)
    return out

