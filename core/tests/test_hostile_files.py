"""Damaged files of every kind that ke reads give a one-line error with the file's name and no traceback."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import field, frozen

from ke_benchmarks.files.cases import CaseHeader, read_cases, write_cases
from ke_benchmarks.files.records import read_records
from ke_benchmarks.graph.opening import open_graph
from ke_benchmarks.graph.relations import read_relations
from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.lines import to_bytes, to_line
from ke_core.results.load import progress_json, read_scores
from ke_core.results.seal import SEAL, Seal
from ke_core.results.tally import tally_of
from ke_core.runner.edit_files import read_edits
from ke_core.runner.requests import queries_of
from ke_core.spec.codec import to_json
from ke_core.spec.errors import BadConfig, KEError
from ke_core.spec.records import Batch, Judged, Probed, Replied, Usage
from ke_core.spec.results import Answer, Failure, Judgment, Scored, Step, Verdict
from ke_core.spec.runspec import Component, DataRef, ModelRef, Plan, RunSpec
from ke_plugin_analysis.checking import read as read_items
from ke_plugin_analysis.predictions import read_predictions
from ke_plugin_reproduce.reading import read as read_reproduction
from ke_plugin_reproduce.sweep import failed_in
from ke_plugin_reproduce.sweep_file import read_sweep
from ke_plugin_serve.active_edits import read_bank
from ke_testing.toy import Toy, toy_spec
from ke_weights.examples import read_examples
from ke_weights.patches.place import refuse_existing
from ke_weights.suites import read_suite
from ke_weights.trace.facts import read_facts
from ke_weights.trace.folder import TraceFolder, TraceSpec
from ke_weights.trace.settings import FactTrace, TraceSettings
from ke_weights.trained import TRAINING
from ke_weights.training import _saved, read_losses

KINDS = ("editor", "dataset", "metric", "judge", "model")
EMPTY = Catalog(registrations={kind: {} for kind in KINDS})
MADE = Component(name="none", distribution="ke-plugin-none", version="0.1.0", options={"k": [1, "a"]})
MODEL = ModelRef(source="hf", id="m", digest="d")
SPEC = RunSpec(
    ke="0.1.0", model=MODEL, editor=MADE, dataset=DataRef(component=MADE, sha256="0"), styles=("direct",),
    plan=Plan(size=1), edited_form="question",
)  # fmt: skip
PLACE = {"batch": "b", "case": "1", "phase": "after", "style": "direct"}
ANSWER = Answer(text="Rome", raw="It is Rome", steps=(Step(kind="hop", text="?", retrieved=("e",), scores=(0.5,)),))
RECORD_LINES = [
    Batch(batch="b", cases=("1",), edits=1, skipped={"2": "no"}, refused={"e": "no"}, details={"norms": [1.0]}),
    Replied(
        **PLACE, replies={"q": ANSWER, "r": Scored(logprobs=(-1.5,), tokens=(2,)), "s": Failure(error="E", message="m")}
    ),
    Judged(**PLACE, judge=MADE, judgments={"q": Judgment(verdict=Verdict.RIGHT)}),
    Probed(batch="b", metric="drift", phase="after", replies={"q": ANSWER}),
    Usage(id="x", requests=3),
]
SCORE = {"metric": "m", "aspect": "a", "phase": "after", "style": "direct", "value": 0.5, "n": 2}
EDIT = {"prompt": "{} speaks", "subject": "Ada", "target_new": "French", "paraphrases": ["{} talks"], "source": "x"}
GRAPH = {
    "name": "g", "version": "1", "sources": [],
    "relations": {"capital": {"label": "capital", "subject": "country", "object": "city", "cloze": "{} has"}},
    "entities": {"country:NL": {"label": "Netherlands", "aliases": ["Holland"]}, "city:A": {"label": "Amsterdam"}},
    "facts": {"capital": {"country:NL": ["city:A"]}},
}  # fmt: skip
FACT = {"known_id": 1, "prompt": "Paris is in", "subject": "Paris", "attribute": "France"}
TRACED = FactTrace(
    known_id="1", subject="Paris", prompt="p", attribute="a", answer="b", correct_prediction=True, high_score=0.5
)
SWEEP = 'editors = ["a"]\ndatasets = ["b"]\nmodels = ["c"]\nk = [1, "all"]\n[vary.a]\nword = ["x"]\n'
RELATIONS = '[relations.capital]\nlabel = "capital"\ncloze = "{} has"\n'
TABLE = (
    'paper = "p"\ntitle = "t"\nlabels = ["l"]\n[[columns]]\nheading = "h"\n[[rows]]\nlabels = ["x"]\nprinted = [1]\n'
)


@frozen(kw_only=True)
class Thing:
    case_id: int
    names: tuple[str, ...]
    parts: dict[str, float] = field(factory=dict)


@frozen(kw_only=True)
class Kind:
    """A kind of file: valid content, and the function that reads it. ``skips``: damaged content counts as missing."""

    file: str
    sound: bytes
    read: Callable[[Path], object]
    skips: bool = False

    @classmethod
    def of(cls, file: str, sound: bytes, read: Callable[[Path], object], *, skips: bool = False) -> "Kind":
        return cls(file=file, sound=sound, read=read, skips=skips)


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def whole(value: Any) -> bytes:
    return json.dumps(value).encode()


def run_json() -> bytes:
    raw = {"id": SPEC.id, "spec": to_json(SPEC), "environment": {"python": "3"}, "created": "now", "files": {"a": "b"}}
    return to_bytes(raw)


def open_run(path: Path) -> None:
    """Read everything that the commands for runs read."""
    folder = RunFolder.open(path.parent)
    list(folder.read())
    tally_of(folder)
    progress_json(folder, EMPTY)
    if (path.parent / "scores.json").exists():
        read_scores(folder)
    assert folder.finished in (True, False)


def in_run(path: Path) -> None:
    (path.parent / "run.json").write_bytes(run_json())
    if path.name == SEAL:
        Seal.read(path.parent)
    if path.name != RECORDS:
        (path.parent / RECORDS).write_bytes(b"".join(map(to_line, RECORD_LINES)))
    open_run(path)


def trace_folder(path: Path) -> None:
    spec = TraceSpec(model=MODEL, attention="eager", facts="f", sha256="0", settings=TraceSettings())
    if path.name == "spec.json":
        TraceFolder.create(path.parent, spec)
    else:
        list(TraceFolder(path=path.parent, spec=spec).read())


def trace_spec() -> bytes:
    spec = TraceSpec(model=MODEL, attention="eager", facts="f", sha256="0", settings=TraceSettings())
    return to_bytes({"spec": to_json(spec), "environment": {}, "created": ""})


def marked(path: Path) -> None:
    """Only a folder with a model is replaced; another folder raises BadConfig."""
    with suppress(BadConfig):
        refuse_existing(path.parent, force=True)


def cases_file() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        write_cases(path, CaseHeader(name="toy"), Toy().cases())
        return path.read_bytes()


def sound_kinds() -> Iterator[Kind]:
    toys = {case.id: case for case in Toy().cases()}
    query = next(queries_of(toys["1"], "after"))
    item = {"question": "?", "answer": "Rome", "gold": [["Rome"]], "pre_edit": [["Paris"]], "label": "right"}
    suite = {"kind": "changed", "prompt": "Ada speaks", "expect": ["French"], "not": ["English"], "id": "1"}
    said = {"case": "1", "query": query.id, "text": "x", "phase": "after", "style": "direct", "edited": True}
    verdicts = {"verdict": ("right", "wrong")}
    yield Kind.of("run.json", run_json(), open_run)
    yield Kind.of(RECORDS, b"".join(map(to_line, RECORD_LINES)), in_run)
    yield Kind.of("records.seal.json", whole({"bytes": 0, "sha256": "e3", "complete": True}), in_run)
    yield Kind.of(
        "log.jsonl",
        lines(
            {
                "at": "t",
                "event": "phase",
                "phase": "p",
                "seconds": 1.0,
                "edits": 1,
                "edit_seconds": 1.0,
                "peak_host_bytes": 1,
            },
            {"at": "t", "event": "warning", "what": "w", "message": "m"},
        ),
        in_run,
        skips=True,
    )
    yield Kind.of(
        "scores.json",
        whole({"schema": 1, "judge": to_json(MADE), "metrics": [{"component": to_json(MADE), "scores": [SCORE]}]}),
        in_run,
    )
    yield Kind.of(
        "sweep.json",
        whole({"cells": [{"name": "a", "status": "failed", "error": "e"}]}),
        lambda path: failed_in(path.parent),
        skips=True,
    )
    yield Kind.of("sweep.toml", SWEEP.encode(), read_sweep)
    yield Kind.of("relations.toml", RELATIONS.encode(), read_relations)
    yield Kind.of(
        "table.toml", TABLE.encode(), lambda path: read_reproduction(path.read_text(errors="replace"), where=path.name)
    )
    yield Kind.of("edits.jsonl", lines(EDIT, EDIT | {"subject": "Bo"}), read_edits)
    yield Kind.of("edits.json", whole([EDIT]), read_edits)
    yield Kind.of("edits.csv", b"prompt,subject,target_new\n{} speaks,Ada,French\n", read_edits)
    yield Kind.of("bank.jsonl", lines(EDIT, {"statement": "Ada speaks French", "id": "s"}), read_bank)
    yield Kind.of("suite.jsonl", lines(suite), read_suite)
    yield Kind.of("said.jsonl", lines(said), lambda path: read_predictions(path, toys, toy_spec()))
    yield Kind.of(
        "items.jsonl",
        lines(item),
        lambda path: list(read_items(path.read_text(errors="replace"), verdicts, of=path.name)),
    )
    yield Kind.of(
        "train.jsonl",
        lines({"prompt": "{} speaks", "subject": "Ada", "target": "French"}),
        lambda path: read_examples(str(path), EMPTY, {}),
    )
    yield Kind.of("cases.jsonl", cases_file(), lambda path: list(read_cases(path)))
    yield Kind.of(
        "published.json",
        whole([{"case_id": 1, "names": ["a"], "parts": {"k": 0.5}}]),
        lambda path: list(read_records(path, Thing)),
    )
    yield Kind.of("graph.json", whole(GRAPH), lambda path: open_graph(str(path)))
    yield Kind.of("facts.json", whole([FACT]), read_facts)
    yield Kind.of("spec.json", trace_spec(), trace_folder)
    yield Kind.of("facts.jsonl", to_bytes(to_json(TRACED)), trace_folder)
    yield Kind.of(
        TRAINING, whole({"editor": "e", "place": {}}), lambda path: _saved(path.parent, {"editor": "e", "place": {}})
    )
    yield Kind.of("loss.jsonl", lines({"step": 1, "loss": 0.5}), lambda path: read_losses(path.parent))
    yield Kind.of("config.json", whole({"model_type": "llama"}), marked, skips=True)


ALL = {kind.file: kind for kind in sound_kinds()}
TREES = [name for name in ALL if name.endswith((".json", ".jsonl"))]
DEEP = 100_000
TOPS = (b"[]", b"{}", b"3", b'"x"', b"null", b"true", b"[[]]", b"[3]", b"[null]", b"NaN", b"{}{}", b"", b"\xef\xbb\xbf")
WRONG = (None, True, -1, 0.5, 10**30, "x", [], {}, [[3]], {"a": {"b": [1]}}, "\ud800")
RAW = (b"NaN", b"-Infinity", b"1e999", b"1" * 5000, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP)
MARK = "<-- here -->"


def read(kind: Kind, content: bytes, folder: Path) -> str:
    """Check and return the error of reading ``content``; empty if there is none."""
    path = folder / kind.file
    path.write_bytes(content)
    message = ""
    try:
        kind.read(path)
    except KEError as error:
        message = error.message
    assert "\n" not in message
    assert not message or kind.file in message or str(folder) in message
    return message


def changed(value: Any, new: Any) -> Iterator[Any]:
    """Yield ``value`` with each of its parts replaced, and without each of its fields."""
    yield new
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: each for key, each in value.items() if key != name}
            yield {name: new} | value | {"unknown": new}
            yield from (value | {name: other} for other in changed(part, new))
    if isinstance(value, list):
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in changed(part, new))


def variants(content: bytes, new: Any, most: int) -> list[bytes]:
    """Return up to ``most`` variants of ``content`` (JSON or JSON lines) with one part replaced, evenly chosen."""
    rows = content.splitlines()
    found = [
        b"\n".join([*rows[:at], json.dumps(other).encode(), *rows[at + 1 :]]) + b"\n"
        for at, row in enumerate(rows)
        for other in changed(json.loads(row), new)
    ]
    return found[:: max(1, len(found) // most)]


@pytest.mark.parametrize("name", ALL)
def test_a_valid_file_is_read(name: str, tmp_path: Path) -> None:
    assert read(ALL[name], ALL[name].sound, tmp_path) == ""


@pytest.mark.parametrize("name", ALL)
def test_deep_nesting_and_invalid_utf8_give_one_line_errors(name: str, tmp_path: Path) -> None:
    kind = ALL[name]
    half = len(kind.sound) // 2
    nested = (b"[" * DEEP, b'{"a":' * DEEP, b"a = " + b"[" * DEEP)
    foreign = (b"\xff\xfe\x00", kind.sound[:half] + b"\xff" + kind.sound[half:])
    for content in (*nested, *foreign):
        error = read(kind, content + b"\n", tmp_path)
        assert error or kind.skips or (content in foreign and name in ("table.toml", "items.jsonl"))


@pytest.mark.parametrize("name", ALL)
def test_truncated_or_wrong_content_gives_no_traceback(name: str, tmp_path: Path) -> None:
    kind = ALL[name]
    for end in range(0, len(kind.sound), max(1, len(kind.sound) // 20)):
        read(kind, kind.sound[:end], tmp_path)
    for top in TOPS:
        read(kind, top, tmp_path)
        read(kind, top + b"\n" + kind.sound, tmp_path)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("new", WRONG, ids=repr)
def test_a_field_of_a_wrong_type_gives_no_traceback(name: str, new: Any, tmp_path: Path) -> None:
    for content in variants(ALL[name].sound, new, 100):
        read(ALL[name], content, tmp_path)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("raw", RAW, ids=["nan", "infinity", "overflow", "digits", "lists", "objects"])
def test_a_field_that_no_parser_should_accept_is_refused(name: str, raw: bytes, tmp_path: Path) -> None:
    kind = ALL[name]
    for content in variants(kind.sound, MARK, 15):
        if json.dumps(MARK).encode() in content:
            assert read(kind, content.replace(json.dumps(MARK).encode(), raw), tmp_path) or kind.skips
