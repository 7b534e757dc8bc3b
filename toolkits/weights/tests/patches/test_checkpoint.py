"""Edited checkpoints are reverted bit for bit, in any order and every dtype."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
import torch
from attrs import evolve
from safetensors.torch import load_file, save_file

from ke_core.plugin import BadConfig, BadPatch
from ke_weights.patches import (
    applied,
    read_history,
    read_patch,
    reverted,
    weights_digest,
    whole_folder,
    write_checkpoint,
    write_patch,
)
from ke_weights.patches.apply import add
from ke_weights.patches.checkpoint import check_unchanged
from ke_weights.patches.compare import compare_patches
from ke_weights.saving import _named

DTYPES = ["float32", "bfloat16", "float16"]


def bits(model):
    return {name: tensor.detach().clone().view(torch.uint8) for name, tensor in model.module.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def written(model, patch, kit, to):
    with applied(model, patch) as weights, whole_folder(to) as folder:
        write_checkpoint(model, folder, base=patch.info.base, patches=[patch],
                         originals=weights.originals())  # fmt: skip
        return weights_digest(model.module)


def both_kinds(model, kit, family="llama", seed=0):
    one, two = kit.weights[family]
    return kit.make_patch(model, {one: kit.low_rank(seed=seed), two: kit.dense(seed=seed)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_written_checkpoint_reverts_bit_for_bit(opened, kit, tmp_path, family, dtype):
    base = opened(family, dtype)
    before = bits(base)
    patch = both_kinds(base, kit, family)
    digest = written(base, patch, kit, tmp_path / "edited")
    assert same(bits(base), before)
    edited = opened(family, dtype, tmp_path / "edited")
    assert weights_digest(edited.module) == digest != weights_digest(base.module)
    past = read_history(tmp_path / "edited")
    with reverted(edited, past, ()), whole_folder(tmp_path / "back") as folder:
        write_checkpoint(edited, folder, base=past.history.base, patches=(), originals={})
    back = opened(family, dtype, tmp_path / "back")
    assert same(bits(back), before)
    assert weights_digest(back.module) == patch.info.base.weights
    assert read_history(tmp_path / "back") is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_first_of_two_patches_can_be_reverted(opened, kit, tmp_path, dtype):
    model = opened("llama", dtype)
    one, two = both_kinds(model, kit, seed=1), both_kinds(model, kit, seed=2)
    with applied(model, two):
        alone = bits(model)
    with applied(model, one) as first, model.patch() as second:
        add(second, two)
        with whole_folder(tmp_path / "both") as folder:
            originals = {**second.originals(), **first.originals()}
            write_checkpoint(model, folder, base=one.info.base, patches=[one, two], originals=originals)
    both, past = opened("llama", dtype, tmp_path / "both"), read_history(tmp_path / "both")
    now = bits(both)
    with reverted(both, past, [past.patches[1]]):
        assert same(bits(both), alone)
    assert same(bits(both), now)


def test_patch_of_another_model_is_refused_without_changes(opened, kit):
    model = opened("llama")
    patch = both_kinds(model, kit)
    with torch.no_grad():
        model.module.get_parameter("model.norm.weight")[0] += 1
    before = bits(model)
    with pytest.raises(BadPatch, match="made for weights"), applied(model, patch):
        pass
    assert same(bits(model), before)


def test_another_dtype_is_another_base(opened, kit):
    patch = both_kinds(opened("llama", "float32"), kit)
    with pytest.raises(BadPatch, match="in float32") as caught, applied(opened("llama", "bfloat16"), patch):
        pass
    assert "--dtype float32" in caught.value.hint


def test_wrong_shape_is_refused_before_any_update(opened, kit):
    model = opened("llama")
    patch = both_kinds(model, kit)
    other = kit.make_patch(model, {"model.layers.1.mlp.up_proj.weight": kit.low_rank(out=176, inner=64)})
    wrong = evolve(patch, info=evolve(patch.info, weights=(
        *patch.info.weights, evolve(other.info.weights[0], shape=(64, 176)))))  # fmt: skip
    before = bits(model)
    with pytest.raises(BadPatch, match="of shape"), applied(model, wrong):
        pass
    assert same(bits(model), before)


def test_originals_equal_the_base_tensors(opened, kit, tmp_path):
    model = opened("llama", "bfloat16")
    name = kit.weights["llama"][0]
    found = model.module.get_parameter(name).detach().clone()
    written(model, kit.make_patch(model, {name: kit.low_rank()}), kit, tmp_path / "edited")
    kept = load_file(tmp_path / "edited/ke_patches/originals.safetensors")
    assert list(kept) == [name]
    assert torch.equal(kept[name], found)
    assert kept[name].dtype == torch.bfloat16


def test_damaged_originals_are_detected(opened, kit, tmp_path):
    model = opened("llama")
    patch = both_kinds(model, kit)
    written(model, patch, kit, tmp_path / "edited")
    file = tmp_path / "edited/ke_patches/originals.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    edited, past = opened("llama", path=tmp_path / "edited"), read_history(tmp_path / "edited")
    now = bits(edited)
    with pytest.raises(BadPatch, match="do not restore weights"), reverted(edited, past, ()):
        pass
    assert same(bits(edited), now)
    file.write_bytes(content[:50])
    with pytest.raises(BadPatch, match="is damaged"):
        read_history(tmp_path / "edited")


@pytest.mark.parametrize("file", ["../outside.safetensors", "/outside.safetensors", "a/b", "..\\x"])
def test_history_with_a_file_outside_its_folder_is_refused(opened, kit, tmp_path, file):
    base = opened("llama")
    patch = both_kinds(base, kit)
    written(base, patch, kit, tmp_path / "edited")
    about = tmp_path / "edited" / "ke_patches"
    (about / f"1-{patch.id}.safetensors").rename(tmp_path / "edited" / "outside.safetensors")
    raw = json.loads((about / "history.json").read_text())
    raw["patches"][0]["file"] = file
    (about / "history.json").write_text(json.dumps(raw))
    with pytest.raises(BadPatch, match="names a file outside its folder"):
        read_history(tmp_path / "edited")


def test_history_with_a_wrong_patch_is_refused(opened, kit, tmp_path):
    base = opened("llama")
    patch, other = both_kinds(base, kit), both_kinds(base, kit, seed=7)
    written(base, patch, kit, tmp_path / "edited")
    file = tmp_path / "edited" / "ke_patches" / f"1-{patch.id}.safetensors"
    write_patch(other, file)
    with pytest.raises(BadPatch, match=f"is patch {other.id}, and history.json says {patch.id}"):
        read_history(tmp_path / "edited")


def test_patch_file_is_deterministic(opened, kit, tmp_path):
    base = opened("llama")
    patch = both_kinds(base, kit)
    files = set()
    for number in range(8):
        write_patch(patch, tmp_path / "p.safetensors")
        written(base, patch, kit, tmp_path / f"edited-{number}")
        files.add((tmp_path / "p.safetensors").read_bytes())
        files.add((tmp_path / f"edited-{number}" / "ke_patches" / f"1-{patch.id}.safetensors").read_bytes())
    assert len(files) == 1
    assert read_patch(tmp_path / "p.safetensors").id == patch.id
    content = [
        {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in sorted(tmp_path.glob("edited-*"))
    ]
    assert all(one == content[0] for one in content)


@pytest.mark.parametrize("harm", ["another name", "another shape"])
def test_originals_of_another_model_are_a_one_line_error(opened, kit, tmp_path, harm):
    model = opened("llama")
    written(model, both_kinds(model, kit), kit, tmp_path / "edited")
    file = tmp_path / "edited/ke_patches/originals.safetensors"
    name, tensor = next(iter(load_file(file).items()))
    save_file({"no.such.weight": tensor} if harm == "another name" else {name: tensor[:3].contiguous()}, file)
    edited, past = opened("llama", path=tmp_path / "edited"), read_history(tmp_path / "edited")
    with pytest.raises(BadPatch, match=r"originals\.safetensors does not fit the model: "):
        check_unchanged(edited, past, tmp_path / "edited")


WRONG = (None, True, -1, 0.5, "x", [], {}, [[3]], {"a": [1]})


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"\xff", b"[]", b"3", b'{"schema": "1"}', b'{"schema": NaN}', b""])
def test_damaged_history_is_a_clear_error(opened, kit, tmp_path, raw):
    model = opened("llama")
    written(model, both_kinds(model, kit), kit, tmp_path / "edited")
    file = tmp_path / "edited/ke_patches/history.json"
    sound = json.loads(file.read_bytes())
    others = [json.dumps(sound | {name: value}).encode() for name in sound for value in WRONG if value != sound[name]]
    step = sound["patches"][0]
    others += [json.dumps(sound | {"patches": [step | {name: value}]}).encode() for name in step for value in WRONG]
    for content in (raw, *others):
        file.write_bytes(content)
        with suppress(BadPatch):  # a value may be of the right type
            read_history(tmp_path / "edited")


def test_patch_on_top_of_a_removed_patch_is_refused(opened, kit, tmp_path):
    model = opened("llama")
    one = both_kinds(model, kit, seed=1)
    written(model, one, kit, tmp_path / "edited")
    edited, past = opened("llama", path=tmp_path / "edited"), read_history(tmp_path / "edited")
    top = both_kinds(edited, kit, seed=2)
    with pytest.raises(BadPatch, match="on top of"), reverted(edited, past, [top]):
        pass


def test_patch_on_top_of_another_requires_exactly_that_patch(opened, kit, tmp_path):
    model = opened("llama")
    one, beside = both_kinds(model, kit, seed=1), both_kinds(model, kit, seed=3)
    written(model, one, kit, tmp_path / "edited")
    edited, past = opened("llama", path=tmp_path / "edited"), read_history(tmp_path / "edited")
    top = both_kinds(edited, kit, seed=2)
    with applied(edited, top):
        chain = bits(edited)
    with applied(edited, top), edited.patch() as weights:
        add(weights, beside)
        full, now = evolve(past, patches=(one, top, beside)), bits(edited)
        with reverted(edited, full, [one, top]):
            assert same(bits(edited), chain)
        assert same(bits(edited), now)
        for keep in ([top], [top, beside], [beside, top], [one, beside, top]):
            with pytest.raises(BadPatch, match=f"patch {top.id} was made on top of"), reverted(edited, full, keep):
                pass
        assert same(bits(edited), now)


def test_ambiguous_patch_id_is_not_reported_as_missing(tmp_path):
    assert _named("abd", ["abc", "abd"], tmp_path) == "abd"
    with pytest.raises(BadPatch, match=r"2 patches of .* begin with 'ab': abc, abd"):
        _named("ab", ["abc", "abd"], tmp_path)
    with pytest.raises(BadPatch, match="has no patch 'x'"):
        _named("x", ["abc", "abd"], tmp_path)


def test_patch_is_not_applied_twice(opened, kit, tmp_path):
    model = opened("llama")
    one = both_kinds(model, kit)
    written(model, one, kit, tmp_path / "edited")
    edited, past = opened("llama", path=tmp_path / "edited"), read_history(tmp_path / "edited")
    now = bits(edited)
    with pytest.raises(BadPatch, match=f"contains patch {one.id}"), applied(edited, one, past.history):
        pass
    assert same(bits(edited), now)


def test_comparison_counts_facts_and_measures_cosines(opened, kit):
    model = opened("llama")
    first, second = kit.weights["llama"]
    one = kit.make_patch(model, {first: kit.low_rank(seed=1)}, edits=(kit.fact(), kit.fact("Bo", "Dutch")))
    two = kit.make_patch(
        model, {first: kit.low_rank(seed=1), second: kit.dense()}, edits=(kit.fact(), kit.fact("Bo", "Danish"))
    )
    found = compare_patches(one, two)
    assert found.same_base
    assert found.only == (0, 1)
    assert found.weights[0].cosine == pytest.approx(1)
    assert found.common == ("The mother tongue of Danielle Darrieux is",)
    assert [(clash.prompt, clash.targets) for clash in found.clashes] == [
        ("The mother tongue of Bo is", ("Dutch", "Danish"))
    ]


def test_existing_folder_is_replaced_only_with_force(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(BadConfig, match="exists already"), whole_folder(tmp_path / "out"):
        pass
    with whole_folder(tmp_path / "out", force=True) as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]


def test_force_does_not_replace_other_folders(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").write_text("years")
    with (
        pytest.raises(BadConfig, match="is neither a model nor an adapter"),
        whole_folder(tmp_path / "home", force=True),
    ):
        pass
    assert (tmp_path / "home/thesis.tex").read_text() == "years"


@pytest.mark.parametrize(
    ("config", "beside", "said"),
    [
        ('{"port": 80}', "config.json", "is neither a model"),
        ("[", "config.json", "is neither a model"),
        ('{"model_type": "llama"}', "thesis.tex", "contains thesis.tex, which is not part of a model"),
        ('{"model_type": "llama"}', "checkpoint-500/model.safetensors", "contains checkpoint-500, which"),
        ('{"model_type": "llama"}', "facts.safetensors", "contains facts.safetensors, which"),
        ('{"model_type": "llama"}', "suite.json", "contains suite.json, which"),
        ('{"peft_type": "LORA"}', ".git/HEAD", "contains .git, which"),
    ],
)
def test_force_does_not_replace_a_model_folder_with_other_files(tmp_path, config, beside, said):
    home = tmp_path / "home"
    (home / beside).parent.mkdir(parents=True)
    (home / beside).write_text("years")
    (home / ("adapter_config.json" if "peft" in config else "config.json")).write_text(config)
    there = sorted(home.rglob("*"))
    with pytest.raises(BadConfig, match=said), whole_folder(home, force=True):
        pass
    assert sorted(home.rglob("*")) == there


def test_files_have_the_default_mode(tmp_path):
    (tmp_path / "usual").touch()
    with whole_folder(tmp_path / "out") as folder:
        save_file({"a": torch.zeros(1)}, folder / "private.safetensors")
    assert (tmp_path / "out/private.safetensors").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_error_while_writing_leaves_no_folder(tmp_path):
    with pytest.raises(FileExistsError), whole_folder(tmp_path / "out") as folder:
        (folder / "half").mkdir() or (folder / "half").mkdir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_kill_while_writing_leaves_no_folder(tmp_path):
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from ke_weights.patches.place import whole_folder
        with whole_folder(Path(sys.argv[1])) as folder:
            (folder / "config.json").write_text("{}")
            print("writing", flush=True)
            time.sleep(60)
    """)
    out = tmp_path / "out"
    with subprocess.Popen([sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not out.exists()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    with whole_folder(out) as folder:
        (folder / "config.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
