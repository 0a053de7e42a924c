"""`python -m cuda_agent` is the command `cuda-agent`."""

from cuda_agent.cli import main

main()
