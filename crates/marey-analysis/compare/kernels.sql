-- The processes that have steps, or all if none has: numbers are means over these processes.
WITH counted AS (
    SELECT
        process_id,
        step_count,
        divisor,
        first_nanos,
        last_nanos,
        count(*) OVER () AS process_count
    FROM (SELECT *, max(step_count) OVER () AS most_steps FROM step_summary)
    WHERE step_count > 0 OR most_steps = 0
),
activities AS (
    SELECT
        g.process_id AS process_id,
        g.kind AS kind,
        g.name_id AS name_id,
        g.duration_nanos AS duration_nanos,
        c.divisor AS divisor,
        c.process_count AS process_count,
        c.step_count = 0 AS is_all,
        l.start_nanos IS NOT NULL AS is_launched,
        coalesce(l.start_nanos, g.start_nanos) >= c.first_nanos
            AND coalesce(l.start_nanos, g.start_nanos) < c.last_nanos AS is_in_steps
    FROM raw.gpu_activities AS g
    JOIN counted AS c ON c.process_id = g.process_id
    LEFT JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.kind IN ('kernel', 'memcpy', 'memset')
)
SELECT
    name(name_id) AS name,
    kind,
    gpu_class(kind, name(name_id)) AS class,
    sum(CAST(activity_count AS DOUBLE) / divisor / process_count) AS count,
    sum(CAST(duration_nanos AS DOUBLE) / divisor / process_count) AS total_nanos
FROM (
    SELECT
        kind,
        name_id,
        divisor,
        process_count,
        is_all OR is_in_steps AS is_counted,
        is_all OR is_launched AS is_certain,
        bool_or(is_launched) OVER (PARTITION BY process_id) AS is_launch_known,
        activity_count,
        duration_nanos
    FROM (
        SELECT
            process_id,
            kind,
            name_id,
            divisor,
            process_count,
            is_all,
            is_launched,
            is_in_steps,
            count(*) AS activity_count,
            sum(duration_nanos) AS duration_nanos
        FROM activities
        GROUP BY process_id, kind, name_id, divisor, process_count, is_all, is_launched, is_in_steps
    )
)
-- In a process whose launches are known, an activity without one was launched before the recording: in no step.
WHERE is_counted AND (is_certain OR NOT is_launch_known)
GROUP BY name_id, kind
