"""From a WGSL text to its tokens."""

from __future__ import annotations

import re
from typing import NamedTuple


class Token(NamedTuple):
    """``kind`` is ``word``, ``number``, ``sign`` or ``end``."""

    kind: str
    text: str
    start: int
    end: int


class SyntaxFault(ValueError):
    """The text is no WGSL: ``start`` is where it stops to be."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.start = start


# ``>`` stands alone, since it may close a template list; the parser joins ``>>`` and ``>=``.
_TOKEN = re.compile(
    r"(?P<space>[\s\u200e\u200f]+|//[^\n]*)"
    r"|(?P<comment>/\*)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<number>0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?[iufh]?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[iufh]?)"
    r"|(?P<sign>->|\+\+|--|&&|\|\||<<=|<<|<=|==|!=|[-+*/%&|^]=|[-+*/%&|^!~<>=.,:;()\[\]{}@])"
)
_COMMENT_END = re.compile(r"/\*|\*/")


def tokens(text: str) -> list[Token]:
    """The tokens of a text, comments left out; the last is of kind ``end``."""
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SyntaxFault(f"no WGSL token begins with {text[at]!r}", at)
        at = match.end()
        if match.lastgroup == "comment":
            depth = 1
            while depth:
                inner = _COMMENT_END.search(text, at)
                if inner is None:
                    raise SyntaxFault("this comment has no end", match.start())
                depth += 1 if inner[0] == "/*" else -1
                at = inner.end()
        elif match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], match.start(), at))
    found.append(Token("end", "", len(text), len(text)))
    return found
