"""The round of primal_dual_bench.cc as an expert would write it in NumPy and SciPy: the same rows, clipping and
step, their own noise, one thread. Answers one request per line, "numpy|scipy SECONDS", with one line of JSON."""
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np

CLIENTS, RECORDS, FEATURES = 20, 561, 123
GAMMA, CLIP, L2, L1, RADIUS, SIGMA = 0.25, 1.0, 1e-3, 1e-4, 10.0, 20.0
BLOCK = 10  # rounds between two looks at the clock

folder = sys.argv[1]
value = np.fromfile(folder + "/value.f64", np.float64)
column = np.fromfile(folder + "/column.u32", np.uint32).astype(np.int32)
row_begin = np.fromfile(folder + "/row_begin.u64", np.uint64).astype(np.int32)
label = np.fromfile(folder + "/label.f64", np.float64)
rows = np.repeat(np.arange(len(label)), np.diff(row_begin))
norm = np.sqrt(np.bincount(rows, value * value, len(label)))


def clip(slope, norm, w):
    """slope *= min(1, C / (|slope| * norm)): what per-record clipping is for a linear model."""
    np.abs(slope, out=w)
    w *= norm
    np.divide(CLIP, w, out=w)
    np.minimum(w, 1, out=w)
    slope *= w


class State:
    """What the clients keep, and everything of a round but the gradient; buffers are reused."""

    def __init__(self):
        self.rng = np.random.default_rng(1)
        shape = (CLIENTS, FEATURES)
        self.x, self.dual, self.x_tilde, self.gap = (np.zeros(shape) for _ in range(4))
        self.noise = np.empty(shape)

    def finish(self, g):
        """g: the clients' clipped sums, spoiled."""
        self.rng.standard_normal(out=self.noise)
        self.noise *= SIGMA
        g += self.noise
        g *= 1 / RECORDS
        np.multiply(self.x, L2, out=self.gap)
        g += self.gap
        g += self.dual
        g *= GAMMA
        np.subtract(self.x, g, out=self.x_tilde)
        np.subtract(self.x_tilde, self.x_tilde.mean(axis=0), out=self.gap)
        self.dual += self.gap
        self.gap *= GAMMA
        np.subtract(self.x_tilde, self.gap, out=self.x)
        np.clip(self.x, -GAMMA * L1, GAMMA * L1, out=self.gap)  # soft threshold: z - clip(z)
        self.x -= self.gap
        np.clip(self.x, -RADIUS, RADIUS, out=self.x)


class Numpy(State):
    """All clients in two batched products of a dense tensor."""

    def __init__(self):
        super().__init__()
        self.a = np.zeros((CLIENTS, RECORDS, FEATURES))
        self.a.reshape(-1, FEATURES)[rows, column] = value
        shape = (CLIENTS, RECORDS)
        self.y, self.norm, self.w = label.reshape(shape), norm.reshape(shape), np.empty(shape)
        self.z, self.s = np.empty((CLIENTS, RECORDS, 1)), np.empty((CLIENTS, 1, RECORDS))
        self.g = np.empty((CLIENTS, 1, FEATURES))

    def round(self):
        np.matmul(self.a, self.x[:, :, None], out=self.z)
        z, s = self.z[:, :, 0], self.s[:, 0, :]
        z *= self.y
        np.exp(z, out=z)
        z += 1
        np.divide(-1, z, out=z)  # -|slope|
        clip(z, self.norm, self.w)
        np.multiply(z, self.y, out=s)
        np.matmul(self.s, self.a, out=self.g)
        self.finish(self.g[:, 0, :])


class Scipy(State):
    """All clients in two products with one sparse block-diagonal matrix and its transpose, both in CSR."""

    def __init__(self):
        import scipy.sparse
        from scipy.special import expit
        super().__init__()
        self.expit = expit
        self.a = scipy.sparse.csr_matrix((value, column + (rows // RECORDS * FEATURES).astype(np.int32), row_begin),
                                         shape=(len(label), CLIENTS * FEATURES))
        self.at = self.a.T.tocsr()
        self.minus_y, self.norm, self.w = -label, norm, np.empty(len(label))

    def round(self):
        z = self.a @ self.x.reshape(-1)
        z *= self.minus_y
        self.expit(z, out=z)
        clip(z, self.norm, self.w)
        z *= self.minus_y
        self.finish((self.at @ z).reshape(CLIENTS, FEATURES))


def check():
    """Both give the same gradients, clipped to no more than CLIP."""
    a, b = Numpy(), Scipy()
    a.x[:] = b.x[:] = np.linspace(-1, 1, a.x.size).reshape(a.x.shape)
    a.finish = b.finish = lambda g: setattr(check, "g", g.copy())
    a.round()
    first = check.g
    b.round()
    assert np.allclose(first, check.g, rtol=1e-9, atol=1e-9)


def measure(peer, seconds):
    peer.round()
    blocks, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.process_time()
        for _ in range(BLOCK):
            peer.round()
        blocks.append((time.process_time() - begin) / BLOCK * 1e6)
    return {"min_us": min(blocks), "median_us": sorted(blocks)[len(blocks) // 2], "blocks": len(blocks)}


peers = {"numpy": Numpy()}
try:
    peers["scipy"] = Scipy()
    check()
except ImportError:
    pass
print("ready", flush=True)
for line in sys.stdin:
    name, seconds = line.split()
    if name in peers:
        print(json.dumps({"name": name, **measure(peers[name], float(seconds))}), flush=True)
    else:
        print(json.dumps({"name": name, "missing": "SciPy is not installed"}), flush=True)
