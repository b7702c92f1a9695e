-- Forty questions of somebody who writes SQL and knows nothing of privacy, about the hospital of wards.py. They were
-- written before any of them was answered. Grouping columns come first; the others are compared with the exact answer.

-- how busy the hospital is
SELECT COUNT(*) AS visits FROM visits;
SELECT date_trunc('month', day) AS month, COUNT(*) AS visits FROM visits GROUP BY 1 ORDER BY 1;
SELECT date_trunc('quarter', day) AS quarter, COUNT(*) AS visits FROM visits GROUP BY 1;
SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward ORDER BY visits DESC;
SELECT ward, EXTRACT(YEAR FROM day) AS year, COUNT(*) AS visits FROM visits GROUP BY 1, 2;
SELECT EXTRACT(DOW FROM day) AS weekday, COUNT(*) AS visits FROM visits GROUP BY 1;
SELECT ward, urgent, COUNT(*) AS visits FROM visits GROUP BY ward, urgent;
SELECT COUNT(*) AS visits FROM visits WHERE ward = 'oncology' AND day >= DATE '2024-01-01';
SELECT date_trunc('month', day) AS month, COUNT(*) AS visits FROM visits WHERE urgent AND day >= DATE '2024-01-01' GROUP BY 1;
SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward HAVING COUNT(*) > 10000;

-- who comes
SELECT COUNT(DISTINCT patient_id) AS patients FROM visits;
SELECT ward, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward;
SELECT p.sex, COUNT(*) AS visits FROM visits AS v JOIN patients AS p ON p.id = v.patient_id GROUP BY p.sex;
SELECT p.region, COUNT(*) AS visits, SUM(v.cost) AS cost FROM visits AS v JOIN patients AS p ON p.id = v.patient_id GROUP BY p.region;
SELECT FLOOR(age / 10) AS decade, COUNT(*) AS patients FROM patients WHERE age < 90 GROUP BY 1;
SELECT region, AVG(age) AS age FROM patients GROUP BY region;
SELECT sex, smoker, COUNT(*) AS patients FROM patients GROUP BY sex, smoker;
SELECT CASE WHEN p.age < 18 THEN 'child' WHEN p.age < 65 THEN 'adult' ELSE 'senior' END AS class, COUNT(*) AS visits FROM visits AS v JOIN patients AS p ON p.id = v.patient_id GROUP BY 1;
SELECT COUNT(*) AS patients FROM patients AS p WHERE NOT EXISTS (SELECT 1 FROM visits AS v WHERE v.patient_id = p.id);
SELECT COUNT(*) AS patients FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) >= 5) AS often;

-- what it costs
SELECT SUM(cost) AS cost FROM visits;
SELECT AVG(cost) AS cost FROM visits;
SELECT ward, AVG(cost) AS cost, AVG(nights) AS nights FROM visits GROUP BY ward;
SELECT ward, SUM(nights) AS nights FROM visits GROUP BY ward;
SELECT date_trunc('quarter', day) AS quarter, SUM(cost) AS cost FROM visits GROUP BY 1;
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost) AS median FROM visits;
SELECT ward, 1.0 * COUNT(*) FILTER (WHERE nights = 0) / COUNT(*) AS ambulant FROM visits GROUP BY ward;
SELECT AVG(cost) AS cost FROM visits WHERE urgent AND ward = 'emergency';
SELECT p.smoker, AVG(v.nights) AS nights FROM visits AS v JOIN patients AS p ON p.id = v.patient_id GROUP BY p.smoker;
SELECT ward, 100.0 * SUM(cost) / SUM(SUM(cost)) OVER () AS percent FROM visits GROUP BY ward;

-- what is measured
SELECT COUNT(*) AS labs FROM labs;
SELECT code, COUNT(*) AS labs FROM labs GROUP BY code;
SELECT t.panel, COUNT(*) AS labs FROM labs AS l JOIN tests AS t ON t.code = l.code GROUP BY t.panel;
SELECT code, AVG(value) AS value FROM labs GROUP BY code;
SELECT code, 1.0 * SUM(CASE WHEN abnormal THEN 1 ELSE 0 END) / COUNT(*) AS rate FROM labs GROUP BY code;
SELECT date_trunc('month', taken) AS month, COUNT(*) AS labs FROM labs WHERE code IN ('ldl', 'hdl') GROUP BY 1;
SELECT COUNT(DISTINCT l.patient_id) AS patients FROM labs AS l JOIN tests AS t ON t.code = l.code WHERE t.panel = 'lipids' AND l.abnormal;
SELECT p.sex, AVG(l.value) AS value FROM labs AS l JOIN patients AS p ON p.id = l.patient_id WHERE l.code = 'hb' GROUP BY p.sex;
SELECT COUNT(*) AS labs FROM labs WHERE patient_id IN (SELECT id FROM patients WHERE smoker);
SELECT ward, COUNT(*) AS patients FROM (SELECT patient_id, ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day DESC, visit_id DESC) AS place FROM visits) AS v WHERE place = 1 GROUP BY ward;
