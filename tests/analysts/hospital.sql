-- How many admissions were there in each ward?
SELECT ward, COUNT(*) AS admissions FROM admissions GROUP BY ward ORDER BY admissions DESC;

-- How many different patients came as emergencies in 2023?
SELECT COUNT(DISTINCT patient_id) FROM admissions WHERE kind = 'emergency' AND admitted >= '2023-01-01' AND admitted < '2024-01-01';

-- Mean length of stay in days by ward.
SELECT ward, AVG(EXTRACT(EPOCH FROM (discharged - admitted)) / 86400.0) AS mean_los FROM admissions WHERE discharged IS NOT NULL GROUP BY ward;

-- Median length of stay by kind of admission, whole days.
-- within: 0.6
SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY discharged::date - admitted::date) AS median_days FROM admissions GROUP BY kind;

-- 30-day readmission: how many discharges were followed by another admission within 30 days?
WITH ordered AS (
  SELECT patient_id, admitted, discharged, LEAD(admitted) OVER (PARTITION BY patient_id ORDER BY admitted) AS next_admitted
  FROM admissions
)
SELECT COUNT(*) AS discharges, SUM(CASE WHEN next_admitted <= discharged + INTERVAL '30 days' THEN 1 ELSE 0 END) AS readmitted
FROM ordered WHERE discharged IS NOT NULL;

-- 30-day readmission rate by ward, with a self-join.
SELECT a.ward, COUNT(DISTINCT a.admission_id) AS n
FROM admissions a JOIN admissions b ON a.patient_id = b.patient_id AND b.admitted > a.discharged AND b.admitted <= a.discharged + INTERVAL '30 days'
GROUP BY a.ward;

-- Readmission rate with EXISTS.
SELECT kind, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM admissions b WHERE b.patient_id = a.patient_id AND b.admitted > a.discharged AND b.admitted <= a.discharged + INTERVAL '30 days')) * 1.0 / COUNT(*) AS rate
FROM admissions a GROUP BY kind;

-- Readmissions as a flag in a CTE, then averaged.
WITH flagged AS (
  SELECT a.ward, CASE WHEN EXISTS (SELECT 1 FROM admissions b WHERE b.patient_id = a.patient_id AND b.admitted > a.discharged AND b.admitted <= a.discharged + INTERVAL '30 days') THEN 1 ELSE 0 END AS readmitted
  FROM admissions a WHERE a.discharged IS NOT NULL
)
SELECT ward, AVG(readmitted) AS rate FROM flagged GROUP BY ward;

-- Admissions per month.
SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM admissions GROUP BY 1 ORDER BY 1;

-- Admissions per month and kind, year 2024.
SELECT TO_CHAR(admitted, 'YYYY-MM') AS month, kind, COUNT(*) AS n FROM admissions WHERE EXTRACT(YEAR FROM admitted) = 2024 GROUP BY 1, 2 ORDER BY 1, 2;

-- Year over year change of admissions.
WITH yearly AS (SELECT EXTRACT(YEAR FROM admitted) AS year, COUNT(*) AS n FROM admissions GROUP BY 1)
SELECT year, n, n - LAG(n) OVER (ORDER BY year) AS change, ROUND(100.0 * (n - LAG(n) OVER (ORDER BY year)) / LAG(n) OVER (ORDER BY year), 1) AS pct FROM yearly ORDER BY year;

-- Share of emergency admissions by ward.
SELECT ward, AVG(CASE WHEN kind = 'emergency' THEN 1.0 ELSE 0.0 END) AS share FROM admissions GROUP BY ward;

-- Share of each diagnosis chapter.
SELECT i.chapter, COUNT(*) AS n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM admissions a JOIN icd i ON a.diagnosis = i.code GROUP BY i.chapter ORDER BY n DESC;

-- The three most frequent diagnoses, with titles.
SELECT i.code, i.title, COUNT(*) AS n FROM admissions a JOIN icd i ON i.code = a.diagnosis GROUP BY i.code, i.title ORDER BY n DESC LIMIT 3;

-- Age at admission, mean by sex.
SELECT p.sex, AVG(EXTRACT(YEAR FROM AGE(a.admitted, p.birth_date))) AS mean_age FROM admissions a JOIN patients p ON p.patient_id = a.patient_id GROUP BY p.sex;

-- Patients by age band today, roughly.
SELECT CASE WHEN 2024 - EXTRACT(YEAR FROM birth_date) < 18 THEN '0-17' WHEN 2024 - EXTRACT(YEAR FROM birth_date) < 65 THEN '18-64' ELSE '65+' END AS band, COUNT(*) AS n FROM patients GROUP BY band ORDER BY band;

-- Which patients cost us most?
-- refused: UnsupportedQueryError: the result would hold rows of single privacy units (patient)
-- right: rows of single people
SELECT patient_id, SUM(cost) AS cost FROM admissions GROUP BY patient_id ORDER BY cost DESC LIMIT 10;

-- Mean cost per patient, not per admission.
SELECT AVG(total) FROM (SELECT patient_id, SUM(cost) AS total FROM admissions GROUP BY patient_id) t;

-- Distribution of number of admissions per patient.
SELECT n, COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM admissions GROUP BY patient_id) t GROUP BY n ORDER BY n;

-- Patients without any admission.
SELECT COUNT(*) FROM patients p LEFT JOIN admissions a ON a.patient_id = p.patient_id WHERE a.patient_id IS NULL;

-- Admissions that cost more than the average admission.
SELECT COUNT(*) FROM admissions WHERE cost > (SELECT AVG(cost) FROM admissions);

-- Share of admissions above twice the mean cost by ward.
WITH m AS (SELECT AVG(cost) AS mean_cost FROM admissions)
SELECT a.ward, AVG(CASE WHEN a.cost > 2 * m.mean_cost THEN 1.0 ELSE 0 END) AS share FROM admissions a CROSS JOIN m GROUP BY a.ward;

-- Mean cost in the three busiest wards.
SELECT ward, AVG(cost) FROM admissions WHERE ward IN (SELECT ward FROM admissions GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3) GROUP BY ward;

-- Deaths in hospital within each chapter, and the rate.
SELECT i.chapter, SUM(CASE WHEN a.outcome = 'died' THEN 1 ELSE 0 END) AS deaths, SUM(CASE WHEN a.outcome = 'died' THEN 1 ELSE 0 END)::float / NULLIF(COUNT(*), 0) AS rate FROM admissions a JOIN icd i ON a.diagnosis = i.code GROUP BY i.chapter;

-- Occupied bed days by department.
SELECT w.department, SUM(discharged::date - admitted::date) AS bed_days FROM admissions JOIN wards w USING (ward) WHERE discharged IS NOT NULL GROUP BY w.department;

-- Bed days per bed.
SELECT w.ward, SUM(a.discharged::date - a.admitted::date) / w.beds AS days_per_bed FROM admissions a JOIN wards w ON w.ward = a.ward GROUP BY w.ward, w.beds;

-- Admissions by hour of the day.
SELECT EXTRACT(HOUR FROM admitted) AS hour, COUNT(*) AS n FROM admissions GROUP BY 1 ORDER BY 1;

-- Weekend against weekday admissions.
SELECT CASE WHEN EXTRACT(ISODOW FROM admitted) IN (6, 7) THEN 'weekend' ELSE 'weekday' END AS part, COUNT(*) FROM admissions GROUP BY 1;

-- By day of the week, with its name.
-- plain: SELECT strftime(admitted, '%a') AS day, COUNT(*) FROM admissions GROUP BY 1
SELECT TO_CHAR(admitted, 'Dy') AS day, COUNT(*) FROM admissions GROUP BY 1;

-- Patients on warfarin who were also given ibuprofen during the same stay.
SELECT COUNT(DISTINCT w.admission_id) FROM prescriptions w JOIN prescriptions i ON i.admission_id = w.admission_id WHERE w.drug = 'warfarin' AND i.drug = 'ibuprofen';

-- Mean dose by drug.
SELECT drug, AVG(dose) AS mean_dose, STDDEV(dose) AS sd, COUNT(*) FROM prescriptions GROUP BY drug;

-- Days of treatment by drug and ward.
SELECT a.ward, p.drug, SUM(p.days) AS days FROM prescriptions p JOIN admissions a ON p.admission_id = a.admission_id GROUP BY a.ward, p.drug;

-- Mean systolic pressure of smokers and non-smokers.
SELECT p.smoker, AVG(m.value) FROM measurements m JOIN patients p USING (patient_id) WHERE m.kind = 'systolic' GROUP BY p.smoker;

-- Each patient's last temperature, averaged.
SELECT AVG(value) FROM (SELECT patient_id, value, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY taken DESC) AS rn FROM measurements WHERE kind = 'temperature') t WHERE rn = 1;

-- Last measured value of each kind per patient, averaged by kind.
SELECT kind, AVG(value) FROM (SELECT DISTINCT ON (patient_id, kind) patient_id, kind, value FROM measurements ORDER BY patient_id, kind, taken DESC) last GROUP BY kind;

-- Quartiles of glucose.
-- within: 2
-- within: 0.6
-- plain: SELECT quantile_cont(value, 0.25), quantile_cont(value, 0.5), quantile_cont(value, 0.75) FROM measurements WHERE kind = 'glucose'
SELECT percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY value) AS quartiles FROM measurements WHERE kind = 'glucose';

-- Quartiles of glucose in columns.
-- within: 2
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY value) AS q1, percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS median, percentile_cont(0.75) WITHIN GROUP (ORDER BY value) AS q3 FROM measurements WHERE kind = 'glucose';

-- BMI classes.
SELECT CASE WHEN weight_kg / (height_cm / 100) ^ 2 < 18.5 THEN 'under' WHEN weight_kg / (height_cm / 100) ^ 2 < 25 THEN 'normal' ELSE 'over' END AS class, COUNT(*) FROM patients WHERE height_cm IS NOT NULL GROUP BY 1;

-- Mean BMI by region.
SELECT region, AVG(CLAMP(weight_kg / POWER(height_cm / 100, 2), 10, 60)) AS bmi FROM patients GROUP BY region;

-- Correlation of height and weight.
SELECT CORR(weight_kg, height_cm) FROM patients;

-- Patients who were admitted in both 2022 and 2023.
SELECT COUNT(*) FROM (SELECT patient_id FROM admissions WHERE EXTRACT(YEAR FROM admitted) = 2022 INTERSECT SELECT patient_id FROM admissions WHERE EXTRACT(YEAR FROM admitted) = 2023) t;

-- New patients per year: year of the first admission.
SELECT EXTRACT(YEAR FROM first_admitted) AS year, COUNT(*) FROM (SELECT patient_id, MIN(admitted) AS first_admitted FROM admissions GROUP BY patient_id) f GROUP BY 1 ORDER BY 1;

-- Median days between consecutive admissions.
-- within: 1
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY gap) FROM (SELECT admitted::date - LAG(admitted::date) OVER (PARTITION BY patient_id ORDER BY admitted) AS gap FROM admissions) g WHERE gap IS NOT NULL;

-- Subtotals by ward and kind.
SELECT ward, kind, COUNT(*) AS n, SUM(cost) AS cost FROM admissions GROUP BY ROLLUP (ward, kind);

-- Family doctors with the most patients.
SELECT gp, COUNT(*) AS patients FROM patients GROUP BY gp ORDER BY patients DESC;

-- Earliest and latest admission in the data.
-- chosen: moments near the ends, of which only the number of rows is compared
SELECT MIN(admitted), MAX(admitted) FROM admissions;

-- Names of wards in use (a filter list).
SELECT DISTINCT ward FROM admissions ORDER BY ward;

-- Does a patient with id 17 exist?
-- refused: UnsupportedQueryError: the result would hold rows of single privacy units (patient)
-- right: rows of one person
SELECT * FROM patients WHERE patient_id = 17;

-- Mortality within a year of the first admission.
WITH firsts AS (SELECT patient_id, MIN(admitted)::date AS first_day FROM admissions GROUP BY patient_id)
SELECT AVG(CASE WHEN p.died <= f.first_day + 365 THEN 1.0 ELSE 0.0 END) FROM firsts f JOIN patients p ON p.patient_id = f.patient_id;

-- Cohorts by year of first admission, and how many came again in each later year.
WITH firsts AS (SELECT patient_id, EXTRACT(YEAR FROM MIN(admitted)) AS cohort FROM admissions GROUP BY patient_id)
SELECT f.cohort, EXTRACT(YEAR FROM a.admitted) AS year, COUNT(DISTINCT a.patient_id) AS patients FROM firsts f JOIN admissions a ON a.patient_id = f.patient_id GROUP BY 1, 2 ORDER BY 1, 2;

-- Running total of admissions by month.
SELECT month, SUM(n) OVER (ORDER BY month) AS total FROM (SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM admissions GROUP BY 1) m ORDER BY month;

-- Three-month moving average of admissions.
SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM (SELECT DATE_TRUNC('month', admitted) AS month, COUNT(*) AS n FROM admissions GROUP BY 1) m ORDER BY month;

-- Cost deciles of patients: the mean cost of each decile.
-- within: 0.05
SELECT decile, AVG(total) FROM (SELECT patient_id, SUM(cost) AS total, NTILE(10) OVER (ORDER BY SUM(cost)) AS decile FROM admissions GROUP BY patient_id) t GROUP BY decile ORDER BY decile;

-- dialect: snowflake
-- Length of stay in hours, by ward, rounded.
SELECT ward, ROUND(AVG(DATEDIFF('hour', admitted, discharged)), 1) AS hours FROM admissions GROUP BY ward;

-- dialect: snowflake
-- Emergency share with snowflake's functions.
SELECT ward, DIV0(COUNT_IF(kind = 'emergency'), COUNT(*)) AS share FROM admissions GROUP BY ALL;

-- dialect: snowflake
-- First admission of each patient by kind.
SELECT kind, COUNT(*) FROM (SELECT * FROM admissions QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) = 1) GROUP BY kind;

-- dialect: snowflake
-- Median cost by ward.
-- within: 120
SELECT ward, MEDIAN(cost) FROM admissions GROUP BY ward;

-- dialect: bigquery
-- Admissions by month as text.
SELECT FORMAT_DATE('%Y-%m', DATE(admitted)) AS month, COUNT(*) AS n FROM hospital.admissions GROUP BY month ORDER BY month;

-- dialect: bigquery
-- Mean length of stay in days.
SELECT ward, AVG(DATE_DIFF(DATE(discharged), DATE(admitted), DAY)) AS days FROM `hospital.admissions` GROUP BY ward;

-- dialect: bigquery
-- Share of private insurance.
SELECT region, SAFE_DIVIDE(COUNTIF(insurance = 'private'), COUNT(*)) AS share FROM hospital.patients GROUP BY region;

-- dialect: bigquery
-- Median cost.
-- plain: SELECT quantile_disc(cost, 0.5) FROM hospital.admissions
SELECT APPROX_QUANTILES(cost, 2)[OFFSET(1)] AS median FROM hospital.admissions;

-- Every ward's admissions, also wards without any this week.
SELECT w.ward, COUNT(a.admission_id) AS n FROM wards w LEFT JOIN admissions a ON a.ward = w.ward AND a.admitted >= CURRENT_DATE - 7 GROUP BY w.ward ORDER BY w.ward;

-- Every month of 2024, also months without stroke admissions.
SELECT m.month, COUNT(a.admission_id) AS n
FROM generate_series(DATE '2024-01-01', DATE '2024-12-01', INTERVAL '1 month') AS m(month)
LEFT JOIN admissions a ON DATE_TRUNC('month', a.admitted) = m.month AND a.diagnosis = 'I21'
GROUP BY m.month ORDER BY m.month;

-- Patients in hospital on each first of a month (census).
SELECT d.day, COUNT(a.patient_id) AS present
FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-06-01', INTERVAL '1 month') AS d(day)
LEFT JOIN admissions a ON a.admitted <= d.day AND a.discharged > d.day
GROUP BY d.day ORDER BY d.day;

-- Multimorbidity: patients with three or more different chapters.
SELECT COUNT(*) FROM (SELECT a.patient_id FROM admissions a JOIN icd i ON i.code = a.diagnosis GROUP BY a.patient_id HAVING COUNT(DISTINCT i.chapter) >= 3) t;

-- Patients older than 80 or smokers with at least one emergency.
SELECT COUNT(*) FROM patients p WHERE (p.birth_date < DATE '1944-01-01' OR p.smoker) AND EXISTS (SELECT 1 FROM admissions a WHERE a.patient_id = p.patient_id AND a.kind = 'emergency');

-- Patients who are over 80 or have had an infarction.
SELECT COUNT(*) FROM patients p WHERE p.birth_date < DATE '1944-01-01' OR EXISTS (SELECT 1 FROM admissions a WHERE a.patient_id = p.patient_id AND a.diagnosis = 'I21');

-- Share of patients with and without diabetes by region.
SELECT region, patient_id IN (SELECT patient_id FROM admissions WHERE diagnosis = 'E11') AS diabetic, COUNT(*) FROM patients GROUP BY 1, 2;

-- Admissions by diagnosis with its title, grouped by the code alone.
-- plain: SELECT i.code, any_value(i.title), COUNT(*) FROM admissions a JOIN icd i ON i.code = a.diagnosis GROUP BY i.code
SELECT i.code, i.title, COUNT(*) AS n FROM admissions a JOIN icd i ON i.code = a.diagnosis GROUP BY i.code ORDER BY n DESC;

-- Cost of each ward with its department and beds.
SELECT a.ward, ANY_VALUE(w.department) AS department, MAX(w.beds) AS beds, SUM(a.cost) AS cost FROM admissions a LEFT JOIN wards w ON w.ward = a.ward GROUP BY a.ward;

-- Deaths within 30 days of the first of a month, by the day a month later.
SELECT died + INTERVAL '1 month' AS anniversary, COUNT(*) AS deaths FROM patients WHERE died >= DATE '2023-03-01' - INTERVAL '30 days' AND died < DATE '2023-03-01' GROUP BY 1;
