"""Rules from subjects to users: the cases that Apache Kafka tests its own with, and what Python needs."""

from __future__ import annotations

import pytest

from kcli.errors import UsageError
from kcli.security.principal_rules import PrincipalRules

VALID = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
    "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
    "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
]
INVALID = [
    "default",
    "DEFAUL",
    "DEFAULT/L",
    "DEFAULT/U",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
    "RULE:(/x/",
    "RULE:a/$x/",
    "RULE:a/$1/",
    "RULE:(a)/$2$3/",
]
NAMES = ",".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)
MAPPED: list[tuple[str, str, str | None]] = [
    (NAMES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
    (NAMES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
    (NAMES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
    (NAMES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
    (NAMES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
    # No rule, or none that matches: nobody gets in.
    ("", "CN=a", None),
    (", , ,", "CN=a", None),
    ("RULE:CN=b/x/", "CN=a", None),
    ("RULE:CN=/x/", "CN=a", None),
    # Groups: the longest number that is one, `$0` for the whole, text where there is none.
    ("RULE:CN=(a)/$1$0/", "CN=a", "aCN=a"),
    ("RULE:CN=(a)(b)?/$1$2$3/", "CN=a", "a$3"),
    ("RULE:CN=(a)/$12/", "CN=a", "a2"),
    (r"RULE:CN=(a)/\$1\//", "CN=a", "$1/"),
    # A pattern that matches the empty end as well is replaced there, too.
    ("RULE:.*/x/", "CN=a", "xx"),
    ("RULE:^.*$/x/", "CN=a", "x"),
    ("RULE:(.*?)/-/", "CN=a", "-C-N-=-a-"),
    ("RULE:(.*?)|CN=a/-$1/", "CN=a", "-C-N-=-a-"),
    # What is a word, a digit and a small letter is so in ASCII.
    (r"RULE:CN=(\w+)/$1/", "CN=é", None),
    ("RULE:(?i)cn=(é)/$1/", "CN=É", None),
    ("RULE:CN=(.*)/$1/U", "CN=é", "É"),
]
SPLIT = [
    ("", 0),
    ("DEFAULT", 1),
    ("RULE://", 1),
    ("RULE:/.*/", 1),
    ("RULE:/.*/L", 1),
    ("RULE://,DEFAULT", 2),
    ("  RULE:// ,  DEFAULT  ", 2),
    ("  RULE:   /     / ,  DEFAULT  ", 2),
    ("  RULE:  /     /U   ,DEFAULT  ", 2),
    ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ", 3),
    (",   , , ,      , , ,   ", 0),
    (",,RULE://,,,DEFAULT,,", 2),
    (",  , RULE: /   /    ,,,   DEFAULT, ,   ", 2),
    ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", 2),
    (r"RULE:\/\\\(\)\n\t/\/\//", 1),
    (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", 2),
    (
        r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
        5,
    ),
]


@pytest.mark.parametrize("text", VALID)
def test_a_valid_rule_is_taken(text: str) -> None:
    assert PrincipalRules.parse(text).rules


@pytest.mark.parametrize("text", INVALID)
def test_an_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules.parse(text)


@pytest.mark.parametrize(("rules", "subject", "name"), MAPPED)
def test_the_first_rule_that_matches_names_the_user(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalRules.parse(rules).name_of(subject) == name


@pytest.mark.parametrize(("text", "count"), SPLIT)
def test_rules_are_split_at_commas_outside_of_patterns(text: str, count: int) -> None:
    assert len(PrincipalRules.parse(text).rules) == count


@pytest.mark.parametrize(
    "pattern",
    [r"\p{Lu}+", r"\Qa\E", "[a-z&&[^b]]", "[a[bc]]", "(?<name>a)", r"\h", "(?x) a", "(?<=a+)b"],
)
def test_a_pattern_that_python_reads_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="cannot use the pattern"):
        PrincipalRules.parse(f"RULE:{pattern}/x/")


def test_a_name_with_an_end_of_line_matches_no_pattern() -> None:
    rules = PrincipalRules.parse("RULE:CN=(.*)/$1/")
    assert rules.name_of("CN=admin\u2028,O=x") is None
    assert rules.name_of("CN=admin\r,O=x") is None


def test_a_boundary_of_words_matches_only_names_of_ascii() -> None:
    rules = PrincipalRules.parse(r"RULE:CN=(a\b.*)/$1/")
    assert rules.name_of("CN=a b") == "a b"
    assert rules.name_of("CN=aé") is None
