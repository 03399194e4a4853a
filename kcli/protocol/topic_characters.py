"""The characters of topic names, and sets of them as bits: bit i stands for `ALPHABET[i]`.

Expressions are matched against topic names only, and these have 65 different characters, all ASCII and none
of them a line break. So every class of characters, however large, comes down to one of 2^65 sets, and much
that distinguishes one dialect of regular expressions from another cannot make a difference.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHABET = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

INDEX = {character: index for index, character in enumerate(ALPHABET)}

ALL = (1 << len(ALPHABET)) - 1

# What else is the same letter where case does not matter (Unicode's simple folding).
_UNUSUAL_CASES = {"k": "\u212a", "s": "\u017f"}


def where(holds: Callable[[str], bool], *, fold_case: bool = False) -> int:
    """Return the characters for which something holds, or with `fold_case` holds in either case."""

    def fits(character: str) -> bool:
        if not fold_case:
            return holds(character)
        lower = character.lower()
        return any(holds(each) for each in {lower, character.upper(), _UNUSUAL_CASES.get(lower, lower)})

    return sum(1 << index for index, character in enumerate(ALPHABET) if fits(character))


_EXACT = {character: 1 << index for index, character in enumerate(ALPHABET)}
_FOLDED: dict[str, int] = {}
for _each, _bit in _EXACT.items():
    for _case in {_each.lower(), _each.upper(), _UNUSUAL_CASES.get(_each.lower(), _each)}:
        _FOLDED[_case] = _FOLDED.get(_case, 0) | _bit


def single(character: str, *, fold_case: bool = False) -> int:
    """Return the set of one character, with `fold_case` in either case; empty if topic names lack it."""
    return (_FOLDED if fold_case else _EXACT).get(character, 0)


def between(low: str, high: str, *, fold_case: bool = False) -> int:
    """Return the set of the characters from one to another, with `fold_case` in either case."""
    bits = 0
    for character, each in (_FOLDED if fold_case else _EXACT).items():
        if low <= character <= high:
            bits |= each
    return bits


@lru_cache(maxsize=1024)
def either_case(bits: int) -> int:
    """Return a set with both cases of every letter in it."""
    return where(lambda each: each in INDEX and bool(bits >> INDEX[each] & 1), fold_case=True)


def among(characters: str) -> int:
    """Return a set of the given characters, as far as topic names have them."""
    return sum(1 << INDEX[character] for character in set(characters) if character in INDEX)


_DIGITS = among("0123456789")
WORD = where(lambda character: character.isalnum() or character == "_")

PERL_CLASSES = {"d": _DIGITS, "s": 0, "w": WORD}
"""The classes written as a backslash and a letter; the capital letter is all but them."""

POSIX_CLASSES = {
    "alnum": where(str.isalnum),
    "alpha": where(str.isalpha),
    "ascii": ALL,
    "blank": 0,
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": ALL,
    "lower": where(str.islower),
    "print": ALL,
    "punct": among("-._"),
    "space": 0,
    "upper": where(str.isupper),
    "word": WORD,
    "xdigit": among("0123456789abcdefABCDEF"),
}
"""The classes written `[:name:]`, inside a class."""

_CATEGORIES = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)

_SCRIPTS = (
    "Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali "
    "Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma "
    "Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Duployan "
    "Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han "
    "Hangul Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi "
    "Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao "
    "Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Malayalam Mandaic Manichaean Marchen "
    "Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani "
    "Myanmar Nabataean New_Tai_Lue Newa Nko Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian "
    "Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage Osmanya Pahawh_Hmong Palmyrene "
    "Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian "
    "Siddham SignWriting Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le "
    "Tai_Tham Tai_Viet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai "
    "Warang_Citi Yi"
)


def _in_category(name: str) -> int:
    return where(lambda each: unicodedata.category(each).startswith(name))


UNICODE_CLASSES = {
    "Any": ALL,
    **{name: _in_category(name) for name in _CATEGORIES.split()},
    **dict.fromkeys(_SCRIPTS.split(), 0),
    "Latin": where(str.isalpha),
    "Common": where(lambda character: not character.isalpha()),
}
"""The classes written `\\p{name}`: general categories and scripts."""
