"""The noiseless solver of fcrn_bench.cc in NumPy: all clients at once, one record each, as an expert would write it;
one thread. Answers one request per line, "plane|steps CLIENTS FEATURES COORDINATES TAU SECONDS", with one line of JSON."""
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np

L2, CURVATURE, CUBIC = 1e-4, 1.0, 0.0962250448649


class Solver:
    def __init__(self, clients, features, tau, box):
        rng = np.random.default_rng(1)
        self.a = rng.standard_normal((clients, features))
        self.a /= np.sqrt((self.a * self.a).sum(axis=1, keepdims=True))
        self.y = np.sign(rng.standard_normal(clients))
        self.x = 0.01 * rng.standard_normal(features)
        self.tau, self.box = tau, box
        self.v, self.mean, self.r = (np.empty((clients, features)) for _ in range(3))

    def round(self):
        a, v, r = self.a, self.v, self.r
        margin = a @ self.x
        e = np.exp(-self.y * margin)
        slope, curvature = -self.y * e / (1 + e), e / (1 + e) ** 2
        v[:] = 0
        self.mean[:] = 0
        for s in range(self.tau - 1):
            rate, rho = 2 / (CURVATURE * (s + 2)), 2 / (s + 3)
            along = np.einsum("ij,ij->i", a, v)
            pull = L2 + CUBIC / 2 * np.sqrt(np.einsum("ij,ij->i", v, v))
            np.multiply(a, (-rate * (slope + curvature * along))[:, None], out=r)
            v *= (1 - rate * pull)[:, None]
            v += r
            v -= rate * L2 * self.x
            if self.box is not None:
                np.clip(v, -self.box - self.x, self.box - self.x, out=v)
            self.mean *= 1 - rho
            np.multiply(v, rho, out=r)
            self.mean += r


def measure(solver, seconds):
    solver.round()
    blocks, end = [], time.process_time() + seconds
    while not blocks or time.process_time() < end:
        begin = time.process_time()
        for _ in range(3):
            solver.round()
        blocks.append((time.process_time() - begin) / 3)
    blocks.sort()
    return {"min_us": blocks[0] * 1e6, "median_us": blocks[len(blocks) // 2] * 1e6, "blocks": len(blocks)}


def newton(file, features, positive, rows, ridge=1e-3, goal=1e-9):
    """scikit-learn's fastest solver that gets there, on all rows at once: the least time of a fit to the goal."""
    try:
        from sklearn.datasets import load_svmlight_file
        from sklearn.linear_model import LogisticRegression
    except ImportError as e:
        return {"missing": str(e)}
    import bz2
    import scipy.sparse
    with (bz2.open(file) if file.endswith(".bz2") else open(file, "rb")) as text:
        x, y = load_svmlight_file(text, n_features=features)
    x = scipy.sparse.hstack([x, np.ones((x.shape[0], 1))]).tocsr()[:rows]
    y = np.where(y[:rows] == positive, 1.0, -1.0)
    best = None
    for matrix in (x, x.toarray()):
        for tolerance in (1e-8, 1e-9, 1e-10):
            model = LogisticRegression(C=1 / (ridge * len(y)), solver="newton-cholesky", fit_intercept=False, tol=tolerance, max_iter=100)
            begin = time.process_time()
            model.fit(matrix, y)
            spent = time.process_time() - begin
            w = model.coef_[0]
            gradient = x.T @ (-y / (1 + np.exp(y * (x @ w)))) / len(y) + ridge * w
            if np.linalg.norm(gradient) <= goal:
                if best is None or spent < best["ms"] / 1e3:
                    best = {"ms": spent * 1e3, "norm": float(np.linalg.norm(gradient)), "steps": int(model.n_iter_[0])}
                break
    return best or {"missing": "no solver of scikit-learn gets there"}


print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("newton "):
        _, file, features, positive, rows = line.split()
        print(json.dumps(newton(file, int(features), float(positive), int(rows))), flush=True)
        continue
    what, clients, features, _, tau, seconds = line.split()
    solver = Solver(int(clients), int(features), int(tau), None if what == "plane" else 0.04)
    print(json.dumps(measure(solver, float(seconds))), flush=True)
