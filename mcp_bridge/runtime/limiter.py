"""A limiter of concurrent work: a shared total, quotas per key, a bounded queue, and fair turns for those who wait."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Sequence

import anyio

Quota = tuple[Hashable, float]
"""A key, such as a tool or a client, and the most slots that all callers of this key may have."""


class LimiterFull(Exception):
    """The limiter's queue is full."""


class Limiter:
    """Lends out at most `total` slots at once; up to `queue` further callers wait for one.

    A caller names the `key` under which it waits, and the quotas that its slot counts against. All callers of a key
    pass the same quotas. Keys that wait take turns, and callers of one key are served in the order in which they came,
    so a busy key delays itself rather than others. For the same reason a caller that finds the queue full takes the
    place of the newest caller of the longest key, unless its own key is as long.

    A slot with `in_total=False` counts against its quotas only: that of a call whose outer call has a slot already.

    Used from one event loop only. `anyio.CapacityLimiter` has neither keys nor slots that can be lent.
    """

    def __init__(self, total: float, *, queue: float = math.inf) -> None:
        self._total = total
        self._queue = queue
        self._used: Counter[Hashable] = Counter()
        self._queues: dict[Hashable, deque[_Waiter]] = {}  # in the order of turns
        self.in_use = 0
        self.waiting = 0

    def acquire_nowait(
        self, key: Hashable = None, *, quotas: Sequence[Quota] = (), in_total: bool = True
    ) -> Slot | None:
        """Take a slot if the key may have one now, else return None."""
        slot = Slot(self, quotas, in_total)
        if (self._queues and key in self._queues) or not self._has_room(slot):
            return None
        self._count(slot, 1)
        return slot

    async def acquire(self, key: Hashable = None, *, quotas: Sequence[Quota] = (), in_total: bool = True) -> Slot:
        """Take a slot, waiting for its turn. Raises LimiterFull."""
        slot = self.acquire_nowait(key, quotas=quotas, in_total=in_total)
        return slot or await self._wait(key, Slot(self, quotas, in_total))

    async def _wait(self, key: Hashable, slot: Slot) -> Slot:
        if self.waiting >= self._queue:
            self._reject_newest(key)
        waiter = _Waiter(slot)
        self._queues.setdefault(key, deque()).append(waiter)
        self.waiting += 1
        try:
            await waiter.decided.wait()
        except BaseException:
            if not waiter.decided.is_set():
                self._remove_waiter(key, waiter)
            elif waiter.is_admitted:
                slot.release()
            raise
        if not waiter.is_admitted:
            raise LimiterFull
        return slot

    def _has_room(self, slot: Slot) -> bool:
        if slot.in_total and self.in_use >= self._total:
            return False
        return not slot.quotas or all(self._used[key] < quota for key, quota in slot.quotas)

    def _count(self, slot: Slot, number: int) -> None:
        if slot.in_total:
            self.in_use += number
        for key, _ in slot.quotas:
            self._used[key] += number
            if not self._used[key]:
                del self._used[key]  # keys may come from clients, so their number has no bound

    def _release(self, slot: Slot) -> None:
        self._count(slot, -1)
        while self._queues:
            turns = ((key, queue[0]) for key, queue in self._queues.items() if self._has_room(queue[0].slot))
            if (turn := next(turns, None)) is None:
                return
            key, waiter = turn
            self._queues[key] = self._queues.pop(key)  # the key's next turn comes after all others
            self._remove_waiter(key, waiter)
            self._count(waiter.slot, 1)
            waiter.is_admitted = True
            waiter.decided.set()

    def _reject_newest(self, key: Hashable) -> None:
        lengths = {other: len(queue) for other, queue in self._queues.items()}
        longest = max(lengths, key=lengths.__getitem__, default=key)
        if lengths.get(longest, 0) <= lengths.get(key, 0) + 1:
            raise LimiterFull
        waiter = self._queues[longest][-1]
        self._remove_waiter(longest, waiter)
        waiter.decided.set()

    def _remove_waiter(self, key: Hashable, waiter: _Waiter) -> None:
        self.waiting -= 1
        self._queues[key].remove(waiter)
        if not self._queues[key]:
            del self._queues[key]


class _Waiter:
    __slots__ = ("decided", "is_admitted", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.decided = anyio.Event()
        self.is_admitted = False


class Slot:
    """One slot of a limiter. Others may use it while its holder waits for a user (see `contracts.context.Hold`)."""

    __slots__ = ("_is_held", "_is_released", "_limiter", "in_total", "quotas")
    deadline = math.inf

    def __init__(self, limiter: Limiter, quotas: Sequence[Quota], in_total: bool) -> None:
        self._limiter = limiter
        self.quotas = quotas
        self.in_total = in_total
        self._is_held, self._is_released = True, False

    def pause(self) -> None:
        """Lend the slot to others."""
        if self._is_held:
            self._is_held = False
            self._limiter._release(self)

    def resume(self) -> None:
        """Take a lent slot back at once, beyond the total if need be: the call may be in the middle of a function."""
        if not self._is_released and not self._is_held:
            self._is_held = True
            self._limiter._count(self, 1)

    def release(self) -> None:
        """Return the slot for good. Further calls of any method do nothing."""
        self.pause()
        self._is_released = True
