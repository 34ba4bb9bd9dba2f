"""The example of the four hospitals: a certificate, and accuracies that are as docs/python.md says."""

import importlib.util
import os
from pathlib import Path

import pytest

EXAMPLE = Path(os.environ.get("TACIT_TREE", Path(__file__).resolve().parents[2])) / "python/examples/four_hospitals.py"
DATA = Path(os.environ.get("TACIT_DATA", "data")).resolve() / "heart_disease"


def test_one_private_model_of_all_hospitals_beats_each_alone():
    if not DATA.exists():
        pytest.skip("TACIT_DATA has no heart_disease")
    spec = importlib.util.spec_from_file_location("four_hospitals", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.study(DATA, seeds=10, epsilon=3.0)
    assert found["epsilon"] <= 3.0
    for name in example.HOSPITALS:
        assert found["federated"]["mean"] > found["local"][name]["mean"], name
