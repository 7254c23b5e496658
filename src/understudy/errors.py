"""The errors and warnings users see: what is wrong, where, and what to do about it."""


class UnderstudyError(Exception):
    """Bad input or an impossible request. The message is one line: what, where, the cure."""


class UnderstudyWarning(UserWarning):
    """Something is legal but probably not what the user wants (too little gold, a shifted class prior…)."""
