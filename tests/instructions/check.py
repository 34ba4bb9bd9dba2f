#!/usr/bin/env python3
"""check.py PROGRAM --compiler "GNU 12.2.0" --flags "…" [--update]: counts the instructions of the functions counted_*
of tests/instructions/counted.cc under callgrind and compares them with counts.json beside this file.

A total that is off by more than 3 % in either direction fails. A change that is meant to have that effect writes the new
totals with --update and says so in its commit. Totals depend on the compiler, its flags and the C library, so a build by
others than those of the table is skipped (exit code 77), as is a machine without valgrind."""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counts.json")
TOLERANCE = 0.03
SKIP = 77


def say(text):
    print("instructions: " + text)


def counts(program):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "callgrind.out")
        # A level that valgrind has; and nothing from whoever calls.
        environment = {"TACIT_SIMD": "avx2", "LC_ALL": "C", "PATH": os.environ["PATH"]}
        run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + file, program],
                             capture_output=True, text=True, env=environment)
        if run.returncode != 0:
            sys.exit(f"instructions: {program} under valgrind ended with {run.returncode}:\n{run.stderr[-2000:]}")
        listed = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", "--auto=no", file],
                                capture_output=True, text=True, env=environment, check=True).stdout
    found = {}
    for line in listed.splitlines():
        match = re.match(r"\s*([\d,]+)\s.*:counted_(\w+)", line)
        if match:
            found[match[2]] = max(found.get(match[2], 0), int(match[1].replace(",", "")))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--update", action="store_true", help="write the totals of this build into the table")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        say("skipped: valgrind is not installed (scripts/setup dev)")
        return SKIP
    here = {"compiler": given.compiler, "flags": given.flags.strip(),
            "valgrind": subprocess.run(["valgrind", "--version"], capture_output=True, text=True).stdout.strip(),
            "libc": " ".join(platform.libc_ver())}
    with open(TABLE) as file:
        table = json.load(file)
    differs = [f"{key} is {value}, the table is for {table.get(key)}" for key, value in here.items() if table.get(key) != value]
    if differs and not given.update:
        say("skipped, for totals depend on it: " + "; ".join(differs))
        return SKIP
    found = counts(given.program)
    if given.update:
        with open(TABLE, "w") as file:
            json.dump({**here, "counts": dict(sorted(found.items()))}, file, indent=1)
            file.write("\n")
        say(f"{len(found)} totals written to {TABLE}")
        return 0
    bad = 0
    for name in sorted(set(found) | set(table["counts"])):
        was, now = table["counts"].get(name), found.get(name)
        if was is None or now is None:
            bad += 1
            say(f"{name}: " + ("not in the table" if was is None else "not counted any more"))
            continue
        off = now / was - 1
        bad += abs(off) > TOLERANCE
        say(f"{name:<20} {now:>13,}  {100 * off:+.2f} %" + (f"  (the table: {was:,})" if abs(off) > TOLERANCE else ""))
    if bad:
        say(f"{bad} of these differ by more than {100 * TOLERANCE:g} %. If that is meant, run this command again with --update, "
            f"commit {os.path.relpath(TABLE)} with the change, and say in the message what became faster or slower:\n  "
            + " ".join(f"'{a}'" if " " in a or not a else a for a in sys.argv) + " --update")
        return 1
    return 0


sys.exit(main())
