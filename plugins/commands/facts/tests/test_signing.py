"""Signatures of files, with keys that ssh-keygen and openssl write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ke_core.app import main
from ke_core.plugin import BadConfig, BadData, KEError
from ke_plugin_facts.signing import check_signature, sign

FORMATS = {
    "ssh": (Encoding.PEM, PrivateFormat.OpenSSH, Encoding.OpenSSH, PublicFormat.OpenSSH),
    "pem": (Encoding.PEM, PrivateFormat.PKCS8, Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
}
Keys = Callable[..., tuple[Path, Path]]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Write a new pair of keys; return the paths of the private and the public one."""

    def make(name: str = "anna", form: str = "ssh", passphrase: str = "") -> tuple[Path, Path]:
        private, public = tmp_path / name, tmp_path / f"{name}.pub"
        key, (outer, inner, public_outer, public_inner) = Ed25519PrivateKey.generate(), FORMATS[form]
        encryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        private.write_bytes(key.private_bytes(outer, inner, encryption))
        public.write_bytes(key.public_key().public_bytes(public_outer, public_inner))
        return private, public

    return make


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "patch.safetensors"
    path.write_bytes(b"updates")
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_a_key_with_a_passphrase_needs_it(keys: Keys, file: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = keys(form=form, passphrase="seven words")
    with pytest.raises(BadConfig, match="anna has a passphrase") as raised:
        sign(file, private)
    assert "KE_SIGNING_PASSPHRASE" in raised.value.hint
    monkeypatch.setenv("KE_SIGNING_PASSPHRASE", "six words")
    with pytest.raises(BadConfig, match="its passphrase is wrong"):
        sign(file, private)
    monkeypatch.setenv("KE_SIGNING_PASSPHRASE", "seven words")
    sign(file, private)
    assert check_signature(file, public).startswith("ssh-ed25519 ")


@pytest.mark.parametrize("form", FORMATS)
def test_a_signed_file_is_accepted(keys: Keys, file: Path, form: str) -> None:
    private, public = keys(form=form)
    sign(file, private)
    assert check_signature(file, public).startswith("ssh-ed25519 ")


def test_a_wrong_key_file_is_one_line_and_the_hint_names_the_right_one(keys: Keys, file: Path, tmp_path: Path) -> None:
    private, public = keys()
    for path, call, name in ((public, sign, "not a private key"), (private, check_signature, "not a public key")):
        sign(file, private)
        for wrong, says in ((path, name), (tmp_path / "nowhere", "cannot read")):
            with pytest.raises(KEError, match=says) as raised:
                call(file, wrong)
            assert "cryptography" not in raised.value.message
            assert "ssh-keygen" in raised.value.hint


def test_a_changed_file_another_key_and_a_missing_signature_are_refused(keys: Keys, file: Path) -> None:
    (private, public), (other, _) = keys(), keys("bob")
    with pytest.raises(BadData, match="has no signature"):
        check_signature(file, public)
    sign(file, other)
    with pytest.raises(BadData, match="another key signed it"):
        check_signature(file, public)
    signature = sign(file, private)
    file.write_bytes(b"other updates")
    with pytest.raises(BadData, match="the file was changed"):
        check_signature(file, public)
    raw = json.loads(signature.read_text())
    signature.write_text(json.dumps(raw | {"signature": "????"}))
    with pytest.raises(BadData, match="not signed by"):
        check_signature(file, public)


def test_other_keys_are_refused(keys: Keys, file: Path, tmp_path: Path) -> None:
    rsa = tmp_path / "rsa"
    rsa.write_bytes(generate_private_key(65537, 2048).private_bytes(*FORMATS["pem"][:2], NoEncryption()))
    with pytest.raises(BadConfig, match="not an Ed25519 key"):
        sign(file, rsa)
    with pytest.raises(BadConfig, match="not a private key"):
        sign(file, file)
    sign(file, keys()[0])
    with pytest.raises(BadConfig, match="not a public key"):
        check_signature(file, file)


def test_the_commands_sign_and_verify(keys: Keys, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = keys()
    assert main(["patch", "sign", str(file), "--key", str(private)]) == 0
    assert main(["patch", "verify", str(file), "--key", str(public)]) == 0
    assert "signed by ssh-ed25519" in capsys.readouterr().out
    file.write_bytes(b"other")
    assert main(["patch", "verify", str(file), "--key", str(public)]) == 2
