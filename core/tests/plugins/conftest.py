"""Entry points of modules that a test writes."""

import sys
from importlib.metadata import EntryPoint

import pytest

from ke_core.plugins.manager import GROUP


@pytest.fixture
def point(tmp_path, monkeypatch):
    """Write a module and return an entry point of it."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def write(name, source, module=""):
        module = module or f"toy_plugin_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(source)
        made.append(module)
        return EntryPoint(name=name, value=module, group=GROUP)

    yield write
    for module in made:
        sys.modules.pop(module, None)
