"""What an agent may reach from its jail: its own servers, and no proxy of the machine."""

from __future__ import annotations

from pathlib import Path

from pilothouse.core.engine import Brief
from pilothouse.core.ids import SessionId
from pilothouse.engines.acp.agents import AGENTS, PLAIN, Agent
from pilothouse.engines.acp.jail import agent_needs
from pilothouse.processes import BASE_NAMES

PROXIES = {name: "http://proxy.example:3128" for name in BASE_NAMES if name.upper().endswith("_PROXY")}


def endpoints(agent: Agent, environment: dict[str, str], *names: str) -> tuple[str, ...]:
    brief = Brief(SessionId("s"), "/work")
    return agent_needs(agent, ["agent"], Path("/folder"), environment, brief, [], names).endpoints


def test_the_urls_of_an_agents_own_variables_are_endpoints_and_no_others() -> None:
    told = {**PROXIES, "GOOGLE_GEMINI_BASE_URL": "https://models.example/v1", "OTHER": "http://other.example"}
    gemini = AGENTS["gemini"]
    assert endpoints(gemini, told) == ("https://models.example/v1", *gemini.endpoints)
    told["GEMINI_HTTPS_PROXY"] = "http://proxy.example:3128"
    assert endpoints(gemini, told) == ("https://models.example/v1", *gemini.endpoints)


def test_a_variable_that_the_operator_names_may_hold_an_address_but_no_proxy() -> None:
    told = {**PROXIES, "MY_MODEL": "http://127.0.0.1:8000"}
    assert endpoints(PLAIN, told) == ()
    assert endpoints(PLAIN, told, "MY_*", "HTTPS_PROXY", "http_proxy") == ("http://127.0.0.1:8000",)
