"""Writes docs/trace-formats.md: every format that the registry reads (python docs/make_trace_formats.py)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workloads.traces.base import Reader  # noqa: E402
from workloads.traces.header_names import CONVENTIONS, SYNONYMS  # noqa: E402
from workloads.traces.registry import READERS  # noqa: E402

HEAD = """# Trace formats

Written from the registry of readers: `python docs/make_trace_formats.py`.

Drop a file on the upload page, or run `captune trace inspect FILE`: the format is told by content, never by name.
Tables may be CSV, TSV, JSON (a list of objects), JSON lines or Parquet; text may be plain or packed with gzip, bzip2,
xz or zstd. `--format NAME` names a format where two are possible.

| format | what it is | told by |
|---|---|---|
"""

NAMES = """
## Any other request table

Columns are found by these names, whatever their case, or named by `--columns ARRIVAL,INPUT,OUTPUT[,UNIT]` (in the
API: the form field `mapping`). A field inside a JSON object is named by its path, such as `usage.prompt_tokens`.

| role | names |
|---|---|
"""

CONVENTIONS_HEAD = """
Header conventions of these tools are read as they stand:

| tool | arrival | input tokens | output tokens | unit |
|---|---|---|---|---|
"""

TAIL = """
`captune trace columns FILE` (in the API: `POST /api/v1/traces/mapping`) proposes a mapping from the header and the
first rows and says what is left open. Where seconds and milliseconds are both possible, the answer is a question that
shows both rates.

| option | what it does |
|---|---|
| `--columns` | names the columns and the time unit (s, ms, us, ns, iso) |
| `--time-zone` | zone of date-times that carry none; without it they are taken as UTC, and a note says so |
| `--time-scale X` | multiplies every recorded time |
| `--arrivals KIND:RATE[,cv=X][,seed=N]` | times for sets of lengths: poisson, gamma or uniform gaps |
| `--arrivals recorded:RATE[,seed=N]` | samples ServeGen clients at the rate of one engine |
| `--spread-ticks SEED` | spreads arrivals at random inside the ticks of a coarse clock |

## What is counted, and what is said

Rows read = kept + dropped, by reason, with the first line of each reason. A value that is not what its column
promises refuses the whole file with file, line and field. Named in the notes, with what was done:

- rows out of order (sorted), a clock that starts again at midnight (a day is added), a second recording in one file;
- rows that repeat an earlier row's time and lengths (kept);
- a clock of coarse ticks, whose bursts are an artefact of the recording;
- failed, cancelled and warm-up requests, requests without output or input tokens, and rows without counts (dropped);
- times without zone, units told from values, arrival times that are not from the file.

## Limits

A row is at most 1 MiB, an unpacked file 8 GiB on the command line and 4 GiB over the API, a JSON document 256 MiB.
The API reads uploads in reused child processes with limits on time and memory (`CAPTUNE_PARSE_TIMEOUT_S`,
`CAPTUNE_PARSE_MEMORY_MIB`); JSON and Parquet cross between the processes, nothing is unpickled or evaluated, and file
names never become paths. Only normalised columns are kept, addressed by their content: the same columns uploaded
twice are one trace. `make fuzz` feeds 20,000 broken files of each of five families to such children.
"""


def render() -> str:
    """The whole page."""
    lines = [_row(reader) for reader in READERS]
    roles = [f"| {role} | {', '.join(f'`{name}`' for name in names)} |" for role, names in SYNONYMS.items()]
    tools = [
        f"| {known.tool} | `{known.arrival}` | `{known.input_tokens}` | `{known.output_tokens}` | "
        f"{known.time_unit or 'told by its values'} |"
        for known in CONVENTIONS
    ]
    parts = (HEAD, *lines, NAMES, *roles, CONVENTIONS_HEAD, *tools, TAIL)
    return "\n".join(part.strip("\n") if part in lines + roles + tools else part.rstrip("\n") for part in parts) + "\n"


def _row(reader: Reader) -> str:
    marks = ", ".join(f"`{marker.decode(errors='replace')}`" for marker in reader.markers)
    told = reader.told_by or (f"lines with {marks}" if marks else "its columns")
    return f"| `{reader.name}` | {reader.description} | {told.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    (ROOT / "docs" / "trace-formats.md").write_text(render())
    sys.stdout.write("docs/trace-formats.md written\n")
