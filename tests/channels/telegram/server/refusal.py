"""How the Bot API says no: a code, Telegram's words for it, and now and then a parameter."""

from typing import Any


class Refusal(Exception):
    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def as_json(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return {**answer, "parameters": self.parameters} if self.parameters else answer


def bad(description: str, **parameters: Any) -> Refusal:
    return Refusal(400, f"Bad Request: {description}", **parameters)


def forbidden(description: str) -> Refusal:
    return Refusal(403, f"Forbidden: {description}")


def too_many(after_s: int) -> Refusal:
    return Refusal(429, f"Too Many Requests: retry after {after_s}", retry_after=after_s)
