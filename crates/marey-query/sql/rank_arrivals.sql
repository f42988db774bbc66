WITH
ranked AS (
    SELECT
        process_id,
        rank,
        first_nanos,
        last_nanos,
        window_nanos,
        CAST(window_nanos AS DOUBLE) / divisor AS step_nanos
    FROM step_summary
    WHERE rank IS NOT NULL AND window_nanos > 0
),
-- A rank waits in the span itself, not in a nested one: candidates are contexts of several ranks whose
-- exclusive time is at least 1 % of the time of one of these ranks.
candidates AS (
    SELECT
        context_id,
        count(*) AS rank_count,
        max(step_nanos) AS step_nanos
    FROM (
        SELECT
            r.context_id AS context_id,
            w.process_id AS process_id,
            w.rank AS rank,
            max(w.step_nanos) AS step_nanos,
            sum(r.self_nanos) / CAST(max(w.window_nanos) AS DOUBLE) AS self_share
        FROM raw.rollups AS r
        JOIN raw.threads AS t ON t.id = r.thread_id
        JOIN ranked AS w ON w.process_id = t.process_id
        WHERE r.bucket_nanos = 0 AND kind(r.context_id) <> 'step'
        GROUP BY r.context_id, w.process_id, w.rank
    )
    GROUP BY context_id
    HAVING count(*) > 1 AND count(*) = count(DISTINCT rank) AND max(self_share) >= 0.01
),
-- The spans of the candidates, and the spans nested directly in them.
entered AS (
    SELECT
        t.process_id AS process_id,
        s.thread_id AS thread_id,
        k.context_id AS context_id,
        k.rank_count AS rank_count,
        k.step_nanos AS step_nanos,
        k.is_candidate AS is_candidate,
        s.start_nanos AS start_nanos,
        s.start_nanos + s.duration_nanos AS end_nanos
    FROM raw.spans AS s
    JOIN (
        SELECT
            context_id AS entered_id,
            context_id,
            rank_count,
            step_nanos,
            1 AS is_candidate
        FROM candidates
        UNION ALL
        SELECT
            c.id AS entered_id,
            k.context_id AS context_id,
            k.rank_count AS rank_count,
            k.step_nanos AS step_nanos,
            0 AS is_candidate
        FROM raw.contexts AS c
        JOIN candidates AS k ON k.context_id = c.parent_id
    ) AS k ON k.entered_id = s.context_id
    JOIN (
        SELECT
            t.id AS thread_id,
            w.process_id AS process_id,
            w.first_nanos AS first_nanos,
            w.last_nanos AS last_nanos
        FROM raw.threads AS t
        JOIN ranked AS w ON w.process_id = t.process_id
    ) AS t ON t.thread_id = s.thread_id
    WHERE s.start_nanos >= t.first_nanos AND s.start_nanos < t.last_nanos
),
-- The arrival of a rank is its entry into the span, or the end of the last span nested in it.
spans AS (
    SELECT
        process_id,
        thread_id,
        context_id,
        rank_count,
        step_nanos,
        start_nanos,
        end_nanos,
        greatest(start_nanos, least(coalesce(inner_end_nanos, start_nanos), end_nanos)) AS arrival_nanos
    FROM (
        SELECT
            process_id,
            thread_id,
            context_id,
            max(rank_count) AS rank_count,
            max(step_nanos) AS step_nanos,
            min(start_nanos) AS start_nanos,
            max(CASE WHEN is_candidate = 1 THEN end_nanos END) AS end_nanos,
            max(CASE WHEN is_candidate = 0 THEN end_nanos END) AS inner_end_nanos
        FROM (
            SELECT
                *,
                sum(is_candidate) OVER (
                    PARTITION BY thread_id, context_id
                    ORDER BY start_nanos, is_candidate DESC
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ) AS entry
            FROM entered
        )
        WHERE entry > 0
        GROUP BY process_id, thread_id, context_id, entry
    )
),
-- Each span with the number of the last step that began before it, and its position within that step.
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY process_id, context_id, step ORDER BY start_nanos, thread_id) AS turn
    FROM (
        SELECT
            *,
            max(number) OVER (
                PARTITION BY process_id
                ORDER BY start_nanos, is_step DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS step
        FROM (
            SELECT
                *,
                0 AS is_step
            FROM spans
            UNION ALL BY NAME
            -- The columns that only spans have are null.
            SELECT
                process_id,
                start_nanos,
                CAST(number AS BIGINT) AS number,
                1 AS is_step
            FROM raw.steps
        )
    )
    WHERE is_step = 0
),
ordered AS (
    SELECT
        n.process_id AS process_id,
        n.thread_id AS thread_id,
        n.context_id AS context_id,
        n.rank_count AS rank_count,
        n.step_nanos AS step_nanos,
        count(*) OVER occasion AS arrived,
        row_number() OVER arrival AS position,
        n.arrival_nanos - lag(n.arrival_nanos) OVER arrival AS behind_nanos,
        max(n.arrival_nanos) OVER occasion - n.arrival_nanos AS wait_nanos,
        max(n.arrival_nanos) OVER occasion - min(n.arrival_nanos) OVER occasion AS spread_nanos,
        max(n.end_nanos) OVER occasion - min(n.end_nanos) OVER occasion AS end_spread_nanos
    FROM numbered AS n
    WINDOW
        occasion AS (PARTITION BY n.context_id, n.step, n.turn),
        arrival AS (PARTITION BY n.context_id, n.step, n.turn ORDER BY n.arrival_nanos, n.process_id)
)
SELECT
    name(c.name_id) AS name,
    c.kind AS kind,
    path(p.context_id) AS path,
    p.rank_count AS rank_count,
    p.count AS count,
    p.waited_count AS waited_count,
    p.last_count AS last_count,
    p.delay_nanos AS delay_nanos,
    p.wait_nanos AS wait_nanos,
    pid(p.process_id) AS pid,
    rank(p.process_id) AS rank,
    p.process_id AS process_id,
    p.thread_id AS thread_id,
    p.context_id AS context_id
FROM (
    SELECT
        process_id,
        context_id,
        min(thread_id) AS thread_id,
        max(rank_count) AS rank_count,
        count(*) AS count,
        sum(CASE WHEN is_wait THEN 1 ELSE 0 END) AS waited_count,
        sum(CASE WHEN is_wait AND position = arrived AND behind_nanos > 0 THEN 1 ELSE 0 END) AS last_count,
        sum(CASE WHEN is_wait AND position = arrived THEN behind_nanos ELSE 0 END) AS delay_nanos,
        sum(CASE WHEN is_wait THEN wait_nanos ELSE 0 END) AS wait_nanos
    FROM (
        SELECT
            *,
            -- Early ranks stayed until the last one was done: nothing else explains that all end together.
            spread_nanos >= 0.01 * step_nanos AND end_spread_nanos <= 0.5 * spread_nanos AS is_wait
        FROM ordered
        WHERE arrived = rank_count
    )
    GROUP BY process_id, context_id
) AS p
JOIN raw.contexts AS c ON c.id = p.context_id
WHERE p.waited_count > 0
