"""`kcli acls explain`: why a principal may or may not do something, and what would change that."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.acls.options import Resources, app, check_operation, principal_of
from kcli.commands.acls.options import operation as operation_named
from kcli.commands.acls.results import entry_json, entry_text, resource_text
from kcli.commands.shared.options import ClusterAddress, OutputFormat
from kcli.commands.shared.output import note, print_result
from kcli.commands.shared.runner import command
from kcli.errors import ChecksFailed, UsageError, nearest_hint
from kcli.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    AclFilter,
    PatternType,
    PermissionType,
    ResourceType,
    spelled,
)
from kcli.security.acl_rules import AclRules, Question, Step
from kcli.security.explanation import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kcli.client.client import Client
    from kcli.security.api_access import Need

SUPER_USERS, ALLOW_EVERYONE = "super.users", "allow.everyone.if.no.acl.found"
RESOURCE_OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}

PrincipalOption = Annotated[str, typer.Option("--principal", metavar="PRINCIPAL", help="Who asks")]
OperationOption = Annotated[
    str | None, typer.Option("--operation", metavar="OPERATION", help="What for, such as Read")
]
ApiOption = Annotated[
    str | None, typer.Option("--api", metavar="API", help="All that a request needs, such as Fetch")
]
HostOption = Annotated[str, typer.Option("--host", metavar="HOST", help="From which IP address")]


def command_line(entry: AclEntry, verb: str) -> str:
    """Return the `kcli acls` line that adds or removes an entry."""
    kind = "allow" if entry.permission is PermissionType.ALLOW else "deny"
    words = ["kcli", "acls", verb, f"--{kind}-principal", entry.principal]
    if entry.host != WILDCARD:
        words += [f"--{kind}-host", entry.host]
    words += ["--operation", spelled(entry.operation)]
    if entry.resource_type is ResourceType.CLUSTER:
        words.append("--cluster")
    else:
        words += [RESOURCE_OPTIONS[entry.resource_type], entry.resource_name]
    if entry.pattern_type is PatternType.PREFIXED:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


class Explained(NamedTuple):
    """The result of `acls explain`: one explanation for each permission that is needed."""

    explanations: Sequence[Explanation]

    @property
    def is_allowed(self) -> bool:
        return all(each.decision.is_allowed for each in self.explanations)

    def lines(self) -> Iterator[str]:
        for each in self.explanations:
            question = each.question
            verdict = "allowed" if each.decision.is_allowed else "denied"
            yield (
                f"{verdict}: {question.principal} from {question.host}: {spelled(question.operation)} on "
                f"{spelled(question.resource_type)} {question.resource_name}"
            )
            yield f"  because {each.reason}"
            if each.decision.entry is not None:
                yield f"    {_told(each.decision.entry)}"
            if each.matching:
                yield "  entries that match, too:"
                yield from (f"    {_told(entry)}" for entry in each.matching)
            if each.near_misses:
                yield "  entries that almost allow it:"
                yield from (f"    {_told(entry)}: another {field}" for entry, field in each.near_misses)
            if not each.decision.is_allowed:
                yield "  what would allow it:"
                yield from (f"    {line}" for line in remedy(each))

    def document(self) -> object:
        return {
            "allowed": self.is_allowed,
            "permissions": [
                {
                    "allowed": each.decision.is_allowed,
                    "principal": each.question.principal,
                    "host": each.question.host,
                    "operation": each.question.operation.name,
                    "resource_type": each.question.resource_type.name,
                    "resource_name": each.question.resource_name,
                    "reason": each.reason,
                    "entry": None if each.decision.entry is None else entry_json(each.decision.entry),
                    "matching": [entry_json(entry) for entry in each.matching],
                    "near_misses": [
                        {"entry": entry_json(entry), "field": field} for entry, field in each.near_misses
                    ],
                    "remedy": list(remedy(each)),
                }
                for each in self.explanations
            ],
        }


def remedy(explanation: Explanation) -> Iterator[str]:
    """Yield the command lines after which something would be allowed."""
    yield from (command_line(entry, "remove") for entry in explanation.remove)
    if explanation.add is not None:
        yield command_line(explanation.add, "add")


def _told(entry: AclEntry) -> str:
    return f"{entry_text(entry)} on {resource_text(entry[:3])}"


@command(app, "explain", example="kcli acls explain --principal User:alice --operation Read --topic orders")
async def explain_acls(
    principal: PrincipalOption,
    operation: OperationOption = None,
    api: ApiOption = None,
    host: HostOption = "127.0.0.1",
    output: OutputFormat | None = None,
    *,
    resources: Resources,
    cluster: ClusterAddress,
) -> Explained | None:
    """Explain why a principal may or may not do something, and which entry would change that.

    Shows what decides, other entries that match, entries that almost allow it, and the command that would.
    With --api all permissions that a request needs are examined. The exit code is 3 if something is denied.
    """
    questions = list(asked(principal_of(principal), host, operation, api, resources))
    async with cluster.connect() as client:
        rules, unseen = await rules_for(client, questions)
    if rules is None:
        note("allowed: the cluster has no authorizer, so everybody may do everything")
        return None
    result = Explained([Explanation.of(rules, question) for question in questions])
    note_assumptions(result.explanations, unseen)
    if result.is_allowed:
        return result
    print_result(result, output)
    raise typer.Exit(ChecksFailed.exit_code)


def asked(
    principal: str, host: str, named: str | None, api: str | None, resources: Resources
) -> Iterator[Question]:
    """Yield what is asked: one operation on each resource, or all that an API needs."""
    if (named is None) == (api is None):
        raise UsageError("either `--operation` or `--api` is needed")
    if named is not None:
        wanted = operation_named(named)
        for type, name in resources.some():
            check_operation(type, wanted)
            yield Question(principal, host, wanted, type, name)
        return
    assert api is not None
    by_type: dict[ResourceType, list[str]] = {ResourceType.CLUSTER: [CLUSTER_NAME]}
    for type, name in resources.named():
        by_type.setdefault(type, []).append(name)
    for need in _needs(api):
        type = need.permission.type
        if type not in by_type and not need.is_optional:
            raise UsageError(f"{api} needs `{RESOURCE_OPTIONS[type]}`")
        if need.is_optional and type is ResourceType.CLUSTER and not resources.cluster_resource:
            continue
        for name in by_type.get(type, ()):
            yield Question(principal, host, need.permission.operation, type, name)


def _needs(api: str) -> tuple[Need, ...]:
    from kcli.security.api_access import API_ACCESS

    names = {name.lower(): name for name in API_ACCESS}
    if api.lower() not in names:
        raise UsageError(f"unknown API {api}", hint=nearest_hint(api, names.values()))
    needs = API_ACCESS[names[api.lower()]]
    if not needs:
        raise UsageError(f"everybody may use {api}")
    return needs


async def rules_for(client: Client, questions: Iterable[Question]) -> tuple[AclRules | None, list[str]]:
    """Return the entries of the types in some questions with the settings, None without an authorizer.

    The settings that no broker shows are assumed to have their defaults, and named.
    """
    from kcli.client import admin
    from kcli.protocol.error_codes import ErrorCode, KafkaError

    entries: set[AclEntry] = set()
    try:
        for type in {question.resource_type for question in questions}:
            entries.update(await admin.describe_acls(client, AclFilter(type)))
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return None, []
        raise
    node = (await admin.describe_cluster(client)).nodes[0]
    resource = admin.ConfigResource(admin.ConfigResourceType.BROKER, str(node.node_id))
    found = (await admin.describe_configs(client, [resource]))[resource]
    values = {} if isinstance(found, Exception) else {entry.name: entry.value for entry in found}
    users = (values.get(SUPER_USERS) or "").split(";")
    rules = AclRules(
        entries,
        super_users=frozenset(text for each in users if (text := each.strip())),
        allow_if_no_entry=values.get(ALLOW_EVERYONE) == "true",
    )
    return rules, [name for name in (SUPER_USERS, ALLOW_EVERYONE) if values.get(name) is None]


def note_assumptions(explanations: Iterable[Explanation], unseen: Sequence[str]) -> None:
    """Note the settings that could turn a verdict and that no broker shows."""
    steps = {each.decision.step for each in explanations if not each.decision.is_allowed}
    if steps and SUPER_USERS in unseen:
        note(f"the broker does not show `{SUPER_USERS}`: assumed to be empty")
    if Step.NO_ENTRY in steps and ALLOW_EVERYONE in unseen:
        note(f"the broker does not show `{ALLOW_EVERYONE}`: assumed to be false")
