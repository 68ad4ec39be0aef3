"""When SGLang's rules changed, read from its released wheels, and what is worth knowing about its flags."""

from __future__ import annotations

from tuner.engines.facts import Facts, change, flag

OLD_LIST = flag(
    "--cuda-graph-bs", "requests", "The decode list; a deprecated alias since 0.5.14, gone in 0.5.20.", None, "0.5.19"
)
OLD_MAX = flag("--cuda-graph-max-bs", "requests", "End of the default decode list; as above.", None, "0.5.19")
OLD_PREFILL_LIST = flag(
    "--piecewise-cuda-graph-tokens", "tokens", "The prefill list; an alias since 0.5.14.", "0.5.4", "0.5.19"
)
OLD_PREFILL_MAX = flag(
    "--piecewise-cuda-graph-max-tokens", "tokens", "End of the default prefill list.", "0.5.4", "0.5.19"
)
PREFILL_ON = flag("--enable-piecewise-cuda-graph", "-", "Prefill graphs are off without it.", "0.5.4", "0.5.9")
PREFILL_OFF = flag("--disable-piecewise-cuda-graph", "-", "Prefill graphs are on without it.", "0.5.10", "0.5.19")
DECODE_LIST = flag("--cuda-graph-bs-decode", "requests", "The decode list, space separated.", "0.5.14")
DECODE_MAX = flag("--cuda-graph-max-bs-decode", "requests", "End of the default decode list.", "0.5.14")
PREFILL_LIST = flag("--cuda-graph-bs-prefill", "tokens", "The prefill list, in tokens despite its name.", "0.5.14")
PREFILL_MAX = flag("--cuda-graph-max-bs-prefill", "tokens", "End of the default prefill list.", "0.5.14")
CONFIG = flag("--cuda-graph-config", "-", 'JSON: {"decode": {"bs": [..]}, "prefill": {"bs": [..]}}.', "0.5.14")
BACKENDS = flag("--cuda-graph-backend-decode, -prefill", "-", "full, breakable or disabled; locks the phase.", "0.5.14")
NO_PADDING = flag("--disable-cuda-graph-padding", "-", "Every size has a graph; only exact sizes replay.")

SPEC_64 = change("0.5.5", "the ladder with speculation holds 64; GPUs of 20 to 35 GiB capture to 24 instead of 16")
VERIFY_WIDTH = change("0.5.8", "alignment looks at requests x verify width; MLA prefill lists end at 2048 tokens")
COARSE_PREFILL = change("0.5.9", "prefill sizes above 512 are 64, 256 and 512 tokens apart; context parallelism aligns")
MAX_APPENDED = change(
    "0.5.10",
    "the maximum belongs to the default decode list; the request pool is rounded up to A;"
    " prefill graphs are on by default",
)
PHASES = change("0.5.14", "decode and prefill have flags and one JSON of their own")
PADDING_FACTOR = change(
    "0.5.16", "prefill runs eager when its bucket exceeds twice the step; DeepEP memory is reserved"
)
WIDE_SMALL_GPU = change(
    "0.5.20",
    "GPUs of 20 to 35 GiB capture to 48 (TP >= 4: 160) instead of 24 (80), chunks of 4096; old flags are gone (#37898)",
)
LOWERED_DEFAULT = change("0.5.22", "a default maximum is lowered to max_running_requests")
MLA_8192 = change("0.5.23", "MLA prefill lists end at 8192 tokens")

FACTS = Facts(
    unit="requests (decode), tokens (prefill)",
    flags=(
        DECODE_LIST,
        DECODE_MAX,
        PREFILL_LIST,
        PREFILL_MAX,
        CONFIG,
        BACKENDS,
        OLD_LIST,
        OLD_MAX,
        OLD_PREFILL_LIST,
        OLD_PREFILL_MAX,
        PREFILL_ON,
        PREFILL_OFF,
        NO_PADDING,
    ),
    rules=(
        "Decode sizes above R, the request pool of one attention-DP rank rounded up to A, are dropped, and R is added.",
        "A = 2 with two-batch overlap, x attention TP with DP attention, x attention CP unless that divides it; "
        "sizes x verify width must be multiples of A.",
        "Nothing left after the filter is an AssertionError; everything else is dropped silently.",
        "Prefill sizes above request slots x context length are dropped, the rest is rounded up to A (DeepEP: to 8 "
        "first); an empty list only disables prefill graphs.",
        "Draft and draft-extend graphs reuse the decode list; LoRA doubles the target's graphs.",
        "Memory is reserved by the largest decode size and the number of prefill sizes before anything is captured.",
        "Prefill graphs are switched off with pipeline, context or decode-context parallelism, two-batch overlap, KDA, "
        "DeepSeek-V4, multimodal models, unvalidated all-to-all backends, and on PD-decode servers; an explicit "
        "backend wins over all of that.",
        "Dispatch takes the smallest bucket; with DP attention the largest rank's batch decides for all.",
    ),
    traps=(
        "Falling off the last bucket is silent and about four times slower (#33900, #33483).",
        "A prefill bucket of more than twice the step is not used (#31487).",
        "Prefill sizes that attention TP does not divide broke reduce-scatter (#36262).",
        "Draft graphs cost time and memory of their own and have no list of their own (#10088, #30944).",
        "With DP attention every rank captures; a list sized for the server is dp_size times too large.",
    ),
    source="wheels 0.5.3 to 0.5.23: `server_args.py`, later `arg_groups/cuda_graph_hook.py` and `memory_hook.py`",
    changes=(
        SPEC_64,
        VERIFY_WIDTH,
        COARSE_PREFILL,
        MAX_APPENDED,
        PHASES,
        PADDING_FACTOR,
        WIDE_SMALL_GPU,
        LOWERED_DEFAULT,
        MLA_8192,
    ),
)
