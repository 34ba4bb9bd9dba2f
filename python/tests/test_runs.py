import os

import numpy as np
import pytest

import tacit


@pytest.fixture
def run(rows, others):
    return tacit.train(data=tacit.Data(*rows[:2], clients=rows[2], name="plane"), test=others, epsilon=2.0, rounds=20)


def test_a_folder_is_read_back(run):
    again = tacit.open_run(run.folder)
    np.testing.assert_array_equal(again.model, run.model)
    assert again.epsilon == run.epsilon and again.metrics == run.metrics
    assert dict(again.certificate) == dict(run.certificate)
    assert again.config.get("privacy.epsilon") == 2.0
    assert repr(again).startswith("Run(primal-dual, 20 rounds")
    assert [r["name"] for r in tacit.runs()] == [run.folder.name]


def test_a_certificate_that_was_changed_does_not_hold(run):
    file = run.folder / "certificate.json"
    file.write_text(file.read_text().replace('"certified_epsilon": 1', '"certified_epsilon": 0', 1))
    with pytest.raises(tacit.Error):
        tacit.verify(run.folder)


def test_runs_on_the_same_rows_add_up(run, rows):
    ledger = tacit.Ledger()
    first = ledger.epsilon("plane")
    tacit.train(data=tacit.Data(*rows[:2], name="another name"), epsilon=2.0, rounds=5)
    assert ledger.epsilon("plane") > first  # the same rows, whatever they are called
    assert [d["data"] for d in ledger.data_sets] == ["plane"]
    assert run.ledger[0]["state"] == "settled" and max(run.ledger[0]["epsilon"]) <= 2.0


def test_a_limit_refuses(rows):
    data = tacit.Data(*rows[:2], name="few")
    tacit.Ledger().limit("few", 1.0)
    with pytest.raises(tacit.BudgetError, match="limit"):
        tacit.train(data=data, epsilon=2.0, rounds=5)
    tacit.train(data=data, epsilon=0.9, rounds=5)
    with pytest.raises(tacit.BudgetError):
        tacit.train(data=data, epsilon=0.9, rounds=5)


def test_no_digest_of_the_rows_is_shown(run):
    import hashlib

    texts = [p.read_bytes() for p in run.folder.iterdir() if p.suffix in (".json", ".toml", ".txt", ".jsonl")]
    assert len(texts) > 4
    x = np.array([1.0])
    assert not any(hashlib.sha256(x.tobytes()).hexdigest().encode() in t for t in texts)
    import sqlite3

    tags = [t for (t,) in sqlite3.connect("runs/ledger.db").execute("SELECT tag FROM tags") if t.startswith("sha256:")]
    assert len(tags) == 1
    assert not any(tags[0][7:].encode() in t for t in texts)


def test_charts_and_reports(run, tmp_path):
    chart = run.plot("loss")
    assert chart._repr_svg_().startswith("<svg") and len(chart.labels) == 1
    chart.save("a.svg")
    assert (tmp_path / "a.svg").read_text() == chart.svg()
    assert run.plot().svg() != chart.svg()  # accuracy, since there is one
    with pytest.raises(tacit.ConfigError, match="y = nothing"):
        run.plot("nothing")
    page = run.report()
    assert page.html.lstrip().startswith("<!") and "iframe" in page._repr_html_()
    assert "<table>" in run._repr_html_() and "<pre>" in run.certificate._repr_html_()


def test_a_run_without_a_folder(rows, others):
    run = tacit.train(data=rows, test=others, epsilon=2.0, rounds=10, keep=False)
    assert run.folder is None and run.certificate.verify()["holds"]
    assert run.trace["round"][-1] == 10 and "loss" in run.trace
    with pytest.raises(tacit.NotFoundError):
        run.ledger
    with pytest.raises(tacit.ConfigError):
        run.plot()
    assert tacit.runs(".") == []


def test_scores_are_margins(rows):
    run = tacit.train(data=rows, epsilon=4.0, rounds=20, keep=False)
    scores = run.scores(rows[0])
    assert scores.shape == (400, 1)
    np.testing.assert_allclose(scores[:, 0], rows[0] @ run.model, atol=1e-12)


def test_the_test_set_must_not_be_the_training_set(rows, others):
    x, y, _ = rows
    data, before = tacit.Data(x, y, name="plane"), os.listdir()
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(x)
    for train, test in [
        (data, data),
        (data, (x, y)),
        (data, tacit.Data(x.copy(), y.copy(), name="another name")),  # by content, not by where or how it is called
        (tacit.Data(sparse, y), (sparse.copy(), y)),
    ]:
        with pytest.raises(tacit.ConfigError, match="is the training data"):
            tacit.train(data=train, test=test, epsilon=1.0, rounds=2)
    assert os.listdir() == before
    run = tacit.train(data=data, test=others, epsilon=1.0, rounds=2, keep=False)
    assert "accuracy" in run.metrics


def test_a_run_goes_on_with_its_own_rows_alone(rows, others):
    x, y, _ = rows

    def stop(at):
        if at["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(tacit.Interrupted) as stopped:
        tacit.train(data=tacit.Data(x, y, name="plane"), epsilon=1.0, rounds=6, progress=stop)
    folder = stopped.value.run.folder
    spent = tacit.Ledger().epsilon("plane")
    other = x.copy()
    other[0, 0] += 1
    for wrong in [(other, y), (x, 1 - y), (x[::-1].copy(), y[::-1].copy())]:
        with pytest.raises(tacit.ConfigError, match="began with other data"):
            tacit.resume(folder, data=wrong, progress=False)
    # A data set that is known by itself: its own account was passed over.
    tacit.train(data=tacit.Data(other, y, name="other"), epsilon=1.0, rounds=2)
    with pytest.raises(tacit.ConfigError, match="began with other data"):
        tacit.resume(folder, data=(other, y), progress=False)
    assert tacit.Ledger().epsilon("plane") == spent
    assert tacit.resume(folder, data=(x, y), progress=False).rounds == 6
