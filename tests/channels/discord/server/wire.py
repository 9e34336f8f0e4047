"""How values become text on the wire: files are told at our own address, and gaps of simcord's payloads are filled."""

import json
from dataclasses import dataclass
from typing import Any

from simcord.backend.cdn import CDN_BASE

Json = dict[str, Any]


@dataclass
class Wire:
    url: str = ""
    identifies_left: int = 1000

    @property
    def api_base(self) -> str:
        return f"{self.url}/api/v10"

    @property
    def cdn_base(self) -> str:
        return f"{self.url}/cdn"

    @property
    def gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/gateway/"

    def text(self, value: Any) -> str:
        return json.dumps(value, default=str).replace(CDN_BASE, self.cdn_base)

    def gateway_answer(self) -> Json:
        limit = {
            "total": 1000,
            "remaining": self.identifies_left,
            "reset_after": 86_400_000,
            "max_concurrency": 1,
        }
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}
