"""Commands that need no model, and errors in the command line, do not wait for the import of torch."""

import json
import subprocess
import sys

import pytest

from ke_core.plugin import BadPatch
from ke_weights.patches import read_info, read_patch, write_patch

DOWN = "model.layers.1.mlp.down_proj.weight"
CODE = """
import json, sys
from ke_core.cli.main import main
status = main(sys.argv[1:])
print(json.dumps([status, [name for name in ("torch", "transformers") if name in sys.modules]]))
"""
SENTENCE = ("The capital of Peru is Cusco", "--subject", "Peru")


@pytest.fixture
def file(opened, kit, tmp_path):
    write_patch(kit.make_patch(opened(), {DOWN: kit.low_rank()}), tmp_path / "p.safetensors")
    (tmp_path / "suite.jsonl").write_text('{"kind": "changed", "prompt": "The capital of Peru is", "expect": "Cusco"}')
    return tmp_path / "p.safetensors"


def run(folder, *words):
    """Return the output and the status of a command, and which of torch and transformers it imported."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words], check=True, capture_output=True, text=True, timeout=120, cwd=folder
    )
    *_out, last = done.stdout.splitlines()
    return (done.stdout + done.stderr, *json.loads(last))


def test_the_metadata_is_read_without_torch(file):
    assert read_info(file) == read_patch(file).info
    said, status, imported = run(file.parent, "patch", "info", file.name)
    assert (status, imported) == (0, [])
    assert read_patch(file).id in said


def test_a_comparison_imports_torch_only(file):
    assert run(file.parent, "patch", "diff", file.name, file.name)[1:] == (0, ["torch"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("edit", *SENTENCE, "--editor", "ft", "--patch", "p.safetensors"), "p.safetensors exists already"),
        (("edit", *SENTENCE, "--editor", "parrot"), "editor parrot changes no weights"),
        (("edit", *SENTENCE, "--editor", "ft", "-o", "ft.layer=1"), "ft has no option 'layer'"),
        (("verify", "p.safetensors", "--suite", "suite.jsonl", "--min", "eficacy=0.9"), "unknown metric 'eficacy'"),
        (("verify", "nothere", "--suite", "suite.jsonl"), "nothere does not exist"),
        (("patch", "apply", "p.safetensors", "--model", "m", "--out", "suite.jsonl"), "suite.jsonl exists already"),
    ],
)
def test_errors_in_the_command_line_come_before_torch(file, words, message):
    said, status, imported = run(file.parent, *words)
    assert (status, imported) == (2, [])
    assert message in said


def test_changed_bytes_are_found_without_torch(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadPatch, match=r"the update of .* was changed"):
        read_info(file)
