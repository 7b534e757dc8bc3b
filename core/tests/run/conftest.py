import importlib.util
import sys
from pathlib import Path

import pytest

FAKES = Path(__file__).with_name("fakes.py")


@pytest.fixture(scope="session")
def fakes():
    """The module beside this file: tests have no package to import it from."""
    spec = importlib.util.spec_from_file_location("ke_core_run_fakes", FAKES)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
