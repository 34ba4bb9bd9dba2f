"""Estimators for scikit-learn: private linear models, trained across clients.

>>> import numpy as np
>>> from tacit.sklearn import PrivateFederatedClassifier
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1, 1, size=(600, 4)); y = np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")
>>> model = PrivateFederatedClassifier(epsilon=3.0, output=None).fit(x, y, clients=np.arange(600) % 3)
>>> bool(model.score(x, y) > 0.85), model.certificate_.epsilon <= 3.0
(True, True)
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _tacit
from ._data import Data
from ._run import Certificate, train
from .errors import ConfigError


class _Private(BaseEstimator):
    """What the two share: the settings, a run of the engine, and its model."""

    def __init__(
        self,
        *,
        epsilon: float = 3.0,
        delta: float = 1e-5,
        algorithm: str = "isrl-dp",
        rounds: int = 100,
        rate: float = 1.0,
        clip: float = 1.0,
        bounds: Optional["tuple[Any, Any]"] = None,
        row_bound: Optional[float] = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        output: Optional[str] = "runs",
        data_name: Optional[str] = None,
        random_state: Optional[int] = None,
        settings: Optional[Mapping[str, Any]] = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.algorithm = algorithm
        self.rounds = rounds
        self.rate = rate
        self.clip = clip
        self.bounds = bounds
        self.row_bound = row_bound
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.output = output
        self.data_name = data_name
        self.random_state = random_state
        self.settings = settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _train(self, x: Any, y: np.ndarray, clients: Any, model: "dict[str, Any]") -> None:
        rows = Data(x, y, clients=clients, name=self.data_name)
        config: "dict[str, Any]" = {
            "privacy": {"epsilon": float(self.epsilon), "delta": float(self.delta), "clip": float(self.clip)},
            "algorithm": {"name": self.algorithm, "rounds": int(self.rounds)},
            "model": {"l2": float(self.l2), **model},
            "data": {"intercept": bool(self.fit_intercept), "clients": 1},
        }
        if self.algorithm != "primal-dual":
            config["algorithm"]["local_rate"] = float(self.rate)
        if self.bounds is not None:
            if not isinstance(self.bounds, (tuple, list)) or len(self.bounds) != 2:
                raise ConfigError(f"bounds = {self.bounds!r}: must be a pair (lower, upper), of numbers or of one each a feature")
            lower, upper = self.bounds
            config["data"]["lower"] = np.atleast_1d(np.asarray(lower, dtype=float))
            config["data"]["upper"] = np.atleast_1d(np.asarray(upper, dtype=float))
        if self.row_bound is not None:
            config["data"].update(row_norm="clip", row_bound=float(self.row_bound))
        if self.random_state is not None:
            seed = np.random.RandomState(self.random_state) if isinstance(self.random_state, (int, np.integer)) else self.random_state
            config["experiment"] = {"seed": int(seed.randint(2**31 - 1))}
            config["privacy"]["noise"] = "replayable"
        if self.output is not None:
            config.setdefault("experiment", {})["output"] = str(self.output)
        for key, value in (self.settings or {}).items():
            table, _, name = key.partition(".")
            if not name:
                raise ConfigError(f"settings: {key!r} must be written table.key, e.g. 'algorithm.server_rate'")
            config.setdefault(table, {})[name] = value
        self.run_ = train(config, data=rows, keep=self.output is not None, progress=False)
        self.certificate_: Certificate = self.run_.certificate
        self.model_ = np.array(self.run_.model)
        self.n_iter_ = self.run_.rounds
        self._config = self.run_.config.toml()

    def _scores(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, x, accept_sparse="csr", reset=False, dtype=np.float64)
        native = _tacit.Trained.of(_tacit.Config.parse(self._config), self.model_)
        return native.score("memory:new rows", Data(x)._rows)[0]

    def __getstate__(self) -> "dict[str, Any]":
        state = super().__getstate__().copy()
        state.pop("run_", None)  # the model and its certificate stay
        return state

    def _split(self, rows: np.ndarray) -> "tuple[np.ndarray, np.ndarray]":
        if not self.fit_intercept:
            return rows, np.zeros(rows.shape[0])
        return rows[:, :-1], rows[:, -1]


_SHARED = """
    :param epsilon: what the fit may cost, for one record; finite unless you say otherwise
    :param delta: its δ
    :param algorithm: any name of :func:`tacit.algorithms` that protects records
    :param rounds: rounds of communication
    :param rate: step size, in units of the clipped gradient's mean (not for primal-dual, which has its own)
    :param clip: every record's gradient is scaled to at most this length
    :param bounds: ``(lower, upper)``, public ranges of the features, which are mapped to [−1, 1]; numbers or one each
    :param row_bound: rows longer than this public constant are scaled down to it
    :param output: where the run is kept with its ledger; ``None`` keeps nothing, and no ledger knows of the fit
    :param data_name: under which name fits on these rows add up in the ledger
    :param random_state: ``None``: noise from the operating system. A number makes fits repeatable, for experiments:
        whoever knows it can take the noise away, and the certificate says so
    :param settings: further keys of an experiment file, ``{"algorithm.output": "mean"}``

    Scaling by what the data hold would leak: use public ``bounds``, or features that are of order 1 already.

    ``fit(x, y, clients=None)``: ``clients`` says who holds each row; one client holds all unless given.
    Afterwards: ``certificate_``, ``coef_``, ``intercept_``, ``run_``, ``n_iter_``.
"""


class PrivateFederatedClassifier(ClassifierMixin, _Private):
    __doc__ = (
        "A linear classifier: logistic for two classes, softmax for more.\n"
        + _SHARED
        + "\n    The set of classes is taken from ``y`` and counts as public.\n"
    )

    def fit(self, X: Any, y: Any, clients: Any = None) -> "PrivateFederatedClassifier":
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_}.")
        if len(self.classes_) == 2:
            self._train(X, codes.astype(float), clients, {"name": "logistic"})
            rows = self.model_.reshape(1, -1)
        else:
            classes = len(self.classes_)
            self._train(X, codes.astype(float), clients, {"name": "softmax", "classes": classes})
            rows = self.model_.reshape(classes, -1)
        self.coef_, self.intercept_ = self._split(rows)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The margin for two classes, one score per class for more."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        best = (scores[:, 0] >= 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[best]


class PrivateFederatedRegressor(RegressorMixin, _Private):
    __doc__ = (
        "A linear regression by least squares, whose gradients are clipped record by record.\n"
        + _SHARED
        + "\n    :param label_bound: labels beyond ± this public constant are cut off\n"
    )

    def __init__(
        self,
        *,
        epsilon: float = 3.0,
        delta: float = 1e-5,
        algorithm: str = "isrl-dp",
        rounds: int = 100,
        rate: float = 0.3,
        clip: float = 1.0,
        bounds: Optional["tuple[Any, Any]"] = None,
        row_bound: Optional[float] = None,
        fit_intercept: bool = True,
        l2: float = 0.0,
        label_bound: Optional[float] = None,
        output: Optional[str] = "runs",
        data_name: Optional[str] = None,
        random_state: Optional[int] = None,
        settings: Optional[Mapping[str, Any]] = None,
    ):
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            algorithm=algorithm,
            rounds=rounds,
            rate=rate,
            clip=clip,
            bounds=bounds,
            row_bound=row_bound,
            fit_intercept=fit_intercept,
            l2=l2,
            output=output,
            data_name=data_name,
            random_state=random_state,
            settings=settings,
        )
        self.label_bound = label_bound

    def fit(self, X: Any, y: Any, clients: Any = None) -> "PrivateFederatedRegressor":
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        if self.label_bound is not None:
            y = np.clip(y, -float(self.label_bound), float(self.label_bound))
        self._train(X, np.asarray(y, dtype=float), clients, {"name": "least-squares"})
        coef, intercept = self._split(self.model_.reshape(1, -1))
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)[:, 0]
