"""The engine's JSON, in which infinities are texts, and how an ε is printed."""

from __future__ import annotations

import json
import math
from typing import Any

_TEXTS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def loads(text: str) -> Any:
    return _numbers(json.loads(text))


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    if isinstance(value, str):
        return _TEXTS.get(value, value)
    return value


def dumps(value: Any) -> str:
    """JSON as the engine reads it."""
    return json.dumps(_texts(value))


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _texts(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_texts(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a NumPy number
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


def up(epsilon: float, digits: int = 4) -> str:
    """So many digits, never below the value."""
    if epsilon == 0 or not math.isfinite(epsilon):
        return f"{epsilon:g}"
    places = digits - 1 - math.floor(math.log10(epsilon))
    text = f"{epsilon:.{digits}g}"
    step = 10.0**-places
    while float(text) < epsilon:
        text = f"{float(text) + step:.{digits}g}"
    return text
