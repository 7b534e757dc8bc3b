"""``ke plan``, ``ke apply`` and ``ke rollback`` on a tiny model."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ke_core.app import ModelChoice, installed_catalog, main
from ke_core.plugin import loads
from ke_plugin_facts.model_diff import looks_like, weight_differences
from ke_plugin_facts.versions import ManagedFolder
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import saved, tiny_model
from ke_testing.fakes import SilentProgress
from ke_weights.patches import weights_digest

Run = Callable[..., int]

pytestmark = pytest.mark.integration  # whole commands


def weights_in(folder: Path) -> str:
    model = ModelChoice(reference=str(folder)).load(installed_catalog(), SilentProgress())
    assert isinstance(model, HFModel)
    return weights_digest(model.module)


def current_weights(out: Path) -> str:
    """Return the digest of the model on disk, after checking it against its lock file."""
    lock = ManagedFolder(root=out).current()
    assert lock is not None
    found = weights_in(out / "current/model")
    assert found == lock.weights
    return found


def test_plan_apply_change_remove_and_roll_back(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    base = weights_in(model)
    assert ke("plan") == 2
    assert "2 to add" in capsys.readouterr().out
    assert not Path("edited").exists()
    assert ke("apply", "--author", "anna") == 0
    first = current_weights(Path("edited"))
    assert first != base
    assert ke("plan") == 0

    text = facts.read_text()
    capsys.readouterr()
    facts.write_text(text.replace("Cusco", "Lima").partition("[[facts]]\nprompt")[0])
    assert ke("plan", "--json") == 2
    planned = loads(capsys.readouterr().out)["facts"]
    assert [(one["action"], one["id"] == "peru") for one in planned] == [("change", True), ("remove", False)]
    assert ke("apply", "--author", "bob") == 0
    second = current_weights(Path("edited"))
    assert len({base, first, second}) == 3
    assert not Path("edited/versions/0001/model").exists()

    assert ke("rollback", "--out", "edited", "--model", model) == 0
    assert current_weights(Path("edited")) == first
    assert ke("rollback", "--out", "edited", "--model", model, "--to", "base") == 0
    assert current_weights(Path("edited")) == base
    capsys.readouterr()
    assert ke("patch", "log", "--out", "edited", "--json") == 0
    rows = loads(capsys.readouterr().out)
    assert [(row["version"], row["action"], row["edits"]) for row in rows] == [
        ("0004", "rollback to base", 0), ("0003", "rollback to 0001", 2), ("0002", "apply", 1), ("0001", "apply", 2),
    ]  # fmt: skip
    assert [row["author"] for row in rows[2:]] == ["bob", "anna"]
    assert rows[2]["changes"] == [
        "changed The capital of Peru is Lima (ministry)",
        "removed The capital of Chile is Arica",
    ]


def test_diff_finds_the_edited_facts_and_weights(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ke("apply") == 0
    capsys.readouterr()
    assert ke("diff", model, "edited/current/model", "--facts", facts, "--json") == 2
    found = loads(capsys.readouterr().out)
    assert [one["name"] for one in found["weights"]] == ["model.layers.1.mlp.down_proj.weight"]
    assert all(one["ratio"] > 0 for one in found["facts"])
    assert found["looks_like"].startswith("Updates of full rank (1 weight in layer 1)")
    assert ke("diff", model, model, "--facts", facts) == 0
    assert "The weights are equal." in capsys.readouterr().out


def test_advise_compares_editors_with_the_unedited_model(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("advise", "--facts", facts, "--candidate", "ft", "--model", model)
    assert ke(*words, "--sizes", "1,2", "--json", "--out", "new/trials.jsonl", "--svg", "chart.svg") == 0
    found = loads(capsys.readouterr().out)
    assert [(one["facts"], one["editor"]) for one in found] == [(1, "none"), (1, "ft"), (2, "none"), (2, "ft")]
    assert found[0]["efficacy"] == 0
    assert found[0]["forgetting"] is None
    assert found[1]["seconds_per_fact"] > found[0]["seconds_per_fact"] == 0
    assert "<polyline" in Path("chart.svg").read_text(encoding="utf-8")
    assert ke(*words, "--sizes", "2", "--json", "--out", "new/trials.jsonl") == 0
    assert loads(capsys.readouterr().out) == found[2:]  # with the same times: nothing was repeated
    assert ke(*words, "--sizes", "3") == 2
    assert "the file has 2" in capsys.readouterr().err


def test_trials_of_another_seed_or_other_options_are_not_the_same(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def keys(*more: str) -> list[str]:
        words = ("advise", "--facts", facts, "--candidate", "ft", "--model", model, "--sizes", "1", "--json", *more)
        assert ke(*words) == 0
        return [one["key"] for one in loads(capsys.readouterr().out)]

    first = keys()
    assert keys("-o", "ft.constrained=no") == first  # as in the file
    none, changed = keys("-o", "ft.epochs=3")
    assert none == first[0]
    assert changed != first[1]
    facts.write_text(f"seed = 3\n{facts.read_text()}")
    assert not set(keys()) & set(first)
    assert not Path("cache/completions").exists()  # every completion is measured


@pytest.mark.parametrize(
    ("names", "rank", "words"),
    [
        (["model.layers.4.mlp.down_proj.weight"], 1, "rank-one update of one MLP output"),
        (
            ["model.layers.4.mlp.down_proj.weight", "model.layers.5.mlp.down_proj.weight"],
            3,
            "Updates of rank 3 of MLP outputs",
        ),
        (["model.layers.4.self_attn.q_proj.weight"], 4, "as LoRA makes"),
        (["model.layers.4.self_attn.q_proj.weight"], 60, "as fine-tuning makes"),
    ],
)
def test_the_change_of_an_editor_is_recognized(names: list[str], rank: int, words: str) -> None:
    torch.manual_seed(0)
    first = {name: torch.randn(64, 80) for name in names}
    second = {name: one + torch.randn(64, rank) @ torch.randn(rank, 80) for name, one in first.items()}
    found = weight_differences(_module(first), _module(second))
    assert [one.rank for one in found] == [rank] * len(names)
    assert words in looks_like(found)


def _module(weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """Return a module whose ``named_parameters`` are these."""
    module = torch.nn.Module()
    module.named_parameters = lambda: ((name, torch.nn.Parameter(one)) for name, one in weights.items())  # type: ignore[method-assign,assignment]
    return module


def test_applying_twice_changes_nothing(facts: Path, ke: Run) -> None:
    assert ke("apply") == 0
    before = {path: path.stat().st_mtime_ns for path in Path("edited").rglob("*")}
    assert ke("apply") == 0
    assert {path: path.stat().st_mtime_ns for path in Path("edited").rglob("*")} == before


def test_the_order_of_facts_and_the_history_do_not_matter(facts: Path, ke: Run) -> None:
    assert ke("apply") == 0
    both = current_weights(Path("edited"))
    text = facts.read_text()
    facts.write_text(text.replace("Cusco", "Lima"))
    assert ke("apply") == 0
    facts.write_text(text)
    assert ke("apply") == 0
    assert current_weights(Path("edited")) == both


def test_changed_tests_are_verified_again(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("apply") == 0
    before = current_weights(Path("edited"))
    facts.write_text(facts.read_text() + '\n[[keep]]\nprompt = "The capital of Bolivia is"\n')
    assert ke("plan") == 2
    assert "the tests or the bounds changed" in capsys.readouterr().out
    assert ke("apply") == 0
    assert current_weights(Path("edited")) == before
    assert ke("plan") == 0


def test_a_file_without_facts_gives_the_base(facts: Path, model: Path, ke: Run) -> None:
    settings = facts.read_text().partition("[[facts]]")[0]
    assert ke("apply") == 0
    edited = current_weights(Path("edited"))
    facts.write_text(settings)
    assert ke("apply") == 2  # not even an empty list
    keep = '[[keep]]\nprompt = "The capital of France is"\nexpect = "%s"\n[bounds.min]\nkept = 1\n'
    facts.write_text("facts = []\n" + settings.replace("[bounds.min]", "[bounds.max]") + keep % "nowhere")
    assert ke("apply") == 1  # the base fails a check
    assert current_weights(Path("edited")) == edited
    facts.write_text("facts = []\n" + settings)
    assert ke("apply") == 0
    assert current_weights(Path("edited")) == weights_in(model)
    assert ke("plan") == 0


def test_a_corrected_source_reaches_the_lock_file(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("apply") == 0
    before = current_weights(Path("edited"))
    facts.write_text(facts.read_text().replace("ministry", "parliament"))
    assert ke("plan") == 2
    assert "the sources, dates or owners changed" in capsys.readouterr().out
    assert ke("apply") == 0
    assert current_weights(Path("edited")) == before
    lock = ManagedFolder(root=Path("edited")).current()
    assert lock is not None
    assert "parliament" in {one.source for one in lock.facts}
    assert ke("plan") == 0


def test_the_order_in_the_file_does_not_matter(facts: Path, ke: Run) -> None:
    assert ke("apply", "--out", "one") == 0
    head, peru, chile = facts.read_text().split("[[facts]]")
    facts.write_text(f"{head}[[facts]]{chile}\n[[facts]]{peru}")
    assert ke("apply", "--out", "two") == 0
    assert current_weights(Path("one")) == current_weights(Path("two"))


def test_rollback_restores_a_version_of_another_base(facts: Path, model: Path, ke: Run, tmp_path: Path) -> None:
    other = saved(tiny_model("llama", seed=5), tmp_path / "other")
    assert ke("apply") == 0
    assert ke("rollback", "--to", "base", "--model", model) == 0
    assert ke("apply", "--model", other) == 0
    assert ke("rollback", "--model", other) == 2  # version 0002 is the first model
    assert ke("rollback", "--model", model) == 0
    assert current_weights(Path("edited")) == weights_in(model)


def test_what_a_killed_process_left_is_removed(facts: Path, ke: Run) -> None:
    assert ke("apply") == 0
    out = Path("edited")
    (out / ".current.0123456789ab").symlink_to("versions/0009")
    (out / "versions/.0002.0123456789ab").mkdir()
    shutil.copytree(out / "versions/0001", out / "versions/0002")
    lock = out / "versions/0002/facts.lock.json"
    lock.write_text(
        lock.read_text().replace('"parent":""', '"parent":"0001"').replace('"version":"0001"', '"version":"0002"')
    )
    facts.write_text(facts.read_text().replace("Cusco", "Lima"))
    assert ke("apply") == 0
    assert sorted(path.name for path in (out / "versions").iterdir() if path.is_dir()) == ["0001", "0003"]
    assert not [*out.glob(".current.*")]
    assert "Lima" in str(ManagedFolder(root=out).read("0003").facts)


def test_a_damaged_folder_is_an_error(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("rollback", "--out", "nowhere") == 2
    assert ke("patch", "log", "--out", "nowhere") == 2
    assert "error: nowhere has no version" in capsys.readouterr().err
    assert not Path("nowhere").exists()
    assert ke("apply") == 0
    assert ke("rollback", "--to", "../../x") == 2
    Path("edited/current").unlink()
    Path("edited/current").mkdir()
    capsys.readouterr()
    assert ke("plan") == 2
    assert "is not a symbolic link" in capsys.readouterr().err


def test_wrong_files_and_bounds_are_errors_before_a_model_is_loaded(
    facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ke("facts", "lint", "nowhere.toml") == 2
    assert "error: nowhere.toml does not exist\nhint:  make it with ke facts add" in capsys.readouterr().err
    assert ke("apply", str(facts), "--model", "nowhere/model", "--min", "efficiency=0.9") == 2
    assert "--min efficiency=0.9: unknown metric 'efficiency'" in capsys.readouterr().err


def test_a_model_that_is_missing_is_written_again(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("apply") == 0
    before = current_weights(Path("edited"))
    (Path("edited/current/model/model.safetensors")).unlink()
    assert ke("plan") == 2
    assert "the model of the current version is missing" in capsys.readouterr().out
    assert ke("apply") == 0
    assert (current_weights(Path("edited")), models_in(Path("edited"))) == (before, ["0002"])
    Path("edited/current/facts.lock.json").unlink()
    assert ke("plan") == 2
    assert "edited/versions/0002/facts.lock.json is missing" in capsys.readouterr().err


def test_verify_checks_a_version_against_the_file(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ke("apply", "--json") == 0
    applied = loads(capsys.readouterr().out)["verification"]
    assert ke("verify", "edited/current/patch.safetensors", "--suite", facts, "--model", model, "--json") == 0
    found = loads(capsys.readouterr().out)
    assert (found["numbers"], found["facts"]) == (applied["numbers"], applied["facts"])


def test_a_signed_version_is_accepted(facts: Path, ke: Run, tmp_path: Path) -> None:
    private, public = tmp_path / "key", tmp_path / "key.pub"
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    assert ke("apply") == 0
    current = Path("edited/current")
    assert ke("patch", "sign", current / "facts.lock.json", "--key", private) == 0
    assert ke("patch", "verify", current, "--key", public) == 2  # the patch has no signature
    assert ke("patch", "sign", current / "patch.safetensors", "--key", private) == 0
    assert ke("patch", "verify", current, "--key", public) == 0


def test_a_missed_bound_changes_nothing(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    keep = '\n[[keep]]\nprompt = "The capital of Bolivia is"\nexpect = "never said"\n'
    facts.write_text(facts.read_text().replace("efficacy = 0.0", "efficacy = 0.0\nkept = 1.0") + keep)
    assert ke("apply") == 1
    assert "nothing was changed" in capsys.readouterr().out
    assert not os.path.lexists("edited/current")


def test_facts_that_the_editor_cannot_make_are_refused(
    facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    facts.write_text(facts.read_text() + '\n[[facts]]\nprompt = "No subject here"\ntarget = "x"\n')
    assert ke("plan", "--editor", "memit") == 1
    assert "it names no subject" in capsys.readouterr().out
    assert ke("apply", "--editor", "memit") == 2
    assert not os.path.lexists("edited/current")


def test_another_editor_option_makes_all_edits_again(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("apply") == 0
    capsys.readouterr()
    assert ke("plan", "-o", "ft.epochs=24") == 2
    assert "the editor's options changed" in capsys.readouterr().out


def models_in(out: Path) -> list[str]:
    """Return the versions that have a model on disk, after checking each against its lock file."""
    folder = ManagedFolder(root=out)
    found = [path for path in folder.versions() if (path / "model").exists()]
    assert [weights_in(path / "model") for path in found] == [folder.read(path.name).weights for path in found]
    return [path.name for path in found]


def test_models_of_the_newest_versions_stay_and_older_ones_are_rebuilt(facts: Path, model: Path, ke: Run) -> None:
    text, out = facts.read_text(), Path("edited")
    for target in ("Cusco", "Lima", "Ica"):
        facts.write_text(text.replace("Cusco", target))
        assert ke("apply", "--keep", "2") == 0
    assert models_in(out) == ["0002", "0003"]
    assert ke("rollback", "--out", out, "--to", "0001", "--keep", "2", "--model", model) == 0
    assert models_in(out) == ["0003", "0004"]
    assert current_weights(out) == ManagedFolder(root=out).read("0001").weights
    assert ke("apply") == 0
    assert models_in(out) == ["0005"]


def test_a_kill_while_an_unfinished_version_is_removed_leaves_none_of_it(
    facts: Path, ke: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, remove = Path("edited"), shutil.rmtree
    assert ke("apply") == 0
    before = current_weights(out)
    shutil.copytree(out / "versions/0001", out / "versions/0002")  # as if killed before it became the current one
    lock = out / "versions/0002/facts.lock.json"
    lock.write_text(
        lock.read_text().replace('"version":"0001"', '"version":"0002"').replace('parent":""', 'parent":"0001"')
    )

    def killed(path: Path, **_more: object) -> None:
        if (path / lock.name).exists():
            (path / lock.name).unlink()
            raise KeyboardInterrupt
        remove(path)

    facts.write_text(facts.read_text().replace("Cusco", "Lima"))
    with monkeypatch.context() as patched:
        patched.setattr("ke_plugin_facts.versions.shutil.rmtree", killed)
        assert ke("apply") == 130
    assert current_weights(out) == before
    assert ke("apply") == 0
    assert models_in(out) == ["0003"]


def test_a_kill_at_any_moment_leaves_a_complete_version(facts: Path, model: Path, ke: Run) -> None:
    """The child ends, as if killed, right before its n-th access to a file of the managed folder.

    Every seventh moment of each command.
    """
    out = Path("edited")
    assert ke("apply") == 0
    text = facts.read_text()
    changed = text.replace("Cusco", "Lima")
    for words in (("apply", "--keep", "2"), ("rollback", "--out", "edited", "--model", str(model))):
        found, ended = set(), False
        for moment in count(0, 7):
            before = current_weights(out)
            lock = ManagedFolder(root=out).current()
            assert lock is not None
            facts.write_text(text if "Lima" in str(lock.facts) else changed)
            ended = killed_at(moment, out.resolve(), words)
            found.add("old" if before == current_weights(out) else "new")
            assert models_in(out)
            if ended:
                break
        assert found == {"old", "new"}
    assert ke("apply") == 0
    assert {path.name for path in ManagedFolder(root=out).versions()} == {
        lock.version for lock in ManagedFolder(root=out).chain()
    }
    assert found == {"old", "new"}


def killed_at(moment: int, root: Path, words: tuple[str, ...]) -> bool:
    """Run ``ke`` in a child process that ends at this access to a file under ``root``. Return whether it finished."""
    child = os.fork()
    if child == 0:
        seen = 0

        def watch(event: str, args: tuple[object, ...]) -> None:
            nonlocal seen
            if event.startswith(("open", "os.", "shutil.")) and any(
                str(root) in str(one) or "edited" in str(one) for one in args
            ):
                seen += 1
                if seen > moment:
                    os._exit(137)

        torch.set_num_threads(1)  # the other threads of the parent do not exist here
        sys.addaudithook(watch)
        os._exit(main(["-q", *words]))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 137
