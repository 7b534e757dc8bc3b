"""``--data-dir`` of a command with several datasets."""

import pytest
from attrs import frozen

from ke_core.runner.resolve import with_data_dir
from ke_core.spec.errors import BadConfig
from ke_core.spec.specs import DatasetSpec
from ke_testing.toy import ToyConfig


@frozen(kw_only=True)
class Published:
    data_dir: str | None = None


def spec(name, config):
    return DatasetSpec(name=name, summary="s", config=config, build="nowhere:Nothing", aspects=(), family=name)


FILES, EMBEDDED = spec("files", Published), spec("embedded", ToyConfig)


def test_only_datasets_with_files_get_the_folder():
    assert with_data_dir([EMBEDDED, FILES], {}, "data") == {"files": {"data_dir": "data"}}


def test_it_is_an_error_if_no_dataset_reads_files():
    with pytest.raises(BadConfig, match="dataset embedded takes no --data-dir"):
        with_data_dir([EMBEDDED], {}, "data")
    assert with_data_dir([EMBEDDED], {}, "") == {}
