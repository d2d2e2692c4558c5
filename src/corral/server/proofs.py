"""What a page and the server say to prove themselves to each other. Pure; web/src/server/door.ts says the same words.

Both have the key of a login, and neither ever sends it. Each proves that it has the key by an HMAC over fresh numbers
of both, the page's origin and the login. The server goes first.
"""

from __future__ import annotations

import hmac
import secrets

NONCE_LENGTH = 32


def new_nonce() -> str:
    return secrets.token_hex(NONCE_LENGTH // 2)


def is_nonce(text: str) -> bool:
    """Whether it is hexadecimal, and as long as ours."""
    return len(text) == NONCE_LENGTH and all(one in "0123456789abcdef" for one in text)


def name_code(code: str) -> str:
    """The name of a one-time code; it reveals nothing of the code."""
    return _sign(code.encode(), "corral code name").hex()[:32]


def code_key(code: str) -> bytes:
    """The key that proves possession of the code; it reveals nothing of the code."""
    return _sign(code.encode(), "corral code key")


def login_key(key: bytes, salt: str) -> bytes:
    """The key of the login that a code was exchanged for. Whoever finds the code later lacks the salt."""
    return _sign(key, f"corral login key\n{salt}")


def prove_server(key: bytes, origin: str, login: str, page_nonce: str, server_nonce: str) -> str:
    return _sign(key, f"corral server\n{origin}\n{login}\n{page_nonce}\n{server_nonce}").hex()


def prove_page(key: bytes, origin: str, login: str, page_nonce: str, server_nonce: str) -> str:
    return _sign(key, f"corral page\n{origin}\n{login}\n{page_nonce}\n{server_nonce}").hex()


def prove_ticket(key: bytes, origin: str, login: str, page_nonce: str, ticket: str) -> str:
    """Proves that the server made the ticket: the page must not type into anybody else's terminal."""
    return _sign(key, f"corral ticket\n{origin}\n{login}\n{page_nonce}\n{ticket}").hex()


def is_right(expected: str, shown: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(expected.encode(), shown.encode("utf-8", "surrogatepass"))


def _sign(key: bytes, words: str) -> bytes:
    return hmac.new(key, words.encode("utf-8", "surrogatepass"), "sha256").digest()
