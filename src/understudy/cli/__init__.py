"""The command line; `app` has its commands."""

from understudy.cli.commands import app, main

__all__ = ["app", "main"]
