"""Tasks: what they ask is right by an independent reckoning, and the key named is the one that tells."""

import pytest
import torch

from attention import sample
from attention.trained import TASKS, Batch

SIZE = 40


def drawn(name: str, seed: int = 0) -> Batch:
    return TASKS[name].batch(sample.generator("test", seed), SIZE)


def rows(name: str) -> list[tuple[list[str], list[str], list[int]]]:
    """Of each sequence the labels, the right ones, and which positions count."""
    task, batch = TASKS[name], drawn(name)
    return [
        (task.labels(tokens), task.labels(targets), counted.nonzero()[:, 0].tolist())
        for tokens, targets, counted in zip(batch.tokens, batch.targets, batch.counted, strict=True)
    ]


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_is_of_its_generator_alone(name: str) -> None:
    state = torch.random.get_rng_state()
    first, again, other = drawn(name), drawn(name), drawn(name, 1)
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.tokens, other.tokens)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", TASKS)
def test_shapes_and_ranges(name: str) -> None:
    task, batch = TASKS[name], drawn(name)
    size, shape = len(task.vocabulary), (SIZE, task.length)
    assert len(set(task.vocabulary)) == size
    for x in (batch.tokens, batch.targets):
        assert x.dtype == torch.int64
        assert tuple(x.shape) == shape
        assert 0 <= int(x.min()) <= int(x.max()) < size
    assert tuple(batch.counted.shape) == shape
    assert batch.counted.any(dim=1).all()
    assert tuple(batch.keys) == task.patterns
    for keys in batch.keys.values():
        assert tuple(keys.shape) == shape
        assert -1 <= int(keys.min()) <= int(keys.max()) < task.length


@pytest.mark.parametrize("name", [name for name in TASKS if name not in ("reverse", "sort")])
def test_the_key_comes_before_the_query(name: str) -> None:
    for keys in drawn(name).keys.values():
        assert (keys <= torch.arange(keys.shape[1])).all()


@pytest.mark.parametrize(("name", "pattern"), [("previous", 0), ("reverse", 0), ("repeat", 1), ("sort", 0)])
def test_the_key_holds_what_is_asked_for(name: str, pattern: int) -> None:
    batch = drawn(name)
    keys = list(batch.keys.values())[pattern]
    assert torch.equal(keys >= 0, batch.counted)
    assert torch.equal(batch.tokens.gather(1, keys.clamp(min=0))[batch.counted], batch.targets[batch.counted])


def test_repeat_says_each_letter_twice_and_the_offset_varies() -> None:
    offsets = set()
    for labels, targets, counted in rows("repeat"):
        offset = len(labels) - counted[0]
        offsets.add(offset)
        assert labels[-offset:] == labels[-2 * offset : -offset]
        assert len(set(labels[:-offset])) == len(labels) - offset
        assert [targets[i] for i in counted] == labels[counted[0] + 1 :]
    assert offsets == set(range(8, 17))


def test_sort_is_in_order() -> None:
    for labels, targets, _ in rows("sort"):
        assert targets == sorted(labels, key=lambda label: int(label[:-1]))


def test_two_keys_subtracts() -> None:
    batch = drawn("two keys")
    first, second = (keys.tolist() for keys in batch.keys.values())
    for row, (labels, targets, counted) in enumerate(rows("two keys")):
        value = {label[0]: int(label[1:]) for label in labels[:4]}
        assert len(value) == 4
        for i in counted:
            a, b = labels[i].split("−")
            assert int(targets[i].replace("−", "-")) == value[a] - value[b]
            assert labels[first[row][i]][0] == a
            assert labels[second[row][i]][0] == b


def test_brackets_close_what_is_open() -> None:
    closes = {"(": ")", "[": "]", "{": "}"}
    keys = next(iter(drawn("brackets").keys.values())).tolist()
    deepest = 0
    for row, (labels, targets, counted) in enumerate(rows("brackets")):
        stack: list[int] = []
        for i, label in enumerate(labels):
            assert (i in counted) is (label == "?")
            if label == "?":
                opener = stack.pop()
                assert keys[row][i] == opener
                assert targets[i] == closes[labels[opener]]
            else:
                stack.append(i)
                deepest = max(deepest, len(stack))
    assert deepest == 2


def test_verbs_agree_with_their_subject_and_not_with_a_neighbour() -> None:
    keys = next(iter(drawn("agreement").keys.values())).tolist()
    plurals = {"dogs", "cats", "birds", "boys", "trees"}
    nouns = plurals | {noun[:-1] for noun in plurals}
    as_plural, misled, verbs = 0, 0, 0
    for row, (labels, targets, counted) in enumerate(rows("agreement")):
        for i in counted:
            assert labels[i][0] == "("
            begins = max((j + 1 for j in range(i) if labels[j] in (".", ",")), default=0)
            subject = next(
                j for j in range(begins, i) if labels[j] in nouns
            )  # the first after a comma, if there is one
            assert keys[row][i] == subject
            plural = targets[i] in {"sleep", "sing", "run", "are"}
            assert plural is (labels[subject] in plurals)
            nearest = next(j for j in range(i - 1, -1, -1) if labels[j] in nouns)
            verbs, as_plural = verbs + 1, as_plural + plural
            misled += (labels[nearest] in plurals) is not plural
    assert 0.4 < as_plural / verbs < 0.6
    assert misled / verbs > 0.25


def test_labels_and_tokens_turn_into_each_other() -> None:
    task = TASKS["agreement"]
    said = ["the", "dogs", "near", "the", "tree", "(sleep)", "."]
    assert task.labels(task.tokens(said)[0]) == said
    with pytest.raises(ValueError, match="'wolf' is not in the vocabulary of agreement"):
        task.tokens(["the", "wolf"])
    with pytest.raises(ValueError, match="33 tokens; agreement takes from 1 to 32"):
        task.tokens(["the"] * 33)
    with pytest.raises(ValueError, match="size is 0"):
        task.batch(sample.generator("test", 0), 0)
