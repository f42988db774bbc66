WITH RECURSIVE
last_samples AS (
    SELECT s.process_id AS process_id, s.thread_id AS thread_id, s.time_nanos AS time_nanos, s.context_id AS context_id
    FROM raw.samples AS s
    JOIN (
        SELECT process_id, thread_id, max(time_nanos) AS time_nanos
        FROM raw.samples
        WHERE time_nanos IS NOT NULL AND thread_id IS NOT NULL
        GROUP BY process_id, thread_id
    ) AS newest
        ON newest.process_id = s.process_id AND newest.thread_id = s.thread_id AND newest.time_nanos = s.time_nanos
),
-- Each frame of these stacks, the innermost at depth 0.
frames AS (
    SELECT l.process_id AS process_id, l.thread_id AS thread_id, l.time_nanos AS time_nanos,
        c.id AS context_id, c.parent_id AS parent_id, c.kind AS kind, c.name_id AS name_id, CAST(0 AS BIGINT) AS depth
    FROM last_samples AS l
    JOIN raw.contexts AS c ON c.id = l.context_id
    UNION ALL
    SELECT f.process_id AS process_id, f.thread_id AS thread_id, f.time_nanos AS time_nanos,
        c.id AS context_id, c.parent_id AS parent_id, c.kind AS kind, c.name_id AS name_id, f.depth + 1 AS depth
    FROM frames AS f
    JOIN raw.contexts AS c ON c.id = f.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id < f.context_id
),
-- Frames are named `file:line@function`.
named AS (
    SELECT
        *,
        split_part(name(name_id), '@', -1) AS function,
        left(name(name_id), -1 - CAST(character_length(split_part(name(name_id), '@', -1)) AS BIGINT)) AS place
    FROM frames
    WHERE kind = 'frame'
)
SELECT
    CAST(NULL AS VARCHAR) AS ip,
    left(place, -1 - CAST(character_length(split_part(place, ':', -1)) AS BIGINT)) AS file,
    function AS func,
    TRY_CAST(split_part(place, ':', -1) AS BIGINT) AS lineno,
    depth,
    CAST('Python' AS VARCHAR) AS frame_type,
    thread_name(thread_id) AS thread,
    time_nanos,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id
FROM named
