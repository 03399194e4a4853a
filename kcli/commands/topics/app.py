"""`kcli topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.shared.arguments import LARGEST_INT32, not_empty, parse_configs, signed_number
from kcli.commands.shared.confirmation import Confirmation
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.options import (
    ClusterAddress,
    OutputFormat,
    TopicOption,
    TopicsArgument,
    complete_config,
    complete_topic,
    one_topic_or_none,
)
from kcli.commands.shared.output import chosen_format
from kcli.commands.shared.runner import command
from kcli.commands.topics.results import (
    AlteredTopics,
    Created,
    CreatedTopic,
    Deleted,
    ReportOptions,
    TopicNames,
    TopicReport,
    created_topic,
    tell_matches,
)
from kcli.errors import KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.client import Client


def parse_replica_assignment(text: str) -> list[list[int]]:
    """Return the broker ids of each partition from `1:2,2:3`."""
    assignments: list[list[int]] = []
    for index, entry in enumerate(text.split(",")):
        brokers = [broker_id(word, text) for word in entry.split(":")]
        if len(set(brokers)) != len(brokers):
            raise UsageError(f"partition {index} names a broker twice: {entry}")
        if assignments and len(brokers) != len(assignments[0]):
            raise UsageError(f"the replication factor of partition {index} differs from partition 0: {entry}")
        assignments.append(brokers)
    return assignments


def broker_id(word: str, text: str) -> int:
    """Return one broker id of the replica assignment `text`; the cluster checks whether it exists."""
    broker = signed_number(word.strip())
    if broker is None:
        raise UsageError(f"`--replica-assignment` needs broker ids like 1:2,2:3: {text}")
    if abs(broker) > LARGEST_INT32:
        raise UsageError(f"a broker id in `--replica-assignment` is too large: {word}")
    return broker


app = typer.Typer(
    name="topics",
    help="Create, list, describe, alter and delete topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

LARGEST_REPLICATION_FACTOR = 32_767

ExcludeInternal = Annotated[bool, typer.Option("--exclude-internal", help="Leave out internal topics")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if the topic does not exist")]
MeantTopics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC...",
        help="The topics. What can be no name, such as `test-.*`, is a regular expression that matches whole "
        "names; `test.` can be a name, and is an expression with `--regex`",
        autocompletion=complete_topic,
    ),
]
ReplicaAssignment = Annotated[
    str | None,
    typer.Option(
        metavar="IDS",
        help="Brokers of each partition, preferred leader first: 1:2,2:3 is two partitions of two replicas",
    ),
]


@command(
    app,
    "create",
    needs="topics",
    example="kcli topics create orders --partitions 6 --config retention.ms=86400000",
)
async def create(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC...", help="The names of the new topics")
    ] = None,
    topic_option: TopicOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=LARGEST_INT32,
            metavar="N",
            help="Number of partitions: the cluster's default if not given",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=LARGEST_REPLICATION_FACTOR,
            metavar="N",
            help="Replicas of each partition: the cluster's default if not given",
        ),
    ] = None,
    replica_assignment: ReplicaAssignment = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="NAME=VALUE",
            autocompletion=complete_config,
            help="A topic configuration (repeatable); durations and sizes may have units: retention.ms=7d, "
            "segment.bytes=64MiB",
        ),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists")
    ] = False,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Accepted: the broker places replicas")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Create without warnings; create internal topics too")
    ] = False,
    *,
    cluster: ClusterAddress,
) -> Created:
    """Create topics: each name is a topic with these settings."""
    from kcli.client import admin
    from kcli.commands.configs.names import warn_of_no_effect
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure, hint_of
    from kcli.commands.shared.topic_filter import COLLISION_WARNING, has_collision_characters
    from kcli.commands.topics.names import refusal_hint, refuse_new
    from kcli.protocol.error_codes import ErrorCode

    names = new_names(topics, topic_option)
    if replica_assignment and (partitions is not None or replication_factor is not None):
        raise UsageError("`--replica-assignment` excludes `--partitions` and `--replication-factor`")
    assignments = parse_replica_assignment(replica_assignment) if replica_assignment else None
    settings = parse_configs(config, "--config")
    new_topics = {
        name: admin.NewTopic(
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            None if assignments is None else dict(enumerate(assignments)),
            settings,
        )
        for name in names
    }
    created: list[CreatedTopic] = []
    failures: list[KcliError] = []
    async with cluster.connect() as client:
        if not force:
            for name in names:
                await refuse_new(client, name)
            if any(map(has_collision_characters, names)):
                note(COLLISION_WARNING)
        for name, result in (await admin.create_topics(client, new_topics.values())).items():
            if isinstance(result, admin.TopicCreated):
                created.append(created_topic(result))
                if settings and len(created) == 1:
                    resource = admin.ConfigResource(admin.ConfigResourceType.TOPIC, name)
                    await warn_of_no_effect(client, resource, settings)
            elif not if_not_exists or result.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                hint = await refusal_hint(client, new_topics[name], result)
                if result.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    failures.append(KcliError(f"topic `{name}` already exists", hint=hint_of(result)))
                else:
                    failures.append(failure(f"cannot create topic `{name}`", result, hint=hint))
    if failures and len(names) == 1:
        raise failures[0]
    return Created(created, failures)


def new_names(arguments: Sequence[str] | None, option: str | None) -> list[str]:
    """Return the names given as arguments or with Kafka's `--topic`, each once."""
    if arguments and option is not None:
        raise UsageError("`TOPIC` and `--topic` exclude each other")
    names = list(arguments or ()) if option is None else [option]
    if not names:
        raise MissingArgument("TOPIC...")
    return [not_empty(name, "topic") for name in dict.fromkeys(names)]


@command(app, "list", example="kcli topics list 'orders.*' --exclude-internal")
async def list_topics(
    topic: TopicsArgument = None,
    topic_option: TopicOption = None,
    exclude_internal: ExcludeInternal = False,
    *,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
) -> TopicNames:
    """List topics: all, or those that a regular expression matches; as a table with sizes and replicas."""
    from kcli.client import admin
    from kcli.commands.shared.topic_filter import select_topics
    from kcli.commands.topics.results import listed_topics

    pattern = one_topic_or_none(topic, topic_option)
    async with cluster.connect() as client:
        listings = await admin.list_topics(client)
        names = select_topics(
            (listing.name for listing in listings), pattern, exclude_internal=exclude_internal
        )
        is_table = chosen_format(output) is OutputFormat.TABLE
        return TopicNames(names, await listed_topics(client, listings, names) if is_table else ())


@command(app, "describe", example="kcli topics describe orders")
async def describe(
    topic: TopicsArgument = None,
    topic_option: TopicOption = None,
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Describe the topic with this id")
    ] = None,
    *,
    report: ReportOptions,
    exclude_internal: ExcludeInternal = False,
    if_exists: IfExists = False,
    partition_size_limit_per_response: Annotated[
        int, typer.Option(min=1, help="The largest number of partitions in a broker's answer", hidden=True)
    ] = 2000,
    cluster: ClusterAddress,
) -> TopicReport:
    """Show the partitions, leaders, replicas and in-sync replicas of the named topics, or of all."""
    from kcli.commands.shared.topic_filter import plain_names
    from kcli.commands.topics.names import parse_topic_id, topics_with_id
    from kcli.commands.topics.results import report_topics

    pattern = one_topic_or_none(topic, topic_option)
    wanted_id = None if topic_id is None else parse_topic_id(topic_id)
    report.check()
    async with cluster.connect() as client:
        if wanted_id is None:
            names = await matching_topics(client, pattern, exclude_internal=exclude_internal)
        else:
            names = await topics_with_id(client, wanted_id)
        if not names and (pattern or topic_id) and not if_exists:
            is_name = pattern is None or plain_names(pattern) == [pattern]
            raise unknown_topic(topic_id or pattern or "") if is_name else nothing_matches(pattern)
        return await report_topics(
            client, names, report, partitions_per_answer=partition_size_limit_per_response
        )


@command(app, "alter", needs="topics", example="kcli topics alter orders --partitions 12")
async def alter(
    topics: MeantTopics = None,
    topic_option: TopicOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, max=LARGEST_INT32, metavar="N", help="The new number of partitions, more than now"
        ),
    ] = None,
    replica_assignment: ReplicaAssignment = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            autocompletion=complete_config,
            help="A topic configuration to set (repeatable)",
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_config,
            help="A topic configuration to return to its default (repeatable)",
        ),
    ] = None,
    if_exists: IfExists = False,
    force: Annotated[
        bool, typer.Option("--force", help="Alter without warnings; add partitions to internal topics too")
    ] = False,
    *,
    confirmation: Confirmation,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
) -> AlteredTopics:
    """Add partitions to topics, or change their configuration."""
    from kcli.commands.shared.output import note
    from kcli.commands.topics.names import ALTER_HINT, guarded

    pattern = meant(topics, topic_option)
    if partitions is None and not config and not delete_config:
        raise UsageError(
            "nothing to alter",
            hint="`--partitions` adds partitions, `--config` and `--delete-config` set configs",
        )
    assignments = parse_replica_assignment(replica_assignment) if replica_assignment else None
    if assignments is not None and len(assignments) != partitions:
        raise UsageError(
            "`--replica-assignment` must list all `--partitions` partitions, the existing ones too"
        )
    settings = parse_configs(config, "--config")
    async with cluster.connect() as client:
        guard = None if force or partitions is None else partial(guarded, done="altered", hint=ALTER_HINT)
        allowed, refused = await meant_topics(
            client, pattern, confirmation, verb="alter", guard=guard, if_exists=if_exists
        )
        if confirmation.dry_run:
            return AlteredTopics(allowed, list(refused.values()), dry_run=True)
        if partitions is not None and allowed:
            if not force:
                note("warning: with more partitions, records with keys go to other partitions than before")
            refused |= await add_partitions(client, allowed, total=partitions, assignments=assignments)
        if (settings or delete_config) and allowed:
            refused |= await alter_configs(client, allowed, settings=settings, deleted=delete_config or ())
    altered = [name for name in allowed if name not in refused]
    tell_matches(altered, pattern, verb="altered", output=output)
    return AlteredTopics(altered, list(refused.values()))


@command(app, "delete", needs="topics", example="kcli topics delete 'test-.*' --dry-run")
async def delete(
    topics: MeantTopics = None,
    topic_option: TopicOption = None,
    if_exists: IfExists = False,
    exclude_internal: ExcludeInternal = False,
    force: Annotated[bool, typer.Option("--force", help="Delete internal topics too")] = False,
    *,
    confirmation: Confirmation,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
) -> Deleted:
    """Delete topics and everything in them."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure
    from kcli.commands.topics.names import DELETE_HINT, guarded

    pattern = meant(topics, topic_option)
    async with cluster.connect() as client:
        allowed, refused = await meant_topics(
            client,
            pattern,
            confirmation,
            verb="delete",
            guard=None if force else partial(guarded, done="deleted", hint=DELETE_HINT),
            if_exists=if_exists,
            exclude_internal=exclude_internal,
        )
        failures = list(refused.values())
        if confirmation.dry_run:
            return Deleted(allowed, failures, dry_run=True)
        results = await admin.delete_topics(client, allowed)
    failures += [
        failure(f"cannot delete topic `{name}`", result)
        for name, result in results.items()
        if result is not None
    ]
    deleted = [name for name, result in results.items() if result is None]
    tell_matches(deleted, pattern, verb="deleted", output=output)
    return Deleted(deleted, failures)


def meant(arguments: Sequence[str] | None, option: str | None) -> str:
    """Return the topics given as arguments or with Kafka's `--topic` as one list with commas."""
    return ",".join(new_names(arguments, option))


def unknown_topic(name: str, *, matched: int = 0) -> KcliError:
    """Return the error for a name that does not exist, and as an expression would match `matched` topics."""
    hint = "`kcli topics list` shows the topics there are"
    if matched > 1:
        hint = f"with `--regex` it is an expression, which matches {counted(matched, 'topic')}"
    return KcliError(f"topic `{name}` does not exist", hint=hint)


def nothing_matches(expression: str | None) -> KcliError:
    return KcliError(f"no topic matches `{expression}`", hint="`kcli topics list` shows the topics there are")


async def meant_topics(
    client: Client,
    wanted: str,
    confirmation: Confirmation,
    *,
    verb: str,
    guard: Callable[[Sequence[str]], dict[str, KcliError]] | None,
    if_exists: bool,
    exclude_internal: bool = False,
) -> tuple[Sequence[str], dict[str, KcliError]]:
    """Return the topics that a command may change, and the errors of those that it may not.

    These do not exist, or are refused by `guard`. What an expression matches otherwise is asked for.
    """
    from kcli.commands.shared.topic_filter import select_topics

    existing = await matching_topics(client, None, exclude_internal=exclude_internal)
    choice = confirmation.choose(existing, wanted)
    refused = (
        {}
        if if_exists
        else {
            name: unknown_topic(name, matched=len(select_topics(existing, name))) for name in choice.missing
        }
    )
    if not choice.names and not if_exists:
        raise next(iter(refused.values()), nothing_matches(wanted))
    if guard is not None:
        refused |= guard(choice.names)
    allowed = [name for name in choice.names if name not in refused]
    if choice.is_expression and not confirmation.dry_run:
        confirmation.confirm(verb, allowed, wanted)
    return allowed, refused


async def matching_topics(
    client: Client, pattern: str | None, *, exclude_internal: bool = False
) -> list[str]:
    from kcli.client import admin
    from kcli.commands.shared.topic_filter import select_topics

    listings = await admin.list_topics(client)
    return select_topics((listing.name for listing in listings), pattern, exclude_internal=exclude_internal)


async def add_partitions(
    client: Client, names: Sequence[str], *, total: int, assignments: list[list[int]] | None
) -> dict[str, KcliError]:
    """Raise partition counts to `total` and return the refusals; `assignments` has the existing ones too."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    listings = {listing.name: listing.partition_count for listing in await admin.list_topics(client)}
    counts = {
        name: admin.NewPartitions(
            total, None if assignments is None else assignments[listings.get(name, 0) :]
        )
        for name in names
    }
    results = await admin.create_partitions(client, counts)
    return {
        name: failure(f"cannot add partitions to topic `{name}`", result)
        for name, result in results.items()
        if result is not None
    }


async def alter_configs(
    client: Client, names: Sequence[str], *, settings: dict[str, str], deleted: Sequence[str]
) -> dict[str, KcliError]:
    """Set and delete configurations of topics; return the refusals."""
    from kcli.client import admin
    from kcli.commands.configs.names import name_hint, refuse_unknown, warn_of_no_effect
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode

    operations = [
        *(admin.ConfigAlteration(name, admin.ConfigOperation.SET, value) for name, value in settings.items()),
        *(admin.ConfigAlteration(name, admin.ConfigOperation.DELETE) for name in deleted),
    ]
    resources = {admin.ConfigResource(admin.ConfigResourceType.TOPIC, name): operations for name in names}
    await refuse_unknown(client, resources, deleted)
    results = await admin.incremental_alter_configs(client, resources)
    hint = await name_hint(client, results, settings, repeated="--config")
    altered = next((resource for resource, result in results.items() if result is None), None)
    if settings and altered is not None:
        await warn_of_no_effect(client, altered, settings)
    return {
        resource.name: failure(
            f"cannot alter the configuration of topic `{resource.name}`",
            result,
            hint=hint if result.code is ErrorCode.INVALID_CONFIG else None,
        )
        for resource, result in results.items()
        if result is not None
    }
