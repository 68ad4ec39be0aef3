"""Ways to break a file: byte flips, truncations, wrong types, huge fields, repeated and torn pieces."""

from __future__ import annotations

import random

HUGE = 300_000
WRONG = (
    b"",
    b"-1",
    b"0",
    b"nan",
    b"NaN",
    b"inf",
    b"1e999",
    b"1.5",
    b"true",
    b"null",
    b'"text"',
    b"[]",
    b"{}",
    b"[[1],[2]]",
    b'{"value": "x"}',
    b"99999999999999999999999",
    b"-9223372036854775808",
    b"=1+1",
    b"9999-12-31 23:59:59.999999999",
    b"0001-01-01 00:00:00",
    b"2024-02-30 00:00:00",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b'"',
    b",,,",
    b"\n\n",
    b"\r",
    b"\x00",
    b"\x1b[31m",
    b"__import__('os')",
)
_EDGES = b',;\t\n :"[]{}|'


def mutate(data: bytes, random: random.Random) -> bytes:
    """One to four changes of `data`, mostly one: a file that is broken everywhere is refused at its first row."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_WAYS)(data, random)
    return data


def _flip(data: bytes, random: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8)):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, random: random.Random) -> bytes:
    return data[: random.randint(0, len(data))] if random.random() < 0.7 else data[random.randint(0, len(data)) :]


def _field(data: bytes, random: random.Random) -> tuple[int, int]:
    """From one separator to the next."""
    start = random.randint(0, len(data))
    while start and data[start - 1] not in _EDGES:
        start -= 1
    end = start
    while end < len(data) and data[end] not in _EDGES:
        end += 1
    return start, end


def _wrong_type(data: bytes, random: random.Random) -> bytes:
    start, end = _field(data, random)
    return data[:start] + random.choice(WRONG) + data[end:]


def _huge(data: bytes, random: random.Random) -> bytes:
    start, end = _field(data, random)
    size = random.choice((1_000, 70_000, HUGE, HUGE, 1_200_000))
    return data[:start] + random.choice((b"7", b"x", b"[", b'{"a":', b'"', b" ")) * size + data[end:]


def _repeat(data: bytes, random: random.Random) -> bytes:
    start = random.randint(0, len(data))
    piece = data[start : start + random.randint(0, 200)]
    return data[:start] + piece * random.randint(0, 5) + data[start:]


def _lose(data: bytes, random: random.Random) -> bytes:
    start = random.randint(0, len(data))
    return data[:start] + data[start + random.randint(0, 60) :]


_WAYS = (_flip, _flip, _truncate, _wrong_type, _wrong_type, _wrong_type, _huge, _repeat, _lose)
