"""Tables on terminals of any width: no word is cut, and a table that does not fit becomes blocks of lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.shared.output import Table, column_widths, print_tables
from tests.commands.fake_cluster import FakeCluster
from tests.commands.fake_groups import FakeGroups
from tests.commands.groups.known_groups import add_known_groups
from tests.conftest import Finished
from tests.support.log_files import PAIRS, batch_of, segment

PRINTED = pytest.CaptureFixture[str]
PATH = "/var/lib/kafka/" + "data" * 10
WIDTHS = (40, 60, 80)


def printed(table: Table, width: int, capsys: PRINTED, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    print_tables([table])
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_terminal_too_narrow_for_a_table_shows_blocks(
    capsys: PRINTED, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(("Topic", "Leader", "Isr"), [("orders", 1, (1, 2)), ("clicks", None, ())], title="all")
    assert printed(table, 21, capsys, monkeypatch) == [
        "all",
        "Topic    Leader   Isr",
        "─────────────────────",
        "orders        1   1,2",
        "clicks        -",
    ]
    assert printed(table, 20, capsys, monkeypatch) == [
        "all",
        *("Topic: orders", "Leader: 1", "Isr: 1,2", ""),
        *("Topic: clicks", "Leader: -", "Isr:"),
    ]


def test_a_table_behind_blocks_stands_apart(capsys: PRINTED, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    wide = Table(("Broker", "Directory"), [(1, "/var/lib/kafka/data")])
    print_tables([wide, wide, Table(("Topic",), [("orders",)])])
    blocks = ["Broker: 1", "Directory: /var/lib/kafka/data", ""]
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [*blocks, *blocks, "Topic", "──────", "orders"]


def test_a_text_is_wrapped_between_words_before_a_table_becomes_blocks(
    capsys: PRINTED, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("cleanup.policy", "what happens to old records")]
    assert printed(Table(("Name", "Meaning"), rows), 30, capsys, monkeypatch)[2:] == [
        "cleanup.policy   what happens",
        "                 to old",
        "                 records",
    ]


def test_a_size_stays_with_its_unit(capsys: PRINTED, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(("Topic", "Replication factor", "Size"), [("orders", 1, "13.6 kB")])
    assert printed(table, 30, capsys, monkeypatch)[1:] == [
        "Topic         factor   Size",
        "──────────────────────────────",
        "orders             1   13.6 kB",
    ]
    assert printed(table, 29, capsys, monkeypatch)[2] == "Size: 13.6 kB"


def test_a_long_path_is_in_one_piece_to_be_copied(capsys: PRINTED, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(("Topic", "Directory"), [("orders", PATH)])
    assert printed(table, 40, capsys, monkeypatch) == ["Topic: orders", f"Directory: {PATH}"]


@given(
    st.lists(st.lists(st.text("ab ", max_size=12), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_columns_take_the_width_there_is_and_hold_their_longest_word(
    rows: Sequence[Sequence[str]], width: int
) -> None:
    widths = column_widths(rows, width)
    words = [
        max([len(word) for cell in column for word in cell.split()], default=1)
        for column in zip(*rows, strict=True)
    ]
    if widths is None:
        assert sum(words) + 6 > width
        return
    assert all(wide >= word for wide, word in zip(widths, words, strict=True) if word > 1)
    texts = [max(map(len, column)) for column in zip(*rows, strict=True)]
    assert sum(widths) + 6 <= width
    assert widths == texts or sum(widths) + 6 == width


LINES = [
    "configs describe orders -o table",
    "topics describe orders -o table",
    "cluster nodes -o table",
    "dump-log orders-0 -o table",
    "dump-log orders-0 --print-data-log -o table",
    "dump-log orders-0 orders-1 --summary -o table",
]


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_at(
    width: int,
    orders: FakeCluster,
    kcli: Callable[..., Finished],
    golden: Callable[[str, str], None],
    here,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for partition in (0, 1):
        segment(here / f"orders-{partition}", [batch_of(PAIRS[:5]), batch_of([(b"k", b"long " * 20)], 5)])
    monkeypatch.setenv("COLUMNS", str(width))
    shown = []
    for line in LINES:
        finished = kcli(*shlex.split(line))
        assert finished.exit_code == 0, finished.err
        shown.append(f"$ kcli {line}\n{finished.out}")
    golden(f"cli/tables_{width}.txt", "\n".join(shown))


@pytest.mark.parametrize("width", WIDTHS)
def test_groups_at(
    width: int, groups: FakeGroups, kcli: Callable[..., Finished], golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_known_groups(groups, monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = ("list", "describe --all-groups", "describe --all-groups --members --verbose")
    shown = [f"$ {line}\n{kcli('consumer-groups', *line.split(), '-o', 'table').out}" for line in lines]
    golden(f"cli/group_tables_{width}.txt", "\n".join(shown))
