"""The script of a scene, run: its numbers are the library's to the last bit, and it prints what is expected of it."""

import ast
import contextlib
import io
import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attention import export, sample, script, script_mask, tensors, verify_head
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import attend_as_configured, attend_masked
from attention.scenes import Scene, config_of
from attention.verify_block import BlockConfig, each_block
from attention.verify_head import HeadConfig

DTYPES: Final = ("float64", "float32", "bfloat16", "float16")
# embed dim, heads, tokens: one of each, odd ones, heads of width 1, the largest text
SIZES: Final = ((1, 1, 1), (7, 7, 5), (20, 10, 11), (64, 4, 33), (15, 3, 256))
RULES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"window": 2},
    {"prefix": 3},
    {"padding_left": 2},
    {"padding_right": 2},
    {"padding_left": 1, "padding_right": 1},
    {"document": 3},
    {"stride": 2},
    {"window": 4, "prefix": 2, "document": 4, "stride": 2, "padding_left": 1, "padding_right": 1},
)
SMALL: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=7, seed=5)
MASKS: Final = tuple(
    (replace(SMALL, dtype=dtype), MaskConfig(num_queries=t, num_keys=s, causal=causal, corner=corner, **rules))
    for rules, (t, s), corner, (causal, dtype) in zip(
        RULES * 4,
        ((7, 7), (3, 7), (7, 4)) * 12,
        tuple(Corner) * 18,
        tuple(product((True, False), DTYPES)) * 5,
        strict=False,
    )
)
HEADS: Final = tuple(
    HeadConfig(replace(SMALL, dtype=dtype, causal=causal, num_tokens=tokens), head_dim, value_dim)
    for dtype in DTYPES
    for causal, tokens, head_dim, value_dim in ((True, 5, 4, 4), (False, 7, 1, 1), (True, 1, 3, 11))
)
BLOCKS: Final = tuple(
    BlockConfig(replace(SMALL, dtype=dtype, causal=causal), depth, norm_first, activation)
    for dtype in DTYPES
    for causal, depth, norm_first, activation in (
        (True, 1, False, "gelu"), (False, 3, True, "gelu"), (True, 3, False, "relu"), (False, 1, True, "relu")
    )
)  # fmt: skip
TRAINED: Final = AttentionConfig(embed_dim=64, num_heads=4, num_tokens=32, weights="repeat, layer 1")
SENTENCES: Final = AttentionConfig(embed_dim=64, num_heads=2, num_tokens=20, weights="agreement, layer 0")
LEARNT: Final[tuple[Scene, ...]] = (
    *(replace(TRAINED, dtype=dtype, causal=causal) for dtype in DTYPES for causal in (True, False)),
    *(HeadConfig(replace(TRAINED, dtype=dtype, num_tokens=9), 16, 16, 3) for dtype in DTYPES),
    (replace(TRAINED, num_tokens=7), MASKS[4][1]),
    *(
        BlockConfig(replace(SENTENCES, dtype=dtype, causal=causal), depth, norm_first, activation)
        for dtype in DTYPES
        for causal, depth, norm_first, activation in ((True, 2, True, "relu"), (False, 1, False, "gelu"))
    ),
)
ATTENTIONS: Final = tuple(
    AttentionConfig(embed_dim=e, num_heads=h, num_tokens=t, causal=causal, dtype=dtype, seed=2**32 - 1 - e)
    for (e, h, t), causal, dtype in product(SIZES, (True, False), DTYPES)
)


def ours(scene: Scene) -> tuple[Tensor, Tensor]:
    """Weights and output by the functions that the pages show."""
    with torch.no_grad():
        if isinstance(scene, BlockConfig):
            *_, last = each_block(scene)
            return last.attention.weights, last.output
        if isinstance(scene, HeadConfig):
            one = verify_head.attend_as_configured(scene)
            return one.weights, one.output
        trace = attend_masked(*scene) if isinstance(scene, tuple) else attend_as_configured(scene)
        return trace.weights, trace.output


def last_row(scene: Scene) -> tuple[int, int]:
    queries = scene[1].num_queries if isinstance(scene, tuple) else config_of(scene).num_tokens
    return 0 if isinstance(scene, HeadConfig) else config_of(scene).num_heads - 1, queries - 1


def run(text: str) -> tuple[dict[str, Any], str]:
    """What the script has at its end, and what it printed."""
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, "script", "exec"), space)
    return space, printed.getvalue()


@pytest.mark.parametrize("scene", [*ATTENTIONS, *MASKS, *HEADS, *BLOCKS], ids=lambda scene: str(scene)[:60])
def test_its_numbers_are_the_librarys_to_the_last_bit(scene: Scene) -> None:
    head, query = last_row(scene)
    found, printed = run(script.text(scene, head, query))
    weights, output = ours(scene)
    assert found["weights"].dtype == weights.dtype
    assert torch.equal(found["weights"], weights)
    assert torch.equal(found["output"], output)
    assert printed == script.expected(scene, head, query)
    shown = " ".join(printed.splitlines()[1].split(": ")[1].split())
    numbers = torch.tensor([float(number) for number in shown.split()], dtype=torch.float64).to(weights.dtype)
    assert torch.equal(numbers, weights[0, head, query, : script.MOST_SHOWN]), "enough digits to read them back"


def test_every_kind_of_scene_is_tried() -> None:
    assert len(MASKS) >= 32
    assert {mask.corner for _, mask in MASKS} == set(Corner)
    crossed = [(config.dtype, mask) for config, mask in MASKS if mask.num_queries != mask.num_keys]
    assert {dtype for dtype, _ in crossed} == set(DTYPES)
    assert any(script_mask.has_empty_rows(mask) for _, mask in MASKS)


@pytest.mark.parametrize("scene", LEARNT, ids=lambda scene: str(scene)[:60])
def test_trained_weights_are_read_from_a_file(scene: Scene, tmp_path: Path) -> None:
    head, query = last_row(scene)
    file = tmp_path / "beside.npz"
    file.write_bytes(export.as_npz(tensors.inputs_of(scene), {}))
    text = script.text(scene, head, query, str(file))
    found, printed = run(text)
    weights, output = ours(scene)
    assert torch.equal(found["weights"], weights)
    assert torch.equal(found["output"], output)
    assert printed == script.expected(scene, head, query)
    assert "seeds" not in text
    assert "$" not in text
    imported = [alias.name for node in ast.parse(text).body if isinstance(node, ast.Import) for alias in node.names]
    assert imported == ["math", "numpy", "torch"]


@pytest.mark.parametrize(
    "scene",
    [
        AttentionConfig(num_tokens=20),
        AttentionConfig(embed_dim=20, num_heads=10, num_tokens=11),  # on two threads its last digits are others
        replace(SMALL, dtype="bfloat16", causal=False),
        (SMALL, MaskConfig(num_queries=4, num_keys=7, padding_left=2, document=4, corner=Corner.BOTTOM_RIGHT)),
        HeadConfig(replace(SMALL, dtype="float64"), 5, 2),
        BlockConfig(SMALL, depth=2, norm_first=True),
        BlockConfig(replace(SMALL, dtype="float16"), activation="relu"),
    ],
    ids=lambda scene: str(scene)[:60],
)
def test_it_runs_by_itself(scene: Scene, tmp_path: Path) -> None:
    head, query = last_row(scene)
    file = tmp_path / "scene.py"
    file.write_text(script.text(scene, head, query), encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, check=False, cwd=tmp_path, env=bare
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script.expected(scene, head, query)


@pytest.mark.parametrize("scene", [ATTENTIONS[0], MASKS[-1], HEADS[0], BLOCKS[1]], ids=lambda scene: str(scene)[:40])
def test_it_imports_nothing_else_and_no_line_is_long(scene: Scene) -> None:
    text = script.text(scene)
    nodes = list(ast.walk(ast.parse(text)))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert imported == ["math", "torch"]
    assert not any(isinstance(node, ast.ImportFrom) for node in nodes)
    assert max(len(line) for line in text.splitlines()) <= 120
    assert "$" not in text


def test_the_attention_is_about_twenty_statements() -> None:
    statements = ast.parse(script.text(AttentionConfig())).body
    of_attention = [one for one in statements if isinstance(one, ast.Assign | ast.FunctionDef)]
    assert len(of_attention) <= 22


masks = st.builds(
    MaskConfig,
    num_queries=st.integers(1, 9),
    num_keys=st.integers(1, 9),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 5),
    prefix=st.none() | st.integers(0, 5),
    padding_left=st.integers(0, 4),
    padding_right=st.integers(0, 12),
    document=st.none() | st.integers(1, 256),
    stride=st.none() | st.integers(1, 4),
    corner=st.sampled_from(Corner),
)


@given(mask=masks)
def test_the_expression_is_the_mask(mask: MaskConfig) -> None:
    if script_mask.mask_of((SMALL, mask)) is None:
        assert mask.allowed.all()
        return
    space: dict[str, Any] = {"torch": torch}
    exec("\n".join(script_mask.lines(mask, str(mask.num_queries), str(mask.num_keys))), space)
    assert space["allowed"].tolist() == mask.allowed.tolist()


def test_queries_before_the_first_key_are_in_the_first_document() -> None:
    mask = MaskConfig(num_queries=9, num_keys=4, causal=False, document=3, corner=Corner.BOTTOM_RIGHT)
    space: dict[str, Any] = {"torch": torch}
    exec("\n".join(script_mask.lines(mask, "9", "4")), space)
    assert torch.equal(space["allowed"], mask.allowed)
    assert mask.allowed[0].tolist() == [True, True, True, False]


@pytest.mark.parametrize("length", [1, 3, 100, 255, 256])
def test_documents_far_from_the_start(length: int) -> None:
    mask = MaskConfig(num_queries=256, num_keys=256, causal=False, document=length)
    space: dict[str, Any] = {"torch": torch}
    exec("\n".join(script_mask.lines(mask, "256", "256")), space)
    assert torch.equal(space["allowed"], mask.allowed)


def test_the_state_of_the_process_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for scene in (ATTENTIONS[4], HEADS[0], BLOCKS[0], MASKS[0]):
        script.expected(scene)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()


def test_another_row_is_another_line() -> None:
    first, last = script.expected(SMALL, 0, 3), script.expected(SMALL, 2, 6)
    assert first.splitlines()[0] == last.splitlines()[0]
    assert first.splitlines()[1] != last.splitlines()[1]
    assert last.splitlines()[1].startswith("weights of head 2, query 6: ")


def test_the_seeds_are_what_the_generator_takes() -> None:
    # a generator takes the lower 32 bits of a seed; were it to take more, the script's would draw other numbers
    for seed, name in ((0, "tokens"), (2**32 - 1, "block 7/norm_2_bias")):
        whole = torch.Generator().manual_seed(sample.generator(name, seed).initial_seed())
        short = torch.Generator().manual_seed(script.seed_of(name, seed))
        assert 0 <= script.seed_of(name, seed) < 2**32
        assert torch.equal(torch.randn(5, generator=whole), torch.randn(5, generator=short))
