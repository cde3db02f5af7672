# SPDX-License-Identifier: Apache-2.0
"""The versions of Ingot's dependencies: `ingot.show_versions()`, and a part of `ingot doctor`.

Nothing is imported that may fail to load: versions are read from the packages' metadata. Ingot's
own version is here, so that it is right in a checkout too; `pyproject.toml` and `ingot.__version__`
take it from here.
"""

from __future__ import annotations

import platform

VERSION = "0.1.0"
"""The version of Ingot."""
NEEDED = ("numpy", "ml_dtypes", "llvmlite", "scipy")
"""The packages that Ingot requires."""
TERMINAL = ("rich", "click")
"""The packages that the command line requires."""
TESTED = {"tensorflow": ("2.20", "2.21"), "jax": ("0.10",), "jaxlib": ("0.10",)}
"""Framework -> the release series that its front end is tested with; a test compares both."""


def installed(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    from importlib.metadata import PackageNotFoundError, version  # `import ingot` does not wait

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Return the versions of Ingot, Python, the system and the relevant packages, by name."""
    packages = (*NEEDED, *TERMINAL, *TESTED, "keras")
    return {
        "ingot": VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{package: installed(package) for package in packages},
    }


def show_versions() -> None:
    """Print the versions of Ingot and of its dependencies, for reports of problems.

    Example:
        >>> import ingot
        >>> ingot.show_versions()  # doctest: +ELLIPSIS
        ingot ...
    """
    found = versions()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value or 'not installed'}")
