"""Several processes share a run: each request is sent once, and each record counts once."""

import pytest
from attrs import evolve

from ke_core.results.folder import DAMAGED, PART, RunFolder
from ke_core.results.writer import open_writer
from ke_core.runner import evaluate as evaluation
from ke_core.runner.distributed import recording
from ke_core.runner.evaluate import evaluate
from ke_core.runner.plan import Share, groups, stages
from ke_core.runner.world import World, expect, started
from ke_core.spec.errors import BadConfig, BadRun, ProcessLost
from ke_core.spec.facts import Entity
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.records import Batch, Probed, Replied, Usage
from ke_core.spec.results import Answer, Failure
from ke_core.spec.runspec import Plan
from ke_testing.records import make_run_spec


@pytest.fixture
def run_folder(tmp_path):
    return RunFolder.create(tmp_path / "run", make_run_spec())


def case(number):
    query = Query(id="q", texts=("Which?",), gold=Gold(entities=(Entity(label="This"),)))
    return Case(id=str(number), edits=(), probes=(Probe(id="p", aspect="efficacy", queries=(query,)),))


def made(n, **plan):
    return groups([case(number) for number in range(n)], Plan(**plan), 0, lambda _k, _seed: None)


def worlds(size):
    return [World(rank=rank, size=size) for rank in range(size)]


def asked(to_do, size, **how):
    """Return the (group, case) pairs that each process asks."""
    shares = [Share.of(to_do, world, **how) for world in worlds(size)]
    return [[(group.id, case.id) for group in to_do for case in share.cases(group)] for share in shares]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "plan", [{"size": 1}, {"size": 3}, {"size": None}, {"protocol": "sample", "size": 4}, {"size": 2, "eval_limit": 5}]
)
def test_every_case_is_asked_by_exactly_one_process(size, plan):
    to_do = made(11, **plan)
    whole = [(group.id, case.id) for group in to_do for case in group.cases]
    parts = asked(to_do, size)
    assert sorted(pair for part in parts for pair in part) == sorted(whole)


def test_each_group_is_edited_by_one_process():
    to_do = made(10, size=2)
    taken = [[group.id for group in to_do if Share.of(to_do, world).takes(group)] for world in worlds(2)]
    assert taken == [["batch-1", "batch-3", "batch-5"], ["batch-2", "batch-4"]]


def test_the_cases_of_one_group_are_divided_among_processes():
    (group,) = to_do = made(5, size=None)
    shares = [Share.of(to_do, world) for world in worlds(2)]
    assert [[case.id for case in share.cases(group)] for share in shares] == [["0", "2", "4"], ["1", "3"]]
    assert [group.id in share.leads for share in shares] == [True, False]
    assert all(share.takes(group) for share in shares)


def test_every_process_applies_all_sequential_steps():
    plan = Plan(sequential=True, eval_every=1)
    steps = [stage.asked for stage in stages(made(8, size=2, sequential=True, eval_every=1), plan)]
    parts = asked(steps, 2, whole=False)
    assert {group for group, _case in parts[0]} == {group for group, _case in parts[1]} == {g.id for g in steps}
    assert not set(parts[0]) & set(parts[1])


def replied(batch, number, text="This"):
    return Replied(batch=batch, case=str(number), phase="after", style="direct", replies={"q": Answer(text=text)})


def write_part(run_folder, rank, *records):
    """Write the part of a process and return its path."""
    path = run_folder.path / PART.format(rank=rank)
    with open_writer(path) as writer:
        writer.append(records)
    return path


def merged(run_folder):
    """Return the records after merging the parts of a run with one group of two cases."""
    with recording(run_folder, World(), made(2, size=None)):
        pass
    return list(run_folder.read())


def test_records_are_merged_in_the_order_of_the_plan(run_folder):
    to_do = made(4, size=None)
    (group,) = to_do
    batch = Batch(batch=group.id, cases=("0", "1", "2", "3"), edits=1)
    base = [evolve(replied("base", number), phase="before") for number in range(4)]
    probed = Probed(batch=group.id, metric="m", phase="after", replies={})
    for rank, records in enumerate(
        [
            [base[0], base[2], batch, replied(group.id, 0), replied(group.id, 2), probed],
            [base[1], base[3], evolve(batch, seconds=9.0), replied(group.id, 1), replied(group.id, 3)],
        ]
    ):
        write_part(run_folder, rank, *records)
    with recording(run_folder, World(), to_do):
        assert list(run_folder.read()) == [*base, batch, *(replied(group.id, n) for n in range(4)), probed]
    assert not list(run_folder.path.glob("records.part*"))


def test_recorded_replies_are_not_merged_twice(run_folder):
    """A process that is killed between writing and deleting leaves both."""
    with run_folder.writing() as writer:
        writer.append([replied("batch-1", 0)])
    write_part(run_folder, 1, replied("batch-1", 0, "Other"), replied("batch-1", 1))
    assert merged(run_folder) == [replied("batch-1", 0), replied("batch-1", 1)]


@pytest.mark.parametrize("error", ["ServerDown", "ProcessLost"])
def test_replies_repeated_after_a_server_failure_are_merged_once(run_folder, error):
    """The second merge repeats one that was killed between writing and deleting."""
    down = Failure(error=error, message="gone")
    sick, probed_sick = evolve(replied("batch-1", 0), replies={"q": down}), probed({"p": down})
    with run_folder.writing() as writer:
        writer.append([sick, probed_sick, replied("batch-1", 1)])
    for _start in range(2):
        write_part(run_folder, 1, sick, replied("batch-1", 1, "Other"))  # of the previous start
        assert merged(run_folder) == [sick, probed_sick, replied("batch-1", 1)]
    for _start in range(2):
        write_part(run_folder, 1, replied("batch-1", 0), probed({}))
        assert merged(run_folder)[3:] == [replied("batch-1", 0), probed({})]


def probed(replies):
    return Probed(batch="batch-1", metric="m", phase="after", replies=replies)


def test_the_usage_of_each_process_counts(run_folder):
    paid = [Usage(id=name, requests=1, prompt_tokens=7) for name in ("", "a", "b")]
    with run_folder.writing() as writer:
        writer.append(paid[1:2])  # killed between writing and deleting
    for rank, one in enumerate(paid):
        write_part(run_folder, rank, one)
    assert sorted(merged(run_folder), key=lambda one: one.id) == paid


@pytest.mark.parametrize(
    ("line", "damaged"),
    [(b'{"kind":"replied","ba', None), (b'{"kind":"repl\x00\x00"}\n', b'{"kind":"repl\x00\x00"}\n')],
    ids=["truncated", "damaged"],
)
def test_an_unreadable_last_line_of_a_part_is_skipped_and_a_damaged_one_set_aside(run_folder, line, damaged):
    with write_part(run_folder, 1, replied("batch-1", 0)).open("ab") as stream:
        stream.write(line)
    assert merged(run_folder) == [replied("batch-1", 0)]
    aside = run_folder.path / DAMAGED
    assert (aside.read_bytes() if aside.exists() else None) == damaged


def test_a_dead_process_gives_a_one_line_error():
    def gone():
        raise RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:3000")

    with pytest.raises(ProcessLost, match=r"another of the 2 processes of this run has died \(this is process 1\)"):
        World(rank=1, size=2, meet=gone).meet()


def test_a_wrong_number_of_processes_is_refused(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    expect(None)
    expect(1)
    with pytest.raises(BadConfig, match="--processes 2, and 1 were started"):
        expect(2)


@pytest.mark.parametrize("told", ["", "two", "0", "-1"])
def test_an_invalid_world_size_is_refused(told):
    with pytest.raises(BadConfig, match="WORLD_SIZE is"):
        started({"WORLD_SIZE": told})
    assert started({}) == 1
    assert started({"WORLD_SIZE": "3"}) == 3


def test_a_part_that_is_being_written_is_not_merged(run_folder):
    part = run_folder.path / PART.format(rank=1)
    with open_writer(part) as writer:
        writer.append([replied("batch-1", 0)])
        with pytest.raises(BadRun, match="another process is writing"), recording(run_folder, World(), made(2)):
            pass
    assert part.exists()


def test_records_of_a_process_that_are_missing_stop_the_run(fakes, tmp_path, monkeypatch):
    """The second process wrote to another disk."""
    whole = fakes.make_job(6, plan=Plan(size=2))
    folder = RunFolder.create(tmp_path, whole.spec)
    monkeypatch.setattr(evaluation, "world", lambda: World(rank=0, size=2))
    with pytest.raises(BadRun, match=r"process 1 of 2 has left no records: .*records.part-1.jsonl is missing"):
        evaluate(whole, folder)
    assert not (folder.path / "scores.json").exists()
    assert not folder.finished
    monkeypatch.undo()
    evaluate(fakes.make_job(6, plan=Plan(size=2)), folder)
    assert folder.finished
