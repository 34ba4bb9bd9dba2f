#!/usr/bin/env python3
"""make bench: measures the hot paths beside their peers, prints ratios and writes build/bench/results.json.

Contestants of a comparison run in turns, several times, and the least time of each counts: on a shared machine
that is the figure least disturbed. One thread is timed by processor time, two threads by the clock on the wall."""
import json
import os
import platform
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "bench")
PROGRAMS = os.path.join(BUILD, "bench")
PYTHON = os.path.join(ROOT, ".venv", "bin", "python")
TURNS = int(os.environ.get("TACIT_BENCH_TURNS", "5"))
SECONDS = float(os.environ.get("TACIT_BENCH_SECONDS", "1"))

results = {"machine": platform.machine(), "processor": "", "cores": os.cpu_count(), "load": os.getloadavg()[0], "peers": {}, "rows": [],
           "missing": []}
for line in open("/proc/cpuinfo"):
    if line.startswith("model name"):
        results["processor"] = line.split(":", 1)[1].strip()
        break


def has(module):
    """Its version, or None."""
    if not os.path.exists(PYTHON):
        return None
    say = f"getattr({module}, '__version__', None) or importlib.metadata.version('{module}')"
    found = subprocess.run([PYTHON, "-c", f"import importlib.metadata, {module}; print({say})"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def missing(what):
    results["missing"].append(what)
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


def row(what, ours, unit, peer=None, peer_name="", target=None, note=""):
    """ours and peer are times; target: the least peer/ours, or with no peer the most that ours may be."""
    ratio = peer / ours if peer else None
    met = None if target is None else (ratio >= target if peer else ours <= target)
    results["rows"].append({"what": what, "ours": ours, "unit": unit, "peer": peer_name or None, "peer_time": peer,
                            "ratio": ratio, "target": target, "met": met, "note": note})


def least(answers):
    return min(a["min_us"] for a in answers)


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
        row(what, us, "us", least(answers["numpy"]), "NumPy, batched", 4.5)
    if answers["scipy"]:
        row(what, us, "us", least(answers["scipy"]), "SciPy, sparse", 1.6)
    row(what, us, "us", least(answers["floor"]), "floor kernel", None, "no clipping, no noise, no ledger")
    row("the same, 2 threads", least(answers["two"]), "us", least(answers["one"]), "1 thread", 1.8, "by the clock")


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
    for name, note, target in (("plane", "", 10), ("steps", ", in a box", None)):
        us = least(answers[name])
        if peers:
            row(what + note, us, "us", least(answers["numpy " + name]), "NumPy, batched", target)
        else:
            row(what + note, us, "us")
    both, whole = least(answers["bare"]) + least(answers["sampler"]), least(answers["round"])
    row("certified round on 200 coordinates, the same size", whole, "us", target=1.3 * both,
        note=f"{whole / both:.2f} of solver and sampler alone")
    # Cubic Newton without noise until the gradient is below 1e-9: 142 clients, intercept, l2 = 0.001.
    data = os.environ.get("TACIT_DATA", "")
    for name, features, positive, each in (("w8a", 300, 1, 350), ("a9a", 123, 1, 229), ("phishing", 68, 1, 77)):
        found = [f for f in (os.path.join(data, name, n) for n in (name + ".bz2", name)) if data and os.path.exists(f)]
        if not found:
            missing(f"{name} is not in TACIT_DATA: no Newton steps on it")
            continue
        for threads in (1, 2):
            request = f"newton {found[0]} {features} {positive} 142 {each} {NEWTON_CUBIC} {threads}"
            tried = [ours.ask(request) for _ in range(TURNS)]
            best = min(tried, key=lambda a: a["min_us"])
            row(f"Newton to 1e-9, {name}, 142 clients x {each}, {threads} thread{'s'[:threads - 1]}", best["min_us"] / 1e3, "ms",
                note="%d rounds to %.1e, %.0f ms for reading, %.2f MB a client" % (
                    best["rounds"], best["norms"][-1], min(a["read_ms"] for a in tried), best["bytes"] / 1e6))
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
    ours = Program(os.path.join(PROGRAMS, "ef21_bench"))
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "ef21_peers.py")) if has("numpy") else None
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
                4.4 if kind == "plain" and width == "float64" else None, "ours computes in double precision")
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
                row(f"Top-{k} of 10^6 {kind}s, {how}", time, "us", target=limit, note=f"{time / read:.2f} reads")
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
        row(f"Gaussian noise, float ({kernel})", each[f"float/{kernel}"], "ns", target=3)
        row(f"Gaussian noise, lattice ({kernel})", each[f"lattice/{kernel}/c=2^30"], "ns", target=4)
    row("Gaussian noise, lattice (scalar)", each["lattice/scalar/c=2^30"], "ns", target=6)
    worst = max((t, n) for n, t in each.items() if n.startswith("discrete/"))
    row("Gaussian noise, discrete (slowest sigma)", worst[0], "ns", target=40, note=worst[1])
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
LINEAR = """
[data]
source = "synthetic-fedexp"
rows = {clients}
features = 500
clients = {clients}
[model]
name = "least-squares"
""" + FEDERATED


def trained(config, rounds, **sets):
    """Processor time in seconds and largest memory in MiB of `tacit train` on one thread."""
    file = os.path.join(BUILD, "federated.toml")
    with open(file, "w") as out:
        out.write(config)
    options = [f"--set={k.replace('__', '.')}={v}" for k, v in {"algorithm__rounds": rounds, **sets}.items()]
    process = subprocess.Popen([os.path.join(BUILD, "apps", "cli", "tacit"), "train", file, "--quiet", "--threads", "1", *options],
                               stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"bench: tacit train {file} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def round_ms(config, few, many, **sets):
    """Of one round: two runs of different length, so that reading and planning cancel."""
    return min((trained(config, many, **sets)[0] - trained(config, few, **sets)[0]) / (many - few) * 1e3 for _ in range(max(2, TURNS // 2)))


def federated():
    """Whole rounds of DP-FedAvg by `tacit train`: ledger, checkpoints and all."""
    data = os.environ.get("TACIT_DATA", "")
    mnist = os.path.join(data, "mnist")
    here = bool(data) and os.path.isdir(mnist)
    output = os.path.join(BUILD, "runs")
    peers = Program(PYTHON, os.path.join(ROOT, "bench", "federated_peers.py"), mnist if here else "-") if has("numpy") else None
    if peers is None:
        missing("NumPy is not installed (scripts/setup bench): no comparison of federated rounds")

    def compare(what, ours, contestants):
        row(what, ours, "ms")
        for name, rounds, label, target in contestants if peers else ():
            answers = [peers.ask(f"{name} {rounds}") for _ in range(2)]
            if "missing" in answers[0]:
                missing(f"{label} is not installed (scripts/setup bench): {answers[0]['missing']}")
            else:
                row(what, ours, "ms", min(a["ms"] for a in answers), label, target)

    if here:
        mlp = MLP.format(source="mnist", scale="", output=output)
        compare("DP-FedAvg round, MLP, 1000 x 60", round_ms(mlp, 1, 4, algorithm__batch=10, algorithm__local_rate=0.1),
                [("torch", 2, "PyTorch loop", 7), ("pfl", 2, "pfl-research", 10)])
    else:
        missing("mnist is not in TACIT_DATA: no round on digits")
    linear = LINEAR.format(clients=1000, output=output)
    steps = {"algorithm__local_steps": 20, "algorithm__local_rate": 0.001}
    compare("DP-FedAvg round, linear, 1000 x 20 steps", round_ms(linear, 10, 510, **steps), [("numpy", 50, "NumPy, batched", 4.5)])
    for clients in (10_000, 100_000):
        row(f"linear, d = 500, {clients:,} clients, memory of 1 round", trained(LINEAR.format(clients=clients, output=output), 1, **steps)[1], "MiB",
            note="rows alone: %.0f MiB" % (clients * 500 * 8 / 2**20))
        row("memory of 5 rounds", trained(LINEAR.format(clients=clients, output=output), 5, **steps)[1], "MiB")
    if peers:
        peers.close()


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
    results["accountants"] = []
    # The true values: contour integrals in 32 digits (tests/accounting/precise.py, tests/golden/accounting.json).
    for rounds, truth in ((1000, 1.8282366665165768), (10000, 6.187712389971539), (100000, 25.573106986521504)):
        mine = ours[rounds]
        results["accountants"].append({"who": "Tacit", "rounds": rounds, "off": mine["width"], **mine})
        what = f"account, {rounds:,} sampled rounds"
        for name, label, target in (("pld", "dp-accounting, PLD", 100), ("prv", "prv-accountant", 50)) if peers else ():
            answers = [peers.ask(f"{name} {rounds}") for _ in range(1 if name == "prv" and rounds > 10000 else 3)]
            if "missing" in answers[0]:
                missing(f"{label.split(',')[0]} is not installed (scripts/setup bench)")
                continue
            width = (answers[0]["upper"] - answers[0]["lower"] if name == "prv" else
                     answers[0]["epsilon"] - peers.ask(f"pld_optimistic {rounds}")["epsilon"])
            cpu, wall = (min(a[k] for a in answers) for k in ("cpu_ms", "wall_ms"))
            results["accountants"].append({"who": label, "rounds": rounds, "cpu_ms": cpu, "wall_ms": wall, "width": width,
                                           "epsilon": answers[0]["epsilon"], "off": answers[0]["epsilon"] - truth})
            row(what, mine["cpu_ms"], "ms", cpu, label, target, f"widths {mine['width']:.1e} and {width:.1e}")
        row(what + ", alone", mine["cpu_ms"], "ms", target=5)
    if peers:
        peers.close()
    print("accountants: rounds, processor and wall time in ms, width of what is proved of epsilon, distance of its value from the truth")
    for a in results["accountants"]:
        at_most = "<=" if a["who"] == "Tacit" else ""
        print(f"  {a['who']:<20} {a['rounds']:>7} {a['cpu_ms']:>10.4g} {a['wall_ms']:>10.4g} {a['width']:>10.1e} {at_most:>4}{a['off']:.1e}")


def table():
    head = ("what", "ours", "peer", "its time", "ratio", "target", "")
    lines = [head]
    for r in results["rows"]:
        unit = r["unit"]
        target = "" if r["target"] is None else f">= {r['target']:g}" if r["peer"] else f"<= {r['target']:g} {unit}"
        lines.append((r["what"], f"{r['ours']:.4g} {unit}", r["peer"] or "",
                      f"{r['peer_time']:.4g} {unit}" if r["peer_time"] else "",
                      f"{r['ratio']:.2f}" if r["ratio"] else "", target,
                      "" if r["met"] is None else "met" if r["met"] else "MISSED"))
    width = [max(len(line[k]) for line in lines) for k in range(len(head))]
    for line in lines:
        print("  ".join(line[k].ljust(width[k]) for k in range(len(head))).rstrip())


if results["load"] > results["cores"] - 1:
    missing(f"the load average is {results['load']:.1f}: two threads cannot be measured beside other work, and single "
            "figures are a few per cent high")
results["peers"] = {m: has(m) for m in ("numpy", "scipy", "torch", "pfl", "dp_accounting", "prv_accountant")}
parts = {"primal-dual": primal_dual, "nfl": nfl, "fcrn": fcrn, "ef21": ef21, "noise": noise, "networks": networks, "federated": federated, "accountants": accountants}
wanted = sys.argv[1:] or list(parts)
for name, run in parts.items():
    if name in wanted:
        run()
print(f"{results['processor']}, {results['cores']} cores; peers: " +
      (", ".join(f"{k} {v}" for k, v in results["peers"].items() if v) or "none"))
table()
with open(os.path.join(BUILD, "results.json"), "w") as out:
    json.dump(results, out, indent=1)
    out.write("\n")
print("written to build/bench/results.json")
