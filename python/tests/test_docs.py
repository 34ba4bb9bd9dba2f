"""Every example in a docstring runs and shows what it is said to show."""

import doctest
import importlib

import pytest

MODULES = ["tacit", "tacit.errors", "tacit._config", "tacit._data", "tacit._run", "tacit.accounting", "tacit.interop", "tacit.session", "tacit.sklearn", "tacit.flower"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name == "tacit.sklearn":
        pytest.importorskip("sklearn")
    found = doctest.testmod(importlib.import_module(name), verbose=False, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_what_people_begin_with_has_an_example():
    import tacit
    import tacit.flower

    for name in ("Accountant", "Certificate", "Data", "Ledger", "Plan", "Run", "Session", "Trace", "calibrate", "minimise", "open_run"):
        assert ">>>" in getattr(tacit, name).__doc__, name
    for name in ("plan", "plot", "resume", "train", "verify", "flower"):
        assert ">>>" in getattr(tacit, name).__doc__, name


def test_everything_public_is_documented():
    import inspect

    import tacit
    import tacit.flower

    for module in (tacit, tacit.flower, tacit.accounting, tacit.interop):
        for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
            thing = getattr(module, name)
            if not getattr(thing, "__module__", "").startswith("tacit"):
                continue
            assert thing.__doc__, f"{module.__name__}.{name}"
            if not inspect.isclass(thing) or issubclass(thing, (BaseException, tuple)):
                continue
            for inner, member in vars(thing).items():
                if not inner.startswith("_") and (callable(member) or isinstance(member, property)):
                    assert member.__doc__, f"{module.__name__}.{name}.{inner}"
