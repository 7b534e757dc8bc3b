"""``ke doctor``: what is wrong is said with what to do, exit status 1; nothing is contacted unasked."""

import json
import sys
from pathlib import Path

import pytest

from ke_core.cli import doctor as health
from ke_core.plugins.manager import Installed
from ke_testing.http_server import QuietHandler, serving

OURS = ("KE_DATA_DIR", "KE_DISABLE_PLUGINS", "OPENAI_BASE_URL", "OPENAI_API_KEY", "HF_HOME")


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)


@pytest.fixture
def server():
    """Lists two models, and remembers what it was asked."""
    asked = []

    class Lists(QuietHandler):
        def do_GET(self):  # noqa: N802  the name in http.server
            asked.append(self.path)
            self.send(200, json.dumps({"data": [{"id": "one"}, {"id": "two"}]}).encode())

    with serving(Lists) as url:
        yield f"{url}/v1", asked


def states(ke, *arguments):
    status, out, _err = ke("doctor", "--json", *arguments)
    found = json.loads(out)
    assert status == (1 if found["wrong"] else 0)
    return {(finding["area"], finding["state"]): finding for finding in found["findings"]}


def test_healthy_installation_ends_with_status_0(ke):
    status, out, _err = ke("doctor")
    words = " ".join(out.split())
    assert status == 0
    assert "no problems found" in words
    assert "ke-core 0.1" in words
    assert "9 of 9 work" in words
    assert "cpu (" in words
    assert "runs is writable" in words


def test_doctor_leaves_no_file(ke, tmp_path):
    ke("doctor")
    assert list(tmp_path.iterdir()) == []


def test_broken_plugin_is_named_with_its_line(ke, plugins):
    plugins.installed["broken"] = Installed(
        name="broken",
        module="ke_broken",
        distribution="ke-plugin-broken",
        version="1.0",
        broken="ModuleNotFoundError: x",
        place="ke_broken.py, line 2: import nowhere_at_all",
    )
    status, out, _err = ke("doctor", "--json")
    (wrong,) = [finding for finding in json.loads(out)["findings"] if finding["state"] == "wrong"]
    assert status == 1
    place = "ke_broken.py, line 2: import nowhere_at_all"
    assert wrong["what"] == f"broken 1.0 is broken: ModuleNotFoundError: x ({place})"
    assert "pip install --force-reinstall ke-plugin-broken" in wrong["advice"]
    assert "what to do: pip install" in " ".join(ke("doctor")[1].split())


def test_unmet_requirement_is_wrong(ke, monkeypatch):
    monkeypatch.setattr(health, "requires", lambda _name: ["numpy>=99", "nowhere-at-all", 'later>=1; extra == "api"'])
    status, out, _err = ke("doctor", "--json")
    wrong = [finding["what"] for finding in json.loads(out)["findings"] if finding["state"] == "wrong"]
    assert status == 1
    assert wrong[0].startswith("ke-core needs numpy>=99, but ")
    assert wrong[1] == "ke-core needs nowhere-at-all, but none is installed"
    assert len(wrong) == 2


def test_failing_import_of_torch_is_wrong(ke, monkeypatch):
    monkeypatch.setitem(sys.modules, "ke_plugin_hf.devices", None)
    assert "torch cannot be imported" in states(ke)["device", "wrong"]["what"]


def test_device_with_wrong_results_is_wrong(ke, monkeypatch):
    from ke_plugin_hf import devices

    monkeypatch.setattr(devices.torch, "allclose", lambda *_a, **_k: False)
    assert "the product of two small matrices is wrong" in states(ke)["device", "wrong"]["what"]


def test_unwritable_cache_is_wrong(ke, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "file"))
    found = states(ke)["caches", "wrong"]
    assert found["what"].endswith("is not writable: not a directory")
    assert "KE_CACHE_DIR" in found["advice"]


def test_folders_of_the_cache_are_listed_with_sizes(ke, tmp_path):
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "weights").write_bytes(bytes(3_000_000))
    assert "cache/models:3.0MB" in "".join(ke("doctor")[1].split())  # a long path goes over two lines


def test_missing_data_folder_is_wrong(ke, monkeypatch):
    monkeypatch.setenv("KE_DATA_DIR", "/nowhere/at/all")
    assert states(ke)["folders", "wrong"]["what"] == "KE_DATA_DIR is /nowhere/at/all, which is not a readable folder"


def test_little_free_space_is_a_note(ke, monkeypatch):
    monkeypatch.setattr(health, "LITTLE_DISK", 2**60)
    found = states(ke)
    assert found["folders", "note"]["advice"] == "free some space, or use another disk"
    assert not any(state == "wrong" for _area, state in found)


def test_environment_is_shown_without_secrets(ke, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "very-secret-value")
    monkeypatch.setenv("HF_ENDPOINT", "https://me:password@hub.example/x")
    monkeypatch.setenv("KE_DISABLE_PLUGINS", "absent")
    out = ke("doctor", "--json")[1]
    assert "very-secret" not in out
    assert "password" not in out
    shown = [finding["what"] for finding in json.loads(out)["findings"] if finding["area"] == "settings"]
    assert {"HF_TOKEN is set", "HF_ENDPOINT = https://hub.example/x", "KE_DISABLE_PLUGINS = absent"} <= set(shown)


def test_servers_are_contacted_only_if_configured(ke, server, monkeypatch):
    url, asked = server
    ke("doctor")
    assert asked == []
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert states(ke)["server", "ok"]["what"] == f"{url} answers and lists one, two"
    assert asked == ["/v1/models"]


def test_missing_server_is_wrong(ke):
    found = states(ke, "--base-url", "http://127.0.0.1:9/v1")["server", "wrong"]
    assert found["what"].startswith("cannot reach http://127.0.0.1:9/v1")
    assert found["advice"]
    assert "is not a base URL" in states(ke, "--base-url", "nonsense")["server", "wrong"]["what"]
