-- Over the steps; for a process without steps, over the whole recording.
WITH devices AS (
    SELECT
        process_id,
        device,
        sum(exposed_communication_nanos) AS exposed_nanos,
        sum(communication_nanos) AS communication_nanos
    FROM gpu_time_by_step
    GROUP BY process_id, device
    UNION ALL
    SELECT
        process_id,
        device,
        exposed_communication_nanos AS exposed_nanos,
        communication_nanos
    FROM gpu_time
    WHERE process_id NOT IN (SELECT DISTINCT process_id FROM raw.steps)
),
-- The kernel that communicates longest on each device.
kernels AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        first_value(g.name_id ORDER BY g.total_nanos DESC, g.name_id) AS name_id
    FROM (
        SELECT
            a.process_id AS process_id,
            a.device AS device,
            a.name_id AS name_id,
            sum(a.duration_nanos) AS total_nanos
        FROM raw.gpu_activities AS a
        INNER JOIN step_summary AS s ON s.process_id = a.process_id
        WHERE
            a.kind = 'kernel'
            AND a.start_nanos >= s.first_nanos
            AND a.start_nanos < s.last_nanos
        GROUP BY a.process_id, a.device, a.name_id
    ) AS g
    WHERE gpu_class('kernel', name(g.name_id)) = 'communication'
    GROUP BY g.process_id, g.device
),
shares AS (
    SELECT
        d.process_id AS process_id,
        d.device AS device,
        CAST(d.exposed_nanos AS DOUBLE) / s.divisor AS impact_nanos,
        100.0 * d.exposed_nanos / s.window_nanos AS impact_percent,
        CAST(d.communication_nanos AS DOUBLE) / s.divisor AS communication_nanos,
        100.0 * (d.communication_nanos - d.exposed_nanos) / d.communication_nanos AS overlap_percent,
        s.step_count AS step_count,
        s.pid AS pid,
        s.rank AS rank
    FROM devices AS d
    INNER JOIN step_summary AS s ON s.process_id = d.process_id
    WHERE d.exposed_nanos > 0 AND s.window_nanos > 0
)
SELECT
    concat('device ', CAST(s.device AS VARCHAR)) AS subject,
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
    s.communication_nanos AS communication_nanos,
    s.overlap_percent AS overlap_percent,
    coalesce(name(k.name_id), 'unknown') AS kernel,
    s.device AS device,
    s.step_count AS step_count,
    s.pid AS pid
FROM shares AS s
LEFT JOIN kernels AS k ON k.process_id = s.process_id AND k.device = s.device
WHERE s.impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, rank, process_id, device
LIMIT 5
