"""Asking in tests does not wait."""

import pytest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of milliseconds; and no key but those that a test sets."""
    monkeypatch.setattr("understudy.llm.requester.PAUSE", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
