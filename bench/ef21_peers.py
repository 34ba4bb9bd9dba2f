"""The round of ef21_bench.cc in NumPy, as an expert would write it: the records of all clients in one product, the
gradients of a layer in one batched product, Top-K by argpartition. The same shapes and update, one thread. Answers one
request per line, "plain|noisy float32|float64 SECONDS", with one line of JSON. noisy: Gaussian noise on every gradient.

argv: the folder with MNIST (idx, .gz), or "-" for generated digits."""
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np
from digits import digits

CLIENTS, RECORDS, INPUTS, HIDDEN, CLASSES = 10, 64, 784, 200, 10
DIM = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
KEPT, RATE, SIGMA = round(0.01 * DIM), 0.1, 1e-3


class Ef21:
    def __init__(self, kind, rows, label):
        self.rng = np.random.default_rng(1)
        self.rows = rows.reshape(CLIENTS, RECORDS, INPUTS).astype(kind)
        self.turned = np.ascontiguousarray(self.rows.transpose(0, 2, 1))
        self.label = label.reshape(CLIENTS, RECORDS)
        self.x = ((2 * self.rng.random(DIM) - 1) * 0.05).astype(kind)
        self.h = np.zeros((CLIENTS, DIM), kind)
        self.g = np.zeros(DIM, kind)
        self.u = np.empty((CLIENTS, DIM), kind)
        self.size = np.empty((CLIENTS, DIM), kind)
        self.noise = np.empty((CLIENTS, DIM), kind)
        self.kind = kind

    def gradients(self):
        ends = np.cumsum([0, INPUTS * HIDDEN, HIDDEN, HIDDEN * CLASSES, CLASSES])
        w1, b1, w2, b2 = (self.x[a:b] for a, b in zip(ends[:-1], ends[1:]))
        w1, w2 = w1.reshape(INPUTS, HIDDEN), w2.reshape(HIDDEN, CLASSES)
        a = self.rows.reshape(-1, INPUTS) @ w1
        a += b1
        np.maximum(a, 0, out=a)
        z = a @ w2
        z += b2
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        z[np.arange(len(z)), self.label.ravel()] -= 1
        z *= 1 / RECORDS
        back = z @ w2.T
        back *= a > 0
        a, z, back = (v.reshape(CLIENTS, RECORDS, -1) for v in (a, z, back))
        u = self.u
        np.matmul(self.turned, back, out=u[:, ends[0]:ends[1]].reshape(CLIENTS, INPUTS, HIDDEN))
        back.sum(axis=1, out=u[:, ends[1]:ends[2]])
        np.matmul(a.transpose(0, 2, 1), z, out=u[:, ends[2]:ends[3]].reshape(CLIENTS, HIDDEN, CLASSES))
        z.sum(axis=1, out=u[:, ends[3]:ends[4]])

    def round(self, noisy):
        self.gradients()
        if noisy:
            self.rng.standard_normal(out=self.noise, dtype=self.kind)
            self.noise *= SIGMA
            self.u += self.noise
        self.u -= self.h
        np.abs(self.u, out=self.size)
        for i in range(CLIENTS):
            at = np.argpartition(self.size[i], DIM - KEPT)[DIM - KEPT:]
            value = self.u[i, at]
            self.h[i, at] += value
            self.g[at] += value / CLIENTS
        self.x -= RATE * self.g


def main():
    rows, label = (v[:CLIENTS * RECORDS] for v in digits(sys.argv[1], CLIENTS * RECORDS))
    print("ready", flush=True)
    for line in sys.stdin:
        noisy, kind, seconds = line.split()
        ef = Ef21(np.dtype(kind).type, rows, label)
        blocks, end = [], time.monotonic() + float(seconds)
        ef.round(noisy == "noisy")
        while time.monotonic() < end or len(blocks) < 3:
            start = time.process_time()
            ef.round(noisy == "noisy")
            blocks.append(time.process_time() - start)
        blocks.sort()
        print(json.dumps({"min_us": blocks[0] * 1e6, "median_us": blocks[len(blocks) // 2] * 1e6, "blocks": len(blocks)}), flush=True)


if __name__ == "__main__":
    main()
