"""What Telegram may refuse, on demand, besides what goes wrong on the way to any platform. A call is its method."""

from typing import Any

from tests.channels.faulting import ANY, Fault, FaultsOnTheWay
from tests.channels.telegram.server.refusal import Refusal


class Faults(FaultsOnTheWay):
    def take(self, method: str) -> Fault | None:
        return self.take_first(lambda fault: fault.call.lower() in (ANY, method.lower()))

    def refuse(self, method: str, code: int, description: str, *, times: int = 1, **parameters: Any) -> Fault:
        return self._add(Fault(method, times, "refuse", refusal=Refusal(code, description, **parameters)))

    def too_many(self, method: str = ANY, *, after_s: int = 3, times: int = 1) -> Fault:
        words = f"Too Many Requests: retry after {after_s}"
        return self.refuse(method, 429, words, times=times, retry_after=after_s)
