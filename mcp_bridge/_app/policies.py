"""Builds the policies of the settings in the order of a call, and the approval policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_bridge._app.stores import find_redis_url, open_store
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.policy import Middleware, Policy, Stage
from mcp_bridge._engine.binding import to_policy
from mcp_bridge._engine.plugins import POLICIES, load_policy_type
from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._policies.approvals.policy import ApprovalPolicy
from mcp_bridge._policies.base import PolicyServices, to_tuple
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore

if TYPE_CHECKING:
    from mcp_bridge._settings import PolicySettings, Settings

OPTIONS = ("Allow once", "Allow for this session (same arguments)", "Allow always (same arguments)", "Deny")
"""What the user can choose from, unless a hook defines its own options."""


def add_policies(
    middleware: Sequence[Middleware | Policy], settings: Settings, redactor: Redactor
) -> list[Middleware | Policy]:
    """Return the middleware of sources together with the policies of the settings. Raises ConfigError.

    In the stages OBSERVE and ADMIT the policies come first, so that they see what the client gets. In the stages DECIDE
    and ATTEMPT they come last, so that they see what will run.
    """
    policies = _build_policies(settings, redactor)
    first = [policy for policy in policies if policy.stage <= Stage.ADMIT]
    last = [policy for policy in policies if policy.stage > Stage.ADMIT]
    return [*first, *middleware, *last]


def find_unmatched_patterns(settings: Settings, tools: Collection[str], originals: Collection[str] = ()) -> list[str]:
    """Describe the patterns in policies, limits and tasks without a matching tool, perhaps by mistake.

    `originals` are the original names of tools, which policies match too.
    """
    problems = []
    for place, pattern in _list_patterns(settings):
        names = [*tools, *originals] if place.startswith("policy") else tools
        if not any(fnmatchcase(name, pattern.removeprefix("!")) for name in names):
            problems.append(f"{place}: no tool matches the pattern '{pattern}'")
    return problems


def _list_patterns(settings: Settings) -> Iterator[tuple[str, str]]:
    for index, policy in enumerate(settings.policy):
        if policy.name in POLICIES:
            for pattern in to_tuple(policy.options.get("tools", ())):
                yield f"policy[{index}].{policy.name}.tools", pattern
    for pattern in settings.limits.tools:
        yield "limits.tools", pattern
    if settings.tasks is not None:
        for pattern in settings.tasks.tools:
            yield "tasks.tools", pattern


def _build_policies(settings: Settings, redactor: Redactor) -> list[Policy]:
    """Build the policies in the order of the table POLICIES, and after them those that are not in the table.

    Equal policies, and those that can be combined, become one.
    """
    order = [*POLICIES]
    services = PolicyServices(
        name=settings.state_name,
        directory=settings.directory,
        redis_url=find_redis_url(settings),
        redactor=redactor,
    )
    items = sorted(settings.policy, key=lambda item: order.index(item.name) if item.name in order else len(order))
    # All policies are parsed before any is used, because equal ones differ as soon as they have services.
    unique_policies: list[Policy] = []
    unique_items: list[PolicySettings] = []
    for item in items:
        policy = _parse_policy(item)
        if policy not in unique_policies:
            unique_policies.append(policy)
            unique_items.append(item)
    policies: list[Policy] = []
    for item, policy in zip(unique_items, unique_policies, strict=True):
        with _locate_errors(item):
            policy.use_services(services)
        combination = None
        if policies and type(policies[-1]) is type(policy):
            combination = policies[-1].combine(policy)
        if combination is None:
            policies.append(policy)
        else:
            policies[-1] = combination
    return policies


def _parse_policy(item: PolicySettings) -> Policy:
    """Return the policy of an item of the settings. Raises ConfigError."""
    from pydantic import BaseModel

    from mcp_bridge._settings import parse_policy_options

    with _locate_errors(item):
        target = load_policy_type(item.name)
        if isinstance(target, type) and issubclass(target, Policy) and issubclass(target, BaseModel):
            policy: Policy = parse_policy_options(target, item)
            return policy
        if item.options:
            raise ConfigError(f"'{item.name}' has no options", hint="A policy with options is a pydantic model")
        instance = target
        if isinstance(target, type):
            try:
                instance = target()
            except TypeError as error:
                problem = f"'{item.name}' cannot be made: {error}"
                raise ConfigError(problem, hint="Name an instance of it") from error
        if not isinstance(instance, Policy | Middleware):
            hint = "It has to be a class that derives from mcp_bridge.policies.Policy, or middleware"
            raise ConfigError(f"'{item.name}' is not a policy", hint=hint)
        return to_policy(instance)


@contextmanager
def _locate_errors(policy: PolicySettings) -> Iterator[None]:
    """Add file and line to an error that has none."""
    try:
        yield
    except ConfigError as error:
        origin = policy.origin
        if origin is None or error.where or error.path:
            raise
        # The cause may contain secrets, which the text of this error does not.
        raise origin.document.make_error(origin.where, error.problem, error.hint) from None


def build_approval_policy(settings: Settings, substitutions: Iterable[Callable[[str], str]] = ()) -> ApprovalPolicy:
    """Build what all questions for approval share. `substitutions` redact what users in terminals and on the page see.

    Raises ConfigError for a store that is unavailable.
    """
    approvals = settings.approvals
    redactor = Redactor(settings.secrets)
    for substitute in substitutions:
        redactor.add_substitution(substitute)
    desk = QuestionDesk(
        wait=approvals.terminal or 0.0,
        ttl=settings.state.ttl,
        redactor=redactor,
        serves_terminals=approvals.terminal is not None,
    )
    audit = None
    if approvals.audit is not None:
        audit = AuditLog(settings.directory / Path(approvals.audit).expanduser())
    return ApprovalPolicy(
        options=OPTIONS,
        grants=open_approval_store(settings, log_failures=True),
        desk=desk,
        audit=audit,
        file=settings.path.name if settings.path.is_file() else "",
        truncates=approvals.truncate,
    )


def open_approval_store(settings: Settings, *, log_failures: bool = False) -> GrantStore | None:
    """Open the store of lasting approvals, or return None if the settings remember none.

    With `log_failures`, its failures are logged, not raised. Raises ConfigError for a store that is unavailable.
    """
    expires = settings.approvals.remember
    if expires is None:
        return None
    store = open_store(settings, is_lasting=True)
    if log_failures:
        store = FaultTolerantStore(store)
    return GrantStore(store, bridge=settings.state_name, expires=expires)


class ConfiguredTrail(NamedTuple):
    """The file of the first policy `audit`, which may not exist yet, and whether the policy removes old records."""

    path: Path
    removes_records: bool


def find_audit_trail(settings: Settings) -> ConfiguredTrail | None:
    """Return the audit trail of the settings; None if there is none."""
    for policy in settings.policy:
        path = policy.options.get("path")
        if policy.name == "audit" and isinstance(path, str):
            removes_records = any(policy.options.get(name) is not None for name in ("keep", "max_size"))
            return ConfiguredTrail(settings.directory / Path(path).expanduser(), removes_records)
    return None
