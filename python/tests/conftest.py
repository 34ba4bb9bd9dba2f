"""The tests run on the installed package: a copy in the tree would hide what an installation lacks."""

from pathlib import Path

import numpy as np
import pytest

import tacit

TREE = Path(__file__).resolve().parents[1] / "tacit"
assert Path(tacit.__file__).resolve().parent != TREE, "run the tests on the installed package (scripts/test-python)"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TACIT_LEDGER", raising=False)


def _points(seed, count):
    x = np.random.default_rng(seed).uniform(-1, 1, size=(count, 5))
    return x, (x @ [1.0, -1.0, 2.0, 0.0, 1.0] > 0).astype(float)


@pytest.fixture
def rows():
    """400 points of a plane with a margin, and who holds them."""
    return *_points(1, 400), np.arange(400) % 4


@pytest.fixture
def others():
    """Points of the same kind that nobody holds, to test with."""
    return _points(2, 200)
