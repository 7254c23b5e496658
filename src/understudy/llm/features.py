"""What of the protocol a server takes. It is told everything first; what it refuses is left out from then on.

Servers say which field they refuse in words of their own; where the words name one that was sent, that one goes, and
where they name none, one after the other does, in the order of what is missed least.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

_NAMED = {
    "structured": re.compile(r"response_format|json_schema|schema|grammar|guided|structured", re.IGNORECASE),
    "logprobs": re.compile(r"logprob", re.IGNORECASE),
    "several": re.compile(r"[`'\"]n[`'\"]|\bn ?(>|=|must|is not|should)|parameter:? n\b|\bbest_of\b|number of choices"),
    "temperature": re.compile(r"temperature", re.IGNORECASE),
    "system": re.compile(r"system (role|message|prompt)|role.{0,20}system", re.IGNORECASE),
}
_LIMIT = re.compile(r"max_completion_tokens")
_TOO_LONG = re.compile(r"context.{0,10}(length|window|size)|too (long|large|many tokens)|maximum.{0,20}tokens", re.I)


@dataclass(frozen=True)
class Features:
    structured: bool = True
    """Answers held to a JSON schema that lists the classes."""
    logprobs: int = 5
    """Alternatives per token; 0: none."""
    several: bool = True
    """Several choices of one request (``n``)."""
    temperature: bool = True
    system: bool = True
    """A role for instructions."""
    limit: str = "max_tokens"
    """What the token limit is called; newer models of OpenAI's know another name."""

    def without_refused(self, said: str, body: Mapping[str, Any]) -> "Features | None":
        """What is left once a server has refused this body with these words; None where nothing can be left out."""
        if self.limit == "max_tokens" and _LIMIT.search(said) and "max_completion_tokens" not in body:
            return replace(self, limit="max_completion_tokens")
        sent = [name for name in _NAMED if self._was_sent(name, body)]
        named = [name for name in sent if _NAMED[name].search(said)]
        if not named and (_TOO_LONG.search(said) or not sent):
            return None
        gone: dict[str, Any] = {name: 0 if name == "logprobs" else False for name in named or sent[:1]}
        return replace(self, **gone)

    def _was_sent(self, name: str, body: Mapping[str, Any]) -> bool:
        if name == "system":
            return any(message["role"] == "system" for message in body["messages"])
        field = {"structured": "response_format", "several": "n"}.get(name, name)
        return field in body

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
