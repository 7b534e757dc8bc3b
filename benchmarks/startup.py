"""What ``ke --help`` and ``ke plugins`` take with every plugin installed, beside importing click, rich and pluggy.

    python benchmarks/startup.py

Each is a process of its own, started again and again in turn; the quickest of each counts. Times are CPU times of those
processes, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import entry_points

WAYS = {
    "import click, rich, pluggy": ("-c", "import click, rich.console, rich.table, pluggy"),
    "ke --help": ("-m", "ke_core", "--help"),
    "ke plugins": ("-m", "ke_core", "plugins"),
}


def seconds(arguments: tuple[str, ...]) -> float:
    """CPU seconds of one process."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)  # noqa: S603  our own words
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=7)
    turns = parser.parse_args().times
    found = {name: [seconds(way) for way in WAYS.values()] for name in map(str, range(turns))}
    best = [min(turn[at] for turn in found.values()) for at in range(len(WAYS))]
    print(f"{len(list(entry_points(group='ke')))} plugins, the quickest of {turns}")
    for name, taken in zip(WAYS, best, strict=True):
        print(f"{name:28} {taken:.3f} s, {taken - best[0]:+.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
