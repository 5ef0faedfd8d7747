"""Small modules in the shape of the public ones: loops, a context, a provider and a delegating tool.

They work as the public modules do: with hooks in the argument of `execute`, decisions through the coordinator,
attributes of responses, and results as text. `PACKAGE` is their package.
"""

from __future__ import annotations

BASIC = """
import asyncio, json
from PACKAGE.events import ORCHESTRATOR_COMPLETE, PROMPT_SUBMIT, PROVIDER_REQUEST, PROVIDER_RESPONSE
from PACKAGE.events import TOOL_POST, TOOL_PRE
from PACKAGE.message_models import ChatRequest, Message, ToolSpec

__amplifier_module_type__ = "orchestrator"


class Basic:
    def __init__(self, config):
        self.config = config
        self.pending = []

    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        result = await hooks.emit(PROMPT_SUBMIT, {"prompt": prompt})
        result = await coordinator.process_hook_result(result, PROMPT_SUBMIT, "orchestrator")
        if result.action == "deny":
            return f"Operation denied: {result.reason}"
        await context.add_message({"role": "user", "content": prompt})
        name, provider = sorted(providers.items(), key=lambda item: getattr(item[1], "priority", 100))[0]
        while True:
            result = await hooks.emit(PROVIDER_REQUEST, {"provider": name})
            result = await coordinator.process_hook_result(result, PROVIDER_REQUEST, "orchestrator")
            if result.action == "deny":
                return f"Operation denied: {result.reason}"
            messages = list(await context.get_messages_for_request(provider=provider))
            if result.action == "inject_context" and result.ephemeral and result.context_injection:
                messages.append({"role": result.context_injection_role, "content": result.context_injection})
            messages, self.pending = [*messages, *self.pending], []
            specs = [
                ToolSpec(name=one.name, description=one.description, parameters=one.input_schema)
                for one in tools.values()
            ]
            request = ChatRequest(messages=[Message(**one) for one in messages], tools=specs or None)
            response = await provider.complete(request, **self.config.get("kwargs", {}))
            calls = getattr(response, "tool_calls", None)
            await hooks.emit(PROVIDER_RESPONSE, {"provider": name, "usage": response.usage, "tool_calls": bool(calls)})
            message = {"role": "assistant", "content": [block.model_dump() for block in response.content]}
            if not calls:
                await context.add_message(message)
                text = "".join(block.text for block in response.content if block.type == "text")
                await hooks.emit(ORCHESTRATOR_COMPLETE, {"status": "success" if text else "incomplete"})
                return text
            stored = [
                {"id": one.id, "tool": one.name, "arguments": one.arguments or one.get("arguments") or {}}
                for one in calls
            ]
            await context.add_message({**message, "tool_calls": stored})
            run = [self.run_tool(one, tools, hooks, coordinator) for one in stored]
            for one, content in zip(stored, await asyncio.gather(*run)):
                await context.add_message({"role": "tool", "tool_call_id": one["id"], "content": content})

    async def run_tool(self, call, tools, hooks, coordinator):
        data = {"tool_name": call["tool"], "tool_input": call["arguments"]}
        coordinator.cancellation.register_tool_start(call["id"], call["tool"])
        try:
            result = await hooks.emit(TOOL_PRE, data)
            result = await coordinator.process_hook_result(result, TOOL_PRE, call["tool"])
            if result.action == "deny":
                return f"Denied by hook: {result.reason}"
            given = await tools[call["tool"]].execute(call["arguments"])
            post = await hooks.emit(TOOL_POST, {**data, "result": given})
            await coordinator.process_hook_result(post, TOOL_POST, call["tool"])
            if post.action == "inject_context" and post.ephemeral and post.context_injection:
                self.pending.append({"role": post.context_injection_role, "content": post.context_injection})
            changed = post.data.get("result") if post.data is not None else None
            if changed is not None and changed is not given:
                return json.dumps(changed) if isinstance(changed, (dict, list)) else str(changed)
            return given.get_serialized_output()
        finally:
            coordinator.cancellation.register_tool_complete(call["id"])


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Basic(config or {}))
"""
"""Reads `tool_calls` of the response, and arguments as `arguments` or with `get`."""

STREAMING = """
import asyncio, json
from PACKAGE import ToolResult
from PACKAGE.events import CONTENT_BLOCK_END, CONTENT_BLOCK_START, ORCHESTRATOR_COMPLETE, PROMPT_SUBMIT
from PACKAGE.events import PROVIDER_ERROR, PROVIDER_REQUEST, TOOL_POST, TOOL_PRE
from PACKAGE.llm_errors import LLMError
from PACKAGE.message_models import ChatRequest, Message, ToolSpec

__amplifier_module_type__ = "orchestrator"


class Streaming:
    def __init__(self, config):
        self.config = config

    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        goal = coordinator.session_state.get("goal")
        try:
            text = "".join([part async for part in self.stream(prompt, context, providers, tools, hooks, coordinator)])
            status = "success" if text else "incomplete"
        except Exception:
            status = "error"
            raise
        finally:
            await hooks.emit(ORCHESTRATOR_COMPLETE, {"status": status, "goal_turn": goal})
        return text

    async def stream(self, prompt, context, providers, tools, hooks, coordinator):
        result = await hooks.emit(PROMPT_SUBMIT, {"prompt": prompt})
        result = await coordinator.process_hook_result(result, PROMPT_SUBMIT, "orchestrator")
        if result.action == "deny":
            yield f"Operation denied: {result.reason}"
            return
        await hooks.emit("execution:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        name, provider = next(iter(providers.items()))
        while True:
            result = await hooks.emit(PROVIDER_REQUEST, {"provider": name})
            result = await coordinator.process_hook_result(result, PROVIDER_REQUEST, "orchestrator")
            if result.action == "deny":
                yield f"Operation denied: {result.reason}"
                return
            messages = await context.get_messages_for_request(provider=provider)
            specs = [
                ToolSpec(name=one.name, description=one.description, parameters=one.input_schema)
                for one in tools.values()
            ]
            request = ChatRequest(
                messages=[Message(**one) for one in messages], tools=specs or None, metadata={"stream": False}
            )
            try:
                response = await provider.complete(request, **self.config.get("kwargs", {}))
            except LLMError as error:
                await hooks.emit(PROVIDER_ERROR, {"provider": name, "retryable": error.retryable})
                raise
            content = [block.model_dump() for block in response.content]
            for index, block in enumerate(content):
                data = {"block_index": index, "total_blocks": len(content)}
                await hooks.emit(CONTENT_BLOCK_START, {**data, "block_type": block["type"]})
                usage = response.usage.model_dump() if response.usage else None
                await hooks.emit(CONTENT_BLOCK_END, {**data, "block": block, "usage": usage})
            calls = provider.parse_tool_calls(response)
            message = {"role": "assistant", "content": content}
            thinking = next((block for block in content if block["type"] == "thinking"), None)
            if thinking is not None:
                message["thinking_block"] = thinking
            if getattr(response, "metadata", None):
                message["metadata"] = response.metadata
            if not calls:
                yield "".join(block.text for block in response.content if block.type == "text")
                await context.add_message(message)
                break
            stored = [{"id": one.id, "tool": one.name, "arguments": one.arguments} for one in calls]
            await context.add_message({**message, "tool_calls": stored})
            run = [self.run_tool(one, tools, hooks, coordinator) for one in calls]
            for one, text in zip(calls, await asyncio.gather(*run)):
                await context.add_message(
                    {"role": "tool", "name": one.name, "tool_call_id": one.id, "content": text}
                )
        await hooks.emit("execution:end", {})

    async def run_tool(self, call, tools, hooks, coordinator):
        data = {"tool_name": call.name, "tool_call_id": call.id, "tool_input": call.arguments}
        result = await hooks.emit(TOOL_PRE, data)
        result = await coordinator.process_hook_result(result, TOOL_PRE, call.name)
        if result.action == "deny":
            return f"Denied by hook: {result.reason}"
        if not hasattr(coordinator, "_running_tools"):
            coordinator._running_tools = {}
        coordinator._running_tools[asyncio.current_task()] = call.id
        try:
            given = await tools[call.name].execute(call.arguments)
        except Exception as error:
            given = ToolResult(success=False, error={"message": str(error)})
        finally:
            coordinator._running_tools.pop(asyncio.current_task())
        seen = given.model_dump() if hasattr(given, "model_dump") else str(given)
        post = await hooks.emit(TOOL_POST, {**data, "result": seen})
        await coordinator.process_hook_result(post, TOOL_POST, call.name)
        changed = post.data.get("result") if post and post.data is not None else None
        if changed is not None and changed is not seen:
            return json.dumps(changed) if isinstance(changed, (dict, list)) else str(changed)
        return given.get_serialized_output()


async def mount(coordinator, config=None):
    coordinator.register_contributor("observability.events", "streaming", lambda: ["execution:start", "execution:end"])
    await coordinator.mount("orchestrator", Streaming(config or {}))
    coordinator.register_capability("session.steer", lambda message: None)
"""
"""Reports responses as content blocks, with their usage; asks the provider for the tool calls."""

CONTEXT = """
__amplifier_module_type__ = "context"


class Context:
    def __init__(self, hooks):
        self.hooks = hooks
        self.messages = []

    async def add_message(self, message):
        self.messages.append({**message, "metadata": {**(message.get("metadata") or {}), "timestamp": "now"}})

    async def get_messages_for_request(self, token_budget=None, provider=None):
        if hasattr(provider, "get_model_info"):
            provider.get_model_info()
        sizes = provider.get_info().defaults or {}
        self.budget = token_budget or sizes.get("context_window", 0) - sizes.get("max_output_tokens", 0) // 2
        return list(self.messages)

    async def get_messages(self):
        return list(self.messages)

    async def set_messages(self, messages):
        self.messages = list(messages)

    async def clear(self):
        self.messages = []


async def mount(coordinator, config=None):
    await coordinator.mount("context", Context(getattr(coordinator, "hooks", None)))
"""
"""Adds metadata to messages, and asks the provider for its window."""

PROVIDER = """
import json
from PACKAGE import ModelInfo, ProviderInfo
from PACKAGE.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCall, ToolCallBlock, Usage

__amplifier_module_type__ = "provider"


class Echo:
    name = "echo"
    priority = 10

    def __init__(self, config, coordinator):
        self.config = config
        self.coordinator = coordinator
        self.requests = []

    def get_info(self):
        return ProviderInfo(
            id="echo", display_name="Echo", defaults={"context_window": 100_000, "max_output_tokens": 1000}
        )

    async def list_models(self):
        return [ModelInfo(id="echo", display_name="Echo", context_window=100_000, max_output_tokens=1000)]

    async def complete(self, request, **kwargs):
        self.requests.append(request)
        await self.coordinator.hooks.emit("llm:request", {"provider": "echo", "message_count": len(request.messages)})
        last = [one for one in request.messages if one.role != "system"][-1]
        text = last.content if isinstance(last.content, str) else last.content[0].text
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        if last.role == "user" and text.startswith("Use "):
            name, _, value = text.removeprefix("Use ").partition(" ")
            arguments = json.loads(value) if value.startswith("{") else {"path": value}
            call = ToolCall(id=f"call_{len(self.requests)}", name=name, arguments=arguments)
            blocks = [
                ThinkingBlock(thinking="I need it.", signature="signed"),
                ToolCallBlock(id=call.id, name=call.name, input=call.arguments),
            ]
            return ChatResponse(content=blocks, tool_calls=[call], usage=usage, metadata={"step": len(self.requests)})
        seen = " | ".join(one.content for one in request.messages if isinstance(one.content, str))
        return ChatResponse(content=[TextBlock(text=f"I saw: {seen}")], usage=usage)

    def parse_tool_calls(self, response):
        return response.tool_calls or []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Echo(config or {}, coordinator), name="echo")
"""
"""Calls the tool that the prompt asks for (`Use NAME PATH`, or with JSON), and then repeats what it has read."""

TASK = """
import uuid
from PACKAGE import ToolResult

__amplifier_module_type__ = "tool"


class Task:
    name = "task"

    def __init__(self, coordinator, config):
        self.coordinator = coordinator
        self.config = config

    @property
    def description(self):
        agents = self.coordinator.config.get("agents", {})
        return "Delegate to: " + ", ".join(f"{name} ({one.get('description')})" for name, one in agents.items())

    @property
    def input_schema(self):
        names = ("agent", "instruction", "session_id")
        properties = {name: {"type": "string"} for name in names}
        return {"type": "object", "properties": properties, "required": ["instruction"]}

    async def execute(self, input):
        hooks = self.coordinator.get("hooks")
        try:
            if input.get("session_id"):
                resume = self.coordinator.get_capability("session.resume")
                result = await resume(sub_session_id=input["session_id"], instruction=input["instruction"])
            else:
                result = await self.spawn(input["agent"], input["instruction"], hooks)
        except Exception as error:
            await hooks.emit("tool:error", {"tool": "task", "error": str(error)})
            return ToolResult(success=False, error={"message": f"Delegation failed: {error}"})
        return ToolResult(output={"response": result["output"], "session_id": result["session_id"]})

    async def spawn(self, agent, instruction, hooks):
        parent = self.coordinator.session
        child = f"{self.coordinator.session_id}-{uuid.uuid4().hex[:16]}_{agent}"
        spawn = self.coordinator.get_capability("session.spawn")
        if spawn is None:
            raise RuntimeError("session.spawn is not available")
        await hooks.emit("task:agent_spawned", {"agent": agent, "sub_session_id": child})
        orchestrator = (parent.config or {}).get("session", {}).get("orchestrator", {})
        return await spawn(
            agent_name=agent,
            instruction=instruction,
            parent_session=parent,
            agent_configs=self.coordinator.config.get("agents", {}),
            sub_session_id=child,
            tool_inheritance={"exclude_tools": ["tool-task"]},
            hook_inheritance={},
            orchestrator_config=orchestrator.get("config"),
            provider_preferences=None,
        )


async def mount(coordinator, config=None):
    events = coordinator.get_capability("observability.events") or []
    coordinator.register_capability("observability.events", [*events, "task:agent_spawned"])
    await coordinator.mount("tools", Task(coordinator, config or {}), name="task")
"""
"""Delegates by the capabilities `session.spawn` and `session.resume`, and reads the plan of its session."""

SHAPES = {"basic": BASIC, "streaming": STREAMING, "context": CONTEXT, "echo": PROVIDER, "task": TASK}


def write_shape(name: str, package: str) -> str:
    """Return the source of a module, written against amplifier_core or mcp_bridge.amplifier."""
    return SHAPES[name].replace("PACKAGE", package)
