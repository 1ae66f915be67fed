"""The tools of `cathedra.engine` for agents, by the Model Context Protocol.

`tools` names the tools and turns a call into a question to the engine. `shortening` cuts an answer to the size that an
agent can read. `server` speaks the protocol with the official SDK, which is an extra of the package.
"""

from cathedra.mcp.tools import TOOLS, AgentSource, AgentTool, ToolAnswer, answer_call

__all__ = ["TOOLS", "AgentSource", "AgentTool", "ToolAnswer", "answer_call"]
