"""A browser as the server sees it: it proves itself, shows short-lived tokens, and has a ticket for each WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corral.server import proofs

if TYPE_CHECKING:
    from tests.integration.server.serving import Answer, Serving


class Visitor:
    """Logs in by a code, then lives on its own key; what the server says is checked as the page checks it."""

    def __init__(self, serving: Serving, code: str, label: str = "Test 1.0 on Linux") -> None:
        self.serving = serving
        self.login, self.key = proofs.name_code(code), proofs.code_key(code)
        given = self.prove(label)
        self.key = proofs.login_key(self.key, given["salt"])
        self.login = given["login"]

    def hello(self, nonce: str) -> Answer:
        return self.serving.raw("POST", "/api/hello", {"login": self.login, "nonce": nonce}, headers={})

    def prove(self, label: str = "") -> Any:
        """Both prove themselves; afterwards there is a token. Returns what the server gave."""
        nonce = proofs.new_nonce()
        said = self.hello(nonce)
        assert said.status == 200, said
        both = self.serving.origin, self.login, nonce, said.body["nonce"]
        assert said.body["proof"] == proofs.prove_server(self.key, *both)
        shown = {"nonce": said.body["nonce"], "proof": proofs.prove_page(self.key, *both), "label": label}
        given = self.serving.raw("POST", "/api/prove", shown, headers={})
        assert given.status == 200, given
        self.token = given.body["token"]
        return given.body

    @property
    def headers(self) -> dict[str, str | None]:
        return {"Authorization": f"Corral {self.token}"}

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        return self.serving.raw(method, path, body, headers=self.headers)

    def ticket(self) -> str:
        nonce = proofs.new_nonce()
        given = self.ask("POST", "/api/tickets", {"nonce": nonce})
        assert given.status == 200, given
        ticket = given.body["ticket"]
        assert given.body["proof"] == proofs.prove_ticket(self.key, self.serving.origin, self.login, nonce, ticket)
        return ticket

    def protocols(self) -> list[str]:
        return ["corral", f"ticket.{self.ticket()}"]
