"""SGLang lines in their usual shape, parsed byte by byte: several times faster than regular expressions.

Takes lines of exactly the form `[YYYY-MM-DD HH:MM:SS RANKS] Decode batch, key: value, key: value`; everything else is
handed back for the patterns of `sglang_log`, which are the definition. Both read a usual line alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.compiled import compiled

Bytes = NDArray[np.uint8]

# Columns of the integer and float results.
DECODE, SIZE, ITERATION, QUEUED, TP, PP, DP, GRAPH, LINE = range(9)
TIME_S, KV, ACCEPT, RATE = range(4)
_DAYS_BEFORE = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365], dtype=np.int64)
# Keys whose values count, as `key: `; an index into this tuple is what `_key_at` answers.
_KEYS = (
    *(b"#running-req: ", b"#token: ", b"#full token: ", b"#new-token: ", b"#queue-req: ", b"accept len: "),
    *(b"gen throughput (token/s): ", b"input throughput (token/s): "),
    *(b"cuda graph: ", b"cpu graph: ", b"npu graph: ", b"musa graph: "),
)
_KEY_BYTES = np.frombuffer(b"".join(_KEYS), dtype=np.uint8)
_KEY_START = np.cumsum([0, *(len(key) for key in _KEYS)]).astype(np.int64)
_MAY_BEGIN_KEY = np.zeros(256, dtype=np.bool_)
_MAY_BEGIN_KEY[[key[0] for key in _KEYS]] = True
_DECODE_HEAD = np.frombuffer(b"Decode batch", dtype=np.uint8)
_PREFILL_HEAD = np.frombuffer(b"Prefill batch", dtype=np.uint8)
_NEW_SEQ = np.frombuffer(b"#new-seq: ", dtype=np.uint8)


@compiled
def _starts(data: Any, at: int, end: int, word: Any) -> bool:
    if at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 - compiled code has no generators
        if data[at + i] != word[i]:
            return False
    return True


@compiled
def _key_at(data: Any, at: int, end: int) -> int:
    for key in range(len(_KEY_START) - 1):
        start, length = _KEY_START[key], _KEY_START[key + 1] - _KEY_START[key]
        if at + length <= end and data[at] == _KEY_BYTES[start]:
            same = True
            for i in range(1, length):
                if data[at + i] != _KEY_BYTES[start + i]:
                    same = False
                    break
            if same:
                return key
    return -1


@compiled
def _digits(data: Any, at: int, end: int, most: int) -> Any:
    """(value, position after it); position `at` where there is no number of at most `most` digits."""
    value, i = 0, at
    while i < end and 48 <= data[i] <= 57:
        value = value * 10 + (data[i] - 48)
        i += 1
        if i - at > most:
            return 0, at
    return value, i


@compiled
def _decimal(data: Any, at: int, end: int) -> Any:
    """(value, position after it) of `123` or `123.45`, at most 15 digits so that the value is exact before scaling."""
    value, i = _digits(data, at, end, 15)
    whole = i - at
    if whole == 0:
        return 0.0, at
    if i < end and data[i] == 46:
        more, j = _digits(data, i + 1, end, 15)
        decimals = j - i - 1
        if decimals == 0 or whole + decimals > 15:
            return 0.0, at
        return (value * 10**decimals + more) / 10.0**decimals, j
    return float(value), i


@compiled
def _pair(data: Any, at: int) -> int:
    """Two digits, or a number below -1000 where they are none."""
    tens, ones = np.int64(data[at]) - 48, np.int64(data[at + 1]) - 48
    return int(tens * 10 + ones) if 0 <= tens <= 9 and 0 <= ones <= 9 else -100_000


@compiled
def _clock(data: Any, at: int) -> float:
    """Seconds since 1970 of `YYYY-MM-DD HH:MM:SS`; negative where it is none."""
    if data[at + 4] != 45 or data[at + 7] != 45 or data[at + 10] != 32 or data[at + 13] != 58 or data[at + 16] != 58:
        return -1.0
    year, month, day = _pair(data, at) * 100 + _pair(data, at + 2), _pair(data, at + 5), _pair(data, at + 8)
    hour, minute, second = _pair(data, at + 11), _pair(data, at + 14), _pair(data, at + 17)
    if year < 1970 or month < 1 or month > 12 or hour < 0 or hour > 23:
        return -1.0
    if minute < 0 or minute > 59 or second < 0 or second > 59:
        return -1.0
    leap = 1 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 0
    first = _DAYS_BEFORE[month - 1]
    if day < 1 or day > _DAYS_BEFORE[month] - first + (leap if month == 2 else 0):
        return -1.0
    before = year - 1
    days = (year - 1970) * 365 + before // 4 - before // 100 + before // 400 - 477 + first + day - 1
    if month > 2:
        days += leap
    return float(days * 86400 + hour * 3600 + minute * 60 + second)


@compiled
def _ranks(data: Any, at: int, end: int, whole: Any, row: int) -> int:
    """Read ` DP0 TP1 EP2]`; the position after the bracket, or -1."""
    i = at
    while i < end and data[i] == 32:
        start = i + 1
        i = start
        while i < end and (65 <= data[i] <= 90 or data[i] == 95):
            i += 1
        letters = i - start
        value, after = _digits(data, i, end, 4)
        if letters < 2 or after == i:
            return -1
        if letters == 2 and data[start + 1] == 80:
            if data[start] == 84:
                whole[row, TP] = value
            elif data[start] == 80:
                whole[row, PP] = value
            elif data[start] == 68:
                whole[row, DP] = value
                if data[start + 2] == 48 and after - i > 1:
                    return -1  # DP00 is another name than DP0
        i = after
    return i + 1 if i < end and data[i] == 93 else -1


@compiled
def _value(data: Any, key: int, at: int, end: int, whole: Any, real: Any, row: int) -> int:
    """Read the value of a key that counts; the position after it, or -1."""
    if key >= 8:
        if end - at >= 4 and data[at] == 84 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
            whole[row, GRAPH] = 0
            return at + 4
        if end - at >= 5 and data[at] == 70 and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115:
            whole[row, GRAPH] = 1
            return at + 5
        return -1
    if key in (0, 3, 4):
        value, after = _digits(data, at, end, 9)
        if key == 4:
            whole[row, QUEUED] = value
        elif (key == 0) == (whole[row, DECODE] == 1):
            whole[row, SIZE] = value
        return after if after > at else -1
    if key in (1, 2):
        tokens, after = _digits(data, at, end, 15)
        real[row, KV] = float(tokens)
        return after if after > at else -1
    number, after = _decimal(data, at, end)
    if key == 5:
        real[row, ACCEPT] = number
    else:
        real[row, RATE] = number
    return after if after > at else -1


@compiled
def _skip(data: Any, at: int, end: int) -> int:
    """The comma that ends an item without a key that counts; -1 where the item may be two that were torn together."""
    i, colons = at, 0
    while i < end and data[i] != 44:
        byte = data[i]
        if byte >= 128 or byte == 40 or 65 <= byte <= 90 or (byte == 35 and i > at):
            return -1
        if byte == 58:
            colons += 1
            if colons > 1 or i + 1 >= end or data[i + 1] != 32:
                return -1
        if _MAY_BEGIN_KEY[byte] and _key_at(data, i, end) >= 0:
            return -1
        i += 1
    return i


@compiled
def _line(data: Any, at: int, end: int, whole: Any, real: Any, row: int) -> bool:
    """Parse one line that starts with a bracket; False where it is of another shape."""
    if end - at < 40 or data[at] != 91:
        return False
    time_s = _clock(data, at + 1)
    if time_s < 0:
        return False
    real[row, TIME_S] = time_s
    i = _ranks(data, at + 20, end, whole, row)
    if i < 0 or i >= end or data[i] != 32:
        return False
    i += 1
    if _starts(data, i, end, _DECODE_HEAD):
        whole[row, DECODE] = 1
        i += len(_DECODE_HEAD)
    elif _starts(data, i, end, _PREFILL_HEAD):
        whole[row, DECODE] = 0
        i += len(_PREFILL_HEAD)
    else:
        return False
    if i + 1 < end and data[i] == 32 and data[i + 1] == 91:
        number, after = _digits(data, i + 2, end, 15)
        if after == i + 2 or after >= end or data[after] != 93:
            return False
        whole[row, ITERATION] = number
        i = after + 1
    if i + 2 >= end or (data[i] != 44 and data[i] != 46) or data[i + 1] != 32:
        return False
    i += 2
    if whole[row, DECODE] == 0:
        if not _starts(data, i, end, _NEW_SEQ):
            return False
        _, after = _digits(data, i + len(_NEW_SEQ), end, 9)
        if after + 2 >= end or data[after] != 44 or data[after + 1] != 32:
            return False
        i = after + 2
    first, seen = True, 0
    while i < end:
        key = _key_at(data, i, end)
        if first and key != (0 if whole[row, DECODE] == 1 else 3):
            return False
        first = False
        if key >= 0:
            group = 8 if key >= 8 else (1 if key == 2 else (6 if key == 7 else key))
            if seen >> group & 1:
                return False  # said twice: let the patterns decide
            seen |= 1 << group
            i = _value(data, key, i + _KEY_START[key + 1] - _KEY_START[key], end, whole, real, row)
            if i < 0 or (i < end and data[i] != 44):
                return False
        i = _skip(data, i, end)
        if i < 0:
            return False
        i += 1
        while i < end and data[i] == 32:
            i += 1
    return not first


@compiled
def parse(data: Any, first_line: int, most: int) -> Any:
    """Whole lines -> (integers [rows, 9], floats [rows, 4], bytes of all other lines, their line numbers)."""
    whole = np.full((most, 9), -1, dtype=np.int64)
    real = np.full((most, 4), np.nan)
    rest = np.empty(len(data), dtype=np.uint8)
    numbers = np.empty(most, dtype=np.int64)
    rows, others, used, at, line = 0, 0, 0, 0, first_line
    while at < len(data):
        end = at
        while data[end] != 10:
            end += 1
        stop = end - 1 if end > at and data[end - 1] == 13 else end
        if _line(data, at, stop, whole, real, rows):
            whole[rows, LINE] = line
            rows += 1
        else:
            for column in range(9):
                whole[rows, column] = -1
            for column in range(4):
                real[rows, column] = np.nan
            for i in range(at, end + 1):
                rest[used] = data[i]
                used += 1
            numbers[others] = line
            others += 1
        at = end + 1
        line += 1
    return whole[:rows], real[:rows], rest[:used], numbers[:others]


def quick_rows(data: bytes, first_line: int) -> tuple[NDArray[np.int64], NDArray[np.float64], bytes, NDArray[np.int64]]:
    """Parse whole lines, each ended by a newline.

    Returns:
        int64 [rows, 9] and float64 [rows, 4] in the columns named above (-1 and nan where a line does not say), the
        lines of another shape as they stand, and their 1-based numbers.
    """
    whole, real, rest, numbers = parse(np.frombuffer(data, dtype=np.uint8), first_line, data.count(b"\n") + 1)
    return whole, real, rest.tobytes(), numbers
