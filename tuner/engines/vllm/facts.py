"""When vLLM's rules changed, read from its released wheels, and what is worth knowing about its flags."""

from __future__ import annotations

from tuner.engines.facts import Facts, change, flag

SIZES_FLAG = flag("--cuda-graph-sizes", "tokens", "One value is a maximum, several are the list.", "0.9.0", "0.12.0")
LIST_FLAG = flag("--cudagraph-capture-sizes", "tokens", "The list, space separated.", "0.11.1")
MAX_FLAG = flag("--max-cudagraph-capture-size", "tokens", "End of the default list.", "0.11.1")
JSON_LIST = flag(
    "--compilation-config '{\"cudagraph_capture_sizes\": [..]}'", "tokens", "The list as JSON; also written -cc or -O."
)
MODE = flag(
    "--compilation-config.cudagraph_mode",
    "-",
    "NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE.",
    "0.10.1",
)
FULL_SWITCH = flag("full_cuda_graph (compilation config)", "-", "FULL instead of PIECEWISE graphs.", None, "0.11.0")
METRICS_FLAG = flag("--cudagraph-metrics", "-", "Logs a table of step sizes and buckets.", "0.13.0")
ITERATION_FLAG = flag("--enable-logging-iteration-details", "-", "Logs every step.", "0.14.0")
PERFORMANCE_MODE = flag("--performance-mode", "-", "interactivity adds every size to 32.", "0.17.0")

DECODE_LIMITED_DEFAULT = change("0.10.0", "the default list ends at min(2 x max_num_seqs, 512) instead of 512")
FULL_BY_DEFAULT = change("0.11.0", "FULL_AND_PIECEWISE by default: uniform decode steps have graphs of their own")
MODERN_LIST = change(
    "0.11.1",
    "step 16 from 256 on; user lists are deduplicated and bounded by max_num_batched_tokens; list and maximum"
    " of one option in two places are refused",
)
QUERY_SCALED = change("0.13.0", "the end of the default list counts draft tokens: 2 x max_num_seqs x q")
ESTIMATE = change("0.20.0", "graph memory is estimated and subtracted from the KV cache; gpu_memory_utilization 0.92")
TOKEN_BUDGET_CAPTURED = change("0.21.0", "max_num_batched_tokens is captured where it is below the maximum (#40734)")
V2_FOR_SOME = change(
    "0.22.0",
    "model runner V2 for some models: dense Qwen3, from 0.23 on Llama and Mistral too, from 0.25 on every dense one",
)
V2_RUNNER = change("0.27.0", "model runner V2 where its features allow: sizes are rounded per graph, not in the list")
WIDE_BLACKWELL = change("0.28.0", "the list ends at 1024 on the SM100 family; 16384 batched tokens from 160 GiB on")
V2_ESTIMATE = change("0.29.0", "model runner V2 estimates graph memory too; before, it subtracts nothing")
DECODE_LADDER = change("0.29.0", "with speculation a ladder of requests x q is added (#50488, #54418)")
MAX_SEQS_CAPTURED = change("0.31.0", "max_num_seqs is captured (#57355)")
NO_TP_FILTER = change("0.32.0", "sequence parallelism no longer removes sizes that TP does not divide")

FACTS = Facts(
    unit="tokens; one list feeds PIECEWISE graphs (mixed steps) and FULL graphs (uniform decode steps)",
    flags=(
        SIZES_FLAG,
        LIST_FLAG,
        MAX_FLAG,
        JSON_LIST,
        MODE,
        FULL_SWITCH,
        PERFORMANCE_MODE,
        METRICS_FLAG,
        ITERATION_FLAG,
    ),
    rules=(
        "The default list is 1, 2, 4, then step 8 below 256 and step 16 from there, to min(2 x max_num_seqs x q, cap, "
        "max_num_batched_tokens); q is 1 + draft tokens.",
        "A user's list is sorted and loses what exceeds max_num_batched_tokens; an explicit maximum must be its last.",
        "FULL graphs exist for whole requests up to max_num_seqs x q; other sizes serve mixed steps.",
        "With speculation runner V1 rounds the list up to multiples of q, V2 rounds FULL graphs only.",
        "Dispatch takes the smallest FULL graph, then the smallest PIECEWISE one, then runs eager.",
        "LoRA doubles every graph; each is captured after one warm-up, PIECEWISE first, largest first, into one pool.",
    ),
    traps=(
        "One value of --cuda-graph-sizes is a maximum, not a list of one.",
        "A decode step that pads past max_num_seqs finds no FULL graph (#57355).",
        "An explicit maximum off the grid is truncated, and decode sizes are not added (#54933).",
        "The same option on the command line and in --compilation-config is refused.",
        "Sizes that are no multiple of q crashed PIECEWISE replays with speculation (#46324).",
        "The graph memory estimate can be far off either way (#53013, #45178, #57475).",
    ),
    source="wheels 0.8.5 to 0.33.0, `config/vllm.py:_set_cudagraph_sizes` and `config/compilation.py` of each",
    changes=(
        DECODE_LIMITED_DEFAULT,
        FULL_BY_DEFAULT,
        MODERN_LIST,
        QUERY_SCALED,
        ESTIMATE,
        TOKEN_BUDGET_CAPTURED,
        V2_FOR_SOME,
        V2_RUNNER,
        WIDE_BLACKWELL,
        V2_ESTIMATE,
        DECODE_LADDER,
        MAX_SEQS_CAPTURED,
        NO_TP_FILTER,
    ),
)
