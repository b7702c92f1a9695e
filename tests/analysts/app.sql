-- Daily active users in May.
SELECT happened::date AS day, COUNT(DISTINCT user_id) AS dau FROM events WHERE happened >= '2024-05-01' AND happened < '2024-06-01' GROUP BY 1 ORDER BY 1;

-- Monthly active users by platform.
SELECT DATE_TRUNC('month', happened) AS month, platform, COUNT(DISTINCT user_id) AS mau FROM events GROUP BY 1, 2 ORDER BY 1, 2;

-- Stickiness: average DAU over MAU by month. (Days without anybody count, as all declared days are there.)
-- plain: SELECT DATE_TRUNC('month', happened)::date, COUNT(DISTINCT (user_id, happened::date)) / DAY(LAST_DAY(MIN(happened))) / COUNT(DISTINCT user_id) FROM events GROUP BY 1
WITH d AS (SELECT happened::date AS day, COUNT(DISTINCT user_id) AS dau FROM events GROUP BY 1),
     m AS (SELECT DATE_TRUNC('month', happened)::date AS month, COUNT(DISTINCT user_id) AS mau FROM events GROUP BY 1)
SELECT m.month, AVG(d.dau) / m.mau AS stickiness FROM d JOIN m ON DATE_TRUNC('month', d.day)::date = m.month GROUP BY m.month, m.mau ORDER BY 1;

-- Sign-ups per week.
SELECT DATE_TRUNC('week', signed_up) AS week, COUNT(*) FROM users GROUP BY 1 ORDER BY 1;

-- Funnel: users that reached each step.
SELECT event, COUNT(DISTINCT user_id) AS users FROM events WHERE event IN ('signup', 'view_pricing', 'start_trial', 'purchase') GROUP BY event;

-- Funnel with order: pricing seen after sign-up, purchase after pricing.
WITH s AS (SELECT user_id, MIN(happened) AS t FROM events WHERE event = 'signup' GROUP BY user_id),
     v AS (SELECT s.user_id, MIN(e.happened) AS t FROM s JOIN events e ON e.user_id = s.user_id AND e.event = 'view_pricing' AND e.happened > s.t GROUP BY s.user_id),
     p AS (SELECT v.user_id, MIN(e.happened) AS t FROM v JOIN events e ON e.user_id = v.user_id AND e.event = 'purchase' AND e.happened > v.t GROUP BY v.user_id)
SELECT (SELECT COUNT(*) FROM s) AS signed, (SELECT COUNT(*) FROM v) AS viewed, (SELECT COUNT(*) FROM p) AS purchased;

-- Funnel in one row with conditional counts.
SELECT COUNT(DISTINCT CASE WHEN event = 'signup' THEN user_id END) AS signup, COUNT(DISTINCT CASE WHEN event = 'start_trial' THEN user_id END) AS trial, COUNT(DISTINCT CASE WHEN event = 'purchase' THEN user_id END) AS purchase FROM events;

-- Funnel per user with flags.
WITH f AS (SELECT user_id, MAX(CASE WHEN event = 'view_pricing' THEN 1 ELSE 0 END) AS viewed, MAX(CASE WHEN event = 'purchase' THEN 1 ELSE 0 END) AS bought FROM events GROUP BY user_id)
SELECT SUM(viewed) AS viewed, SUM(viewed * bought) AS bought, SUM(viewed * bought) * 1.0 / NULLIF(SUM(viewed), 0) AS conversion FROM f;

-- Conversion from free to paid by country.
SELECT u.country, AVG(CASE WHEN p.user_id IS NOT NULL THEN 1.0 ELSE 0 END) AS paid FROM users u LEFT JOIN (SELECT DISTINCT user_id FROM payments) p ON p.user_id = u.user_id GROUP BY u.country;

-- Paying users as a value.
SELECT country, COUNT(*) AS users, SUM(CASE WHEN user_id IN (SELECT user_id FROM payments) THEN 1 ELSE 0 END) AS paying FROM users GROUP BY country;

-- Week-one retention: active 7 to 13 days after sign-up.
SELECT DATE_TRUNC('month', u.signed_up) AS cohort, COUNT(DISTINCT u.user_id) AS users, COUNT(DISTINCT e.user_id) AS retained
FROM users u LEFT JOIN events e ON e.user_id = u.user_id AND e.happened >= u.signed_up + INTERVAL '7 days' AND e.happened < u.signed_up + INTERVAL '14 days'
GROUP BY 1 ORDER BY 1;

-- Retention triangle by months since sign-up.
SELECT DATE_TRUNC('month', u.signed_up)::date AS cohort, (EXTRACT(YEAR FROM e.happened) - EXTRACT(YEAR FROM u.signed_up)) * 12 + EXTRACT(MONTH FROM e.happened) - EXTRACT(MONTH FROM u.signed_up) AS month_number, COUNT(DISTINCT e.user_id) AS active
FROM users u JOIN events e ON e.user_id = u.user_id GROUP BY 1, 2 ORDER BY 1, 2;

-- Retention curve by days since sign-up, up to 30.
SELECT e.happened::date - u.signed_up::date AS day, COUNT(DISTINCT e.user_id) AS users FROM users u JOIN events e USING (user_id) WHERE e.happened::date - u.signed_up::date BETWEEN 0 AND 30 GROUP BY 1 ORDER BY 1;

-- Mean session length in seconds by platform.
SELECT platform, AVG(seconds) FROM (SELECT user_id, session_id, platform, EXTRACT(EPOCH FROM MAX(happened) - MIN(happened)) AS seconds FROM events GROUP BY user_id, session_id, platform) s GROUP BY platform;

-- Sessions per user.
SELECT AVG(sessions) FROM (SELECT user_id, COUNT(DISTINCT session_id) AS sessions FROM events GROUP BY user_id) t;

-- Sessionise: a gap of 30 minutes starts a new session.
WITH marked AS (SELECT user_id, happened, CASE WHEN happened - LAG(happened) OVER (PARTITION BY user_id ORDER BY happened) > INTERVAL '30 minutes' OR LAG(happened) OVER (PARTITION BY user_id ORDER BY happened) IS NULL THEN 1 ELSE 0 END AS is_new FROM events)
SELECT SUM(is_new) AS sessions FROM marked;

-- Sessionise and count events per session.
WITH marked AS (SELECT user_id, happened, CASE WHEN EXTRACT(EPOCH FROM happened - LAG(happened) OVER (PARTITION BY user_id ORDER BY happened)) <= 1800 THEN 0 ELSE 1 END AS is_new FROM events),
     numbered AS (SELECT user_id, SUM(is_new) OVER (PARTITION BY user_id ORDER BY happened ROWS UNBOUNDED PRECEDING) AS session_no FROM marked)
SELECT AVG(n) FROM (SELECT user_id, session_no, COUNT(*) AS n FROM numbered GROUP BY user_id, session_no) s;

-- Crash rate by version.
SELECT version, AVG(CASE WHEN event = 'crash' THEN 1.0 ELSE 0 END) AS crash_rate FROM events GROUP BY version ORDER BY version;

-- Crash-free users by version.
SELECT version, 1 - COUNT(DISTINCT CASE WHEN event = 'crash' THEN user_id END) * 1.0 / COUNT(DISTINCT user_id) AS crash_free FROM events GROUP BY version;

-- Major version only.
SELECT SPLIT_PART(version, '.', 1) AS major, COUNT(*) FROM events GROUP BY 1;

-- Major version with a regular expression.
SELECT REGEXP_REPLACE(version, '\..*$', '') AS major, COUNT(*) FROM events GROUP BY 1;

-- Referrer's host.
-- plain: SELECT NULLIF(regexp_extract(referrer, 'https?://([^/]+)', 1), '') AS host, COUNT(*) FROM users GROUP BY 1
SELECT SUBSTRING(referrer FROM 'https?://([^/]+)') AS host, COUNT(*) FROM users GROUP BY 1;

-- Users from any web page.
SELECT COUNT(*) FROM users WHERE referrer ~ '^https?://';

-- Users from ads or news, with SIMILAR TO.
-- plain: SELECT COUNT(*) FROM users WHERE regexp_full_match(referrer, 'https://(ads|news).*')
SELECT COUNT(*) FROM users WHERE referrer SIMILAR TO 'https://(ads|news)%';

-- Events by area.
SELECT t.area, COUNT(*) AS n FROM events e JOIN event_types t ON t.event = e.event GROUP BY t.area;

-- Events never seen.
-- refused: UnsupportedQueryError: the rows of a public table that have a private counterpart would show who exists
-- right: which event types occur at all is a fact about single people; the number of users of each is answered
SELECT t.event FROM event_types t WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.event = t.event);

-- All event types with the number of users.
SELECT t.event, COUNT(DISTINCT e.user_id) AS users FROM event_types t LEFT JOIN events e ON e.event = t.event GROUP BY t.event ORDER BY t.event;

-- p50 and p95 of duration by platform.
-- within: 12000
SELECT platform, percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms) AS p50, percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_ms) AS p95 FROM events WHERE duration_ms IS NOT NULL GROUP BY platform;

-- Monthly recurring revenue by plan.
SELECT DATE_TRUNC('month', paid_on)::date AS month, plan, SUM(amount) AS mrr FROM payments GROUP BY 1, 2 ORDER BY 1, 2;

-- ARPU by country.
SELECT u.country, COALESCE(SUM(p.amount), 0) / COUNT(DISTINCT u.user_id) AS arpu FROM users u LEFT JOIN payments p ON p.user_id = u.user_id GROUP BY u.country;

-- Users who paid but had no event.
SELECT COUNT(DISTINCT user_id) FROM payments WHERE user_id NOT IN (SELECT user_id FROM events);

-- Power users: more than the average number of events.
WITH c AS (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id)
SELECT COUNT(*) FROM c WHERE n > (SELECT AVG(n) FROM c);

-- Power users: top tenth by events, share of all events.
-- plain: WITH c AS (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id), d AS (SELECT n, (SELECT quantile_disc(n, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]) FROM c) AS q FROM c) SELECT CASE WHEN n > q[1] THEN 1 WHEN n > q[2] THEN 2 WHEN n > q[3] THEN 3 WHEN n > q[4] THEN 4 WHEN n > q[5] THEN 5 WHEN n > q[6] THEN 6 WHEN n > q[7] THEN 7 WHEN n > q[8] THEN 8 WHEN n > q[9] THEN 9 ELSE 10 END AS decile, SUM(n) AS events FROM d GROUP BY decile
WITH c AS (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id), d AS (SELECT n, NTILE(10) OVER (ORDER BY n DESC) AS decile FROM c)
SELECT decile, SUM(n) AS events FROM d GROUP BY decile ORDER BY decile;

-- First event after sign-up.
SELECT event, COUNT(*) FROM (SELECT user_id, event, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY happened) AS rn FROM events) t WHERE rn = 1 GROUP BY event ORDER BY 2 DESC;

-- Paths: the next event after pricing.
SELECT next_event, COUNT(*) AS n FROM (SELECT event, LEAD(event) OVER (PARTITION BY user_id ORDER BY happened) AS next_event FROM events) t WHERE event = 'view_pricing' GROUP BY next_event ORDER BY n DESC;

-- Paths of three events.
SELECT a, b, c, COUNT(*) AS n FROM (SELECT event AS a, LEAD(event) OVER w AS b, LEAD(event, 2) OVER w AS c FROM events WINDOW w AS (PARTITION BY user_id ORDER BY happened)) t WHERE c IS NOT NULL GROUP BY a, b, c ORDER BY n DESC, a, b, c LIMIT 20;

-- Users by number of platforms.
SELECT platforms, COUNT(*) AS users FROM (SELECT user_id, COUNT(DISTINCT platform) AS platforms FROM events GROUP BY user_id) t GROUP BY platforms ORDER BY platforms;

-- Weekly actives with a rolling 7-day window (distinct users in the last 7 days).
SELECT d.day, COUNT(DISTINCT e.user_id) AS wau FROM generate_series('2024-05-01'::date, '2024-05-31'::date, '1 day') AS d(day) LEFT JOIN events e ON e.happened::date BETWEEN d.day::date - 6 AND d.day::date GROUP BY d.day ORDER BY d.day;

-- Days active per user in the first 28 days.
-- small: groups of few people are not shown, and the declared data have no bound on days
SELECT days, COUNT(*) FROM (SELECT e.user_id, COUNT(DISTINCT e.happened::date) AS days FROM events e JOIN users u ON u.user_id = e.user_id WHERE e.happened < u.signed_up + INTERVAL '28 days' GROUP BY e.user_id) t GROUP BY days ORDER BY days;

-- Events by five-minute slots of one day.
SELECT DATE_BIN('5 minutes', happened, TIMESTAMP '2024-01-01') AS slot, COUNT(*) FROM events WHERE happened >= '2024-05-06' AND happened < '2024-05-07' GROUP BY 1 ORDER BY 1;

-- Events by hour of one day.
SELECT DATE_TRUNC('hour', happened) AS hour, COUNT(*) FROM events WHERE happened >= '2024-05-06 00:00:00' AND happened < '2024-05-07 00:00:00' GROUP BY 1 ORDER BY 1;

-- Events in the last 24 hours.
SELECT COUNT(*) FROM events WHERE happened > NOW() - INTERVAL '24 hours';

-- Users who signed up in the last 90 days, by plan.
SELECT plan, COUNT(*) FROM users WHERE signed_up >= CURRENT_DATE - INTERVAL '90 days' GROUP BY plan;

-- dialect: snowflake
-- Retention by day with DATEDIFF.
SELECT DATEDIFF('day', u.signed_up, e.happened) AS day, COUNT(DISTINCT e.user_id) AS users FROM users u JOIN events e ON e.user_id = u.user_id WHERE day BETWEEN 0 AND 14 GROUP BY day ORDER BY day;

-- dialect: snowflake
-- Latest event per user.
-- refused: UnsupportedQueryError: column happened is neither in GROUP BY nor inside an aggregate
-- right: happened is not in GROUP BY, which no dialect answers
SELECT event, COUNT(*) AS users FROM events QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY happened DESC) = 1 GROUP BY event;

-- dialect: snowflake
-- Latest event per user in a subquery, ilike filter.
SELECT event, COUNT(*) AS users FROM (SELECT user_id, event FROM events WHERE platform ILIKE 'I%' QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY happened DESC) = 1) GROUP BY event ORDER BY users DESC;

-- dialect: snowflake
-- Weekly active users.
SELECT DATE_TRUNC('WEEK', happened)::DATE AS wk, COUNT(DISTINCT user_id) AS wau FROM events WHERE happened >= DATEADD(week, -8, '2024-06-30'::DATE) GROUP BY wk ORDER BY wk;

-- dialect: snowflake
-- Users with any crash.
SELECT COUNT_IF(crashed) AS crashed, COUNT(*) AS users FROM (SELECT user_id, BOOLOR_AGG(event = 'crash') AS crashed FROM events GROUP BY user_id);

-- dialect: bigquery
-- New and returning users per day of May.
WITH firsts AS (SELECT user_id, MIN(DATE(happened)) AS first_day FROM `app.events` GROUP BY user_id)
SELECT DATE(e.happened) AS day, COUNT(DISTINCT IF(DATE(e.happened) = f.first_day, e.user_id, NULL)) AS new_users, COUNT(DISTINCT IF(DATE(e.happened) > f.first_day, e.user_id, NULL)) AS returning FROM `app.events` e JOIN firsts f USING (user_id) WHERE DATE(e.happened) BETWEEN '2024-05-01' AND '2024-05-31' GROUP BY day ORDER BY day;

-- dialect: bigquery
-- Events per user and platform.
SELECT platform, COUNT(*) / COUNT(DISTINCT user_id) AS per_user FROM app.events GROUP BY platform;

-- dialect: bigquery
-- Duration percentiles.
-- within: 12000
-- plain: SELECT platform, quantile_disc(duration_ms, 0.5), quantile_disc(duration_ms, 0.9) FROM app.events GROUP BY platform
SELECT platform, APPROX_QUANTILES(duration_ms, 100)[OFFSET(50)] AS p50, APPROX_QUANTILES(duration_ms, 100)[OFFSET(90)] AS p90 FROM app.events GROUP BY platform;

-- dialect: bigquery
-- Sessions longer than a minute.
SELECT COUNT(*) FROM (SELECT user_id, session_id, TIMESTAMP_DIFF(MAX(happened), MIN(happened), SECOND) AS s FROM app.events GROUP BY user_id, session_id) WHERE s > 60;

-- dialect: bigquery
-- Host of the referrer.
SELECT REGEXP_EXTRACT(referrer, r'https?://([^/]+)') AS host, COUNT(*) AS n FROM app.users GROUP BY host;

-- Users whose first platform is ios and who also used web later.
SELECT COUNT(*) FROM (SELECT user_id, (ARRAY_AGG(platform ORDER BY happened))[1] AS first_platform, BOOL_OR(platform = 'web') AS web FROM events GROUP BY user_id) t WHERE first_platform = 'ios' AND web;

-- Export of raw events for one user.
-- refused: UnsupportedQueryError: the result would hold rows of single privacy units (user)
-- right: rows of one person
SELECT * FROM events WHERE user_id = 'u0007' ORDER BY happened;

-- Events per day over the whole time, calendar filled.
WITH cal AS (SELECT generate_series(DATE '2024-01-01', DATE '2024-01-31', INTERVAL '1 day')::date AS day)
SELECT cal.day, COUNT(e.event_id) AS n FROM cal LEFT JOIN events e ON e.happened::date = cal.day GROUP BY cal.day ORDER BY cal.day;
