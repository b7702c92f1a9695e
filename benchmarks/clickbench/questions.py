"""43 questions about page views: each asks what the one of the same number in ClickBench asks, in words of our own."""

from __future__ import annotations

ONE_SITE = "CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'"
"""Conditions of a report about one site."""


def _largest(keys: str, more: str = "", *, where: str = "", count: str = "COUNT(*)", having: str = "") -> str:
    """Returns the ten largest groups."""
    kept = f" WHERE {where}" if where else ""
    only = f" HAVING {having}" if having else ""
    return f"SELECT {keys}, {count} AS c{more} FROM hits{kept} GROUP BY {keys}{only} ORDER BY c DESC LIMIT 10"


QUESTIONS = (
    "SELECT COUNT(*) AS c FROM hits",
    "SELECT COUNT(*) AS c FROM hits WHERE AdvEngineID <> 0",
    "SELECT SUM(AdvEngineID) AS s, COUNT(*) AS c, AVG(ResolutionWidth) AS a FROM hits",
    "SELECT AVG(UserID) AS a FROM hits",
    "SELECT COUNT(DISTINCT UserID) AS u FROM hits",
    "SELECT COUNT(DISTINCT SearchPhrase) AS p FROM hits",
    "SELECT MIN(EventDate) AS first, MAX(EventDate) AS last FROM hits",
    "SELECT AdvEngineID, COUNT(*) AS c FROM hits WHERE AdvEngineID <> 0 GROUP BY AdvEngineID ORDER BY c DESC",
    _largest("RegionID", count="COUNT(DISTINCT UserID)"),
    _largest("RegionID", ", SUM(AdvEngineID) AS s, AVG(ResolutionWidth) AS a, COUNT(DISTINCT UserID) AS u"),
    _largest("MobilePhoneModel", where="MobilePhoneModel <> ''", count="COUNT(DISTINCT UserID)"),
    _largest("MobilePhone, MobilePhoneModel", where="MobilePhoneModel <> ''", count="COUNT(DISTINCT UserID)"),
    _largest("SearchPhrase", where="SearchPhrase <> ''"),
    _largest("SearchPhrase", where="SearchPhrase <> ''", count="COUNT(DISTINCT UserID)"),
    _largest("SearchEngineID, SearchPhrase", where="SearchPhrase <> ''"),
    _largest("UserID"),
    _largest("UserID, SearchPhrase"),
    "SELECT UserID, SearchPhrase, COUNT(*) AS c FROM hits GROUP BY UserID, SearchPhrase LIMIT 10",
    "SELECT UserID, extract(minute FROM EventTime) AS m, SearchPhrase, COUNT(*) AS c FROM hits "
    "GROUP BY UserID, m, SearchPhrase ORDER BY c DESC LIMIT 10",
    "SELECT UserID FROM hits WHERE UserID = 1000003",
    "SELECT COUNT(*) AS c FROM hits WHERE URL LIKE '%site1%'",
    _largest("SearchPhrase", ", MIN(URL) AS u", where="URL LIKE '%site1%' AND SearchPhrase <> ''"),
    _largest(
        "SearchPhrase",
        ", MIN(URL) AS u, MIN(Title) AS t, COUNT(DISTINCT UserID) AS d",
        where="Title LIKE '%Title 1%' AND URL NOT LIKE '%.site1.%' AND SearchPhrase <> ''",
    ),
    "SELECT * FROM hits WHERE URL LIKE '%site1%' ORDER BY EventTime LIMIT 10",
    "SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY EventTime LIMIT 10",
    "SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY SearchPhrase LIMIT 10",
    "SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY EventTime, SearchPhrase LIMIT 10",
    "SELECT CounterID, AVG(length(URL)) AS l, COUNT(*) AS c FROM hits WHERE URL <> '' "
    "GROUP BY CounterID HAVING COUNT(*) > 1000 ORDER BY l DESC LIMIT 25",
    "SELECT regexp_replace(Referer, '^https?://(www\\.)?([^/]+)/.*$', '\\2') AS k, AVG(length(Referer)) AS l, "
    "COUNT(*) AS c, MIN(Referer) AS m FROM hits WHERE Referer <> '' GROUP BY k HAVING COUNT(*) > 1000 "
    "ORDER BY l DESC LIMIT 25",
    f"SELECT {', '.join(f'SUM(ResolutionWidth + {i}) AS s{i}' for i in range(90))} FROM hits",
    _largest(
        "SearchEngineID, ClientIP", ", SUM(IsRefresh) AS r, AVG(ResolutionWidth) AS a", where="SearchPhrase <> ''"
    ),
    _largest("WatchID, ClientIP", ", SUM(IsRefresh) AS r, AVG(ResolutionWidth) AS a", where="SearchPhrase <> ''"),
    _largest("WatchID, ClientIP", ", SUM(IsRefresh) AS r, AVG(ResolutionWidth) AS a"),
    _largest("URL"),
    "SELECT 1 AS one, URL, COUNT(*) AS c FROM hits GROUP BY one, URL ORDER BY c DESC LIMIT 10",
    "SELECT ClientIP, ClientIP - 1 AS a, ClientIP - 2 AS b, ClientIP - 3 AS d, COUNT(*) AS c FROM hits "
    "GROUP BY ClientIP, a, b, d ORDER BY c DESC LIMIT 10",
    _largest("URL", where=f"{ONE_SITE} AND DontCountHits = 0 AND IsRefresh = 0 AND URL <> ''"),
    _largest("Title", where=f"{ONE_SITE} AND DontCountHits = 0 AND IsRefresh = 0 AND Title <> ''"),
    _largest("URL", where=f"{ONE_SITE} AND IsRefresh = 0 AND IsLink <> 0 AND IsDownload = 0"),
    "SELECT TraficSourceID, SearchEngineID, AdvEngineID, CASE WHEN SearchEngineID = 0 AND AdvEngineID = 0 "
    "THEN Referer ELSE '' END AS source, URL, COUNT(*) AS c FROM hits "
    f"WHERE {ONE_SITE} AND IsRefresh = 0 GROUP BY TraficSourceID, SearchEngineID, AdvEngineID, source, URL "
    "ORDER BY c DESC LIMIT 10 OFFSET 100",
    _largest("URLHash, EventDate", where=f"{ONE_SITE} AND IsRefresh = 0 AND TraficSourceID IN (-1, 6)"),
    _largest("WindowClientWidth, WindowClientHeight", where=f"{ONE_SITE} AND IsRefresh = 0 AND DontCountHits = 0"),
    "SELECT date_trunc('minute', EventTime) AS m, COUNT(*) AS c FROM hits WHERE CounterID = 62 AND EventDate "
    "BETWEEN DATE '2013-07-14' AND DATE '2013-07-15' AND IsRefresh = 0 AND DontCountHits = 0 "
    "GROUP BY m ORDER BY m LIMIT 10 OFFSET 100",
)
