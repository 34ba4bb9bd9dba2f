"""The engine's frames moved by somebody else: by a function, and by Flower's own processes."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import _tacit, flower

NAMES, RECORDS, SEED = ["north", "south"], [200, 200], 20240229
SETTINGS = {"row_norm": "clip", "row_bound": 2.0, "intercept": True, "clip": 1.0}


def hold(rows):
    x, y, _ = rows
    return {"north": (x[:200], y[:200]), "south": (x[200:], y[200:])}


def native(rows, **settings):
    """In this process. In equal blocks, so that both plan for the same numbers of records; by a column the engine's own
    plan, made before it sees a row, would be for a client that has them all, and its noise larger in the eleventh digit."""
    x, y, _ = rows
    settings = {"clients": 2, "data__split": "blocks", **settings}
    return tacit.train(data=(x, y), keep=False, progress=False, **settings)


def answers(job, held, folder):
    """ask() with all clients in this process, each in a folder of its own."""

    def ask(round_, last, who, counted, frame):
        out = []
        heard = dict(zip(who, counted))
        for i in who:
            data = tacit.Data(*held[NAMES[i]])
            home = Path(folder) / NAMES[i]
            home.mkdir(parents=True, exist_ok=True)
            one = [
                _tacit.answer(job, NAMES[i], data.source, data._rows, str(home / "job"), str(home / "ledger.db"), round_, last, frame, heard.get(i, 0))
                for _ in range(1 if last else 2)
            ]
            assert one[0] == one[-1]  # asked again, the same bytes
            out.append(one[0])
        return out

    return ask


# What is left out of the noise that tests can repeat: nothing, so that clients draw the very same streams.
REPLAYED = {"noise": "replayable", "noise_seed": SEED}
ALGORITHMS = {
    "primal-dual": {},
    "isrl-dp": {},
    "dp-fedavg": {},
    "dp-scaffold": {},
    "fedexp": {"unit": "client", "epsilon": 5.0},
    "dpd-ef21-2": {"compressor": "top:0.5"},
}


@pytest.mark.parametrize("noised", [True, False], ids=["noised", "exposed"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_model_is_the_native_one(rows, tmp_path, algorithm, noised):
    settings = {**SETTINGS, "algorithm": algorithm, "rounds": 5, "epsilon": 3.0, **ALGORITHMS[algorithm]}
    settings.update(REPLAYED if noised else {"mechanism": "expose"})
    job = flower.job(clients=NAMES, records=RECORDS, features=5, **settings)
    run = _tacit.coordinate(job, str(tmp_path / "server"), answers(job, hold(rows), tmp_path / "clients"))
    alone = native(rows, **settings)
    np.testing.assert_array_equal(run.model, alone.model)
    assert tacit.Run(Path(run.folder), run).epsilon == alone.epsilon
    assert np.isfinite(alone.epsilon) == noised
    if noised:  # another seed, another model
        assert not np.array_equal(run.model, native(rows, **{**settings, "noise_seed": SEED + 1}).model)


def test_a_seed_without_replayable_noise_is_refused(rows):
    with pytest.raises(tacit.ConfigError, match="noise_seed"):
        native(rows, epsilon=1.0, rounds=2, noise_seed=SEED)
    with pytest.raises(tacit.ConfigError, match="noise_seed"):
        flower.job(clients=NAMES, records=RECORDS, features=5, epsilon=1.0, noise_seed=SEED)
    with pytest.raises(tacit.ConfigError, match="noise_seed"):
        flower.job(clients=NAMES, records=RECORDS, features=5, epsilon=1.0, noise="replayable")


def test_a_private_job_has_a_certificate_and_clients_have_ledgers(rows, tmp_path):
    job = flower.job(clients=NAMES, records=RECORDS, features=5, epsilon=2.0, rounds=5, **SETTINGS)
    native_run = _tacit.coordinate(job, str(tmp_path / "server"), answers(job, hold(rows), tmp_path / "clients"))
    run = tacit.Run(Path(native_run.folder), native_run)
    assert run.certificate.epsilon <= 2.0 and run.certificate.verify()["holds"]
    for name in NAMES:
        (data,) = tacit.Ledger(tmp_path / "clients" / name / "ledger.db").data_sets
        assert 0 < data["totals"][0]["epsilon"] <= 2.0


def test_what_asking_raises_ends_the_run(rows, tmp_path):
    job = flower.job(clients=NAMES, records=RECORDS, features=5, epsilon=2.0, rounds=5, **SETTINGS)

    def ask(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _tacit.coordinate(job, str(tmp_path / "server"), ask)


def test_a_round_waits_for_the_answers_it_needs(rows, tmp_path):
    settings = {**SETTINGS, "rounds": 4, "epsilon": 3.0, **REPLAYED}
    job = flower.job(clients=NAMES, records=RECORDS, features=5, **settings)
    present = answers(job, hold(rows), tmp_path / "clients")
    asked = []

    def forgetful(round_, last, who, counted, frame):  # at first the second client is away, and then the other
        asked.append((round_, list(who)))
        again = asked.count((round_, list(who))) > 1
        return [None if i == round_ % 2 and len(who) > 1 and not again else a for i, a in zip(who, present(round_, last, who, counted, frame))]

    run = _tacit.coordinate(job, str(tmp_path / "server"), forgetful, 3)
    np.testing.assert_array_equal(run.model, native(rows, **settings).model)
    assert [who for round_, who in asked if round_ == 1] == [[0, 1], [1]] and (2, [0]) in asked

    def nobody(round_, last, who, counted, frame):
        asked.append(round_)
        return [None for _ in who]

    asked.clear()
    with pytest.raises(tacit.StorageError, match=r"round 1: 0 of 2 clients .* asked up to 3 times, and 2 must"):
        _tacit.coordinate(job, str(tmp_path / "alone"), nobody, 3)
    assert asked == [1, 1, 1] and not (tmp_path / "alone" / "result.json").exists()
    # Whoever starts it again goes on with it.
    run = _tacit.coordinate(job, str(tmp_path / "alone"), answers(job, hold(rows), tmp_path / "later"), 3)
    np.testing.assert_array_equal(run.model, native(rows, **settings).model)

    one = flower.job(clients=NAMES, records=RECORDS, features=5, minimum=1, epsilon=3.0, rounds=2, **SETTINGS)
    half = answers(one, hold(rows), tmp_path / "half")
    run = _tacit.coordinate(one, str(tmp_path / "enough"), lambda r, l, who, c, f: [a if i == 0 else None for i, a in zip(who, half(r, l, who, c, f))], 3)
    assert run.model.shape == (6,)


def test_a_client_agrees_to_what_it_said_and_to_nothing_else():
    def job(**settings):
        return flower.job(clients=NAMES, records=RECORDS, features=5, rounds=5, **{"epsilon": 2.0, **SETTINGS, **settings})

    assert flower.agree(job(), 2.0).epsilon <= 2.0
    for refused, text in [
        ({"epsilon": 2.1}, "agrees to 2"),
        ({"delta": 1e-4}, "at 1e-05"),
        ({"mechanism": "expose"}, "ε = inf"),
        (REPLAYED, "take the noise off"),
        ({"mode": "paper"}, "as printed"),
        ({"mechanism": "gaussian"}, "floating point"),
    ]:
        with pytest.raises(tacit.BudgetError, match=text):
            flower.agree(job(**refused), 2.0)
    assert flower.agree(job(**REPLAYED), 2.0, replayable=True).epsilon <= 2.0
    assert flower.agree(job(mechanism="gaussian"), 2.0, float_noise=True).epsilon <= 2.0
    by_client = job(algorithm="fedexp", unit="client")
    for agreed, kind in [({"unit": "record"}, {}), ({"unit": ["record", "client"]}, {}), ({"adjacency": "replace-one"}, {})]:
        assert flower.agree(job(**kind), 2.0, **agreed).epsilon <= 2.0
    assert flower.agree(by_client, 2.0, unit="client").epsilon <= 2.0
    for refused, text in [
        ({"unit": "record"}, "privacy.unit = 'client': this client agrees to 'record' alone"),
        ({"unit": ("record", "person")}, "'record' or 'person'"),
        ({"adjacency": "add-remove"}, "privacy.adjacency"),
    ]:
        with pytest.raises(tacit.BudgetError, match=text):
            flower.agree(by_client, 2.0, **refused)


def test_a_run_keeps_its_job(tmp_path):
    flower._hold_to("a = 1\n", tmp_path / "7")
    flower._hold_to("a = 1\n", tmp_path / "7")
    with pytest.raises(tacit.MismatchError, match="another job"):
        flower._hold_to("a = 2\n", tmp_path / "7")
    assert os.listdir(tmp_path / "7") == ["job.toml"]


def test_of_two_jobs_at_once_a_run_keeps_one(tmp_path, monkeypatch):
    """As if the other came between the look and the write."""
    real, folder = Path.exists, tmp_path / "7"

    def late(path):
        if path.name == "job.toml" and not real(path):
            path.write_text("a = 1\n")
            return False
        return real(path)

    monkeypatch.setattr(Path, "exists", late)
    with pytest.raises(tacit.MismatchError, match="another job"):
        flower._hold_to("a = 2\n", folder)
    assert (folder / "job.toml").read_text() == "a = 1\n"


@pytest.fixture
def in_flower():
    """Messages can be made, as in a process of Flower's."""
    pytest.importorskip("flwr")
    from flwr.supercore.task_identity import TaskIdentity

    before = {name: vars(TaskIdentity)[name] for name in ("_task_id", "_run_id", "_node_id")}
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    yield
    for name, value in before.items():
        setattr(TaskIdentity, name, value)


class Grid:
    """Flower's grid with all nodes in this process: what their apps raise goes to the server as Flower sends it."""

    def __init__(self, apps, names=None, run=77):
        self.apps, self.names, self.run = apps, names or NAMES, run
        self.errors = []

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, *, timeout=None):
        from flwr.app import Context, Error, Message, RecordDict

        out = []
        for m in messages:
            node = m.metadata.dst_node_id
            m.metadata.__dict__["_run_id"] = self.run
            context = Context(self.run, node, {"name": self.names[node]}, RecordDict(), {})
            try:
                out.append(self.apps[node](m, context))
            except Exception as e:
                self.errors.append(str(type(e)) + ":<'" + str(e) + "'>")
                out.append(Message(Error(code=2, reason=self.errors[-1]), reply_to=m))
        return out


def nodes(held, folder, **policy):
    """One app for each client, as on machines of their own."""
    policy = {"max_epsilon": 3.0, "state": folder / "state", **policy}
    return dict(enumerate(flower.client_app(lambda c: (c.node_config["name"], held[c.node_config["name"]]), **policy) for _ in NAMES))


def a_job(**settings):
    return flower.job(clients=NAMES, records=RECORDS, features=5, **{"epsilon": 3.0, "rounds": 3, **SETTINGS, **settings})


def test_a_grid_and_a_strategy_train_the_native_model(rows, tmp_path, in_flower):
    from flwr.serverapp.strategy import Strategy

    grid = Grid(nodes(hold(rows), tmp_path, replayable=True))
    plan = flower.strategy(a_job(**REPLAYED), tmp_path / "server")
    assert isinstance(plan, Strategy)
    plan.summary()
    result = plan.start(grid)
    alone = native(rows, epsilon=3.0, rounds=3, **SETTINGS, **REPLAYED)
    np.testing.assert_array_equal(result.arrays.to_numpy_ndarrays()[0], alone.model)
    assert plan.run.certificate.verify()["holds"] and plan.run.epsilon == alone.epsilon
    for wrong in (lambda: plan.start(grid, num_rounds=3), lambda: plan.configure_train(1, None, None, grid)):
        with pytest.raises(tacit.UnsupportedError):
            wrong()


REFUSED = re.compile(r"<class 'RuntimeError'>:<'tacit client refused \(code \d\)'>")


def test_what_a_client_refuses_tells_the_server_nothing_of_its_data(rows, tmp_path, caplog, in_flower):
    x, y, _ = rows
    secret = tmp_path / "ward 7"
    secret.mkdir()
    lines = [",".join(f"{v:.4f}" for v in row) + f",{int(label)}" for row, label in zip(x[:200], y[:200])]
    (secret / "cell.csv").write_text("\n".join([*lines[:41], lines[41].replace(",", ",cardiac,", 1)[:-2], *lines[42:]]))
    bad = x[:200].copy()
    bad[41, 2] = np.inf

    def broken(context):
        raise ZeroDivisionError("patient 4711")

    good = hold(rows)["south"]
    for k, (data, code, told) in enumerate(
        [
            ((x[:187], y[:187]), 2, "187"),  # how many there are
            ((bad, y[:200]), 4, "row 41"),
            (str(secret / "cell.csv"), 4, "line 42"),
            (str(secret / "nothing.csv"), 3, "ward 7"),
            ((x[:200, :4], y[:200]), 2, "has 5 features"),  # and an intercept
        ]
    ):
        caplog.clear()
        grid = Grid(nodes({"north": data, "south": good}, tmp_path / str(k)))
        with pytest.raises(tacit.StorageError, match="1 of 2 clients") as failed:
            flower.coordinate(grid, a_job(), tmp_path / f"server{k}", attempts=2)
        assert len(grid.errors) == 2 and all(REFUSED.fullmatch(e) and f"(code {code})" in e for e in grid.errors), grid.errors
        assert told not in str(failed.value)
        assert told in caplog.text  # for who runs the client
    grid = Grid({0: flower.client_app(broken, max_epsilon=3.0, state=tmp_path / "state")})
    with pytest.raises(tacit.NotFoundError, match="north, south"):
        flower.coordinate(grid, a_job(), tmp_path / "server", patience=0)
    assert grid.errors and all(e.endswith("refused (code 1)'>") for e in grid.errors) and "4711" in caplog.text


def test_a_name_belongs_to_one_node(rows, tmp_path, in_flower):
    apps = nodes(hold(rows), tmp_path)
    twice = Grid({**apps, 2: apps[0]}, [*NAMES, "north"])
    with pytest.raises(tacit.MismatchError, match="north: two nodes"):
        flower.coordinate(twice, a_job(), tmp_path / "server")
    assert not (tmp_path / "state").exists()  # nobody was asked
    spare = Grid({**apps, 2: apps[0]}, [*NAMES, "west"])  # a name that the job does not know
    assert flower.coordinate(spare, a_job(), tmp_path / "server").rounds == 3


def test_a_node_that_was_started_anew_takes_its_place(rows, tmp_path, in_flower):
    apps = nodes(hold(rows), tmp_path)
    grid = Grid(apps, [*NAMES, "north"])
    real, moved = grid.send_and_receive, []

    def moving(messages, *, timeout=None):
        messages = list(messages)
        if not moved and "round" in messages[0].content["tacit"]:
            moved.append(True)
            app = grid.apps.pop(0)
            out = real([m for m in messages if m.metadata.dst_node_id == 1])
            grid.apps[2] = app
            return out
        return real(messages)

    grid.send_and_receive = moving
    assert flower.coordinate(grid, a_job(), tmp_path / "server").rounds == 3 and moved


def test_all_jobs_together_cost_no_more_than_a_client_said(rows, tmp_path, caplog, in_flower):

    def train(run, total):
        grid = Grid(nodes(hold(rows), tmp_path, total_epsilon=total), run=run)
        return flower.coordinate(grid, a_job(epsilon=2.0), tmp_path / f"server{run}", attempts=1)

    def limits():
        return {tacit.Ledger(tmp_path / "state" / n / "ledger.db").data_sets[0]["limit_epsilon"] for n in NAMES}

    assert train(1, 2.5).epsilon <= 2.0 and limits() == {2.5}
    for total in (2.5, 50.0):  # a limit that is there is not raised by an app
        with pytest.raises(tacit.StorageError, match="0 of 2 clients"):
            train(2, total)
        assert limits() == {2.5} and "past its limit of 2.5" in caplog.text
    for name in NAMES:
        ledger = tacit.Ledger(tmp_path / "state" / name / "ledger.db")
        ledger.limit(ledger.data_sets[0]["data"], 50.0)
    assert train(2, 50.0).epsilon <= 2.0


@pytest.mark.parametrize("wrong", [{"state": "tacit-client"}, {"state": "/tmp/state", "ledger": "ledger.db"}])
def test_a_clients_folder_is_the_same_in_every_process(wrong):
    pytest.importorskip("flwr")
    with pytest.raises(tacit.ConfigError, match="absolute"):
        flower.client_app(lambda c: ("north", None), max_epsilon=1.0, **wrong)
    with pytest.raises(TypeError):
        flower.client_app(lambda c: ("north", None), max_epsilon=1.0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


SERVER = """
import tacit.flower
def note(text):
    with open({folder!r} + ".heard", "a") as file:
        file.write(text + "\\n")
app = tacit.flower.server_app(open({job!r}).read(), {folder!r}, patience=120, attempts=2, log=note)
"""
CLIENT = """
import numpy as np, tacit.flower
def rows(context):
    name = str(context.node_config["name"])
    with np.load({home!r} + "/" + name + ".npz") as f:
        return name, (f["x"], f["y"])
app = tacit.flower.client_app(rows, max_epsilon={most}, replayable=True, state={home!r} + "/state")
"""
PROJECT = """
[project]
name = "probe"
version = "1.0.0"
description = "a test"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "probe"
[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"
"""


def test_flowers_own_processes_train_the_native_model(rows, tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    tools = Path(sys.executable).parent
    if not (tools / "flower-superlink").exists():
        pytest.skip("flower-superlink is not installed beside this Python")
    settings = {**SETTINGS, "algorithm": "isrl-dp", "rounds": 3, "epsilon": 3.0, **REPLAYED}
    job = tmp_path / "job.toml"
    job.write_text(flower.job(clients=NAMES, records=RECORDS, features=5, **settings))
    for name, (x, y) in hold(rows).items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    dear = tmp_path / "dear.toml"
    dear.write_text(flower.job(clients=NAMES, records=RECORDS, features=5, **{**settings, "epsilon": 4.5}))
    home, out, refused = tmp_path / "home", tmp_path / "server", tmp_path / "refused"
    home.mkdir()
    for app, text, folder in [("app", job, out), ("dear", dear, refused)]:
        (tmp_path / app).mkdir()
        (tmp_path / app / "pyproject.toml").write_text(PROJECT)
        (tmp_path / app / "server_app.py").write_text(SERVER.format(job=str(text), folder=str(folder)))
        (tmp_path / app / "client_app.py").write_text(CLIENT.format(home=str(tmp_path), most=3.0))
    port = free_port()
    (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    monkeypatch.setenv("FLWR_HOME", str(home))
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    at_server, at_clients = tmp_path / "server.txt", tmp_path / "clients.txt"

    def start(*command, log=at_clients):
        with open(log, "a") as file:
            return subprocess.Popen([str(tools / command[0]), *command[1:]], stdout=file, stderr=file)

    def until(there, seconds=600):
        for _ in range(seconds):
            if there():
                return True
            time.sleep(1)
        return False

    def submit(app):
        command = [str(tools / "flwr"), "run", str(tmp_path / app), "here"]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode == 0

    processes = [start("flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--port", str(port), log=at_server)]
    for name in NAMES:
        processes.append(
            start("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--node-config", f'name="{name}"', "--port", str(free_port()))
        )
    try:
        assert until(lambda: submit("app"), 60)  # until the link listens
        assert until((out / "result.json").exists), at_server.read_text()[-4000:] + at_clients.read_text()[-4000:]
        # A job that costs more than the clients agree to. Its server learns that they refuse, and ends with an error.
        assert submit("dear")
        assert until(lambda: at_server.read_text().count("Finished task") == 2), at_server.read_text()[-4000:]
        heard = (tmp_path / "refused.heard").read_text()
        assert heard.count("tacit client refused (code 5)") == 4, heard  # two clients, asked twice
        for told in ("agrees to", "BudgetError", "ε"):
            assert told not in heard + at_server.read_text()
        assert "the job costs ε = 4.5 at δ = 1e-05, and this client agrees to 3 at 1e-05" in at_clients.read_text()
        assert not (refused / "result.json").exists()
    finally:
        for p in processes:
            p.terminate()
        for p in processes:
            p.wait(timeout=60)
    run, alone = tacit.open_run(out), native(rows, **settings)
    np.testing.assert_array_equal(run.model, alone.model)
    assert run.epsilon == alone.epsilon <= 3.0 and run.certificate.verify()["holds"]
    for name in NAMES:  # each has paid from a ledger of its own
        (data,) = tacit.Ledger(tmp_path / "state" / name / "ledger.db").data_sets
        assert 0 < data["totals"][0]["epsilon"] <= 3.0
    shutil.rmtree(home)
