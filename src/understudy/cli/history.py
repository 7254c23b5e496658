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
    lines = list(_lines(read_history(path), of or []))
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


def _lines(entries: Sequence[dict[str, Any]], ids: Sequence[str]) -> Iterator[str]:
    """A line for each entry; with ``ids``, one for each label of theirs."""
    for entry in entries:
        answers, changed = entry["answers"], f" (changed {entry['changed']})" if "changed" in entry else ""
        found = [f"{name}: {'no label' if answers[name] is None else answers[name]}" for name in ids if name in answers]
        if not ids:
            open_ones = sum(label is None for label in answers.values())
            lacking = f", {open_ones:,} without a label" if 0 < open_ones < len(answers) else ""
            found = [f"{len(answers):,} rows{lacking}" if answers else "as the file was"]
        head = f"{entry.get('when')}  {entry.get('who')}  {entry.get('what')}  {entry.get('source') or '-'}{changed}"
        yield from (f"{head}  {each}  by {entry.get('command')}" for each in found)
