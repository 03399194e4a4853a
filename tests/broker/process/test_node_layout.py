"""Which nodes a process hosts, and where each has its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.process.node_layout import ClusterOptions, NodeLayout, check_ports
from kcli.errors import UsageError
from kcli.storage.dirs.log_directory import META_PROPERTIES


def layout(tmp_path: Path, nodes: int | None = None, **properties: str) -> NodeLayout:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return NodeLayout(ClusterOptions(tmp_path / "data", nodes=nodes, properties=named))


def used(*directories: Path) -> None:
    """Have directories look as if nodes had used them."""
    for directory in directories:
        directory.mkdir(parents=True)
        (directory / META_PROPERTIES).touch()


def log_dirs(of: NodeLayout, node_id: int, base: Path) -> list[str]:
    return [str(Path(path).relative_to(base)) for path in of.log_dirs(of.config(node_id))]


def test_a_node_has_its_data_in_the_data_directory(tmp_path: Path) -> None:
    several = layout(tmp_path, nodes=3)
    assert several.to_start() == [1, 2, 3]
    assert log_dirs(several, 2, tmp_path) == ["data/node-2"]
    assert layout(tmp_path).to_start() == [1]


def test_log_directories_that_are_named_are_those_of_the_only_node(tmp_path: Path) -> None:
    alone = layout(tmp_path, log_dirs=f"{tmp_path}/a, {tmp_path}/b", log_dir="unused")
    assert alone.to_start() == [1]
    assert log_dirs(alone, 1, tmp_path) == ["a", "b"]


@pytest.mark.parametrize("name", ["log_dirs", "log_dir"])
def test_several_nodes_have_a_directory_of_their_own_in_each_that_is_named(tmp_path: Path, name: str) -> None:
    several = layout(tmp_path, nodes=3, **{name: f"{tmp_path}/a,{tmp_path}/b"})
    assert log_dirs(several, 1, tmp_path) == ["a/node-1", "b/node-1"]
    assert log_dirs(several, 3, tmp_path) == ["a/node-3", "b/node-3"]
    assert several.config(3).log_directories == (f"{tmp_path}/a/node-3", f"{tmp_path}/b/node-3")


def test_what_several_nodes_have_used_is_found_again_without_their_number(tmp_path: Path) -> None:
    used(*(tmp_path / disk / f"node-{node}" for disk in "ab" for node in (1, 2)), tmp_path / "b" / "node-4")
    (tmp_path / "a" / "node-7").mkdir()  # A directory of a topic `node`, or of anything else.
    again = layout(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    assert again.present() == again.to_start() == [1, 2, 4]
    assert log_dirs(again, 4, tmp_path) == ["a/node-4", "b/node-4"]
    assert layout(tmp_path, nodes=1, log_dirs=f"{tmp_path}/a").to_start() == [1]


def test_a_log_directory_is_no_data_directory(tmp_path: Path) -> None:
    used(tmp_path / "data")
    with pytest.raises(UsageError, match="is the log directory of a node") as caught:
        layout(tmp_path)
    assert caught.value.hint == f"serve it with `--override log.dirs={tmp_path}/data`"
    served = layout(tmp_path, log_dirs=f"{tmp_path}/data")
    assert log_dirs(served, 1, tmp_path) == ["data"]


def test_a_repaired_copy_of_a_log_directory_is_no_data_directory_either(tmp_path: Path) -> None:
    (tmp_path / "data" / "__cluster_metadata-0").mkdir(parents=True)
    with pytest.raises(UsageError, match="is the log directory of a node") as caught:
        layout(tmp_path)
    assert caught.value.hint == f"serve it with `--override log.dirs={tmp_path}/data`"
    used(tmp_path / "data" / "node-1")  # It has been served, though perhaps not as it was meant.
    assert layout(tmp_path).to_start() == [1]


def test_the_data_directory_may_get_a_second_one_beside_it(tmp_path: Path) -> None:
    used(tmp_path / "data" / "node-1", tmp_path / "data" / "node-2")
    more = layout(tmp_path, log_dirs=f"{tmp_path}/data,{tmp_path}/more")
    assert more.to_start() == [1, 2]
    assert log_dirs(more, 2, tmp_path) == ["data/node-2", "more/node-2"]


def test_the_directory_of_a_single_node_is_not_shared(tmp_path: Path) -> None:
    used(tmp_path / "a")
    with pytest.raises(UsageError, match="is the log directory of a single node"):
        layout(tmp_path, nodes=2, log_dirs=f"{tmp_path}/a")
    assert log_dirs(layout(tmp_path, log_dirs=f"{tmp_path}/a"), 1, tmp_path) == ["a"]


def test_nodes_that_were_added_come_up_beside_a_first_one_elsewhere(tmp_path: Path) -> None:
    used(tmp_path / "data" / "node-2", tmp_path / "a")
    mixed = layout(tmp_path, log_dirs=f"{tmp_path}/a")
    assert mixed.to_start() == [1, 2]
    assert log_dirs(mixed, 1, tmp_path) == ["a"]
    assert log_dirs(mixed, 2, tmp_path) == ["data/node-2"]


@pytest.mark.parametrize("name", ["node_id", "broker_id"])
def test_the_number_of_a_node_is_refused_for_several_unless_it_is_the_first_s(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match=f"`{name.replace('_', '.')}` is for one node, `--nodes` is 2"):
        layout(tmp_path, nodes=2, **{name: "7"})
    several = layout(tmp_path, nodes=2, **{name: "1"})
    assert [several.config(node).node_id for node in several.to_start()] == [1, 2]


LISTENERS = "PLAINTEXT://localhost:9092,OUTSIDE://:19092,ANY://[::1]:0"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,ANY:PLAINTEXT"


def test_every_node_has_the_listeners_on_ports_of_its_own(tmp_path: Path) -> None:
    several = layout(
        tmp_path,
        nodes=3,
        listeners=LISTENERS,
        advertised_listeners="OUTSIDE://kafka.example:443, PLAINTEXT://inside:9092",
        listener_security_protocol_map=PROTOCOLS,
    )
    assert several.to_start() == [1, 2, 3]
    configs = [several.config(node) for node in (1, 2, 3)]
    check_ports(configs)
    assert [[str(each) for each in config.listener_configs] for config in configs] == [
        ["PLAINTEXT://localhost:9092", "OUTSIDE://:19092", "ANY://[::1]:0"],
        ["PLAINTEXT://localhost:9093", "OUTSIDE://:19093", "ANY://[::1]:0"],
        ["PLAINTEXT://localhost:9094", "OUTSIDE://:19094", "ANY://[::1]:0"],
    ]
    assert [[str(each) for each in config.advertised_listener_configs] for config in configs] == [
        ["PLAINTEXT://inside:9092", "OUTSIDE://kafka.example:443"],
        ["PLAINTEXT://inside:9093", "OUTSIDE://kafka.example:444"],
        ["PLAINTEXT://inside:9094", "OUTSIDE://kafka.example:445"],
    ]


def test_a_node_that_is_added_has_the_listeners_of_the_first(tmp_path: Path) -> None:
    used(tmp_path / "data" / "node-2")
    later = layout(tmp_path, listeners="PLAINTEXT://:9092")
    assert later.to_start() == [2]
    assert [str(each) for each in later.config(2).listener_configs] == ["PLAINTEXT://:9093"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"listeners": "PLAINTEXT://a:9092,OUTSIDE://a:9093"},
            "port 9093 would be that of `OUTSIDE` on node 1, and of `PLAINTEXT` on node 2",
        ),
        (
            {"listeners": "PLAINTEXT://a:9094,OUTSIDE://:9092"},
            "port 9094 would be that of `PLAINTEXT` on node 1, and of `OUTSIDE` on node 3",
        ),
        (
            {
                "listeners": "PLAINTEXT://a:0,OUTSIDE://a:0",
                "advertised_listeners": "PLAINTEXT://b:9092,OUTSIDE://b:9093",
            },
            "clients would be told `b:9093` for node 1, and for node 2",
        ),
        ({"listeners": "PLAINTEXT://a:65534"}, "no port 65536 for a node: the first one has 65534"),
    ],
)
def test_two_nodes_do_not_get_one_port(tmp_path: Path, properties: dict[str, str], message: str) -> None:
    several = layout(tmp_path, nodes=3, listener_security_protocol_map=PROTOCOLS, **properties)
    with pytest.raises(UsageError) as caught:
        check_ports([several.config(node) for node in several.to_start()])
    assert caught.value.message == message
    assert caught.value.hint is not None


def test_the_same_port_of_other_addresses_is_another_port(tmp_path: Path) -> None:
    several = layout(
        tmp_path,
        nodes=2,
        listeners="PLAINTEXT://127.0.0.1:9092,OUTSIDE://127.0.0.2:9093",
        listener_security_protocol_map=PROTOCOLS,
    )
    check_ports([several.config(1), several.config(2)])


@pytest.mark.parametrize("name", ["node_id", "broker_id"])
@pytest.mark.parametrize("nodes", [None, 1])
def test_a_number_adds_no_node_to_a_directory_of_others(nodes: int | None, name: str, tmp_path: Path) -> None:
    used(tmp_path / "data" / "node-1")
    with pytest.raises(UsageError) as caught:
        layout(tmp_path, nodes=nodes, **{name: "7"}).to_start()
    assert caught.value.message == f"`{tmp_path}/data` holds node 1, not 7"
    assert (
        caught.value.hint
        == "without `node.id` those start, and `kcli broker node add` adds one to a running broker"
    )
    used(tmp_path / "data" / "node-3")
    with pytest.raises(UsageError, match="holds nodes 1 and 3, not 7"):
        layout(tmp_path, nodes=nodes, **{name: "7"}).to_start()


def test_a_number_is_that_of_a_node_which_is_there_or_of_the_first_one(tmp_path: Path) -> None:
    assert layout(tmp_path, node_id="7").to_start() == [7]
    used(tmp_path / "data" / "node-1")
    assert layout(tmp_path, node_id="1").to_start() == [1]
    (tmp_path / "data" / "node-7").mkdir()  # Topics to adopt, or what is left of a node.
    assert layout(tmp_path, node_id="7").to_start() == [1, 7]
    assert layout(tmp_path, node_id="8", log_dirs=f"{tmp_path}/a").to_start() == [1, 8]
