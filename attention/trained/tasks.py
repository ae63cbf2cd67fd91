"""All tasks, by name."""

from typing import Final

from attention.trained.brackets import BRACKETS_TASK
from attention.trained.copying_tasks import PREVIOUS_TASK, REPEAT_TASK, REVERSE_TASK
from attention.trained.ordering_tasks import SORT_TASK, TWO_KEYS_TASK
from attention.trained.sentences import AGREEMENT_TASK
from attention.trained.task import Task

TASKS: Final[dict[str, Task]] = {
    task.name: task
    for task in (
        PREVIOUS_TASK,
        REVERSE_TASK,
        REPEAT_TASK,
        SORT_TASK,
        TWO_KEYS_TASK,
        BRACKETS_TASK,
        AGREEMENT_TASK,
    )
}
