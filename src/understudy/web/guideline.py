"""A guideline in Markdown as HTML: whatever markup it holds is shown as text, links lead to http(s) and mail alone."""

from pathlib import Path

from understudy.errors import UnderstudyError


def guideline_html(path: Path | None) -> str:
    """Read anew for each page, so that it may be changed while people label."""
    if path is None:
        return ""
    from markdown_it import MarkdownIt

    # This preset takes no HTML, and refuses javascript:, file: and the like in links.
    html: str = MarkdownIt("js-default", {"html": False, "linkify": False}).render(read_guideline(path))
    return html.replace("<a href=", '<a target="_blank" rel="noopener noreferrer" href=')


def read_guideline(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot read the guideline {path}: {error}; write Markdown in UTF-8") from error
