"""Run the contract of one installed component as a program: ``python -m ke_testing.check KIND NAME OPTIONS``.

``ke plugins check`` starts this program. OPTIONS is a JSON object with the component's options. The first line of
standard output is the number of checks, and each further line is one ``ke_testing.checks.CheckResult`` as JSON. Output
of tests goes to standard error.
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
from attrs import asdict, define, field

from ke_core.app import installed_catalog
from ke_core.plugin import loads
from ke_testing.advice import advice_for, readable_name
from ke_testing.checks import CheckResult
from ke_testing.trial import contract_of, line_in

SOURCE = '''"""Written by ke plugins check."""

from ke_testing.examples import MATERIAL
from {module} import {base}


class TestContract({base}):
    """Contract of the {kind} {name}."""

    name = {name!r}
    options = {options!r}
    material = {{name: MATERIAL[name] for name in {material!r}}}
{settings}
'''
SHOWN = 300  # maximum characters of an error message


@define
class CheckReporter:
    """Pytest plugin that writes each result as soon as it is known, after the results in ``first``.

    ``own``: the folder of the plugin's code.
    """

    to: IO[str]
    own: Path
    first: tuple[CheckResult, ...] = ()
    _written: set[str] = field(factory=set, init=False)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the number of checks first."""
        self._write({"checks": len(session.items) + len(self.first)})
        for result in self.first:
            self._write(asdict(result))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Write a result after the test was called, or if its setup failed or skipped it."""
        report = yield
        if report.when == "call" or not report.passed:
            if item.nodeid not in self._written:
                self._write(self._result(item, call, report))
            self._written.add(item.nodeid)
        return report

    def _result(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> dict[str, str]:
        check = readable_name(item.name)
        if report.passed:
            return {"check": check, "outcome": "passed"}
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            return {"check": check, "outcome": "skipped", "found": reason.removeprefix("Skipped: ")}
        assert call.excinfo is not None
        found = " ".join(call.excinfo.exconly().split())
        return {
            "check": check,
            "outcome": "failed",
            "found": found if len(found) <= SHOWN else f"{found[:SHOWN]}...",
            "where": line_in(self.own, call.excinfo),
            "do": advice_for(item.name),
        }

    def _write(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self.to, flush=True)


def main(kind: str, name: str, options: dict[str, str]) -> int:
    """Run the contract and return the exit status: 0 if all checks ran, including checks that failed."""
    to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of tests and libraries goes to standard error
    registration = installed_catalog().registration(kind, name)
    package = sys.modules[registration.plugin.module.partition(":")[0]]
    own = Path(package.__file__ or ".").resolve().parent
    contract = contract_of(kind, registration, options, own)
    source = SOURCE.format(
        module=contract.module,
        base=contract.base,
        kind=kind,
        name=name,
        options=options,
        material=contract.material,
        settings="\n".join(f"    {name} = {value!r}" for name, value in contract.settings.items()),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_contract.py"
        path.write_text(source, encoding="utf-8")
        flags = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "--rootdir", folder, "-c", os.devnull]
        with warnings.catch_warnings():
            status = pytest.main([*flags, str(path)], plugins=[CheckReporter(to, own, contract.first)])
    to.close()
    ran = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 0 if status in ran else int(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], loads(sys.argv[3])))
