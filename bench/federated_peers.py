"""The rounds of bench/run.py federated, as their peers make them, on one thread: prints "ready", then answers each line
with one line of JSON, the processor time of a round in milliseconds.

  torch MODEL N    DP-FedAvg on digits: a plain PyTorch loop over the clients, N rounds
  pfl MODEL N      the same by pfl-research, simulated in one process
  flower MODEL N   the same by Flower in this process: its Server.fit_round with its FedAvg strategy inside its
                   server-side fixed clipping, and NumPy clients behind a proxy that calls them, one worker. So it is
                   Flower's own selection, (de)serialisation of parameters, clipping, aggregation and noise, and
                   neither Ray nor gRPC
  numpy N          linear regression, all clients' local steps as one matrix operation
  loop N           the same, one client after the other

MODEL is mlp (784-200-10), cnn5046 or cnn237 (those of network_torch.py).

argv: the folder with MNIST (idx, .gz), or "-" for generated digits."""
import contextlib
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np
from digits import digits

CLIENTS, RECORDS, BATCH, RATE, CLIP, SIGMA = 1000, 60, 10, 0.1, 1.0, 1.0


def model(name):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    nn = torch.nn
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
    first, second = {"cnn5046": (4, 8), "cnn237": (2, 1)}[name]
    dense = [nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 10)] if name == "cnn5046" else [nn.Linear(16, 10)]
    return nn.Sequential(nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, first, 4), nn.MaxPool2d(2), nn.Conv2d(first, second, 4),
                         nn.MaxPool2d(2), nn.Flatten(), *dense)


def by_torch(name, rounds):
    import torch
    net, loss = model(name), torch.nn.CrossEntropyLoss()
    rows, labels = (torch.from_numpy(a) for a in digits(sys.argv[1], CLIENTS * RECORDS))
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


def by_pfl(name, rounds):
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

    rows, labels = (torch.from_numpy(a) for a in digits(sys.argv[1], CLIENTS * RECORDS))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.criterion = model(name), torch.nn.CrossEntropyLoss()

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


def by_flower(name, rounds):
    import logging

    import torch
    from flwr.client import NumPyClient
    from flwr.common import GetPropertiesRes, Code, Status, ndarrays_to_parameters
    from flwr.server.client_manager import SimpleClientManager
    from flwr.server.client_proxy import ClientProxy
    from flwr.server.server import Server
    from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    logging.getLogger("flwr").setLevel(logging.ERROR)

    rows, labels = (torch.from_numpy(a) for a in digits(sys.argv[1], CLIENTS * RECORDS))
    net, loss = model(name), torch.nn.CrossEntropyLoss()
    parameters = list(net.parameters())

    class Client(NumPyClient):
        def __init__(self, number):
            self.first = number * RECORDS

        def fit(self, given, config):
            with torch.no_grad():
                for p, g in zip(parameters, given):
                    p.copy_(torch.from_numpy(g))
            optimiser = torch.optim.SGD(parameters, lr=RATE)
            for k in torch.randperm(RECORDS // BATCH).tolist():
                at = self.first + k * BATCH
                optimiser.zero_grad(set_to_none=True)
                loss(net(rows[at:at + BATCH]), labels[at:at + BATCH]).backward()
                optimiser.step()
            return [p.detach().numpy().copy() for p in parameters], RECORDS, {}

    class Proxy(ClientProxy):
        def __init__(self, number):
            super().__init__(str(number))
            self.client = Client(number).to_client()

        def fit(self, ins, timeout, group_id):
            return self.client.fit(ins)

        def get_properties(self, ins, timeout, group_id):
            return GetPropertiesRes(Status(Code.OK, ""), {})

        def get_parameters(self, ins, timeout, group_id):
            raise NotImplementedError

        def evaluate(self, ins, timeout, group_id):
            raise NotImplementedError

        def reconnect(self, ins, timeout, group_id):
            raise NotImplementedError

    manager = SimpleClientManager()
    for i in range(CLIENTS):
        manager.register(Proxy(i))
    start = ndarrays_to_parameters([p.detach().numpy().copy() for p in parameters])
    average = FedAvg(fraction_fit=1.0, fraction_evaluate=0.0, min_fit_clients=CLIENTS, min_available_clients=CLIENTS,
                     initial_parameters=start)
    server = Server(client_manager=manager, strategy=DifferentialPrivacyServerSideFixedClipping(average, SIGMA, CLIP, CLIENTS))
    server.set_max_workers(1)
    server.parameters = server._get_initial_parameters(server_round=0, timeout=None)
    best = float("inf")
    for k in range(rounds):
        begin = time.process_time()
        server.parameters, _, (results, failures) = server.fit_round(server_round=k + 1, timeout=None)
        best = min(best, time.process_time() - begin)
        if failures or len(results) != CLIENTS:
            raise RuntimeError(f"{len(failures)} of Flower's clients failed: {failures[:1]}")
    return best


def linear():
    """1,000 clients with one record each, d = 500, 20 local steps; trusted server."""
    clients, d, steps, rate = 1000, 500, 20, 0.001
    rng = np.random.default_rng(1)
    a = rng.standard_normal((clients, d))
    return clients, d, steps, rate, rng, a, a @ rng.standard_normal(d)


def by_loop(rounds):
    clients, d, steps, rate, rng, a, b = linear()
    w, best = np.zeros(d), float("inf")
    for _ in range(rounds):
        start = time.process_time()
        total = np.zeros(d)
        for i in range(clients):
            y, row, label = w.copy(), a[i], b[i]
            for _ in range(steps):
                y -= (rate * (row @ y - label)) * row
            y -= w
            total += y * min(1.0, CLIP / max(float(np.sqrt(y @ y)), 1e-300))
        w = w + (total + CLIP * SIGMA * rng.standard_normal(d)) / clients
        best = min(best, time.process_time() - start)
    return best


def by_numpy(rounds):
    clients, d, steps, rate, rng, a, b = linear()
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


CONTESTANTS = {"torch": by_torch, "pfl": by_pfl, "flower": by_flower, "numpy": by_numpy, "loop": by_loop}
print("ready", flush=True)
for line in sys.stdin:
    what, *named, rounds = line.split()
    try:
        with contextlib.redirect_stdout(sys.stderr):      # pfl reports there
            answer = {"ms": CONTESTANTS[what](*named, int(rounds)) * 1e3}
    except ImportError as missing:
        answer = {"missing": str(missing)}
    print(json.dumps(answer), flush=True)
