-- Headcount by department.
SELECT department, COUNT(*) AS headcount FROM employees WHERE left_on IS NULL GROUP BY department ORDER BY headcount DESC;

-- Average salary by department and gender.
SELECT department, gender, AVG(salary) AS mean_salary, COUNT(*) FROM employees GROUP BY department, gender;

-- Median salary by title.
-- within: 4000
SELECT title, percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) AS median FROM employees GROUP BY title;

-- Gender pay gap.
SELECT (AVG(salary) FILTER (WHERE gender = 'm') - AVG(salary) FILTER (WHERE gender = 'f')) / AVG(salary) FILTER (WHERE gender = 'm') AS gap FROM employees;

-- Pay gap by title.
SELECT title, 1 - AVG(CASE WHEN gender = 'f' THEN salary END) / NULLIF(AVG(CASE WHEN gender = 'm' THEN salary END), 0) AS gap FROM employees GROUP BY title;

-- Hires per year.
SELECT EXTRACT(YEAR FROM hired) AS year, COUNT(*) AS hires FROM employees GROUP BY year ORDER BY year;

-- Hires and leavers per year side by side.
WITH h AS (SELECT EXTRACT(YEAR FROM hired) AS y, COUNT(*) AS n FROM employees GROUP BY 1), l AS (SELECT EXTRACT(YEAR FROM left_on) AS y, COUNT(*) AS n FROM employees WHERE left_on IS NOT NULL GROUP BY 1)
SELECT COALESCE(h.y, l.y) AS year, COALESCE(h.n, 0) AS hires, COALESCE(l.n, 0) AS leavers FROM h FULL JOIN l ON l.y = h.y ORDER BY 1;

-- Attrition rate of 2024 by department.
SELECT department, COUNT(*) FILTER (WHERE left_on >= DATE '2024-01-01') * 1.0 / COUNT(*) FILTER (WHERE left_on IS NULL OR left_on >= DATE '2024-01-01') AS attrition FROM employees GROUP BY department;

-- Tenure in years, mean by department.
SELECT department, AVG((COALESCE(left_on, DATE '2024-12-31') - hired) / 365.25) AS tenure FROM employees GROUP BY department;

-- Tenure with AGE.
SELECT department, AVG(EXTRACT(YEAR FROM AGE(COALESCE(left_on, DATE '2024-12-31'), hired))) AS years FROM employees GROUP BY department;

-- Headcount at the end of each month of 2024.
SELECT m.month_end, COUNT(*) AS headcount FROM (VALUES (DATE '2024-03-31'), (DATE '2024-06-30'), (DATE '2024-09-30'), (DATE '2024-12-31')) AS m(month_end) JOIN employees e ON e.hired <= m.month_end AND (e.left_on IS NULL OR e.left_on > m.month_end) GROUP BY m.month_end ORDER BY 1;

-- Headcount at each month's start with generate_series.
SELECT m::date AS month, COUNT(e.emp_id) AS headcount FROM generate_series('2024-01-01'::date, '2024-12-01'::date, interval '1 month') AS m LEFT JOIN employees e ON e.hired <= m AND (e.left_on IS NULL OR e.left_on > m) GROUP BY 1 ORDER BY 1;

-- Age pyramid.
SELECT gender, FLOOR((2024 - birth_year) / 10.0) * 10 AS age_band, COUNT(*) FROM employees GROUP BY 1, 2 ORDER BY 2, 1;

-- Employees near retirement by department.
SELECT department, COUNT(*) FROM employees WHERE 2024 - birth_year >= 60 AND left_on IS NULL GROUP BY department;

-- Salary bands.
SELECT CASE WHEN salary < 40000 THEN '<40k' WHEN salary < 80000 THEN '40-80k' WHEN salary < 120000 THEN '80-120k' ELSE '120k+' END AS band, COUNT(*) FROM employees GROUP BY 1;

-- Payroll against budget by division.
SELECT d.division, SUM(e.salary) AS payroll, SUM(e.salary) * 1.0 / MAX(d.budget) AS share FROM employees e JOIN departments d USING (department) GROUP BY d.division;

-- Payroll and the budget of each department.
SELECT d.department, d.budget, SUM(e.salary) AS payroll, d.budget - SUM(e.salary) AS left_over FROM departments d JOIN employees e ON e.department = d.department GROUP BY d.department, d.budget;

-- Who earns most?
-- refused: UnsupportedQueryError: the result would hold rows of single privacy units (employee)
-- right: rows of single people
SELECT emp_id, salary FROM employees ORDER BY salary DESC LIMIT 5;

-- Employees who earn more than their department's average.
SELECT COUNT(*) FROM employees e WHERE salary > (SELECT AVG(x.salary) FROM employees x WHERE x.department = e.department);

-- Employees above the overall average, by gender.
SELECT gender, AVG(CASE WHEN salary > (SELECT AVG(salary) FROM employees) THEN 1.0 ELSE 0.0 END) AS above FROM employees GROUP BY gender;

-- Employees above the median salary.
SELECT COUNT(*) FROM employees WHERE salary > (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) FROM employees);

-- Salary compared to the department's average with a window.
SELECT title, AVG(salary - dept_avg) FROM (SELECT title, salary, AVG(salary) OVER (PARTITION BY department) AS dept_avg FROM employees) t GROUP BY title;

-- Rank of departments by mean salary.
SELECT department, AVG(salary) AS mean_salary, RANK() OVER (ORDER BY AVG(salary) DESC) AS place FROM employees GROUP BY department ORDER BY place;

-- Salary quartile of each gender.
-- chosen: the limits between quartiles are chosen among values
SELECT q, gender, COUNT(*) FROM (SELECT gender, NTILE(4) OVER (ORDER BY salary) AS q FROM employees) t GROUP BY q, gender ORDER BY q, gender;

-- Managers by span of control: how many reports have managers on average?
SELECT AVG(n) FROM (SELECT manager_id, COUNT(*) AS n FROM employees WHERE manager_id IS NOT NULL GROUP BY manager_id) t;

-- Employees who earn more than their manager.
-- refused: UnsupportedQueryError: a join of private tables must equate their privacy units (employee); otherwise rows of different people meet
-- right: one person's row would decide whether another's is counted
SELECT COUNT(*) FROM employees e JOIN employees m ON e.manager_id = m.emp_id WHERE e.salary > m.salary;

-- Sick days per employee and department in 2024.
SELECT e.department, SUM(a.to_day - a.from_day + 1) * 1.0 / COUNT(DISTINCT e.emp_id) AS days_each FROM employees e LEFT JOIN absences a ON a.emp_id = e.emp_id AND a.kind = 'sick' AND a.from_day >= DATE '2024-01-01' GROUP BY e.department;

-- Absence days by kind and quarter.
SELECT kind, DATE_TRUNC('quarter', from_day)::date AS quarter, SUM(to_day - from_day + 1) AS days FROM absences GROUP BY 1, 2 ORDER BY 1, 2;

-- Bradford factor: mean of spells squared times days.
SELECT AVG(CLAMP(spells * spells * days, 0, 5000)) FROM (SELECT emp_id, COUNT(*) AS spells, SUM(to_day - from_day + 1) AS days FROM absences WHERE kind = 'sick' GROUP BY emp_id) b;

-- Employees never absent.
SELECT COUNT(*) FROM employees WHERE emp_id NOT IN (SELECT emp_id FROM absences);

-- Monday sickness.
SELECT EXTRACT(ISODOW FROM from_day) AS weekday, COUNT(*) FROM absences WHERE kind = 'sick' GROUP BY 1 ORDER BY 1;

-- Mean review score by department and year.
SELECT e.department, r.year, AVG(r.score) AS score FROM reviews r JOIN employees e ON e.emp_id = r.emp_id GROUP BY e.department, r.year ORDER BY 1, 2;

-- Distribution of scores of 2024 with shares.
SELECT score, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM reviews WHERE year = 2024 GROUP BY score ORDER BY score;

-- Improvement from 2023 to 2024 of the same person.
SELECT AVG(b.score - a.score) AS change FROM reviews a JOIN reviews b ON a.emp_id = b.emp_id WHERE a.year = 2023 AND b.year = 2024;

-- Improvement with LAG.
SELECT year, AVG(change) FROM (SELECT year, score - LAG(score) OVER (PARTITION BY emp_id ORDER BY year) AS change FROM reviews) t WHERE change IS NOT NULL GROUP BY year ORDER BY year;

-- Do trained people get better reviews?
SELECT t.emp_id IS NOT NULL AS trained, AVG(r.score) FROM reviews r LEFT JOIN (SELECT DISTINCT emp_id FROM trainings WHERE course = 'leadership') t ON t.emp_id = r.emp_id WHERE r.year = 2024 GROUP BY 1;

-- Training hours per head by department.
SELECT e.department, COALESCE(SUM(t.hours), 0) / COUNT(DISTINCT e.emp_id) AS hours FROM employees e LEFT JOIN trainings t ON t.emp_id = e.emp_id GROUP BY e.department;

-- Employees who did the safety course but not sql.
SELECT COUNT(*) FROM (SELECT emp_id FROM trainings WHERE course = 'safety' EXCEPT SELECT emp_id FROM trainings WHERE course = 'sql') t;

-- Employees by number of courses.
SELECT courses, COUNT(*) FROM (SELECT e.emp_id, COUNT(DISTINCT t.course) AS courses FROM employees e LEFT JOIN trainings t ON t.emp_id = e.emp_id GROUP BY e.emp_id) c GROUP BY courses ORDER BY courses;

-- Correlation of salary and score.
SELECT CORR(e.salary, r.score) FROM employees e JOIN reviews r ON r.emp_id = e.emp_id WHERE r.year = 2024;

-- Slope of salary over tenure years.
-- within: 1
SELECT REGR_SLOPE(salary, 2024 - EXTRACT(YEAR FROM hired)) FROM employees;

-- Standard deviation of salary by title.
SELECT title, STDDEV_SAMP(salary) AS sd, VAR_POP(salary) FROM employees GROUP BY title;

-- Share of part-time by gender.
SELECT gender, AVG(part_time::int) AS share FROM employees GROUP BY gender;

-- Share of women among leads and managers.
SELECT SUM(CASE WHEN gender = 'f' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) FROM employees WHERE title IN ('lead', 'manager');

-- Sites and their headcount.
SELECT site, COUNT(*) FROM employees GROUP BY site ORDER BY COUNT(*) DESC LIMIT 2;

-- Highest and lowest paid title.
SELECT title, MAX(avg_salary) FROM (SELECT title, AVG(salary) AS avg_salary FROM employees GROUP BY title) t GROUP BY title ORDER BY 2 DESC LIMIT 1;

-- Departments with more than 30 people.
SELECT department FROM employees GROUP BY department HAVING COUNT(*) > 30;

-- Mean salary in departments with more than 30 people.
SELECT AVG(salary) FROM employees WHERE department IN (SELECT department FROM employees GROUP BY department HAVING COUNT(*) > 30);

-- Titles per department as text.
-- refused: UnsupportedQueryError: this expression is not supported
-- right: a list of texts shows single people; GROUP BY department, title is answered
SELECT department, STRING_AGG(DISTINCT title, ', ') FROM employees GROUP BY department;

-- Was every manager reviewed? Count of those without a review in 2024.
SELECT COUNT(*) FROM employees e WHERE title = 'manager' AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.emp_id = e.emp_id AND r.year = 2024);

-- Employees by decade of hiring.
-- plain: SELECT EXTRACT(YEAR FROM hired) // 10 * 10 AS decade, COUNT(*) FROM employees GROUP BY 1
SELECT (EXTRACT(YEAR FROM hired)::int / 10) * 10 AS decade, COUNT(*) FROM employees GROUP BY 1;

-- Anniversaries this month.
SELECT COUNT(*) FROM employees WHERE EXTRACT(MONTH FROM hired) = EXTRACT(MONTH FROM CURRENT_DATE);

-- Time to first training.
SELECT AVG(first_day - hired) AS days FROM (SELECT e.emp_id, e.hired, MIN(t.finished) AS first_day FROM employees e JOIN trainings t ON t.emp_id = e.emp_id WHERE t.finished >= e.hired GROUP BY e.emp_id, e.hired) f;

-- dialect: snowflake
-- Salary by department, thousands.
-- within: 1000
SELECT department, ROUND(AVG(salary) / 1000, 1) AS k, MEDIAN(salary) AS med FROM employees GROUP BY department;

-- dialect: snowflake
-- Tenure by department.
SELECT department, AVG(DATEDIFF(year, hired, COALESCE(left_on, '2024-12-31'::date))) AS tenure FROM employees GROUP BY 1;

-- dialect: snowflake
-- Gender by title as a pivot.
SELECT title, COUNT_IF(gender = 'f') AS f, COUNT_IF(gender = 'm') AS m, COUNT_IF(gender = 'x') AS x FROM employees GROUP BY title ORDER BY title;

-- dialect: snowflake
-- Hires by month name of 2023.
SELECT MONTHNAME(hired) AS month, COUNT(*) FROM employees WHERE YEAR(hired) = 2023 GROUP BY 1;

-- dialect: bigquery
-- Mean score by title.
SELECT title, AVG(score) AS score FROM company.reviews JOIN company.employees USING (emp_id) GROUP BY title;

-- dialect: bigquery
-- Age groups.
-- plain: SELECT (2024 - birth_year) // 10 * 10 AS age, COUNT(*) AS n FROM employees GROUP BY age
SELECT DIV(2024 - birth_year, 10) * 10 AS age, COUNT(*) AS n FROM company.employees GROUP BY age ORDER BY age;

-- dialect: bigquery
-- Absences by month.
SELECT DATE_TRUNC(from_day, MONTH) AS month, COUNT(*) AS n, COUNT(DISTINCT emp_id) AS people FROM company.absences GROUP BY 1;

-- Salaries grouped by tens of thousands with shares.
-- plain: SELECT salary // 10000 * 10000 AS band, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM employees GROUP BY 1
SELECT salary / 10000 * 10000 AS band, COUNT(*) AS n, COUNT(*)::numeric / SUM(COUNT(*)) OVER () AS share FROM employees GROUP BY 1 ORDER BY 1;

-- Percent of employees by title within department.
SELECT department, title, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (PARTITION BY department) AS pct FROM employees GROUP BY department, title;
