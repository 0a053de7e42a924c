"""The command `cuda-agent`: one thin module per verb, each of which parses, calls one function and renders."""


def main() -> None:
    """The entry point; loads nothing before it is called."""
    try:
        from cuda_agent.cli.app import run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()
