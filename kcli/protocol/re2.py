r"""Parses regular expressions in the syntax of RE2, the one of subscriptions in KIP-848.

    .  [abc]  [^a-z]  [[:alpha:]]  \d \w \s  \pL \p{Greek}      one character
    xy  x|y  (x)  (?:x)  (?P<name>x)  (?<name>x)  (?i)  (?im-sU:x)   together
    x*  x+  x?  x{2}  x{2,}  x{2,5}, each may have a ? behind it      repeated, up to 1000 times
    ^  $  \A  \z  \b  \B                                            places
    \.  \n  \x7F  \x{10FFFF}  \123  \Q...\E                        literally

RE2 has no look-around and no back-references, because these cannot be matched in linear time: they are errors
here as well (library RE2/J, which Kafka uses). A parsed expression keeps nothing of its captures.

Expressions are matched against names of topics and transactional ids. A set of characters is 96 bits: bit i
for `ALPHABET[i]`, the printable ASCII characters, and `OTHER` for all others. No expression can name one of
those, but `.` and complements match them. Most differences between dialects of regular expressions do not
matter then.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable


class Position(Enum):
    """A condition on a place in the text."""

    BEGIN = "begin"
    END = "end"
    WORD_BOUNDARY = "word boundary"
    NO_WORD_BOUNDARY = "no word boundary"


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set."""

    bits: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other; without parts it matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part repeated `least` to `most` times, or any number of times if `most` is None."""

    part: Node
    least: int
    most: int | None


Node = Characters | Position | Sequence | Choice | Repeat


ALPHABET = "".join(map(chr, range(32, 127)))

INDEX = {character: index for index, character in enumerate(ALPHABET)}

_ASCII = (1 << len(ALPHABET)) - 1
OTHER = 1 << len(ALPHABET)
"""The characters that are not in `ALPHABET`."""

ALL = _ASCII | OTHER

# Further characters that fold to the same letter (Unicode's simple case folding).
_UNUSUAL_CASES = {"k": "\u212a", "s": "\u017f"}


def characters_that(holds: Callable[[str], bool], *, fold_case: bool = False) -> int:
    """Return the characters for which `holds` is true, with `fold_case` in either case."""

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
    """Return the set of one character, with `fold_case` in either case; empty outside of `ALPHABET`."""
    return (_FOLDED if fold_case else _EXACT).get(character, 0)


def character_range(low: str, high: str, *, fold_case: bool = False) -> int:
    """Return the set of the characters from one to another, with `fold_case` in either case."""
    bits = 0
    for character, each in (_FOLDED if fold_case else _EXACT).items():
        if low <= character <= high:
            bits |= each
    return bits


@lru_cache(maxsize=1024)
def either_case(bits: int) -> int:
    """Return a set with both cases of every letter in it."""
    return characters_that(lambda each: each in INDEX and bool(bits >> INDEX[each] & 1), fold_case=True)


def characters_of(characters: str) -> int:
    """Return the set of the given characters; those outside of `ALPHABET` are left out."""
    return sum(1 << INDEX[character] for character in set(characters) if character in INDEX)


_DIGITS = characters_of("0123456789")
WORD = characters_that(lambda character: character.isalnum() or character == "_")

_SPACE = characters_of(" ")
_PUNCTUATION = _ASCII & ~(_SPACE | characters_that(str.isalnum))

PERL_CLASSES = {"d": _DIGITS, "s": _SPACE, "w": WORD}
"""The classes written as a backslash and a letter; the capital letter is the complement."""

POSIX_CLASSES = {
    "alnum": characters_that(str.isalnum),
    "alpha": characters_that(str.isalpha),
    "ascii": _ASCII,
    "blank": _SPACE,
    "cntrl": 0,
    "digit": _DIGITS,
    "graph": _ASCII & ~_SPACE,
    "lower": characters_that(str.islower),
    "print": _ASCII,
    "punct": _PUNCTUATION,
    "space": _SPACE,
    "upper": characters_that(str.isupper),
    "word": WORD,
    "xdigit": characters_of("0123456789abcdefABCDEF"),
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
    return characters_that(lambda each: unicodedata.category(each).startswith(name))


UNICODE_CLASSES = {
    "Any": ALL,
    **{name: _in_category(name) for name in _CATEGORIES.split()},
    **dict.fromkeys(_SCRIPTS.split(), 0),
    "Latin": characters_that(str.isalpha),
    "Common": characters_that(lambda character: not character.isalpha()),
}
"""The classes written `\\p{name}`: general categories and scripts."""


MOST_REPEATS = 1000
DEEPEST_NESTING = 200

_COUNTS = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_NAME = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PLACES = {
    "A": Position.BEGIN,
    "z": Position.END,
    "b": Position.WORD_BOUNDARY,
    "B": Position.NO_WORD_BOUNDARY,
}


class InvalidExpression(KcliError):
    """An expression that RE2 refuses. `description` is the reason in RE2/J's words, `piece` the place."""

    def __init__(self, description: str, piece: str = "") -> None:
        super().__init__(f"{description}: `{piece}`" if piece else description)
        self.description = description
        self.piece = piece


def parse(text: str) -> Node:
    """Return a parsed expression; raise `InvalidExpression`."""
    return _Parser(text).whole()


@dataclass(slots=True)
class _Group:
    """A group being parsed: its finished options, the parts of the current one, and its flags."""

    options: list[Node]
    parts: list[Node]
    fold_case: bool
    after_repeat: bool = False

    def node(self) -> Node:
        last = _sequence(self.parts)
        return Choice((*self.options, last)) if self.options else last


def _sequence(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._stack = [_Group([], [], fold_case=False)]
        self._names: set[str] = set()

    def whole(self) -> Node:
        while self._at < len(self._text):
            was_repeat, self._group.after_repeat = self._group.after_repeat, False
            self._next(was_repeat)
        if len(self._stack) > 1:
            raise InvalidExpression("missing closing )")
        return self._group.node()

    @property
    def _group(self) -> _Group:
        return self._stack[-1]

    def _next(self, was_repeat: bool) -> None:
        match self._text[self._at]:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._at += 1
                self._group.options.append(_sequence(self._group.parts))
                self._group.parts = []
            case "*" | "+" | "?" | "{":
                self._repeat(was_repeat)
            case "[":
                self._add(Characters(self._class()))
            case "\\":
                self._backslash()
            case "^" | "$" as place:
                self._at += 1
                self._add(Position.BEGIN if place == "^" else Position.END)
            case ".":
                self._at += 1
                self._add(Characters(ALL))
            case character:
                self._at += 1
                self._literal(character)

    def _add(self, node: Node) -> None:
        self._group.parts.append(node)

    def _literal(self, character: str) -> None:
        self._add(Characters(single(character, fold_case=self._group.fold_case)))

    def _open(self) -> None:
        fold_case = self._group.fold_case
        if self._text.startswith("(?", self._at):
            if (name := _NAME.match(self._text, self._at)) is not None:
                self._name(name[1])
                self._at = name.end()
            elif (flags := _FLAGS.match(self._text, self._at)) is not None:
                self._at = flags.end()
                fold_case = (fold_case or "i" in flags[1]) and "i" not in (flags[2] or "")
                if flags[3] == ")":
                    self._group.fold_case = fold_case
                    return
            else:
                piece = self._text[self._at : self._at + 4]
                raise InvalidExpression("invalid or unsupported Perl syntax", piece)
        else:
            self._at += 1
        if len(self._stack) > DEEPEST_NESTING:
            raise InvalidExpression("nested too deeply")
        self._stack.append(_Group([], [], fold_case))

    def _name(self, name: str) -> None:
        if not re.fullmatch("[0-9A-Za-z_]+", name):
            raise InvalidExpression("invalid named capture", name)
        if name in self._names:
            raise InvalidExpression("duplicate capture group name", name)
        self._names.add(name)

    def _close(self) -> None:
        if len(self._stack) == 1:
            raise InvalidExpression("unexpected )")
        self._at += 1
        self._add(self._stack.pop().node())

    def _repeat(self, was_repeat: bool) -> None:
        start = self._at
        if self._text[start] == "{":
            counts = _COUNTS.match(self._text, start)
            if counts is None:
                self._at += 1
                self._literal("{")
                self._group.after_repeat = True  # RE2/J does the same for a `{` that repeats nothing
                return
            least = int(counts[1])
            most = least if counts[2] is None else None if counts[3] is None else int(counts[3])
            self._at = counts.end()
            if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
                raise InvalidExpression("invalid repeat count", counts[0])
        else:
            least = int(self._text[start] == "+")
            most = 1 if self._text[start] == "?" else None
            self._at += 1
        self._at += self._text.startswith("?", self._at)
        if was_repeat:
            raise InvalidExpression("invalid nested repetition operator", self._text[start : self._at])
        if not self._group.parts:
            raise InvalidExpression("missing argument to repetition operator", self._text[start])
        self._group.parts[-1] = Repeat(self._group.parts[-1], least, most)
        self._group.after_repeat = True

    def _backslash(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _PLACES and letter:
            self._at += 2
            self._add(_PLACES[letter])
        elif letter == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition("\\E")
            self._at = min(self._at + 4 + len(quoted), len(self._text))
            for character in quoted:
                self._literal(character)
        elif (bits := self._named_class()) is not None:
            self._add(Characters(bits))
        else:
            self._literal(self._escape())

    def _named_class(self) -> int | None:
        """Read a class like \\d or \\pL, if one is at this position."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter in "dswDSW":
            self._at += 2
            bits = PERL_CLASSES[letter.lower()]
            return bits if letter.islower() else ALL & ~bits
        if letter and letter in "pP":
            return self._unicode_class(negated=letter == "P")
        return None

    def _unicode_class(self, *, negated: bool) -> int:
        start = self._at
        name = self._text[start + 2 : start + 3]
        self._at = start + 3
        if name == "{":
            name, closed, _ = self._text[start + 3 :].partition("}")
            self._at = start + 4 + len(name)
            if not closed:
                raise InvalidExpression("invalid character class range", self._text[start:])
        if name.startswith("^"):
            negated = not negated
            name = name[1:]
        bits = UNICODE_CLASSES.get(name)
        if bits is None:
            raise InvalidExpression("invalid character class range", self._text[start : self._at])
        if self._group.fold_case:
            bits = either_case(bits)
        return ALL & ~bits if negated else bits

    def _escape(self) -> str:
        """Read an escaped character."""
        start = self._at
        text = self._text[start + 1 : start + 2]
        self._at = start + 2
        if not text:
            raise InvalidExpression("trailing backslash at end of expression")
        if text in _CONTROLS:
            return chr(_CONTROLS[text])
        if text == "x":
            return self._hexadecimal(start)
        digits = re.compile("0[0-7]{0,2}|[1-7][0-7]{1,2}").match(self._text, start + 1)
        if digits is not None:
            self._at = digits.end()
            return chr(int(digits[0], 8))
        if not (text.isascii() and text.isalnum()):
            return text
        raise InvalidExpression("invalid escape sequence", self._text[start : self._at])

    def _hexadecimal(self, start: int) -> str:
        digits = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self._text, start + 2)
        code = int(digits[1] or digits[2], 16) if digits is not None else -1
        if digits is None or code > 0x10FFFF:
            raise InvalidExpression("invalid escape sequence", self._text[start : start + 4])
        self._at = digits.end()
        return chr(code)

    def _class(self) -> int:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        bits = 0
        first = True
        while first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise InvalidExpression("missing closing ]", self._text[start:])
            bits |= self._class_item()
            first = False
        self._at += 1
        return ALL & ~bits if negated else bits

    def _class_item(self) -> int:
        if self._text.startswith("[:", self._at) and ":]" in self._text[self._at + 2 :]:
            return self._posix_class()
        if self._text.startswith("\\", self._at) and (bits := self._named_class()) is not None:
            return bits
        start = self._at
        low = high = self._class_character()
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            if self._at + 1 < len(self._text):
                self._at += 1
                high = self._class_character()
            if high < low:
                raise InvalidExpression("invalid character class range", self._text[start : self._at])
        if low == high:
            return single(low, fold_case=self._group.fold_case)
        return character_range(low, high, fold_case=self._group.fold_case)

    def _class_character(self) -> str:
        if self._at >= len(self._text):
            raise InvalidExpression("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escape()
        self._at += 1
        return self._text[self._at - 1]

    def _posix_class(self) -> int:
        start = self._at
        end = self._text.index(":]", start + 2) + 2
        name = self._text[start + 2 : end - 2]
        self._at = end
        bits = POSIX_CLASSES.get(name.removeprefix("^"))
        if bits is None:
            raise InvalidExpression("invalid character class range", self._text[start:end])
        if self._group.fold_case:
            bits = either_case(bits)
        return ALL & ~bits if name.startswith("^") else bits
