"""HTTP for the whole package.

    client.py      the client for servers that the owner configured, on httpx2
    fetch.py       one guarded GET for an address that somebody else chose
    server.py      a small server for webhooks, on h11
    allowlist.py   the hosts that may be fetched from, checked on the address's text
    pinned.py      a network backend that resolves a name once, rejects private addresses and connects to a checked one

Imports nothing of Pilothouse but `core`. All but `allowlist` and `server` import the HTTP library, so they are imported inside the
function that needs them.
"""
