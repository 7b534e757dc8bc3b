"""The completion cache survives kills, damage and other processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ke_core.engine.cache import CompletionCache, key_of
from ke_core.spec.errors import ContentRefused, KEError
from ke_core.spec.requests import Generate, Generated, Score
from ke_core.spec.results import Scored

TEXT = Generated(text="Páris\n\x00", finish="stop", prompt_tokens=3, tokens=2)
SCORED = Scored(logprobs=(-0.1234567890123, -1e-300), tokens=(1, 2))


def test_completions_are_kept_exactly_across_processes(tmp_path):
    CompletionCache(tmp_path / "c").put({"a": TEXT, "b": SCORED})
    assert CompletionCache(tmp_path / "c").get(["a", "b", "absent"]) == {"a": TEXT, "b": SCORED}


def test_charged_refusals_are_cached(tmp_path):
    CompletionCache(tmp_path / "c").put({"a": ContentRefused("withheld", charged=True)})
    found = CompletionCache(tmp_path / "c").get(["a"])["a"]
    assert isinstance(found, ContentRefused)
    assert (found.message, found.charged) == ("withheld", True)


def test_thousands_of_keys_are_looked_up_at_once(tmp_path):
    cache = CompletionCache(tmp_path / "c")
    cache.put({str(i): TEXT for i in range(2500)})
    assert len(cache.get(str(i) for i in range(5000))) == 2500


def test_the_key_contains_everything_that_determines_the_text():
    base = Generate(prompt="p")
    others = [
        ("m", Generate(prompt="q")), ("n", base), ("m", Generate(prompt="p", max_tokens=3)),
        ("m", Generate(prompt="p", stop=("\n",))), ("m", Score(prompt="p", continuations=("c",))),
        ("m", Score(prompt="p", continuations=("c", "d"))), ("m", Score(prompts=("p", "q"), continuations=("c", "d"))),
        ("m", Score(continuations=("c",))), ("m", Score(continuations=("pc",))),
        ("m", Generate(prompt="p", temperature=1.0, seed=1)),
        ("m", Generate(prompt="p", temperature=1.0, seed=2)), ("m", Generate(prompt="p", temperature=0.5, seed=1)),
        ("m", Generate(prompt="p", temperature=1.0, seed=1, top_k=5)),
    ]  # fmt: skip
    keys = {key_of("m", base), *(key_of(model, request) for model, request in others)}
    assert len(keys) == 1 + len(others)
    one, each = Score(prompt="p", continuations=("c", "d")), Score(prompts=("p", "p"), continuations=("c", "d"))
    assert key_of("m", one) == key_of("m", each)
    assert key_of("m", base) == key_of("m", Generate(prompt="p", seed=9))  # greedy text has no seed


def test_a_damaged_entry_counts_as_missing(tmp_path):
    cache = CompletionCache(tmp_path / "c")
    cache.put({"a": TEXT, "b": TEXT, "c": TEXT})
    with cache._base as base:
        base.execute("UPDATE completion SET value = replace(value, 'Pá', 'Po') WHERE key = 'a'")
        base.execute("UPDATE completion SET value = NULL WHERE key = 'b'")
    assert cache.get(["a", "b", "c"]) == {"c": TEXT}
    cache.put({"a": SCORED})
    assert cache.get(["a"]) == {"a": SCORED}


@pytest.mark.parametrize("damage", [b"not a database " * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_damaged_file_is_replaced(tmp_path, damage):
    (tmp_path / "c").write_bytes(damage)
    cache = CompletionCache(tmp_path / "c")
    assert cache.get(["a"]) == {}
    cache.put({"a": TEXT})
    assert CompletionCache(tmp_path / "c").get(["a"]) == {"a": TEXT}


def test_a_file_that_is_damaged_while_open_is_replaced(tmp_path):
    cache = CompletionCache(tmp_path / "c")
    cache.put({str(i): TEXT for i in range(1000)})
    size = (tmp_path / "c").stat().st_size
    with (tmp_path / "c").open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xff" * (size - 4096))
    cache.get(str(i) for i in range(1000))
    cache.put({"a": TEXT})
    cache.put({"a": TEXT})
    assert cache.get(["a"]) == {"a": TEXT}


def test_completions_are_written_again_after_a_damaged_file_is_replaced(tmp_path):
    cache = CompletionCache(tmp_path / "c")
    cache.put({str(i): TEXT for i in range(1000)})
    (tmp_path / "c").write_bytes(b"not a database " * (tmp_path / "c").stat().st_size)
    cache.put({"a": TEXT, "b": SCORED})
    assert cache.get(["a", "b", "1"]) == {"a": TEXT, "b": SCORED}
    assert CompletionCache(tmp_path / "c").get(["a"]) == {"a": TEXT}


@pytest.mark.parametrize("text", ["x\ud83d", "\ude00", "a\\ud83d"])
def test_lone_surrogates_are_cached_exactly(tmp_path, text):
    cache = CompletionCache(tmp_path / "c")
    cache.put({"a": Generated(text=text, finish="length"), "b": ContentRefused(text, charged=True)})
    found = cache.get(["a", "b"])
    assert found["a"] == Generated(text=text, finish="length")
    assert found["b"].message == text


def test_two_engines_share_one_file(tmp_path):
    one, two = CompletionCache(tmp_path / "c"), CompletionCache(tmp_path / "c")
    one.put({"a": TEXT})
    two.put({"b": SCORED})
    assert one.get(["a", "b"]) == two.get(["a", "b"]) == {"a": TEXT, "b": SCORED}


WRITER = """
import sys
from pathlib import Path
from ke_core.engine.cache import CompletionCache
from ke_core.spec.requests import Generated
cache = CompletionCache(Path(sys.argv[1]))
for i in range(int(sys.argv[3])):
    cache.put({f"{sys.argv[2]}{i}-{j}": Generated(text=f"{i}", finish="eos") for j in range(5)})
    print(i, flush=True)
"""


def test_two_processes_write_at_once(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "c"), name, "20"], stdout=subprocess.DEVNULL)
        for name in "ab"
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    keys = [f"{name}{i}-{j}" for name in "ab" for i in range(20) for j in range(5)]
    assert len(CompletionCache(tmp_path / "c").get(keys)) == 200


def test_a_killed_writer_leaves_whole_entries(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "c"), "a", "100000"], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        for _ in range(5):
            writer.stdout.readline()
        time.sleep(0.05)
        os.kill(writer.pid, signal.SIGKILL)
    cache = CompletionCache(tmp_path / "c")
    found = cache.get(f"a{i}-{j}" for i in range(5) for j in range(5))
    assert len(found) == 25
    cache.put({"b": TEXT})
    assert cache.get(["b"]) == {"b": TEXT}


def test_completions_that_are_not_json_are_not_cached():
    cache = CompletionCache()
    cache.put({"a": Scored(logprobs=(-float("inf"),), tokens=(1,)), "b": TEXT})
    assert cache.get(["a", "b"]) == {"b": TEXT}


def test_an_unwritable_cache_gives_a_one_line_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KEError, match="cannot write"):
        CompletionCache(tmp_path / "file" / "c")
    cache = CompletionCache(tmp_path / "c")
    cache._base.execute("PRAGMA max_page_count = 10")
    with pytest.raises(KEError, match=r"completion cache .*: database or disk is full") as full:
        cache.put({str(i): TEXT for i in range(2000)})
    assert full.value.hint
    assert cache.get(["1"]) == {}
