"""The child process that runs an engine's Python class: `python offline_main.py vllm` or `... sglang`.

It runs under the Python that has the engine, which need not have Captune: the standard library and the engine, nothing
else. One JSON object a line. The first line in is `{"arguments": {..}}`, the answer `{"ready": true}`; then

    {"batch": [[ids], ..], "output_tokens": n}     -> {"seconds": s}
    {"serve": [{"at_s", "ids", "output_tokens"}]}  -> {"done": k} now and then, at last {"timings": [[..], ..]}

and at the end of the input it ends. A timing is [sent_s, first_s, last_s, tokens]. What the engine prints goes to
stderr.
"""

import json
import os
import sys
from typing import Any, TextIO


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print to stdout, also from native code and from their own children
    arguments = json.loads(sys.stdin.readline())["arguments"]
    engine = _engine(sys.argv[1], arguments)
    _say(out, {"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if "batch" in asked:
            _say(out, {"seconds": engine.batch(asked["batch"], asked["output_tokens"])})
        else:
            timings = engine.serve(asked["serve"], lambda done: _say(out, {"done": done}))
            _say(out, {"timings": timings})


def _engine(name: str, arguments: dict[str, Any]) -> Any:
    # Siblings by their own names: this folder, and not the package, is on the path.
    if name == "vllm":
        from offline_vllm import VllmInProcess

        return VllmInProcess(arguments)
    from offline_sglang import SglangInProcess

    return SglangInProcess(arguments)


def _say(out: TextIO, document: dict[str, Any]) -> None:
    out.write(json.dumps(document) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
