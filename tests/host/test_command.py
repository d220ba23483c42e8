"""Last words: the exception first, and pages as the text that they show."""

from pathlib import Path

import pytest

from duetbench.core.errors import SetupError
from duetbench.host import command
from duetbench.host.command import last_words

SETTINGS = """INFO:     Started server process [7]
Traceback (most recent call last):
  File "/srv/web.py", line 11, in <module>
    settings = Settings()
  File "/x/lib/python3.14/site-packages/pydantic_settings/main.py", line 176, in __init__
    super().__init__(
pydantic_core._pydantic_core.ValidationError: 2 validation errors for Place
warehouse_address
  Field required [type=missing, input_value={'token': 'geheim'}, input_type=dict]
    For further information visit https://errors.example/2.11/v/missing
port
  Input should be a valid integer [type=int_parsing, input_value='geheim', input_type=str]
    For further information visit https://errors.example/2.11/v/int_parsing

ERROR:    Application startup failed. Exiting.
"""
UNSET = """Traceback (most recent call last):
  File "/srv/shop/db.py", line 6, in <module>
    engine = create_engine(os.environ["DATABASE_URL"])
  File "<frozen os>", line 717, in __getitem__
KeyError: 'DATABASE_URL'
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/x/lib/python3.14/site-packages/starlette/_utils.py", line 87, in collapse
  |     yield
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/web.py", line 14, in bad
    |     raise RuntimeError("the reason that a person needs to read")
    |   File "/x/lib/python3.14/site-packages/a/b.py", line 2, in c
    | RuntimeError: the reason that a person needs to read
    +------------------------------------
INFO:     127.0.0.1:5 - "GET /bad HTTP/1.1" 500
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Without what was given, which may be private.
        (
            SETTINGS,
            (
                "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Place "
                "warehouse_address Field required port Input should be a valid integer "
                "(/srv/web.py, line 11)"
            ),
        ),
        (GROUP, "RuntimeError: the reason that a person needs to read (/srv/web.py, line 14)"),
        (
            UNSET + "\nDuring handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "/srv/a.py", line 2, in f\n'
            "ValueError: first line\nsecond line\n\nINFO:     done\n",
            "ValueError: first line second line (/srv/a.py, line 2)",
        ),
        # People know neither our copy of their files, nor the standard library's.
        (
            """Traceback (most recent call last):
  File "/usr/lib/python3.14/importlib/__init__.py", line 88, in import_module
  File "/tmp/duetbench-launch-x1/copy/web/main.py", line 3, in <module>
ImportError: cannot import name 'x' from 'web' (/tmp/tmpwq12ab/copy/web/__init__.py)""",
            (
                "ImportError: cannot import name 'x' from 'web' (web/__init__.py) (web/main.py, "
                "line 3)"
            ),
        ),
        (f"{UNSET}[INFO] Shutting down granian\n", last_words(UNSET)),
        ("Listening at 8000\nno such loop: rloop\n", "Listening at 8000 / no such loop: rloop"),
        ("one  two\n\n" * 75 + "the end\n", "… / " + "one two / " * 59 + "the end"),
        (f"{'a ' * 400}the end", f"… {('a ' * 400 + 'the end')[-600:]}"),
        ("", "nothing"),
    ],
)
def test_the_last_exception_comes_first_and_other_words_are_the_last_ones(
    text: str, words: str
) -> None:
    assert last_words(text) == words


VAGUE = """error: Failed to build `lib==1.0`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)

         [stdout]
         copying lib/offline.py -> build
         [stderr]
         {}

hint: Build failures usually indicate a problem with the package or the build environment
"""
HEADER = """a.c:3:1: warning: operation timed out
         a.c:15:10: fatal error: lber.h: No such file or directory
         error: command '/usr/bin/gcc' failed with exit code 1"""
CHAIN = """Traceback (most recent call last):
           KeyError: 'x'
         OSError: mysql_config not found"""
TOML = """error: Failed to download and build `lib==1.0`
  cause: Failed to parse: /x/pyproject.toml
  cause: TOML parse error at line 1, column 1
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (VAGUE.format(HEADER), "fatal error: lber.h: No such file or directory"),
        (VAGUE.format(CHAIN), "OSError: mysql_config not found"),
        (VAGUE.format("x " * 400), "Failed to build `lib==1.0`"),
        (
            TOML,
            "Failed to parse: /x/pyproject.toml / cause: TOML parse error at line 1, column 1",
        ),
        ("error: Failed to download `a==1`\n  cause: Hash mismatch for `a==1`", "Hash mism"),
        ("error: Failed to download `a==1`\n  cause: operation timed out", "timed out"),
        (f"{TOML}  cause: HTTP status client error (403 Forbidden)", "403"),
    ],
)
def test_a_failed_build_quotes_its_own_error(log: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "said"
    file.write_text(log)
    argv = ["sh", "-c", f"cat {file}; exit 2"]
    with pytest.raises(SetupError) as caught:
        command.run(argv, what="it", log=tmp_path / "log", tick=lambda _: None)
    assert words in str(caught.value)
