"""Which of our environment variables a child may see.

Rule: a variable passes because its name is on a list, never because nobody thought of forbidding it.
The gateway's own environment holds tokens of every channel; a coding agent must find none of them.
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
    # Without these a child behind a company proxy reaches nothing, and says so in no helpful way.
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

    A name may end in `*` and then stands for every variable that starts so. A bare `*` is refused.
    """
    exact, prefixes = _sorted_out(names)
    picked = {
        name: value
        for name, value in source.items()
        if name in exact or (prefixes and name.startswith(prefixes))
    }
    return picked | dict(extra or {})


def _sorted_out(names: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
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
