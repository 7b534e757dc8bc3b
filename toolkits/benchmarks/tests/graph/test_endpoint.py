"""Graphs from a local SPARQL endpoint (pyoxigraph behind http.server)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from ke_benchmarks.graph import endpoint, open_graph
from ke_benchmarks.graph.rows import SkippedRows
from ke_core.plugin import BadData
from ke_testing.http_server import QuietHandler, serving

ox = pytest.importorskip("pyoxigraph")
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
FACTS = (
    "".join(f"<http://x/p{n}> <http://x/boss> <http://x/p{n + 1}> .\n" for n in range(7))
    + "".join(f'<http://x/p{n}> {LABEL} "Person {n}"@en .\n' for n in range(8))
    + f'<http://x/boss> {LABEL} "boss"@en .\n<http://x/p1> {LABEL} "Personne"@fr .\n'
    + "_:b <http://x/boss> <http://x/p1> .\n"
)


class Endpoint(QuietHandler):
    store: Any
    failures: ClassVar[list[int]] = []
    agents: ClassVar[list[str]] = []
    queries: ClassVar[list[str]] = []

    def do_POST(self) -> None:  # noqa: N802  the name in http.server
        query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        self.queries.append(query)
        self.agents.append(self.headers["User-Agent"])
        if self.failures:
            self.send(self.failures.pop(), b"too much, come back later", (("Retry-After", "0"),))
        else:
            self.send(200, self.store.query(query).serialize(format=ox.QueryResultsFormat.JSON))


@pytest.fixture
def url() -> Iterator[str]:
    Endpoint.store = ox.Store()
    Endpoint.store.load(FACTS.encode(), format=ox.RdfFormat.N_TRIPLES)
    for seen in (Endpoint.failures, Endpoint.agents, Endpoint.queries):
        seen.clear()
    with serving(Endpoint) as address:
        yield f"{address}/sparql"


def test_endpoint_facts_have_labels(url: str) -> None:
    found = open_graph(f"sparql:{url}")
    assert [fact.text for fact in found.graph.facts("http://x/boss")][:2] == [
        "The boss of Person 0 is Person 1",
        "The boss of Person 1 is Person 2",
    ]
    assert found.skipped == {"a blank node": 1}
    assert all("ke-core" in agent for agent in Endpoint.agents)


def test_pages_contain_each_fact_once(url: str) -> None:
    rows = list(endpoint.extract(url, ("http://x/boss",), SkippedRows(), page=3))
    facts = [row for row in rows if row.relation == "http://x/boss"]
    assert [row.subject for row in facts] == [f"http://x/p{n}" for n in range(7)]
    assert sum("OFFSET" in query for query in Endpoint.queries) == 3


def test_too_many_relations_are_rejected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Endpoint.store.load(b"<http://x/p0> <http://x/friend> <http://x/p1> .", format=ox.RdfFormat.N_TRIPLES)
    monkeypatch.setattr(endpoint, "RELATIONS", 2)
    assert {row.relation for row in endpoint.extract(url, (), SkippedRows())} >= {"http://x/boss", "http://x/friend"}
    monkeypatch.setattr(endpoint, "RELATIONS", 1)
    with pytest.raises(BadData, match="has more than 1 relations") as caught:
        open_graph(f"sparql:{url}")
    assert "--relations" in caught.value.hint


def test_busy_endpoint_is_retried(url: str) -> None:
    Endpoint.failures.extend([503, 429])
    assert open_graph(f"sparql:{url}").graph.links
    assert len(Endpoint.queries) > 3


@pytest.mark.parametrize(("failures", "said"), [([400], "400 Bad Request: too much"), ([503] * 4, "503")])
def test_failing_endpoint_gives_a_one_line_error(url: str, failures: list[int], said: str) -> None:
    Endpoint.failures.extend(failures)
    with pytest.raises(BadData, match=said):
        open_graph(f"sparql:{url}")


def test_response_that_is_not_sparql_json_gives_a_one_line_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_post", lambda _url, _query: b"<html>hello")
    with pytest.raises(BadData, match="did not answer with SPARQL JSON, but: <html>hello"):
        open_graph(f"sparql:{url}")


def test_too_large_response_is_rejected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LARGEST", 50)
    with pytest.raises(BadData, match="failed: an answer of more than"):
        open_graph(f"sparql:{url}")
    assert len(Endpoint.queries) == 1


def test_invalid_or_unreachable_address_gives_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with pytest.raises(BadData, match="must begin with http"):
        open_graph("sparql:ftp://x")
    with pytest.raises(BadData, match="refused"):
        open_graph("sparql:http://127.0.0.1:9/sparql")
