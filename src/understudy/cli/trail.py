"""``understudy trail``: who answered what, when, from which source and by which command."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.errors import UnderstudyError
from understudy.store.copies import local_path
from understudy.store.seal import read_sealed
from understudy.store.trail import TRAIL, Trail, beside


def trail_command(
    path: Annotated[
        Path, typer.Argument(help="A label store, a loop, a run, or a file with answers.", show_default=False)
    ],
    of: Annotated[
        list[str] | None, typer.Option("--id", help="Only this id; repeat for more.", show_default=False)
    ] = None,
) -> None:
    """Tell who answered what, when, from which source and by which command.

    Label stores and loops keep a line for every batch of answers; a run for every gold file it was trained on, with the
    trail of the answers among them; `select` and `import` write `FILE.trail` beside their file. Lines are only
    ever added, and one that was changed or is missing is an error. With `--id`, every answer about that id in order.
    `$UNDERSTUDY_USER` names who is at work, where that is not the login name.

    Examples:

    `understudy trail labels`

    `understudy trail runs/first --id r17`
    """
    entries = read_trail(path)
    lines = list(_of_ids(entries, of)) if of else [_line(entry) for entry in entries]
    if not lines:
        raise UnderstudyError(f"the trail of {path} holds nothing about {', '.join(of or [])}; check the id")
    for line in lines:
        typer.echo(line)


def read_trail(path: Path) -> list[dict[str, Any]]:
    """Of a folder or a file; the last line must be the one that the folder's seal knows."""
    path = local_path(path)
    if not path.exists():
        raise UnderstudyError(f"{path} is not there; name a folder, or a file with a trail beside it")
    file = path / TRAIL if path.is_dir() else beside(path)
    last = next((_sealed_end(path / name) for name in ("store.json", "state.json") if (path / name).exists()), "")
    if not file.exists() and not last:
        raise UnderstudyError(f"{path} has no trail ({file.name}): it was written by hand")
    return Trail(file).read(last)


def _sealed_end(path: Path) -> str:
    return str(read_sealed(path).get("trail", ""))


def _line(entry: dict[str, Any]) -> str:
    answers = entry["answers"]
    open_ones = sum(label is None for label in answers.values())
    number = f"{len(answers):,} rows" + (f", {open_ones:,} without a label" if 0 < open_ones < len(answers) else "")
    return f"{_head(entry)}{number if answers else 'as the file was'}  by {entry.get('command')}"


def _of_ids(entries: Sequence[dict[str, Any]], ids: Sequence[str]) -> Iterator[str]:
    for entry in entries:
        for name in ids:
            if name in entry["answers"]:
                label = entry["answers"][name]
                yield f"{_head(entry)}{name}: {'no label' if label is None else label}  by {entry.get('command')}"


def _head(entry: dict[str, Any]) -> str:
    changed = f" (changed {entry['changed']})" if "changed" in entry else ""
    return f"{entry.get('when')}  {entry.get('who')}  {entry.get('what')}  {entry.get('source') or '-'}{changed}  "
