"""Who is at work, and when: as audit trails and locks tell it."""

import getpass
import os
from datetime import UTC, datetime

USER = "UNDERSTUDY_USER"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def who() -> str:
    """$UNDERSTUDY_USER, or else the login name."""
    try:
        return os.environ.get(USER) or getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "unknown"
