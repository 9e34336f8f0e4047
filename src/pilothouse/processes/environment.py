"""Selects the environment variables that a child may see.

Rule: a variable passes only if its name is on the list. The gateway's own environment holds the tokens of every channel,
and a coding agent must find none of them.
"""

from collections.abc import Iterable, Mapping

BASE_NAMES: tuple[str, ...] = (
    "HOME",
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TMPDIR",
    "TERM",
    "COLORTERM",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "XDG_*",
    # Without these a child behind a company proxy reaches nothing, and does not say why.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
)


def allowed_environment(
    source: Mapping[str, str],
    names: Iterable[str] = BASE_NAMES,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Pick from `source` the variables in `names`, then add `extra`, which wins.

    A name that ends in `*` selects every variable with that prefix. A bare `*` raises `ValueError`.
    """
    exact, prefixes = _split_names(names)
    picked = {
        name: value
        for name, value in source.items()
        if name in exact or (prefixes and name.startswith(prefixes))
    }
    return picked | dict(extra or {})


def _split_names(names: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    exact: set[str] = set()
    prefixes: list[str] = []
    for name in names:
        if name == "*":
            raise ValueError("'*' would pass every variable. Name the variables that the child needs.")
        if name.endswith("*"):
            prefixes.append(name[:-1])
        else:
            exact.add(name)
    return frozenset(exact), tuple(prefixes)
