-- Trips per day.
SELECT tapped_in::date AS day, COUNT(*) AS trips FROM trips GROUP BY 1 ORDER BY 1;

-- Trips per line and mode.
SELECT l.mode, t.line, COUNT(*) AS trips FROM trips t JOIN lines l ON l.line = t.line GROUP BY l.mode, t.line ORDER BY trips DESC;

-- Trips by hour of the day, weekdays only.
SELECT EXTRACT(HOUR FROM tapped_in) AS hour, COUNT(*) FROM trips WHERE EXTRACT(DOW FROM tapped_in) NOT IN (0, 6) GROUP BY 1 ORDER BY 1;

-- Peak hours' share by line.
SELECT line, AVG(CASE WHEN EXTRACT(HOUR FROM tapped_in) IN (7, 8, 16, 17) THEN 1.0 ELSE 0 END) AS peak FROM trips GROUP BY line;

-- Mean trip duration in minutes by line.
SELECT line, AVG(EXTRACT(EPOCH FROM (tapped_out - tapped_in)) / 60) AS minutes FROM trips WHERE tapped_out IS NOT NULL GROUP BY line;

-- Median duration in minutes.
-- within: 1
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY EXTRACT(EPOCH FROM tapped_out - tapped_in) / 60) FROM trips WHERE tapped_out IS NOT NULL;

-- Origin and destination matrix.
SELECT origin, destination, COUNT(*) AS n FROM trips WHERE destination IS NOT NULL GROUP BY origin, destination ORDER BY n DESC, origin, destination LIMIT 20;

-- Flow between boroughs.
SELECT o.borough AS from_borough, d.borough AS to_borough, COUNT(*) FROM trips t JOIN stations o ON o.station = t.origin JOIN stations d ON d.station = t.destination GROUP BY 1, 2;

-- Busiest stations: entries and exits together.
SELECT station, SUM(n) AS passengers FROM (SELECT origin AS station, COUNT(*) AS n FROM trips GROUP BY origin UNION ALL SELECT destination, COUNT(*) FROM trips WHERE destination IS NOT NULL GROUP BY destination) u GROUP BY station ORDER BY passengers DESC LIMIT 5;

-- Entries and exits with UNION ALL below.
SELECT station, COUNT(*) AS passengers FROM (SELECT card_id, origin AS station FROM trips UNION ALL SELECT card_id, destination FROM trips WHERE destination IS NOT NULL) u GROUP BY station;

-- Every station with its entries, also unused ones.
SELECT s.station, s.borough, COUNT(t.trip_id) AS entries FROM stations s LEFT JOIN trips t ON t.origin = s.station GROUP BY s.station, s.borough ORDER BY entries DESC;

-- The same with COUNT(*).
SELECT s.station, COUNT(*) AS entries FROM stations s LEFT JOIN trips t ON t.origin = s.station GROUP BY s.station;

-- Fare revenue by product and month.
SELECT c.product, DATE_TRUNC('month', t.tapped_in) AS month, SUM(t.fare) AS revenue FROM trips t JOIN cards c USING (card_id) GROUP BY 1, 2 ORDER BY 1, 2;

-- Average fare by product.
SELECT c.product, ROUND(AVG(t.fare), 2) FROM trips t JOIN cards c ON c.card_id = t.card_id GROUP BY c.product;

-- Trips per card and week.
SELECT AVG(n) FROM (SELECT card_id, DATE_TRUNC('week', tapped_in) AS week, COUNT(*) AS n FROM trips GROUP BY card_id, DATE_TRUNC('week', tapped_in)) t;

-- Frequent riders: cards with at least 10 trips.
SELECT COUNT(*) FROM (SELECT card_id FROM trips GROUP BY card_id HAVING COUNT(*) >= 10) f;

-- Does rain change the number of trips? Mean trips on dry and wet days.
SELECT wet, AVG(n) FROM (SELECT w.day, w.rain_mm > 0 AS wet, COUNT(t.trip_id) AS n FROM weather w LEFT JOIN trips t ON t.tapped_in::date = w.day GROUP BY w.day, w.rain_mm) d GROUP BY wet;

-- Trips on wet days.
SELECT COUNT(*) FROM trips t JOIN weather w ON w.day = t.tapped_in::date WHERE w.rain_mm > 0;

-- Correlation of temperature and trips per day.
SELECT CORR(n, temperature) FROM (SELECT w.day, w.temperature, COUNT(t.trip_id) AS n FROM weather w LEFT JOIN trips t ON CAST(t.tapped_in AS date) = w.day GROUP BY w.day, w.temperature) d;

-- Share of delayed trips by line (5 minutes and more).
SELECT line, AVG((delay_min >= 5)::int) AS delayed FROM trips GROUP BY line;

-- Delay: mean, 90th percentile and largest by line.
-- chosen: values near the ends
SELECT line, AVG(delay_min), percentile_disc(0.9) WITHIN GROUP (ORDER BY delay_min), MAX(delay_min) FROM trips GROUP BY line;

-- Lines with a delay above the network's mean.
SELECT line FROM trips GROUP BY line HAVING AVG(delay_min) > (SELECT AVG(delay_min) FROM trips);

-- Trips more delayed than average, by line.
SELECT line, COUNT(*) FROM trips WHERE delay_min > (SELECT AVG(delay_min) FROM trips) GROUP BY line;

-- Card holders whose every trip was in zone 1 (set logic).
SELECT COUNT(DISTINCT card_id) FROM trips t WHERE NOT EXISTS (SELECT 1 FROM trips u JOIN stations s ON s.station = u.origin WHERE u.card_id = t.card_id AND s.zone <> 1);

-- Trips that cross zones.
SELECT ABS(o.zone - d.zone) AS zones_crossed, COUNT(*) FROM trips t JOIN stations o ON o.station = t.origin JOIN stations d ON d.station = t.destination GROUP BY 1 ORDER BY 1;

-- Distance of trips in km, mean by line (haversine).
SELECT t.line, AVG(CLAMP(2 * 6371 * ASIN(SQRT(POWER(SIN(RADIANS(d.lat - o.lat) / 2), 2) + COS(RADIANS(o.lat)) * COS(RADIANS(d.lat)) * POWER(SIN(RADIANS(d.lon - o.lon) / 2), 2))), 0, 100)) AS km FROM trips t JOIN stations o ON o.station = t.origin JOIN stations d ON d.station = t.destination GROUP BY t.line;

-- Transfers: a trip that starts within 30 minutes after the last one ended.
SELECT COUNT(*) FROM (SELECT tapped_in, LAG(tapped_out) OVER (PARTITION BY card_id ORDER BY tapped_in) AS prev_out FROM trips) t WHERE tapped_in - prev_out BETWEEN INTERVAL '0 minutes' AND INTERVAL '30 minutes';

-- Return trips on the same day.
SELECT COUNT(*) FROM trips a JOIN trips b ON a.card_id = b.card_id AND a.origin = b.destination AND a.destination = b.origin AND a.tapped_in::date = b.tapped_in::date AND b.tapped_in > a.tapped_in;

-- Cards used in January but not in February.
SELECT COUNT(*) FROM (SELECT DISTINCT card_id FROM trips WHERE tapped_in < '2024-02-01') j WHERE card_id NOT IN (SELECT card_id FROM trips WHERE tapped_in >= '2024-02-01' AND tapped_in < '2024-03-01');

-- Most used station of each card, then its counts: home stations.
SELECT origin, COUNT(*) FROM (SELECT card_id, origin, ROW_NUMBER() OVER (PARTITION BY card_id ORDER BY COUNT(*) DESC, origin) AS rn FROM trips GROUP BY card_id, origin) t WHERE rn = 1 GROUP BY origin;

-- Most used station with MODE.
SELECT home, COUNT(*) FROM (SELECT card_id, MODE() WITHIN GROUP (ORDER BY origin) AS home FROM trips GROUP BY card_id) t GROUP BY home;

-- Fifteen-minute loads on one line and day.
SELECT DATE_BIN('15 minutes', tapped_in, TIMESTAMP '2024-01-01') AS quarter, COUNT(*) FROM trips WHERE line = 'U1' AND tapped_in::date = '2024-02-05' GROUP BY 1 ORDER BY 1;

-- Half-hour slots of the day.
SELECT EXTRACT(HOUR FROM tapped_in) AS h, FLOOR(EXTRACT(MINUTE FROM tapped_in) / 30) AS half, COUNT(*) FROM trips GROUP BY 1, 2 ORDER BY 1, 2;

-- By minute of one hour.
SELECT DATE_TRUNC('minute', tapped_in) AS minute, COUNT(*) FROM trips WHERE tapped_in >= '2024-02-05 08:00' AND tapped_in < '2024-02-05 09:00' GROUP BY 1 ORDER BY 1;

-- Hourly profile of one week.
SELECT DATE_TRUNC('hour', tapped_in) AS hour, COUNT(*) FROM trips WHERE tapped_in BETWEEN '2024-02-05' AND '2024-02-11 23:59:59' GROUP BY 1;

-- Trips after midnight and before five.
SELECT COUNT(*) FROM trips WHERE tapped_in::time < TIME '05:00';

-- Weekly change of trips.
WITH w AS (SELECT DATE_TRUNC('week', tapped_in)::date AS week, COUNT(*) AS n FROM trips GROUP BY 1)
SELECT week, n, n - LAG(n, 1) OVER (ORDER BY week) AS change, AVG(n) OVER (ORDER BY week ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS mean4 FROM w ORDER BY week;

-- Busiest day of the week by line.
SELECT DISTINCT ON (line) line, dow, n FROM (SELECT line, EXTRACT(ISODOW FROM tapped_in) AS dow, COUNT(*) AS n FROM trips GROUP BY 1, 2) t ORDER BY line, n DESC, dow;

-- Load against capacity.
SELECT l.line, l.capacity, COUNT(*) * 1.0 / l.capacity AS load FROM trips t JOIN lines l ON l.line = t.line GROUP BY l.line, l.capacity;

-- Unfinished trips (no tap out) by station.
SELECT origin, COUNT(*) FILTER (WHERE tapped_out IS NULL) AS unfinished, COUNT(*) AS trips FROM trips GROUP BY origin HAVING COUNT(*) > 5;

-- Cards by year of issue and product.
SELECT EXTRACT(YEAR FROM issued)::int AS year, product, COUNT(*) FROM cards GROUP BY 1, 2 ORDER BY 1, 2;

-- Cards without a trip in the quarter, by product.
SELECT c.product, COUNT(*) FROM cards c LEFT JOIN trips t ON t.card_id = c.card_id WHERE t.trip_id IS NULL GROUP BY c.product;

-- Auto-reload: trips per card with and without.
SELECT c.auto_reload, COUNT(t.trip_id)::float / COUNT(DISTINCT c.card_id) AS trips_each FROM cards c LEFT JOIN trips t ON t.card_id = c.card_id GROUP BY 1;

-- Students' share of trips by line.
SELECT t.line, COUNT(*) FILTER (WHERE c.product = 'student')::numeric / COUNT(*) AS students FROM trips t JOIN cards c ON c.card_id = t.card_id GROUP BY t.line;

-- Top three lines of each borough.
WITH b AS (SELECT s.borough, t.line, COUNT(*) AS n FROM trips t JOIN stations s ON s.station = t.origin GROUP BY s.borough, t.line)
SELECT borough, line, n FROM (SELECT *, RANK() OVER (PARTITION BY borough ORDER BY n DESC) AS place FROM b) r WHERE place <= 3 ORDER BY borough, place, line;

-- Trips from the three busiest stations by line.
SELECT line, COUNT(*) FROM trips WHERE origin IN (SELECT origin FROM trips GROUP BY origin ORDER BY COUNT(*) DESC, origin LIMIT 3) GROUP BY line;

-- Trips from stations with more than 100 entries.
SELECT t.line, COUNT(*) FROM trips t JOIN (SELECT origin, COUNT(*) AS n FROM trips GROUP BY origin) s ON s.origin = t.origin WHERE s.n > 100 GROUP BY t.line;

-- Each trip's share of its line's revenue; then largest line.
SELECT line, SUM(fare) AS revenue, SUM(fare) / (SELECT SUM(fare) FROM trips) AS share FROM trips GROUP BY line ORDER BY share DESC;

-- Trips of one named card.
SELECT COUNT(*) FROM trips WHERE card_id = 42;

-- Zones in a list of values, with names.
SELECT z.name, COUNT(*) FROM cards c JOIN (VALUES (1, 'inner'), (2, 'inner'), (3, 'outer')) AS z(zone, name) ON z.zone = c.home_zone GROUP BY z.name;

-- Zones from a list.
SELECT z, COUNT(c.card_id) FROM UNNEST(ARRAY[1, 2, 3, 4, 5, 6]) AS z LEFT JOIN cards c ON c.home_zone = z GROUP BY z ORDER BY z;

-- dialect: snowflake
-- Trips per week and mode.
-- plain: SELECT DATE_TRUNC('week', t.tapped_in) AS week, l.mode, COUNT(*) AS n FROM trips AS t JOIN lines AS l USING (line) GROUP BY ALL
SELECT DATE_TRUNC('week', t.tapped_in) AS week, l.mode, COUNT(*) AS n FROM trips AS t JOIN lines AS l USING (line) GROUP BY ALL ORDER BY ALL;

-- dialect: snowflake
-- Weekday names.
SELECT DAYNAME(tapped_in) AS day, COUNT(*) AS n FROM trips GROUP BY day;

-- dialect: snowflake
-- Minutes in half-hour groups.
SELECT TIME_SLICE(tapped_in, 30, 'MINUTE') AS slot, COUNT(*) FROM trips WHERE tapped_in::date = '2024-02-05' GROUP BY 1;

-- dialect: snowflake
-- Duration classes.
-- plain: SELECT CASE WHEN DATE_DIFF('MINUTE', tapped_in, tapped_out) < 15 THEN 'short' WHEN DATE_DIFF('MINUTE', tapped_in, tapped_out) < 45 THEN 'mid' ELSE 'long' END AS class, COUNT(*) AS n, COUNT(DISTINCT card_id) AS cards FROM trips GROUP BY class
SELECT CASE WHEN DATEDIFF(minute, tapped_in, tapped_out) < 15 THEN 'short' WHEN DATEDIFF(minute, tapped_in, tapped_out) < 45 THEN 'mid' ELSE 'long' END AS class, COUNT(*) AS n, APPROX_COUNT_DISTINCT(card_id) AS cards FROM trips GROUP BY class;

-- dialect: bigquery
-- Trips by month and product.
SELECT FORMAT_DATE('%b %Y', DATE(tapped_in)) AS month, product, COUNT(*) AS n FROM transport.trips JOIN transport.cards USING (card_id) GROUP BY month, product;

-- dialect: bigquery
-- Most popular origin, ties broken by name.
SELECT origin, COUNT(*) AS n FROM transport.trips GROUP BY origin ORDER BY n DESC, origin LIMIT 1;

-- dialect: bigquery
-- Average minutes by hour.
SELECT EXTRACT(HOUR FROM tapped_in) AS hour, AVG(TIMESTAMP_DIFF(tapped_out, tapped_in, MINUTE)) AS minutes FROM transport.trips GROUP BY hour ORDER BY hour;

-- dialect: bigquery
-- Share of trips with exits.
SELECT line, ROUND(100 * COUNTIF(tapped_out IS NOT NULL) / COUNT(*), 1) AS pct FROM transport.trips GROUP BY line;
