-- The kernels of each device within the steps, by name, and how long the device was busy meanwhile.
WITH activities AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        g.kind AS kind,
        g.name_id AS name_id,
        g.start_nanos AS start_nanos,
        g.duration_nanos AS duration_nanos,
        s.divisor AS divisor,
        s.window_nanos AS window_nanos
    FROM raw.gpu_activities AS g
    JOIN step_summary AS s ON s.process_id = g.process_id
    WHERE g.kind IN ('kernel', 'memcpy', 'memset')
        AND (s.step_count = 0 OR (g.start_nanos >= s.first_nanos AND g.start_nanos < s.last_nanos))
),
busy AS (
    SELECT
        process_id,
        device,
        union_nanos(start_nanos, start_nanos + duration_nanos) AS busy_nanos
    FROM activities
    GROUP BY process_id, device
)
SELECT
    k.process_id AS process_id,
    k.device AS device,
    k.divisor AS divisor,
    k.window_nanos AS window_nanos,
    name(k.name_id) AS name,
    k.count AS count,
    k.total_nanos AS total_nanos,
    b.busy_nanos AS busy_nanos
FROM (
    SELECT
        process_id,
        device,
        divisor,
        window_nanos,
        name_id,
        count(*) AS count,
        sum(duration_nanos) AS total_nanos
    FROM activities
    WHERE kind = 'kernel'
    GROUP BY process_id, device, divisor, window_nanos, name_id
) AS k
JOIN busy AS b ON b.process_id = k.process_id AND b.device = k.device
