"""How training shows where it is: one line that changes, in terminals and in notebooks."""

from __future__ import annotations

import math
import sys
from typing import Any, Optional

from . import _json
from ._json import up


def _headline(metrics: "dict[str, float]") -> str:
    for name in ("accuracy", "error", "optimality", "loss"):
        if name in metrics:
            value = metrics[name]
            return f", accuracy {100 * value:.2f} %" if name == "accuracy" else f", {name} {value:.4g}"
    return ""


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Progress:
    """Called after rounds; prints on a terminal, updates a display in a notebook, is silent elsewhere."""

    def __init__(self, stream: Any = None):
        self.stream = stream if stream is not None else sys.stderr
        self.notebook = in_notebook()
        self.terminal = not self.notebook and getattr(self.stream, "isatty", lambda: False)()
        self._headline = ""
        self._handle: Any = None
        self._drawn = False

    def __call__(self, round_: int, rounds: int, epsilon: float, seconds: float, metrics: str) -> None:
        if metrics:
            self._headline = _headline(_json.loads(metrics))
        if not (self.notebook or self.terminal):
            return
        part = round_ / max(1, rounds)
        spent = "not private" if math.isinf(epsilon) else f"ε {up(epsilon)}"
        bar = "█" * round(30 * part)
        line = f"{bar:░<30} round {round_} of {rounds}, {spent}{self._headline}"
        if self.terminal:
            self.stream.write("\r\x1b[K" + line)
            self.stream.flush()
            self._drawn = True
        else:
            self._show(line)

    def _show(self, line: str) -> None:
        from IPython.display import HTML, display

        text = HTML(f"<code>{line}</code>")
        if self._handle is None:
            self._handle = display(text, display_id=True)
        else:
            self._handle.update(text)

    def close(self) -> None:
        if self._drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


class _Silent:
    def __call__(self, *args: Any) -> None:
        pass

    def close(self) -> None:
        pass


class _Own:
    """A function of the user's, called after every round with a dict."""

    def __init__(self, call: Any):
        self.call = call

    def __call__(self, round_: int, rounds: int, epsilon: float, seconds: float, metrics: str) -> None:
        found: Optional[Any] = _json.loads(metrics) if metrics else None
        self.call({"round": round_, "rounds": rounds, "epsilon": epsilon, "seconds": seconds, "metrics": found})

    def close(self) -> None:
        pass


def watch(progress: Any) -> Any:
    if callable(progress):
        return _Own(progress)
    return Progress() if progress else _Silent()
