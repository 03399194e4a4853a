"""Java writes distinguished names, and Apache Kafka maps them: kcli's are the same."""

from __future__ import annotations

import random
import subprocess
from base64 import b64decode, b64encode

import pytest

from kcli.errors import UsageError
from kcli.security.certificates.der import only
from kcli.security.certificates.distinguished_name import name_text
from kcli.security.principal_rules import PrincipalRules
from tests.security.test_principal_rules import INVALID, MAPPED, SPLIT, VALID
from tests.support.apache_kafka import java_command
from tests.support.toolchain import java_classes

pytestmark = pytest.mark.interop

REFUSED = "<refused>"


def asked(requests: list[tuple[str | bytes, ...]]) -> list[str | None]:
    """Return Java's answers: a text, None if no rule matches, or REFUSED."""
    lines = [
        " ".join(
            [kind, *(b64encode(each if isinstance(each, bytes) else each.encode()).decode() for each in rest)]
        )
        for kind, *rest in requests
        if isinstance(kind, str)
    ]
    classes = java_classes("clients-4.3", "NameOracle")
    command = java_command("clients-4.3", "NameOracle", "-Xmx96m", classes=classes)
    output = subprocess.run(
        command, input="\n".join(lines), capture_output=True, check=True, text=True, timeout=120
    ).stdout.splitlines()
    assert len(output) == len(requests)
    return [
        b64decode(line[3:]).decode() if line.startswith("is ") else {"none": None, "invalid": REFUSED}[line]
        for line in output
    ]


def names(count: int) -> list[bytes]:
    """Return names of all types of strings, in DER."""
    from cryptography import x509
    from cryptography.x509.name import _ASN1Type

    chance = random.Random(43)
    kinds = [
        *("2.5.4.3", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11"),
        *("0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1"),
        *("1.2.840.113549.1.9.1", "2.5.4.5", "2.999.16384"),
    ]
    wide = [_ASN1Type.UTF8String, _ASN1Type.BMPString, _ASN1Type.UniversalString]
    narrow = [_ASN1Type.PrintableString, _ASN1Type.IA5String, _ASN1Type.T61String, _ASN1Type.NumericString]

    def attribute() -> x509.NameAttribute[str]:
        kind = chance.choice(narrow + wide)
        letters = 'aZ09 ,=+<>#;"\\\r\n\0' + ("é日𝄞" if kind is _ASN1Type.UTF8String else "")
        text = "".join(chance.choices(letters, k=chance.randint(1, 7)))
        return x509.NameAttribute(
            x509.ObjectIdentifier(chance.choice(kinds)), text, _type=kind, _validate=False
        )

    def part() -> x509.RelativeDistinguishedName:
        return x509.RelativeDistinguishedName({attribute() for _ in range(chance.choice((1, 1, 1, 2)))})

    return [x509.Name([part() for _ in range(chance.randint(0, 4))]).public_bytes() for _ in range(count)]


def test_names_are_written_as_java_writes_them() -> None:
    encoded = names(400)
    told = asked([("name", each) for each in encoded])
    compared = [(java, name_text(only(each))) for each, java in zip(encoded, told, strict=True)]
    assert REFUSED not in told
    assert [pair for pair in compared if pair[0] != pair[1]] == []


def test_rules_are_taken_and_refused_as_by_apache_kafka() -> None:
    texts = [*VALID, *INVALID, *(text for text, _count in SPLIT)]

    def own(text: str) -> bool:
        try:
            return bool(PrincipalRules.parse(text)) or True
        except UsageError:
            return False

    # A name that nothing matches: Kafka looks at replacements only where a rule does.
    told = asked([("rules", text, "\n") for text in texts])
    differing = {text for text, answer in zip(texts, told, strict=True) if (answer != REFUSED) != own(text)}
    assert differing == {"RULE:a/$x/", "RULE:a/$1/", "RULE:(a)/$2$3/"}


def test_rules_name_the_users_that_apache_kafka_names() -> None:
    told = asked([("rules", rules, subject) for rules, subject, _name in MAPPED])
    assert told == [name for _rules, _subject, name in MAPPED]


# Without `\b`: names with other letters than ASCII's are kept from it.
PATTERNS = (
    *(
        "^",
        "CN=",
        "CN=",
        "(.*?)",
        "([^,]+)",
        ".*",
        "$",
        ",O=",
        r"\w+",
        "(a|b)",
        "?",
        "+",
        "(?i)",
        "[A-Z]*",
        r"\\,",
    ),
    *(
        r"\.",
        "(x)?",
        ",",
        "|",
        "{2}",
        r"\d",
        r"\s",
        "(?:a)",
        "(?=C)",
        "[^a-c]",
        "[]a]",
        "é",
        "(a(b)?)",
        r"\1",
    ),
)
REPLACEMENTS = ("$1", "$2", "$12", "$0", r"\$", "x", "@", r"\/", "$3", " ", "-")
SUBJECTS = (
    "CN=alice",
    "CN=alice,O=kcli",
    "CN=ab,O=a",
    "CN=a\\, b,O=x",
    "O=kcli,CN=Bob",
    "CN=é",
    "",
    "CN=aab,O=b.c",
)


def test_random_rules_name_the_users_that_apache_kafka_names() -> None:
    chance = random.Random(43)
    requests = []
    for _number in range(3000):
        pattern = "".join(chance.choices(PATTERNS, k=chance.randint(1, 6)))
        replacement = "".join(chance.choices(REPLACEMENTS, k=chance.randint(0, 3)))
        rule = f"RULE:{pattern}/{replacement}/{chance.choice(('', '', 'L', 'U'))}"
        requests.append(("rules", rule, chance.choice(SUBJECTS)))

    def own(rule: str, subject: str) -> str | None:
        try:
            return PrincipalRules.parse(rule).name_of(subject)
        except UsageError:
            return REFUSED

    told = [
        (own(rule, subject), java) for (_, rule, subject), java in zip(requests, asked(requests), strict=True)
    ]
    # kcli refuses at the start what Kafka fails at later, or what Python reads otherwise.
    assert [each for each in told if each[0] not in (each[1], REFUSED)] == []
    assert sum(own == java for own, java in told) > 1500
    assert sum(own == java is not None for own, java in told) > 200
