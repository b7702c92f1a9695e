"""The settings of a connection: what clients may SET, within which bounds, and what they are told of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpquery.errors import QueryError
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.kernel.loss import parse_amount
from dpquery.result.simultaneous import read_confidence

MOST_SETTINGS = 200
LONGEST_VALUE = 1_000
VERSION = "15.0"
VERSION_NUMBER = "150000"

REPORTED = {
    name.lower(): name
    for name in (
        *("application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby"),
        *("integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "server_version"),
        *("session_authorization", "standard_conforming_strings", "TimeZone"),
    )
}
"""Settings of which clients are told each change, with the spelling that drivers look for."""

DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_messages": "C",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "role": "none",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": VERSION_NUMBER,
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
_FIXED = {
    *("in_hot_standby", "integer_datetimes", "is_superuser", "lc_collate", "lc_ctype", "max_identifier_length"),
    *("max_index_keys", "server_encoding", "server_version", "server_version_num", "session_authorization"),
}
_ONLY: dict[str, tuple[str, ...]] = {
    "client_encoding": ("utf8", "unicode"),
    "standard_conforming_strings": ("on", "true", "1", "yes"),
    "bytea_output": ("hex",),
    "intervalstyle": ("postgres",),
    "dpquery.row_level": ("error", "empty", "synopsis"),
    "dpquery.intervals": ("on", "off", "true", "false", "1", "0", "yes", "no"),
}
AMOUNTS = ("dpquery.epsilon", "dpquery.delta", "dpquery.rho")
CONFIDENCE = "dpquery.confidence"
OWN = (*AMOUNTS, "dpquery.max_groups", "dpquery.max_rows", "dpquery.row_level", "dpquery.intervals", CONFIDENCE)
_NAME = re.compile(r"[a-z_][a-z0-9_$]*(\.[a-z_][a-z0-9_$]*){0,2}")
_DURATION = re.compile(r"([0-9]{1,9})\s*(us|ms|s|min|h|d|)")
_UNITS = {"us": 0.001, "ms": 1.0, "": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}

AT_START = {
    *("application_name", "client_encoding", "datestyle", "extra_float_digits", "intervalstyle", "timezone"),
    *("search_path", "statement_timeout", "client_min_messages", "bytea_output", "standard_conforming_strings"),
    *("default_transaction_read_only", "default_transaction_isolation", "geqo", "lc_messages"),
    *("idle_in_transaction_session_timeout", "lock_timeout", "jit", "enable_seqscan", "lc_monetary"),
    *("enable_nestloop", *OWN),
}
"""What the parameters of a startup packet may set."""


@dataclass(slots=True)
class Settings:
    """The settings of one connection.

    Attributes:
        caps: The most that may be set of what dpquery.epsilon and the like name, in the owner's words.
    """

    caps: Mapping[str, str]
    start: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    values: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    _local: dict[str, str | None] = field(default_factory=dict)
    _saved: list[tuple[str, dict[str, str], dict[str, str | None]]] = field(default_factory=list)

    def begin(self, name: str = "") -> None:
        """Remembers all values, for a rollback to here."""
        self._saved.append((name, dict(self.values), dict(self._local)))

    def roll_back(self, name: str = "") -> None:
        """Goes back to what `begin` remembered under this name."""
        while self._saved:
            found, values, local = self._saved[-1]
            if found == name:
                self.values, self._local = {**values, "role": self.values["role"]}, dict(local)
                break
            self._saved.pop()
        if not name:
            self._saved, self._local = [], {}

    def release(self, name: str) -> None:
        """Forgets what was remembered under a name, and since."""
        while self._saved and self._saved.pop()[0] != name:
            pass

    def commit(self) -> None:
        """Ends what is local to a transaction."""
        for name, before in self._local.items():
            if before is None:
                self.values.pop(name, None)
            else:
                self.values[name] = before
        self._saved, self._local = [], {}

    def set(self, name: str, value: str | None, *, is_local: bool = False) -> str:
        """Gives a setting a value, or its default, and returns the value.

        Raises:
            Refusal: There is no such setting, or the value is none for it.
        """
        if not _NAME.fullmatch(name) or len(name) > 63:
            raise Refusal("42704", "unrecognized configuration parameter")
        given = self.start.get(name) if value is None else _checked(name, value, self.caps)
        if given is not None and name not in self.values and len(self.values) >= MOST_SETTINGS:
            raise Refusal("54000", "too many settings")
        if is_local:
            self._local.setdefault(name, self.values.get(name))
        if given is None:
            self.values.pop(name, None)
            return ""
        self.values[name] = given
        return given

    def reset_all(self) -> None:
        """Gives all settings the values of the connection's beginning, but not who asks."""
        self.values = {**self.start, "role": self.values["role"]}

    def show(self, name: str) -> str:
        """Returns a setting's value; raises Refusal for an unknown one."""
        if name == "transaction_isolation" and name not in self._local:
            return self.values["default_transaction_isolation"]
        if name not in self.values:
            if name.startswith("dpquery.") and name in OWN:
                return ""
            raise Refusal("42704", f'unrecognized configuration parameter "{name[:60]}"')
        return self.values[name]

    @property
    def has_intervals(self) -> bool:
        """Whether answers have columns with the ends of intervals."""
        return self.values.get("dpquery.intervals") == "on"

    @property
    def statement_timeout(self) -> float:
        """Seconds that a statement may take, 0 for what the server allows."""
        return milliseconds(self.values["statement_timeout"]) / 1000


def milliseconds(value: str) -> float:
    """Returns a duration such as `500`, `2s` or `1min`; raises Refusal for other text."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise Refusal("22023", "a time is written as 500, 500ms, 2s or 1min")
    return int(match[1]) * _UNITS[match[2]]


def _checked(name: str, value: str, caps: Mapping[str, str]) -> str:
    if len(value) > LONGEST_VALUE:
        raise Refusal("22023", "the value of a setting is too long")
    if name in _FIXED:
        raise Refusal("55P02", f'parameter "{name}" cannot be changed')
    plain = value.lower()
    if name == "client_encoding":  # PostgreSQL reads 'utf-8' with its quotes, too
        plain = "".join(letter for letter in plain if letter.isascii() and letter.isalnum())
    if name in _ONLY and plain not in _ONLY[name]:
        raise Refusal("22023", f'invalid value for parameter "{name}": it is {" or ".join(_ONLY[name])} here')
    if name.startswith("dpquery."):
        return _own(name, value, caps)
    known = _KNOWN.get(name)
    return value if known is None else known(value)


def _own(name: str, value: str, caps: Mapping[str, str]) -> str:
    if name in AMOUNTS:
        try:
            amount = parse_amount(value, name=name)
        except QueryError as error:
            raise Refusal("22023", f'invalid value for parameter "{name}": {error.reason}') from None
        if name in caps and amount > parse_amount(caps[name], name=name):
            raise Refusal("42501", f"{name} may be at most {caps[name]} here", hint="The owner has set this limit.")
    elif name in ("dpquery.max_groups", "dpquery.max_rows"):
        if not value.isascii() or not value.isdecimal() or not 1 <= int(value[:10]) <= 1_000_000_000:
            raise Refusal("22023", f'invalid value for parameter "{name}": a whole number from 1')
    elif name == CONFIDENCE:
        _confidence(value)
    elif name == "dpquery.intervals":
        return "on" if switch(value) else "off"
    elif name != "dpquery.row_level":
        raise Refusal("42704", f'unrecognized configuration parameter "{name[:60]}"')
    return value.lower()


def _confidence(value: str) -> None:
    try:
        read_confidence(value)
    except QueryError as error:
        raise Refusal("22023", f'invalid value for parameter "{CONFIDENCE}": {error.reason}') from None


def switch(value: str) -> bool:
    """Returns what a switch says."""
    return value.strip().lower() in ("on", "true", "1", "yes")


def _datestyle(value: str) -> str:
    words = [word.strip().lower() for word in value.split(",")]
    orders = {"mdy": "MDY", "dmy": "DMY", "ymd": "YMD", "us": "MDY", "european": "DMY", "euro": "DMY"}
    if any(word != "iso" and word not in orders for word in words):
        raise Refusal("22023", 'invalid value for parameter "DateStyle": it is ISO here')
    return "ISO, " + next((orders[word] for word in words if word in orders), "MDY")


def _timeout(value: str) -> str:
    milliseconds(value)
    return value


_KNOWN: dict[str, Callable[[str], str]] = {
    "client_encoding": lambda value: "UTF8",
    "standard_conforming_strings": lambda value: "on",
    "datestyle": _datestyle,
    "statement_timeout": _timeout,
}


def startup_settings(parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns what a startup packet sets, with what `options` says, without user and database.

    Raises:
        Refusal: It sets what it may not.
    """
    given: dict[str, str] = {}
    for name, value in parameters.items():
        if name in ("user", "database") or name.startswith("_pq_."):
            continue
        if name == "options":
            given |= _options(value)
        elif name == "replication" and value.lower() in ("false", "off", "no", "0"):
            continue
        else:
            given[name.lower()] = value
    if unknown := sorted(given.keys() - AT_START - {"dpquery.login"}):
        raise Refusal("42704", f'parameter "{unknown[0][:60]}" cannot be set at the start of a connection')
    return given


def _options(text: str) -> dict[str, str]:
    """Reads `-c name=value --name=value`, with backslashes before spaces that belong to a value."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    given: dict[str, str] = {}
    place = 0
    while place < len(words):
        word = words[place]
        if word == "-c" and place + 1 < len(words):
            place += 1
            pair = words[place]
        elif word.startswith(("-c", "--")):
            pair = word[2:]
        else:
            raise Refusal("42601", "the connection's options are written -c name=value")
        name, equals, value = pair.partition("=")
        if not equals:
            raise Refusal("42601", "the connection's options are written -c name=value")
        given[name.lower().replace("-", "_")] = value
        place += 1
    return given
