"""Which rules a mask is made of, as one frozen, validated value; it keys caches together with `AttentionConfig`."""

from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from attention import masks
from attention.config import MAX_TOKENS, check_whole
from attention.masks import Corner, Rule


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """A mask of `num_queries` by `num_keys`: what every rule that is set allows.

    `prefix` alone widens: it is joined to `causal`, and says nothing without it. The queries are the last
    `num_queries` tokens of the scene, the keys its first `num_keys`.

    Args:
        num_queries: T.
        num_keys: S.
        causal: a query sees itself and what came before.
        window: a query sees keys fewer positions away than this; None for no such rule.
        prefix: every query sees that many first keys; None for no such rule.
        padding_left: so many first keys are no real tokens.
        padding_right: so many last keys are no real tokens.
        document: the text falls into documents of this length, each of which sees only itself; None for one text.
        stride: a query sees every so manieth key; None for every key.
        corner: how queries and keys are aligned where there are not equally many.

    Raises:
        ValueError: a value is outside its limits; the message carries it.
    """

    num_queries: int
    num_keys: int
    causal: bool = True
    window: int | None = None
    prefix: int | None = None
    padding_left: int = 0
    padding_right: int = 0
    document: int | None = None
    stride: int | None = None
    corner: Corner = Corner.TOP_LEFT

    def __post_init__(self) -> None:
        for name in ("num_queries", "num_keys"):
            check_whole(name, getattr(self, name), 1, MAX_TOKENS)
        for name, smallest in (("window", 1), ("prefix", 0), ("document", 1), ("stride", 1)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), smallest, MAX_TOKENS)
        for name in ("padding_left", "padding_right"):
            check_whole(name, getattr(self, name), 0, MAX_TOKENS)
        if not isinstance(self.causal, bool):
            raise ValueError(f"causal is {self.causal!r}; it must be True or False.")
        if not isinstance(self.corner, Corner):
            raise ValueError(f"corner is {self.corner!r}; it must be one of {', '.join(Corner)}.")

    @property
    def rule(self) -> Rule:
        """All rules as one."""
        rules: list[Rule] = []
        if self.causal:
            rules.append(masks.any_of(masks.causal, masks.prefix(self.prefix)) if self.prefix else masks.causal)
        if self.window is not None:
            rules.append(masks.sliding_window(self.window))
        if self.document is not None:
            rules.append(masks.documents([self.document] * (MAX_TOKENS // self.document)))
        if self.stride is not None:
            rules.append(masks.strided(self.stride))
        if self.padding_left or self.padding_right:
            rules.append(masks.padding(self.padding_left, max(0, self.num_keys - self.padding_right)))
        return masks.all_of(*rules)

    @property
    def allowed(self) -> Bool[Tensor, "T S"]:
        """The grid: True where a query may attend to a key."""
        return masks.grid(self.rule, self.num_queries, self.num_keys, self.corner)

    def why_forbidden(self, query: int, key: int) -> tuple[str, ...]:
        """The rules that keep a query from a key, in words; none where it may attend.

        Raises:
            IndexError: the mask has no such query or key; the message carries its sizes.
        """
        if not (0 <= query < self.num_queries and 0 <= key < self.num_keys):
            sizes = f"{self.num_queries} queries and {self.num_keys} keys"
            raise IndexError(f"query {query}, key {key}: there are {sizes}.")
        position = query + (self.num_keys - self.num_queries if self.corner is Corner.BOTTOM_RIGHT else 0)
        away = abs(position - key)
        in_prefix = self.prefix is not None and key < self.prefix
        in_padding = key < self.padding_left or key >= self.num_keys - self.padding_right
        reasons = {
            "causal: the key comes after the query": self.causal and key > position and not in_prefix,
            f"window: the key is {away} positions away": self.window is not None and away >= self.window,
            "documents: the key is in another document": self._document(position) != self._document(key),
            f"strided: {away} positions are no multiple of {self.stride}": self.stride is not None
            and away % self.stride != 0,
            "padding: the key is no real token": in_padding,
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    def _document(self, position: int) -> int:
        """The number of the document that a position is in; what lies before the first belongs to it."""
        if self.document is None:
            return 0
        return max(0, position) // self.document
