"""A mask as lines of a plain PyTorch script: one expression of positions, rule by rule."""

from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner, empty_rows
from attention.scenes import Scene, config_of


def mask_of(scene: Scene) -> MaskConfig | None:
    """The mask of a scene, of whichever kind; None where every query sees every key."""
    if isinstance(scene, tuple):
        return scene[1] if _rules(scene[1]) else None
    config: AttentionConfig = config_of(scene)
    return MaskConfig(num_queries=config.num_tokens, num_keys=config.num_tokens) if config.causal else None


def has_empty_rows(mask: MaskConfig | None) -> bool:
    """Whether a query may attend to nothing, which the script then has to take care of."""
    return mask is not None and bool(empty_rows(mask.allowed).any())


def lines(mask: MaskConfig, queries: str, keys: str) -> list[str]:
    """The positions and the rule; `queries` and `keys` are what the script calls the numbers of both."""
    shift = _shift(mask)
    moved = f" {'+' if shift > 0 else '-'} {abs(shift)}" if shift else ""
    first = (
        f"query, key = torch.meshgrid(torch.arange({queries}){moved}, torch.arange({keys}), "
        'indexing="ij")  # positions of every pair'
    )
    rules = _rules(mask)
    if len(rules) == 1:
        ((rule, called),) = rules
        return [first, f"allowed = {rule}  # {called}"]
    joined = [f"    {'& ' if place else ''}({rule})  # {called}" for place, (rule, called) in enumerate(rules)]
    return [first, "allowed = (", *joined, ")"]


def _shift(mask: MaskConfig) -> int:
    """How far query 0 stands behind key 0."""
    return mask.num_keys - mask.num_queries if mask.corner is Corner.BOTTOM_RIGHT else 0


def _rules(mask: MaskConfig) -> list[tuple[str, str]]:
    """Each rule that is set, as an expression, and what it is called."""
    rules = []
    if mask.causal:
        rules.append(
            (f"(key <= query) | (key < {mask.prefix})", "causal, and a prefix that all see")
            if mask.prefix
            else ("key <= query", "causal")
        )
    if mask.window is not None:
        rules.append((f"(query - key).abs() < {mask.window}", "sliding window"))
    if mask.document is not None:
        # what lies before the first document belongs to it
        before = "query.clamp(min=0)" if _shift(mask) < 0 else "query"
        rules.append((f"{before} // {mask.document} == key // {mask.document}", "documents"))
    if mask.stride is not None:
        rules.append((f"(query - key) % {mask.stride} == 0", "strided"))
    if mask.padding_left:
        rules.append((f"key >= {mask.padding_left}", "padding at the start"))
    if mask.padding_right:
        rules.append((f"key < {max(0, mask.num_keys - mask.padding_right)}", "padding at the end"))
    return rules
