"""When TensorRT-LLM's rules changed, and what is worth knowing about its configuration."""

from __future__ import annotations

from tuner.engines.facts import Facts, change, flag

LIST = flag("cuda_graph_config.batch_sizes", "requests", "The decode list (YAML of --config).")
MAX = flag("cuda_graph_config.max_batch_size", "requests", "End of the generated list; must equal the list's maximum.")
PADDING = flag("cuda_graph_config.enable_padding", "-", "Without it (the field's default) only exact sizes replay.")
PREFILL_LIST = flag("prefill_capture_num_tokens", "tokens", "The prefill list.", "1.3")
PREFILL_BACKEND = flag("prefill_cuda_graph_backend", "-", "piecewise or breakable.", "1.3")
OLD_PREFILL_LIST = flag("torch_compile_config.capture_num_tokens", "tokens", "As above; deprecated alias since 1.3.")
OLD_PREFILL_SWITCH = flag("torch_compile_config.enable_piecewise_cuda_graph", "-", "Deprecated alias since 1.3.")

FINE_LADDER = change("1.3", "above 128 the generated list has steps of 64 instead of powers of two (#12895)")

FACTS = Facts(
    unit="requests (decode), tokens (prefill)",
    flags=(LIST, MAX, PADDING, PREFILL_LIST, PREFILL_BACKEND, OLD_PREFILL_LIST, OLD_PREFILL_SWITCH),
    rules=(
        "Sizes above L = min(max_batch_size, max_num_tokens // (1 + draft tokens)) are dropped; with padding the first "
        "of them becomes L.",
        "A list and a maximum that is not its last is a ValueError; neither gives 1 to 128.",
        "Thresholds of draft_len_schedule are merged into the list.",
        "Prefill sizes above max_num_tokens are dropped, the rest is clamped to max_batch_size x (max_seq_len - 1); "
        "nothing is added.",
        "The key of a graph holds batch size, draft length and LoRA; padding needs one free KV block for its dummy.",
        "With attention DP every rank pads to the largest rank, and all must be generation-only.",
    ),
    traps=(
        "enable_padding defaults to false: only exact sizes replay.",
        "AutoDeploy asserts where max_batch_size exceeds the list (#7675).",
        "Graphs displace KV cache: finer lists regressed on large models (#13393).",
    ),
    source="1.3 and 1.4 sources",
    changes=(FINE_LADDER,),
)
