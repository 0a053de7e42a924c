"""Inputs and a state with the right answer to them.

Of large tensors on a device only the bounds' width stays; the inputs and the right answer are made again for each
solution that is checked, since a few of them would fill the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cuda_agent.judge.expected import Expected
from cuda_agent.judge.values import Value


@dataclass(frozen=True)
class Sample:
    name: str
    make: Callable[[], Value]
    """Gives the inputs."""
    state: int
    expected: Expected
    """Without the right answer itself where `again` makes it."""
    again: Callable[[], Expected] | None = None

    @property
    def inputs(self) -> Value:
        return self.make()

    def answer(self) -> Expected:
        """With everything that an answer is compared with. Raises InvalidTask where the task cannot do it again."""
        return self.expected if self.again is None else self.again()

    def lean(self) -> Sample:
        return self if self.again is None else replace(self, expected=self.expected.lean())
