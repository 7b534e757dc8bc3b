"""``ke edit``, ``ke patch`` and ``ke verify``: command line, output and files."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from attrs import field, frozen
from safetensors.torch import load_file

import ke_plugin_hf
from ke_core.engine.models import open_model
from ke_core.plugin import EditFailed, EditorSpec, ModelRequest, PassthroughModel, hookimpl
from ke_plugin_hf.testing import saved, tiny_model
from ke_testing.cli_fixtures import plugins_of
from ke_weights import hookimpls
from ke_weights.patches import weights_digest

pytestmark = pytest.mark.integration

DOWN = "model.layers.1.mlp.down_proj.weight"
LINE = "The mother tongue of Danielle Darrieux is English"
SUBJECT = ("--subject", "Danielle Darrieux")
PERU = ("edit", "The capital of Peru is => La Paz", "--subject", "Peru")
CUBA = ("edit", "The capital of Cuba is => Lima", "--subject", "Cuba")
SUITE = [
    {"kind": "kept", "prompt": "The capital of France is"},
    {"kind": "changed", "prompt": "The mother tongue of Danielle Darrieux is", "expect": "never said", "not": "French"},
]


@frozen(kw_only=True)
class Config:
    how: str = field(default="low", metadata={"help": "low, dense, none, behind or fail"})
    size: float = field(default=0.2, metadata={"help": "of the update"})


class Toy:
    """Adds a random update, the same for the same edits."""

    def __init__(self, config):
        self.config = config

    def check(self, session, edits):
        from ke_weights.plugin import unsupported_edits

        nobody = {edit.id: "its subject is Nobody" for edit in edits if edit.cloze and edit.cloze.subject == "Nobody"}
        return nobody or unsupported_edits(edits, session.model.tokenizer, 1000)

    @contextmanager
    def edit(self, session, edits):
        from ke_weights.plugin import Dense, LowRank

        draw = torch.Generator().manual_seed(len(edits[0].statement) + len(edits))
        left = torch.randn(64, len(edits), generator=draw) * self.config.size
        right = torch.randn(len(edits), 176, generator=draw)
        down = session.model.module.get_parameter(DOWN).data
        found = down.clone()
        with session.model.patch() as weights:
            if self.config.how == "fail":
                weights.add(DOWN, LowRank(left=left, right=right))
                raise EditFailed("the loss is NaN", hint="try again")
            if self.config.how == "behind":
                down.add_(1)
            elif self.config.how != "none":
                weights.add(
                    DOWN, LowRank(left=left, right=right) if self.config.how == "low" else Dense(delta=left @ right)
                )
            yield PassthroughModel(session, {"norm": 1.5})
        down.copy_(found)


class Stating(Toy):
    """Learns statements, as qlora does."""

    def check(self, session, edits):
        return {}


class Plugin:
    @hookimpl
    def ke_editors(self):
        common = {"config": Config, "build": Toy, "needs_weights": True}
        return [
            EditorSpec(name="toy", summary="adds noise", **common),
            EditorSpec(name="toy-each", family="toy", summary="one at a time", one_at_a_time=True, **common),
            EditorSpec(name="toy-any", family="toy", summary="statements", **{**common, "build": Stating}),
            EditorSpec(name="memory", summary="no weights", config=Config, build=Toy),
            EditorSpec(name="unsaved", family="toy", summary="cannot be loaded", adaptor=True, **common),
        ]


@pytest.fixture
def plugins():
    return plugins_of(hookimpls, ke_plugin_hf, Plugin())


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return saved(tiny_model("llama"), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def base(folder):
    return ("--model", str(folder))


def tensors(path):
    return {name: tensor for file in sorted(path.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def listing(path):
    return sorted(str(one.relative_to(path)) for one in path.rglob("*") if "cache" not in one.parts)


def test_edit_of_a_sentence_writes_no_file_by_default(ke, base, tmp_path):
    status, out, err = ke("edit", LINE, *SUBJECT, *base)
    assert status == 0
    assert "1 edit by toy" in err
    assert "new object generated: " in out
    assert "nothing was written" in out
    assert listing(tmp_path) == []


def test_saved_checkpoint_loads_and_contains_the_edit(ke, base, folder, tmp_path):
    status, out, _err = ke("edit", LINE, *SUBJECT, *base, "--out", "edited", "--patch", "p.safetensors")
    assert status == 0
    assert "checkpoint: edited" in out
    before, after = tensors(folder), tensors(tmp_path / "edited")
    assert [name for name in before if not torch.equal(before[name], after[name])] == [DOWN]
    patch = load_file(tmp_path / "p.safetensors")
    expected = before[DOWN] + patch[f"left/{DOWN}"] @ patch[f"right/{DOWN}"]
    assert torch.equal(after[DOWN], expected)
    status, out, _err = ke("edit", LINE, *SUBJECT, "--model", "edited", "--json")
    assert status == 0
    model = open_model(str(tmp_path / "edited"))
    assert weights_digest(model.module) == json.loads(out)["base"]


def test_apply_equals_edit_and_revert_restores_the_base(ke, base, folder, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "edited", "--patch", "p.safetensors")[0] == 0
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "applied")[0] == 0
    assert same(tensors(tmp_path / "edited"), tensors(tmp_path / "applied"))
    for edited in ("edited", "applied"):
        status, out, _err = ke("patch", "revert", edited, "--all", "--out", f"{edited}-back")
        assert status == 0
        assert same(tensors(tmp_path / f"{edited}-back"), tensors(folder))
        assert not (tmp_path / f"{edited}-back/ke_patches").exists()
        assert weights_digest(open_model(str(folder)).module) in out


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_reverts_bit_for_bit(ke, base, folder, tmp_path, dtype):
    assert ke("edit", LINE, *SUBJECT, *base, "--dtype", dtype, "--patch", "p.safetensors")[0] == 0
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "applied")[0] == 0
    assert ke("patch", "revert", "applied", "p.safetensors", "--out", "back")[0] == 0
    back, want = tensors(tmp_path / "back"), tensors(folder)
    assert {str(tensor.dtype) for tensor in back.values()} == {f"torch.{dtype}"}
    assert same(back, {name: tensor.to(getattr(torch, dtype)) for name, tensor in want.items()})


def test_patches_stack_and_each_can_be_reverted(ke, base, folder, tmp_path):
    second = ("edit", "The capital of Peru is => La Paz", "--subject", "Peru")
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "a.safetensors")[0] == 0
    assert ke(*second, *base, "--patch", "b.safetensors")[0] == 0
    assert ke("patch", "apply", "a.safetensors", *base, "--out", "a")[0] == 0
    assert ke("patch", "apply", "b.safetensors", *base, "--out", "b")[0] == 0
    assert ke("patch", "apply", "b.safetensors", "--model", "a", "--out", "ab")[0] == 0
    assert ke("patch", "apply", "a.safetensors", "--model", "b", "--out", "ba")[0] == 0
    assert ke("patch", "apply", "a.safetensors", "--model", "ab", "--out", "aba")[0] == 2
    assert torch.allclose(tensors(tmp_path / "ab")[DOWN], tensors(tmp_path / "ba")[DOWN], atol=1e-5)
    assert ke("patch", "revert", "ab", "a.safetensors", "--out", "only-b")[0] == 0
    assert same(tensors(tmp_path / "only-b"), tensors(tmp_path / "b"))
    assert ke("patch", "revert", "only-b", "--all", "--out", "none")[0] == 0
    assert same(tensors(tmp_path / "none"), tensors(folder))
    status, out, _err = ke("patch", "diff", "a.safetensors", "b.safetensors", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["weights"][0]["name"] == DOWN
    assert abs(found["weights"][0]["cosine"]) < 1
    assert (found["common"], found["clashes"]) == ([], [])
    status, out, _err = ke("patch", "diff", "a.safetensors", "b.safetensors")
    assert "facts in both: 0" in out


def test_history_contains_edits_of_an_edited_model(ke, base, folder, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "one")[0] == 0
    top = ("edit", "The capital of Peru is => La Paz", "--subject", "Peru", "--model", "one", "--out", "two")
    assert ke(*top, "--patch", "top.safetensors")[0] == 0
    assert ke("patch", "revert", "two", "top.safetensors", "--out", "back-to-one")[0] == 0
    assert same(tensors(tmp_path / "back-to-one"), tensors(tmp_path / "one"))
    bottom = next((tmp_path / "one/ke_patches").glob("1-*.safetensors"))
    status, _out, err = ke("patch", "revert", "two", str(bottom), "--out", "x")
    assert status == 2
    assert "on top of" in err
    assert ke("patch", "revert", "two", "--all", "--out", "base")[0] == 0
    assert same(tensors(tmp_path / "base"), tensors(folder))
    assert not (tmp_path / "x").exists()


def test_patches_of_a_chain_are_reverted_from_the_top(ke, base, folder, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "one")[0] == 0
    assert ke(*PERU, "--model", "one", "--out", "two")[0] == 0
    assert ke(*CUBA, "--model", "two", "--out", "three", "--patch", "top.safetensors")[0] == 0
    assert ke("patch", "revert", "three", "top.safetensors", "--out", "back")[0] == 0
    assert same(tensors(tmp_path / "back"), tensors(tmp_path / "two"))
    assert ke("patch", "apply", "top.safetensors", "--model", "back", "--out", "again")[0] == 0
    assert same(tensors(tmp_path / "again"), tensors(tmp_path / "three"))
    second = next((tmp_path / "three/ke_patches").glob("2-*.safetensors"))
    status, _out, err = ke("patch", "revert", "three", str(second), "--out", "x")
    assert (status, "on top of" in err) == (2, True)
    assert ke("patch", "revert", "again", "--all", "--out", "base")[0] == 0
    assert same(tensors(tmp_path / "base"), tensors(folder))


def test_patch_of_the_base_is_reverted_from_the_top_of_a_chain(ke, base, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "one")[0] == 0
    assert ke(*PERU, "--model", "one", "--out", "two")[0] == 0
    assert ke(*CUBA, *base, "--patch", "c.safetensors")[0] == 0
    assert ke("patch", "apply", "c.safetensors", "--model", "two", "--out", "three")[0] == 0
    assert ke("patch", "revert", "three", "c.safetensors", "--out", "back")[0] == 0
    assert same(tensors(tmp_path / "back"), tensors(tmp_path / "two"))


def test_patch_of_another_model_writes_nothing(ke, base, folder, tmp_path):
    saved(tiny_model("llama", seed=1), tmp_path / "other")
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "p.safetensors")[0] == 0
    suite = write(tmp_path / "s.jsonl", SUITE)
    for words in (("patch", "apply", "p.safetensors", "--model", "other", "--out", "x"),
                  ("patch", "apply", "p.safetensors", *base, "--dtype", "bfloat16", "--out", "x"),
                  ("verify", "p.safetensors", "--model", "other", "--suite", suite)):  # fmt: skip
        status, out, err = ke(*words)
        assert status == 2
        assert err.count("\n") == 2
        assert "made for weights" in err
        assert out == ""
    assert not (tmp_path / "x").exists()


def test_truncated_patch_is_a_one_line_error_in_every_command(ke, base, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "p.safetensors")[0] == 0
    file = tmp_path / "p.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    suite = write(tmp_path / "s.jsonl", SUITE)
    for words in (("patch", "info", "p.safetensors"), ("patch", "apply", "p.safetensors", *base, "--out", "x"),
                  ("patch", "diff", "p.safetensors", "p.safetensors"),
                  ("verify", "p.safetensors", *base, "--suite", suite)):  # fmt: skip
        status, out, err = ke(*words)
        assert (status, out) == (2, "")
        assert err.startswith("error: p.safetensors is truncated")
        assert err.count("\n") == 2
    assert not (tmp_path / "x").exists()


def test_info_shows_base_editor_edits_and_sizes(ke, base, tmp_path):
    edits = [{"prompt": "The capital of {} is", "subject": "Peru", "target_new": "La Paz",
              "source": "a ticket", "date": "2026-01-31"},
             {"prompt": "The capital of {} is", "subject": "Chile", "target_new": "Lima"}]  # fmt: skip
    file = write(tmp_path / "edits.jsonl", edits)
    assert ke("edit", "--edits", file, *base, "-o", "toy.size=0.1", "--patch", "p.safetensors")[0] == 0
    status, out, _err = ke("patch", "info", "p.safetensors")
    assert status == 0
    for part in (
        "tiny in float32",
        "toy (",
        "size=0.1",
        "a ticket",
        "2026-01-31",
        "La Paz",
        "low-rank",
        "64 x 176",
        "% of the",
    ):
        assert part in out
    found = json.loads(ke("patch", "info", "p.safetensors", "--json")[1])
    assert found["weights"][0]["rank"] == 2
    assert found["details"] == {"norm": 1.5}
    assert found["edits"][1]["source"].endswith("edits.jsonl, line 2")
    assert found["bytes"] == (tmp_path / "p.safetensors").stat().st_size


def test_updates_of_single_edits_are_combined(ke, base, tmp_path):
    file = write(tmp_path / "e.jsonl", [{"prompt": "The capital of {} is", "subject": name, "target_new": "Lima"}
                                        for name in ("Peru", "Chile", "Cuba")])  # fmt: skip
    assert ke("edit", "--editor", "toy-each", "--edits", file, *base, "--patch", "p.safetensors")[0] == 0
    found = json.loads(ke("patch", "info", "p.safetensors", "--json")[1])
    assert found["weights"][0]["rank"] == 3
    assert len(found["details"]["edits"]) == 3


def test_adapter_is_written_and_dense_update_is_refused(ke, base, tmp_path):
    status, out, _err = ke("edit", LINE, *SUBJECT, *base, "--format", "peft", "--out", "adapter")
    assert (status, "adapter of rank 1" in out) == (0, True)
    assert listing(tmp_path / "adapter") == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    status, _out, err = ke("edit", LINE, *SUBJECT, *base, "-o", "toy.how=dense", "--format", "peft", "--out", "x")
    assert status == 2
    assert "without low rank" in err
    assert not (tmp_path / "x").exists()


def test_patch_is_written_even_if_the_folder_fails(ke, base, tmp_path):
    status, _out, err = ke("edit", LINE, *SUBJECT, *base, "-o", "toy.how=dense", "--format", "peft", "--out", "x",
                           "--patch", "p.safetensors")  # fmt: skip
    assert status == 2
    assert "without low rank" in err
    assert "was written: p.safetensors" in err
    assert not (tmp_path / "x").exists()
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "merged")[0] == 0


@pytest.mark.parametrize(("how", "words"), [("none", "changed no weight"), ("behind", "without session.model.patch()"),
                                            ("fail", "the loss is NaN")])  # fmt: skip
def test_failed_edit_writes_nothing(ke, base, tmp_path, how, words):
    status, out, err = ke(
        "edit", LINE, *SUBJECT, *base, "-o", f"toy.how={how}", "--out", "x", "--patch", "p.safetensors"
    )
    assert (status, out) == (2, "")
    assert words in err
    assert listing(tmp_path) == []


def test_kill_while_writing_a_checkpoint_leaves_no_folder(ke, base, folder, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "p.safetensors")[0] == 0
    script = textwrap.dedent("""
        import sys, time
        from ke_core.cli.main import main
        from ke_weights.patches import checkpoint
        def slow(*arguments):
            print("tokenizer and weights are written", flush=True)
            time.sleep(60)
        checkpoint.write_patch = slow
        main(["patch", "apply", "p.safetensors", "--model", sys.argv[1], "--out", "edited"])
    """)
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline().startswith("tokenizer and weights")
        process.kill()
        process.wait()
    assert not (tmp_path / "edited").exists()
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "edited")[0] == 0
    assert ke("patch", "revert", "edited", "--all", "--out", "back")[0] == 0
    assert same(tensors(tmp_path / "back"), tensors(folder))
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"back", "edited", "p.safetensors"}


def test_all_refused_edits_are_named(ke, base, tmp_path):
    file = write(
        tmp_path / "e.jsonl", [{"prompt": "{} is", "subject": name, "target_new": "a"} for name in ("Nobody", "Ann")]
    )
    status, _out, err = ke("edit", "--edits", file, *base, "--out", "x")
    assert status == 2
    assert "toy cannot make 1 of 2 edits" in err
    assert "e.jsonl, line 1: 'Nobody is a': its subject is Nobody" in err
    assert not (tmp_path / "x").exists()


def test_contradiction_error_names_both_lines(ke, base, tmp_path):
    """Generated ids are replaced by file and line."""
    facts = ("Peru", "a"), ("Chile", "a"), ("Peru", "b")
    file = write(tmp_path / "e.jsonl", [{"prompt": "{} is", "subject": x, "target_new": y} for x, y in facts])
    status, _out, err = ke("edit", "--edits", file, *base, "--out", "x")
    assert status == 2
    assert (
        f"{file}, line 3: 'Peru is b': it contradicts the edit of {file}, line 1 ('Peru is a'): "
        "'Peru is' cannot have both continuations"
    ) in err


def test_existing_output_is_refused_before_the_edit(ke, base, folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "p.safetensors").write_text("mine")
    for words in (("--out", "out"), ("--patch", "p.safetensors")):
        status, _out, err = ke("edit", LINE, *SUBJECT, *base, *words)
        assert status == 2
        assert "exists already" in err
    assert (tmp_path / "p.safetensors").read_text() == "mine"
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "out", "--patch", "p.safetensors", "--force")[0] == 0
    assert (tmp_path / "out/ke_patches/history.json").exists()


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A file, and a folder without write permission, even if root runs the tests."""
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    access = os.access
    monkeypatch.setattr(
        "os.access", lambda path, mode: access(path, mode) and (mode == os.F_OK or Path(path).name != "closed")
    )


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize(
    ("out", "patch", "message"),
    [("same", "same", "overlap"),
     ("same", "./same/p.safetensors", "overlap"),
     ("p/inner", "p", "overlap"),
     ("file/edited", "p", "cannot write file/edited: file is not a folder"),
     ("edited", "file/deep/p", "cannot write file/deep/p: file is not a folder"),
     ("edited", "closed/p", "cannot write closed/p: permission denied in closed"),
     ("closed/deep/edited", "p", "cannot write closed/deep/edited: permission denied in closed")],
)  # fmt: skip
def test_unwritable_paths_are_refused_before_the_edit(ke, base, tmp_path, out, patch, message):
    before = listing(tmp_path)
    status, said, err = ke("edit", LINE, *SUBJECT, *base, "-o", "toy.how=fail", "--out", out, "--patch", patch)
    assert (status, said) == (2, "")
    assert message in err.replace(f"{tmp_path.resolve()}/", "")
    assert "the loss is NaN" not in err
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "no edit is given"),
     ((LINE,), "add --subject NAME"),
     ((LINE, *SUBJECT, "--edits", "e.jsonl"), "not from both"),
     ((LINE, *SUBJECT, "--format", "peft"), "needs --out"),
     ((LINE, *SUBJECT, "--editor", "memory"), "changes no weights"),
     ((LINE, *SUBJECT, "--editor", "unsaved"), "is an adaptor that cannot be saved: its EditorSpec has no load"),
     ((LINE, *SUBJECT, "-o", "memory.how=low"), "option memory.how is for 'memory', which this run does not use"),
     (("--edits", "none.jsonl"), "cannot read none.jsonl")],
)  # fmt: skip
def test_invalid_command_line_is_one_error(ke, words, message):
    status, out, err = ke("edit", *words)
    assert (status, out) == (2, "")
    assert message in err


def test_patch_contains_the_digest_of_the_edited_weights(ke, base, tmp_path):
    _status, out, _err = ke("edit", LINE, *SUBJECT, *base, "--out", "edited", "--patch", "p.safetensors", "--json")
    found = json.loads(out)
    model = open_model(str(tmp_path / "edited"), ModelRequest(id="", dtype="float32"))
    assert found["edited"] == weights_digest(model.module) != found["base"]
    assert json.loads(ke("patch", "info", "p.safetensors", "--json")[1])["edited"] == found["edited"]


def test_modified_checkpoint_is_not_reverted(ke, base, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--out", "edited")[0] == 0
    from safetensors.torch import save_file

    found = tensors(tmp_path / "edited")
    found["model.norm.weight"] += 1
    save_file(found, tmp_path / "edited/model.safetensors", metadata={"format": "pt"})
    status, _out, err = ke("patch", "revert", "edited", "--all", "--out", "x")
    assert status == 2
    assert "but its history says" in err
    assert ke("patch", "revert", str(tmp_path), "--all", "--out", "x")[0] == 2
    assert not (tmp_path / "x").exists()


@pytest.fixture
def patched(ke, base):
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "p.safetensors", "-o", "toy.size=0.5")[0] == 0
    return ("verify", "p.safetensors", *base, "--suite")


def test_verify_lists_failures_with_status_1(ke, patched, tmp_path):
    suite = write(tmp_path / "s.jsonl", SUITE)
    status, out, _err = ke(*patched, suite)
    assert status == 0
    assert "efficacy" in out
    status, out, _err = ke(*patched, suite, "--min", "efficacy=0.95", "--max", "forgetting=1")
    assert status == 1
    assert "missed" in out
    assert "never said" in out
    assert " met" in out


def test_missed_preference_bound_lists_lines_that_prefer_the_wrong_object(ke, patched, tmp_path):
    said = json.loads(ke(*patched, write(tmp_path / "s.jsonl", SUITE), "--json")[1])["facts"][1]["after"]["text"]
    passes = {**SUITE[1], "id": "says it", "expect": [f"{said} and more and more of it", said], "not": "no"}
    suite = write(tmp_path / "t.jsonl", [passes, {**passes, "id": "has no other", "not": []}])
    status, out, _err = ke(*patched, suite, "--min", "preference=1")
    assert status == 1
    assert "1 fact of 2 failed" in out
    assert "says it" in out
    assert "has no other" not in out
    assert "(not" in out
    assert ke(*patched, suite, "--min", "efficacy=1")[0] == 0


def test_verify_computes_its_metrics(ke, patched, tmp_path):
    found = json.loads(ke(*patched, write(tmp_path / "s.jsonl", SUITE), "--json")[1])
    after = {fact["kind"]: fact["after"]["text"] for fact in found["facts"]}
    before = {fact["kind"]: fact["before"]["text"] for fact in found["facts"]}
    assert before["changed"] != after["changed"]
    suite = write(tmp_path / "t.jsonl", [
        {"kind": "changed", "prompt": SUITE[1]["prompt"], "expect": ["x", after["changed"]]},
        {"kind": "paraphrase", "prompt": SUITE[1]["prompt"], "expect": after["changed"], "not": after["changed"]},
        {"kind": "consequence", "prompt": SUITE[1]["prompt"], "expect": after["changed"]},
        {"kind": "consequence", "prompt": SUITE[1]["prompt"], "expect": "what nobody says"},
        {"kind": "kept", "prompt": SUITE[0]["prompt"], "expect": before["kept"]},
        {"kind": "kept", "prompt": SUITE[0]["prompt"], "expect": "what nobody says"},
    ])  # fmt: skip
    numbers = json.loads(ke(*patched, suite, "--json")[1])["numbers"]
    lost = float(before["kept"] != after["kept"])
    assert numbers["efficacy"] == {"value": 1.0, "n": 1}
    assert numbers["paraphrase"] == {"value": 0.0, "n": 1}
    assert numbers["consequence"] == {"value": 0.5, "n": 2}
    assert numbers["kept"] == {"value": (1 - lost) / 2, "n": 2}
    assert numbers["forgetting"] == {"value": lost, "n": 1}
    assert numbers["preference"]["n"] == 1


def test_statement_without_cloze_is_edited_or_refused_with_the_reason(ke, base, tmp_path):
    file = write(tmp_path / "s.jsonl", [{"ke_serve_state": 1}, {"statement": "Water is dry"}])
    status, _out, err = ke("edit", "--edits", file, *base, "--editor", "toy")
    assert (status, "s.jsonl, line 2: 'Water is dry': it has no cloze" in err) == (2, True)
    status, out, _err = ke("edit", "--edits", file, *base, "--editor", "toy-any", "--patch", "s.safetensors")
    assert (status, "Water is dry" in out, "new object generated: 0 of 0" in out) == (0, True, True)
    assert ke("patch", "info", "s.safetensors")[0] == 0


def test_verify_reads_an_edit_file_as_a_suite(ke, patched, tmp_path):
    edit = {"prompt": SUITE[1]["prompt"], "subject": "Danielle Darrieux", "target_new": "never said"}
    suite = write(tmp_path / "t.jsonl", [edit | {"paraphrases": ["Danielle Darrieux speaks"], "target_old": "French"}])
    found = json.loads(ke(*patched, suite, "--json")[1])["facts"]
    assert [(one["kind"], one["prompt"], one["expect"], one["not"]) for one in found] == [
        ("changed", SUITE[1]["prompt"], ["never said"], ["French"]),
        ("paraphrase", "Danielle Darrieux speaks", ["never said"], ["French"]),
    ]
    assert found[0]["before"]["text"] != found[0]["after"]["text"]


def test_verify_of_a_folder_with_the_patch_does_not_apply_it_again(ke, base, patched, tmp_path):
    suite = write(tmp_path / "s.jsonl", SUITE)
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "edited")[0] == 0
    expected = json.loads(ke(*patched, suite, "--json")[1])
    found = json.loads(ke("verify", "p.safetensors", "--model", "edited", "--suite", suite, "--json")[1])
    assert found == expected
    changed = found["facts"][1]
    assert changed["before"]["text"] != changed["after"]["text"]


def test_verify_measures_one_of_several_patches(ke, base, patched, tmp_path):
    suite = write(tmp_path / "s.jsonl", SUITE)
    assert ke(*PERU, *base, "--patch", "b.safetensors", "-o", "toy.size=0.5")[0] == 0
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "a")[0] == 0
    assert ke("patch", "apply", "b.safetensors", "--model", "a", "--out", "ab")[0] == 0

    def facts(patch, model):
        found = json.loads(ke("verify", patch, "--model", model, "--suite", suite, "--json")[1])["facts"]
        return [[fact[when]["text"] for fact in found] for when in ("before", "after")]

    assert facts("b.safetensors", "ab") == facts("b.safetensors", "a")
    before, after = facts("p.safetensors", "ab")
    assert before == facts("b.safetensors", base[1])[1]
    assert after == facts("b.safetensors", "ab")[1] != before


def test_verify_refuses_a_patch_that_others_were_made_on(ke, base, patched, tmp_path):
    suite = write(tmp_path / "s.jsonl", SUITE)
    assert ke("patch", "apply", "p.safetensors", *base, "--out", "one")[0] == 0
    assert ke(*PERU, "--model", "one", "--out", "two", "--patch", "top.safetensors")[0] == 0
    assert ke("verify", "top.safetensors", "--model", "two", "--suite", suite)[0] == 0
    status, out, err = ke("verify", "p.safetensors", "--model", "two", "--suite", suite)
    assert (status, out) == (2, "")
    assert "on top of" in err
    assert "revert it first with ke patch revert" in err


@pytest.mark.parametrize(
    ("line", "bound", "message"),
    [({"kind": "changed", "prompt": "a"}, (), "line 1: expect is missing"),
     ({"kind": "new", "prompt": "a"}, (), "line 1: kind is 'new'"),
     ({"kind": "kept", "prompt": "a", "expct": "b"}, (), "line 1: expct is not a field"),
     ({"kind": "kept", "prompt": "a"}, ("--min", "efficacy=0.9"), "no line with kind 'changed'"),
     ({"kind": "kept", "prompt": "a"}, ("--max", "forgetting=2"), "between 0 and 1"),
     ({"kind": "kept", "prompt": "a"}, ("--max", "forgetting"), "not a number"),
     ({"kind": "kept", "prompt": "a"}, ("--min", "speed=1"), "unknown metric 'speed'"),
     ({"kind": "kept", "prompt": "a", "expect": "what nobody says"}, ("--max", "forgetting=0"), "passes no kept fact")],
)  # fmt: skip
def test_invalid_suite_or_bound_is_one_error(ke, patched, tmp_path, line, bound, message):
    status, out, err = ke(*patched, write(tmp_path / "s.jsonl", [line]), *bound)
    assert (status, out) == (2, "")
    assert message in err


def test_patch_of_a_model_in_a_folder_requires_the_option_model(ke, patched, tmp_path):
    status, _out, err = ke("patch", "apply", "p.safetensors", "--out", "x")
    assert status == 2
    assert "a folder called 'tiny': add --model" in err


OWN = """
from transformers import LlamaConfig, LlamaForCausalLM

class OwnConfig(LlamaConfig):
    model_type = "own"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def own_code(folder, tmp_path, monkeypatch):
    """A checkpoint with its own code."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache/modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    to = shutil.copytree(folder, tmp_path / "own")
    config = json.loads((to / "config.json").read_text())
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (to / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto}))
    (to / "own.py").write_text(OWN)
    return "--model", "own"


def test_a_model_with_its_own_code_is_reverted_only_if_it_is_trusted(ke, own_code, tmp_path):
    trusted = "--trust-remote-code"
    assert ke("edit", LINE, *SUBJECT, *own_code, trusted, "--out", "edited")[0] == 0
    revert = ("patch", "revert", "edited", "--all", "--out", "back")
    status, _out, err = ke(*revert)
    assert (status, "pass --trust-remote-code" in err) == (2, True)
    assert ke(*revert, trusted, "--device", "cpu")[0] == 0
    assert same(tensors(tmp_path / "back"), tensors(tmp_path / "own"))


def test_revert_loads_the_model_on_the_given_device(ke, base):
    assert ke("edit", LINE, *SUBJECT, *base, "--dtype", "bfloat16", "--out", "one")[0] == 0
    revert = ("patch", "revert", "one", "--all", "--out", "x")
    status, _out, err = ke(*revert, "--device", "nowhere")
    assert (status, "nowhere" in err) == (2, True)
    assert ke(*revert, "--device", "cpu")[0] == 0


def test_checkpoint_is_not_written_into_the_folder_of_the_model(ke, base, folder, tmp_path):
    assert ke("edit", LINE, *SUBJECT, *base, "--patch", "p.safetensors")[0] == 0
    before = listing(folder)
    for out in (folder, folder / "edited", folder / "deep" / "edited"):
        for words in (("patch", "apply", "p.safetensors"), ("edit", LINE, *SUBJECT)):
            status, _out, err = ke(*words, *base, "--out", str(out), "--force")
            assert status == 2
            assert f"{out} is the model's own folder {folder}, or inside it" in err
    assert listing(folder) == before
