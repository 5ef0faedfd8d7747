"""Limits concurrent work by a shared total and quotas, with a bounded queue and fair turns.

The pipeline limits calls with it, and `ThreadPool` threads. `Limiter` explains the rules.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Sequence

import anyio

Quota = tuple[Hashable, float]
"""A key, such as a tool or a client, and the maximum number of slots for all its callers together."""
RECENT = 3
"""The number of turns after which a key is no longer behind all others. So a key has at most every fourth turn while
enough others wait."""


def compute_share(total: int) -> int:
    """Return how many slots of `total` one tool or one client may have: three quarters, or all if there are under 4."""
    return total - total // 4


class LimiterFull(Exception):
    """The limiter's queue is full."""


class Limiter:
    """Lends out at most `total` slots. Up to `queue` further callers wait for one.

    A caller waits under a `key`, and its slot counts against `quotas`. All callers of a key pass the same quotas. For
    example, a call of the tool `search` by the client `anna` counts against both:

        slot = limiter.acquire_nowait(key, quotas=(("search", 3), ("anna", 3)))

    The callers of one key are served in the order of their arrival, and the keys take turns, so that a busy key delays
    itself rather than others. If one of the last `RECENT` turns counted against a quota of a key, the key comes after
    all others. So a client with many tools, or a tool with many clients, has many keys and still only a quarter of the
    turns.

    The weight of a key is the number of waiting callers under it and under each of its quotas. If the queue is full,
    the newest caller of the heaviest key is rejected, and the new caller takes its place. If its own key is the
    heaviest, the new caller is rejected.

    A slot with `in_total=False` counts against its quotas only. Nested calls use it, because the outer call has a slot
    of the total. At most `lendable` slots can be lent by `Slot.lend`.

    A limiter belongs to one event loop. `anyio.CapacityLimiter` has neither keys nor slots to lend.
    """

    def __init__(self, total: float, *, queue: float = math.inf, lendable: int = 0) -> None:
        self._total = total
        self._queue = queue
        self.lendable = lendable
        self._used: dict[Hashable, int] = {}
        # The waiting callers of each key. The keys are in the order of their turns.
        self._queues: dict[Hashable, deque[_Waiter]] = {}
        # The number of callers that wait under each quota.
        self._weights: Counter[Hashable] = Counter()
        # The quotas of the last turns.
        self._recent: deque[Sequence[Quota]] = deque(maxlen=RECENT)
        self.in_use = 0
        self.waiting = 0
        self.lent = 0

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
        if slot is not None:
            return slot
        if self.waiting >= self._queue:
            self._reject_newest(key, quotas)
        waiter = _Waiter(Slot(self, quotas, in_total))
        self.waiting += 1
        self._queues.setdefault(key, deque()).append(waiter)
        for name, _ in quotas:
            self._weights[name] += 1
        try:
            await waiter.decision.wait()
        except BaseException:
            # The caller was cancelled, perhaps just after it was admitted.
            if not waiter.decision.is_set():
                self._remove_waiter(key, waiter)
            elif waiter.is_admitted:
                waiter.slot.release()
            raise
        if not waiter.is_admitted:
            raise LimiterFull
        return waiter.slot

    def _has_room(self, slot: Slot) -> bool:
        """Whether neither the total nor a quota of the slot is used up."""
        if slot.in_total and self.in_use >= self._total:
            return False
        used = self._used
        for key, quota in slot.quotas:  # noqa: SIM110 - a generator expression would cost more than the rest
            if used.get(key, 0) >= quota:
                return False
        return True

    def _count(self, slot: Slot, number: int) -> None:
        """Count a slot as used (1) or as free again (-1)."""
        if slot.in_total:
            self.in_use += number
        used = self._used
        for key, _ in slot.quotas:
            used[key] = used.get(key, 0) + number
            if not used[key]:
                # Keys may come from clients, so their number has no bound.
                del used[key]

    def _admit_waiters(self) -> None:
        """Give the free slots to waiting callers."""
        while self._queues:
            turn = self._find_turn()
            if turn is None:
                return
            key, waiter = turn
            # Moving the key to the end of the dict puts its next turn after all others.
            self._queues[key] = self._queues.pop(key)
            self._remove_waiter(key, waiter)
            self._recent.append(waiter.slot.quotas)
            self._count(waiter.slot, 1)
            waiter.is_admitted = True
            waiter.decision.set()

    def _find_turn(self) -> tuple[Hashable, _Waiter] | None:
        """Return the key of the next turn with its first waiter, or None if there is room for none.

        This is the first key without a quota in the recent turns, else the one whose last turn is the longest ago.
        """
        # The recency of a quota is the number of its last turn, from 1 for the oldest to RECENT.
        recency = {}
        for number, quotas in enumerate(self._recent, 1):
            for name, _ in quotas:
                recency[name] = number
        turn, turn_recency = None, RECENT + 1
        for key, queue in self._queues.items():
            waiter = queue[0]
            if not self._has_room(waiter.slot):
                continue
            key_recency = max((recency.get(name, 0) for name, _ in waiter.slot.quotas), default=0)
            if not key_recency:
                return key, waiter
            if key_recency < turn_recency:
                turn, turn_recency = (key, waiter), key_recency
        return turn

    def _reject_newest(self, key: Hashable, quotas: Sequence[Quota]) -> None:
        """Reject the newest caller of the heaviest key.

        Raises LimiterFull if the key of the new caller, which adds 1 to each of its numbers, would be as heavy.
        """

        def weigh(key: Hashable, quotas: Sequence[Quota]) -> int:
            return len(self._queues.get(key, ())) + sum(self._weights[name] for name, _ in quotas)

        heaviest, heaviest_weight = key, 0
        for other, queue in self._queues.items():
            weight = weigh(other, queue[0].slot.quotas)
            if weight > heaviest_weight:
                heaviest, heaviest_weight = other, weight
        if heaviest_weight <= weigh(key, quotas) + 1 + len(quotas):
            raise LimiterFull
        waiter = self._queues[heaviest][-1]
        self._remove_waiter(heaviest, waiter)
        waiter.decision.set()

    def _remove_waiter(self, key: Hashable, waiter: _Waiter) -> None:
        self.waiting -= 1
        self._queues[key].remove(waiter)
        if not self._queues[key]:
            del self._queues[key]
        for name, _ in waiter.slot.quotas:
            self._weights[name] -= 1
            if not self._weights[name]:
                del self._weights[name]


_PAUSED, _LENT, _RELEASED = 1, 2, 4
"""The reasons why others may use a slot, as bits."""


class _Waiter:
    """A caller in the queue, until it is admitted or rejected."""

    __slots__ = ("decision", "is_admitted", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.decision = anyio.Event()
        self.is_admitted = False


class Slot:
    """One slot of a limiter. Other callers may use it while its holder waits for a user (see `Hold`)."""

    __slots__ = ("_away", "_limiter", "in_total", "quotas")
    deadline = math.inf

    def __init__(self, limiter: Limiter, quotas: Sequence[Quota], in_total: bool) -> None:
        self._limiter = limiter
        self.quotas = quotas
        self.in_total = in_total
        # The combination of reasons, or 0 while the holder uses the slot.
        self._away = 0

    def pause(self) -> None:
        """Lend the slot to others while a user is asked."""
        self._give_away(_PAUSED)

    def resume(self) -> None:
        """Take a paused slot back, even beyond the total, because the call may be in the middle of a function."""
        self._take_back(_PAUSED)

    def lend(self) -> None:
        """Lend the slot to others while its holder continues, unless the limiter has already lent `lendable` slots."""
        if not self._away & (_LENT | _RELEASED) and self._limiter.lent < self._limiter.lendable:
            self._limiter.lent += 1
            self._give_away(_LENT)

    def reclaim(self) -> None:
        """Take back a slot after `lend`. It stays lent if others use all places."""
        if self._away & _LENT and (self._away & _PAUSED or self._limiter._has_room(self)):
            self._limiter.lent -= 1
            self._take_back(_LENT)

    def release(self) -> None:
        """Return the slot for good. Further calls of any method do nothing."""
        if self._away & _LENT:
            self._limiter.lent -= 1
        self._give_away(_RELEASED)
        self._away = _RELEASED

    def _give_away(self, reason: int) -> None:
        is_held = not self._away
        self._away |= reason
        if is_held:
            self._limiter._count(self, -1)
            if self._limiter._queues:
                self._limiter._admit_waiters()

    def _take_back(self, reason: int) -> None:
        if self._away & reason:
            self._away &= ~reason
            if not self._away:
                self._limiter._count(self, 1)
