import pickle

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_iris  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from tacit.sklearn import PrivateFederatedClassifier, PrivateFederatedRegressor  # noqa: E402

# The checks ask for exact fits of clean data, so they run where noise does not matter: at a very large ε.
LARGE = {"epsilon": 1e7, "delta": 1e-2, "rounds": 300, "output": None, "clip": 10.0, "random_state": 0}


@parametrize_with_checks([PrivateFederatedClassifier(**LARGE), PrivateFederatedRegressor(**LARGE)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_default_epsilon_is_finite():
    for estimator in (PrivateFederatedClassifier(), PrivateFederatedRegressor()):
        assert 0 < estimator.get_params()["epsilon"] < 10


def test_private_model_of_real_data_across_clients():
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)  # stands for public constants here
    model = PrivateFederatedClassifier(epsilon=3.0, random_state=0).fit(x, y, clients=np.arange(len(y)) % 3)
    assert model.score(x, y) > 0.9
    assert model.certificate_.epsilon <= 3.0 and model.certificate_.verify()["holds"]
    assert model.run_.result["clients"] == 3
    assert model.coef_.shape == (1, 30) and model.intercept_.shape == (1,)


def test_several_classes_and_sparse_input():
    scipy = pytest.importorskip("scipy.sparse")
    x, y = load_iris(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    names = np.array(["a", "b", "c"])[y]
    dense = PrivateFederatedClassifier(epsilon=30.0, random_state=1, output=None).fit(x, names)
    sparse = PrivateFederatedClassifier(epsilon=30.0, random_state=1, output=None).fit(scipy.csr_matrix(x), names)
    assert dense.score(x, names) > 0.8 and sparse.score(scipy.csr_matrix(x), names) > 0.8
    assert dense.predict_proba(x).shape == (150, 3)
    np.testing.assert_allclose(dense.predict_proba(x).sum(axis=1), 1.0)


def test_pickles_keep_the_model_and_its_certificate():
    x, y = load_iris(return_X_y=True)
    model = PrivateFederatedClassifier(output=None).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.certificate_.epsilon == model.certificate_.epsilon
    assert clone(model).get_params() == model.get_params()


def test_public_bounds_are_mapped():
    rng = np.random.default_rng(0)
    x = rng.uniform(100, 300, size=(900, 2))
    y = (x.sum(axis=1) > 400).astype(int)
    model = PrivateFederatedClassifier(epsilon=2.0, bounds=(100, 300), random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9


def test_regression():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(2000, 3))
    y = x @ [1.0, -0.5, 0.2] + 0.3
    model = PrivateFederatedRegressor(epsilon=3.0, random_state=0).fit(x, y, clients=np.arange(2000) % 5)
    assert model.score(x, y) > 0.8
    assert model.certificate_.epsilon <= 3.0


def test_noise_is_fresh_unless_it_is_asked_to_repeat():
    x, y = load_iris(return_X_y=True)
    a, b = (PrivateFederatedClassifier(output=None).fit(x, y).model_ for _ in range(2))
    assert not np.array_equal(a, b)
    a, b = (PrivateFederatedClassifier(output=None, random_state=3).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(a.model_, b.model_)
    assert any("replayable" in c for c in a.certificate_["caveats"])


def test_the_version_that_is_asked_for_has_what_is_used():
    """validate_data and __sklearn_tags__ came with 1.6."""
    from importlib.metadata import requires

    asked = [r for r in requires("tacit") if r.startswith("scikit-learn")]
    assert asked and all(r.replace(" ", "").startswith("scikit-learn>=1.6") for r in asked), asked
