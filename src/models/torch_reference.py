"""Loss, gradient and per-record norms of a network by PyTorch, for network_torch_test.cc.

Reads JSON problems and writes beside each a file .out, one number a line: the mean loss, the sum of the
records' gradients in the layout of objective.h, the records' norms.
"""
import json
import sys

import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def solve(problem):
    activation = torch.nn.Sigmoid if problem["activation"] == "sigmoid" else torch.nn.ReLU
    layers, shape = [], problem["image"]
    for c in problem["convolutions"]:
        layers.append(torch.nn.Conv2d(shape[0], c["filters"], c["kernel"]))
        shape = [c["filters"], shape[1] - c["kernel"] + 1, shape[2] - c["kernel"] + 1]
        if c["relu"]:
            layers.append(torch.nn.ReLU())
        if c["pool"] != "none":
            layers.append(torch.nn.MaxPool2d(2) if c["pool"] == "max" else torch.nn.AvgPool2d(2))
            shape = [shape[0], shape[1] // 2, shape[2] // 2]
    width = len(problem["rows"][0])
    if layers:
        layers = [torch.nn.Unflatten(1, problem["image"])] + layers + [torch.nn.Flatten()]
        width = shape[0] * shape[1] * shape[2]
    for k, out in enumerate(problem["hidden"] + [problem["classes"]]):
        if k:
            layers.append(activation())
        layers.append(torch.nn.Linear(width, out))
        width = out
    model = torch.nn.Sequential(*layers)

    def ours(p, flat):  # dense weights are in × out there, out × in here
        return flat.reshape(p.shape[1], p.shape[0]).t() if p.dim() == 2 else flat.reshape(p.shape)

    x, at = torch.tensor(problem["x"]), 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(ours(p, x[at : at + p.numel()]))
            at += p.numel()
    assert at == x.numel()
    rows, labels = torch.tensor(problem["rows"]), torch.tensor(problem["labels"])

    def gradient(loss):
        parts = torch.autograd.grad(loss, list(model.parameters()))
        return torch.cat([(g.t() if g.dim() == 2 else g).reshape(-1) for g in parts])

    mean = torch.nn.functional.cross_entropy(model(rows), labels)
    numbers = [mean.item()] + (gradient(mean) * len(labels)).tolist()
    for row, label in zip(rows, labels):
        loss = torch.nn.functional.cross_entropy(model(row[None]), label[None])
        numbers.append(gradient(loss).norm().item())
    return numbers


for name in sys.argv[1:]:
    with open(name) as file, open(name + ".out", "w") as out:
        out.write("\n".join(repr(v) for v in solve(json.load(file))) + "\n")
