"""``understudy verify``: whether the files of a run, a comparison, a label store or a loop are as they were written."""

import os
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.folders import kind_of
from understudy.errors import UnderstudyError, shown
from understudy.store.copies import work_folder
from understudy.store.files import locked
from understudy.store.seal import check_signature, sign

KEY = "UNDERSTUDY_KEY"


def verify_command(
    folder: Annotated[Path, typer.Argument(help="A run, a comparison, a label store or a loop.", show_default=False)],
    key: Annotated[
        Path | None, typer.Option(help=f"File of the key a run is signed with; or ${KEY}.", show_default=False)
    ] = None,
    sign_it: Annotated[bool, typer.Option("--sign", help="Sign a run that is whole with the key.")] = False,
    reseal: Annotated[
        bool, typer.Option("--reseal", help="Take the files as they are now for right, e.g. after an edit.")
    ] = False,
) -> None:
    """Say of every file of a folder whether it is as it was written. Exit code 0: all are; 2: one is not.

    Checksums find damage, deleted and exchanged files, and careless edits. Whoever may write to a folder may also seal
    it anew; a signature (HMAC-SHA256 of the seal, in `signature.txt`) tells whether a run comes from somebody who has
    the key. With a key, a run that is not signed with it is refused.

    Examples:

    `understudy verify runs/first`

    `understudy verify --sign --key secret.key runs/first`

    `understudy verify --key secret.key runs/first`
    """
    folder = work_folder(folder)
    kind = kind_of(folder)
    secret = _read_key(key)
    if (sign_it or key is not None) and kind.name != "run":
        raise UnderstudyError(f"{folder} is a {kind.name}; only runs are signed")
    if sign_it and secret is None:
        raise UnderstudyError(f"--sign needs a key; name its file with --key, or set {KEY}")
    if reseal:
        with locked(folder):
            kind.reseal(folder)
    findings = list(kind.inspect(folder))
    for path, problem in findings:
        typer.echo(shown(f"whole  {path}" if problem is None else f"NOT WHOLE  {path} {problem}"))
    wrong = sum(problem is not None for _, problem in findings)
    if wrong:
        raise UnderstudyError(
            f"{wrong} of {len(findings)} files of the {kind.name} in {folder} are not whole; restore them"
        )
    signed = _sign_or_check(folder / kind.file, secret, sign_it) if kind.name == "run" else ""
    typer.echo(shown(f"the {kind.name} in {folder} is whole: {len(findings)} files{signed}"))


def _sign_or_check(path: Path, key: bytes | None, sign_it: bool) -> str:
    if key is None:
        return ""
    if sign_it:
        sign(path, key)
    check_signature(path, key)
    return ", signed with this key"


def _read_key(file: Path | None) -> bytes | None:
    if file is None:
        key = os.environ.get(KEY, "").encode()
    else:
        try:
            key = file.read_bytes().strip()
        except OSError as error:
            raise UnderstudyError(f"cannot read the key {file}: {error.strerror}") from error
        if not key:
            raise UnderstudyError(f"the key {file} is empty; make one: openssl rand -hex 32 > {file}")
    return key or None
