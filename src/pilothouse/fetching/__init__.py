"""Fetching what a stranger named: one guarded GET, for channels and for whatever else reads from the net.

    hosts.py       which address is allowed, by its text alone
    ranges.py      which network addresses are public
    pinning.py     a name is resolved once, every address is checked, and only a checked one is connected to
    fetch.py       the request: one deadline, one bound on bytes, no redirect, no proxy, no decompression
    outcome.py     what it comes to: bytes, or why there are none

Imports nothing else of Pilothouse but `core`. Only `pinning` and `fetch` bring the HTTP library.
"""
