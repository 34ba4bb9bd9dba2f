"""Every example in a docstring runs and shows what it is said to show."""

import doctest
import importlib

import pytest

MODULES = ["tacit", "tacit.errors", "tacit._config", "tacit._data", "tacit._run", "tacit.accounting", "tacit.interop", "tacit.session", "tacit.sklearn"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name == "tacit.sklearn":
        pytest.importorskip("sklearn")
    found = doctest.testmod(importlib.import_module(name), verbose=False)
    assert found.failed == 0


def test_everything_public_is_documented():
    import tacit

    for name in tacit.__all__:
        assert getattr(tacit, name).__doc__, name
