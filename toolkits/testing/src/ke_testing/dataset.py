"""The contract of datasets, and helpers for tests of datasets that are read from files."""

from __future__ import annotations

import copy
import json
import re
import socket
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ke_benchmarks import count_cases
from ke_core.app import configure, installed_catalog
from ke_core.plugin import EFFICACY, BadData, Case, Dataset, DatasetInfo, DatasetSpec, Query, from_json, to_json
from ke_testing.contract import ComponentContract


class DatasetContract(ComponentContract):
    """Set ``name`` and, if needed, ``options``. Skips with the dataset's own message if its files are missing.

    ``whole`` false: the tests use a few records instead of the published file, so published counts do not apply.
    """

    kind: ClassVar[str] = "dataset"
    whole: ClassVar[bool] = True

    @pytest.fixture
    def dataset(self, spec: DatasetSpec, config: Any) -> Dataset:
        return spec.build(config)

    @pytest.fixture
    def cases(self, dataset: Dataset) -> list[Case]:
        try:
            return list(dataset.cases())
        except BadData as absent:
            pytest.skip(str(absent))

    def test_ids_are_unique(self, cases: list[Case]) -> None:
        assert cases
        assert len(cases) == len({case.id for case in cases})
        for case in cases:
            assert len(case.probes) == len({probe.id for probe in case.probes})

    def test_query_id_identifies_one_question(self, cases: list[Case]) -> None:
        for case in cases:
            seen: dict[str, str] = {}
            for query in queries(case):
                assert seen.setdefault(query.id, query.texts[0]) == query.texts[0]

    def test_iterating_twice_gives_equal_cases(self, dataset: Dataset, cases: list[Case]) -> None:
        assert cases == list(dataset.cases())

    def test_cases_can_be_stored_as_json(self, cases: list[Case]) -> None:
        for case in cases[:50]:
            assert case == from_json(to_json(case), Case, of=case.id)

    def test_every_aspect_is_declared(self, spec: DatasetSpec, cases: list[Case]) -> None:
        """Options may select a subset of them."""
        assert {probe.aspect for case in cases for probe in case.probes} <= set(spec.aspects)

    def test_scored_query_joins_its_prompt_with_one_space(
        self, spec: DatasetSpec, dataset: Dataset, cases: list[Case]
    ) -> None:
        for case in cases[:20]:
            for query in (query for query in queries(case) if query.continuations):
                assert len(set(query.options)) == len(query.options)
                prompts = filter(None, (dataset.prompt(query, style) for style in spec.styles))
                assert not any(prompt.text[-1:].isspace() for prompt in prompts)

    def test_every_edit_has_an_efficacy_probe(self, cases: list[Case]) -> None:
        """Except for edits that are a statement only: their effect is unknown."""
        for case in cases:
            tested = {edit for probe in case.probes if probe.aspect == EFFICACY for edit in probe.edits}
            assert {edit.id for edit in case.edits if edit.target or edit.old_target} <= tested
            assert tested <= {edit.id for edit in case.edits}

    def test_every_query_has_a_prompt_in_some_style(
        self, spec: DatasetSpec, dataset: Dataset, cases: list[Case]
    ) -> None:
        for case in cases[:20]:
            for query in queries(case):
                prompts = [dataset.prompt(query, style) for style in spec.styles]
                assert any(prompts)
                assert all(query.texts[0] in prompt.text for prompt in prompts if prompt)

    def test_gold_and_pre_edit_answers_differ(self, cases: list[Case]) -> None:
        for case in cases:
            for query in queries(case):
                assert query.pre_edit is None or query.gold.entities != query.pre_edit.entities

    def test_no_name_is_blank(self, cases: list[Case]) -> None:
        for case in cases:
            for query in queries(case):
                golds = (query.gold, query.pre_edit) if query.pre_edit else (query.gold,)
                assert all(name.strip() for gold in golds for entity in gold.entities for name in entity.names)

    def test_a_case_never_hides_its_own_edits(self, dataset: Dataset, cases: list[Case]) -> None:
        bank = {edit.id: edit for case in cases for edit in case.edits}
        for case in cases[:50]:
            assert not {edit.id for edit in case.edits} & dataset.hides(case, bank, edited=True)

    def test_a_sample_needs_no_network(
        self, dataset: Dataset, cases: list[Case], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After its files were downloaded."""

        def refused(*_: object) -> None:
            raise OSError("this test has no network")

        monkeypatch.setattr(socket.socket, "connect", refused)
        assert list(islice(dataset.cases(), 3)) == cases[:3]

    def test_a_split_is_deterministic_and_names_its_own_cases(self, dataset: Dataset, cases: list[Case]) -> None:
        for seed in (0, 1):
            parts = dataset.split(1, seed)
            assert parts == dataset.split(1, seed)
            assert set(parts or ()) <= {case.id for case in cases}

    def test_published_counts_match(self, dataset: Dataset, cases: list[Case]) -> None:
        if not self.whole:
            pytest.skip("the tests use a few records, not the published file")
        counted, published = count_cases(cases), dict(dataset.info().published)
        assert published == {name: counted.get(name) for name in published}

    def test_info_has_license_source_and_checksum(self, dataset: Dataset, cases: list[Case]) -> None:
        assert cases
        info = dataset.info()
        assert isinstance(info, DatasetInfo)
        assert info.license
        assert info.source
        assert info.sha256


def build_dataset(name: str, **options: str) -> Any:
    """Return an installed dataset with these options, as the command line builds it."""
    spec = installed_catalog().spec("dataset", name)
    return spec.build(configure(spec, options))


def write_json(path: Path, content: Any) -> Path:
    """Write bytes, or a value as JSON, and return the path."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def stored_fixture(name: str, file: str) -> Any:
    """Return the fixture ``stored``: a function that writes ``file`` and builds the dataset that reads it."""

    @pytest.fixture
    def stored(tmp_path: Path) -> Callable[..., Any]:
        def store(content: Any, **options: str) -> Any:
            write_json(tmp_path / file, content)
            return build_dataset(name, data_dir=str(tmp_path), **options)

        return store

    return stored


@pytest.fixture(autouse=True)
def no_published_files(ke_no_data: Path) -> None:
    """Hide the published files on this machine from the tests of a ``conftest.py`` that imports this fixture."""


def with_field(record: dict[str, Any], path: str, value: Any = ...) -> dict[str, Any]:
    """Return a copy of the record with ``value`` at ``path``, such as ``edits.0.prompt``; ``...`` removes the field."""
    made = copy.deepcopy(record)
    *way, last = (int(step) if step.isdecimal() else step for step in path.split("."))
    at: Any = made
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return made


def read_error(cases: Callable[[], Iterable[Case]]) -> str:
    """Return the error of reading cases. It must be one line without a full stop, and have a hint."""
    with pytest.raises(BadData) as caught:
        list(cases())
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(".")
    assert caught.value.hint
    return str(caught.value)


def check_missing_file(dataset: Dataset, place: Path, address: str) -> None:
    """Check that the error names the file and its family, and that its hint has the file's place and its address."""
    with pytest.raises(BadData, match=re.escape(f"{place.name} of {place.parent.name} is missing")) as caught:
        list(dataset.cases())
    assert address in caught.value.hint
    assert str(place) in caught.value.hint


def queries(case: Case) -> list[Query]:
    """Return every query of a case, conditions included."""
    return [query for probe in case.probes for query in (*probe.queries, *probe.given)]
