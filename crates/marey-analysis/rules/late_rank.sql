-- The arrivals of ranks by host spans, without ranks whose collectives are numbered: the rule `straggler`
-- covers those.
WITH ranks AS (
    SELECT
        a.process_id AS process_id,
        min(a.thread_id) AS thread_id,
        max(a.rank_count) AS rank_count,
        max(s.window_nanos) AS window_nanos,
        max(s.divisor) AS divisor,
        max(s.pid) AS pid,
        max(s.rank) AS rank,
        first_value(a.path ORDER BY a.delay_nanos DESC, a.context_id) AS path,
        sum(a.waited_count) AS count,
        sum(a.last_count) AS last_count,
        sum(a.delay_nanos) AS delay_nanos,
        sum(sum(a.delay_nanos)) OVER () AS all_nanos,
        -- The expected number of last arrivals by chance, and its standard deviation.
        sum(CAST(a.waited_count AS DOUBLE) / a.rank_count) AS chance_count,
        sqrt(sum(CAST(a.waited_count AS DOUBLE) / a.rank_count * (1 - 1 / CAST(a.rank_count AS DOUBLE)))) AS deviation
    FROM rank_arrivals AS a
    INNER JOIN step_summary AS s ON s.process_id = a.process_id
    WHERE a.process_id NOT IN (SELECT process_id FROM stragglers WHERE count > 0)
    GROUP BY a.process_id
),
-- The exclusive time of each rank by name; null stands for steps, whose exclusive time has no name.
exclusive_times AS (
    SELECT
        k.process_id AS process_id,
        CASE WHEN c.kind <> 'step' THEN r.name_id END AS name_id,
        max(k.rank_count) AS rank_count,
        max(k.window_nanos) AS window_nanos,
        sum(r.self_nanos) AS self_nanos,
        sum(CASE WHEN c.depth = 1 THEN r.total_nanos ELSE 0 END) AS outer_nanos
    FROM raw.rollups AS r
    INNER JOIN raw.contexts AS c ON c.id = r.context_id
    INNER JOIN ranks AS k ON k.thread_id = r.thread_id
    WHERE r.bucket_nanos = 0
    GROUP BY k.process_id, CASE WHEN c.kind <> 'step' THEN r.name_id END
),
-- The name in which the rank exceeds the mean of the other ranks by most, and the same outside all spans.
causes AS (
    SELECT
        process_id,
        name_id,
        longer_nanos,
        bare_nanos - (sum(bare_nanos) OVER () - bare_nanos) / CAST(rank_count - 1 AS DOUBLE) AS longer_bare_nanos
    FROM (
        SELECT
            process_id,
            max(rank_count) AS rank_count,
            first_value(name_id ORDER BY longer_nanos DESC, name_id) AS name_id,
            max(longer_nanos) AS longer_nanos,
            max(bare_nanos) AS bare_nanos
        FROM (
            SELECT
                process_id,
                name_id,
                rank_count,
                CASE
                    WHEN name_id IS NULL THEN 0
                    ELSE self_nanos - (sum(self_nanos) OVER name - self_nanos) / CAST(rank_count - 1 AS DOUBLE)
                END AS longer_nanos,
                window_nanos
                    - sum(outer_nanos) OVER process
                    + sum(CASE WHEN name_id IS NULL THEN self_nanos ELSE 0 END) OVER process
                    AS bare_nanos
            FROM exclusive_times
            WINDOW name AS (PARTITION BY name_id), process AS (PARTITION BY process_id)
        ) AS o
        GROUP BY process_id
    ) AS p
),
shares AS (
    SELECT
        r.*,
        CASE WHEN n.longer_nanos > n.longer_bare_nanos THEN name(n.name_id) ELSE 'no span' END AS longer_name,
        greatest(n.longer_nanos, n.longer_bare_nanos, 0) / r.divisor AS longer_nanos,
        100.0 * r.last_count / r.count AS last_percent,
        100.0 * r.delay_nanos / r.all_nanos AS delay_percent,
        CAST(least(r.delay_nanos, r.window_nanos) AS DOUBLE) / r.divisor AS impact_nanos,
        100.0 * least(r.delay_nanos, r.window_nanos) / r.window_nanos AS impact_percent
    FROM ranks AS r
    INNER JOIN causes AS n ON n.process_id = r.process_id
    WHERE
        r.delay_nanos > 0
        AND r.count >= {min_count}
        AND r.last_count - r.chance_count >= {min_deviations} * r.deviation
)
SELECT
    CAST(concat('rank ', CAST(rank AS VARCHAR)) AS VARCHAR) AS subject,
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
    CAST(
        CASE WHEN last_percent >= {likely_percent} AND delay_percent >= {likely_percent} THEN 'likely' ELSE 'possible' END
        AS VARCHAR
    ) AS confidence,
    rank,
    process_id,
    path,
    rank_count,
    count,
    last_count,
    last_percent,
    chance_count,
    delay_nanos,
    delay_percent,
    CAST(longer_name AS VARCHAR) AS longer_name,
    longer_nanos,
    pid
FROM shares
WHERE impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, rank, process_id
LIMIT 5
