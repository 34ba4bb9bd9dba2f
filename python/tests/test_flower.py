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

NAMES, RECORDS = ["north", "south"], [150, 250]
SETTINGS = {"row_norm": "clip", "row_bound": 2.0, "intercept": True, "clip": 1.0}


def hold(rows):
    x, y, _ = rows
    return {"north": (x[:150], y[:150]), "south": (x[150:], y[150:])}


def native(rows, **settings):
    x, y, _ = rows
    data = tacit.Data(x, y, clients=np.repeat(NAMES, RECORDS))
    return tacit.train(data=data, keep=False, progress=False, **settings)


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


@pytest.mark.parametrize("algorithm", ["primal-dual", "isrl-dp", "dp-fedavg", "dp-scaffold"])
def test_the_model_is_the_native_one(rows, tmp_path, algorithm):
    settings = {**SETTINGS, "algorithm": algorithm, "rounds": 5, "mechanism": "expose"}
    job = flower.job(clients=NAMES, records=RECORDS, features=5, **settings)
    run = _tacit.coordinate(job, str(tmp_path / "server"), answers(job, hold(rows), tmp_path / "clients"))
    np.testing.assert_array_equal(run.model, native(rows, **settings).model)


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
app = tacit.flower.client_app(rows, max_epsilon={most}, state={home!r} + "/state")
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
    settings = {**SETTINGS, "algorithm": "isrl-dp", "rounds": 3, "mechanism": "expose"}
    job = tmp_path / "job.toml"
    job.write_text(flower.job(clients=NAMES, records=RECORDS, features=5, **settings))
    for name, (x, y) in hold(rows).items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    app, home, out = tmp_path / "app", tmp_path / "home", tmp_path / "server"
    app.mkdir(), home.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "server_app.py").write_text(SERVER.format(job=str(job), folder=str(out)))
    (app / "client_app.py").write_text(CLIENT.format(home=str(tmp_path), most="float('inf')"))
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
    np.testing.assert_array_equal(tacit.open_run(out).model, native(rows, **settings).model)
    shutil.rmtree(home)
