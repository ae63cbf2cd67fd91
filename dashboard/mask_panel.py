"""What stands beside the pictures of masks: why a cell is forbidden, which queries see nothing, what a number does."""

from collections.abc import Sequence

from attention.config import DTYPES
from attention.mask_config import MaskConfig
from attention.mask_lessons import NUMBERS, NumberForInfinity, Trap
from attention.masks import empty_rows
from dashboard import tables
from dashboard.tables import Mark, Table, Value
from dashboard.token_names import named


def html(mask: MaskConfig, query: int, key: int, names: tuple[Sequence[str], Sequence[str]] = ((), ())) -> str:
    """The pinned cell, and the mask in numbers, as HTML with every text escaped.

    `names` are what the queries and the keys are called.
    """
    rows, columns = names
    allowed = mask.allowed
    why = mask.why_forbidden(query, key)
    verdict = "may attend" if not why else "may not attend"
    cell = Table(
        f"Query {named(query, rows)} → key {named(key, columns)}: {verdict}",
        ("rule", "says"),
        [(name, Mark(reason.strip(), "bad")) for name, _, reason in (text.partition(":") for text in why)]
        or [("all rules", Mark("allowed", "good"))],
    )
    nothing = [named(i, rows) for i in empty_rows(allowed).nonzero().flatten().tolist()]
    share = allowed.float().mean().item()
    facts: list[tuple[Value, ...]] = [
        ("queries × keys", f"{mask.num_queries} × {mask.num_keys}"),
        ("cells that may attend", f"{int(allowed.sum())} of {allowed.numel()}, {share:.0%}"),
        ("queries that see nothing", _some(nothing) or "none"),
    ]
    if nothing:
        facts.append(
            ("their rows", "zeros: no key, so no weight to share out; F.scaled_dot_product_attention does the same")
        )
        facts.append(("without that rule", "softmax of −∞ alone is 0 / 0 = NaN, and one NaN spreads to every gradient"))
    return tables.html(cell, Table("The mask", ("what", "here"), facts), kind="mask")


def said_of(found: NumberForInfinity, number: str, asked: float) -> str:
    """One line on a number in place of minus infinity; `asked` is the score scale that the reader set."""
    scores = f"Largest score {found.largest_score:.3g}."
    if found.loudness < asked:
        scores = f"The scale stops at × {found.loudness:g}, as the dtype holds no larger scores. {scores}"
    if found.largest_gap == 0:
        return f"{scores} {number} gives the same weights as −∞, to the last bit."
    leaks = f"With {number} a row puts up to {found.leak:.3g} where it may not"
    return f"{scores} {leaks}; largest difference {found.largest_gap:.2e}."


def traps_html(traps: Sequence[Trap]) -> str:
    """Every number in every dtype."""
    by_place = {(trap.number, trap.dtype): trap for trap in traps}
    rows: list[tuple[Value, ...]] = []
    for number in NUMBERS:
        values: list[Value] = []
        for dtype in DTYPES:
            trap = by_place[number, dtype]
            values += [Mark("does not fit", "bad"), ""] if trap.refused else [_leak(trap), _empty(trap)]
        rows.append((number.replace("-inf", "−∞").replace("-", "−"), *values))
    head = ("for −∞", *(["leak", "row with no key"] * len(DTYPES)))
    groups = (("", 1), *((dtype, 2) for dtype in DTYPES))
    caption = (
        "What each number does: the largest sum of forbidden weights in a row, and what a row without a key becomes"
    )
    return tables.html(Table(caption, head, rows, groups), kind="traps")


def _leak(trap: Trap) -> Value:
    assert trap.leak is not None
    return Mark("✓ 0", "good") if trap.leak == 0 else Mark(f"✗ {trap.leak:.2e}", "bad")


def _empty(trap: Trap) -> Value:
    assert trap.empty_row is not None
    return trap.empty_row if trap.empty_row != "zeros" else Mark("zeros", "good")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
