"""Released files are recognized by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_benchmarks.files.published import local_file
from ke_plugin_recoe import BLOBS, FILE, VARIANTS, WHOLE, RecoeConfig
from ke_plugin_recoe.dataset import Recoe


@pytest.mark.parametrize("scheme", BLOBS)
def test_released_file_is_recognized(scheme: str, ke_data_dir: Path) -> None:
    if not (ke_data_dir / "recoe" / scheme / FILE).is_file():
        pytest.skip(f"no recoe/{scheme}/{FILE}")
    (file,) = Recoe(variant=VARIANTS[scheme], config=RecoeConfig(data_dir=str(ke_data_dir))).files()
    found = local_file(file, ke_data_dir)
    assert found is not None
    assert (found.is_published, found.version) == (True, "awslabs/ReCoE")


def test_other_file_is_not_the_released_one(tmp_path: Path) -> None:
    (tmp_path / "sorting").mkdir()
    (tmp_path / "sorting" / FILE).write_text("[]")
    (file,) = Recoe(variant=VARIANTS["sorting"], config=RecoeConfig(data_dir=str(tmp_path))).files()
    found = local_file(file, tmp_path)
    assert found is not None
    assert (found.is_published, found.version) == (False, "")


@pytest.mark.usefixtures("ke_no_data")
def test_missing_files_have_released_names() -> None:
    names = [file.name for file in Recoe(variant=WHOLE, config=RecoeConfig()).files()]
    assert names == [f"{scheme}/{FILE}" for scheme in VARIANTS]


def test_own_file_is_not_compared_with_the_release(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text("[]")
    (file,) = Recoe(variant=WHOLE, config=RecoeConfig(file=str(tmp_path / "own.json"))).files()
    found = local_file(file)
    assert found is not None
    assert found.is_published is None
