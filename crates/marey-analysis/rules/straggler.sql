-- As in the view `stragglers`, but only for collectives that began within the steps.
WITH delays AS (
    SELECT
        p.process_id AS process_id,
        p.device AS device,
        p.group_id AS group_id,
        p.group_ranks_id AS group_ranks_id,
        max(s.window_nanos) AS window_nanos,
        max(s.divisor) AS divisor,
        max(s.pid) AS pid,
        max(s.rank) AS rank,
        count(*) AS count,
        -- The number of last arrivals expected by chance.
        sum(1.0 / p.arrived) AS chance,
        sum(CASE WHEN p.position = p.arrived AND p.behind_nanos > 0 THEN 1 ELSE 0 END) AS last_count,
        sum(CASE WHEN p.position = p.arrived THEN p.behind_nanos ELSE 0 END) AS delay_nanos
    FROM internal.collective_arrivals AS p
    INNER JOIN step_summary AS s ON s.process_id = p.process_id
    WHERE
        p.arrived > 1
        AND NOT p.is_ambiguous
        AND p.start_nanos >= s.first_nanos
        AND p.start_nanos < s.last_nanos
    GROUP BY p.process_id, p.device, p.group_id, p.group_ranks_id
),
-- The total delay of each group, and the share of it that each rank would cause by chance.
groups AS (
    SELECT
        *,
        sum(delay_nanos) OVER (PARTITION BY group_id, group_ranks_id) AS all_nanos,
        chance / sum(chance) OVER (PARTITION BY group_id, group_ranks_id) AS fair
    FROM delays
),
shares AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        g.group_id AS group_id,
        g.group_ranks_id AS group_ranks_id,
        g.count AS count,
        g.last_count AS last_count,
        g.delay_nanos AS delay_nanos,
        100.0 * g.delay_nanos / g.all_nanos AS delay_percent,
        -- A delay at the end of the recording may be longer than the recording.
        least(g.delay_nanos, g.window_nanos) / CAST(g.divisor AS DOUBLE) AS impact_nanos,
        100.0 * least(g.delay_nanos, g.window_nanos) / g.window_nanos AS impact_percent,
        g.pid AS pid,
        g.rank AS rank
    FROM groups AS g
    WHERE
        g.delay_nanos > 0
        AND g.window_nanos > 0
        AND g.delay_nanos >= {min_ratio} * g.fair * g.all_nanos
)
SELECT
    CAST(
        CASE
            WHEN rank IS NULL THEN concat('process ', CAST(pid AS VARCHAR))
            ELSE concat('rank ', CAST(rank AS VARCHAR))
        END AS VARCHAR
    ) AS subject,
    CAST(
        CASE
            WHEN impact_percent > {high_percent} THEN 'high'
            WHEN impact_percent >= {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    impact_nanos,
    impact_percent,
    impact_nanos AS gain_nanos,
    CAST('likely' AS VARCHAR) AS confidence,
    rank,
    process_id,
    name(group_id) AS process_group,
    name(group_ranks_id) AS group_ranks,
    count,
    last_count,
    100.0 * last_count / count AS last_percent,
    delay_nanos,
    delay_percent,
    device,
    pid
FROM shares
WHERE impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, rank, process_id, device, process_group, group_ranks
LIMIT 5
