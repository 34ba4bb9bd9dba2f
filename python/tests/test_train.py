import threading
import time

import numpy as np
import pytest

import tacit

SMALL = {"rounds": 20, "row_norm": "clip", "row_bound": 2.0, "intercept": True}


def test_five_lines_from_arrays_to_a_certificate(rows):
    run = tacit.train(data=rows, epsilon=4.0, **SMALL)
    assert run.certificate.epsilon <= 4.0
    assert run.certificate.verify()["holds"]
    assert run.result["clients"] == 4
    assert run.evaluate(rows[:2])["accuracy"] > 0.8
    assert "one record" in str(run.certificate)


def test_configs_from_path_text_mapping_and_keywords_are_the_same(tmp_path):
    text = '[data]\nsource = "synthetic-logistic"\n[privacy]\nepsilon = 2.0\n[algorithm]\nrounds = 7\n'
    (tmp_path / "a.toml").write_text(text)
    plans = [
        tacit.plan("a.toml"),
        tacit.plan(tmp_path / "a.toml"),
        tacit.plan(text),
        tacit.plan({"data": {"source": "synthetic-logistic"}, "privacy": {"epsilon": 2}, "algorithm": {"rounds": 7}}),
        tacit.plan({"data.source": "synthetic-logistic"}, epsilon=2, rounds=7),
        tacit.plan(data="synthetic-logistic", privacy__epsilon=np.float64(2), algorithm={"rounds": np.int64(7)}),
    ]
    assert all(dict(p) == dict(plans[0]) for p in plans)
    assert plans[0]["rounds"] == 7 and len(plans[0].sigma) == 7


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"epsilonn": 1}, tacit.ConfigError, "did you mean epsilon"),
        ({"nothing_like_it": 1}, tacit.ConfigError, "tacit.options"),
        ({"epsilon": -1}, tacit.ConfigError, "privacy.epsilon"),
        ({"epsilon": float("nan")}, tacit.ConfigError, "privacy.epsilon"),
        ({"algorithm": "no such"}, tacit.ConfigError, "algorithm.name"),
        ({"radius": 3}, tacit.ConfigError, "several tables"),
        ({"rounds": object()}, tacit.ConfigError, "algorithm.rounds"),
        ({"data": "no/such/file.csv"}, tacit.NotFoundError, "no/such/file.csv"),
        ({"config": np.zeros((2, 2))}, tacit.ConfigError, "rows are given as data="),
    ],
)
def test_errors_are_the_engines_own(settings, error, text):
    with pytest.raises(error, match=text.replace(".", r"\.")):
        tacit.train(**{"data": "synthetic-logistic", **settings})


def test_a_path_that_is_not_there():
    with pytest.raises(tacit.NotFoundError, match="nowhere.toml"):
        tacit.train("nowhere.toml")


def test_dense_sparse_and_frames_train_the_same_model(rows):
    scipy = pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    x, y, clients = rows
    frame = pandas.DataFrame(x, columns=list("abcde")).assign(label=y, hospital=clients)
    forms = [
        tacit.Data(x, y, clients=clients),
        tacit.Data(np.asfortranarray(x), y.astype(int), clients=[f"h{c}" for c in clients]),
        tacit.Data(frame, "label", clients="hospital"),
        tacit.Data(scipy.csr_matrix(x), y, clients=clients),
        tacit.Data(scipy.coo_matrix(x), y, clients=clients),
    ]
    models = [
        tacit.train(data=f, epsilon=1e6, mechanism="gaussian", noise="replayable", keep=False, rounds=20).model
        for f in forms
    ]
    for m in models[1:]:
        np.testing.assert_allclose(m, models[0], rtol=0, atol=1e-3)


def test_nothing_is_copied_on_the_way_in(rows):
    x = np.ascontiguousarray(rows[0])
    assert tacit.Data(x, rows[1])._rows.address == x.ctypes.data
    scipy = pytest.importorskip("scipy.sparse")
    s = scipy.csr_matrix(x)
    assert tacit.Data(s, rows[1])._rows.address == s.data.ctypes.data


def test_nothing_is_copied_on_the_way_out(rows):
    run = tacit.train(data=rows, epsilon=4.0, **SMALL)
    trace, model = run.trace, run.model
    assert trace["epsilon"].ctypes.data == trace["epsilon"].ctypes.data
    assert not trace["epsilon"].flags.owndata and not trace["epsilon"].flags.writeable
    assert run.model.ctypes.data == model.ctypes.data and not model.flags.writeable
    pytest.importorskip("pandas")
    frame = trace.to_pandas()
    for name in trace:
        assert np.shares_memory(frame[name].to_numpy(), trace[name])
    column = trace["round"]
    del trace, run, frame  # the array keeps what it looks at
    assert column[-1] == 20


def test_wrong_arrays_are_refused(rows):
    x, y, clients = rows
    for bad in [(x, y[:-1]), (x[0], y), (x, y, clients[:-1])]:
        with pytest.raises(tacit.Error):
            tacit.train(data=bad, epsilon=1.0, rounds=2)
    infinite = x.copy()
    infinite[3, 1] = np.inf
    with pytest.raises(tacit.MalformedError, match="row 3: a value is not finite"):
        tacit.train(data=(infinite, y), epsilon=1.0, rounds=2)
    with pytest.raises(tacit.ConfigError, match="no number"):
        tacit.Data([["a", "b"]], [1])
    for hole in (None, float("nan")):
        with pytest.raises(tacit.ConfigError, match="clients: is missing"):
            tacit.Data([[1.0], [2.0]], [0, 1], clients=["a" if hole is None else 1.0, hole])


def test_tables_as_people_have_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "age": [30, 41, None, 57],
            "smokes": [True, False, True, False],
            "visits": pandas.array([1, None, 3, 4], dtype="Int64"),
            "ward": ["a", "b", "a", "b"],
            "ill": [0, 1, 1, 0],
        }
    )
    with pytest.raises(tacit.ConfigError, match="'ward'.*no number"):
        tacit.Data(frame, "ill")
    with pytest.raises(tacit.ConfigError, match="no column 'sick'.*'ill'"):
        tacit.Data(frame, "sick")
    data = tacit.Data(frame, "ill", clients="ward")
    assert data.shape == (4, 3) and data.feature_names == ["age", "smokes", "visits"]
    run = tacit.train(data=data, missing=0.0, epsilon=1.0, rounds=3, keep=False, row_norm="clip")
    assert np.isfinite(run.model).all()
    with pytest.raises(tacit.ConfigError, match="y: .*no number"):
        tacit.Data(frame[["age"]], frame["ward"])


def test_missing_values_are_a_public_constant(rows):
    x, y, clients = rows
    holes, filled = x.copy(), x.copy()
    holes[::7, 2], filled[::7, 2] = np.nan, 0.25
    same = {"epsilon": 1e6, "mechanism": "gaussian", "noise": "replayable", "keep": False, "rounds": 10}
    a = tacit.train(data=(holes, y, clients), missing=0.25, **same)
    b = tacit.train(data=(filled, y, clients), missing=0.25, **same)
    np.testing.assert_array_equal(a.model, b.model)


def test_other_threads_go_on_and_progress_is_called(rows):
    ticks, seen = [], []

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    done = threading.Event()
    other = threading.Thread(target=tick)
    other.start()
    begin = time.monotonic()
    tacit.train(data="synthetic-logistic", epsilon=1.0, rounds=400, keep=False, progress=seen.append)
    end = time.monotonic()
    done.set()
    other.join()
    assert [p["round"] for p in seen] == list(range(1, 401))
    assert seen[0]["epsilon"] < seen[-1]["epsilon"] <= 1.0
    assert any(begin < t < end for t in ticks)


def test_two_threads_may_train_at_once(rows):
    out = {}

    def go(k):
        x = rows[0] * (k + 1)
        run = tacit.train(data=(x, rows[1]), epsilon=1e6, noise="replayable", mechanism="gaussian", keep=False, rounds=10)
        out[k] = np.array(run.model)

    threads = [threading.Thread(target=go, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    alone = dict(out)
    for k in range(4):
        go(k)
        np.testing.assert_array_equal(out[k], alone[k])


def test_an_exception_in_progress_ends_the_run_with_a_certificate(rows):
    class Enough(Exception):
        pass

    def stop(p):
        if p["round"] == 3:
            raise Enough

    with pytest.raises(Enough):
        tacit.train(data=rows, epsilon=1.0, rounds=50, progress=stop)
    (run,) = tacit.runs()
    assert run["state"] == "stopped" and run["rounds"] == 3


def test_ctrl_c_stops_with_a_certificate_and_resume_goes_on(rows, request):
    import os
    import signal

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the background may have been told to ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(p):
        if p["round"] == 4:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # a bytecode or two until Python notices
                pass

    with pytest.raises(tacit.Interrupted) as caught:
        tacit.train(data=rows, epsilon=1.0, rounds=30, noise="replayable", progress=interrupt)
    stopped = caught.value.run
    assert f"tacit.resume('{stopped.folder}')" in str(caught.value)
    assert stopped.interrupted and stopped.rounds < 30 and stopped.certificate.epsilon <= 1.0
    with pytest.raises(tacit.NotFoundError, match="hand them over again"):
        tacit.resume(stopped.folder)
    run = tacit.resume(stopped.folder, data=rows)
    whole = tacit.train(data=rows, epsilon=1.0, rounds=30, noise="replayable", keep=False)
    np.testing.assert_array_equal(run.model, whole.model)


SLOW = """
import sys, tacit

def seen(p):
    if p["round"] == 3:
        print("training", flush=True)

try:
    tacit.train(data="synthetic-logistic", epsilon=1.0, rounds=100000, progress=seen)
except tacit.Interrupted as e:
    assert e.run.certificate.verify()["holds"] and e.run.rounds < 100000
    print(e.run.folder)
"""


def test_ctrl_c_from_outside_ends_a_script_with_a_certificate(tmp_path):
    import signal
    import subprocess
    import sys

    def heed():  # what is started in the background may have been told to ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    script = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    )
    assert script.stdout.readline() == "training\n"
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=300)
    assert script.returncode == 0, err
    run = tacit.open_run(out.strip())
    assert run.interrupted and run.epsilon <= 1.0


def test_private_is_not_exposed():
    from tacit import _tacit

    assert not [n for n in dir(_tacit) if "private" in n.lower()]
    assert not hasattr(_tacit.Rows, "value")


def test_stubs_and_the_mark_of_types_are_installed():
    from pathlib import Path

    here = Path(tacit.__file__).parent
    assert (here / "py.typed").exists()
    assert "class Trace" in (here / "_tacit.pyi").read_text()


def test_persons_are_the_unit_where_they_are_named(rows):
    x, y, clients = rows
    persons = [f"p{i // 2}" for i in range(400)]
    person = {"unit": "person", "records_per_person": 2, "epsilon": 4.0, "clients": 4, "rounds": 3, "keep": False}
    data = tacit.Data(x, y, persons=persons)
    with pytest.raises(tacit.ConfigError, match="data.rows"):
        tacit.train(data=data, **person)
    run = tacit.train(data=data, rows=400, **person)
    assert run.certificate.unit.startswith("person") and run.certificate.epsilon <= 4.0


def test_where_the_number_of_rows_is_hidden_it_must_be_given(rows):
    with pytest.raises(tacit.ConfigError, match="data.rows"):
        tacit.train(data=rows[:2], clients=4, adjacency="add-remove", epsilon=1.0, rounds=3)
    run = tacit.train(data=rows[:2], clients=4, rows=400, adjacency="add-remove", epsilon=1.0, rounds=3, keep=False)
    assert run.result["privacy"]["adjacency"] == "add-remove"
