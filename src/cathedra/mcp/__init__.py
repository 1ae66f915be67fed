"""The tools of `cathedra.engine` for agents and programs, by the Model Context Protocol and over HTTP.

`tools` names the tools, turns a call into a question to the engine, and cuts an answer to the size that an agent can
read. For users of a followed cluster, `rights` reviews what a user may list and makes the state without the rest, and
`answering` answers from it within limits. `http` serves the tools as paths, and `openapi`
describes them. `server` speaks the protocol with the official SDK, which is an extra of the package.
"""

from cathedra.mcp.tools import TOOLS, AgentSource, AgentTool, ToolAnswer, answer_call

__all__ = ["TOOLS", "AgentSource", "AgentTool", "ToolAnswer", "answer_call"]
