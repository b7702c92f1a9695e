SELECT kind, COUNT(*) AS n, SUM(score) AS s FROM visits GROUP BY kind;
SELECT kind, COUNT(DISTINCT id) AS people FROM visits GROUP BY kind;
SELECT kind, AVG(score) AS mean, STDDEV(score) AS spread FROM visits GROUP BY kind;
SELECT MEDIAN(score) AS m FROM visits;
SELECT kind, MAX(score) AS most FROM visits GROUP BY kind;
SELECT MODE(kind) AS most FROM visits;
SELECT kind, COUNT(DISTINCT note) AS notes FROM visits GROUP BY kind;
SELECT note, COUNT(DISTINCT id) AS people, SUM(score) AS s FROM visits GROUP BY note;
SELECT COUNT(*) FILTER (WHERE ok) AS yes, COUNT(*) FILTER (WHERE NOT ok) AS no FROM visits;
SELECT p.sex, v.kind, COUNT(*) AS n, SUM(p.bmi) AS s FROM patients p JOIN visits v ON p.id = v.id GROUP BY 1, 2;
SELECT label, COUNT(*) AS n FROM items GROUP BY label;
SELECT AVG(CLAMP(own, 0, 100)) AS mean FROM (SELECT id, SUM(score) AS own FROM visits GROUP BY id) AS each_patient;
-- max_rows=3
SELECT kind, COUNT(*) AS n FROM visits WHERE ok IS NOT NULL OR ok IS NULL GROUP BY kind;
