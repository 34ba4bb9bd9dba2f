"""Heart disease at four hospitals: is a private model of all of them better than what each has by itself?

Cleveland, Hungary, Switzerland and Long Beach (UCI) are one client each. Three of ten patients of every hospital are
held out; the rest train

  * one model across the hospitals, private for every patient: (ε, δ) = (3, 1e-4) against the server and the others,
  * per hospital, a model of its own patients alone, at the same ε,
  * per hospital, a model of its own patients alone without any privacy.

All are measured on the held-out patients of all hospitals, for several seeds. Categories, ranges and fills are
public constants: from the data set's description, and what is usual in adults.

    python four_hospitals.py [--data FOLDER] [--seeds 20] [--epsilon 3] [--json]

FOLDER is the data set heart_disease as `tacit data fetch heart_disease` keeps it ($TACIT_DATA/heart_disease).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from pathlib import Path

import numpy as np

import tacit

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num".split()
CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
RANGES = {
    "age": (20, 80),
    "sex": (0, 1),
    "trestbps": (80, 200),
    "chol": (100, 400),
    "fbs": (0, 1),
    "thalach": (60, 200),
    "exang": (0, 1),
    "oldpeak": (-2, 6),
    "ca": (0, 3),
}
FILLS = {"trestbps": 130, "chol": 240, "fbs": 0, "thalach": 140, "exang": 0, "oldpeak": 1, "ca": 0}
INDICATED = ("trestbps", "chol", "fbs", "ca")  # whose absence is itself a feature


def encode(table: np.ndarray) -> "tuple[np.ndarray, np.ndarray]":
    """Features in [−1, 1], and 1 for the ill."""
    of = {name: table[:, i].copy() for i, name in enumerate(COLUMNS)}
    of["chol"][of["chol"] == 0] = np.nan  # how two hospitals write that it was not measured
    out = []
    for name in COLUMNS[:-1]:
        value = of[name]
        if name in CATEGORIES:
            out += [(value == c).astype(float) for c in CATEGORIES[name]]
            continue
        low, high = RANGES[name]
        filled = np.clip(np.where(np.isnan(value), FILLS.get(name, low), value), low, high)
        out.append(2 * (filled - low) / (high - low) - 1)
        if name in INDICATED:
            out.append(np.isnan(value).astype(float))
    return np.column_stack(out), (of["num"] > 0).astype(float)


def load(folder: Path) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    parts = []
    for k, name in enumerate(HOSPITALS):
        file = folder / f"processed.{name}.data.gz"
        with gzip.open(file, "rt") as lines:
            table = np.array([[np.nan if v.strip() == "?" else float(v) for v in line.split(",")] for line in lines])
        x, y = encode(table)
        parts.append((x, y, np.full(len(y), k)))
    return tuple(np.concatenate(p) for p in zip(*parts))  # type: ignore[return-value]


def fit(x, y, clients, epsilon: float, seed: int, **more) -> tacit.Run:
    """One recipe for all models; 2.5 bounds the length of nearly all rows, and all by scaling."""
    return tacit.train(
        data=tacit.Data(x, y, clients=clients),
        algorithm="isrl-dp",
        epsilon=epsilon,
        delta=1e-4,
        clip=1.0,
        rounds=40,
        local_rate=2.0,
        l2=0.02,
        intercept=True,
        row_norm="clip",
        row_bound=2.5,
        seed=seed,
        keep=False,
        progress=False,
        **more,
    )


def study(folder: Path, seeds: int, epsilon: float) -> "dict[str, object]":
    x, y, hospital = load(folder)
    accuracy: "dict[str, list]" = {"federated": [], "local": [], "local without privacy": []}
    certified = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        held = np.zeros(len(y), dtype=bool)
        for k in range(len(HOSPITALS)):
            own = np.flatnonzero(hospital == k)
            held[rng.permutation(own)[: round(0.3 * len(own))]] = True
        test = (x[held], y[held])

        def score(run: tacit.Run) -> float:
            return run.evaluate(test)["accuracy"]

        run = fit(x[~held], y[~held], hospital[~held], epsilon, seed)
        certified.append(float(run.certificate.verify()["epsilon"]))  # recomputed; raises where a figure does not hold
        accuracy["federated"].append(score(run))
        alone, exposed = [], []
        for k in range(len(HOSPITALS)):
            own = ~held & (hospital == k)
            alone.append(score(fit(x[own], y[own], np.zeros(own.sum()), epsilon, seed)))
            exposed.append(score(fit(x[own], y[own], np.zeros(own.sum()), epsilon, seed, mechanism="expose")))
        accuracy["local"].append(alone)
        accuracy["local without privacy"].append(exposed)
    mean = {k: np.mean(v, axis=0) for k, v in accuracy.items()}
    spread = {k: np.std(v, axis=0) for k, v in accuracy.items()}
    return {
        "seeds": seeds,
        "epsilon": max(certified),
        "delta": 1e-4,
        "federated": {"mean": float(mean["federated"]), "std": float(spread["federated"])},
        **{
            kind: {
                name: {"mean": float(mean[kind][k]), "std": float(spread[kind][k])} for k, name in enumerate(HOSPITALS)
            }
            for kind in ("local", "local without privacy")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", "data")) / "heart_disease")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    found = study(a.data, a.seeds, a.epsilon)
    if a.json:
        print(json.dumps(found, indent=2))
        return
    print(f"accuracy on the held-out patients of all hospitals, mean over {a.seeds} seeds")
    federated = found["federated"]["mean"]
    print(f"  {'federated, private':<24} {100 * federated:5.1f} %   ε = {found['epsilon']:.4g} at δ = {found['delta']:g}")
    for kind, label in (("local", "private"), ("local without privacy", "not private")):
        for name in HOSPITALS:
            mean = found[kind][name]["mean"]
            print(f"  {name + ' alone, ' + label:<24} {100 * mean:5.1f} %   {100 * (federated - mean):+5.1f} for the federation")


if __name__ == "__main__":
    main()
