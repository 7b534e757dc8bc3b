"""The contract of datasets."""

from __future__ import annotations

import socket
from itertools import islice
from typing import Any, ClassVar

import pytest

from ke_core.app import count_cases
from ke_core.plugin import EFFICACY, BadData, Case, Dataset, DatasetInfo, DatasetSpec, Query, from_json, to_json
from ke_testing.contract import ComponentContract


class DatasetContract(ComponentContract):
    """Set ``name`` and, where needed, ``options``. Skips, with the dataset's own words, where its files are absent.

    ``whole`` false: it is tried on a few records in place of the published file, whose counts they do not have.
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

    def test_a_query_id_stands_for_one_question(self, cases: list[Case]) -> None:
        for case in cases:
            seen: dict[str, str] = {}
            for query in queries(case):
                assert seen.setdefault(query.id, query.texts[0]) == query.texts[0]

    def test_iterating_twice_gives_equal_cases(self, dataset: Dataset, cases: list[Case]) -> None:
        assert cases == list(dataset.cases())

    def test_cases_survive_json(self, cases: list[Case]) -> None:
        for case in cases[:50]:
            assert case == from_json(to_json(case), Case, of=case.id)

    def test_aspects_are_the_declared_ones(self, spec: DatasetSpec, cases: list[Case]) -> None:
        """Not all of them, where options choose."""
        assert {probe.aspect for case in cases for probe in case.probes} <= set(spec.aspects)

    def test_e1_a_scored_query_joins_its_prompt_by_one_space(
        self, spec: DatasetSpec, dataset: Dataset, cases: list[Case]
    ) -> None:
        for case in cases[:20]:
            for query in (query for query in queries(case) if query.continuations):
                assert len(set(query.options)) == len(query.options)
                prompts = filter(None, (dataset.prompt(query, style) for style in spec.styles))
                assert not any(prompt.text[-1:].isspace() for prompt in prompts)

    def test_every_edit_has_an_efficacy_probe(self, cases: list[Case]) -> None:
        """Except edits that are a statement only: it is not known what they change."""
        for case in cases:
            tested = {edit for probe in case.probes if probe.aspect == EFFICACY for edit in probe.edits}
            assert {edit.id for edit in case.edits if edit.target or edit.old_target} <= tested
            assert tested <= {edit.id for edit in case.edits}

    def test_every_query_is_asked_in_some_style(self, spec: DatasetSpec, dataset: Dataset, cases: list[Case]) -> None:
        for case in cases[:20]:
            for query in queries(case):
                prompts = [dataset.prompt(query, style) for style in spec.styles]
                assert any(prompts)
                assert all(query.texts[0] in prompt.text for prompt in prompts if prompt)

    def test_gold_and_stale_differ(self, cases: list[Case]) -> None:
        for case in cases:
            for query in queries(case):
                assert query.stale is None or query.gold.entities != query.stale.entities

    def test_no_name_is_blank(self, cases: list[Case]) -> None:
        for case in cases:
            for query in queries(case):
                golds = (query.gold, query.stale) if query.stale else (query.gold,)
                assert all(name.strip() for gold in golds for entity in gold.entities for name in entity.names)

    def test_own_edits_are_never_hidden(self, dataset: Dataset, cases: list[Case]) -> None:
        bank = {edit.id: edit for case in cases for edit in case.edits}
        for case in cases[:50]:
            assert not {edit.id for edit in case.edits} & dataset.hides(case, bank, edited=True)

    def test_a_sample_needs_no_network(
        self, dataset: Dataset, cases: list[Case], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once its files are here."""

        def refused(*_: object) -> None:
            raise OSError("this test has no network")

        monkeypatch.setattr(socket.socket, "connect", refused)
        assert list(islice(dataset.cases(), 3)) == cases[:3]

    def test_a_split_is_of_its_own_cases_and_always_the_same(self, dataset: Dataset, cases: list[Case]) -> None:
        for seed in (0, 1):
            parts = dataset.split(1, seed)
            assert parts == dataset.split(1, seed)
            assert set(parts or ()) <= {case.id for case in cases}

    def test_published_counts_are_kept(self, dataset: Dataset, cases: list[Case]) -> None:
        if not self.whole:
            pytest.skip("it is tried on a few records, not on the published file")
        counted, published = count_cases(cases), dict(dataset.info().published)
        assert published == {name: counted.get(name) for name in published}

    def test_info_says_where_it_comes_from(self, dataset: Dataset, cases: list[Case]) -> None:
        assert cases
        info = dataset.info()
        assert isinstance(info, DatasetInfo)
        assert info.license
        assert info.source
        assert info.sha256


def queries(case: Case) -> list[Query]:
    """Every query of a case, conditions included."""
    return [query for probe in case.probes for query in (*probe.queries, *probe.given)]
