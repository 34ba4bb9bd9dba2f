"""The accountants that Python users have, for bench/run.py: ε of T rounds of Poisson samples of rate 0.01, noise multiplier 1,
δ = 1e-5. Answers one line of JSON to each line "NAME T": processor and wall time of one evaluation from nothing, ε and
the ends that the accountant gives for it, or {"missing": …}.

pld: dp-accounting, connect the dots, its default grid of 1e-4. prv: prv-accountant with eps_error = 0.01."""
import json
import logging
import sys
import time
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
try:
    from dp_accounting.pld import privacy_loss_distribution
except ImportError:
    privacy_loss_distribution = None
try:
    import prv_accountant
except ImportError:
    prv_accountant = None


def pld(rounds):
    one = privacy_loss_distribution.from_gaussian_mechanism(1, sampling_prob=0.01)
    return {"epsilon": one.self_compose(rounds).get_epsilon_for_delta(1e-5)}


def pld_optimistic(rounds):
    one = privacy_loss_distribution.from_gaussian_mechanism(1, sampling_prob=0.01, pessimistic_estimate=False,
                                                            use_connect_dots=False)
    return {"epsilon": one.self_compose(rounds).get_epsilon_for_delta(1e-5)}


def prv(rounds):
    variable = prv_accountant.PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1)
    accountant = prv_accountant.PRVAccountant(prvs=[variable], max_self_compositions=[rounds], eps_error=0.01,
                                              delta_error=1e-10)
    lower, estimate, upper = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[rounds])
    return {"epsilon": estimate, "lower": lower, "upper": upper}


print("ready", flush=True)
for line in sys.stdin:
    name, rounds = line.split()
    if (prv_accountant if name == "prv" else privacy_loss_distribution) is None:
        print(json.dumps({"missing": name}), flush=True)
        continue
    cpu, wall = time.process_time(), time.perf_counter()
    answer = {"pld": pld, "pld_optimistic": pld_optimistic, "prv": prv}[name](int(rounds))
    answer.update(cpu_ms=1e3 * (time.process_time() - cpu), wall_ms=1e3 * (time.perf_counter() - wall))
    print(json.dumps(answer), flush=True)
