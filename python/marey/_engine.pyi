"""The analyst's half of marey, in Rust; loaded on first use."""

def cli_main(argv: list[str]) -> int:
    """Runs the command line; returns the exit code."""
