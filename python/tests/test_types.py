"""What a user's type checker and editor see."""

import subprocess
import sys

import pytest

import tacit

RIGHT = """
import numpy as np
import tacit
from tacit.sklearn import PrivateFederatedClassifier

x, y = np.zeros((4, 2)), np.zeros(4)
run: tacit.Run = tacit.train(data=tacit.Data(x, y, clients=["a", "b", "a", "b"]), epsilon=1.0, rounds=3)
spent: float = run.certificate.epsilon
column: np.ndarray = run.trace["round"]
noise: float = tacit.noise_multiplier(1.0, 1e-5)
account = tacit.Accountant("add-remove")
account.compose("gaussian", noise_multiplier=noise)
low, high = account.epsilon_bracket(1e-5)
with tacit.Session((x, y), dimension=2, epsilon=1.0) as session:
    total: np.ndarray = session.release(0, np.zeros((4, 2)))
model: PrivateFederatedClassifier = PrivateFederatedClassifier(epsilon=2.0).fit(x, y)
"""
WRONG = """
import tacit
tacit.train(keep=1.5)
tacit.train(epsilon="much")
tacit.Ledger().epsilon(3)
a: int = tacit.noise_multiplier(1.0, 1e-5)
"""


def mypy(tmp_path, text):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)


def test_a_users_script_is_typed(tmp_path):
    found = mypy(tmp_path, RIGHT)
    assert found.returncode == 0, found.stdout
    found = mypy(tmp_path, WRONG)
    assert found.stdout.count("error:") == 4, found.stdout


def test_names_complete():
    """What an editor or a shell offers after a dot is what there is, and nothing of the engine's own."""
    names = [n for n in dir(tacit) if not n.startswith("_")]
    assert set(tacit.__all__) <= set(names)
    shown = {n for n in dir(tacit.Run) if not n.startswith("_")}
    assert {"model", "trace", "certificate", "ledger", "metrics", "plan", "plot", "report"} <= shown
