"""Facts in RDF: ``.nt`` and ``.ttl``, read by pyoxigraph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ke_benchmarks.graph.rows import ALIAS, KIND, LABEL, MEANINGS, GraphRow, SkippedRows, literal_key, shortened
from ke_core.plugin import BadConfig, BadData

BLANK, FOREIGN, TYPED = "a blank node", "a text in a language other than English", "an unusable literal"


def read_rdf(path: Path, skipped: SkippedRows) -> Iterator[GraphRow]:
    """Yield every statement of the file. Unusable ones are counted in ``skipped``.

    Raises BadData with file and line for anything that is not RDF in UTF-8.
    """
    try:
        import pyoxigraph as ox  # noqa: PLC0415  an extra
    except ImportError as missing:
        raise BadConfig("RDF files need pyoxigraph", hint="pip install 'ke-benchmarks[graph]'") from missing
    format_ = ox.RdfFormat.N_TRIPLES if path.suffix == ".nt" else ox.RdfFormat.TURTLE
    try:
        for triple in ox.parse(path=str(path), format=format_):
            row = row_of(triple.subject, triple.predicate, triple.object, skipped)
            if row:
                yield row
    except (SyntaxError, ValueError) as wrong:
        said = str(wrong).splitlines()[0]
        where = f", line {wrong.lineno}" if isinstance(wrong, SyntaxError) and wrong.lineno else ""
        raise BadData(f"{path}{where}: not RDF in UTF-8 ({said})", hint="check it with an RDF validator") from wrong
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {(wrong.strerror or str(wrong)).lower()}", hint="check the path") from wrong


def row_of(subject: Any, predicate: Any, object_: Any, skipped: SkippedRows) -> GraphRow | None:
    """Convert a statement to a row. Unusable ones are counted and None is returned."""
    key = shortened(predicate.value)
    relation = MEANINGS.get(predicate.value, MEANINGS.get(key, key))
    kinds = type(subject).__name__, type(object_).__name__
    if kinds[0] != "NamedNode" or kinds[1] not in ("NamedNode", "Literal"):
        skipped[BLANK] += 1
        return None
    subject_key = shortened(subject.value)
    if kinds[1] == "NamedNode":
        return GraphRow(subject_key, relation, shortened(object_.value)) if relation not in (LABEL, ALIAS) else None
    language = object_.language or ""
    if relation in (LABEL, ALIAS):
        return GraphRow(subject_key, relation, object_.value, language) if object_.value.strip() else None
    found = literal_key(object_.value, object_.datatype.value)
    if language and not language.lower().startswith("en"):
        skipped[FOREIGN] += 1
        return None
    if found is None or relation == KIND:
        skipped[TYPED] += 1
        return None
    return GraphRow(subject_key, relation, found)
