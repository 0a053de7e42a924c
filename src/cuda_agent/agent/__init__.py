"""The agent: a workspace, tools, the loop that lets a policy use them, and the search for the best verdict."""
