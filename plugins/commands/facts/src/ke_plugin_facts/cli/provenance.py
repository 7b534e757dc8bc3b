"""``ke patch sign``, ``ke patch verify`` and ``ke patch log``: who changed a model, when, and from which source."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import literal
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_core.plugin import BadData
from ke_plugin_facts.cli.settings import folder_option, managed_folder

files_argument = click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")


@click.command("sign")
@files_argument
@click.option("--key", type=click.Path(path_type=Path), required=True, metavar="KEY",
              help="Private Ed25519 key, as ssh-keygen writes it.")  # fmt: skip
def sign(files: tuple[Path, ...], key: Path) -> int:
    """Sign patches or lock files with an Ed25519 key.

    Each signature is a file next to the signed one, with the suffix .sig.

    \b
    Example: ke patch sign edited/current/patch.safetensors edited/current/facts.lock.json --key ~/.ssh/id_ed25519
    """  # fmt: skip
    from ke_plugin_facts.signing import sign as signed  # noqa: PLC0415  cryptography

    for file in files:
        output().print(literal(f"signed: {signed(file, key)}"), soft_wrap=True)
    return 0


@click.command("verify")
@files_argument
@click.option("--key", type=click.Path(path_type=Path), required=True, metavar="KEY.pub",
              help="Public key of the person who must have signed them.")  # fmt: skip
def verify(files: tuple[Path, ...], key: Path) -> int:
    """Check the signatures of patches, lock files or versions.

    For the folder of a version it checks the lock file and the patch, and that they belong together. The exit status
    is 2 if a file was changed, has no signature, or has one of another key.

    \b
    Example: ke patch verify edited/current --key anna.pub
    """  # fmt: skip
    from ke_plugin_facts.signing import check_signature, check_version  # noqa: PLC0415  cryptography

    for file in files:
        signer = check_version(file, key) if file.is_dir() else check_signature(file, key)
        output().print(literal(f"{file}: signed by {signer}"), soft_wrap=True)
    return 0


@click.command("log")
@folder_option
@shared.json_option
def log(out: Path, *, as_json: bool) -> int:
    """List the versions of a managed model, newest first: when, by whom, and which facts changed, with sources.

    The table shows at most 10 changed facts of each version. --json shows all.

    \b
    Example: ke patch log --out edited
    """  # fmt: skip
    from ke_plugin_facts.comparing import shortened, version_rows  # noqa: PLC0415  only for this command

    versions = [*managed_folder(out).chain()]
    if not versions:
        raise BadData(f"{out} has no version", hint="make one with ke apply, or name its folder with --out")
    rows = version_rows(versions)
    shared.print_rows(rows if as_json else shortened(rows), as_json=as_json)
    return 0
