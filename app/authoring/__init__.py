"""What a writer imports to declare workflows."""

from app.authoring.agent import Agent
from app.authoring.asks import Approval, Declined, External, Fill, Question
from app.authoring.channel import AskRequest, Channel, Notice
from app.authoring.context import StepContext, ToolContext, ToolHost
from app.authoring.declared import Condition, Loop, Parallel, Router, Step, Steps
from app.authoring.function import UnreadableSignature
from app.authoring.gates import AskError, AskInput, Choose, Confirm, Gate, Review
from app.authoring.guardrails import Block, CallDecision, Guards, Replace, Retry
from app.authoring.limits import Limits
from app.authoring.mcp import McpServer, McpTool
from app.authoring.mistakes import Mistake, WorkflowMistakes
from app.authoring.model import (
    ChatModel,
    ModelMessage,
    ModelRequest,
    OfferedTool,
    Reply,
    ScriptedModel,
    ScriptRanOut,
    Usage,
    call_tool,
    call_tools,
    reply_with,
)
from app.authoring.model_judge import ModelJudge
from app.authoring.model_router import ModelRouter
from app.authoring.person import ask_user, get_user_input
from app.authoring.sensitive import Sensitive
from app.authoring.step import (
    AgentStep,
    BuiltWorkflow,
    ConditionNode,
    FunctionStep,
    GraphNode,
    LoopNode,
    ParallelNode,
    RouterNode,
    StepNode,
    StepsNode,
    WorkflowNode,
)
from app.authoring.tool import Tool, tool
from app.authoring.tool_call import ToolCall
from app.authoring.workflow import Workflow
from app.errors import AuthoringError

__all__ = [
    "Agent",
    "AgentStep",
    "Approval",
    "AskError",
    "AskInput",
    "AskRequest",
    "AuthoringError",
    "Block",
    "BuiltWorkflow",
    "CallDecision",
    "Channel",
    "ChatModel",
    "Choose",
    "Condition",
    "ConditionNode",
    "Confirm",
    "Declined",
    "External",
    "Fill",
    "FunctionStep",
    "Gate",
    "GraphNode",
    "Guards",
    "Limits",
    "Loop",
    "LoopNode",
    "McpServer",
    "McpTool",
    "Mistake",
    "ModelJudge",
    "ModelMessage",
    "ModelRequest",
    "ModelRouter",
    "Notice",
    "OfferedTool",
    "Parallel",
    "ParallelNode",
    "Question",
    "Replace",
    "Reply",
    "Retry",
    "Review",
    "Router",
    "RouterNode",
    "ScriptRanOut",
    "ScriptedModel",
    "Sensitive",
    "Step",
    "StepContext",
    "StepNode",
    "Steps",
    "StepsNode",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolHost",
    "UnreadableSignature",
    "Usage",
    "Workflow",
    "WorkflowMistakes",
    "WorkflowNode",
    "ask_user",
    "call_tool",
    "call_tools",
    "get_user_input",
    "reply_with",
    "tool",
]
