import math
import os
from pathlib import Path

import pytest

import tacit
from tacit import accounting, interop


def test_brackets_hold_each_other():
    a = tacit.Accountant("add-remove")
    a.compose("poisson-gaussian", 1000, noise_multiplier=1.0, rate=0.01)
    low, high = a.epsilon_bracket(1e-5)
    assert low <= high <= low * (1 + 1e-6)
    assert a.epsilon(1e-5) == high
    assert a.delta(high) <= 1.0001e-5
    assert high < a.renyi_epsilon(1e-5)
    assert a.method(1e-5)


def test_events_can_be_given_one_by_one_or_at_once():
    one = tacit.Accountant("replace-one")
    for _ in range(3):
        one.compose({"type": "gaussian", "noise_multiplier": 2.0})
    one.compose("pure", epsilon=0.1)
    many = tacit.Accountant("replace-one", [{"type": "pure", "epsilon": 0.1}, {"type": "gaussian", "noise_multiplier": 2, "count": 3}])
    assert one.epsilon(1e-6) == many.epsilon(1e-6)
    assert one.events == many.events and sum(e["count"] for e in one.events) == 4
    assert "Accountant(replace-one, 2 kinds" in repr(one)


def test_mistakes_are_named():
    a = tacit.Accountant()
    with pytest.raises(tacit.Error, match="noise_multiplierr"):
        a.compose("gaussian", noise_multiplierr=1)
    with pytest.raises(tacit.Error):
        a.compose("gaussian", 0, noise_multiplier=1)
    with pytest.raises(tacit.ConfigError):
        a.epsilon_bracket(1e-5)
    assert a.epsilon(1e-5) == 0.0 and a.events == []
    with pytest.raises(tacit.ConfigError, match="find"):
        tacit.calibrate("nothing", 1, 1e-5)


def test_nothing_promised_is_infinite():
    assert accounting.epsilon([{"type": "non-private"}], 1e-5) == math.inf


@pytest.mark.parametrize("rate", [None, 0.01])
def test_calibration_inverts_the_account(rate):
    c = tacit.calibrate("noise", 2.0, 1e-5, rounds=500, rate=rate)
    a = tacit.Accountant("replace-one" if rate is None else "add-remove")
    more = {} if rate is None else {"rate": rate}
    a.compose("gaussian" if rate is None else "poisson-gaussian", 500, noise_multiplier=c.value, **more)
    assert a.epsilon(1e-5) == pytest.approx(2.0, rel=1e-6) and a.epsilon(1e-5) <= 2.0
    rounds = tacit.calibrate("rounds", 2.0, 1e-5, noise=c.value, rate=rate)
    assert rounds.value == 500


def test_a_list_of_events_is_scaled():
    a = tacit.Accountant("add-remove", [{"type": "laplace", "epsilon": 0.5, "count": 20}])
    c = a.scale_for(1.0, 1e-6)
    assert c.value > 1 and c.epsilon <= 1.0


def test_dp_accounting_gives_the_same_epsilon():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    event = dp.ComposedDpEvent(
        [
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000),
            dp.GaussianDpEvent(5.0),
            dp.LaplaceDpEvent(20.0),
            dp.NoOpDpEvent(),
        ]
    )
    theirs = pld.PLDAccountant()
    theirs.compose(event)
    ours = interop.from_dp_accounting(event)
    low, high = ours.epsilon_bracket(1e-5)
    assert low <= high <= theirs.get_epsilon(1e-5) * (1 + 1e-6)
    assert high == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


def test_accountants_of_dp_accounting_itself():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld, rdp

    for kind in (pld.PLDAccountant, rdp.RdpAccountant):
        theirs = kind()
        theirs.compose(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000)
        theirs.compose(dp.GaussianDpEvent(5.0))
        ours = interop.from_dp_accounting(theirs)
        assert ours.adjacency == "add-remove"
        assert ours.epsilon(1e-5) == interop.from_dp_accounting(theirs.ledger).epsilon(1e-5)
        assert ours.epsilon(1e-5) <= theirs.get_epsilon(1e-5) * (1 + 1e-6)
        # Moments cannot reach the truth.
        assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3 if kind is pld.PLDAccountant else 0.15)
    assert interop.from_dp_accounting(pld.PLDAccountant()).epsilon(1e-5) == 0.0


def test_accountants_for_other_neighbours_must_say_what_their_noise_is_for():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld, rdp

    replace = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    replace.compose(dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(1.0)))
    assert interop.from_dp_accounting(replace).adjacency == "replace-one"
    other = pld.PLDAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    other.compose(dp.GaussianDpEvent(2.0))
    with pytest.raises(tacit.UnsupportedError, match="REPLACE_ONE.*adjacency="):
        interop.from_dp_accounting(other)
    assert interop.from_dp_accounting(other, adjacency="replace-one").adjacency == "replace-one"


def test_dp_accounting_events_without_a_counterpart_are_refused():
    dp = pytest.importorskip("dp_accounting")
    with pytest.raises(tacit.UnsupportedError, match="LaplaceDpEvent on a sample"):
        interop.from_dp_accounting(dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)))
    with pytest.raises(tacit.UnsupportedError, match="UnsupportedDpEvent"):
        interop.from_dp_accounting(dp.UnsupportedDpEvent())
    fixed = interop.from_dp_accounting(dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(1.0)))
    assert fixed.adjacency == "replace-one"


def test_opacus_histories():
    history = [(1.1, 0.004, 500), (0.9, 0.004, 250), (5.0, 1.0, 3)]

    class Engine:  # as opacus.PrivacyEngine().accountant has it
        def __init__(self):
            self.history = history

    by_list, by_object = interop.from_opacus(history), interop.from_opacus(Engine())
    by_state = interop.from_opacus({"history": history, "mechanism": "rdp"})
    assert by_list.epsilon(1e-5) == by_object.epsilon(1e-5) == by_state.epsilon(1e-5)
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    theirs = pld.PLDAccountant()
    for noise, rate, steps in history:
        one = dp.GaussianDpEvent(noise)
        theirs.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, one) if rate < 1 else one, steps))
    assert by_list.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


def test_accountants_of_opacus_itself():
    accountants = pytest.importorskip("opacus.accountants")
    for kind in (accountants.RDPAccountant, accountants.PRVAccountant):
        theirs = kind()
        for _ in range(300):
            theirs.step(noise_multiplier=1.1, sample_rate=0.01)
        ours = interop.from_opacus(theirs)
        assert ours.epsilon(1e-5) == interop.from_opacus(theirs.state_dict()).epsilon(1e-5)
        assert ours.epsilon(1e-5) <= theirs.get_epsilon(delta=1e-5)
        # Rényi divergences cannot reach the truth; at their best real order they are near Opacus's best of a list.
        same = ours.renyi_epsilon(1e-5) if kind is accountants.RDPAccountant else ours.epsilon(1e-5)
        assert same == pytest.approx(theirs.get_epsilon(delta=1e-5), rel=0.03)


def test_what_was_asked_for_is_installed():
    """Tests that need PyTorch or Opacus are skipped without them, but not where they were to be there."""
    if os.environ.get("TACIT_BENCH_TORCH", "0") == "0":
        pytest.skip("TACIT_BENCH_TORCH is not set")
    import opacus  # noqa: F401
    import torch  # noqa: F401


def test_the_example_shows_the_same_epsilon():
    import importlib.util

    tree = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2]))
    spec = importlib.util.spec_from_file_location("same_epsilon", tree / "python/examples/same_epsilon.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.main()
    for module, name in [("opacus", "Opacus, PRVAccountant"), ("opacus", "Opacus, RDPAccountant"), ("dp_accounting", "dp-accounting, PLDAccountant")]:
        assert (name in found) == (importlib.util.find_spec(module) is not None), name
    assert all(e == found["Tacit"] for name, e in found.items() if name.endswith("by Tacit"))
    assert all(found["Tacit"] <= e * (1 + 1e-9) for e in found.values())
