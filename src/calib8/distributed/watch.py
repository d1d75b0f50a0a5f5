"""What workers tell while they work: samples that are done, pieces that were begun, what went wrong.

One ``Watch`` lives in an actor of the cluster. The run does not depend on it: what it forgets is not shown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from calib8.errors import Calib8Error, DataError

MOST_ATTEMPTS: Final = 10
"""Times that a piece is begun, where its worker dies or cannot read it, before the run gives up."""


class Watch:
    """Counts over all workers."""

    def __init__(self) -> None:
        """Nothing was done yet."""
        self._begun: Counter[str] = Counter()
        self._done: set[str] = set()
        self._samples = 0
        self._failure: Calib8Error | None = None
        self._stopped = False

    def begin(self, key: str, name: str) -> int:
        """A worker begins a piece.

        Args:
            key: of the piece.
            name: for messages.

        Returns:
            How often it was begun, this time included; 0: stop, nobody waits for it any more.
        """
        if self._stopped or self._failure is not None:
            return 0
        self._begun[key] += 1
        if self._begun[key] > MOST_ATTEMPTS:
            problem = f"ended its worker {MOST_ATTEMPTS} times"
            self._failure = DataError(name, problem, "Read it alone with plain calibrate to see why")
            return 0
        return self._begun[key]

    def done(self, key: str, samples: int) -> None:
        """A worker has done a piece; a piece that is done again counts once."""
        if key not in self._done:
            self._done.add(key)
            self._samples += samples

    def fail(self, error: Calib8Error) -> None:
        """Something that ends the run; the first counts."""
        self._failure = self._failure or error

    def look(self) -> tuple[int, Calib8Error | None]:
        """Samples that are done, and what ends the run."""
        return self._samples, self._failure

    def stop(self) -> None:
        """Nobody waits for the run any more."""
        self._stopped = True


class Told:
    """The watch as a worker or the driver sees it; goes from process to process.

    Attributes:
        stopped: this process has said that nobody waits any more.
    """

    def __init__(self, actor: Any) -> None:
        """``actor``: handle of a ``Watch`` in the cluster."""
        self._actor, self.stopped = actor, False

    def begin(self, key: str, name: str) -> int:
        """See ``Watch.begin``; 1 where the watch was lost."""
        found = self._ask(self._actor.begin, key, name)
        return 1 if found is None else int(found)

    def done(self, key: str, samples: int) -> None:
        """See ``Watch.done``; nobody waits until it is told."""
        self._actor.done.remote(key, samples)

    def fail(self, error: Calib8Error) -> None:
        """See ``Watch.fail``."""
        self._ask(self._actor.fail, error)

    def look(self) -> tuple[int, Calib8Error | None]:
        """See ``Watch.look``."""
        found: tuple[int, Calib8Error | None] | None = self._ask(self._actor.look)
        return (0, None) if found is None else found

    def stop(self) -> None:
        """See ``Watch.stop``."""
        self.stopped = True
        self._ask(self._actor.stop)

    def _ask(self, method: Any, *values: object) -> Any:
        import ray

        try:
            return ray.get(method.remote(*values), timeout=60)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            return None  # its machine was lost; nothing depends on it


def new_watch() -> Told:
    """A watch beside this process, which outlives the loss of any other machine."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return Told(ray.remote(Watch).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote())
