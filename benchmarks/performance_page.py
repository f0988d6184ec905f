"""docs/performance.md and docs/performance_of_parts.md: tables stand between marks, so that the scripts that measure them
can write them anew."""
import os
import pathlib
import platform

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
PAGE_OF_PARTS = PAGE.with_name("performance_of_parts.md")


def parts(page, mark):
    """What stands before, between and after the marks of a table."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = page.read_text(encoding="utf-8")
    before, found_begin, rest = text.partition(begin)
    between, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{page} has no lines {begin} and {end}")
    return before + begin, between, end + after


def read_table(mark, page=PAGE):
    """The cells of the rows below the heading, as they are written."""
    rows = [line.strip().strip("|").split("|") for line in parts(page, mark)[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def write(mark, text, page=PAGE):
    before, _, after = parts(page, mark)
    part = page.with_suffix(".part")
    part.write_text(f"{before}\n{text}{after}", encoding="utf-8")
    os.replace(part, page)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
