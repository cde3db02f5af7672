"""Host callbacks."""


def install_callbacks() -> None:
    """Later."""
