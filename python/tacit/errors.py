"""What the engine refuses, as exceptions.

Every message is one sentence that names the thing, the value and the remedy.

>>> import tacit
>>> try:
...     tacit.plan({"privacy": {"epsilonn": 1}})
... except tacit.ConfigError as e:
...     print(e)
privacy.epsilonn: unknown key; did you mean privacy.epsilon?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._run import Run


class Error(Exception):
    """Something that the engine refused. ``code`` is the exit code of the program for it."""

    code: int = 1


class ConfigError(Error, ValueError):
    """A config, an option or an argument is wrong."""

    code = 2


class NotFoundError(Error, LookupError):
    """A file, a data set or a run is missing."""

    code = 3


class MalformedError(Error, ValueError):
    """A file or an array is there and cannot be understood."""

    code = 4


class BudgetError(Error):
    """The privacy budget refuses."""

    code = 5


class StorageError(Error, OSError):
    """Disk, network or database."""

    code = 6


class UnsupportedError(Error, NotImplementedError):
    """A valid request that this build, or this combination, cannot serve."""

    code = 7


class MismatchError(Error):
    """A certificate or a signature does not hold."""

    code = 8


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training: the round was finished and certified.

    ``run`` is what there is of it; :func:`tacit.resume` goes on with its folder (and the rows, where they are in memory).
    """

    def __init__(self, run: "Run"):
        on = "; it was kept nowhere" if run.folder is None else f"; tacit.resume({str(run.folder)!r}) goes on with it"
        super().__init__(f"interrupted after round {run.rounds}{on}")
        self.run = run


_BY_CODE = {
    cls.code: cls
    for cls in (
        ConfigError,
        NotFoundError,
        MalformedError,
        BudgetError,
        StorageError,
        UnsupportedError,
        MismatchError,
    )
}


def of_code(code: int, message: str) -> Error:
    """The exception for an error of the engine."""
    return _BY_CODE.get(code, Error)(message)
