"""Whatever happens to a file on its way here, reading it ends in a result or in one of our errors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.traces.request_examples import SERVEGEN
from workloads.errors import CaptuneError
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.read import read
from workloads.traces.registry import READERS

NASTY = (
    b"",
    b"-1",
    b"nan",
    b"1e999",
    b"99999999999999999999",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\xff",
    b"{}",
    b"[",
    b"null",
    b"\t",
    b"#",
    b"True",
    b"9999-12-31 23:59:59",
    b"0001-01-01 00:00:00.000000000",
    b"#running-req: 5",
    b"| FULL         |",
)


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(NASTY) | st.binary(max_size=6).map(lambda raw: raw.replace(b"\0", b"0")))
        data = data[:start] + piece + data[end:]
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    return data


@pytest.mark.parametrize("name", [reader.name for reader in READERS])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_mutated_file_never_crashes_a_reader(examples: dict[str, bytes], name: str, data: st.DataObject) -> None:
    whole = SERVEGEN if name == "servegen" else examples[name]
    mapping = ColumnMapping(arrivals=ArrivalProcess("recorded", 1.0)) if name == "servegen" else None
    mutated = data.draw(mutations(whole))
    forced = data.draw(st.sampled_from((None, name)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "upload"
        path.write_bytes(mutated)
        try:
            result = read(path, format=forced, mapping=mapping)
        except CaptuneError as error:
            assert str(error)
        else:
            assert result.rows.kept == len(result.traffic) > 0
            assert result.rows.read == result.rows.kept + sum(result.rows.dropped.values())
