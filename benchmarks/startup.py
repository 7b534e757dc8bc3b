"""CPU time of ``ke --help`` and ``ke plugins`` with plugins installed, compared with importing click, rich and pluggy.

    python benchmarks/startup.py --profile

Each command runs in a fresh process, repeatedly and in turn, and the fastest run counts. Times are CPU times of these
processes, so that other work on the machine has little effect. Modules are compiled beforehand into a temporary folder,
as pip does at installation. KE_DISABLE_PLUGINS disables the plugins beyond ``--plugins``; a second measurement uses all
installed plugins.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import entry_points

LIBRARIES = ("-c", "import click, rich.console, rich.table, pluggy")
DISABLE = "KE_DISABLE_PLUGINS"
COMMANDS = ("--help", "plugins")
SHOWN = 12
IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def seconds(words: Sequence[str], disabled: str) -> float:
    """Return the CPU seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, DISABLE: disabled}
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603  our own words
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imports(words: Sequence[str]) -> Counter[str]:
    """Return the import time of each package in milliseconds, without its imports, in one process."""
    command = [sys.executable, "-X", "importtime", *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr  # noqa: S603  our own words
    found: Counter[str] = Counter()
    for micro, module in IMPORTED.findall(told):
        found[module.partition(".")[0]] += int(micro) / 1e3  # type: ignore[assignment]  # a count of milliseconds
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--plugins", type=int, default=25)
    parser.add_argument("--profile", action="store_true", help="print the packages with the longest import times")
    given = parser.parse_args()
    names = sorted(point.name for point in entry_points(group="ke") if point.name != "ke-core")
    fewer = ",".join(names[given.plugins :])
    ways: dict[str, tuple[Sequence[str], str]] = {"import click, rich, pluggy": (LIBRARIES, "")}
    for count, disabled in ((min(given.plugins, len(names)), fewer), (len(names), "")):
        ways |= {f"ke {word}, {count} plugins": (("-m", "ke_core", word), disabled) for word in COMMANDS}
    with tempfile.TemporaryDirectory() as compiled:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        turns = [[seconds(*way) for way in ways.values()] for _turn in range(given.times + 1)][1:]
        slowest = imports(ways[f"ke --help, {len(names)} plugins"][0]).most_common(SHOWN) if given.profile else []
    best = [min(taken) for taken in zip(*turns, strict=True)]
    print(f"CPU seconds, the fastest of {given.times}")
    for name, taken in zip(ways, best, strict=True):
        print(f"{name:28} {taken:.3f} s, {taken - best[0]:+.3f} s")
    if slowest:
        print("import time of ke --help in ms, by package: ", end="")
        print(", ".join(f"{package} {count:.0f}" for package, count in slowest))


if __name__ == "__main__":
    main()
