"""Signatures of patches and lock files: Ed25519, in a file next to the signed one.

::

    facts.safetensors
    facts.safetensors.sig     {"format": "ke-signature", "key": ..., "sha256": ..., "signature": ...}

The signature is of the text ``ke-signature`` and the SHA-256 of the file. Keys are files of OpenSSH (``ssh-keygen -t
ed25519``) or PEM (``openssl genpkey -algorithm ed25519``).
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from ke_core.plugin import BadConfig, BadData, canonical, file_errors, read_object, sha256_of, write_atomic
from ke_plugin_facts.versions import LOCK, PATCH
from ke_weights.patches import read_info
from ke_weights.patches.header import patch_id

FORMAT, SUFFIX = "ke-signature", ".sig"
PASSPHRASE = "KE_SIGNING_PASSPHRASE"  # noqa: S105  a name
"""Environment variable with the passphrase of the private key."""


def sign(path: Path, key: Path) -> Path:
    """Write the signature of a file with a private key, and return its path.

    Raises BadConfig for a key that is not Ed25519, and for a passphrase that is missing or wrong.
    """
    private = _private(key)
    if not path.is_file():
        raise BadData(f"{path} is not a file", hint="sign a patch or a facts.lock.json")
    digest = sha256_of(path)
    to = path.with_name(path.name + SUFFIX)
    raw = {
        "format": FORMAT,
        "key": _text(private.public_key()),
        "sha256": digest,
        "signature": b64encode(private.sign(_message(digest))).decode(),
    }
    write_atomic(to, (canonical(raw) + "\n").encode())
    return to


def check_signature(path: Path, key: Path) -> str:
    """Return the public key that signed a file. Raises BadData unless it is ``key`` and the file is unchanged."""
    public, place = _public(key), path.with_name(path.name + SUFFIX)
    if not path.is_file():
        raise BadData(f"there is no file {path}", hint="pass a patch, a lock file, or the folder of a version")
    if not place.is_file():
        raise BadData(f"{path} has no signature {place.name}", hint="sign it with ke patch sign")
    raw = read_object(place)
    if raw.get("format") != FORMAT or not isinstance(raw.get("signature"), str):
        raise BadData(f"{place} is not a signature of ke", hint="sign the file again with ke patch sign")
    try:
        public.verify(b64decode(raw["signature"]), _message(sha256_of(path)))
    except (InvalidSignature, ValueError) as error:
        why = (
            "the file was changed"
            if raw.get("sha256") != sha256_of(path)
            else f"another key signed it: {raw.get('key')}"
        )
        raise BadData(f"{path} is not signed by {key.name}: {why}", hint="do not use this file") from error
    return _text(public)


def check_version(folder: Path, key: Path) -> str:
    """Check the signatures of a version's lock file and patch, and that the lock file names this patch.

    Return the public key. Raises BadData as ``check_signature`` does.
    """
    signer = check_signature(folder / LOCK, key)
    named = read_object(folder / LOCK).get("patch")
    if named or (folder / PATCH).exists():
        check_signature(folder / PATCH, key)
        found = patch_id(read_info(folder / PATCH))
        if found != named:
            raise BadData(
                f"{folder / PATCH} is patch {found}, and {LOCK} names {named}", hint="do not use this version"
            )
    return signer


def _message(digest: str) -> bytes:
    return f"{FORMAT} {digest}".encode()


def _text(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _private(path: Path) -> Ed25519PrivateKey:
    with file_errors(f"cannot read {path}", hint=HINT):
        content = path.read_bytes()
    load: Any = load_ssh_private_key if b"OPENSSH" in content else load_pem_private_key
    try:
        try:
            found = load(content, None)
        except TypeError:  # it is encrypted
            found = load(content, _passphrase(path))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadConfig(f"{path} is not a private key, or its passphrase is wrong", hint=HINT) from error
    if not isinstance(found, Ed25519PrivateKey):
        raise BadConfig(f"{path} is not an Ed25519 key", hint=HINT)
    return found


def _passphrase(path: Path) -> bytes:
    found = os.environ.get(PASSPHRASE, "")
    if not found:
        raise BadConfig(f"{path} has a passphrase", hint=f"set the environment variable {PASSPHRASE}")
    return found.encode()


HINT = "make one with ssh-keygen -t ed25519 -N '' -f KEY"
PUBLIC_HINT = "use KEY.pub, which ssh-keygen wrote"


def _public(path: Path) -> Ed25519PublicKey:
    with file_errors(f"cannot read {path}", hint=PUBLIC_HINT):
        content = path.read_bytes()
    try:
        found = load_pem_public_key(content) if content.startswith(b"-----") else load_ssh_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadConfig(f"{path} is not a public key: {error}", hint=PUBLIC_HINT) from error
    if not isinstance(found, Ed25519PublicKey):
        raise BadConfig(f"{path} is not an Ed25519 key", hint=HINT)
    return found
