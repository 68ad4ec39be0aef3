"""A config.json is understood or refused with one sentence that names file and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workloads.errors import BadInput
from workloads.models.config import CONFIGS, builtin_names, load_config, parse_config


def tiny() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((CONFIGS / "tiny-llama.json").read_text())
    return raw


def test_builtin_names_are_the_shipped_files_and_load() -> None:
    assert {"llama-3.1-8b", "qwen3-0.6b", "tiny-llama", "tiny-qwen3"} <= set(builtin_names())
    for name in builtin_names():
        assert load_config(name).name == name


def test_a_file_and_its_folder_are_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(tiny()))
    assert load_config(str(folder)) == load_config(str(folder / "config.json"))
    assert load_config(str(folder)).name == "my-model"


def test_the_newer_rope_parameters_spelling_is_the_same_model() -> None:
    old = tiny()
    new = tiny()
    new["rope_parameters"] = new.pop("rope_scaling") | {"rope_theta": new.pop("rope_theta")}
    assert parse_config(json.dumps(old), name="m") == parse_config(json.dumps(new), name="m")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architectures: 'MambaForCausalLM' is not supported"),
        ({"architectures": None}, "architectures: 'none' is not supported"),
        ({"hidden_size": None}, "hidden_size: is missing"),
        ({"hidden_size": "64"}, "hidden_size: must be a number"),
        ({"num_hidden_layers": 0}, "layers: must be at least 1"),
        ({"num_hidden_layers": 1.5}, "num_hidden_layers: must be a whole number"),
        ({"num_key_value_heads": 3}, "num_key_value_heads: 4 attention heads do not divide"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling: rope scaling 'yarn' is not supported"),
        ({"rope_scaling": [1]}, "rope_scaling: must be an object"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 4096}, "sliding_window: sliding-window"),
    ],
)
def test_a_shape_that_is_not_understood_is_refused(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(tiny() | change))
    with pytest.raises(BadInput) as caught:
        load_config(str(file))
    assert complaint in str(caught.value)
    assert "odd" in str(caught.value)


def test_no_json_and_no_file_are_bad_input(tmp_path: Path) -> None:
    broken = tmp_path / "config.json"
    broken.write_text("{,")
    with pytest.raises(BadInput, match=r"config\.json:1: not JSON"):
        load_config(str(broken))
    with pytest.raises(BadInput, match="neither a file, a folder"):
        load_config("no-such-model")
