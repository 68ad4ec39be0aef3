"""The KV cache that capture lists leave, by an engine's own rule."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InStore
from services.catalog import find_profile
from services.contract.kv import KvModel, KvRequest, KvTokensModel
from tuner.engines.registry import engine as find_engine
from tuner.kv_cache import kv_cache
from tuner.kv_facts import kv_facts
from workloads.arrays import as_sizes

router = APIRouter(tags=["engines"])


@router.post("/kv-cache")
def kv_cache_of(store: InStore, request: KvRequest) -> KvModel:
    """KV capacity of one GPU under every list; null where a fact is missing, which `reason` names."""
    engine = find_engine(request.engine)
    profile = find_profile(request.profile, store, files=False)
    facts = kv_facts(profile, engine, request.options)
    options = engine.options({**request.options, **facts})
    default, name = engine.default_lists(options), engine.list_names[0]
    found = {}
    for label, sizes in request.lists.items():
        lists = {**default, name: tuple(int(size) for size in as_sizes(sizes))}
        found[label] = KvTokensModel.from_domain(kv_cache(engine, options, profile, lists))
    return KvModel(lists=found, facts=facts)
