"""Keep a run of `capture_h200.py` for docs/measurements.md: its results with provenance, without the single cases.

python benchmarks/keep_run.py DIR/MODEL [--profile PROFILE.json] --arguments "--models .." --name NAME
python docs/make_measurements.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

BULKY = ("cases", "step_ms", "size_s", "size_mib", "points")


def trimmed(value: Any) -> Any:
    """The same document with five digits and without what no table shows."""
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: trimmed(item) for key, item in value.items() if key not in BULKY}
    return [trimmed(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--profile", type=Path, help="what predicted; default: the run's own profile.json")
    parser.add_argument("--arguments", default="", help="of capture_h200.py, as they were given")
    parser.add_argument("--name", required=True)
    parser.add_argument("--note")
    asked = parser.parse_args()
    profile = json.loads((asked.profile or asked.run / "profile.json").read_text())
    document = {
        "note": asked.note,
        "command": f"python benchmarks/capture_h200.py --out DIR {asked.arguments}".strip(),
        "recorded_at": profile["recorded_at"],
        "device": profile["device"],
        "software": {key: value for key, value in profile["software"].items() if key != "measurement"},
        "model": profile["model"]["name"],
        "results": trimmed(json.loads((asked.run / "results.json").read_text())),
    }
    target = Path(__file__).parent / "h200" / f"{asked.name}.json"
    target.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
