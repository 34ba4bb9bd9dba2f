#!/usr/bin/env python3
"""make bench: measures the hot paths beside their peers, prints ratios beside what is aimed at, and writes
build/bench/results.json and build/bench/ratios.svg.

  bench/run.py                      everything
  bench/run.py noise networks       these parts; the others stay in results.json as they were
  bench/run.py --markdown           fills docs/performance.md and docs/img/performance.svg from results.json

Contestants of a comparison run in turns, several times, and the least time of each counts: on a shared machine
that is the figure least disturbed. One thread is timed by processor time, two threads by the clock on the wall."""
import datetime
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "bench")
PROGRAMS = os.path.join(BUILD, "bench")
TACIT = os.path.join(BUILD, "apps", "cli", "tacit")
RESULTS = os.path.join(BUILD, "results.json")
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
TURNS = int(os.environ.get("TACIT_BENCH_TURNS", "5"))
SECONDS = float(os.environ.get("TACIT_BENCH_SECONDS", "1"))

part = {}      # what is being measured: its rows, and what could not be had


def has(module):
    """Its version, or None."""
    if not os.path.exists(PYTHON):
        return None
    say = f"getattr({module}, '__version__', None) or importlib.metadata.version('{module}')"
    found = subprocess.run([PYTHON, "-c", f"import importlib.metadata, {module}; print({say})"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def missing(what):
    part["missing"].append(what)
    print(f"bench: {what}", file=sys.stderr)


class Program:
    """A contestant that answers one line of JSON to each line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"bench: {command[0]} did not start")

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def row(what, ours, unit, peer=None, peer_name="", aim=None, note="", times=None):
    """ours and peer are times. aim: the least peer/ours, or with no peer the most that ours may be; times: the most
    ours/peer that is aimed at."""
    ratio = peer / ours if peer else None
    met = None
    if times is not None:
        met = ours <= times * peer
    elif aim is not None:
        met = ratio >= aim if peer else ours <= aim
    part["rows"].append({"what": what, "ours": ours, "unit": unit, "peer": peer_name or None, "peer_time": peer,
                         "ratio": ratio, "aim": aim, "times": times, "met": met, "note": note})


def least(answers):
    return min(a["min_us"] for a in answers)


def mnist_folder():
    mnist = os.path.join(os.environ.get("TACIT_DATA", "-"), "mnist")
    return mnist if os.path.isdir(mnist) else "-"


def primal_dual():
    data = os.environ.get("TACIT_DATA", "")
    found = [f for f in (os.path.join(data, "a9a", n) for n in ("a9a.bz2", "a9a")) if data and os.path.exists(f)]
    if not found:
        missing("a9a is not in TACIT_DATA: generated rows of its shape are used instead")
    rows = os.path.join(BUILD, "rows")
    os.makedirs(rows, exist_ok=True)
    ours = Program(os.path.join(PROGRAMS, "primal_dual_bench"), found[0] if found else "-", rows)
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "primal_dual_peers.py"), rows) if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison with NumPy and SciPy")
    answers = {name: [] for name in ("tacit", "floor", "numpy", "scipy", "one", "two")}
    for _ in range(TURNS):
        for name in ("tacit", "floor"):
            answers[name].append(ours.ask(f"{name} 1 {SECONDS}"))
        for name in ("numpy", "scipy") if peers else ():
            answer = peers.ask(f"{name} {SECONDS}")
            if "missing" not in answer:
                answers[name].append(answer)
        answers["one"].append(ours.ask(f"wall 1 {SECONDS}"))
        answers["two"].append(ours.ask(f"wall 2 {SECONDS}"))
    ours.close()
    if peers:
        peers.close()
    us = least(answers["tacit"])
    what = "primal-dual round, a9a 20 x 561" if found else "primal-dual round, like a9a"
    if answers["numpy"]:
        row(what, us, "us", least(answers["numpy"]), "NumPy, batched", 5)
    if answers["scipy"]:
        row(what, us, "us", least(answers["scipy"]), "SciPy, sparse", 1.75)
    row(what, us, "us", least(answers["floor"]), "floor kernel", note="no clipping, no noise, no ledger", times=1.2)
    row(what + ", 2 threads", least(answers["two"]), "us", least(answers["one"]), "1 thread", 1.85, "by the clock")


def nfl():
    """Rounds of zCDP-NFL: the paper's size beside NumPy, and whether time and memory follow the edges."""
    ours = Program(os.path.join(PROGRAMS, "nfl_bench"))
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "nfl_peers.py")) if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison of rounds on a graph")
    size, answers = "50 3 8 50", {name: [] for name in ("tacit", "batched", "loop")}
    for _ in range(TURNS):
        answers["tacit"].append(ours.ask(f"{size} 1 {SECONDS}"))
        for name in ("batched", "loop") if peers else ():
            answers[name].append(peers.ask(f"{name} {size} {SECONDS}"))
    us, what = least(answers["tacit"]), "zCDP-NFL round, 50 peers, degree 3, 8 features, 50 records"
    row(what, us, "us")
    if peers:
        row(what, us, "us", least(answers["batched"]), "NumPy, batched", 5.5)
        row(what, us, "us", least(answers["loop"]), "NumPy, a loop", 120)
    for count in (2500, 5000, 10000):
        one = ours.ask(f"{count} 10 100 10 1 {3 * SECONDS}")
        row(f"zCDP-NFL round, {count:,} peers, degree 10, 100 features, 10 records", one["min_us"] / 1e3, "ms",
            note="%.0f ns an edge; %.1f MiB, %.0f bytes an edge" % (
                one["min_us"] * 1e3 / one["edges"], one["mib"], one["mib"] * 2**20 / one["edges"]))
    ours.close()
    if peers:
        peers.close()


NEWTON_CUBIC = 1e-3  # M, below the bound that would make every step safe: the problems start close enough


def fcrn():
    """The solver of DP-FCRN: without noise beside NumPy, and certified rounds beside their two halves."""
    ours = Program(os.path.join(PROGRAMS, "fcrn_bench"))
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "fcrn_peers.py")) if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison of cubic solvers")
    size = "40 2000 200 50"
    answers = {name: [] for name in ("plane", "steps", "round", "bare", "sampler", "numpy plane", "numpy steps")}
    for _ in range(TURNS):
        for name in ("plane", "steps", "round", "bare", "sampler"):
            answers[name].append(ours.ask(f"{name} {size} {SECONDS}"))
        for name in ("plane", "steps") if peers else ():
            answers["numpy " + name].append(peers.ask(f"{name} {size} {SECONDS}"))
    what = "cubic solver without noise, 40 clients, d = 2000, tau = 50"
    for name, note, aim in (("plane", "", 10), ("steps", ", in a box", None)):
        us = least(answers[name])
        if peers:
            row(what + note, us, "us", least(answers["numpy " + name]), "NumPy, batched", aim)
        else:
            row(what + note, us, "us")
    both, whole = least(answers["bare"]) + least(answers["sampler"]), least(answers["round"])
    row("certified round on 200 coordinates, the same size", whole, "us", both, "its solver and sampler alone", times=1.3)
    # Cubic Newton without noise until the gradient is below 1e-9: 142 clients, intercept, l2 = 0.001.
    data = os.environ.get("TACIT_DATA", "")
    for name, features, positive, each in (("w8a", 300, 1, 350), ("a9a", 123, 1, 229), ("phishing", 68, 1, 77)):
        found = [f for f in (os.path.join(data, name, n) for n in (name + ".bz2", name)) if data and os.path.exists(f)]
        if not found:
            missing(f"{name} is not in TACIT_DATA: no Newton steps on it")
            continue
        theirs = [peers.ask(f"newton {found[0]} {features} {positive} {142 * each}") for _ in range(max(1, TURNS // 2))] if peers else []
        for threads in (1, 2):
            request = f"newton {found[0]} {features} {positive} 142 {each} {NEWTON_CUBIC} {threads}"
            tried = [ours.ask(request) for _ in range(TURNS)]
            best = min(tried, key=lambda a: a["min_us"])
            row(f"Newton to 1e-9, {name}, 142 clients x {each}, {threads} thread{'s'[:threads - 1]}", best["min_us"] / 1e3, "ms",
                note="%d rounds to %.1e, %.0f ms for reading, %.2f MB a client" % (
                    best["rounds"], best["norms"][-1], min(a["read_ms"] for a in tried), best["bytes"] / 1e6))
            if threads == 1 and theirs and "ms" in theirs[0]:
                row(f"the same, and scikit-learn's newton-cholesky, {name}, all rows at once", best["min_us"] / 1e3, "ms",
                    min(a["ms"] for a in theirs), "scikit-learn", note="%d steps to %.1e" % (theirs[0]["steps"], theirs[0]["norm"]))
        if theirs and "missing" in theirs[0]:
            missing(f"no comparison with scikit-learn (scripts/setup bench): {theirs[0]['missing']}")
    ours.close()
    if peers:
        peers.close()


def google(program, **environment):
    out = subprocess.run([os.path.join(PROGRAMS, program), "--benchmark_format=json"], capture_output=True, text=True,
                         env={**os.environ, **environment}, check=True).stdout
    return {re.split("/(?:min_time|repeats):", b["run_name"])[0]: b for b in json.loads(out)["benchmarks"]
            if b.get("aggregate_name") == "min"}


def ef21():
    """A round of EF21 beside NumPy; Top-K of 10^6 numbers beside one read of them; whole messages."""
    mnist = mnist_folder()
    if mnist == "-":
        missing("mnist is not in TACIT_DATA: rounds of EF21 on generated rows with as many zeros")
    images = glob.glob(os.path.join(mnist, "*train-images*"))
    ours = Program(os.path.join(PROGRAMS, "ef21_bench"), *images[:1])
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "ef21_peers.py"), mnist) if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison of rounds of EF21")
    answers = {}
    for _ in range(TURNS):
        for kind in ("plain", "noisy"):
            answers.setdefault(kind, []).append(ours.ask(f"{kind} {SECONDS}"))
            for width in ("float64", "float32") if peers else ():
                answers.setdefault((kind, width), []).append(peers.ask(f"{kind} {width} {SECONDS}"))
    ours.close()
    for kind in ("plain", "noisy"):
        ms = least(answers[kind]) / 1e3
        what = f"EF21 round, MLP, 10 x 64, Top-1 %, {'lattice noise' if kind == 'noisy' else 'no noise'}"
        row(what, ms, "ms")
        for width in ("float64", "float32") if peers else ():
            row(what, ms, "ms", least(answers[kind, width]) / 1e3, f"NumPy, {width}",
                4.5 if kind == "plain" and width == "float64" else None, "ours computes in double precision")
    if peers:
        peers.close()
    found = google("compress_bench")
    us = {name: b["cpu_time"] for name, b in found.items()}
    for kind in ("float", "double"):
        read = us[f"read/{kind}"]
        row(f"one read of 10^6 {kind}s", read, "us")
        for k in (1000, 10000, 100000, 400000):
            for how in ("warm", "cold"):
                time = us[f"top/{kind}/{k}/{how}"]
                limit = 3 * read if kind == "float" and k == 10000 and how == "warm" else None
                row(f"Top-{k} of 10^6 {kind}s, {how}", time, "us", aim=limit, note=f"{time / read:.2f} reads")
        row(f"Top-10000 of 10^6 {kind}s, warm", us[f"top/{kind}/10000/warm"], "us", us[f"nth_element/{kind}/10000"],
            "std::nth_element")
    for name, b in found.items():
        if name.startswith("compress/"):
            row(f"{name.split('/', 1)[1]} of 10^6 doubles to {b['bytes']:.0f} bytes", b["cpu_time"], "us")
            row("the same, read and added", us["decode/" + name.split("/", 1)[1]], "us")


def noise():
    found = google("noise_bench")
    each = {name: b["each"] * 1e9 for name, b in found.items()}
    kernels = [k for k in ("avx512", "avx2") if f"lattice/{k}/c=2^30" in each]
    for kernel in kernels[:1]:
        row(f"Gaussian noise, float ({kernel})", each[f"float/{kernel}"], "ns", aim=2.5)
        row(f"Gaussian noise, lattice ({kernel})", each[f"lattice/{kernel}/c=2^30"], "ns", aim=3)
    row("Gaussian noise, lattice (scalar)", each["lattice/scalar/c=2^30"], "ns", aim=6)
    worst = max((t, n) for n, t in each.items() if n.startswith("discrete/"))
    row("Gaussian noise, discrete (slowest sigma)", worst[0], "ns", aim=35, note=worst[1])
    row("std::normal_distribution, not cryptographic", each["std_normal_distribution_mt19937_64"], "ns",
        note="what a user of the standard library has")


def networks():
    torch = has("torch")
    if not torch:
        missing("PyTorch is not installed (scripts/setup bench): no comparison of networks")
    ours, theirs = {}, {}
    for _ in range(max(2, TURNS // 2)):
        for name, b in google("network_bench").items():
            ours[name] = min(ours.get(name, 1e99), b["cpu_time"])
        if torch:
            out = subprocess.run([PYTHON, os.path.join(ROOT, "bench", "network_torch.py")], capture_output=True, text=True,
                                 check=True).stdout
            for line in out.splitlines():
                name, us = line.split()[:2]
                theirs[name] = min(theirs.get(name, 1e99), float(us))
    for name, us in ours.items():
        label = name.replace("_", " ").replace("/", ", batch ")
        if name in theirs:
            row(label, us, "us", theirs[name], "PyTorch", 1.0 if name.startswith("mlp") else None, "ours clips each record")
        else:
            row(label, us, "us")


FEDERATED = """
[privacy]
epsilon = 8
delta = 1e-5
unit = "client"
trust = "central"
clip = 1
[algorithm]
name = "dp-fedavg"
[experiment]
trace_every = 1000000
output = "{output}"
"""
MLP = """
[data]
source = "{source}"
clients = 1000
{scale}
[model]
name = "mlp"
hidden = [200]
classes = 10
""" + FEDERATED
CNN = """
[data]
source = "{source}"
clients = 1000
[model]
name = "cnn"
filters = {filters}
hidden = {hidden}
classes = 10
""" + FEDERATED
LINEAR = """
[data]
source = "synthetic-fedexp"
rows = {clients}
features = 500
clients = {clients}
[model]
name = "least-squares"
""" + FEDERATED


def trained(config, rounds, verb="train", **sets):
    """Processor time in seconds and largest memory in MiB of `tacit train` on one thread, or of another verb."""
    file = os.path.join(BUILD, "federated.toml")
    with open(file, "w") as out:
        out.write(config)
    options = [f"--set={k.replace('__', '.')}={v}" for k, v in {"algorithm__rounds": rounds, **sets}.items()]
    quiet = ["--quiet", "--threads", "1"] if verb == "train" else []
    process = subprocess.Popen([TACIT, verb, file, *quiet, *options], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench: tacit {verb} {file} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def round_ms(config, few, many, **sets):
    """Of one round: two runs of different length, so that reading and planning cancel."""
    return min((trained(config, many, **sets)[0] - trained(config, few, **sets)[0]) / (many - few) * 1e3 for _ in range(max(1, TURNS // 2)))


def federated():
    """Whole rounds of DP-FedAvg by `tacit train`: ledger, checkpoints and all."""
    mnist = mnist_folder()
    output = os.path.join(BUILD, "runs")
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "federated_peers.py"), mnist) if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison of federated rounds")

    def compare(what, measure, contestants):
        times = {}
        for _ in range(max(1, TURNS // 2)):      # in turns
            times.setdefault("ours", []).append(measure())
            for name, rounds, label, _ in contestants if peers else ():
                if times.get(label) != [None]:
                    answer = peers.ask(f"{name} {rounds}")
                    if "missing" in answer:
                        missing(f"{label} is not installed (scripts/setup bench): {answer['missing']}")
                    times.setdefault(label, []).append(answer.get("ms"))
        ours = min(times["ours"])
        row(what, ours, "ms")
        for _, _, label, aim in contestants:
            if times.get(label, [None]) != [None]:
                row(what, ours, "ms", min(times[label]), label, aim)

    one_pass = {"algorithm__batch": 10, "algorithm__local_rate": 0.1}
    if mnist != "-":
        mlp = MLP.format(source="mnist", scale="", output=output)
        compare("DP-FedAvg round, MLP 784-200-10, 1000 x 60", lambda: round_ms(mlp, 1, 4, **one_pass),
                [("torch mlp", 1, "PyTorch loop", 8), ("pfl mlp", 2, "pfl-research", 12), ("flower mlp", 1, "Flower, in process", 28)])
        for name, filters, hidden in (("5,046", [4, 8], [32]), ("237", [2, 1], [])):
            cnn = CNN.format(source="mnist", filters=filters, hidden=hidden, output=output)
            key = "cnn" + name.replace(",", "")
            compare(f"DP-FedAvg round, CNN of {name}, 1000 x 60", lambda: round_ms(cnn, 1, 11, **one_pass),
                    [(f"torch {key}", 1, "PyTorch loop", None), (f"pfl {key}", 1, "pfl-research", 10)])
    else:
        missing("mnist is not in TACIT_DATA: no round on digits")
    linear = LINEAR.format(clients=1000, output=output)
    steps = {"algorithm__local_steps": 20, "algorithm__local_rate": 0.001}
    compare("DP-FedAvg round, linear, 1000 x 20 steps, d = 500", lambda: round_ms(linear, 10, 510, **steps),
            [("numpy", 50, "NumPy, batched", 5), ("loop", 10, "NumPy, a loop", 20)])
    for clients in (10_000, 100_000):
        row(f"linear, d = 500, {clients:,} clients, memory of 1 round", trained(LINEAR.format(clients=clients, output=output), 1, **steps)[1], "MiB",
            note="rows alone: %.0f MiB" % (clients * 500 * 8 / 2**20))
        row("memory of 5 rounds", trained(LINEAR.format(clients=clients, output=output), 5, **steps)[1], "MiB")
    if peers:
        peers.close()


def scale():
    """A million clients in one process, of which a cohort takes part in a round; their rows are made when they are read."""
    config = """
[data]
source = "synthetic-logistic"
rows = 1000000
features = {features}
clients = 1000000
store = "nowhere"
[model]
name = "logistic"
""" + FEDERATED
    for features, cohort in ((100, 1000), (100, 500), (50, 1000), (100, 4000)):
        file = config.format(features=features, output=os.path.join(BUILD, "runs"))
        sets = {"algorithm__sampling": "fixed", "algorithm__sample_clients": cohort, "algorithm__local_steps": 20,
                "algorithm__local_rate": 0.1, "privacy__delta": 1e-8}
        # 1,010 rounds less 10, and less what planning them takes: fixed samples of a million make it uneven
        least = {(verb, n): min(trained(file, n, verb, **sets)[0] for _ in range(max(1, TURNS // 2)))
                 for verb in ("train", "plan") for n in (10, 1010)}
        ms = least["train", 1010] - least["train", 10] - least["plan", 1010] + least["plan", 10]      # seconds of 1,000 rounds
        row(f"DP-FedAvg round, 1,000,000 clients, cohort {cohort:,} x 20 steps, d = {features}", ms, "ms",
            note="%.0f ns for a client and parameter; %.0f MiB" % (ms * 1e6 / (cohort * features), trained(file, 10, **sets)[1]))


def mpi():
    """One process and two, each of one thread, on rounds that are all computation; by the clock on the wall."""
    if not os.path.exists(os.path.join(BUILD, "apps", "cli", "tacit-mpi.so")):
        return missing("the build has no MPI (scripts/setup bench): no comparison of processes")
    file = os.path.join(BUILD, "mpi.toml")
    with open(file, "w") as out:
        out.write(LINEAR.format(clients=2000, output=os.path.join(BUILD, "runs")))
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def seconds(ranks):
        sets = ["--set=algorithm.rounds=200", "--set=algorithm.local_steps=20", "--set=algorithm.local_rate=0.001", "--set=privacy.noise=replayable"]
        command = [TACIT, "train", file, "--threads", "1", "--json", *sets]
        if ranks > 1:
            command = ["mpirun", "-n", str(ranks), "--bind-to", "none", *command]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(command)} failed: {done.stderr}")
        found = json.loads(done.stdout)
        return found["seconds"], found["model_sha256"]

    one, two = [], []
    for _ in range(TURNS):
        one.append(seconds(1))
        two.append(seconds(2))
    if len({model for _, model in one + two}) != 1:
        raise SystemExit("bench: the models of one process and of two differ")
    row("200 rounds, 2000 clients x 20 steps, d = 500, two ranks", min(t for t, _ in two), "s", min(t for t, _ in one), "one process", 1.8)


def accountants():
    """ε of sampled rounds: q = 0.01, noise multiplier 1, δ = 1e-5."""
    out = subprocess.run([os.path.join(PROGRAMS, "account_bench"), "--benchmark_format=json", "--benchmark_filter=^Certify/",
                          f"--benchmark_repetitions={TURNS}"], capture_output=True, text=True, check=True).stdout
    ours = {}
    for b in json.loads(out)["benchmarks"]:
        if b.get("run_type") == "iteration" and not b.get("error_occurred"):
            found = re.fullmatch(r"Certify/(\d+)(?:/.*)?", b["run_name"])
            if found:
                assert b["time_unit"] == "ms"
                best = ours.setdefault(int(found[1]), {"cpu_ms": 1e99, "wall_ms": 1e99, "width": b["width"]})
                best["cpu_ms"] = min(best["cpu_ms"], b["cpu_time"])
                best["wall_ms"] = min(best["wall_ms"], b["real_time"])
    peers = None
    if has("dp_accounting") or has("prv_accountant"):
        peers = Program(PYTHON, os.path.join(ROOT, "bench", "account_peers.py"))
        peers.ask("pld 10")                      # what is made once
    else:
        missing("neither dp-accounting nor prv-accountant is installed (scripts/setup bench): no comparison of accountants")
    part["accountants"] = []
    # The true values: contour integrals in 32 digits (tests/accounting/precise.py, tests/golden/accounting.json).
    for rounds, truth in ((1000, 1.8282366665165768), (10000, 6.187712389971539), (100000, 25.573106986521504)):
        mine = ours[rounds]
        part["accountants"].append({"who": "Tacit", "rounds": rounds, "off": mine["width"], **mine})
        what = f"account, {rounds:,} sampled rounds"
        for name, label, aim in (("pld", "dp-accounting, PLD", 200), ("prv", "prv-accountant", 50)) if peers else ():
            answers = [peers.ask(f"{name} {rounds}") for _ in range(1 if name == "prv" and rounds > 10000 else 3)]
            if "missing" in answers[0]:
                missing(f"{label.split(',')[0]} is not installed (scripts/setup bench)")
                continue
            width = (answers[0]["upper"] - answers[0]["lower"] if name == "prv" else
                     answers[0]["epsilon"] - peers.ask(f"pld_optimistic {rounds}")["epsilon"])
            cpu, wall = (min(a[k] for a in answers) for k in ("cpu_ms", "wall_ms"))
            part["accountants"].append({"who": label, "rounds": rounds, "cpu_ms": cpu, "wall_ms": wall, "width": width,
                                           "epsilon": answers[0]["epsilon"], "off": answers[0]["epsilon"] - truth})
            row(what, mine["cpu_ms"], "ms", cpu, label, aim, f"widths {mine['width']:.1e} and {width:.1e}")
        row(what + ", alone", mine["cpu_ms"], "ms", aim=5)
    if peers:
        peers.close()
    print("accountants: rounds, processor and wall time in ms, width of what is proved of epsilon, distance of its value from the truth")
    for a in part["accountants"]:
        at_most = "<=" if a["who"] == "Tacit" else ""
        print(f"  {a['who']:<20} {a['rounds']:>7} {a['cpu_ms']:>10.4g} {a['wall_ms']:>10.4g} {a['width']:>10.1e} {at_most:>4}{a['off']:.1e}")


def start_up():
    """What a user waits for: `tacit plan` from its start to its end."""
    best = 1e99
    for _ in range(10 * TURNS):
        process = subprocess.Popen([TACIT, "plan", os.path.join(ROOT, "experiments", "demo.toml")], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit("bench: tacit plan experiments/demo.toml failed")
        best = min(best, used.ru_utime + used.ru_stime)
    row("tacit plan, from start to end", best * 1e3, "ms", aim=20)


def number(v):
    return f"{v:,.0f}" if v >= 1e4 else f"{v:.4g}"


def cells(r):
    """what, ours, peer, its time, ratio, aim, met"""
    unit = r["unit"].replace("us", "µs")
    aim = ratio = ""
    if r["times"]:
        aim, ratio = f"<= {r['times']:g} x", f"{1 / r['ratio']:.2f} of it"
    elif r["ratio"]:
        aim, ratio = "" if r["aim"] is None else f">= {r['aim']:g} x", f"{r['ratio']:.2f} x"
    elif r["aim"] is not None:
        aim = f"<= {r['aim']:.4g} {unit}"
    return (r["what"], f"{number(r['ours'])} {unit}", r["peer"] or "", f"{number(r['peer_time'])} {unit}" if r["peer_time"] else "", ratio, aim,
            "" if r["met"] is None else "met" if r["met"] else "MISSED")


HEAD = ("what", "ours", "peer", "its time", "ratio", "aim", "")


def table(rows):
    lines = [HEAD] + [cells(r) for r in rows]
    width = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    for line in lines:
        print("  ".join(line[k].ljust(width[k]) for k in range(len(HEAD))).rstrip())


def plot(results, file):
    """Bars of the ratios that have an aim, and the aims as marks."""
    if shutil.which("gnuplot") is None:
        print("bench: gnuplot is not installed, so there is no picture", file=sys.stderr)
        return False
    rows = [r for p in results["parts"].values() for r in p["rows"] if r["ratio"] and r["aim"]][::-1]
    if not rows:
        return False
    lines = ["%d %.6g %.6g" % (k, r["ratio"], r["aim"]) for k, r in enumerate(rows)]
    names = ", ".join('"%s   " %d' % (f"{r['what']}  /  {r['peer']}".replace('"', "").replace("%", "%%"), k) for k, r in enumerate(rows))
    script = f"""
set terminal svg size 960,{90 + 22 * len(rows)} font "sans,12" background "white"
set output "{file}"
set title "The peer's time over ours, and the aim as a mark"
set logscale x
set xrange [{min([1] + [0.8 * r['ratio'] for r in rows]):g}:{1.3 * max(max(r['ratio'], r['aim']) for r in rows):g}]
set yrange [-0.7:{len(rows) - 0.3}]
set ytics ({names})
set ytics nomirror scale 0
set xtics nomirror
set grid xtics
set border 1
set lmargin 62
unset key
$data << END
{chr(10).join(lines)}
END
plot $data using (1):1:(1):2:($1-0.32):($1+0.32) with boxxyerror fillstyle solid 0.8 noborder linecolor rgb "#4477aa", \
     $data using 3:($1-0.42):(0):(0.84) with vectors nohead linewidth 2.5 linecolor rgb "#cc3311"
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    return True


def markdown(results):
    """docs/performance.md between its marks, and its picture."""
    page = os.path.join(ROOT, "docs", "performance.md")
    begin, end = "<!-- measured: bench/run.py --markdown -->\n", "<!-- /measured -->"
    lines = []
    for name, p in results["parts"].items():
        peers = ", ".join(f"{k} {v}" for k, v in p["peers"].items() if v) or "none"
        lines += [f"### {name}", "", f"`bench/run.py {name}`, {p['date']}, commit {p['commit']}: {p['processor']}, {p['cores']} cores, load average {p['load']:.1f}; "
                  f"{p['compiler']}; peers: {peers}.", ""]
        lines += ["| what | ours | peer | its time | ratio | aim | |", "|---|---|---|---|---|---|---|"]
        for r in p["rows"]:
            line = list(cells(r))
            if r["note"]:
                line[0] += f" ({r['note']})"
            lines.append("| " + " | ".join(c.replace("<=", "≤").replace(">=", "≥").replace(" x", " ×").replace("10^6", "10⁶")
                                         .replace("|", "/") for c in line) + " |")
        lines += [""] + [f"* {m}" for m in p["missing"]] + ([""] if p["missing"] else [])
    with open(page) as file:
        text = file.read()
    before, rest = text.split(begin)
    with open(page, "w") as file:
        file.write(before + begin + "\n" + "\n".join(lines) + end + rest.split(end)[1])
    plot(results, os.path.join(ROOT, "docs", "img", "performance.svg"))
    print("docs/performance.md is filled from build/bench/results.json")


PARTS = {"primal-dual": primal_dual, "federated": federated, "nfl": nfl, "ef21": ef21, "fcrn": fcrn, "networks": networks,
         "scale": scale, "mpi": mpi, "accountants": accountants, "noise": noise, "start-up": start_up}


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())


def compiler():
    with open(os.path.join(BUILD, "CMakeCache.txt")) as file:
        command = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", file.read(), re.M)[1]
    return subprocess.run([command, "--version"], capture_output=True, text=True).stdout.splitlines()[0]


def commit():
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else "unknown"


def stored():
    if not os.path.exists(RESULTS):
        return {"parts": {}}
    with open(RESULTS) as file:
        return {"parts": json.load(file).get("parts", {})}


def main():
    global part
    results = stored()
    wanted = sys.argv[1:]
    if wanted == ["--markdown"]:
        return markdown(results)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise SystemExit(f"bench: {unknown[0]} is not a part; choose from {', '.join(PARTS)}, or --markdown")
    peers = {m: has(m) for m in ("numpy", "scipy", "sklearn", "torch", "pfl", "flwr", "dp_accounting", "prv_accountant")}
    measured = []
    for name, run in PARTS.items():
        if wanted and name not in wanted:
            continue
        load = os.getloadavg()[0]
        part = {"date": datetime.date.today().isoformat(), "commit": commit(), "processor": processor(), "cores": os.cpu_count(), "load": load,
                "compiler": compiler(), "peers": peers, "rows": [], "missing": []}
        if load > os.cpu_count() - 0.5:      # 1 of it may be this program's own
            missing(f"the load average was {load:.1f}: two threads cannot be measured beside other work, and single figures are "
                    "high; ratios were taken in turns")
        run()
        part["load"] = max(load, os.getloadavg()[0])
        measured += part["rows"]
        results = stored()      # another run may have measured other parts meanwhile
        results["parts"][name] = part
        with open(RESULTS, "w") as out:
            json.dump({"parts": {k: results["parts"][k] for k in PARTS if k in results["parts"]}}, out, indent=1)
            out.write("\n")
    print(f"{processor()}, {os.cpu_count()} cores; peers: " + (", ".join(f"{k} {v}" for k, v in peers.items() if v) or "none"))
    table(measured)
    drawn = plot(results, os.path.join(BUILD, "ratios.svg"))
    print("written to build/bench/results.json" + (" and build/bench/ratios.svg" if drawn else ""))


if __name__ == "__main__":
    main()
