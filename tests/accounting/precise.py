#!/usr/bin/env python3
"""Values of accountant_peers_test.cc, in 32 digits by mpmath: `.venv/bin/python tests/accounting/precise.py`.

Nothing here is shared with the C++ code. Sampled Gaussians: trapezoid rules for the cumulants and for the inverse
Laplace transform, each with two steps: the difference is printed. Lattice losses: sums over all compositions."""
from mpmath import exp, log, mp, mpc, mpf, ncdf, pi, sqrt

mp.dps = 32


def gaussian_delta(epsilon, mu):
    return ncdf(-epsilon / mu + mu / 2) - exp(epsilon) * ncdf(-epsilon / mu - mu / 2)


def root(f, low, high, steps=200):
    """f falls and changes its sign in [low, high]."""
    for _ in range(steps):
        middle = (low + high) / 2
        if f(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class Sampled:
    """rounds of Poisson samples of rate q and Gaussian noise of multiplier 1/mu; "remove" or "add"."""

    def __init__(self, q, mu, rounds, direction, step):
        self.rounds, h = rounds, mpf(step)
        n = int(16 / h)
        self.nodes = []
        for i in range(-n, n + int(4 * mu / h) + 1):
            x = i * h
            weight = h * exp(-x * x / 2) / sqrt(2 * pi)
            loss = log(1 - mpf(q) + mpf(q) * exp(mu * x - mpf(mu) ** 2 / 2))
            # E_P[e^{zL}]: removal has P = mixture, addition P = N(0, 1) with the loss turned round.
            self.nodes.append((weight * exp(loss), loss) if direction == "remove" else (weight, -loss))

    def k(self, z):
        return self.rounds * log(sum(w * exp(z * loss) for w, loss in self.nodes))

    def delta(self, epsilon, c, cut, step):
        """(1/2 pi) sum over s of e^{K(z) - z epsilon}/(z (z + 1)), z = c + is, |s| <= cut."""
        epsilon, h = mpf(epsilon), mpf(step)
        total = mpf(0)
        for i in range(int(mpf(cut) / h) + 1):
            z = mpc(c, i * h)
            term = (exp(self.k(z) - z * epsilon) / (z * (z + 1))).real
            total += term * (1 if i == 0 else 2)
        return total * h / (2 * pi)

    def epsilon(self, delta, guess, c, cut, step):
        # Secant on log δ(ε), which is nearly straight.
        a, b = mpf(guess), mpf(guess) * (1 + mpf(10) ** -4)
        fa = log(self.delta(a, c, cut, step) / mpf(delta))
        for _ in range(8):
            fb = log(self.delta(b, c, cut, step) / mpf(delta))
            if abs(fb) < mpf(10) ** -22:
                break
            a, b, fa = b, b - fb * (b - a) / (fb - fa), fb
        return b


def lattice_epsilon(atoms, rounds, delta):
    """atoms: {k: probability} of losses k * unit under P, unit = atoms["unit"]."""
    unit = atoms.pop("unit")
    sums = {0: mpf(1)}
    for _ in range(rounds):
        following = {}
        for k, p in sums.items():
            for j, w in atoms.items():
                following[k + j] = following.get(k + j, mpf(0)) + p * w
        sums = following

    def excess(epsilon):
        return sum(p * (1 - exp(epsilon - k * unit)) for k, p in sums.items() if k * unit > epsilon) - mpf(delta)

    return root(excess, mpf(0), rounds * max(abs(k) for k in atoms) * unit)


def response(epsilon, categories):
    e = exp(mpf(epsilon))
    return {"unit": mpf(epsilon), 1: e / (e + categories - 1), 0: mpf(categories - 2) / (e + categories - 1),
            -1: 1 / (e + categories - 1)}


def show(what, value):
    print(f"{what:<72} {mp.nstr(value, 20)}", flush=True)


if __name__ == "__main__":
    # The line through c, how far along it (cut) and in which steps: from the variance of the loss, q² (e − 1) T.
    for rounds, delta, guess, c, cut, step in ((10**5, "1e-12", 37.5, 1.7, 3, 0.05), (10**4, "1e-12", 10.3, 4, 9, 0.1),
                                               (10**5, "1e-5", 25.57, 1, 3, 0.05), (10**4, "1e-5", 6.188, 1.9, 9, 0.1)):
        for direction in ("remove", "add"):
            values = []
            for inner, fine in (("0.2", 1), ("0.15", mpf("0.75"))):
                s = Sampled(mpf(1) / 100, 1, rounds, direction, inner)
                at = guess if direction == "remove" else guess * mpf("0.93")
                values.append(s.epsilon(delta, at, mpf(c), cut / fine, mpf(step) * fine))
            show(f"poisson q=.01 mu=1 T={rounds} delta={delta} {direction} (differs by {mp.nstr(abs(values[0] - values[1]), 3)})",
                 values[1])
    for t in (1, 20):
        show(f"randomised response eps=.5 k=4 T={t} delta=1e-6", lattice_epsilon(response("0.5", 4), t, "1e-6"))
    pure = {"unit": mpf("0.5"), 1: exp(mpf("0.5")) / (1 + exp(mpf("0.5"))), -1: 1 / (1 + exp(mpf("0.5")))}
    show("pure eps=.5 T=20 delta=1e-6", lattice_epsilon(pure, 20, "1e-6"))
    show("1e4 Gaussians of mu=.01, delta=1e-12", root(lambda e: gaussian_delta(e, mpf(1)) - mpf("1e-12"), mpf(0), mpf(50)))
    show("1e4 Gaussians of mu=1, delta=1e-5", root(lambda e: gaussian_delta(e, mpf(100)) - mpf("1e-5"), mpf(0), mpf(10**5)))
    # One Poisson round of rate 1/2, add-remove with mu = 1, and the worst case of replacing with mu = 2.
    half, e = mpf(1) / 2, mpf("0.5")
    t = log(1 + (exp(e) - 1) / half)
    show("one round q=.5 mu=1 add-remove: delta(.5)", half * gaussian_delta(t, mpf(1)))
    show("one round q=.5 mu=2 replace-one, curve: delta(.5)", half * gaussian_delta(t, mpf(2)))
    for q, sigma, rounds in ((mpf("0.01"), mpf("0.5"), 1000), (mpf("0.01"), mpf(1), 1000), (mpf("0.001"), mpf("0.4"), 10000)):
        mu = q * sqrt(rounds * (exp(1 / sigma**2) - 1))
        show(f"CLT: q={mp.nstr(q, 4)} sigma={mp.nstr(sigma, 4)} T={rounds} delta=1e-5",
             root(lambda x: gaussian_delta(x, mu) - mpf("1e-5"), mpf(0), mpf(1000)))
