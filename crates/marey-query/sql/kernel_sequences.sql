WITH
-- The activities that each thread launched, numbered in the order of their calls.
launched AS (
    SELECT
        l.thread_id AS thread_id,
        l.start_nanos AS launch_nanos,
        row_number() OVER (
            PARTITION BY l.thread_id
            ORDER BY l.start_nanos, g.start_nanos, g.stream, g.duration_nanos, g.name_id
        ) AS position,
        g.start_nanos AS start_nanos,
        g.duration_nanos AS duration_nanos,
        g.stream AS stream,
        g.name_id AS name_id
    FROM raw.gpu_activities AS g
    JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.kind IN ('kernel', 'memcpy', 'memset')
),
-- Operators that launched at least 3 activities: the number of launches on the thread between the start and the
-- end of the operator.
operators AS (
    SELECT
        thread_id,
        context_id,
        name_id,
        start_nanos,
        end_nanos,
        min(position) AS first_position,
        max(position) - min(position) AS length
    FROM (
        SELECT
            thread_id,
            context_id,
            name_id,
            start_nanos,
            end_nanos,
            sum(is_launch) OVER (
                PARTITION BY thread_id
                ORDER BY time_nanos, is_launch
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS position
        FROM (
            SELECT
                thread_id,
                context_id,
                name_id,
                start_nanos,
                start_nanos + duration_nanos AS end_nanos,
                unnest([start_nanos, start_nanos + duration_nanos]) AS time_nanos,
                0 AS is_launch
            FROM raw.spans
            WHERE kind(context_id) IN ('operator', 'scope', 'module') AND duration_nanos > 0
            UNION ALL
            SELECT
                thread_id,
                NULL AS context_id,
                NULL AS name_id,
                NULL AS start_nanos,
                NULL AS end_nanos,
                launch_nanos AS time_nanos,
                1 AS is_launch
            FROM launched
        )
    )
    WHERE context_id IS NOT NULL
    GROUP BY thread_id, context_id, name_id, start_nanos, end_nanos
    HAVING max(position) - min(position) >= 3
),
-- An operator is outermost unless an earlier operator of the same name is still running.
instances AS (
    SELECT
        *,
        coalesce(
            max(end_nanos) OVER (
                PARTITION BY thread_id, name_id
                ORDER BY start_nanos, end_nanos DESC, depth(context_id)
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) <= start_nanos,
            true
        ) AS is_outermost
    FROM operators
)
SELECT
    name(c.name_id) AS name,
    c.kind AS kind,
    path(c.id) AS path,
    c.depth AS depth,
    s.is_outermost AS is_outermost,
    s.count AS count,
    s.length AS length,
    concat(
        concat_ws(
            ' -> ',
            name(s.name_ids[1]),
            name(s.name_ids[2]),
            name(s.name_ids[3]),
            name(s.name_ids[4]),
            name(s.name_ids[5]),
            name(s.name_ids[6]),
            name(s.name_ids[7]),
            name(s.name_ids[8]),
            name(s.name_ids[9]),
            name(s.name_ids[10])
        ),
        CASE WHEN s.length > 10 THEN concat(' -> … ', s.length - 10, ' more') ELSE '' END
    ) AS sequence,
    s.total_nanos AS total_nanos,
    CAST(s.total_nanos AS DOUBLE) / s.count AS mean_nanos,
    s.operator_nanos AS operator_nanos,
    CAST(s.operator_nanos AS DOUBLE) / s.count AS mean_operator_nanos,
    pid(s.process_id) AS pid,
    rank(s.process_id) AS rank,
    s.process_id AS process_id,
    s.context_id AS context_id
FROM (
    SELECT
        process_of(thread_id) AS process_id,
        context_id,
        is_outermost,
        name_ids,
        count(*) AS count,
        max(length) AS length,
        sum(total_nanos) AS total_nanos,
        sum(end_nanos - start_nanos) AS operator_nanos
    FROM (
        SELECT
            i.thread_id AS thread_id,
            i.context_id AS context_id,
            i.is_outermost AS is_outermost,
            i.start_nanos AS start_nanos,
            i.end_nanos AS end_nanos,
            i.length AS length,
            array_agg(g.name_id ORDER BY g.start_nanos, g.stream, g.position) AS name_ids,
            sum(g.duration_nanos) AS total_nanos
        FROM (
            SELECT
                i.*,
                i.first_position + n.value AS position
            FROM instances AS i
            CROSS JOIN generate_series(1, 64) AS n
            WHERE i.length <= 64 AND n.value <= i.length
        ) AS i
        JOIN launched AS g ON g.thread_id = i.thread_id AND g.position = i.position
        GROUP BY i.thread_id, i.context_id, i.is_outermost, i.start_nanos, i.end_nanos, i.length
    )
    GROUP BY process_of(thread_id), context_id, is_outermost, name_ids
) AS s
JOIN raw.contexts AS c ON c.id = s.context_id
