"""What every kind of component must keep; the contracts of the kinds build on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, ClassVar

import pytest
from attrs import fields, has

from ke_core.data.codec import from_json, to_json
from ke_core.errors import BadConfig
from ke_core.plugins.catalog import read
from ke_core.plugins.manager import GROUP, discover
from ke_core.plugins.options import configure
from ke_core.specs import Spec

HEAVY = ("torch", "transformers", "numpy")


class ComponentContract:
    """Set ``name``; set ``options`` (strings, as after ``-o``) when the defaults do not suit a tiny model."""

    kind: ClassVar[str]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def spec(self) -> Any:
        return read(discover()).spec(self.kind, self.name)

    @pytest.fixture
    def config(self, spec: Spec[Any]) -> Any:
        return configure(spec, self.options)

    def test_is_found_through_its_entry_point(self, spec: Spec[Any]) -> None:
        assert self.name == spec.name
        assert spec.summary

    def test_config_is_attrs_and_survives_json(self, spec: Spec[Any], config: Any) -> None:
        assert has(spec.config)
        assert config == from_json(to_json(config), spec.config, of=self.name)

    def test_every_option_has_help(self, spec: Spec[Any]) -> None:
        assert [f.name for f in fields(spec.config) if not f.metadata.get("help")] == []

    def test_unknown_option_is_refused_by_name(self, spec: Spec[Any]) -> None:
        with pytest.raises(BadConfig, match="no_such_option"):
            configure(spec, {"no_such_option": "1"})

    def test_registering_imports_nothing_heavy(self) -> None:
        modules = [point.value for point in entry_points(group=GROUP) if self._brings(point.load())]
        assert modules
        code = (
            f"import importlib, sys; [getattr(importlib.import_module(m), 'ke_{self.kind}s')() for m in {modules!r}];"
            f"print(*sorted({set(HEAVY)!r} & set(sys.modules)))"
        )
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert printed.strip() == ""

    def _brings(self, plugin: Any) -> bool:
        hook = getattr(plugin, f"ke_{self.kind}s", None)
        return hook is not None and any(self.name == spec.name for spec in hook())
