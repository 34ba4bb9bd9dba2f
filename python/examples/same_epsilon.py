"""The same releases, accounted by Opacus, by dp-accounting and by Tacit: a thousand steps on Poisson samples.

    pip install opacus dp-accounting
    python same_epsilon.py

What a library is missing is left out.
"""

from __future__ import annotations

import tacit

NOISE, RATE, STEPS, DELTA = 1.0, 0.01, 1000, 1e-5


def opacus() -> "dict[str, float]":
    try:
        from opacus.accountants import PRVAccountant, RDPAccountant
    except ImportError:
        return {}
    found = {}
    for kind in (RDPAccountant, PRVAccountant):
        theirs = kind()
        for _ in range(STEPS):
            theirs.step(noise_multiplier=NOISE, sample_rate=RATE)
        found[f"Opacus, {kind.__name__}"] = theirs.get_epsilon(delta=DELTA)
        found["its history, by Tacit"] = tacit.interop.from_opacus(theirs).epsilon(DELTA)
    return found


def dp_accounting() -> "dict[str, float]":
    try:
        import dp_accounting as dp
        from dp_accounting import pld
    except ImportError:
        return {}
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(RATE, dp.GaussianDpEvent(NOISE)), STEPS)
    theirs = pld.PLDAccountant()
    theirs.compose(event)
    return {
        "dp-accounting, PLDAccountant": theirs.get_epsilon(DELTA),
        "its event, by Tacit": tacit.interop.from_dp_accounting(event).epsilon(DELTA),
    }


def main() -> "dict[str, float]":
    found = {**opacus(), **dp_accounting()}
    account = tacit.Accountant("add-remove")
    account.compose("poisson-gaussian", STEPS, noise_multiplier=NOISE, rate=RATE)
    low, high = account.epsilon_bracket(DELTA)
    found["Tacit"] = high
    for name, epsilon in found.items():
        print(f"{name:<30} ε = {epsilon:.6f}")
    print(f"the truth lies in [{low:.12f}, {high:.12f}]")
    return found


if __name__ == "__main__":
    main()
