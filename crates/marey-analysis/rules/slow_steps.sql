WITH outliers AS (
    SELECT
        process_id,
        count(*) AS outlier_count,
        sum(deviation_nanos) AS excess_nanos,
        first_value(number ORDER BY duration_nanos DESC, number) AS worst_number,
        first_value(start_nanos ORDER BY duration_nanos DESC, number) AS worst_start,
        max(duration_nanos) AS worst_nanos,
        max(median_nanos) AS median_nanos,
        string_agg(CAST(number AS VARCHAR), ', ' ORDER BY number) FILTER (WHERE position <= 10) AS numbers
    FROM (
        SELECT
            *,
            row_number() OVER (PARTITION BY process_id ORDER BY number, start_nanos) AS position
        FROM step_times
        WHERE is_outlier
    ) AS t
    GROUP BY process_id
),
shares AS (
    SELECT
        o.*,
        o.excess_nanos / s.divisor AS impact_nanos,
        100.0 * o.excess_nanos / s.window_nanos AS impact_percent,
        s.step_count AS step_count,
        s.first_nanos AS first_nanos,
        s.last_nanos AS last_nanos,
        s.pid AS pid,
        s.rank AS rank
    FROM outliers AS o
    INNER JOIN step_summary AS s ON s.process_id = o.process_id
    WHERE s.window_nanos > 0 AND s.step_count >= {min_steps}
),
-- The exclusive time of each span name in the slowest step, less the mean of the other steps. Steps share a
-- name, which stands for time outside all other spans.
growths AS (
    SELECT
        process_id,
        name_id,
        kind,
        worst_self_nanos - CAST(self_nanos - worst_self_nanos AS DOUBLE) / (step_count - 1) AS growth_nanos
    FROM (
        SELECT
            g.process_id AS process_id,
            c.name_id AS name_id,
            c.kind AS kind,
            g.step_count AS step_count,
            sum(g.self_nanos) AS self_nanos,
            sum(g.worst_self_nanos) AS worst_self_nanos
        FROM (
            SELECT
                s.thread_id AS thread_id,
                s.context_id AS context_id,
                max(t.process_id) AS process_id,
                max(t.step_count) AS step_count,
                sum(s.self_nanos) AS self_nanos,
                sum(
                    CASE
                        WHEN s.start_nanos >= t.worst_start AND s.start_nanos < t.worst_start + t.worst_nanos
                        THEN s.self_nanos
                        ELSE 0
                    END
                ) AS worst_self_nanos
            FROM spans AS s
            INNER JOIN (
                SELECT
                    t.id AS id,
                    w.*
                FROM raw.threads AS t
                INNER JOIN shares AS w ON w.process_id = t.process_id
            ) AS t ON t.id = s.thread_id
            WHERE s.start_nanos >= t.first_nanos AND s.start_nanos < t.last_nanos
            GROUP BY s.thread_id, s.context_id
        ) AS g
        INNER JOIN raw.contexts AS c ON c.id = g.context_id
        GROUP BY g.process_id, c.name_id, c.kind, g.step_count
    ) AS n
),
causes AS (
    SELECT
        process_id,
        first_value(name_id ORDER BY growth_nanos DESC, name_id) AS name_id,
        first_value(kind ORDER BY growth_nanos DESC, name_id) AS kind,
        max(growth_nanos) AS growth_nanos
    FROM growths
    WHERE growth_nanos > 0
    GROUP BY process_id
)
SELECT
    concat('step ', CAST(s.worst_number AS VARCHAR)) AS subject,
    CAST(
        CASE
            WHEN s.impact_percent > {high_percent} THEN 'high'
            WHEN s.impact_percent >= {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    s.impact_nanos AS impact_nanos,
    s.impact_percent AS impact_percent,
    s.impact_nanos AS gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    s.rank AS rank,
    s.process_id AS process_id,
    s.outlier_count AS outlier_count,
    s.step_count AS step_count,
    s.numbers AS numbers,
    s.worst_number AS worst_number,
    s.worst_nanos AS worst_nanos,
    s.median_nanos AS median_nanos,
    coalesce(name(c.name_id), 'unknown') AS grown_name,
    coalesce(c.kind, 'unknown') AS grown_kind,
    coalesce(c.growth_nanos, 0.0) AS grown_nanos,
    s.pid AS pid
FROM shares AS s
LEFT JOIN causes AS c ON c.process_id = s.process_id
WHERE s.impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, s.process_id
LIMIT 5
