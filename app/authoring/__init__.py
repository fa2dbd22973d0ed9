"""What a writer imports to declare workflows."""

from app.authoring.agent import Agent
from app.authoring.asks import Approval, Declined, Question
from app.authoring.channel import AskRequest, Channel, Notice
from app.authoring.context import StepContext, ToolContext, ToolHost
from app.authoring.function import UnreadableSignature
from app.authoring.limits import Limits
from app.authoring.mistakes import Mistake, WorkflowMistakes
from app.authoring.model import (
    ChatModel,
    ModelMessage,
    ModelRequest,
    OfferedTool,
    Reply,
    ScriptedModel,
    ScriptRanOut,
    ToolCall,
    Usage,
    call_tool,
    call_tools,
    reply_with,
)
from app.authoring.sensitive import Sensitive
from app.authoring.step import AgentStep, FunctionStep, Step
from app.authoring.tool import Tool, tool
from app.authoring.workflow import Workflow
from app.errors import AuthoringError

__all__ = [
    "Agent",
    "AgentStep",
    "Approval",
    "AskRequest",
    "AuthoringError",
    "Channel",
    "ChatModel",
    "Declined",
    "FunctionStep",
    "Limits",
    "Mistake",
    "ModelMessage",
    "ModelRequest",
    "Notice",
    "OfferedTool",
    "Question",
    "Reply",
    "ScriptRanOut",
    "ScriptedModel",
    "Sensitive",
    "Step",
    "StepContext",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolHost",
    "UnreadableSignature",
    "Usage",
    "Workflow",
    "WorkflowMistakes",
    "call_tool",
    "call_tools",
    "reply_with",
    "tool",
]
