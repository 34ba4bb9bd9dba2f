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


@pytest.fixture
def rows():
    """400 points of a plane with a margin, and who holds them."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(400, 5))
    y = (x @ [1.0, -1.0, 2.0, 0.0, 1.0] > 0).astype(float)
    return x, y, np.arange(400) % 4
