"""One short program for each client: it lists the tables, counts with a parameter, reads the ends of the interval,
and is refused; what it saw goes to its output as one line of JSON."""

from __future__ import annotations

from dataclasses import dataclass

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
COUNT = "SELECT COUNT(*) AS n FROM patients WHERE sex = {} AND weight > {}"
REFUSED = "SELECT * FROM patients"
INTERVALS = "SET dpquery.intervals = on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A client.

    Attributes:
        run: What runs its text; the path of the text is appended.
        suffix: Of that path.
        mark: How a parameter is written.
        text: The program. @TABLES@, @COUNT@, @REFUSED@ and @INTERVALS@ are statements; the environment has HOST, PORT,
            USER_, PASSWORD, DATABASE and URL.
        pip, npm: Packages that it needs, beside those of the distribution.
    """

    run: tuple[str, ...]
    suffix: str
    mark: str
    text: str
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()


NODE_PG = """
const { Client } = require("pg"), e = process.env;
(async () => {
  const c = new Client({ host: e.HOST, port: +e.PORT, user: e.USER_, password: e.PASSWORD, database: e.DATABASE });
  await c.connect();
  const tables = (await c.query("@TABLES@")).rows.map((r) => r.table_name);
  const count = +(await c.query("@COUNT@", ["F"])).rows[0].n;
  await c.query("@INTERVALS@");
  const columns = (await c.query("@COUNT@", ["F"])).fields.map((f) => f.name);
  const refused = await c.query("@REFUSED@").catch((x) => x.code + " " + x.message);
  console.log(JSON.stringify({ tables, count, columns, refused }));
  await c.end();
})();
"""
POSTGRES_JS = """
const postgres = require("postgres"), e = process.env;
(async () => {
  const sql = postgres({ host: e.HOST, port: +e.PORT, user: e.USER_, password: e.PASSWORD, database: e.DATABASE, max: 1,
    onnotice: () => {} });
  const tables = (await sql.unsafe("@TABLES@")).map((r) => r.table_name);
  const count = +(await sql.unsafe("@COUNT@", ["F"]))[0].n;
  await sql.unsafe("@INTERVALS@");
  const columns = (await sql.unsafe("@COUNT@", ["F"])).columns.map((f) => f.name);
  const refused = await sql.unsafe("@REFUSED@").catch((x) => x.code + " " + x.message);
  console.log(JSON.stringify({ tables, count, columns, refused }));
  await sql.end();
})();
"""
DBD_PG = r"""
use strict; use DBI; use JSON::PP;
my $c = DBI->connect("dbi:Pg:host=$ENV{HOST};port=$ENV{PORT};dbname=$ENV{DATABASE}", $ENV{USER_}, $ENV{PASSWORD},
  { RaiseError => 1, PrintError => 0, PrintWarn => 0 });
my @tables = sort map { s/"//gr } map { s/^public\.//r } $c->tables(undef, "public", "%", "TABLE");
my $asked = $c->prepare("@COUNT@"); $asked->execute("F"); my ($count) = $asked->fetchrow_array;
$c->do("@INTERVALS@");
my $again = $c->prepare("@COUNT@"); $again->execute("F"); my @columns = @{$again->{NAME}};
eval { $c->selectall_arrayref("@REFUSED@") };
print encode_json({ tables => \@tables, count => $count + 0, columns => \@columns, refused => $c->state . " " . $@ });
"""
PDO = r"""<?php
$e = getenv();
$c = new PDO("pgsql:host={$e['HOST']};port={$e['PORT']};dbname={$e['DATABASE']}", $e['USER_'], $e['PASSWORD']);
$c->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$tables = $c->query("@TABLES@")->fetchAll(PDO::FETCH_COLUMN);
$ask = function () use ($c) { $s = $c->prepare("@COUNT@"); $s->execute(["F"]); return $s->fetch(PDO::FETCH_ASSOC); };
$count = $ask()["n"];
$c->exec("@INTERVALS@");
$columns = array_keys($ask());
try { $c->query("@REFUSED@"); $refused = ""; } catch (PDOException $x) { $refused = $x->getMessage(); }
echo json_encode(["tables" => $tables, "count" => $count, "columns" => $columns, "refused" => $refused]);
"""
RUBY = r"""
require "pg"; require "json"
e = ENV
c = PG.connect(host: e["HOST"], port: e["PORT"], user: e["USER_"], password: e["PASSWORD"], dbname: e["DATABASE"])
c.set_notice_processor { |said| }
tables = c.exec("@TABLES@").column_values(0)
count = c.exec_params("@COUNT@", ["F"])[0]["n"].to_i
c.exec("@INTERVALS@")
columns = c.exec_params("@COUNT@", ["F"]).fields
begin
  refused = c.exec("@REFUSED@").to_s
rescue PG::Error => x
  refused = x.message
end
puts JSON.generate({ tables: tables, count: count, columns: columns, refused: refused })
"""
R = r"""
library(DBI)
e <- as.list(Sys.getenv())
c <- dbConnect(RPostgreSQL::PostgreSQL(), host = e$HOST, port = as.integer(e$PORT), user = e$USER_,
  password = e$PASSWORD, dbname = e$DATABASE)
tables <- sort(dbListTables(c))
count <- dbGetQuery(c, "@COUNT@", list("F"))$n
dbExecute(c, "@INTERVALS@")
columns <- names(dbGetQuery(c, "@COUNT@", list("F")))
refused <- tryCatch(stop(dbGetQuery(c, "@REFUSED@")), error = conditionMessage, warning = conditionMessage)
if (!grepl("not shown", refused)) refused <- dbGetException(c)$errorMsg
quoted <- function(x) paste0("[", paste0('"', x, '"', collapse = ", "), "]")
cat(sprintf('{"tables": %s, "count": %d, "columns": %s, "refused": %s}\n', quoted(tables), as.integer(count),
  quoted(columns), encodeString(refused, quote = '"')))
"""
POLARS = r"""
import json, os
import polars as pl
url = os.environ["URL"]
tables = pl.read_database_uri("@TABLES@", url, engine="connectorx")["table_name"].to_list()
asked = "@COUNT@".replace("$1", "'F'")
count = pl.read_database_uri(asked, url, engine="connectorx")["n"][0]
assert pl.read_database_uri("@COUNT@", url, engine="adbc", execute_options={"parameters": ["F"]})["n"][0] == count
columns = pl.read_database_uri(asked, url + "?options=-c%20dpquery.intervals%3Don", engine="adbc").columns
try:
    refused = str(pl.read_database_uri("@REFUSED@", url, engine="connectorx"))
except Exception as error:
    refused = str(error)
print(json.dumps({"tables": tables, "count": count, "columns": columns, "refused": refused}))
"""
IBIS = r"""
import json, os
import ibis
connection = ibis.connect(os.environ["URL"])
tables = sorted(connection.list_tables())
patients = connection.table("patients")
weight = float("@COUNT@".rsplit(" ", 1)[1])
chosen = patients.filter(patients.sex == "F", patients.weight > weight)
count = int(chosen.count().execute())
connection.raw_sql("@INTERVALS@")
columns = [column.name for column in connection.raw_sql("@COUNT@".replace("$1", "'F'")).description]
try:
    refused = str(patients.limit(5).execute())
except Exception as error:
    refused = str(error)
print(json.dumps({"tables": tables, "count": count, "columns": columns, "refused": refused}))
"""
LIBREOFFICE = r"""
import atexit, json, os, signal, subprocess, tempfile, time
import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException
from com.sun.star.sdbc import SQLException
e, folder = os.environ, tempfile.mkdtemp()
pipe = "pipe,name=" + os.path.basename(folder)
office = subprocess.Popen(["soffice", f"-env:UserInstallation=file://{folder}", "--headless", "--norestore",
                           f"--accept={pipe};urp;"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True)
atexit.register(os.killpg, office.pid, signal.SIGTERM)
here = uno.getComponentContext()
resolver = here.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", here)
there = None
while there is None and office.poll() is None:
    try:
        there = resolver.resolve(f"uno:{pipe};urp;StarOffice.ComponentContext")
    except NoConnectException:
        time.sleep(0.2)
drivers = there.ServiceManager.createInstanceWithContext("com.sun.star.sdbc.DriverManager", there)
secrets = tuple(PropertyValue(name, 0, value, 0) for name, value in (("user", e["USER_"]), ("password", e["PASSWORD"])))
address = "sdbc:postgresql:host={HOST} port={PORT} dbname={DATABASE}".format_map(e)
c = drivers.getConnectionWithInfo(address, secrets)
listed, tables = c.getMetaData().getTables(None, "public", "%", ("TABLE",)), []
while listed.next():
    tables.append(listed.getString(3))
def ask():
    asked = c.prepareStatement("@COUNT@")
    asked.setString(1, "F")
    return asked.executeQuery()
rows = ask()
rows.next()
count = rows.getInt(1)
c.createStatement().execute("@INTERVALS@")
about = ask().getMetaData()
columns = [about.getColumnName(place + 1) for place in range(about.getColumnCount())]
try:
    refused = str(c.createStatement().executeQuery("@REFUSED@"))
except SQLException as error:
    refused = error.Message
print(json.dumps({"tables": tables, "count": count, "columns": columns, "refused": refused}), flush=True)
c.close()
"""

PYTHON = ("python",)
PROGRAMS = {
    "node pg": Program(run=("node",), suffix=".cjs", mark="$1", text=NODE_PG, npm=("pg",)),
    "postgres.js": Program(run=("node",), suffix=".cjs", mark="$1", text=POSTGRES_JS, npm=("postgres",)),
    "DBD::Pg": Program(run=("perl",), suffix=".pl", mark="?", text=DBD_PG),
    "PDO": Program(run=("php",), suffix=".php", mark="?", text=PDO),
    "ruby-pg": Program(run=("ruby",), suffix=".rb", mark="$1", text=RUBY),
    "RPostgreSQL": Program(run=("Rscript",), suffix=".R", mark="$1", text=R),
    "polars": Program(
        run=PYTHON,
        suffix=".py",
        mark="$1",
        text=POLARS,
        pip=("polars", "pyarrow", "connectorx", "adbc-driver-postgresql", "adbc-driver-manager"),
    ),
    "LibreOffice": Program(run=("/usr/bin/python3",), suffix=".py", mark="?", text=LIBREOFFICE),
    "ibis": Program(run=PYTHON, suffix=".py", mark="$1", text=IBIS, pip=("ibis-framework[postgres]", "packaging")),
}
