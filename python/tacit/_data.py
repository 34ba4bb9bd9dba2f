"""Arrays, tables and sparse matrices as rows of a run. Nothing is copied that has the engine's layout already:
64-bit floats in C order, or compressed sparse rows."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from . import _tacit
from .errors import ConfigError


def _floats(values: Any, what: str) -> np.ndarray:
    table = values
    try:
        if hasattr(values, "to_numpy"):  # pandas, polars
            values = table.to_numpy()
            if values.dtype == object:  # of several kinds, or with pandas.NA
                values = table.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{what}: {_culprits(table)} no number; encode categories as numbers by public constants first"
        ) from None


def _culprits(table: Any) -> str:
    """Which columns of a table are to blame, if that can be said."""
    kinds = getattr(table, "dtypes", None)
    if kinds is None or not hasattr(table, "columns"):
        return "holds something that is"
    bad = [str(c) for c, kind in zip(table.columns, kinds) if getattr(kind, "kind", "O") not in "biuf"]
    return f"the column{'s' if len(bad) > 1 else ''} {', '.join(map(repr, bad[:8]))} hold{'' if len(bad) > 1 else 's'} what is"


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


def _codes(names: Any, what: str, rows: int) -> "tuple[np.ndarray, list[str]]":
    """Numbers 0, 1, … for names, in their order of appearance."""
    if hasattr(names, "to_numpy"):
        names = names.to_numpy()
    names = np.asarray(names)
    if names.shape != (rows,):
        raise ConfigError(f"{what}: must be one for each of the {rows} rows, and has shape {names.shape}")
    absent = [name is None or name != name for name in names.tolist()] if names.dtype.kind in "Of" else [False]
    if any(absent):
        raise ConfigError(f"{what}: is missing for some rows; name one for every row, or leave these rows out")
    known, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse.reshape(-1)].astype(np.uint32), [str(known[i]) for i in order]


class Data:
    """Rows in memory: features, labels and, if given, who holds a row and whose it is.

    :param x: ndarray, DataFrame or SciPy sparse matrix, one row a record
    :param y: labels, one a row; a text names a column of the DataFrame ``x``
    :param clients: the client that holds each row (or the name of a column); ``None``: the config splits the rows
    :param persons: whose record a row is (or the name of a column), for ``privacy.unit = "person"``
    :param name: under which name runs on these rows add up in the ledger

    >>> import numpy as np, tacit
    >>> x = np.zeros((4, 2)); y = np.array([0, 1, 0, 1])
    >>> tacit.Data(x, y, clients=["a", "a", "b", "b"])
    Data(4 rows, 2 features, 2 clients)
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        clients: Any = None,
        persons: Any = None,
        name: Optional[str] = None,
        feature_names: Optional[Sequence[str]] = None,
    ):
        if hasattr(x, "columns") and hasattr(x, "drop"):
            taken = [c for c in (y, clients, persons) if isinstance(c, str)]
            for column in taken:
                if column not in x.columns:
                    there = ", ".join(repr(str(c)) for c in list(x.columns)[:12])
                    raise ConfigError(f"x: has no column {column!r}; there are {there}")
            y = x[y] if isinstance(y, str) else y
            clients = x[clients] if isinstance(clients, str) else clients
            persons = x[persons] if isinstance(persons, str) else persons
            x = x.drop(columns=taken) if taken else x
            feature_names = feature_names or [str(c) for c in x.columns]
        self.feature_names = list(feature_names) if feature_names is not None else None
        self.name = name
        self._rows = _tacit.Rows()
        if _is_sparse(x):
            x = x.tocsr()
            if not x.has_canonical_format:
                x = x.copy()
                x.sum_duplicates()
            self.shape = tuple(x.shape)
            value = np.ascontiguousarray(x.data, dtype=np.float64)
            column = np.ascontiguousarray(x.indices, dtype=np.int32)
            begin = np.ascontiguousarray(x.indptr, dtype=np.int64)
            self._rows.sparse(value, column, begin, self.shape[1])
            self._x: Any = x
        else:
            x = _floats(x, "x")
            if x.ndim != 2:
                raise ConfigError(f"x: must have one row a record and one column a feature, and has shape {x.shape}")
            self.shape = x.shape
            self._rows.dense(x)
            self._x = x
        labels = np.zeros(self.shape[0]) if y is None else _floats(y, "y").reshape(-1)
        self._rows.labels(labels)
        self._y = labels
        self._codes = np.zeros(self.shape[0], dtype=np.uint32)
        self.clients: Optional[int] = None
        if clients is not None:
            codes, names = _codes(clients, "clients", self.shape[0])
            self._rows.clients(codes, names)
            self._codes = codes
            self.clients = len(names)
        self.persons = persons is not None
        if persons is not None:
            self._rows.persons(_codes(persons, "persons", self.shape[0])[0])

    @property
    def source(self) -> str:
        """What a config calls these rows."""
        return f"memory:{self.name or 'rows'}"

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        held = f", {self.clients} clients" if self.clients is not None else ""
        return f"Data({self.shape[0]} rows, {self.shape[1]} features{held})"


def as_data(data: Any, **more: Any) -> Data:
    """``Data`` from itself, or from a pair of features and labels, or a triple with clients."""
    if isinstance(data, Data):
        return data
    if isinstance(data, tuple) and len(data) in (2, 3):
        return Data(data[0], data[1], clients=data[2] if len(data) == 3 else None, **more)
    raise ConfigError(
        "data: give tacit.Data(x, y), a pair (x, y), a triple (x, y, clients), or the name or path of a data set"
    )
