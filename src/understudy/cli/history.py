"""``understudy history``: who gave which label, when, from which source and by which command."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.shared import argument, flag
from understudy.errors import UnderstudyError
from understudy.store.checked_folder import read_checked
from understudy.store.files import local_path
from understudy.store.log import HISTORY, LabelHistory, history_beside


def history_command(
    path: Annotated[Path, argument("A label store, a loop, a run, or a file with labels.")],
    of: Annotated[list[str] | None, flag("Only this id; repeat for more.", "--id")] = None,
) -> None:
    """Show the label history: who gave which label, when, from which source and by which command.

    Label stores and loops keep a line for every batch of labels; a run for every gold file it was trained on, with the
    history of the labels in it; `select` and `import` write `FILE.history` beside their file. Lines are only
    ever added, and one that was changed or is missing is an error. With `--id`, every label of that id in order.
    `$UNDERSTUDY_USER` names the person at work, where that is not the login name.

    Examples:

    `understudy history labels`

    `understudy history runs/first --id r17`
    """
    entries = read_history(path)
    lines = list(_of_ids(entries, of)) if of else [_line(entry) for entry in entries]
    if not lines:
        raise UnderstudyError(f"the label history of {path} holds nothing about {', '.join(of or [])}; check the id")
    for line in lines:
        typer.echo(line)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The label history of a folder or a file; its last line must be the one that the folder's manifest names."""
    path = local_path(path)
    if not path.exists():
        raise UnderstudyError(f"{path} is not there; name a folder, or a file with a label history beside it")
    file = path / HISTORY if path.is_dir() else history_beside(path)
    manifests = [path / name for name in ("store.json", "state.json") if (path / name).exists()]
    last = str(read_checked(manifests[0])["history"]) if manifests else ""
    if not file.exists() and not last:
        raise UnderstudyError(f"{path} has no label history ({file.name}); name a folder or file that has one")
    return list(LabelHistory(file).entries(last))


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
