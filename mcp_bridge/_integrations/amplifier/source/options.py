"""The options of an Amplifier source in the settings file. The module is imported late, because it imports pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from mcp_bridge._integrations.amplifier.mount_plan import PlanProblem, read_plan
from mcp_bridge._settings import Document, Duration, SessionLimit, SettingsModel

SESSIONS = 100
"""How many sessions of clients, and how many conversations with an agent, may exist at once by default."""


class AmplifierOptions(SettingsModel):
    """Tools and hooks of Amplifier modules, described by a mount plan."""

    plan: dict[str, Any] = Field(
        description="The mount plan in Amplifier's format: session, providers, tools, hooks and agents."
    )
    hook_timeout: Duration = Field(
        default=30.0, description="How long one hook may take to decide about a call. After that, the call is denied."
    )
    sessions: Literal["client", "shared"] | SessionLimit = Field(
        default="client",
        description="`client`: each client has its own session of the modules. `shared`: all clients share one. Over "
        "HTTP in the stateless era, a client has its own session if it names one (`_meta` key "
        "`mcp-bridge/session`) or is authenticated; otherwise each call has its own. A number is the maximum for "
        f"`client`, which is {SESSIONS} by default. A further session ends the one that has been idle the longest; if "
        "none is idle, the call is rejected. If there are several clients, none has more than three quarters of them.",
    )
    host: Literal["auto", "native", "core"] = Field(
        default="auto",
        description="The host that mounts the modules: the bridge (`native`), or amplifier-core (`core`, with the "
        "extra `amplifier`). `auto` chooses amplifier-core if a module imports it.",
    )
    git: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*`, `?`) of the repositories that modules may come from, such as "
        "`https://github.com/microsoft/*`. `mcp-bridge module lock` fetches them. Without patterns, no modules from "
        "git are allowed.",
    )
    modules: str | None = Field(
        default=None,
        min_length=1,
        description="The folder in which modules from git are stored. Default: a folder in the user's data directory.",
    )
    start_timeout: Duration = Field(
        default=30.0,
        description="How long a module may take to mount, and then again to become ready. If a hook module fails or "
        "takes longer, every call is denied.",
    )

    _settings_path: str = PrivateAttr(default="")

    def model_post_init(self, context: Any, /) -> None:
        """Remember the settings file, for the command in errors."""
        if isinstance(context, Document):
            self._settings_path = context.path

    @field_validator("plan")
    @classmethod
    def _check_plan(cls, plan: dict[str, Any]) -> dict[str, Any]:
        _, problems = read_plan(plan)
        if problems:
            raise ValidationError.from_exception_data("plan", [_to_error_detail(problem) for problem in problems])
        return plan

    @property
    def settings_path(self) -> str:
        """The settings file; empty if the settings are not from a file."""
        return self._settings_path

    def get_checkouts_folder(self, directory: Path) -> Path | None:
        """Return the folder of modules from git, or None for the default. A relative path starts at `directory`."""
        if self.modules is None:
            return None
        return directory.resolve() / Path(self.modules).expanduser()


def _to_error_detail(problem: PlanProblem) -> InitErrorDetails:
    """Convert a problem to a pydantic error with the same place, so that the error of the settings names its line."""
    # The settings read `shows_value` when they format the error.
    error_type = PydanticCustomError(
        "plan", "{problem}", {"problem": problem.problem, "shows_value": problem.shows_value}
    )
    return InitErrorDetails(type=error_type, loc=problem.place, input=problem.value)
