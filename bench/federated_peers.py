"""The rounds of bench/run.py federated, as their peers make them, on one thread: prints "ready", then answers each line
with one line of JSON, the processor time of a round in milliseconds.

  torch N    DP-FedAvg on an MLP 784-200-10: a plain PyTorch loop over the clients, N rounds
  pfl N      the same by pfl-research
  numpy N    linear regression, all clients' local steps as one matrix operation

argv: the folder with MNIST (idx, .gz), or "-" for generated digits."""
import contextlib
import gzip
import json
import os
import struct
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np

CLIENTS, RECORDS, BATCH, RATE, CLIP, SIGMA = 1000, 60, 10, 0.1, 1.0, 1.0


def digits(folder):
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
    rows = (rng.random((CLIENTS * RECORDS, 784)) * (rng.random((CLIENTS * RECORDS, 784)) < 0.19)).astype(np.float32)
    return rows, rng.integers(0, 10, CLIENTS * RECORDS)


def model():
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(784, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))


def by_torch(rounds):
    import torch
    net, loss = model(), torch.nn.CrossEntropyLoss()
    rows, labels = (torch.from_numpy(a) for a in digits(sys.argv[1]))
    parameters, best = list(net.parameters()), float("inf")
    for _ in range(rounds):
        start = time.process_time()
        before = [p.detach().clone() for p in parameters]
        total = [torch.zeros_like(p) for p in parameters]
        for i in range(CLIENTS):
            with torch.no_grad():
                for p, b in zip(parameters, before):
                    p.copy_(b)
            optimiser = torch.optim.SGD(parameters, lr=RATE)
            order = torch.randperm(RECORDS // BATCH)
            for k in order.tolist():
                at = i * RECORDS + k * BATCH
                optimiser.zero_grad(set_to_none=True)
                loss(net(rows[at:at + BATCH]), labels[at:at + BATCH]).backward()
                optimiser.step()
            with torch.no_grad():
                update = [p - b for p, b in zip(parameters, before)]
                norm = torch.sqrt(sum((u * u).sum() for u in update))
                scale = min(1.0, CLIP / float(norm))
                for t, u in zip(total, update):
                    t.add_(u, alpha=scale)
        with torch.no_grad():
            for p, b, t in zip(parameters, before, total):
                p.copy_(b + (t + CLIP * SIGMA * torch.randn_like(t)) / CLIENTS)
        best = min(best, time.process_time() - start)
    return best


def by_pfl(rounds):
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy.gaussian_mechanism import GaussianMechanism
    from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

    rows, labels = (torch.from_numpy(a) for a in digits(sys.argv[1]))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.criterion = model(), torch.nn.CrossEntropyLoss()

        def loss(self, x, y):
            return self.criterion(self.layers(x), y)

        def metrics(self, x, y):
            return {}

    net = Net()
    users = {i: [rows[i * RECORDS:(i + 1) * RECORDS], labels[i * RECORDS:(i + 1) * RECORDS]] for i in range(CLIENTS)}
    data = FederatedDataset(lambda i: Dataset(users[i], user_id=i), get_user_sampler("minimize_reuse", list(users)))
    times = []

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, trained, *, central_iteration):
            times.append(time.process_time())
            return False, Metrics()

    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP, SIGMA))
    FederatedAveraging().run(
        NNAlgorithmParams(central_num_iterations=rounds + 1, evaluation_frequency=10**6, train_cohort_size=CLIENTS,
                          val_cohort_size=1),
        SimulatedBackend(training_data=data, val_data=data, postprocessors=[noise]),
        PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH), callbacks=[Clock()])
    return min(b - a for a, b in zip(times, times[1:]))


def by_numpy(rounds):
    """1,000 clients with one record each, d = 500, 20 local steps; trusted server."""
    clients, d, steps, rate = 1000, 500, 20, 0.001
    rng = np.random.default_rng(1)
    a = rng.standard_normal((clients, d))
    b = a @ rng.standard_normal(d)
    w, best = np.zeros(d), float("inf")
    y, part = np.empty((clients, d)), np.empty((clients, d))
    for _ in range(rounds):
        start = time.process_time()
        y[:] = w
        for _ in range(steps):
            slope = np.einsum("ij,ij->i", a, y) - b
            np.multiply(a, (rate * slope)[:, None], out=part)
            y -= part
        y -= w
        norm = np.sqrt(np.einsum("ij,ij->i", y, y))
        y *= np.minimum(1.0, CLIP / np.maximum(norm, 1e-300))[:, None]
        total = y.sum(axis=0) + CLIP * SIGMA * rng.standard_normal(d)
        w = w + total / clients
        best = min(best, time.process_time() - start)
    return best


CONTESTANTS = {"torch": by_torch, "pfl": by_pfl, "numpy": by_numpy}
print("ready", flush=True)
for line in sys.stdin:
    what, rounds = line.split()
    try:
        with contextlib.redirect_stdout(sys.stderr):      # pfl reports there
            answer = {"ms": CONTESTANTS[what](int(rounds)) * 1e3}
    except ImportError as missing:
        answer = {"missing": str(missing)}
    print(json.dumps(answer), flush=True)
