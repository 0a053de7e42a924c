"""The agent: a workspace, tools, the loop that lets a policy use them, and `optimize` around it.

Nothing is imported here: a policy's helper programs start faster for it.
"""
