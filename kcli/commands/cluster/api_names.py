"""The client-facing APIs of Apache Kafka 4.3.1: their keys and the versions its own client speaks.

`kcli cluster api-versions` prints with it what `kafka-broker-api-versions` prints: a name for every API,
also for those that kcli itself never sends, and the newest version that a current client would use.
"""

from __future__ import annotations

from kcli.protocol.apis import api_name

CLIENT_APIS = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    71: (0, 0),
    72: (0, 0),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
    80: (0, 1),
    81: (0, 0),
    83: (0, 0),
    84: (0, 0),
    85: (0, 1),
    86: (0, 0),
    87: (0, 1),
    88: (0, 0),
    89: (0, 0),
    90: (0, 1),
    91: (0, 0),
    92: (0, 0),
}
"""API key to lowest and highest stable version."""


def version_text(api_key: int, low: int, high: int) -> str:
    """Return one advertised range, as `Fetch(1): 4 to 18 [usable: 18]`."""
    versions = f"{low}" if low == high else f"{low} to {high}"
    if api_key not in CLIENT_APIS:
        return f"UNKNOWN({api_key}): {versions}"
    oldest, newest = CLIENT_APIS[api_key]
    if newest < low:
        verdict = "unusable: node too new"
    elif high < oldest:
        verdict = "unusable: node too old"
    else:
        verdict = f"usable: {min(newest, high)}"
    return f"{api_name(api_key)}({api_key}): {versions} [{verdict}]"


def unsupported_text(api_key: int) -> str:
    """Return the text of an API that a broker does not advertise."""
    return f"{api_name(api_key)}({api_key}): UNSUPPORTED"
