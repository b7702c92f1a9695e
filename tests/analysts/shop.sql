-- Revenue by month.
SELECT DATE_TRUNC('month', ordered_at)::date AS month, SUM(total) AS revenue FROM orders WHERE status <> 'cancelled' GROUP BY 1 ORDER BY 1;

-- Revenue, orders and average order value by channel.
SELECT channel, SUM(total) AS revenue, COUNT(*) AS orders, AVG(total) AS aov FROM orders GROUP BY channel;

-- Average order value, rounded to cents.
SELECT ROUND(AVG(total), 2) AS aov FROM orders;

-- Customers by country and segment.
SELECT country, segment, COUNT(*) FROM customers GROUP BY country, segment ORDER BY 1, 2;

-- Which five products sold best?
SELECT p.name, SUM(oi.quantity) AS sold FROM order_items oi JOIN products p ON p.product_id = oi.product_id GROUP BY p.name ORDER BY sold DESC LIMIT 5;

-- Revenue by category and its share.
SELECT p.category, SUM(oi.quantity * oi.price) AS revenue, SUM(oi.quantity * oi.price) / SUM(SUM(oi.quantity * oi.price)) OVER () AS share FROM order_items oi JOIN products p USING (product_id) GROUP BY p.category;

-- Products that were never sold.
-- refused: UnsupportedQueryError: WHERE on the private side would remove the rows that this join keeps
-- right: whether somebody bought a thing is a fact about single people; counts of each are answered
SELECT p.product_id FROM products p LEFT JOIN order_items oi ON oi.product_id = p.product_id WHERE oi.product_id IS NULL;

-- How much sold each product, including those not sold at all?
SELECT p.product_id, p.name, COALESCE(SUM(oi.quantity), 0) AS sold FROM products p LEFT JOIN order_items oi ON oi.product_id = p.product_id GROUP BY p.product_id, p.name ORDER BY p.product_id;

-- Number of orders per product with COUNT(*).
-- refused: UnsupportedQueryError: this COUNT would also count rows without a matching private row, which the join keeps
-- right: COUNT(*) counts a product that nobody bought as an order; COUNT(oi.product_id) and counts by product are answered
SELECT p.category, COUNT(*) AS n FROM products p LEFT JOIN order_items oi ON oi.product_id = p.product_id GROUP BY p.category;

-- Top product of each category.
SELECT category, name, sold FROM (
  SELECT p.category, p.name, SUM(oi.quantity) AS sold, ROW_NUMBER() OVER (PARTITION BY p.category ORDER BY SUM(oi.quantity) DESC) AS rn
  FROM order_items oi JOIN products p USING (product_id) GROUP BY p.category, p.name) t
WHERE rn = 1;

-- Repeat customers: how many ordered more than once?
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) > 1) r;

-- Repeat rate.
SELECT COUNT(CASE WHEN n > 1 THEN 1 END) * 1.0 / COUNT(*) AS repeat_rate FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) c;

-- Customer lifetime value by country.
SELECT c.country, AVG(v.spent) AS ltv FROM customers c JOIN (SELECT customer_id, SUM(total) AS spent FROM orders GROUP BY customer_id) v ON v.customer_id = c.customer_id GROUP BY c.country;

-- Lifetime value, with customers who never bought as zero.
SELECT c.country, AVG(COALESCE(v.spent, 0)) AS ltv FROM customers c LEFT JOIN (SELECT customer_id, SUM(total) AS spent FROM orders GROUP BY customer_id) v ON v.customer_id = c.customer_id GROUP BY c.country;

-- Days from joining to the first order, median.
-- within: 2
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY days) FROM (SELECT MIN(o.ordered_at)::date - c.joined AS days FROM customers c JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.customer_id, c.joined) t;

-- Cohort retention: customers by quarter of joining who ordered in 2024.
SELECT DATE_TRUNC('quarter', c.joined) AS cohort, COUNT(*) AS customers, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.ordered_at >= '2024-01-01')) AS active FROM customers c GROUP BY 1 ORDER BY 1;

-- RFM: customers by number of orders and recency.
WITH rfm AS (SELECT customer_id, MAX(ordered_at)::date AS last_order, COUNT(*) AS frequency, SUM(total) AS monetary FROM orders GROUP BY customer_id)
SELECT CASE WHEN last_order >= DATE '2024-07-01' THEN 'recent' ELSE 'lapsed' END AS recency, CASE WHEN frequency >= 4 THEN 'often' ELSE 'seldom' END AS freq, COUNT(*) AS customers, AVG(monetary) AS spent FROM rfm GROUP BY 1, 2;

-- RFM quintiles.
WITH r AS (SELECT customer_id, SUM(total) AS m FROM orders GROUP BY customer_id), q AS (SELECT m, NTILE(5) OVER (ORDER BY m) AS quintile FROM r)
SELECT quintile, COUNT(*), SUM(m) FROM q GROUP BY quintile ORDER BY quintile;

-- Share of revenue of the top tenth of customers.
-- within: 0.1
WITH c AS (SELECT customer_id, SUM(total) AS m, PERCENT_RANK() OVER (ORDER BY SUM(total) DESC) AS pr FROM orders GROUP BY customer_id)
SELECT SUM(CASE WHEN pr <= 0.1 THEN m END) / SUM(m) FROM c;

-- Orders above the customer's own average.
SELECT COUNT(*) FROM orders o WHERE total > (SELECT AVG(i.total) FROM orders i WHERE i.customer_id = o.customer_id);

-- Orders above the overall average, by channel.
SELECT channel, COUNT(*) FROM orders WHERE total > (SELECT AVG(total) FROM orders) GROUP BY channel;

-- Customers who spent more than the average customer.
WITH spent AS (SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id)
SELECT COUNT(*) FROM spent WHERE s > (SELECT AVG(s) FROM spent);

-- Daily orders of December 2024, also days without any.
SELECT d::date AS day, COUNT(o.order_id) AS orders FROM generate_series('2024-12-01'::date, '2024-12-31'::date, '1 day'::interval) d LEFT JOIN orders o ON o.ordered_at::date = d::date GROUP BY 1 ORDER BY 1;

-- Year over year revenue by month.
SELECT EXTRACT(MONTH FROM ordered_at) AS month, SUM(total) FILTER (WHERE EXTRACT(YEAR FROM ordered_at) = 2023) AS y2023, SUM(total) FILTER (WHERE EXTRACT(YEAR FROM ordered_at) = 2024) AS y2024 FROM orders GROUP BY 1 ORDER BY 1;

-- Year over year growth with LAG over twelve months.
WITH m AS (SELECT DATE_TRUNC('month', ordered_at) AS month, SUM(total) AS revenue FROM orders GROUP BY 1)
SELECT month, revenue, revenue / NULLIF(LAG(revenue, 12) OVER (ORDER BY month), 0) - 1 AS growth FROM m ORDER BY month;

-- Cumulative revenue of 2024.
SELECT month, SUM(revenue) OVER (ORDER BY month) AS ytd FROM (SELECT EXTRACT(MONTH FROM ordered_at) AS month, SUM(total) AS revenue FROM orders WHERE ordered_at >= DATE '2024-01-01' GROUP BY 1) t ORDER BY month;

-- Return rate by category.
SELECT p.category, AVG((o.status = 'returned')::int) AS return_rate FROM orders o JOIN order_items oi ON oi.order_id = o.order_id JOIN products p ON p.product_id = oi.product_id GROUP BY p.category;

-- Time to ship in hours: mean and 90th percentile by channel.
-- within: 8
SELECT channel, AVG(EXTRACT(EPOCH FROM shipped_at - ordered_at) / 3600) AS mean_hours, percentile_cont(0.9) WITHIN GROUP (ORDER BY EXTRACT(EPOCH FROM shipped_at - ordered_at) / 3600) AS p90 FROM orders WHERE shipped_at IS NOT NULL GROUP BY channel;

-- Orders shipped late (more than a week).
SELECT COUNT(*) FROM orders WHERE shipped_at - ordered_at > INTERVAL '7 days';

-- Coupon use by segment.
SELECT c.segment, o.coupon, COUNT(*) FROM orders o JOIN customers c ON c.customer_id = o.customer_id GROUP BY c.segment, o.coupon;

-- Orders with any coupon, as a share.
SELECT AVG(CASE WHEN coupon IS NOT NULL THEN 1.0 ELSE 0 END) FROM orders;

-- Products bought together: pairs in the same order.
SELECT a.product_id, b.product_id AS other, COUNT(*) AS n FROM order_items a JOIN order_items b ON a.order_id = b.order_id AND a.product_id < b.product_id GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 10;

-- Basket size: mean number of items per order.
SELECT AVG(n) FROM (SELECT order_id, COUNT(*) AS n FROM order_items GROUP BY order_id) b;

-- Orders by hour and day of week (heat map).
SELECT EXTRACT(DOW FROM ordered_at) AS dow, EXTRACT(HOUR FROM ordered_at) AS hour, COUNT(*) AS n FROM orders GROUP BY 1, 2;

-- Customers by city.
SELECT city, COUNT(*) FROM customers GROUP BY city HAVING COUNT(*) > 10 ORDER BY 2 DESC;

-- Does the newsletter go with more orders?
SELECT c.newsletter, COUNT(o.order_id) * 1.0 / COUNT(DISTINCT c.customer_id) AS orders_each FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.newsletter;

-- Customers who bought both toys and books.
SELECT COUNT(*) FROM (
  SELECT o.customer_id FROM orders o JOIN order_items oi ON oi.order_id = o.order_id JOIN products p ON p.product_id = oi.product_id
  WHERE p.category IN ('toys', 'books') GROUP BY o.customer_id HAVING COUNT(DISTINCT p.category) = 2) t;

-- Customers with an order in 2023 but none in 2024 (churned).
SELECT COUNT(DISTINCT customer_id) FROM orders WHERE EXTRACT(YEAR FROM ordered_at) = 2023 AND customer_id NOT IN (SELECT customer_id FROM orders WHERE EXTRACT(YEAR FROM ordered_at) = 2024);

-- First channel of each customer.
SELECT first_channel, COUNT(*) FROM (SELECT DISTINCT customer_id, FIRST_VALUE(channel) OVER (PARTITION BY customer_id ORDER BY ordered_at) AS first_channel FROM orders) t GROUP BY first_channel;

-- Switchers: customers whose last channel differs from their first.
WITH e AS (SELECT customer_id, FIRST_VALUE(channel) OVER w AS f, LAST_VALUE(channel) OVER w AS l FROM orders WINDOW w AS (PARTITION BY customer_id ORDER BY ordered_at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))
SELECT COUNT(DISTINCT customer_id) FROM e WHERE f <> l;

-- Mean days between orders of one customer.
SELECT AVG(gap) FROM (SELECT ordered_at::date - LAG(ordered_at::date) OVER (PARTITION BY customer_id ORDER BY ordered_at) AS gap FROM orders) g;

-- Histogram of order totals in steps of 100.
SELECT FLOOR(total / 100) * 100 AS bucket, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1;

-- Histogram with WIDTH_BUCKET.
-- plain: SELECT FLOOR(total / 100)::BIGINT + 1 AS bucket, COUNT(*) FROM orders GROUP BY bucket
SELECT WIDTH_BUCKET(total, 0, 2000, 20) AS bucket, COUNT(*) FROM orders GROUP BY bucket ORDER BY bucket;

-- The largest and smallest order by channel.
-- chosen: values near the ends
SELECT channel, MIN(total), MAX(total) FROM orders GROUP BY channel;

-- The largest ten orders.
-- refused: UnsupportedQueryError: the result would hold rows of single privacy units (customer)
-- right: rows of single people
SELECT order_id, total FROM orders ORDER BY total DESC LIMIT 10;

-- Country of each region as Tableau's ATTR.
SELECT segment, MIN(country) AS a, MAX(country) AS b FROM customers GROUP BY segment;

-- Which countries buy at all? All rows once.
SELECT DISTINCT c.country FROM customers c JOIN orders o ON o.customer_id = c.customer_id;

-- Age groups of ten years.
-- plain: SELECT (age // 10) * 10 AS decade, COUNT(*) AS n, AVG(age) FROM customers WHERE age IS NOT NULL GROUP BY 1
SELECT (age / 10) * 10 AS decade, COUNT(*) AS n, AVG(age) FROM customers WHERE age IS NOT NULL GROUP BY 1 ORDER BY 1;

-- Customers by age group and country as a pivot.
SELECT country, SUM(CASE WHEN age < 30 THEN 1 ELSE 0 END) AS young, SUM(CASE WHEN age BETWEEN 30 AND 59 THEN 1 ELSE 0 END) AS middle, SUM(CASE WHEN age >= 60 THEN 1 ELSE 0 END) AS old FROM customers GROUP BY country;

-- Countries where average order value is above the overall one.
WITH by_country AS (SELECT c.country, AVG(o.total) AS aov FROM orders o JOIN customers c USING (customer_id) GROUP BY c.country)
SELECT country, aov FROM by_country WHERE aov > (SELECT AVG(total) FROM orders) ORDER BY aov DESC;

-- Discount: mean difference of list price and price paid by category.
SELECT p.category, AVG(p.list_price - oi.price) AS discount FROM order_items oi JOIN products p ON p.product_id = oi.product_id GROUP BY p.category;

-- dialect: snowflake
-- Revenue by month with NVL and IFF.
SELECT DATE_TRUNC('month', ordered_at) AS month, SUM(IFF(status = 'returned', 0, NVL(total, 0))) AS net FROM orders GROUP BY 1 ORDER BY 1;

-- dialect: snowflake
-- Share of revenue by channel.
-- plain: SELECT channel, SUM(total) / SUM(SUM(total)) OVER () FROM orders GROUP BY channel
SELECT channel, RATIO_TO_REPORT(SUM(total)) OVER () AS share FROM orders GROUP BY channel;

-- dialect: snowflake
-- Mean order value by country.
SELECT c.country, ROUND(AVG(o.total), 2) AS aov FROM orders o INNER JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.country;

-- dialect: snowflake
-- Second orders within 60 days of the first.
WITH o AS (SELECT customer_id, ordered_at, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY ordered_at) AS n, LAG(ordered_at) OVER (PARTITION BY customer_id ORDER BY ordered_at) AS prev FROM orders)
SELECT COUNT_IF(DATEDIFF(day, prev, ordered_at) <= 60) / COUNT(*) AS share FROM o WHERE n = 2;

-- dialect: snowflake
-- Customers by month of joining.
-- plain: SELECT strftime(joined, '%Y-%m') AS month, COUNT(*) FROM customers GROUP BY 1
SELECT TO_VARCHAR(joined, 'YYYY-MM') AS month, COUNT(*) FROM customers GROUP BY 1;

-- dialect: bigquery
-- Orders by week.
SELECT DATE_TRUNC(DATE(ordered_at), WEEK(MONDAY)) AS week, COUNT(*) AS n FROM `shop.orders` GROUP BY week ORDER BY week;

-- dialect: bigquery
-- Share of app orders by country.
SELECT country, COUNTIF(channel = 'app') / COUNT(*) AS share FROM shop.orders JOIN shop.customers USING (customer_id) GROUP BY country;

-- dialect: bigquery
-- Active customers by month: distinct.
SELECT FORMAT_TIMESTAMP('%Y-%m', ordered_at) AS month, COUNT(DISTINCT customer_id) AS active FROM shop.orders GROUP BY 1;

-- dialect: bigquery
-- Orders before noon by day of week.
-- plain: SELECT DAYOFWEEK(ordered_at) + 1 AS dow, COUNT(*) FROM orders WHERE HOUR(ordered_at) < 12 GROUP BY dow
SELECT EXTRACT(DAYOFWEEK FROM ordered_at) AS dow, COUNT(*) FROM shop.orders WHERE EXTRACT(HOUR FROM ordered_at) < 12 GROUP BY dow;

-- dialect: bigquery
-- Sales on each day of the last week of 2024, days without sales too.
SELECT day, COUNT(o.order_id) AS n FROM UNNEST(GENERATE_DATE_ARRAY('2024-12-24', '2024-12-31')) AS day LEFT JOIN shop.orders o ON DATE(o.ordered_at) = day GROUP BY day ORDER BY day;

-- Label of customers: country and segment in one text.
SELECT CONCAT_WS('/', country, segment) AS label, COUNT(*) FROM customers GROUP BY 1;

-- Full names of weekdays.
-- plain: SELECT DAYNAME(ordered_at) AS weekday, COUNT(*) FROM orders GROUP BY 1
SELECT TO_CHAR(ordered_at, 'FMDay') AS weekday, COUNT(*) FROM orders GROUP BY 1;

-- Quarters as text.
-- plain: SELECT YEAR(ordered_at) || 'Q' || QUARTER(ordered_at) AS quarter, SUM(total) FROM orders GROUP BY 1
SELECT TO_CHAR(ordered_at, 'YYYY"Q"Q') AS quarter, SUM(total) FROM orders GROUP BY 1 ORDER BY 1;

-- How many different products does a customer buy?
SELECT AVG(n) FROM (SELECT o.customer_id, COUNT(DISTINCT oi.product_id) AS n FROM orders o JOIN order_items oi USING (order_id) GROUP BY o.customer_id) t;

-- Pieces sold of each product, with its name and category.
SELECT p.product_id, ANY_VALUE(p.name) AS name, MIN(p.category) AS category, SUM(oi.quantity) AS pieces FROM order_items oi JOIN products p ON p.product_id = oi.product_id GROUP BY p.product_id ORDER BY pieces DESC;

-- All orders as one group with a label.
SELECT 'all orders' AS label, COUNT(*) AS n, AVG(total) AS mean FROM orders GROUP BY 'all orders';
