"""Which decode sizes survive SGLang's final filter: alignment A and limit R (0.5.23 `utils/common.py:4168-4181`)."""

from __future__ import annotations

from math import gcd

from packaging.version import Version

from tuner.engines.sglang import facts
from tuner.engines.sglang.options import SglangOptions
from tuner.engines.sizes import round_up


def alignment(options: SglangOptions, version: Version) -> int:
    """A: what sizes x verify width must be a multiple of."""
    value = 2 if options.enable_two_batch_overlap else 1
    # A gathered buffer is needed with DP attention and with every all-to-all backend of experts. SGLang turns DP
    # attention off where dp_size is 1; keeping its alignment there only asks for sizes that are captured either way.
    if options.enable_dp_attention or options.moe_a2a_backend != "none":
        value *= options.attention_tp
    if options.is_hip or not facts.COARSE_PREFILL.holds(version) or value % options.attn_cp_size == 0:
        return value
    return value * options.attn_cp_size


def decode_multiple(options: SglangOptions, version: Version) -> int:
    """Decode sizes must be multiples of this: A applies to requests x verify width, or to requests under TBO."""
    a = alignment(options, version)
    per_request = options.enable_two_batch_overlap or not facts.VERIFY_WIDTH.holds(version)
    return a // gcd(a, 1 if per_request else options.verify_tokens)


def largest_decode(options: SglangOptions, version: Version) -> int:
    """R: larger sizes are dropped. Since 0.5.10 the request pool is rounded up to A before."""
    if not facts.MAX_APPENDED.holds(version):
        return options.pool_requests
    return round_up(options.pool_requests, alignment(options, version))


def largest_usable(options: SglangOptions, version: Version) -> int:
    """The largest size that both limits leave; 0 where there is none."""
    multiple = decode_multiple(options, version)
    return largest_decode(options, version) // multiple * multiple
