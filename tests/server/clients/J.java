// pgjdbc over the study: one line for each check, "ok NAME" or "FAIL NAME reason"; "charges N" at the end.

import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

public class J {
    interface Check { boolean holds() throws Exception; }

    static int charges = 0;
    static int fresh = 0;

    static void check(String name, Check made) {
        try {
            System.out.println(made.holds() ? "ok " + name : "FAIL " + name + " other result");
        } catch (Throwable error) {
            System.out.println("FAIL " + name + " " + String.valueOf(error).replace('\n', ' '));
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(name));
        rows.close();
        return found;
    }

    static int rows(ResultSet rows) throws SQLException {
        int n = 0;
        while (rows.next()) {
            for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) rows.getObject(i);
            n++;
        }
        rows.close();
        return n;
    }

    // A query that was not asked before: charged once.
    static String bySex() {
        charges++;
        return "SELECT sex, COUNT(*) AS n FROM patients WHERE weight > " + (60 + fresh++ / 1000.0) + " GROUP BY sex ORDER BY sex";
    }

    static String stateOf(Check made) throws Exception {
        try {
            made.holds();
        } catch (SQLException error) {
            return error.getSQLState();
        }
        return "";
    }

    static void each(Connection c, String sql, Object value) throws SQLException {
        try (PreparedStatement p = c.prepareStatement(sql)) {
            for (int i = 0; i < 8; i++) {  // sent as text at first, in binary after five times
                p.setObject(1, value);
                ResultSet rows = p.executeQuery();
                rows.next();
                Object found = rows.getObject(1);
                boolean same = value instanceof BigDecimal ? ((BigDecimal) value).compareTo((BigDecimal) found) == 0
                    : value instanceof UUID ? value.toString().equals(found.toString()) : value.equals(found);
                if (!same) throw new SQLException(value + " came back as " + found);
            }
        }
    }

    static boolean counted(Connection c, String condition, Object value) throws SQLException {
        try (PreparedStatement p = c.prepareStatement("SELECT COUNT(*) AS n FROM patients WHERE " + condition)) {
            charges++;
            long first = -1;
            for (int i = 0; i < 8; i++) {  // one charge: the others are stored answers, whatever the format
                p.setObject(1, value);
                ResultSet rows = p.executeQuery();
                rows.next();
                if (i == 0) first = rows.getLong(1);
                if (rows.getLong(1) != first) return false;
            }
        }
        return true;
    }

    public static void main(String[] args) throws Exception {
        String url = args[0];
        String slow = "SELECT SUM(a.i * b.i) FROM generate_series(1, 100000) a(i), generate_series(1, 100000) b(i)";
        Connection c = DriverManager.getConnection(url);
        DatabaseMetaData m = c.getMetaData();
        List<String> tables = List.of("events", "labs", "patients");
        List<String> columns = List.of("id", "age", "sex", "weight", "height", "bmi", "futime", "died");

        check("product", () -> m.getDatabaseProductName().equals("PostgreSQL") && m.getDatabaseMajorVersion() == 15);
        check("catalogs", () -> column(m.getCatalogs(), "TABLE_CAT").equals(List.of("nafld")));
        check("schemas", () -> column(m.getSchemas(), "TABLE_SCHEM").contains("public"));
        check("tables", () -> column(m.getTables(null, null, "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME").containsAll(tables));
        check("tablesOfSchema", () -> column(m.getTables("nafld", "public", "%", new String[] {"TABLE"}), "TABLE_NAME").equals(tables));
        check("tableTypes", () -> column(m.getTableTypes(), "TABLE_TYPE").contains("TABLE"));
        check("columns", () -> column(m.getColumns(null, "public", "patients", "%"), "COLUMN_NAME").equals(columns));
        check("columnTypes", () -> column(m.getColumns(null, "public", "patients", "%"), "TYPE_NAME")
            .equals(List.of("int8", "int8", "text", "float8", "float8", "float8", "int8", "bool")));
        check("nullable", () -> column(m.getColumns(null, "public", "patients", "%"), "IS_NULLABLE")
            .equals(List.of("NO", "NO", "NO", "YES", "YES", "YES", "NO", "NO")));
        check("remarks", () -> column(m.getColumns(null, "public", "patients", "bmi"), "REMARKS").get(0).contains("Clamped to 12"));
        check("allColumns", () -> rows(m.getColumns(null, null, "%", "%")) > 15);
        check("primaryKeys", () -> rows(m.getPrimaryKeys(null, "public", "patients")) >= 0);
        check("importedKeys", () -> rows(m.getImportedKeys(null, "public", "labs")) >= 0);
        check("exportedKeys", () -> rows(m.getExportedKeys(null, "public", "patients")) >= 0);
        check("crossReference", () -> rows(m.getCrossReference(null, "public", "patients", null, "public", "labs")) >= 0);
        check("indexInfo", () -> rows(m.getIndexInfo(null, "public", "patients", false, true)) >= 0);
        check("bestRow", () -> rows(m.getBestRowIdentifier(null, "public", "patients", DatabaseMetaData.bestRowSession, true)) >= 0);
        check("versionColumns", () -> rows(m.getVersionColumns(null, "public", "patients")) >= 0);
        check("typeInfo", () -> column(m.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int8", "float8", "text", "date", "timestamp", "bool", "numeric")));
        check("functions", () -> rows(m.getFunctions(null, "public", "%")) >= 0);
        check("functionColumns", () -> rows(m.getFunctionColumns(null, "public", "%", "%")) >= 0);
        check("procedures", () -> rows(m.getProcedures(null, "public", "%")) >= 0);
        check("udts", () -> rows(m.getUDTs(null, "public", "%", null)) >= 0);
        check("tablePrivileges", () -> column(m.getTablePrivileges(null, "public", "%"), "PRIVILEGE").stream().allMatch("SELECT"::equals));
        check("columnPrivileges", () -> rows(m.getColumnPrivileges(null, "public", "patients", "%")) >= 0);
        check("keywords", () -> m.getSQLKeywords().length() > 0);
        check("longestName", () -> m.getMaxColumnNameLength() == 63);
        check("clientInfo", () -> rows(m.getClientInfoProperties()) > 0);
        check("isolation", () -> m.getDefaultTransactionIsolation() == Connection.TRANSACTION_READ_COMMITTED);
        check("isValid", () -> c.isValid(5));
        check("schemaAndCatalog", () -> "public".equals(c.getSchema()) && "nafld".equals(c.getCatalog()));

        check("statement", () -> column(c.createStatement().executeQuery(bySex()), "sex").equals(List.of("F", "M")));
        check("storedAnswer", () -> {
            String sql = bySex();
            List<String> first = column(c.createStatement().executeQuery(sql), "n");
            return column(c.createStatement().executeQuery(sql), "n").equals(first);
        });
        check("warnings", () -> {
            Statement s = c.createStatement();
            rows(s.executeQuery(bySex()));
            return s.getWarnings() != null && s.getWarnings().getMessage().contains("charged");
        });
        check("resultMetaData", () -> {
            try (PreparedStatement p = c.prepareStatement("SELECT sex, COUNT(*) AS n, AVG(bmi) AS b FROM patients WHERE weight > 61 GROUP BY sex")) {
                ResultSetMetaData made = p.getMetaData();  // described, not executed: nothing is charged
                return made.getColumnName(2).equals("n") && made.getColumnType(2) == Types.BIGINT && made.getColumnType(3) == Types.DOUBLE;
            }
        });
        check("parameterMetaData", () -> {
            try (PreparedStatement p = c.prepareStatement("SELECT COUNT(*) FROM patients WHERE age > ? AND sex = ? AND bmi < ? AND died = ?")) {
                ParameterMetaData made = p.getParameterMetaData();
                return made.getParameterType(1) == Types.BIGINT && made.getParameterTypeName(2).equals("text")
                    && made.getParameterType(3) == Types.DOUBLE && made.getParameterType(4) == Types.BIT;
            }
        });
        check("countedInt", () -> counted(c, "age > ?", 61));
        check("countedLong", () -> counted(c, "age > ?", 62L));
        check("countedString", () -> counted(c, "sex = ?", "F"));
        check("countedDouble", () -> counted(c, "bmi > ?", 26.125));
        check("countedDecimal", () -> counted(c, "bmi > ?", new BigDecimal("26.25")));
        check("countedBoolean", () -> counted(c, "died = ?", true));
        check("valueInt", () -> { each(c, "SELECT CAST(? AS int4)", 7); return true; });
        check("valueLong", () -> { each(c, "SELECT CAST(? AS int8)", -(1L << 60)); return true; });
        check("valueDouble", () -> { each(c, "SELECT CAST(? AS float8)", 0.1); return true; });
        check("valueDecimal", () -> { each(c, "SELECT CAST(? AS numeric(18,4))", new BigDecimal("-12345.6789")); return true; });
        check("valueWideDecimal", () -> { each(c, "SELECT CAST(? AS numeric)", new BigDecimal("-12345.678901")); return true; });
        check("valueString", () -> { each(c, "SELECT CAST(? AS text)", "it's ü"); return true; });
        check("valueBoolean", () -> { each(c, "SELECT CAST(? AS bool)", true); return true; });
        check("valueDate", () -> { each(c, "SELECT CAST(? AS date)", java.sql.Date.valueOf("2020-02-29")); return true; });
        check("valueTime", () -> { each(c, "SELECT CAST(? AS time)", Time.valueOf("10:20:30")); return true; });
        check("valueTimestamp", () -> { each(c, "SELECT CAST(? AS timestamp)", Timestamp.valueOf("2020-02-29 12:30:00.25")); return true; });
        check("valueUuid", () -> { each(c, "SELECT CAST(? AS uuid)", new UUID(1, 2)); return true; });
        check("bytesRefused", () -> stateOf(() -> { each(c, "SELECT CAST(? AS bytea)", new byte[] {0, -1, 65}); return true; }).startsWith("22"));
        check("bytesRead", () -> {
            ResultSet rows = c.createStatement().executeQuery("SELECT '\\x00ff41'::bytea AS b");
            rows.next();
            return Arrays.equals(rows.getBytes(1), new byte[] {0, -1, 65});
        });
        check("array", () -> {
            ResultSet rows = c.createStatement().executeQuery("SELECT ARRAY[1, 2, 3] AS a");
            rows.next();
            return Array.class.isInstance(rows.getArray(1)) && ((Object[]) rows.getArray(1).getArray()).length == 3;
        });
        check("arrayParameter", () -> {
            try (PreparedStatement p = c.prepareStatement("SELECT COUNT(*) FROM patients WHERE age = ANY(?)")) {
                charges++;
                p.setArray(1, c.createArrayOf("int8", new Object[] {63L, 64L}));
                return rows(p.executeQuery()) == 1;
            }
        });

        check("fetchSize", () -> {
            c.setAutoCommit(false);
            Statement s = c.createStatement();
            s.setFetchSize(1);  // a portal that is fetched in parts is one charge
            boolean same = column(s.executeQuery(bySex()), "sex").equals(List.of("F", "M"));
            s.setFetchSize(50);
            same &= rows(s.executeQuery("SELECT i FROM generate_series(1, 777) g(i)")) == 777;
            c.commit();
            c.setAutoCommit(true);
            return same;
        });
        check("scroll", () -> {
            Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY);
            ResultSet rows = s.executeQuery(bySex());
            return rows.last() && rows.getRow() == 2 && rows.first() && rows.getString(1).equals("F");
        });
        check("maxRows", () -> {
            Statement s = c.createStatement();
            s.setMaxRows(1);
            return rows(s.executeQuery(bySex())) == 1;
        });
        check("transaction", () -> {
            c.setAutoCommit(false);
            rows(c.createStatement().executeQuery(bySex()));
            Savepoint point = c.setSavepoint("s");
            String state = stateOf(() -> c.createStatement().executeQuery("SELECT nope FROM patients") != null);
            String after = stateOf(() -> c.createStatement().executeQuery("SELECT 1") != null);
            c.rollback(point);
            boolean works = rows(c.createStatement().executeQuery("SELECT 1")) == 1;
            c.rollback();
            c.setAutoCommit(true);
            return state.equals("42703") && after.equals("25P02") && works;
        });
        check("readOnly", () -> {
            c.setReadOnly(true);
            c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            boolean same = c.getTransactionIsolation() == Connection.TRANSACTION_REPEATABLE_READ;
            c.setReadOnly(false);
            return same;
        });
        check("rowsRefused", () -> stateOf(() -> c.createStatement().executeQuery("SELECT * FROM patients") != null).equals("42501"));
        check("updateRefused", () -> stateOf(() -> c.createStatement().executeUpdate("DELETE FROM patients") == 0).equals("42501"));
        check("copyOut", () -> {
            var copy = ((org.postgresql.PGConnection) c).getCopyAPI();
            var text = new java.io.StringWriter();
            copy.copyOut("COPY (" + bySex() + ") TO STDOUT WITH (FORMAT csv, HEADER)", text);
            return text.toString().startsWith("sex,n\nF,");
        });
        check("cancel", () -> {
            Statement s = c.createStatement();
            ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
            timer.schedule(() -> { s.cancel(); return null; }, 500, TimeUnit.MILLISECONDS);
            String state = stateOf(() -> s.executeQuery(slow) != null);
            timer.shutdown();
            return state.equals("57014");
        });
        check("queryTimeout", () -> {
            Statement s = c.createStatement();
            s.setQueryTimeout(1);
            return stateOf(() -> s.executeQuery(slow) != null).equals("57014");
        });
        check("afterCancel", () -> rows(c.createStatement().executeQuery("SELECT 1")) == 1);
        check("simpleProtocol", () -> {
            try (Connection simple = DriverManager.getConnection(url + "&preferQueryMode=simple")) {
                PreparedStatement p = simple.prepareStatement("SELECT COUNT(*) FROM patients WHERE age > ?");
                p.setInt(1, 67);
                charges++;
                return rows(p.executeQuery()) == 1;
            }
        });
        check("manyConnections", () -> {
            ExecutorService pool = Executors.newFixedThreadPool(20);
            List<Future<Integer>> made = new ArrayList<>();
            String sql = bySex();
            for (int i = 0; i < 20; i++)
                made.add(pool.submit(() -> {
                    try (Connection other = DriverManager.getConnection(url)) {
                        return rows(other.createStatement().executeQuery(sql));
                    }
                }));
            boolean same = true;
            for (Future<Integer> one : made) same &= one.get() == 2;
            pool.shutdown();
            return same;
        });
        c.close();
        System.out.println("charges " + charges);
    }
}
