"""What the page that compares shows around its pictures: one scale for both, headings, the table, the words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attention.comparing import Gap
from attention.config import AttentionConfig
from attention.head_counts import HeadStatistics
from attention.verify import Verdict
from dashboard import step_picture, token_names
from dashboard.heatmap import Picture
from dashboard.tables import Mark, Table, Value

Pair = tuple[AttentionConfig, AttentionConfig]


def on_one_scale(both: Sequence[Picture]) -> list[Picture]:
    """The same pictures, each with the range of both: a colour then is the same number in either."""
    low, high = min(picture.low for picture in both), max(picture.high for picture in both)
    return [replace(picture, low=low, high=high) for picture in both]


def heading(name: str, config: AttentionConfig, pair: Pair) -> str:
    """Which setting a picture is of, as Markdown: all of it, what differs between the two in bold."""
    a, b = pair
    parts = [
        text if getattr(a, setting) == getattr(b, setting) else f"**{text}**"
        for setting, text in config.in_words.items()
    ]
    return f"**{name}** · {' · '.join(parts)}"


def table(pair: Pair, described: Sequence[HeadStatistics]) -> Table:
    """Both in numbers; what differs is strong."""
    rows: list[tuple[Value, ...]] = []
    for name, read in (
        ("head width", lambda one: str(one.head_dim)),
        ("mean entropy of a row, bits", lambda one: f"{sum(one.entropy) / len(one.entropy):.3f}"),
        ("largest weight of a row, mean", lambda one: f"{one.largest_weight:.3f}"),
        ("heads apart, 0 to 1", lambda one: "–" if one.apart is None else f"{one.apart:.3f}"),
        ("cells of softmax", lambda one: f"{one.softmax_cells:,}"),
    ):
        values = [read(one) for one in described]
        differs = values[0] != values[1]
        rows.append((name, *(Mark(value, "strong") if differs else value for value in values)))
    return Table("Both in numbers", ("", "A", "B"), rows)


def said(found: Gap | None, step: str, pair: Pair) -> str:
    """How far apart the two are, as Markdown; or why nothing can be subtracted."""
    a, b = pair
    if found is None:
        why = (
            f"{a.num_heads} heads of width {a.head_dim} against {b.num_heads} of {b.head_dim}"
            if a.embed_dim == b.embed_dim
            else f"embed dim {a.embed_dim} against {b.embed_dim}"
        )
        return f"**No difference to draw**: `{step}` is of other sizes in A and B ({why}). The weights can be compared."
    if found.largest == 0:
        return f"**B − A is 0 in every cell**: these settings change nothing in `{step}`{_over(pair)}."
    matrix, row, column = found.at
    kinds = step_picture.words(step).pair
    first, join, second = kinds
    has_names = shares_tokens(pair)
    cell = token_names.pair(b, kinds, row, column) if has_names else f"{first} {row} {join} {second} {column}"
    where = cell if found.matrices == 1 else f"head {matrix}, {cell}"
    moved = (
        "" if found.moved is None else f" On average {100 * found.moved:.3g}% of a row's weight lies elsewhere in B."
    )
    mean = " Of single heads there is no difference, since there are not as many: these are means over heads."
    return (
        f"**B − A** of `{step}`{_over(pair)}: at most {found.largest:.3g} ({where}).{moved}"
        f"{mean if found.of_mean else ''}{_other_tokens(pair)}"
    )


def shares_tokens(pair: Pair) -> bool:
    """Whether the tokens that both have are called the same."""
    both = [token_names.names(config)[0] for config in pair]
    shared = min(config.num_tokens for config in pair)
    return both[0][:shared] == both[1][:shared]


def _over(pair: Pair) -> str:
    """Which tokens are compared, where one side has more."""
    a, b = (config.num_tokens for config in pair)
    shared = "token" if min(a, b) == 1 else f"{min(a, b)} tokens"
    return "" if a == b else f", over the first {shared}, which both have"


def _other_tokens(pair: Pair) -> str:
    a, b = pair
    if a.weights != b.weights:
        return " Other weights come with other inputs."
    what = [
        name for name, differs in (("seed", a.seed != b.seed), ("embed dim", a.embed_dim != b.embed_dim)) if differs
    ]
    return f" Another {' and '.join(what)} means other tokens." if what else ""


def said_of_verdicts(found: Mapping[str, Verdict], shown: str) -> str:
    """Which of the two is equal to PyTorch's, and which the table is of."""
    both = ", ".join(f"{name} {'equal' if verdict.equal else 'not equal'}" for name, verdict in found.items())
    return f"Both were checked: {both}. The table is of {shown}."
