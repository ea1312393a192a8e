"""The Huffman code of HPACK (RFC 7541, appendix B), decoded a byte at a time.

The code is canonical: the lengths alone determine it. A state of the decoder is an inner node of the code's tree; where a
byte leads from there, and which characters end on the way, is worked out when it is needed first and remembered. There are
256 states and 256 bytes, so what is remembered is bounded.
"""

from __future__ import annotations

_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b0806060605050506060606060606"
    "07080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f0506050605060606050707060606050607060505"
    "0607070707070f0b0e0d1c141614141616161716171717171718171818161718171717171516171617171816151416161717151716161815161717"
    "151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b1418141516151517161619"
    "1918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END = 256
_DEAD = -1


def codes() -> list[tuple[int, int]]:
    """Code and length of every symbol; the last one is the end of string, which never occurs in a string."""
    found = [(0, 0)] * len(_LENGTHS)
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda each: (_LENGTHS[each], each)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        found[symbol] = (code, length)
        code += 1
    return found


def _tree() -> tuple[list[list[int]], frozenset[int]]:
    """The inner nodes, each with where 0 and 1 lead (a symbol is stored as its complement), and those that padding
    may end in: at most seven ones away from the root."""
    nodes = [[0, 0]]
    for symbol, (code, length) in enumerate(codes()):
        node = 0
        for bit in range(length - 1, 0, -1):
            taken = code >> bit & 1
            if not nodes[node][taken]:
                nodes.append([0, 0])
                nodes[node][taken] = len(nodes) - 1
            node = nodes[node][taken]
        nodes[node][code & 1] = ~symbol
    ends, node = [0], 0
    for _ in range(7):
        node = nodes[node][1]
        ends.append(node)
    return nodes, frozenset(ends)


_NODES, _ENDS = _tree()
_STEPS: list[tuple[int, bytes] | None] = [None] * (len(_NODES) << 8)


def _step(state: int, byte: int) -> tuple[int, bytes]:
    made = bytearray()
    for bit in range(7, -1, -1):
        state = _NODES[state][byte >> bit & 1]
        if state < 0:
            symbol, state = ~state, 0
            if symbol == _END:
                return _DEAD, b""
            made.append(symbol)
    return state, bytes(made)


def decode(data: bytes) -> bytes:
    """The text of a Huffman-coded string; ValueError when it is not one."""
    state = 0
    parts = []
    for byte in data:
        step = _STEPS[state << 8 | byte]
        if step is None:
            step = _STEPS[state << 8 | byte] = _step(state, byte)
        state, text = step
        if state == _DEAD:
            raise ValueError("the end of string occurs in a string")
        parts.append(text)
    if state not in _ENDS:
        raise ValueError("a string is not padded with ones to its end")
    return b"".join(parts)


def encode(text: bytes) -> bytes:
    """The Huffman code of a text. Answers are sent without it; tests and clients need it."""
    bits = length = 0
    table = codes()
    for byte in text:
        code, size = table[byte]
        bits, length = bits << size | code, length + size
    padding = -length % 8
    return (bits << padding | (1 << padding) - 1).to_bytes((length + padding) // 8, "big")
