"""The engine's frames moved by somebody else: by a function, and by Flower's own processes."""

import os
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

    def ask(round_, last, who, frame):
        out = []
        for i in who:
            data = tacit.Data(*held[NAMES[i]])
            home = Path(folder) / NAMES[i]
            home.mkdir(parents=True, exist_ok=True)
            one = [
                _tacit.answer(job, NAMES[i], data.source, data._rows, str(home / "job"), str(home / "ledger.db"), round_, last, frame)
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
    ]:
        with pytest.raises(tacit.BudgetError, match=text):
            flower.agree(job(**refused), 2.0)
    assert flower.agree(job(**REPLAYED), 2.0, replayable=True).epsilon <= 2.0


def test_a_run_keeps_its_job(tmp_path):
    flower._hold_to("a = 1\n", tmp_path / "7")
    flower._hold_to("a = 1\n", tmp_path / "7")
    with pytest.raises(tacit.MismatchError, match="another job"):
        flower._hold_to("a = 2\n", tmp_path / "7")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


SERVER = """
import tacit.flower
app = tacit.flower.server_app(open({job!r}).read(), {folder!r}, patience=120)
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
    app, home, out = tmp_path / "app", tmp_path / "home", tmp_path / "server"
    app.mkdir(), home.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "server_app.py").write_text(SERVER.format(job=str(job), folder=str(out)))
    (app / "client_app.py").write_text(CLIENT.format(home=str(tmp_path), most=3.0))
    port = free_port()
    (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    monkeypatch.setenv("FLWR_HOME", str(home))
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    log = open(tmp_path / "log.txt", "w+")

    def start(*command):
        return subprocess.Popen([str(tools / command[0]), *command[1:]], stdout=log, stderr=log)

    processes = [start("flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--port", str(port))]
    for name in NAMES:
        processes.append(
            start("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--node-config", f'name="{name}"', "--port", str(free_port()))
        )
    try:
        for _ in range(60):  # until the link listens
            asked = subprocess.run([str(tools / "flwr"), "run", str(app), "here"], stdout=log, stderr=log, timeout=120)
            if asked.returncode == 0:
                break
            time.sleep(1)
        for _ in range(600):
            if (out / "result.json").exists():
                break
            time.sleep(1)
        log.flush()
        assert (out / "result.json").exists(), (tmp_path / "log.txt").read_text()[-4000:]
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
