"""Masks as small rules of (query, key) positions that combine. True = may attend.

That is what `F.scaled_dot_product_attention` means by True. `nn.MultiheadAttention` means the
opposite: it is given `~allowed`.

A rule takes positions of queries and of keys, in any shapes that broadcast, and says for each pair
whether the query may attend to the key. `grid` lays it out for T queries and S keys.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import torch
from jaxtyping import Bool
from torch import Tensor

Rule = Callable[[Tensor, Tensor], Tensor]


class Corner(StrEnum):
    """Where position 0 of the queries lies when there are not as many queries as keys.

    TOP_LEFT: query 0 stands beside key 0, as `is_causal=True` has it. BOTTOM_RIGHT: the last query
    stands beside the last key, as it must when the queries are the newest tokens of a longer text.
    """

    TOP_LEFT = "top-left"
    BOTTOM_RIGHT = "bottom-right"


def grid(
    rule: Rule, num_queries: int, num_keys: int | None = None, corner: Corner = Corner.TOP_LEFT
) -> Bool[Tensor, "T S"]:
    """Lay a rule out for T queries and S keys (as many as queries, unless said otherwise).

    Raises:
        ValueError: there is no such corner.

    Example:
        >>> grid(causal, 2, 5, Corner.BOTTOM_RIGHT).int().tolist()
        [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    num_keys = num_queries if num_keys is None else num_keys
    shift = num_keys - num_queries if Corner(corner) is Corner.BOTTOM_RIGHT else 0
    query, key = torch.arange(num_queries) + shift, torch.arange(num_keys)
    return rule(query[:, None], key[None, :]).expand(num_queries, num_keys).contiguous()


def causal(query: Tensor, key: Tensor) -> Tensor:
    """A query sees itself and what came before it ("Attention Is All You Need", 3.2.3).

    Example:
        >>> grid(causal, 3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return key <= query


def full(query: Tensor, key: Tensor) -> Tensor:
    """Every query sees every key."""
    return torch.ones(torch.broadcast_shapes(query.shape, key.shape), dtype=torch.bool)


def sliding_window(width: int) -> Rule:
    """A query sees keys fewer than `width` positions away (Longformer, Beltagy et al., 2020, 3.1).

    Under a causal mask as well, these are its last `width` tokens, itself among them.

    Example:
        >>> grid(sliding_window(2), 4).int().tolist()
        [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    _check_whole("the window", width, 1)
    return lambda query, key: (query - key).abs() < width


def prefix(length: int) -> Rule:
    """Every query sees the first `length` keys (T5, Raffel et al., 2020, 3.2.1).

    It widens: join it with `causal` by `any_of`.

    Example:
        >>> grid(any_of(causal, prefix(2)), 4).int().tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    """
    _check_whole("the prefix", length, 0)
    return lambda _, key: key < length


def padding(first: int, stop: int) -> Rule:
    """Keys from `first` up to, not including, `stop` are real tokens; nobody sees the others.

    Example:
        >>> grid(padding(1, 3), 4).int().tolist()[0]
        [0, 1, 1, 0]
    """
    _check_whole("the first real token", first, 0)
    _check_whole("the end of the real tokens", stop, 0)
    return lambda _, key: (first <= key) & (key < stop)


def documents(lengths: Sequence[int]) -> Rule:
    """A query sees only its own document; what is left after the last length is one more document.

    Example:
        >>> grid(documents([1, 2]), 4).int().tolist()
        [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    """
    for length in lengths:
        _check_whole("the length of a document", length, 1)
    ends = torch.tensor(list(lengths), dtype=torch.long).cumsum(0)

    def rule(query: Tensor, key: Tensor) -> Tensor:
        document_of_query, document_of_key = (
            torch.searchsorted(ends, x.contiguous(), right=True) for x in (query, key)
        )
        return document_of_query == document_of_key

    return rule


def strided(stride: int) -> Rule:
    """A query sees every `stride`-th key, counted from itself (Sparse Transformer, Child et al., 2019, 4.3).

    Example:
        >>> grid(strided(2), 4).int().tolist()
        [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    """
    _check_whole("the stride", stride, 1)
    return lambda query, key: (query - key) % stride == 0


def all_of(*rules: Rule) -> Rule:
    """What every one of the rules allows; with no rule, everything."""
    return lambda query, key: _joined(torch.logical_and, (full, *rules), query, key)


def any_of(*rules: Rule) -> Rule:
    """What at least one of the rules allows.

    Raises:
        ValueError: there is no rule.
    """
    if not rules:
        raise ValueError("any_of needs at least one rule: of none, nothing would be allowed.")
    return lambda query, key: _joined(torch.logical_or, rules, query, key)


def empty_rows(allowed: Bool[Tensor, "*batch T S"]) -> Bool[Tensor, "*batch T"]:
    """The queries that may attend to nothing. Their weights and context are zeros here."""
    return ~allowed.any(dim=-1)


def _joined(join: Callable[[Tensor, Tensor], Tensor], rules: Sequence[Rule], query: Tensor, key: Tensor) -> Tensor:
    result = rules[0](query, key)
    for rule in rules[1:]:
        result = join(result, rule(query, key))
    return result


def _check_whole(name: str, value: int, smallest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}; it must be a whole number.")
    if value < smallest:
        raise ValueError(f"{name} is {value}; it must be {smallest} or more.")
