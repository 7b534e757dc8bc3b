"""Checks for every kind of component. The contracts of the kinds extend it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import pytest
from attrs import fields, has

from ke_core.app import configure, installed_catalog
from ke_core.plugin import BadConfig, Spec, from_json, loads, to_json

HEAVY = ("torch", "transformers", "numpy")
MACHINE = re.compile(r"cuda:\d|\.cuda\(|CUDA[_]VISIBLE|" + r"""["'](/home/|/root/|/Users/|/mnt/|/data/|C:\\\\)""")
"""A device number, or a path on somebody's computer."""


class RegisteredContract:
    """Contract of a registration. Set ``kind`` and ``name``."""

    kind: ClassVar[str]
    name: ClassVar[str]

    @pytest.fixture
    def spec(self) -> Any:
        return installed_catalog().spec(self.kind, self.name)

    @pytest.fixture
    def module(self) -> str:
        """The module of its entry point."""
        return installed_catalog().registration(self.kind, self.name).plugin.module.partition(":")[0]

    def test_entry_point_registers_it(self, spec: Spec[Any]) -> None:
        assert self.name == spec.name
        assert spec.summary

    def test_registration_does_not_import_torch_transformers_or_numpy(self, module: str) -> None:
        assert registered(module, self.kind)["heavy"] == []

    def test_registration_prints_nothing(self, module: str) -> None:
        assert registered(module, self.kind)["printed"] == ""

    def test_code_contains_no_device_number_or_machine_path(self, module: str) -> None:
        package = Path(importlib.import_module(module).__file__ or "")
        sources = package.parent.rglob("*.py") if package.name == "__init__.py" else [package]
        found = [f"{path.name}: {match[0]}" for path in sources if (match := MACHINE.search(path.read_text("utf-8")))]
        assert found == []


class ComponentContract(RegisteredContract):
    """Set ``name``. Set ``options`` (strings, as after ``-o``) if the defaults do not suit a tiny model."""

    options: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def config(self, spec: Spec[Any]) -> Any:
        return configure(spec, self.options)

    def test_config_is_an_attrs_class_and_can_be_stored_as_json(self, spec: Spec[Any], config: Any) -> None:
        assert has(spec.config)
        assert config == from_json(to_json(config), spec.config, of=self.name)

    def test_every_option_has_help(self, spec: Spec[Any]) -> None:
        assert [f.name for f in fields(spec.config) if not f.metadata.get("help")] == []

    def test_unknown_option_is_rejected_by_name(self, spec: Spec[Any]) -> None:
        with pytest.raises(BadConfig, match="no_such_option"):
            configure(spec, {"no_such_option": "1"})

    def test_config_is_immutable(self, config: Any) -> None:
        """A run's specification must contain the options that were used: config and values must be immutable."""
        for name in (f.name for f in fields(type(config))):
            with pytest.raises(AttributeError):
                setattr(config, name, getattr(config, name))
        hash(config)

    def test_wrong_value_is_rejected_with_the_option_name(self, spec: Spec[Any]) -> None:
        hints = get_type_hints(spec.config)
        for option in (name for name, hint in hints.items() if not _takes_text(hint)):
            with pytest.raises(BadConfig, match=option):
                configure(spec, {option: "no such value"})


@cache
def registered(module: str, kind: str) -> dict[str, Any]:
    """Return the effects of importing ``module`` and calling its hook: ``heavy`` modules, and ``printed`` text."""
    code = (
        "import contextlib, importlib, io, json, sys\n"
        "said = io.StringIO()\n"
        "with contextlib.redirect_stdout(said):\n"
        f"    list(importlib.import_module({module!r}).ke_{kind}s())\n"
        f"heavy = sorted(set({HEAVY!r}) & set(sys.modules))\n"
        "print(json.dumps({'heavy': heavy, 'printed': said.getvalue()}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = loads(done.stdout)
    return found


def _takes_text(hint: Any) -> bool:
    """Return whether any text is a valid value of an option of that type."""
    arguments = get_args(hint)
    return hint in (str, Path, Any) or (get_origin(hint) is not Literal and any(map(_takes_text, arguments)))
