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
    return sorted(
        {
            f"{bound[1]}=={bound[2]}.*" if bound[2].count(".") < 2 else f"{bound[1]}=={bound[2]}"
            for bound in bounds
            if bound
        }
    )


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(oldest_versions(file.read())))
