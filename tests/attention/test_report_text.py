"""The report carries the verdict's own numbers, as strict JSON and as Markdown."""

import json
import math
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Final

import pytest

from attention.bugs.catalogue import BY_KEY
from attention.bugs.caught import verify_with
from attention.compare import Check, Tolerance
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.report_text import About, as_json, as_markdown, versions
from attention.scenes import Scene
from attention.verify import ARITHMETIC, Verdict, verify
from attention.verify_block import BlockConfig, verify_block
from attention.verify_head import HeadConfig, verify_head

SMALL: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, seed=7)
MASK: Final = MaskConfig(num_queries=3, num_keys=5, window=2)
USUAL: Final = ARITHMETIC["float32"]
LINK: Final = "http://127.0.0.1:8501/masks?seed=7&rules=window"
CASES: Final[tuple[tuple[Scene, Verdict], ...]] = (
    (SMALL, verify(SMALL)),
    (replace(SMALL, dtype="float16"), verify(replace(SMALL, dtype="float16"), USUAL)),
    ((SMALL, MASK), verify(SMALL, mask=MASK)),
    (HeadConfig(SMALL, 2, 3), verify_head(HeadConfig(SMALL, 2, 3))),
    (BlockConfig(SMALL, 2), verify_block(BlockConfig(SMALL, 2))),
    (SMALL, verify_with(SMALL, BY_KEY["softmax-axis"].pieces)),
)


def refuse(token: str) -> float:
    raise AssertionError(f"{token} is no JSON")


def read(verdict: Verdict, about: About) -> Any:
    return json.loads(as_json(verdict, about), parse_constant=refuse)


def number(value: Any) -> float:
    return float(value)  # also of "NaN" and "Infinity"


def assert_same(found: dict[str, Any], check: Check) -> None:
    fields = asdict(check)
    assert found["outcome"] == check.outcome.value
    assert found["reason"] == check.reason
    assert found["tolerance"] == asdict(check.tolerance)
    assert found["mismatches"] == check.mismatches
    assert found["worst"] == (None if check.worst is None else list(check.worst))
    for name in ("max_abs", "max_rel", "margin", "ours", "pytorch"):
        value = number(found[name])
        assert value == fields[name] or (math.isnan(value) and math.isnan(fields[name])), name
    assert set(found) - {"step", "shape"} == set(fields) - {"step", "shape"}


@pytest.mark.parametrize(("scene", "verdict"), CASES, ids=lambda case: str(case)[:40])
def test_every_number_in_the_json_is_the_verdicts(scene: Scene, verdict: Verdict) -> None:
    found = read(verdict, About(scene, USUAL, LINK, "a note"))
    steps = found["steps"]
    assert len(steps) == len(verdict.maths.checks) > 0
    three = zip(verdict.maths.checks, verdict.arithmetic.checks, verdict.distances, strict=True)
    for step, (maths, arithmetic, distance) in zip(steps, three, strict=True):
        assert step["step"] == maths.step
        assert step["shape"] == list(maths.shape)
        assert_same(step["maths"], maths)
        assert_same(step["arithmetic"], arithmetic)
        assert step["off the float64 answer"] == {"ours": distance.ours, "pytorch": distance.pytorch}
    assert len(found["probe"]) == len(verdict.probe.checks) > 0
    for probed, check in zip(found["probe"], verdict.probe.checks, strict=True):
        assert probed["step"] == check.step
        assert_same(probed, check)
    assert found["equal"] is verdict.equal
    assert found["tolerances"]["maths"] == {"dtype": "float64", "rtol": 1e-7, "atol": 1e-9}
    assert found["tolerances"]["arithmetic"] | {"dtype": ""} == {"dtype": "", **asdict(USUAL)}
    assert found["versions"] == versions()
    assert (found["link"], found["note"], found["scene"]["seed"]) == (LINK, "a note", 7)


def test_the_scene_in_full() -> None:
    found = {case: read(CASES[case][1], About(CASES[case][0], USUAL))["scene"] for case in range(5)}
    assert found[0] == {"kind": "attention", **asdict(SMALL)}
    assert found[1]["dtype"] == "float16"
    assert found[2]["mask"] == {**asdict(MASK), "corner": "top-left"}
    assert (found[3]["head_dim"], found[3]["value_dim"]) == (2, 3)
    assert (found[4]["depth"], found[4]["norm_first"], found[4]["activation"]) == (2, False, "gelu")


def test_what_is_no_number_is_a_string() -> None:
    verdict = CASES[0][1]
    first = replace(verdict.arithmetic.checks[0], ours=math.nan, pytorch=-math.inf, margin=math.inf)
    report = replace(verdict.arithmetic, checks=(first, *verdict.arithmetic.checks[1:]))
    found = read(replace(verdict, arithmetic=report), About(SMALL, USUAL))["steps"][0]["arithmetic"]
    assert (found["ours"], found["pytorch"], found["margin"]) == ("NaN", "-Infinity", "Infinity")


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


@pytest.mark.parametrize(("scene", "verdict"), CASES, ids=lambda case: str(case)[:40])
def test_the_markdown_has_a_row_for_each_step(scene: Scene, verdict: Verdict) -> None:
    text = as_markdown(verdict, About(scene, USUAL, LINK))
    head, rule, *body = rows(text)
    assert len(head) == len(rule) == 11
    assert [row[0] for row in body] == [f"`{check.step}`" for check in verdict.maths.checks]
    three = zip(verdict.maths.checks, verdict.arithmetic.checks, verdict.distances, strict=True)
    for row, (maths, check, distance) in zip(body, three, strict=True):
        assert len(row) == 11
        assert (row[2], row[4]) == (maths.outcome, check.outcome)
        shown = (row[3], row[5], row[6], row[9], row[10])
        wanted = (maths.max_abs, check.max_abs, check.max_rel, distance.ours, distance.pytorch)
        for said, value in zip(shown, wanted, strict=True):
            assert float(said) == pytest.approx(value, rel=5.1e-3)
        assert float(row[8].removesuffix(" %")) == pytest.approx(100 * check.margin, rel=5.1e-3)
        assert row[7] == ", ".join(map(str, check.worst or ()))
    assert f"<{LINK}>" in text
    for name, said in versions().items():
        assert f"- {name}: {said}" in text


def test_it_says_what_differs_first() -> None:
    verdict = CASES[-1][1]
    first = verdict.maths.first_difference
    assert first is not None
    text = as_markdown(verdict, About(SMALL, USUAL))
    assert f"The maths: first at `{first.step}`: " in text
    assert "all 10 steps equal" in as_markdown(CASES[0][1], About(SMALL, USUAL))


def test_texts_stay_texts() -> None:
    note = "<script>alert(1)</script> | `code` *star* [link](http://x)\n# no head"
    text = as_markdown(CASES[0][1], About(SMALL, USUAL, note=note))
    assert "<script>" not in text
    assert "\n# no head" not in text
    assert "\\[link\\]" in text
    assert read(CASES[0][1], About(SMALL, USUAL, note=note))["note"] == note
    text = as_markdown(CASES[0][1], About(SMALL, USUAL, "http://x/?a=1> <b>\n- c"))
    assert "- link: <http://x/?a=1%3E%20%3Cb%3E%0A-%20c>" in text.splitlines()


def test_blocks_of_the_markdown_are_apart() -> None:
    text = as_markdown(CASES[0][1], About(SMALL, Tolerance(rtol=0.5, atol=0.25), LINK))
    assert "rtol 0.5 and atol 0.25" in text
    lines = text.splitlines()
    for before, line in pairwise(lines):  # a table and a list begin after an empty line
        if line.startswith("| step") or (line.startswith("- ") and not before.startswith("- ")):
            assert before == ""
