"""The command line; `app` has its commands."""

from understudy.cli.app import app, main

__all__ = ["app", "main"]
