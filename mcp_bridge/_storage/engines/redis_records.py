"""The records of tasks in Redis: the order and the state of each task.

Redis runs the scripts below atomically, so several processes can change the same record. All scripts get the keys of
`_get_keys`, or the record and its answers.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

from mcp_bridge._contracts.tasks import TaskOptions, TaskOrder, TaskRecord, TaskState
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._runtime.limiter import compute_share
from mcp_bridge._storage.stores.redis import TIMEOUT, connect_redis

_FORGET = """
local function forget(id)
  redis.call('DECRBY', KEYS[3], redis.call('HGET', KEYS[2], id) or 0)
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[1], id)
end
"""
"""KEYS: 1 all tasks by the time at which they expire, 2 the sizes of results, 3 the sum of these sizes."""
_CREATE = f"""{_FORGET}
local id, now, expires = ARGV[1], ARGV[2], ARGV[3]
-- A record of this task has an order, the mark of an abandoned task has none.
if redis.call('EXISTS', KEYS[4]) == 1 then return redis.call('HEXISTS', KEYS[4], 'order') end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do forget(old) end
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) or redis.call('ZCARD', KEYS[5]) >= tonumber(ARGV[5])
  or tonumber(redis.call('GET', KEYS[3]) or 0) >= tonumber(ARGV[6]) then return 0 end
redis.call('ZADD', KEYS[1], expires, id)
redis.call('ZADD', KEYS[5], expires, id)
local time = redis.call('TIME')
local queue_by = string.format('%.0f', (time[1] + ARGV[9]) * 1000 + time[2] / 1000)
redis.call('HSET', KEYS[4], 'order', ARGV[7], 'state', ARGV[8], 'run', 0, 'attempts', 0, 'queue_by', queue_by)
for _, key in ipairs({{KEYS[4], KEYS[5]}}) do redis.call('PEXPIREAT', key, math.ceil(expires * 1000)) end
return 1
"""
"""KEYS: as above, 4 the record, 5 the tasks of the client. ARGV: the id, the time, the time at which the task expires,
the maximum number of tasks, that of the client, the maximum size of all results, the order, the state, and the seconds
within which the task must be queued.

Returns 1 if the record is stored, also if it was before, and 0 if a limit is reached or the task is abandoned.
"""
_BEGIN = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return nil end
local queue_by = tonumber(redis.call('HGET', KEYS[1], 'queue_by') or 'inf')
if redis.call('HGET', KEYS[1], 'run') == '0' and tonumber(ARGV[1]) > queue_by then return nil end
redis.call('DEL', KEYS[2])
return {redis.call('HINCRBY', KEYS[1], 'run', 1), redis.call('HINCRBY', KEYS[1], 'attempts', 1),
  redis.call('HGET', KEYS[1], 'failures') or 0, redis.call('HGET', KEYS[1], 'order'),
  redis.call('HGET', KEYS[1], 'state')}
"""
"""KEYS: 1 the record, 2 its answers. ARGV: when the task was queued, in milliseconds of Redis's clock.

Returns nil if the task has ended or is unknown, or was queued after its client got an error.
"""
_RELEASE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return end
redis.call('HINCRBY', KEYS[1], 'attempts', -1)
redis.call('HINCRBY', KEYS[1], 'failures', ARGV[1])
"""
"""KEYS: 1 the record. ARGV: how many failures to add."""
_CHANGE = """
local run = redis.call('HGET', KEYS[4], 'run')
if not run or redis.call('HEXISTS', KEYS[4], 'ended') == 1 or (ARGV[2] ~= '' and ARGV[2] ~= run) then return 0 end
redis.call('HSET', KEYS[4], 'state', ARGV[3])
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[4], 'ended', 1)
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
  redis.call('INCRBY', KEYS[3], ARGV[4])
end
redis.call('PUBLISH', ARGV[5], ARGV[1])
return 1
"""
"""KEYS: as for `_CREATE`. ARGV: the id, the number of the run (any if empty), the state, the size of the result if the
state is final, the channel. Returns 0 if the task has ended, or another run has begun."""
_ANSWER = """
if redis.call('HGET', KEYS[1], 'state') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[4])
redis.call('PEXPIREAT', KEYS[2], math.ceil(ARGV[5] * 1000))
redis.call('PUBLISH', ARGV[6], ARGV[1])
return 1
"""
"""KEYS: 1 the record, 2 its answers. ARGV: the id, the expected state, the new state, the answers, the time at which
the task expires, the channel. Returns 0 if the state is not the expected one."""
_REMOVE = f"""{_FORGET}
forget(ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('DEL', KEYS[4])
redis.call('PUBLISH', ARGV[2], ARGV[1])
"""
_ABANDON = f"""{_REMOVE}
redis.call('HSET', KEYS[4], 'ended', 1)
redis.call('PEXPIRE', KEYS[4], ARGV[3])
"""
"""Removes a record, and marks the task as ended for ARGV[3] milliseconds. Redis may receive the request that creates
the task after this one, and must not create it then."""
ABANDONED_TTL = 600_000
"""Milliseconds for which the mark of an abandoned task is kept."""


class TaskRecords:
    """Reads and changes records. Every method raises RedisError if Redis is unavailable.

    Args:
        prefix: The beginning of all keys.
        redact: Removes secrets from a value before it is stored.
    """

    def __init__(self, options: TaskOptions, prefix: str, redact: Callable[[Any], Any]) -> None:
        self._options = options
        self._prefix = prefix
        self._channel = f"{prefix}:changes"
        self._redact = redact
        self._redis = connect_redis(options.url)
        self._create = self._redis.register_script(_CREATE)
        self._begin = self._redis.register_script(_BEGIN)
        self._release = self._redis.register_script(_RELEASE)
        self._change = self._redis.register_script(_CHANGE)
        self._answer = self._redis.register_script(_ANSWER)
        self._remove = self._redis.register_script(_REMOVE)
        self._abandon = self._redis.register_script(_ABANDON)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._redis.aclose()

    async def create_record(self, order: TaskOrder, timeout: float) -> bool:
        """Store a task, or return False if that would exceed a limit. It must be queued within `timeout` seconds."""
        options = self._options
        share = options.most
        if order.client is not None:
            share = compute_share(options.most)
        state = TaskState(updated=order.created)
        values = (
            order.id,
            time.time(),
            order.expires,
            options.most,
            share,
            options.size,
            dump_json(asdict(order)),
            self._encode(state),
            timeout,
        )
        return bool(await self._create(self._get_keys(order.id, order.client), values))

    async def begin_run(self, task_id: str, message: bytes | None) -> tuple[int, TaskRecord] | None:
        """Begin a new run of a task. `message` is the id of its message in the queue.

        Returns how many runs were begun and not released, and the record; None if the task has ended or is abandoned.
        """
        # The id of a message in a stream of Redis is the time in milliseconds, a hyphen and a number.
        queue_time = (message or b"0").partition(b"-")[0]
        fields = await self._begin((self._key(task_id), self._answers(task_id)), (queue_time,))
        if fields is None:
            return None
        run, attempts, failures, order, state = fields
        counts = {"run": run, "failures": int(failures)}
        return attempts, TaskRecord(TaskOrder(**{**load_json(order), **counts}), _decode_state(state))

    async def release_run(self, task_id: str, *, has_failed: bool) -> None:
        """Take back the count of the latest run, so that it does not count as a crash of its process.

        The run was ended on purpose, or has failed.
        """
        await self._release((self._key(task_id),), (int(has_failed),))

    async def change_state(self, order: TaskOrder, state: TaskState, *, by_run: bool) -> bool:
        """Store a state, unless the stored one is final, or with `by_run` a later run has begun."""
        state_text = self._encode(state)
        size = len(state_text) if state.is_final else ""
        values = (order.id, order.run if by_run else "", state_text, size, self._channel)
        return bool(await self._change(self._get_keys(order.id, order.client), values))

    async def remove_record(self, order: TaskOrder) -> None:
        await self._remove(self._get_keys(order.id, order.client), (order.id, self._channel))

    async def abandon_record(self, order: TaskOrder) -> None:
        """Remove a task that must not run, even if the request that creates it arrives later."""
        await self._abandon(self._get_keys(order.id, order.client), (order.id, self._channel, ABANDONED_TTL))

    async def find_record(self, task_id: str) -> TaskRecord | None:
        order, state = await self._redis.hmget(self._key(task_id), ["order", "state"])
        if order is None or state is None:
            return None
        return TaskRecord(TaskOrder(**load_json(order)), _decode_state(state))

    async def add_answers(self, task_id: str, responses: Mapping[str, Any]) -> None:
        """Pass answers to the run of a task, and close their questions."""
        while True:
            order, state_text = await self._redis.hmget(self._key(task_id), ["order", "state"])
            if order is None or state_text is None:
                return
            state = _decode_state(state_text)
            if not state.requests:
                return
            requests = {key: request for key, request in state.requests.items() if key not in responses}
            new_state = replace(state, requests=requests, status="input_required" if requests else "working")
            until = TaskOrder(**load_json(order)).expires
            values = (task_id, state_text, self._encode(new_state), dump_json(responses), until, self._channel)
            if await self._answer((self._key(task_id), self._answers(task_id)), values):
                return

    async def take_answers(self, task_id: str) -> list[Mapping[str, Any]]:
        """Return the answers of the client in their order, and remove them."""
        async with self._redis.pipeline() as pipeline:
            pipeline.lrange(self._answers(task_id), 0, -1)
            pipeline.delete(self._answers(task_id))
            answers: Sequence[bytes] = (await pipeline.execute())[0]
        return [load_json(answer) for answer in answers]

    async def follow_changes(self) -> AsyncGenerator[str | None, None]:
        """Yield None, and then the id of each task that changes.

        None means that any task may have changed before, so the caller has to read all of them again.
        """
        async with self._redis.pubsub(ignore_subscribe_messages=True) as pubsub:
            await pubsub.subscribe(self._channel)
            yield None
            while True:
                message = await pubsub.get_message(timeout=TIMEOUT)
                if message is not None:
                    yield message["data"].decode()
                else:
                    await pubsub.ping()

    def _encode(self, state: TaskState) -> bytes:
        fields = asdict(state)
        for name in ("message", "progress", "requests", "result", "error"):
            fields[name] = self._redact(fields[name])
        return dump_json(fields)

    def _get_keys(self, task_id: str, client: str | None) -> tuple[str, ...]:
        shared = tuple(f"{self._prefix}:{name}" for name in ("all", "sizes", "bytes"))
        return (*shared, self._key(task_id), f"{self._prefix}:client:{client or ''}")

    def _key(self, task_id: str) -> str:
        return f"{self._prefix}:task:{task_id}"

    def _answers(self, task_id: str) -> str:
        return f"{self._prefix}:answers:{task_id}"


def _decode_state(state: bytes | str) -> TaskState:
    fields = load_json(state)
    progress = fields["progress"]
    return TaskState(**{**fields, "progress": tuple(progress) if progress else None})
