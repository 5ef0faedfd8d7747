"""The result types of the tool_use API: Result, ResultStatus and ValidationResult."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class ResultStatus(Enum):
    """How an invocation ended.

    >>> ResultStatus("timeout")
    <ResultStatus.TIMEOUT: 'timeout'>
    """

    SUCCESS = "success"
    FAILURE = "failure"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"


@dataclass
class Result:
    """The result of `ToolRegistry.invoke`. `duration_ms` is in milliseconds.

    >>> Result.success(21).ok
    True
    >>> Result.failure("no such city").errors
    ['no such city']
    """

    status: ResultStatus
    data: Any = None
    message: str = ""
    errors: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    duration_ms: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is SUCCESS. A PARTIAL result is not ok."""
        return self.status is ResultStatus.SUCCESS

    def to_dict(self) -> dict[str, Any]:
        """Return this result as a dictionary. The status becomes its text, and the duration is rounded."""
        return {
            "status": self.status.value,
            "data": self.data,
            "message": self.message,
            "errors": list(self.errors),
            "metadata": dict(self.metadata),
            "duration_ms": None if self.duration_ms is None else round(self.duration_ms, 3),
        }

    @classmethod
    def success(cls, data: Any = None, message: str = "", **extra: Any) -> Result:
        """Return a SUCCESS with this data. `extra` sets further fields."""
        return cls(ResultStatus.SUCCESS, data=data, message=message, **extra)

    @classmethod
    def failure(cls, message: str, errors: list[str] | None = None, **extra: Any) -> Result:
        """Return a FAILURE with this message. By default, it is also the only error. `extra` sets further fields."""
        if errors is None:
            errors = [message]
        return cls(ResultStatus.FAILURE, message=message, errors=errors, **extra)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Build a result from a dictionary of `to_dict`. Raises KeyError without a status, ValueError for a bad one."""
        return cls(
            status=ResultStatus(data["status"]),
            data=data.get("data"),
            message=data.get("message", ""),
            errors=list(data.get("errors", ())),
            metadata=dict(data.get("metadata", {})),
            duration_ms=data.get("duration_ms"),
        )


@dataclass
class ValidationResult:
    """Whether data is valid, and a line for each problem.

    >>> ValidationResult().merge(ValidationResult(False, ["$.city: missing"]))
    ValidationResult(valid=False, errors=['$.city: missing'])
    """

    valid: bool = True
    errors: list[str] = field(default_factory=list)

    def merge(self, other: ValidationResult) -> ValidationResult:
        """Return a new result, valid if both are, with the errors of both."""
        return ValidationResult(self.valid and other.valid, [*self.errors, *other.errors])

    def to_dict(self) -> dict[str, Any]:
        """Return this result as a dictionary."""
        return {"valid": self.valid, "errors": list(self.errors)}
