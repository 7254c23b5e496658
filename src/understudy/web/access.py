"""Who may use the page: a token in the link, moved to a cookie, and requests of the page itself alone.

| what could happen | what stops it |
| --- | --- |
| another program or person on this machine opens the port | a token of 256 bits, compared in constant time |
| the link stays in a history or a log | it only sets a cookie (HttpOnly, SameSite=Strict); nothing logs it |
| another site's page sends answers through your browser | its Origin, Sec-Fetch-Site and missing cookie |
| a site's name is made to point here (DNS rebinding) | the Host header names this machine, or the request is refused |
| a row's text holds markup | texts are set as texts, and the Content-Security-Policy runs no other script |

The tokens follow from a secret file beside the book, so that links hold when the server is started again.
"""

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.errors import UnderstudyError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Access:
    def __init__(self, secret_file: Path, annotators: Sequence[str], *, host: str, book: str) -> None:
        secret = _secret(secret_file)
        self.tokens = {name: _token(secret, name) for name in annotators}
        #: One per book: cookies are not separate by port.
        self.cookie = f"understudy-{book}"
        self._host = host

    def annotator(self, token: str) -> str | None:
        """The owner of a token; all are compared, so that the time taken reveals nothing."""
        given = token.encode("utf-8", "replace")
        same = [name for name, own in self.tokens.items() if hmac.compare_digest(own.encode(), given)]
        return same[0] if same else None

    def refusal(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Why a request is not from the page; None where it may be."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return "this page is served to the address it was started for"
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        # Typed addresses have none; links from elsewhere lead to the page, but not to its data.
        if method != "GET" and site not in (None, "same-origin"):
            return "only the page itself may send answers"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return "only the page itself may send requests"
        if method != "GET" and origin is None:
            return "answers come with the Origin header that browsers send"
        if method == "GET" and site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return "other sites may not send requests"
        return None

    def _is_ours(self, header: str) -> bool:
        """The port is left open: a tunnel may change it, and names are what rebinding needs."""
        name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        name = name.strip("[]").lower()
        if name in LOOPBACK or name == self._host.lower():
            return True
        if self._host in LOOPBACK:
            return False
        # Served to others: an address cannot be rebound, and the machine knows its own name.
        return _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _token(secret: bytes, annotator: str) -> str:
    return hmac.new(secret, b"label page\0" + annotator.encode(), "sha256").hexdigest()


def _secret(path: Path) -> bytes:
    """Made once, readable by its owner alone."""
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot use the secret {path} of the page's links: {error}; remove it") from error
    if len(secret) != 64:
        raise UnderstudyError(f"{path} does not hold the secret of the page's links; remove it, and links are new")
    return secret.encode()


def _make_secret(path: Path) -> None:
    """Whole under a name of its own, then linked: of two processes that begin at once one is first."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
