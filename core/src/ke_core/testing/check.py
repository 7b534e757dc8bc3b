"""The contract of one installed component, run as a program: ``python -m ke_core.testing.check KIND NAME OPTIONS``.

``ke plugins check`` calls it. OPTIONS are a JSON object of what follows ``-o NAME.``. Standard output is JSON, a line
for each promise (``ke_core.plugins.promises.Kept``), after a first line with their number; what tests print goes
elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import IO, Any

import pytest
from attrs import define, field

from ke_core.plugins.catalog import read
from ke_core.plugins.manager import discover
from ke_core.specs import EditorSpec, MetricSpec
from ke_core.testing.advice import advice_for, in_words

SOURCE = '''"""Written by ke plugins check."""

{imports}


class TestContract({base}):
    """Of the {kind} {name}."""

    name = {name!r}
    options = {options!r}
{more}
'''
SHOWN = 300  # characters of what was found


def contract_of(kind: str, spec: Any, config: Any) -> tuple[str, str, str]:
    """Where the contract stands, its name, and what is set for a component that nobody has settings for."""
    if kind == "editor":
        assert isinstance(spec, EditorSpec)
        if spec.needs_weights:
            return "ke_core.testing.weights", "WeightEditorContract", "    ranked = False\n"
        return "ke_core.testing.editor", "EditorContract", ""
    if kind == "metric":
        assert isinstance(spec, MetricSpec)
        whole = not hasattr(spec.build(config), "values")
        return ("ke_core.testing.contract", "ComponentContract", "    kind = 'metric'\n") if whole else (
            "ke_core.testing.metric", "MetricContract", "",
        )  # fmt: skip
    if kind == "judge" and (spec.needs_model or spec.scored):
        return "ke_core.testing.contract", "ComponentContract", "    kind = 'judge'\n"
    return {
        "dataset": ("ke_core.testing.dataset", "DatasetContract", ""),
        "judge": ("ke_core.testing.judge", "JudgeContract", ""),
    }.get(kind, ("ke_core.testing.contract", "ComponentContract", f"    kind = {kind!r}\n"))


@define
class Teller:
    """A pytest plugin that tells each promise as soon as it was tried. ``own``: the folder of the plugin's code."""

    to: IO[str]
    own: Path
    _told: set[str] = field(factory=set, init=False)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """First, how many there are."""
        self._tell({"promises": len(session.items)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Kept or broken once it was called; broken or untried where it could not be."""
        report = yield
        if report.when == "call" or not report.passed:
            if item.nodeid not in self._told:
                self._tell(self._line(item, call, report))
            self._told.add(item.nodeid)
        return report

    def _line(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> dict[str, str]:
        promise = in_words(item.name)
        if report.passed:
            return {"promise": promise, "outcome": "kept"}
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            return {"promise": promise, "outcome": "untried", "found": reason.removeprefix("Skipped: ")}
        assert call.excinfo is not None
        found = " ".join(call.excinfo.exconly().split())
        return {
            "promise": promise,
            "outcome": "broken",
            "found": found if len(found) <= SHOWN else f"{found[:SHOWN]}...",
            "where": self._where(call.excinfo),
            "do": advice_for(item.name),
        }

    def _where(self, error: pytest.ExceptionInfo[BaseException]) -> str:
        """The last line of the plugin's own code that the error came through."""
        for entry in reversed(error.traceback):
            path = Path(entry.path).resolve()
            if self.own in path.parents:
                return f"{path.relative_to(self.own.parent).as_posix()}:{entry.lineno + 1}"
        return ""

    def _tell(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self.to, flush=True)


def main(kind: str, name: str, options: dict[str, str]) -> int:
    """Run the contract; 0 if it could be run, whatever it found."""
    to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what tests and libraries print must not get between the lines
    from ke_core.plugins.options import configure

    offer = read(discover()).offer(kind, name)
    spec = offer.spec
    module, base, more = contract_of(kind, spec, configure(spec, options))
    source = SOURCE.format(
        imports=f"from {module} import {base}", base=base, kind=kind, name=name, options=options, more=more
    )
    package = sys.modules[offer.plugin.module.partition(":")[0]]
    own = Path(package.__file__ or ".").resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_contract.py"
        path.write_text(source, encoding="utf-8")
        flags = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "--rootdir", folder, "-c", os.devnull]
        with warnings.catch_warnings():
            status = pytest.main([*flags, str(path)], plugins=[Teller(to, own)])
    to.close()
    ran = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 0 if status in ran else int(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
