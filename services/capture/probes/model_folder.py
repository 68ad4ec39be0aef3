"""What an engine is given as its model: a folder with a `config.json`, made for shapes that have none of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import BadInput
from workloads.models.config import CONFIGS, ModelConfig, builtin_names, load_config, weights_folder

_UNSTATED_POSITIONS = 4096


@dataclass(frozen=True, slots=True)
class ProbedModel:
    """A model as the engine sees it.

    Attributes:
        dummy_weights: there are no weight files, so the engine makes random ones.
        longest_tokens: of a request, by the config.
    """

    config: ModelConfig
    folder: Path
    dummy_weights: bool
    longest_tokens: int


def probed_model(model: str, scratch: Path) -> ProbedModel:
    """The model behind a built-in name, a `config.json` or a folder.

    Args:
        scratch: where a folder is made for a bare config.

    Raises:
        BadInput: no such model, or a shape that is not understood.
    """
    config = load_config(model)
    path = Path(model)
    source = CONFIGS / f"{model}.json" if model in builtin_names() else path / "config.json" if path.is_dir() else path
    text = source.read_text()
    folder = source.parent
    if model in builtin_names() or source.name != "config.json":
        folder = scratch / "model"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(text)
    positions = json.loads(text).get("max_position_embeddings", _UNSTATED_POSITIONS)
    if not isinstance(positions, int) or positions < 2:
        raise BadInput("must be a whole number above 1", file=str(source), field="max_position_embeddings")
    return ProbedModel(config, folder.resolve(), weights_folder(model) is None, positions)
