"""MessageTracing: OpenTelemetry spans for messages, by the semantic conventions for MCP (gen-ai/mcp).

The parent of a span comes from the trace context in `_meta`. OpenTelemetry is only used if other code has imported it
and set a tracer provider.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anyio import get_cancelled_exc_class

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, RpcError
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._server.requests import Session, truncate_text
from mcp_bridge._version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

_TARGETS = {
    "tools/call": ("gen_ai.tool.name", "name"),
    "prompts/get": ("gen_ai.prompt.name", "name"),
    "resources/read": ("mcp.resource.uri", "uri"),
    "resources/subscribe": ("mcp.resource.uri", "uri"),
    "resources/unsubscribe": ("mcp.resource.uri", "uri"),
}
"""For each method with a target: the attribute of the target, and the parameter with its value."""


class MessageTracing:
    """Starts the spans of messages. A provider may be set late, so the tracer is looked up for each message."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._provider: Any = None
        self._tracer: Tracer | None = None

    def start_span(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        version: str,
        session: Session | None,
        request_id: str | int | None = None,
    ) -> MessageSpan | None:
        """Return the span of a message, or None if no tracer provider is set."""
        tracer = self._find_tracer()
        if tracer is None:
            return None
        from opentelemetry.trace import SpanKind, set_span_in_context

        attributes = {"mcp.method.name": method, "mcp.protocol.version": version}
        if request_id is not None:
            attributes["jsonrpc.request.id"] = str(request_id)
        if session is not None:
            attributes["mcp.session.id"] = session.key
        if method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
        name = method
        if method in _TARGETS:
            attribute, param = _TARGETS[method]
            target = params.get(param)
            if isinstance(target, str):
                attributes[attribute] = target
                # With URIs, there would be too many different names of spans.
                if param == "name":
                    name = f"{method} {target}"
        context, links = _extract_context(params)
        redact = self._redactor.redact_text
        span = tracer.start_span(
            truncate_text(redact(name)),
            context=context,
            kind=SpanKind.SERVER,
            attributes={key: truncate_text(redact(value)) for key, value in attributes.items()},
            links=links,
        )
        return MessageSpan(span, set_span_in_context(span, context), self._redactor)

    def _find_tracer(self) -> Tracer | None:
        api = sys.modules.get("opentelemetry.trace")
        # While another thread imports the module, the function is still missing.
        get_provider = getattr(api, "get_tracer_provider", None)
        if api is None or get_provider is None:
            return None
        provider = get_provider()
        if provider is not self._provider:
            tracer: Tracer | None = None
            # Before a provider is set, there is a proxy, whose spans record nothing.
            if not isinstance(provider, api.ProxyTracerProvider):
                tracer = provider.get_tracer("mcp_bridge", __version__)
            # If `get_tracer` raises, the next message tries again.
            self._tracer = tracer
            self._provider = provider
        return self._tracer


class MessageSpan:
    """The span of a message, with the context in which the message is served."""

    def __init__(self, span: Span, context: Context, redactor: Redactor) -> None:
        self._span = span
        self._redactor = redactor
        self._context = context

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make the span the current one. An error ends it."""
        from opentelemetry.context import attach, detach

        token = attach(self._context)
        try:
            yield
        except BaseException as error:
            if not isinstance(error, get_cancelled_exc_class()):
                self._record_error(error)
            self._span.end()
            raise
        finally:
            detach(token)

    def finish(self, result: Any) -> None:
        """End the span with a result. The error of a tool marks the span as failed, although the response succeeds."""
        if isinstance(result, Mapping) and result.get("isError") is True:
            self._set_error("tool_error")
        self._span.end()

    def _record_error(self, error: BaseException) -> None:
        if isinstance(error, RpcError):
            self._span.set_attribute("rpc.response.status_code", str(error.code))
            self._set_error(str(error.code), self._redactor.redact_text(error.message))
        else:
            self._span.set_attribute("rpc.response.status_code", str(INTERNAL_ERROR))
            self._span.record_exception(error)
            self._set_error(type(error).__qualname__, str(error))

    def _set_error(self, kind: str, description: str | None = None) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, description)


def _extract_context(params: Mapping[str, Any]) -> tuple[Context, list[Link]]:
    """Return the context for the span of a message, and its links.

    If `_meta` has a valid `traceparent`, that is the parent, and the span around this code, such as the one of the HTTP
    request, is linked. Otherwise, the span around this code is the parent.
    """
    from opentelemetry.context import get_current
    from opentelemetry.propagate import extract
    from opentelemetry.trace import Link, get_current_span

    meta = params.get("_meta")
    carrier: dict[str, str] = {}
    if isinstance(meta, dict):
        carrier = {key: value for key, value in meta.items() if isinstance(value, str)}
    context = extract(carrier, context=get_current())
    surrounding_span = get_current_span().get_span_context()
    parent_span = get_current_span(context).get_span_context()
    if surrounding_span.is_valid and parent_span != surrounding_span:
        return context, [Link(surrounding_span)]
    return context, []
