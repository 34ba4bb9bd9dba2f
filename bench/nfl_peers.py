"""The round of nfl_bench.cc in NumPy: batched, as an expert would write it, and a loop over the peers; the same
shapes, clipping and update, their own noise, one thread. Answers one request per line, "batched|loop PEERS DEGREE
FEATURES RECORDS SECONDS", with one line of JSON."""
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np

CLIP, L2, L1, SIGMA, RHO, ETA = 1.0, 1e-2, 1e-3, 20.0, 1.0, 0.1


def regular(peers, degree):
    """Lists of neighbours: the circulant graph, whose shape is all that counts here."""
    steps = [s for s in range(1, degree // 2 + 1)]
    lists = [[(k + s) % peers for s in steps] + [(k - s) % peers for s in steps] for k in range(peers)]
    if degree % 2:
        for k in range(peers):
            lists[k].append((k + peers // 2) % peers)
    return np.array(lists)


class Network:
    def __init__(self, peers, degree, features, records):
        self.rng = np.random.default_rng(1)
        self.x = self.rng.standard_normal((peers, records, features))
        self.y = self.rng.standard_normal((peers, records))
        self.norm = np.sqrt((self.x * self.x).sum(axis=2))
        self.near = regular(peers, degree)
        self.w, self.dual = np.zeros((peers, features)), np.zeros((peers, features))
        self.n, self.degree, self.records = 0, degree, records


class Batched(Network):
    """All peers in two batched products; neighbours by the adjacency matrix, or by index where there are many."""

    def __init__(self, peers, degree, features, records):
        super().__init__(peers, degree, features, records)
        self.adjacency = None
        if peers <= 1000:
            self.adjacency = np.zeros((peers, peers))
            self.adjacency[np.arange(peers)[:, None], self.near] = 1
        self.z, self.s = np.empty((peers, records, 1)), np.empty((peers, 1, records))
        self.g, self.c = np.empty((peers, 1, features)), np.empty((peers, records))
        self.noise, self.t, self.heard = (np.empty((peers, features)) for _ in range(3))
        self.hear()

    def hear(self):
        if self.adjacency is not None:
            np.matmul(self.adjacency, self.w, out=self.heard)
        else:
            self.heard[:] = 0
            for i in range(self.degree):
                self.heard += self.w[self.near[:, i]]

    def round(self):
        self.n += 1
        inverse = np.sqrt(self.n) / ETA
        np.matmul(self.x, self.w[:, :, None], out=self.z)
        z, s, g = self.z[:, :, 0], self.s[:, 0, :], self.g[:, 0, :]
        z -= self.y
        np.abs(z, out=self.c)
        self.c *= self.norm
        np.divide(CLIP, self.c, out=self.c)
        np.minimum(self.c, 1, out=self.c)
        np.multiply(z, self.c, out=s)
        np.matmul(self.s, self.x, out=self.g)
        self.rng.standard_normal(out=self.noise)
        self.noise *= SIGMA
        g += self.noise
        g *= 1 / self.records
        np.multiply(self.w, inverse + RHO * self.degree - L2, out=self.t)
        self.heard *= RHO
        self.t += self.heard
        self.t -= self.dual
        self.t -= g
        np.sign(self.w, out=self.w)
        self.w *= L1
        np.subtract(self.t, self.w, out=self.w)
        self.w *= 1 / (2 * RHO * self.degree + inverse)
        self.hear()
        np.multiply(self.w, RHO * self.degree, out=self.t)
        self.dual += self.t
        np.multiply(self.heard, RHO, out=self.t)
        self.dual -= self.t


class Loop(Network):
    """One peer after the other, as the paper has it."""

    def round(self):
        self.n += 1
        eta = ETA / np.sqrt(self.n)
        sent = []
        for k in range(len(self.w)):
            w, x = self.w[k], self.x[k]
            r = x @ w - self.y[k]
            r *= np.minimum(1, CLIP / (np.abs(r) * self.norm[k]))
            g = r @ x + SIGMA * self.rng.standard_normal(len(w))
            pull = RHO * (self.degree * w + self.w[self.near[k]].sum(axis=0))
            sent.append((w / eta + pull - self.dual[k] - g / self.records - L2 * w - L1 * np.sign(w)) /
                        (2 * RHO * self.degree + 1 / eta))
        self.w = np.array(sent)
        for k in range(len(self.w)):
            self.dual[k] += RHO * (self.degree * self.w[k] - self.w[self.near[k]].sum(axis=0))


def check():
    """Both make the same rounds, but for the order of their noise."""
    global SIGMA
    kept, SIGMA = SIGMA, 0.0
    a, b = Batched(10, 3, 4, 6), Loop(10, 3, 4, 6)
    for _ in range(5):
        a.round()
        b.round()
    assert np.allclose(a.w, b.w, rtol=1e-9, atol=1e-12) and np.allclose(a.dual, b.dual, rtol=1e-9, atol=1e-12)
    SIGMA = kept


def measure(peer, seconds):
    peer.round()
    block = 10 if len(peer.w) <= 1000 else 1
    blocks, end = [], time.perf_counter() + seconds
    while not blocks or time.perf_counter() < end:
        begin = time.process_time()
        for _ in range(block):
            peer.round()
        blocks.append((time.process_time() - begin) / block)
    blocks.sort()
    return {"min_us": blocks[0] * 1e6, "median_us": blocks[len(blocks) // 2] * 1e6, "blocks": len(blocks)}


check()
print("ready", flush=True)
for line in sys.stdin:
    what, *sizes, seconds = line.split()
    kind = Batched if what == "batched" else Loop
    print(json.dumps(measure(kind(*map(int, sizes)), float(seconds))), flush=True)
