"""Builds the policies of the settings, in the order in which calls pass through them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_bridge._app.stores import find_redis_url
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.extension import Middleware, Stage
from mcp_bridge._contracts.policy import CombiningPolicy, Policy, PolicyOptions
from mcp_bridge._engine.plugins import POLICIES, load_policy_type
from mcp_bridge._policies.selection import parse_list
from mcp_bridge._policies.services import PolicyServices
from mcp_bridge._runtime.redaction import Redactor

if TYPE_CHECKING:
    from mcp_bridge._settings import PolicySettings, Settings


def add_policies(middleware: Sequence[Middleware], settings: Settings, redactor: Redactor) -> list[Middleware | Policy]:
    """Return the middleware of sources together with the policies of the settings. Raises ConfigError.

    In the stages OBSERVE and ADMIT the policies come first, so that they see what the client gets. In the stages DECIDE
    and ATTEMPT they come last, so that they see what will run.
    """
    policies = _build_policies(settings, redactor)
    first = [policy for policy in policies if policy.stage <= Stage.ADMIT]
    return [*first, *middleware, *(policy for policy in policies if policy.stage > Stage.ADMIT)]


def find_unmatched_patterns(settings: Settings, tools: Collection[str], originals: Collection[str] = ()) -> list[str]:
    """Describe the patterns in policies, limits and tasks that match none of these tools, perhaps by mistake.

    `originals` are the original names of tools, which policies match too.
    """
    return [
        f"{place}: no tool matches the pattern '{pattern}'"
        for place, pattern in _list_patterns(settings)
        if not any(
            fnmatchcase(name, pattern.removeprefix("!"))
            for name in (*tools, *(originals if place.startswith("policy") else ()))
        )
    ]


def _list_patterns(settings: Settings) -> Iterator[tuple[str, str]]:
    for index, policy in enumerate(settings.policy):
        if policy.name in POLICIES:
            given = policy.options.get("tools", ())
            yield from ((f"policy[{index}].{policy.name}.tools", each) for each in parse_list(given))
    yield from (("limits.tools", pattern) for pattern in settings.limits.tools)
    if settings.tasks is not None:
        yield from (("tasks.tools", pattern) for pattern in settings.tasks.tools)


def _build_policies(settings: Settings, redactor: Redactor) -> list[Policy]:
    """Build the policies in the order of the table; equal ones, and those that combine with others, become one."""
    order = [*POLICIES]
    services = PolicyServices(
        name=settings.name,
        directory=settings.directory,
        settings_file=settings.path,
        redis_url=find_redis_url(settings),
        redactor=redactor,
    )
    built = [(each.name, _build_policy(each, services)) for each in settings.policy]
    policies: list[Policy] = []
    for _, policy in sorted(built, key=lambda each: order.index(each[0]) if each[0] in order else len(order)):
        if policies and isinstance(policies[-1], CombiningPolicy) and type(policies[-1]) is type(policy):
            policies[-1] = policies[-1].combine(policy)
        elif policy not in policies:
            policies.append(policy)
    return policies


def _build_policy(policy: PolicySettings, services: PolicyServices) -> Policy:
    from mcp_bridge._settings import parse_policy_options

    try:
        model = load_policy_type(policy.name)
        if not _is_options_model(model):
            hint = "It has to be a pydantic model with the method build_policy"
            raise ConfigError(f"'{policy.name}' is not a model of options", hint=hint)
        options: Any = parse_policy_options(model, policy)
        built = options.build_policy(services)
    except ConfigError as error:
        raise _locate_error(policy, error) from None  # the cause may have what the text redacts
    if not isinstance(built, Policy):
        problem = f"'{policy.name}' builds {type(built).__name__}, which is not a policy"
        raise _locate_error(policy, ConfigError(problem, hint="A policy has name, stage, is_passive, may_ask and bind"))
    return built


def _is_options_model(model: Any) -> bool:
    from pydantic import BaseModel

    return isinstance(model, PolicyOptions) and isinstance(model, type) and issubclass(model, BaseModel)


def _locate_error(policy: PolicySettings, error: ConfigError) -> ConfigError:
    """Add file and line to an error that has none."""
    origin = policy.origin
    if origin is None or error.where or error.path:
        return error
    return origin.document.make_error(origin.where, error.problem, error.hint)
