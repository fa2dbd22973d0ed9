"""A small server of the Model Context Protocol, for trying out tools that live elsewhere: a help desk's tickets."""

from typing import Literal

from mcp.server.mcpserver import MCPServer

server = MCPServer("tickets", log_level="ERROR")
titles = {7: "The roof leaks", 8: "You have won a prize"}


@server.tool()
def find_ticket(id: int) -> str:
    """Finds a ticket and returns its title."""
    return titles.get(id, "there is no such ticket")


@server.tool()
def close_ticket(id: int, reason: Literal["solved", "spam"] = "solved") -> str:
    """Closes a ticket."""
    return f"{id} is closed as {reason}"


if __name__ == "__main__":
    server.run()  # on standard input and output, as a client starts it
