"""Cuts a text that is too long for one message as Telegram's apps do. White space at a cut is dropped."""

from collections.abc import Callable, Iterator

LIMIT = 4096


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def room(text: str) -> int:
    """How many characters fit into one message."""
    cut = min(len(text), LIMIT)
    while units(text[:cut]) > LIMIT:
        cut -= 1
    return cut


def pieces(text: str, where: Callable[[str, int], int]) -> list[str]:
    def cut() -> Iterator[str]:
        rest = text.strip()
        while units(rest) > LIMIT:
            at = where(rest, room(rest))
            yield rest[:at].strip()
            rest = rest[at:].strip()
        yield rest

    return list(filter(None, cut()))


def desktop(text: str, most: int) -> int:
    """In the second half, at the last end of a line, of a sentence, of a word."""
    found = (text.rfind(mark, most // 2 + 1, most) for mark in ("\n", ". ", " "))
    return next((at + (text[at] == ".") for at in found if at > 0), most)


def android(text: str, most: int) -> int:
    """In the last 300, at the first end of a line, else the last of a sentence, of a word."""
    least = most - 300
    line = text.find("\n", least, most)
    sentence, word = text.rfind(". ", least, most), text.rfind(" ", least, most)
    return next((at for at in (line, sentence + 1 if sentence > 0 else -1, word) if at > 0), most)


def ios(text: str, most: int) -> int:
    """Behind the last end of a line or full stop."""
    return max(text.rfind("\n", 0, most), text.rfind(".", 0, most)) + 1 or most


APPS = {"desktop": desktop, "android": android, "ios": ios}
