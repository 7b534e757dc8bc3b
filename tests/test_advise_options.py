"""``ke advise`` with an update wrapper: the options of the wrapper are those of the candidate."""

from __future__ import annotations

import pytest

from ke_core.app import main

FACTS = """
{table}
[[facts]]
prompt = "The capital of {{}} is"
subject = "Peru"
target = "Cusco"
"""


@pytest.mark.parametrize(
    ("table", "words"),
    [("", ("-o", "rect.keep=7")), ("[options.rect]\nkeep = 7", ()), ("[options.memit]\nsteps = -1", ())],
)
def test_options_of_editor_and_wrapper_are_read(tmp_path, capsys, table, words):
    file = tmp_path / "facts.toml"
    file.write_text(FACTS.format(table=table))
    assert main(["-q", "advise", "--facts", str(file), "--candidate", "memit+rect", *words]) == 2
    option = "memit.steps" if "memit" in table else "rect.keep"
    assert f"{option} cannot be" in capsys.readouterr().err
