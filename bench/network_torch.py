"""The steps of network_bench.cc in PyTorch on one core, without clipping: best of 500, microseconds of processor time."""
import time

import torch

torch.set_num_threads(1)
nn = torch.nn
models = {
    "mlp_784_200_10": lambda: nn.Sequential(nn.Linear(784, 200), nn.Sigmoid(), nn.Linear(200, 10)),
    "cnn_5046": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 4, 4), nn.MaxPool2d(2), nn.Conv2d(4, 8, 4), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 10)),
    "cnn_237": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 2, 4), nn.MaxPool2d(2), nn.Conv2d(2, 1, 4), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 10)),
}
for name, make in models.items():
    for batch in (1, 10, 32, 60):
        torch.manual_seed(0)
        model, loss = make(), nn.CrossEntropyLoss()
        rows, labels = torch.randn(batch, 784), torch.randint(0, 10, (batch,))
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
        best = float("inf")
        for _ in range(500):
            start = time.process_time()
            optimiser.zero_grad(set_to_none=True)
            loss(model(rows), labels).backward()
            optimiser.step()
            best = min(best, time.process_time() - start)
        print(f"{name}/{batch} {best * 1e6:.0f} us", flush=True)
