"""Handwritten digits for the peers of bench/run.py."""
import gzip
import os
import struct

import numpy as np


def digits(folder, made_up):
    """MNIST's training images as rows of numbers from 0 to 1, and its labels, from idx files in the folder, .gz or not;
    "-": so many rows with as many zeros, at random places."""
    def idx(file):
        raw = gzip.open(file).read() if file.endswith(".gz") else open(file, "rb").read()
        rank = raw[3]
        shape = struct.unpack(f">{rank}I", raw[4:4 + 4 * rank])
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)

    def find(part):
        return next((os.path.join(folder, f) for f in sorted(os.listdir(folder)) if part in f), None)

    if folder != "-":
        images, labels = idx(find("train-images")), idx(find("train-labels"))
        return (images.reshape(-1, 784) / 255.0).astype(np.float32), labels.astype(np.int64)
    rng = np.random.default_rng(1)
    rows = (rng.random((made_up, 784)) * (rng.random((made_up, 784)) < 0.19)).astype(np.float32)
    return rows, rng.integers(0, 10, made_up)
