-- Times of imported files may be rounded to microseconds, so that nested operators begin at the same
-- time. PyTorch's arrows point to the innermost of them, which is the shortest.
WITH
arrows AS (
    SELECT
        s.flow_id AS flow_id,
        s.thread_id AS forward_thread_id,
        s.time_nanos AS forward_start_nanos,
        e.thread_id AS thread_id,
        e.time_nanos AS start_nanos
    FROM raw.flows AS s
    JOIN raw.flows AS e
        ON e.flow_id = s.flow_id
        AND e.category_id = s.category_id
        AND process_of(e.thread_id) = process_of(s.thread_id)
    WHERE name(s.category_id) = 'fwdbwd' AND s.point = 'start' AND e.point = 'end'
),
operators AS (
    SELECT
        thread_id,
        start_nanos,
        duration_nanos,
        context_id,
        name_id,
        row_number() OVER (PARTITION BY thread_id, start_nanos ORDER BY duration_nanos) AS place
    FROM raw.spans
    WHERE kind(context_id) = 'operator'
)
SELECT
    name(b.name_id) AS name,
    b.start_nanos AS start_nanos,
    b.duration_nanos AS duration_nanos,
    name(f.name_id) AS forward_name,
    path(f.context_id) AS forward_path,
    f.start_nanos AS forward_start_nanos,
    f.duration_nanos AS forward_duration_nanos,
    thread_name(b.thread_id) AS thread,
    pid(process_of(b.thread_id)) AS pid,
    rank(process_of(b.thread_id)) AS rank,
    process_of(b.thread_id) AS process_id,
    b.thread_id AS thread_id,
    b.context_id AS context_id,
    f.thread_id AS forward_thread_id,
    f.context_id AS forward_context
FROM arrows AS a
JOIN operators AS f
    ON f.thread_id = a.forward_thread_id AND f.start_nanos = a.forward_start_nanos AND f.place = 1
JOIN operators AS b
    ON b.thread_id = a.thread_id AND b.start_nanos = a.start_nanos AND b.place = 1
