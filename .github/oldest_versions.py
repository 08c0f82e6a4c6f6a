"""Print `name==version` for the lower bound of every dependency in a pyproject.toml, as a pip constraints file."""

import re
import sys
import tomllib


def oldest_versions(text: str) -> list[str]:
    """Lower bounds of the dependencies and extras, without markers and without the project's own extras."""
    project = tomllib.loads(text)["project"]
    stated = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    bounds = (re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*[>=]=\s*([\w.]+)", line) for line in stated)
    return sorted({f"{bound[1]}=={oldest_release(bound[2])}" for bound in bounds if bound})


def oldest_release(bound: str) -> str:
    """The patch releases of a lower bound: `14` and `14.0` become `14.0.*`, `0.4.6` stays."""
    parts = bound.split(".")
    return bound if len(parts) > 2 else ".".join([*parts, "0"][:2]) + ".*"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(oldest_versions(file.read())))
