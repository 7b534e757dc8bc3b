"""Facts from a SPARQL endpoint: pages of each relation, then labels, aliases and types.

Each page is ``ORDER BY ?s ?o LIMIT n OFFSET k``, so pages neither overlap nor have gaps. If a server is busy (429, 502,
503, 504) or does not answer, the request is repeated after the delay it requests, or with increasing delays.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from http.client import HTTPException
from itertools import islice
from typing import Any

from ke_benchmarks.graph.rdf import BLANK, FOREIGN, TYPED
from ke_benchmarks.graph.rows import ALIAS, KIND, LABEL, MEANINGS, GraphRow, SkippedRows, literal_key, shortened
from ke_core.plugin import BadData, loads, read_at_most, read_error_body

PAGE, BATCH = 5_000, 200
RELATIONS = 200  # maximum number of relations to read if no table names them
LARGEST = 64 << 20  # maximum bytes of an answer: a page has a few hundred bytes for each of its facts
TRIES, TIMEOUT, LONGEST_WAIT = 4, 120, 60.0
BUSY = (429, 502, 503, 504)
AGENT = "ke-core (knowledge editing benchmarks; SPARQL client)"
ENTITY, DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
NAMES = {iri: meaning for iri, meaning in MEANINGS.items() if "://" in iri} | {f"{DIRECT}P31": KIND}


def extract(url: str, relations: Sequence[str], skipped: SkippedRows, *, page: int = PAGE) -> Iterator[GraphRow]:
    """Return the facts of the relations (keys or IRIs; all if empty), and labels and types of their entities.

    Raises BadData with the endpoint and its message.
    """
    things: dict[str, str] = {}
    for relation in relations or _relations(url):
        iri = f"{DIRECT}{relation}" if relation[:1] == "P" and relation[1:].isdigit() else relation
        for binding in _pages(url, f"SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} ORDER BY ?s ?o", page):
            row = _fact(binding, relation if relations else shortened(iri), skipped)
            if row is None:
                continue
            things |= {shortened(part["value"]): part["value"] for part in binding.values() if part["type"] == "uri"}
            yield row
        things[shortened(iri)] = iri.replace(DIRECT, ENTITY)
    rest = iter(things.values())
    while some := list(islice(rest, BATCH)):
        yield from _named(url, some)


def _relations(url: str) -> list[str]:
    """Return all relations except those of ``NAMES``. Raises BadData if there are too many."""
    limit = RELATIONS + len(NAMES) + 1
    found = _ask(url, f"SELECT DISTINCT ?p WHERE {{ ?s ?p ?o }} ORDER BY ?p LIMIT {limit}")
    relations = [row["p"]["value"] for row in found if row["p"]["value"] not in NAMES]
    if len(relations) > RELATIONS:
        raise BadData(
            f"{url} has more than {RELATIONS} relations",
            hint="name those that you need in a table (--relations FILE.toml)",
        )
    return relations


def _fact(binding: dict[str, Any], relation: str, skipped: SkippedRows) -> GraphRow | None:
    subject, object_ = binding["s"], binding["o"]
    if "bnode" in (subject["type"], object_["type"]):
        skipped[BLANK] += 1
        return None
    if object_["type"] == "uri":
        return GraphRow(shortened(subject["value"]), relation, shortened(object_["value"]))
    if not object_.get("xml:lang", "en").lower().startswith("en"):
        skipped[FOREIGN] += 1
        return None
    key = literal_key(object_["value"], object_.get("datatype", ""))
    if key is None:
        skipped[TYPED] += 1
        return None
    return GraphRow(shortened(subject["value"]), relation, key)


def _named(url: str, iris: Iterable[str]) -> Iterator[GraphRow]:
    things, names = (" ".join(f"<{iri}>" for iri in some) for some in (iris, NAMES))
    query = (
        f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {things} }} VALUES ?p {{ {names} }} ?s ?p ?o "
        'FILTER(!isLiteral(?o) || lang(?o) = "" || langMatches(lang(?o), "en")) } ORDER BY ?s ?p ?o'
    )
    for row in _ask(url, query):
        meaning, said = NAMES[row["p"]["value"]], row["o"]
        if meaning == KIND and said["type"] == "uri":
            yield GraphRow(shortened(row["s"]["value"]), KIND, shortened(said["value"]))
        elif meaning in (LABEL, ALIAS) and said["type"] != "uri" and said["value"].strip():
            yield GraphRow(shortened(row["s"]["value"]), meaning, said["value"], said.get("xml:lang", ""))


def _pages(url: str, query: str, page: int) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        found = _ask(url, f"{query} LIMIT {page} OFFSET {offset}")
        yield from found
        if len(found) < page:
            return
        offset += page


def _ask(url: str, query: str) -> list[dict[str, Any]]:
    """Return the bindings of a SELECT. Raises BadData."""
    said = ""
    for attempt in range(TRIES):
        try:
            return _bindings(_post(url, query), url)
        except urllib.error.HTTPError as error:
            with error:
                said = f"{error.code} {error.reason}: {_first_line(read_error_body(error))}".rstrip(": ")
            if error.code not in BUSY:
                break
            _wait(attempt, error.headers)
        except (OSError, HTTPException, ValueError) as error:
            said = str(getattr(error, "reason", "")) or str(error) or type(error).__name__
            if isinstance(error, ValueError):
                break  # not an address
            _wait(attempt, None)
    raise BadData(f"the SPARQL endpoint {url} failed: {said}", hint="check the address, or use a smaller --relations")


def _post(url: str, query: str) -> bytes:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("its address must begin with http:// or https://")
    request = urllib.request.Request(  # noqa: S310  checked above
        url,
        data=urllib.parse.urlencode({"query": query}).encode(),
        headers={"Accept": "application/sparql-results+json", "User-Agent": AGENT},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  as above
        return read_at_most(answer, LARGEST)


def _bindings(body: bytes, url: str) -> list[dict[str, Any]]:
    try:
        found = loads(body)["results"]["bindings"]
        assert all({"type", "value"} <= set(part) for row in found for part in row.values())
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise BadData(
            f"{url} did not answer with SPARQL JSON, but: {_first_line(body)}",
            hint="check that it is a SPARQL endpoint",
        ) from wrong
    return list(found)


def _wait(attempt: int, headers: Message | None) -> None:
    if attempt + 1 == TRIES:
        return
    told = str(headers.get("Retry-After", "")) if headers else ""
    time.sleep(min(LONGEST_WAIT, float(told) if told.isdigit() else 2.0**attempt))


def _first_line(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    return text.splitlines()[0][:200] if text else ""
