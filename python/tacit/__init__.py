"""Private federated learning with guarantees it can prove.

Five lines to a private model:

>>> import numpy as np, tacit
>>> rng = np.random.default_rng(0)
>>> x = rng.normal(size=(400, 5)); y = (x @ [1, -1, 2, 0, 1] > 0).astype(float)
>>> run = tacit.train(data=(x, y), epsilon=4.0, clients=4, rounds=30, row_norm="clip", intercept=True, keep=False)
>>> run.certificate
Certificate(ε = 4 at δ = 1e-05 for one record)
"""

from . import accounting, interop
from ._config import algorithms, options
from ._data import Data
from ._run import (
    Certificate,
    Chart,
    Ledger,
    Page,
    Plan,
    Run,
    Trace,
    open_run,
    plan,
    plot,
    report,
    resume,
    runs,
    train,
    verify,
)
from ._tacit import Config
from ._tacit import version as __version__
from .accounting import Accountant, calibrate, noise_multiplier
from .errors import (
    BudgetError,
    ConfigError,
    Error,
    Interrupted,
    MalformedError,
    MismatchError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from .session import Fit, Session, minimise, per_example

__all__ = [
    "Accountant",
    "BudgetError",
    "Certificate",
    "Chart",
    "Config",
    "ConfigError",
    "Data",
    "Error",
    "Fit",
    "Interrupted",
    "Ledger",
    "MalformedError",
    "MismatchError",
    "NotFoundError",
    "Page",
    "Plan",
    "Run",
    "Session",
    "StorageError",
    "Trace",
    "UnsupportedError",
    "accounting",
    "algorithms",
    "calibrate",
    "interop",
    "minimise",
    "noise_multiplier",
    "open_run",
    "options",
    "per_example",
    "plan",
    "plot",
    "report",
    "resume",
    "runs",
    "train",
    "verify",
]
