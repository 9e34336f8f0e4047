"""Whose certificates are believed: those that the environment names, or those of this machine."""

from __future__ import annotations

import os
import re
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from pilothouse.core.errors import ConfigError

_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
"""Where systems keep them, for a Python that was built elsewhere and looks in the wrong place."""
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+", re.IGNORECASE)

NONE_HERE = (
    "This machine has no trusted certificates, without which no server can be told from an impostor. "
    "Install them (the package is called ca-certificates), or name a file of your own with SSL_CERT_FILE."
)

NONE_FOUND = (
    "SSL_CERT_DIR={folder} holds no certificates by the names that OpenSSL looks for. If it is there, run "
    "`openssl rehash {first}`; or name a file of certificates with SSL_CERT_FILE."
)
"""OpenSSL itself takes any folder, and then trusts nobody."""


def load_trust() -> ssl.SSLContext:
    """Reads files, which takes some 30 ms: once is enough."""
    named = [os.environ.get(name) or None for name in _NAMES]
    if not any(named) and sys.platform in ("darwin", "win32"):
        # These keep certificates where OpenSSL cannot read them.
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, folder = named if any(named) else find_certificates(ssl.get_default_verify_paths())
    if not file and not folder:
        raise ConfigError(NONE_HERE)
    if not file and not any(map(_holds_certificates, folders := (folder or "").split(os.pathsep))):
        raise ConfigError(NONE_FOUND.format(folder=folder, first=folders[0]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_verify_locations(file, folder)
    except OSError as error:
        where = " ".join(f"{name}={value}" for name, value in zip(_NAMES, named, strict=True) if value)
        raise ConfigError(
            f"The trusted certificates cannot be read ({where or 'those of this machine'}): {error}"
        ) from None
    return context


def find_certificates(
    paths: ssl.DefaultVerifyPaths, bundles: Sequence[str] = _BUNDLES
) -> tuple[str | None, str | None]:
    """A file and a folder, of which there may be one or none."""
    folder = paths.capath if paths.capath and _holds_certificates(paths.capath) else None
    if paths.cafile or folder:
        return paths.cafile or None, folder
    return next((bundle for bundle in bundles if Path(bundle).is_file()), None), None


def _holds_certificates(folder: str) -> bool:
    try:
        return any(_HASHED.fullmatch(name) for name in os.listdir(folder))
    except OSError:  # it may not be ours to read
        return False
